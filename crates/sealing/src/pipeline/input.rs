//! New sectors, and pieces on their way into them.

use super::{Pipeline, PipelineError, machine_id};
use crate::State;
use crate::event::Event;
use crate::record::{Payload, PieceAssignment, SectorRecord};
use crate::staging::StagedPart;
use crate::steps::blocking;
use crate::storage::life_bytes;
use primitives::{SectorId, SectorNumber, UnpaddedSize};
use statemachine::{CreateError, SendError};
use std::sync::Arc;
use std::time::Duration;

/// Where a piece went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The sector.
    pub number: SectorNumber,
    /// Where in it, in padded bytes.
    pub offset: u64,
    /// The piece's size with its zero padding.
    pub size: UnpaddedSize,
    /// What it holds.
    pub payload: Payload,
}

impl Pipeline {
    /// The highest number in the store, that of a record which cannot be read included: its number is taken.
    async fn highest_stored(&self) -> Result<Option<SectorNumber>, PipelineError> {
        let read = self.all(None).await?.last().map(|s| s.record.number);
        let set_aside = self.group.quarantined().await?;
        let unread = set_aside.iter().filter_map(|q| q.id.as_str().parse().ok()).map(SectorNumber).max();
        Ok(read.max(unread))
    }

    /// The next number to give out: one more than any that is stored, allocated on chain, or on disk (PL-3). Asked anew
    /// each time; `last` remembers what this process gave out or found.
    pub(super) async fn next_number(
        &self,
        last: &mut Option<SectorNumber>,
    ) -> Result<SectorNumber, PipelineError> {
        let asking = |source| PipelineError::Chain { doing: "ask for allocated sector numbers", source };
        let head = self.world.chain.head().await.map_err(asking)?;
        let on_chain = self.world.chain.allocated_max(self.config.miner, &head.key).await.map_err(asking)?;
        let storage = Arc::clone(&self.world.storage);
        let miner = self.config.miner;
        let on_disk = blocking("look for sector files", move || storage.highest_number(miner))
            .await
            .map_err(|e| PipelineError::Failed(e.to_string()))?;
        let stored = match *last {
            Some(_) => None,
            None => self.highest_stored().await?,
        };
        let highest = [*last, on_chain, on_disk, stored].into_iter().flatten().max();
        *last = highest.or(Some(SectorNumber(0)));
        match highest {
            Some(n) if n >= SectorNumber::MAX => Err(PipelineError::Failed(format!(
                "sector numbers are used up: the highest one found is {n} (in the store, on chain, or as a file in storage)"
            ))),
            Some(n) => Ok(SectorNumber(n.0 + 1)),
            None => Ok(SectorNumber(1)),
        }
    }

    /// Creates a sector and lets `first` happen to it.
    async fn create(
        &self,
        last: &mut Option<SectorNumber>,
        first: Event,
    ) -> Result<SectorNumber, PipelineError> {
        // A second round when the number turns out to be taken: then the store knows more than this process remembers.
        match self.create_next(last, first.clone()).await {
            Err(PipelineError::Create(CreateError::Exists(_))) => {
                *last = None;
                self.create_next(last, first).await
            }
            answer => answer,
        }
    }

    async fn create_next(
        &self,
        last: &mut Option<SectorNumber>,
        first: Event,
    ) -> Result<SectorNumber, PipelineError> {
        let number = self.next_number(last).await?;
        let id = SectorId { miner: self.config.miner, number };
        let storage = Arc::clone(&self.world.storage);
        let bytes = life_bytes(self.config.proof);
        storage.reserve(id, bytes)?;
        let record = SectorRecord::new(id, self.config.proof, crate::tokio_env::now_ms());
        match self.group.create_with(&machine_id(number), record, first).await {
            Ok(_) => {
                *last = Some(number);
                Ok(number)
            }
            // Somebody else's sector, and somebody else's promise.
            Err(e @ CreateError::Exists(_)) => Err(e.into()),
            Err(e) => {
                storage.release(id);
                Err(e.into())
            }
        }
    }

    /// Places staged parts, in order: each in the first sector that waits for pieces and has room, else in a new one.
    ///
    /// Goes on to the end when the caller stops waiting.
    ///
    /// # Errors
    /// [`PipelineError::Partly`] when parts were placed before the one that failed: they stay. The failing one and those
    /// after it are deleted from staging.
    pub async fn add_parts(self: &Arc<Self>, parts: Vec<StagedPart>) -> Result<Vec<Placed>, PipelineError> {
        let this = Arc::clone(self);
        detached(async move { this.add_all(parts).await }).await
    }

    async fn add_all(&self, parts: Vec<StagedPart>) -> Result<Vec<Placed>, PipelineError> {
        let mut placed: Vec<Placed> = Vec::with_capacity(parts.len());
        let mut parts = parts.into_iter();
        while let Some(part) = parts.next() {
            let staged = part.staged.clone();
            match self.place(part).await {
                Ok(p) => placed.push(p),
                Err(e) => {
                    for name in std::iter::once(staged).chain(parts.map(|p| p.staged)) {
                        if let Err(e) = self.world.storage.unstage(&name) {
                            tracing::warn!(name, "{e}");
                        }
                    }
                    return Err(partly(&placed, e));
                }
            }
        }
        Ok(placed)
    }

    async fn place(&self, part: StagedPart) -> Result<Placed, PipelineError> {
        let size = UnpaddedSize::containing(part.payload.bytes)
            .filter(|size| size.bytes() <= self.config.proof.sector_size().unpadded_bytes())
            .ok_or_else(|| {
                PipelineError::Failed(format!("a piece of {} bytes fits in no sector", part.payload.bytes))
            })?;
        let mut last = self.placing.lock().await;
        for attempt in 0.. {
            let open = self.all(Some(&[State::WaitDeals, State::AddPiece, State::AddPieceFailed])).await?;
            let room = open
                .iter()
                .filter(|s| !s.record.pack_requested && s.record.proof == self.config.proof)
                .find_map(|s| s.record.place(size).map(|offset| (s.record.number, offset)));
            let (number, offset) = match room {
                Some(found) => found,
                None => (self.create(&mut last, self.start_event()).await?, 0),
            };
            let piece = PieceAssignment {
                staged: part.staged.clone(),
                size,
                offset,
                digest: part.digest,
                expected: None,
                payload: part.payload.clone(),
            };
            match self.group.send_and_wait(&machine_id(number), Event::AddPiece { piece }).await {
                Ok(_) => return Ok(Placed { number, offset, size, payload: part.payload }),
                // It started to pack in this moment: look again. Bounded, because each round finds or makes another one.
                Err(SendError::Rejected { .. }) if attempt < 8 => {}
                Err(e) => return Err(e.into()),
            }
        }
        unreachable!("the loop only ends by returning")
    }

    fn start_event(&self) -> Event {
        let now = crate::tokio_env::now_ms();
        let at = |wait: Duration| now.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        Event::Start { pack_at_ms: self.config.wait_deals.map(at) }
    }

    /// Makes a committed-capacity sector. Goes on to the end when the caller stops waiting.
    ///
    /// # Errors
    /// When there is no space, or chain or store fail.
    pub async fn pledge(self: &Arc<Self>) -> Result<SectorNumber, PipelineError> {
        let this = Arc::clone(self);
        detached(async move { this.create(&mut *this.placing.lock().await, Event::StartCc).await }).await
    }
}

/// Runs to the end whether or not the caller still waits: a client that hangs up must not leave half of it done.
async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, PipelineError>> + Send + 'static,
) -> Result<T, PipelineError> {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(e) => Err(PipelineError::Failed(format!("the work ended without an answer: {e}"))),
    }
}

/// The error of an input of which some parts are placed already.
fn partly(placed: &[Placed], cause: PipelineError) -> PipelineError {
    let Some(end) = placed.iter().map(|p| p.payload.input_offset + p.payload.bytes).max() else {
        return cause;
    };
    let mut sectors: Vec<String> = placed.iter().map(|p| p.number.to_string()).collect();
    sectors.dedup();
    PipelineError::Partly { bytes: end, sectors: sectors.join(", "), cause: Box::new(cause) }
}
