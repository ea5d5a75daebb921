//! Persisted state machines: a planner map as data, a durable inbox, runs, timers, an outbox, a journal.

#![forbid(unsafe_code)]

mod builder;
mod cancel;
mod cell;
mod commit;
mod config;
mod create;
mod diagram;
mod dispatch;
mod effects;
mod env;
mod error;
mod explain;
mod failure;
mod group;
mod inner;
mod journal;
mod keys;
mod kinds;
mod machine;
mod map;
mod outbox;
mod plan;
mod pump;
mod reader;
mod replay;
mod resources;
mod restart;
mod retry;
mod rule;
mod runs;
mod send;
mod settle;
mod signal;
mod step;
mod stored;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
#[cfg(test)]
mod tests_support;
mod timers;
mod verify;

pub use cancel::{Cancel, Cancelled};
pub use config::{GroupConfig, Steps};
pub use effects::Effects;
pub use env::{BoxFuture, Clock, Env, Spawner};
pub use error::{CreateError, OpenError, Quarantined, ReadError, SendError};
pub use explain::{Blocker, Explanation, OpenEffect, WaitingEvent, WaitingTimer};
pub use failure::{Class, Failure, TEXT_BYTES_MAX};
pub use group::{Applied, Change, Group, Health, Queued, StopReport, Verdict};
pub use journal::{JournalLine, LineKind};
pub use kinds::Kind;
pub use machine::{Fnv, ID_BYTES_MAX, IntentId, Machine, MachineId, RunId};
pub use map::{MapBuilder, Origin, PlannerMap, Role, Sender, StateBuilder};
pub use outbox::{EffectHandler, Intent, Outcome, Prepared};
pub use reader::{Reader, StoredEffect};
pub use replay::{Replay, replay};
pub use retry::RetryPolicy;
pub use rule::{
    ApplyFailureFn, ApplyFn, ChooseFailureFn, ChooseFn, Rule, defer, ignore, one_of, one_of_failure, park,
    reject, retry, stay, to,
};
pub use statestore::CodecError;
pub use step::{Progress, Step, StepContext};
pub use stored::{Failures, Instance, LastFailure, Parked, RunInfo, Trouble};
pub use verify::Finding;

/// Locks a mutex. A panic while it was held cannot have left a half-made change: every holder replaces whole values.
pub(crate) fn lock<T: ?Sized>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
