//! All machines of one kind: what callers see.

use crate::config::GroupConfig;
use crate::env::Env;
use crate::error::{CreateError, OpenError, ReadError, SendError};
use crate::explain::Explanation;
use crate::journal::JournalLine;
use crate::stored::Instance;
use crate::{Machine, MachineId, Quarantined};
use futures_channel::mpsc;
use statestore::Store;
use std::sync::Arc;
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
pub struct Group<M: Machine> {
    inner: Arc<crate::inner::Inner<M>>,
}

#[allow(clippy::unused_async)]
impl<M: Machine> Group<M> {
    /// Opens the machines of a store and restarts what is unfinished.
    ///
    /// # Errors
    /// [`OpenError::Map`] for a map with findings, [`OpenError::Config`] when steps or resources do not fit it.
    pub async fn open(store: Arc<dyn Store>, env: Env, config: GroupConfig<M>) -> Result<Arc<Self>, OpenError> {
        config.check()?;
        todo!()
    }
    /// Creates a machine in the map's initial state.
    ///
    /// # Errors
    /// When it exists, its id is bad, its record is too large, or the store fails.
    pub async fn create(&self, id: &MachineId, record: M::Record) -> Result<Instance<M>, CreateError> {
        todo!()
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
        todo!()
    }
    /// Puts an event into a machine's inbox. When it returns the event is on disk.
    ///
    /// # Errors
    /// When there is no such machine, its inbox is full, or the store fails.
    pub async fn send(&self, id: &MachineId, event: M::Event) -> Result<Queued, SendError> {
        todo!()
    }
    /// Sends an event and waits until it is applied.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`SendError::Rejected`] with the rule's reason.
    pub async fn send_and_wait(
        &self,
        id: &MachineId,
        event: M::Event,
    ) -> Result<Applied<M::State>, SendError> {
        todo!()
    }
    /// A machine; `None` when there is none.
    ///
    /// # Errors
    /// When the store fails or the row cannot be decoded.
    pub async fn get(&self, id: &MachineId) -> Result<Option<Instance<M>>, ReadError> {
        todo!()
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
        todo!()
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
        todo!()
    }
    /// Why a machine is where it is; `None` when there is none.
    ///
    /// # Errors
    /// When the store fails or the row cannot be decoded.
    pub async fn explain(&self, id: &MachineId) -> Result<Option<Explanation>, ReadError> {
        todo!()
    }
    /// Machines whose rows cannot be decoded.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn quarantined(&self) -> Result<Vec<Quarantined>, ReadError> {
        todo!()
    }
    /// Starts the next attempt at once: skips the delay, or un-parks. Ignored when there is nothing to retry.
    ///
    /// # Errors
    /// As [`send_and_wait`](Self::send_and_wait).
    pub async fn retry_now(&self, id: &MachineId) -> Result<Applied<M::State>, SendError> {
        todo!()
    }
    /// Cancels the run, or the wait for one, and parks the machine.
    ///
    /// # Errors
    /// As [`send_and_wait`](Self::send_and_wait).
    pub async fn abort_run(&self, id: &MachineId, reason: &str) -> Result<Applied<M::State>, SendError> {
        todo!()
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
        todo!()
    }
    /// Polls the outbox now: there is news outside.
    pub fn nudge(&self) {
        todo!()
    }
    /// Changes from now on, in memory. A reader that falls too far behind is cut off: its stream ends.
    pub fn watch(&self) -> mpsc::Receiver<Change<M::State>> {
        todo!()
    }
    /// Whether the group can write.
    pub fn health(&self) -> Health {
        todo!()
    }
    /// Ready when the restart at open has seen every machine.
    pub async fn restarted(&self) {
        todo!()
    }
    /// Takes nothing any more, cancels the runs, waits for them until the deadline.
    pub async fn stop(&self, deadline: Duration) -> StopReport {
        todo!()
    }
}
