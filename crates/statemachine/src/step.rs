//! The asynchronous work of a state, and what the engine gives it.

use crate::cancel::Cancel;
use crate::env::{BoxFuture, Clock};
use crate::retry::millis;
use crate::stored::Instance;
use crate::{Failure, Machine, MachineId, RunId};
use async_trait::async_trait;
use futures_util::future::{Either, select};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A state's work. One value serves all machines of the group.
#[async_trait]
pub trait Step<M: Machine>: Send + Sync + 'static {
    /// Works until there is an outcome: the event that the state waits for, or a classified failure. A panic is caught
    /// and becomes [`Class::Panic`](crate::Class::Panic). When the context's token is cancelled the step should end
    /// soon; its result is fenced off then, and after the group's grace the future is dropped.
    async fn run(&self, cx: StepContext<M>) -> Result<M::Event, Failure>;
}

/// How far a run is. Data for people; kept in memory only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// What is being done, e.g. `labels, layer 3 of 11`.
    pub phase: String,
    /// Units done.
    pub done: u64,
    /// Units in all; 0 when unknown.
    pub total: u64,
    /// What is counted, e.g. `bytes`, `nodes`.
    pub unit: String,
}

/// Takes an event of the run to the planner and tells when it is applied.
pub(crate) trait RunSender<M: Machine>: Send + Sync {
    fn send(&self, event: M::Event) -> BoxFuture<Result<(), Failure>>;
}

/// What a run knows and may do. Cheap to clone.
pub struct StepContext<M: Machine> {
    pub(crate) run: RunId,
    pub(crate) attempt: u32,
    pub(crate) snapshot: Arc<Instance<M>>,
    pub(crate) cancel: Cancel,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) progress: Arc<Mutex<Option<Progress>>>,
    pub(crate) sender: Arc<dyn RunSender<M>>,
}

impl<M: Machine> Clone for StepContext<M> {
    fn clone(&self) -> Self {
        Self {
            run: self.run.clone(),
            attempt: self.attempt,
            snapshot: Arc::clone(&self.snapshot),
            cancel: self.cancel.clone(),
            clock: Arc::clone(&self.clock),
            progress: Arc::clone(&self.progress),
            sender: Arc::clone(&self.sender),
        }
    }
}

impl<M: Machine> StepContext<M> {
    /// The machine.
    pub fn id(&self) -> &MachineId {
        &self.run.machine
    }

    /// The run's id: the same after no restart, so that two runs never share a thing named by it.
    pub fn run_id(&self) -> &RunId {
        &self.run
    }

    /// 1 for the first attempt since the last success of this state.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The machine as it was when the run started.
    pub fn snapshot(&self) -> &Instance<M> {
        &self.snapshot
    }

    /// The record as it was when the run started.
    pub fn record(&self) -> &M::Record {
        &self.snapshot.record
    }

    /// The token that ends the run.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Sends an event of this run, whose rule must be `stay`. When it returns the event is applied and on disk.
    ///
    /// # Errors
    /// [`Class::Cancelled`](crate::Class::Cancelled) when the run was fenced off meanwhile: end.
    /// [`Class::Permanent`](crate::Class::Permanent) when the map has another rule for it.
    pub async fn send(&self, event: M::Event) -> Result<(), Failure> {
        self.sender.send(event).await
    }

    /// Milliseconds since 1970 by the engine's clock.
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Sleeps by the engine's clock.
    ///
    /// # Errors
    /// [`Class::Cancelled`](crate::Class::Cancelled) when the run is cancelled before.
    pub async fn sleep(&self, duration: Duration) -> Result<(), Failure> {
        let until = self.clock.sleep_until(self.now_ms().saturating_add(millis(duration)));
        match select(until, self.cancel.cancelled()).await {
            Either::Left(_) if !self.cancel.is_cancelled() => Ok(()),
            _ => Err(Failure::cancelled(format_args!("run {} was cancelled", self.run))),
        }
    }

    /// Says how far the run is, for [`explain`](crate::Group::explain).
    pub fn progress(&self, progress: Progress) {
        *crate::lock(&self.progress) = Some(progress);
    }
}
