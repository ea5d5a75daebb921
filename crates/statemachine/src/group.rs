//! All machines of one kind: what callers see.

use crate::config::GroupConfig;
use crate::env::Env;
use crate::error::{CreateError, OpenError, ReadError, SendError};
use crate::explain::Explanation;
use crate::inner::Inner;
use crate::journal::JournalLine;
use crate::stored::{Input, Instance};
use crate::{Kind, Machine, MachineId, PlannerMap, Quarantined, Reader, lock};
use futures_channel::mpsc;
use futures_util::future::select;
use statestore::Store;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The event is on disk and will be planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    /// How many ordinary events wait for this machine, this one included.
    pub waiting: usize,
}

/// The event is applied and on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied<S> {
    /// The version that its commit made.
    pub version: u64,
    /// The state after it.
    pub state: S,
    /// What the rule said.
    pub verdict: Verdict<S>,
}

/// What became of an event. Rejected and refused ones are errors of the sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<S> {
    /// The state was left and entered.
    Moved {
        /// The state before.
        from: S,
        /// The state after.
        to: S,
    },
    /// Only the record changed.
    Stayed,
    /// Journalled with a reason, nothing else.
    Ignored {
        /// Why.
        reason: String,
    },
    /// It is on disk and waits until the state changes.
    Deferred,
}

/// A commit that changed a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<S> {
    /// The machine.
    pub id: MachineId,
    /// Its state now.
    pub state: S,
    /// Its version now.
    pub version: u64,
    /// The journal's sequence number of the commit.
    pub seq: u64,
}

/// What a stop cut.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StopReport {
    /// Runs that ended in time after their cancellation, or by themselves.
    pub ended: usize,
    /// Machines whose runs were cut at the deadline; they are interrupted at the next open.
    pub cut: Vec<MachineId>,
}

/// Whether the group can write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// Why the last commit failed; `None` once one succeeded.
    pub store_error: Option<String>,
    /// Whether the store must not be used any more (SS-3): report it, exit non-zero, start again.
    pub fatal: bool,
}

/// All machines of one kind over one store.
///
/// Dropping it ends its tasks as a crash would, without a loss; [`stop`](Self::stop) lets runs end first.
pub struct Group<M: Machine> {
    inner: Arc<Inner<M>>,
}

impl<M: Machine> Group<M> {
    /// Opens the machines of a store. Unfinished runs are journalled as interrupted and started again, timers that are
    /// due fire, outbox rows on their way are sent again; all that goes on after this returned, paced, see
    /// [`restarted`](Self::restarted).
    ///
    /// # Errors
    /// [`OpenError::Map`] for a map with findings, [`OpenError::Config`] when steps, handlers or resources do not fit
    /// it, [`OpenError::Store`] when timers and outbox cannot be read.
    pub async fn open(
        store: Arc<dyn Store>,
        env: Env,
        config: GroupConfig<M>,
    ) -> Result<Arc<Self>, OpenError> {
        config.check()?;
        let inner = Arc::new(Inner::new(store, env, config));
        let failed = |source| OpenError::Store { machine: M::NAME, source };
        inner.load_timers().await.map_err(failed)?;
        inner.load_outbox().await.map_err(failed)?;
        let spawner = Arc::clone(&inner.env.spawner);
        spawner.spawn(Box::pin(crate::restart::run(Arc::clone(&inner))));
        spawner.spawn(Box::pin(crate::timers::run(Arc::clone(&inner))));
        spawner.spawn(Box::pin(crate::dispatch::run(Arc::clone(&inner))));
        spawner.spawn(Box::pin(crate::settle::run(Arc::clone(&inner))));
        Ok(Arc::new(Self { inner }))
    }

    /// Creates a machine in the map's initial state.
    ///
    /// # Errors
    /// When it exists, its id is bad, its record is too large, the group stops, or the store fails.
    pub async fn create(&self, id: &MachineId, record: M::Record) -> Result<Instance<M>, CreateError> {
        crate::create::create(&self.inner, id, record, None).await
    }

    /// Creates a machine and puts a first event into its inbox, in one commit.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub async fn create_with(
        &self,
        id: &MachineId,
        record: M::Record,
        first: M::Event,
    ) -> Result<Instance<M>, CreateError> {
        crate::create::create(&self.inner, id, record, Some(first)).await
    }

    /// Puts an event into a machine's inbox. When it returns the event is on disk; it is planned soon, after what came
    /// before it (control events before all others).
    ///
    /// # Errors
    /// When there is no such machine, its inbox is full, the event is too large, the group stops, or the store fails.
    pub async fn send(&self, id: &MachineId, event: M::Event) -> Result<Queued, SendError> {
        crate::send::send(&self.inner, id, event).await
    }

    /// Sends an event and waits until it is applied and on disk. Until then it has no row of its own: after a crash
    /// before the answer it may be lost.
    ///
    /// # Errors
    /// As [`send`](Self::send); [`SendError::Rejected`] with the rule's reason; [`SendError::Refused`] when planning
    /// failed.
    pub async fn send_and_wait(
        &self,
        id: &MachineId,
        event: M::Event,
    ) -> Result<Applied<M::State>, SendError> {
        crate::send::send_and_wait(&self.inner, id, event).await
    }

    /// A machine; `None` when there is none.
    ///
    /// # Errors
    /// When the store fails or the row cannot be decoded.
    pub async fn get(&self, id: &MachineId) -> Result<Option<Instance<M>>, ReadError> {
        self.inner.reader.get(id).await
    }

    /// At most `limit` machines after an id, by id, of all or of some states.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list(
        &self,
        filter: Option<&[M::State]>,
        after: Option<&MachineId>,
        limit: usize,
    ) -> Result<Vec<Instance<M>>, ReadError> {
        self.inner.reader.list(filter, after, limit).await
    }

    /// At most `limit` lines of a machine's history after `after_seq`, oldest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn journal(
        &self,
        id: &MachineId,
        after_seq: u64,
        limit: usize,
    ) -> Result<Vec<JournalLine>, ReadError> {
        self.inner.reader.journal(id, after_seq, limit).await
    }

    /// Why a machine is where it is (SM-20); `None` when there is none.
    ///
    /// # Errors
    /// When the store fails or the row cannot be decoded.
    pub async fn explain(&self, id: &MachineId) -> Result<Option<Explanation>, ReadError> {
        crate::explain::explain(&self.inner, id).await
    }

    /// Machines whose rows cannot be decoded: set aside, untouched. Reads all rows.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn quarantined(&self) -> Result<Vec<Quarantined>, ReadError> {
        self.inner.reader.quarantined().await
    }

    /// A reader over the same store.
    pub fn reader(&self) -> &Reader<M> {
        &self.inner.reader
    }

    /// The planner map.
    pub fn map(&self) -> &PlannerMap<M> {
        &self.inner.config.map
    }

    /// Starts the next attempt at once: skips the delay, or un-parks with a fresh budget. Ignored when a run is in
    /// progress or there is nothing to retry.
    ///
    /// # Errors
    /// As [`send_and_wait`](Self::send_and_wait).
    pub async fn retry_now(&self, id: &MachineId) -> Result<Applied<M::State>, SendError> {
        crate::send::control(&self.inner, id, Input::RetryNow).await
    }

    /// Cancels the run, or the wait for one, and parks the machine. Ignored when there is no run.
    ///
    /// # Errors
    /// As [`send_and_wait`](Self::send_and_wait).
    pub async fn abort_run(&self, id: &MachineId, reason: &str) -> Result<Applied<M::State>, SendError> {
        let reason = crate::plan::short(reason.to_owned());
        crate::send::control(&self.inner, id, Input::Abort { reason }).await
    }

    /// Sets the state by hand; the reason is journalled.
    ///
    /// # Errors
    /// As [`send_and_wait`](Self::send_and_wait).
    pub async fn force(
        &self,
        id: &MachineId,
        state: M::State,
        reason: &str,
    ) -> Result<Applied<M::State>, SendError> {
        let reason = crate::plan::short(reason.to_owned());
        crate::send::control(&self.inner, id, Input::Force { state: state.name().to_owned(), reason }).await
    }

    /// Polls the outbox now, back-offs skipped: there is news outside.
    pub fn nudge(&self) {
        self.inner.outbox.nudge();
    }

    /// Changes from now on, in memory. A reader that falls too far behind is cut off: its stream ends.
    pub fn watch(&self) -> mpsc::Receiver<Change<M::State>> {
        self.inner.add_watcher()
    }

    /// Whether the group can write.
    pub fn health(&self) -> Health {
        lock(&self.inner.health).clone()
    }

    /// Ready when the restart at open has seen every machine.
    pub async fn restarted(&self) {
        self.inner.restarted.cancelled().await;
    }

    /// Takes nothing any more, cancels the runs, waits for them until the deadline, then ends all tasks. Runs that
    /// ended are on disk as interrupted; those that were cut are found so at the next open.
    pub async fn stop(&self, deadline: Duration) -> StopReport {
        let inner = &self.inner;
        inner.stopping.store(true, Ordering::Release);
        let mut runs = 0;
        for cell in inner.cells() {
            let cancels: Vec<_> = {
                let state = cell.lock();
                state.live.iter().chain(&state.ending).map(|run| run.cancel.clone()).collect()
            };
            runs += cancels.len();
            for cancel in cancels {
                cancel.cancel();
            }
        }
        let until_ms = inner.now_ms().saturating_add(crate::retry::millis(deadline));
        while !inner.is_quiet() && inner.now_ms() < until_ms {
            select(inner.env.clock.sleep_until(until_ms), Box::pin(inner.quiet.wait())).await;
        }
        let cut: Vec<MachineId> = inner
            .cells()
            .into_iter()
            .filter(|cell| {
                let state = cell.lock();
                state.live.is_some() || !state.ending.is_empty()
            })
            .map(|cell| cell.id.clone())
            .collect();
        inner.ended.cancel();
        StopReport { ended: runs.saturating_sub(cut.len()), cut }
    }
}

impl<M: Machine> Drop for Group<M> {
    fn drop(&mut self) {
        self.inner.stopping.store(true, Ordering::Release);
        self.inner.ended.cancel();
    }
}
