//! The pipeline as a node sees it: input goes in, sectors come out, and every question has an answer.

mod error;
mod input;

pub use error::PipelineError;
pub use input::Placed;

use crate::effects::{MessageHandler, SeedHandler, UnstageHandler};
use crate::event::Event;
use crate::prover::SealJob;
use crate::steps::{World, steps};
use crate::storage::life_bytes;
use crate::{Prover, Sector, SectorStorage, State, intent, planner_map};
use chain::{Address, Chain};
use primitives::{ActorId, Epoch, RegisteredSealProof, SectorNumber};
use statemachine::{
    Cancel, Change, Env, Explanation, Group, GroupConfig, Health, Instance, JournalLine, MachineId,
    Quarantined, SendError, StopReport,
};
use statestore::Store;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How a pipeline works.
#[derive(Debug, Clone)]
pub struct PipelineConfig {
    /// The miner.
    pub miner: ActorId,
    /// The proof of new sectors; fixes their size.
    pub proof: RegisteredSealProof,
    /// Who sends messages.
    pub sender: Address,
    /// Epochs a message or a seed must be buried before it counts.
    pub confidence: Epoch,
    /// Epochs that must be left of a ticket's age when its pre-commit is sent.
    pub submit_margin: Epoch,
    /// How long a sector waits for more pieces before it is sealed; `None`: until it is full or told to.
    pub wait_deals: Option<Duration>,
    /// Runs at a time, by stage.
    pub parallel: Parallel,
    /// How often the chain is asked about open messages when no new head nudges.
    pub poll_interval: Duration,
}

/// How many runs of each stage go on at a time (PL-20).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parallel {
    /// Pieces being written.
    pub add_piece: u32,
    /// PC1.
    pub precommit1: u32,
    /// PC2.
    pub precommit2: u32,
    /// C1 and C2.
    pub commit: u32,
    /// Finalize.
    pub finalize: u32,
}

impl Default for Parallel {
    fn default() -> Self {
        Self { add_piece: 1, precommit1: 1, precommit2: 1, commit: 1, finalize: 2 }
    }
}

/// A sector with everything stored of it.
pub type SectorInstance = Instance<Sector>;

/// All sectors of a miner, and the work on them.
pub struct Pipeline {
    group: Arc<Group<Sector>>,
    world: Arc<World>,
    config: PipelineConfig,
    /// Held while pieces are placed and numbers given out: two inputs must not take one place.
    placing: Mutex<Option<SectorNumber>>,
}

/// The machine's id of a sector: zero-padded, so that ids sort as numbers.
pub fn machine_id(number: SectorNumber) -> MachineId {
    MachineId::from(format!("{:020}", number.0).as_str())
}

impl Pipeline {
    /// Opens the sectors of a store and goes on with all unfinished work.
    ///
    /// # Errors
    /// When the engine does not open, or files or chain cannot be asked for used numbers (PL-3).
    pub async fn open(
        store: Arc<dyn Store>,
        env: Env,
        chain: Arc<dyn Chain>,
        prover: Arc<dyn Prover>,
        storage: Arc<dyn SectorStorage>,
        config: PipelineConfig,
    ) -> Result<Arc<Self>, PipelineError> {
        let submit_margin = config.submit_margin;
        let world = Arc::new(World {
            chain: Arc::clone(&chain),
            prover,
            storage: Arc::clone(&storage),
            submit_margin,
        });
        let messages = Arc::new(MessageHandler {
            chain: Arc::clone(&chain),
            sender: config.sender.clone(),
            confidence: config.confidence,
        });
        let parallel = config.parallel;
        let mut group = GroupConfig::new(planner_map())
            .effect(intent::PRECOMMIT, Arc::clone(&messages) as _)
            .effect(intent::COMMIT, messages as _)
            .effect(intent::SEED, Arc::new(SeedHandler { chain, confidence: config.confidence }))
            .effect(intent::UNSTAGE, Arc::new(UnstageHandler { storage: Arc::clone(&storage) }))
            .resource("add-piece", parallel.add_piece)
            .resource("precommit1", parallel.precommit1)
            .resource("precommit2", parallel.precommit2)
            .resource("commit", parallel.commit)
            .resource("finalize", parallel.finalize);
        group.steps = steps(&world);
        group.poll_interval = config.poll_interval;
        let staged_before = storage.all_staged()?;
        let group = Group::open(store, env, group).await?;
        let pipeline = Arc::new(Self { group, world, config, placing: Mutex::new(None) });
        pipeline.promise_space().await?;
        pipeline.next_number(&mut *pipeline.placing.lock().await).await?;
        pipeline.sweep(staged_before).await?;
        Ok(pipeline)
    }

    /// Promises space again to every sector that is being sealed. It was promised when the sector was taken in: that the
    /// disk has filled up since is for the stages to find out, not a reason to start with no sector at all.
    async fn promise_space(&self) -> Result<(), PipelineError> {
        for sector in self.all(None).await? {
            if sector.state.is_sealing() {
                let id = sector.record.id();
                if let Err(e) = self.world.storage.reserve(id, life_bytes(sector.record.proof)) {
                    tracing::warn!(sector = id.number.0, "{e}");
                }
            }
        }
        Ok(())
    }

    /// Deletes staged pieces from before this start that no sector knows: their sender was never told they were taken.
    async fn sweep(&self, staged: Vec<String>) -> Result<(), PipelineError> {
        if staged.is_empty() {
            return Ok(());
        }
        self.group.restarted().await;
        let mut known = std::collections::HashSet::new();
        for sector in self.all(None).await? {
            let waiting = self.group.explain(&sector.id).await?.is_some_and(|e| !e.inbox.is_empty());
            if waiting {
                // An accepted piece may still be in the inbox: leave everything for the next start.
                return Ok(());
            }
            known.extend(sector.record.assigned.into_iter().map(|a| a.staged));
        }
        for name in staged.iter().filter(|name| !known.contains(*name)) {
            tracing::info!(name, "deleting a staged piece that belongs to no sector");
            self.world.storage.unstage(name)?;
        }
        Ok(())
    }

    async fn known(&self, number: SectorNumber) -> Result<SectorInstance, PipelineError> {
        self.group.get(&machine_id(number)).await?.ok_or(PipelineError::Unknown(number))
    }

    async fn send(&self, number: SectorNumber, event: Event) -> Result<State, PipelineError> {
        match self.group.send_and_wait(&machine_id(number), event).await {
            Ok(applied) => Ok(applied.state),
            Err(SendError::Rejected { state, reason, .. }) => {
                Err(PipelineError::Refused { number, state: state.to_owned(), reason })
            }
            Err(SendError::Unknown(_)) => Err(PipelineError::Unknown(number)),
            Err(e) => Err(e.into()),
        }
    }

    /// Stops waiting for pieces and seals.
    ///
    /// # Errors
    /// When the sector is unknown, or past taking pieces.
    pub async fn seal(&self, number: SectorNumber) -> Result<State, PipelineError> {
        let sector = self.known(number).await?;
        if !matches!(sector.state, State::WaitDeals | State::AddPiece | State::AddPieceFailed) {
            let reason = "only a sector that waits for pieces can be told to seal".to_owned();
            return Err(PipelineError::Refused { number, state: format!("{:?}", sector.state), reason });
        }
        self.send(number, Event::StartPacking).await
    }

    /// Deletes a sector's files (PL-11). Idempotent; legal in every state. A sector on chain has to be confirmed.
    ///
    /// # Errors
    /// [`PipelineError::Unconfirmed`], or when the sector is unknown.
    pub async fn remove(&self, number: SectorNumber, confirmed: bool) -> Result<State, PipelineError> {
        let event = if confirmed { Event::RemoveConfirmed } else { Event::Remove };
        match self.send(number, event).await {
            Err(PipelineError::Refused { number, state, .. }) => {
                Err(PipelineError::Unconfirmed { number, state })
            }
            answer => answer,
        }
    }

    /// Tries again now: un-parks, skips a delay, or leaves a failed state on the way its recovery would take. Counters of
    /// faults start anew, because somebody has looked.
    ///
    /// # Errors
    /// When the sector is unknown or nothing could be retried.
    pub async fn retry(&self, number: SectorNumber) -> Result<State, PipelineError> {
        let sector = self.known(number).await?;
        let way_back = match sector.state {
            State::PackingFailed => Some(Event::RetryPacking),
            State::SealPreCommit1Failed => Some(Event::RetrySealPreCommit1),
            State::SealPreCommit2Failed => Some(Event::RetrySealPreCommit2),
            State::PreCommitFailed => Some(Event::RetryPreCommit),
            State::ComputeProofFailed => Some(Event::RetryComputeProof),
            State::CommitFailed => Some(Event::RetrySubmitCommit),
            State::FinalizeFailed => Some(Event::RetryFinalize),
            State::RemoveFailed => Some(Event::RetryRemove),
            _ => None,
        };
        if let Some(event) = way_back {
            self.send(number, Event::ForgetFaults).await?;
            return self.send(number, event).await;
        }
        let waits = sector.parked.is_some() || sector.next_try_ms.is_some();
        if !waits {
            return Err(PipelineError::NothingToRetry { number, state: format!("{:?}", sector.state) });
        }
        Ok(self.group.retry_now(&machine_id(number)).await?.state)
    }

    /// A sector.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn sector(&self, number: SectorNumber) -> Result<Option<SectorInstance>, PipelineError> {
        Ok(self.group.get(&machine_id(number)).await?)
    }

    /// At most `limit` sectors after a number, by number, of all or of some states.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn sectors(
        &self,
        states: Option<&[State]>,
        after: Option<SectorNumber>,
        limit: usize,
    ) -> Result<Vec<SectorInstance>, PipelineError> {
        Ok(self.group.list(states, after.map(machine_id).as_ref(), limit).await?)
    }

    async fn all(&self, states: Option<&[State]>) -> Result<Vec<SectorInstance>, PipelineError> {
        const PAGE: usize = 1000;
        let mut out: Vec<SectorInstance> = Vec::new();
        loop {
            let after = out.last().map(|s| s.id.clone());
            let page = self.group.list(states, after.as_ref(), PAGE).await?;
            let full = page.len() == PAGE;
            out.extend(page);
            if !full {
                return Ok(out);
            }
        }
    }

    /// A sector's history, oldest first, after a place in the journal.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn journal(
        &self,
        number: SectorNumber,
        after: u64,
        limit: usize,
    ) -> Result<Vec<JournalLine>, PipelineError> {
        Ok(self.group.journal(&machine_id(number), after, limit).await?)
    }

    /// Why a sector is where it is.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn explain(&self, number: SectorNumber) -> Result<Option<Explanation>, PipelineError> {
        Ok(self.group.explain(&machine_id(number)).await?)
    }

    /// Sectors whose records cannot be read.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn quarantined(&self) -> Result<Vec<Quarantined>, PipelineError> {
        Ok(self.group.quarantined().await?)
    }

    /// Gives back `bytes` bytes of a sector's data from `offset` (both unpadded), computed from the replica. `cancel` ends
    /// the computation of the key, which takes as long as PC1.
    ///
    /// # Errors
    /// When the sector is not sealed, or its files are damaged.
    pub async fn unseal(
        &self,
        number: SectorNumber,
        offset: u64,
        bytes: u64,
        out: Box<dyn std::io::Write + Send>,
        cancel: Cancel,
    ) -> Result<u64, PipelineError> {
        let sector = self.known(number).await?;
        let r = &sector.record;
        let not_sealed = |reason: &str| PipelineError::NotSealed {
            number,
            state: format!("{:?}", sector.state),
            reason: reason.to_owned(),
        };
        if matches!(sector.state, State::Removing | State::RemoveFailed | State::Removed) {
            return Err(not_sealed("its files are gone, or going"));
        }
        let comm_d = r.comm_d.ok_or_else(|| not_sealed("its CommD is not known yet"))?;
        if r.comm_r.is_none() {
            return Err(not_sealed("its replica is not made yet"));
        }
        let job = SealJob::of(r, self.world.storage.paths(r.id())).map_err(|f| not_sealed(&f.message))?;
        self.world.prover.unseal(job, comm_d, offset, bytes, out, cancel).await.map_err(PipelineError::Unseal)
    }

    /// Changes of sectors from now on.
    pub fn watch(&self) -> futures_channel::mpsc::Receiver<Change<State>> {
        self.group.watch()
    }

    /// Looks at open messages and seeds now: there is a new head.
    pub fn nudge(&self) {
        self.group.nudge();
    }

    /// Whether the store takes writes.
    pub fn health(&self) -> Health {
        self.group.health()
    }

    /// How it works.
    pub fn config(&self) -> &PipelineConfig {
        &self.config
    }

    /// The files.
    pub fn storage(&self) -> &Arc<dyn SectorStorage> {
        &self.world.storage
    }

    /// The chain.
    pub fn chain(&self) -> &Arc<dyn Chain> {
        &self.world.chain
    }

    /// Cancels all runs and waits for them until the deadline. Finished units stay.
    pub async fn stop(&self, deadline: Duration) -> StopReport {
        self.group.stop(deadline).await
    }
}
