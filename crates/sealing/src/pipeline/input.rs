//! New sectors, and pieces on their way into them.

use super::{Pipeline, PipelineError, machine_id};
use crate::State;
use crate::event::Event;
use crate::record::{Payload, PieceAssignment, SectorRecord};
use crate::staging::StagedPart;
use crate::steps::blocking;
use crate::storage::life_bytes;
use primitives::{SectorId, SectorNumber, UnpaddedSize};
use statemachine::SendError;
use std::sync::Arc;

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
        Ok(SectorNumber(highest.map_or(1, |n| n.0 + 1)))
    }

    /// Creates a sector and lets `first` happen to it.
    async fn create(
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
            Err(e) => {
                storage.release(id);
                Err(e.into())
            }
        }
    }

    /// Places staged parts, in order: each in the first sector that waits for pieces and has room, else in a new one.
    ///
    /// # Errors
    /// Parts before the failing one stay placed; the failing one and those after it are deleted from staging.
    pub async fn add_parts(&self, parts: Vec<StagedPart>) -> Result<Vec<Placed>, PipelineError> {
        let mut placed = Vec::with_capacity(parts.len());
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
                    return Err(e);
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
        Event::Start { pack_at_ms: self.config.wait_deals.map(|wait| now + wait.as_millis() as u64) }
    }

    /// Makes a committed-capacity sector.
    ///
    /// # Errors
    /// When there is no space, or chain or store fail.
    pub async fn pledge(&self) -> Result<SectorNumber, PipelineError> {
        let mut last = self.placing.lock().await;
        self.create(&mut last, Event::StartCc).await
    }
}
