//! Why a machine is where it is (SM-20).

use crate::stored::{LastFailure, Parked, RunInfo, Trouble};
use crate::{Class, MachineId, Progress, Sender};
use serde::Serialize;

/// Everything that answers "why is it there, and what happens next".
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The machine.
    pub id: MachineId,
    /// Its state.
    pub state: &'static str,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// The version of its row.
    pub version: u64,
    /// The run that is wanted or in progress.
    pub run: Option<RunInfo>,
    /// How far the run is, if it says so.
    pub progress: Option<Progress>,
    /// Whether the run is over its soft limit.
    pub slow: bool,
    /// Events that wait.
    pub inbox: Vec<WaitingEvent>,
    /// Timers.
    pub timers: Vec<WaitingTimer>,
    /// Effects that are not settled.
    pub outbox: Vec<OpenEffect>,
    /// What stands in the way.
    pub blocker: Option<Blocker>,
    /// The last failure.
    pub last_failure: Option<LastFailure>,
    /// Failures since the last success of this state, by class.
    pub attempts: Vec<(Class, u32)>,
    /// When the step is tried again.
    pub next_try_ms: Option<u64>,
    /// The last input that planning refused by an error of its own.
    pub trouble: Option<Trouble>,
    /// What needs attention: retrying for over an hour, a soft limit passed, trouble in planning.
    pub alerts: Vec<String>,
    /// The kinds of events that would do something now, and who sends them.
    pub legal_events: Vec<(&'static str, Sender)>,
}

/// What stands in a machine's way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Blocker {
    /// A person has to act.
    Parked(Parked),
    /// A run waits for a resource.
    Resource {
        /// Its name.
        name: String,
        /// Units needed.
        needed: u32,
        /// Units free now.
        free: u32,
        /// Runs that are before it.
        ahead: usize,
    },
    /// A cancelled run has not ended yet.
    EndingRun,
    /// The next attempt or timer is due at this time, in milliseconds since 1970.
    Time(u64),
    /// An effect that is not settled.
    Effect(String),
    /// Too many events a minute: planning goes on at this time, in milliseconds since 1970.
    RateLimit(u64),
    /// The store refuses to write.
    Store(String),
}

/// An event that waits in the inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitingEvent {
    /// Its kind.
    pub kind: &'static str,
    /// Whether it waits for the state to change.
    pub deferred: bool,
}

/// A timer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitingTimer {
    /// Its name.
    pub name: String,
    /// When it is due, in milliseconds since 1970.
    pub at_ms: u64,
    /// The kind of its event; `None` for the engine's retry.
    pub event: Option<&'static str>,
}

/// An effect that is not settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenEffect {
    /// The version that decided it.
    pub version: u64,
    /// Its place in that commit.
    pub ordinal: u32,
    /// Its kind.
    pub kind: String,
    /// `decided`, `prepared` or `sent`.
    pub stage: &'static str,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// How often its handler failed in a row since this process started.
    pub failures: u32,
    /// What the handler said last.
    pub last_error: Option<String>,
    /// When the handler is called next, in milliseconds since 1970.
    pub next_ms: Option<u64>,
}
