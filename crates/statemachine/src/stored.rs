//! What is stored: the machine's row, rows that wait, and journal entries. Changing a field here is a schema change
//! ([`SCHEMA`]); named CBOR maps read older rows as long as new fields have defaults.

use crate::machine::Machine;
use crate::{Class, Failure, Kind, MachineId, Sender};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use std::collections::BTreeMap;

/// The schema version of every row and journal entry of this crate.
pub(crate) const SCHEMA: u16 = 1;

/// Kinds are stored as their text; an unknown text is an error of decoding, which sets the row aside.
pub(crate) mod kind_text {
    use super::{Deserialize, Deserializer, Kind, Serializer};

    pub(crate) fn serialize<K: Kind, S: Serializer>(kind: &K, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(kind.name())
    }

    pub(crate) fn deserialize<'de, K: Kind, D: Deserializer<'de>>(from: D) -> Result<K, D::Error> {
        let name = String::deserialize(from)?;
        K::parse(&name).ok_or_else(|| {
            serde::de::Error::custom(format_args!("unknown {} {name:?}", std::any::type_name::<K>()))
        })
    }
}

pub(crate) type StoredOf<M> = Stored<<M as Machine>::State, <M as Machine>::Record>;
pub(crate) type InputOf<M> = Input<<M as Machine>::Record, <M as Machine>::Event>;
pub(crate) type EntryOf<M> = Entry<<M as Machine>::Record, <M as Machine>::Event>;

/// A machine's row: the record and everything the engine needs to go on from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound(serialize = "S: Kind, R: Serialize", deserialize = "S: Kind, R: DeserializeOwned"))]
pub(crate) struct Stored<S, R> {
    #[serde(with = "kind_text")]
    pub(crate) state: S,
    /// 1 when created, one more with each commit.
    pub(crate) version: u64,
    pub(crate) created_at_ms: u64,
    pub(crate) changed_at_ms: u64,
    pub(crate) entered_at_ms: u64,
    /// The version that entered the state.
    pub(crate) entered_version: u64,
    pub(crate) run: Option<StoredRun>,
    /// Failures by state and class since the last success.
    pub(crate) failures: BTreeMap<String, BTreeMap<Class, Failures>>,
    pub(crate) next_try_ms: Option<u64>,
    pub(crate) last_failure: Option<LastFailure>,
    pub(crate) parked: Option<Parked>,
    pub(crate) guard: Guard,
    pub(crate) trouble: Option<Trouble>,
    pub(crate) record: R,
}

/// A run that is wanted or in progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredRun {
    /// The version that asked for it.
    pub(crate) version: u64,
    pub(crate) attempt: u32,
    /// `None` while it waits for admission.
    pub(crate) started_at_ms: Option<u64>,
}

/// Failures of one state and class since the last success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// How many.
    pub count: u32,
    /// When the first one was, in milliseconds since 1970.
    pub first_at_ms: u64,
    /// When the last one was.
    pub last_at_ms: u64,
}

/// The last failure of a machine's runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastFailure {
    /// Its class.
    pub class: Class,
    /// What was being done to what, clipped.
    pub message: String,
    /// The state whose step failed.
    pub state: String,
    /// The state that made a corrupt input.
    pub made_by: Option<String>,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
}

/// Why a machine stands still until a person acts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// Why.
    pub reason: String,
    /// The class of the failure that led here.
    pub class: Option<Class>,
    /// What would move it.
    pub next_action: String,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
}

/// How often states were entered since the last new fact (SM-12).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Guard {
    pub(crate) facts: u64,
    pub(crate) entries: BTreeMap<String, u32>,
}

/// The last input that planning refused by an error of its own: health, not death (SM-13).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// The event or input.
    pub what: String,
    /// The error.
    pub reason: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
}

/// What moves a machine. The journal keeps it whole, so that folding the same inputs gives the same row (SM-3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "R: Serialize, E: Serialize",
    deserialize = "R: DeserializeOwned, E: DeserializeOwned"
))]
pub(crate) enum Input<R, E> {
    Created { record: R },
    Event { event: E, source: Sender, run: Option<u64> },
    RunStarted { run: u64 },
    RunEnded { run: u64, outcome: Outcome<E> },
    Interrupted { run: u64, reason: String },
    RetryDue,
    RetryNow,
    Abort { reason: String },
    Force { state: String, reason: String },
    Stuck { version: u64, reason: String },
    Refused { what: String, reason: String, run: Option<u64>, from_engine: bool },
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Outcome<E> {
    Event(E),
    Failure(Failure),
}

/// What became of an input, as text in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ruling {
    Moved,
    Stayed,
    Ignored,
    Rejected,
    Refused,
}

/// A journal entry: a transition, which is folded, or a fact, which is not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "R: Serialize, E: Serialize",
    deserialize = "R: DeserializeOwned, E: DeserializeOwned"
))]
pub(crate) enum Entry<R, E> {
    Step {
        at_ms: u64,
        /// The version this entry made.
        version: u64,
        from: Option<String>,
        to: String,
        ruling: Ruling,
        note: Option<String>,
        /// The run this ended or fenced off.
        ended_run: Option<u64>,
        input: Input<R, E>,
    },
    Fact {
        at_ms: u64,
        version: u64,
        fact: Fact,
    },
}

/// What happened without changing the machine's row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Fact {
    /// A late result or event of a run that was fenced off.
    Dropped { run: u64, what: String },
    /// The run is over its soft limit.
    Slow { run: u64, limit_ms: u64 },
    /// A cancelled run did not end within its grace and was given up.
    Abandoned { run: u64 },
    /// An outbox row changed.
    Outbox { version: u64, ordinal: u32, kind: String, change: String },
}

/// An event that waits in the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound(serialize = "E: Serialize", deserialize = "E: DeserializeOwned"))]
pub(crate) struct InboxRow<E> {
    pub(crate) at_ms: u64,
    pub(crate) source: Sender,
    pub(crate) event: E,
}

/// A timer in the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound(serialize = "E: Serialize", deserialize = "E: DeserializeOwned"))]
pub(crate) struct TimerRow<E> {
    pub(crate) at_ms: u64,
    pub(crate) event: Option<E>,
}

/// The engine's own timer: the next attempt.
pub(crate) const RETRY_TIMER: &str = "~retry";

/// An effect in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OutboxRow {
    pub(crate) kind: String,
    #[serde(with = "bytes")]
    pub(crate) payload: Vec<u8>,
    pub(crate) created_at_ms: u64,
    pub(crate) stage: OutboxStage,
    /// When the stage was reached.
    pub(crate) stage_at_ms: u64,
    /// How often it was prepared.
    pub(crate) preparations: u32,
}

/// How far an effect has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OutboxStage {
    Decided,
    Prepared {
        #[serde(with = "bytes")]
        bytes: Vec<u8>,
    },
    Sent {
        #[serde(with = "bytes")]
        bytes: Vec<u8>,
    },
}

/// Byte strings instead of lists of numbers.
mod bytes {
    use serde::{Deserializer, Serializer, de::Visitor};
    use std::fmt;

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Vec<u8>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a byte string")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }
            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
                Ok(bytes)
            }
        }
        from.deserialize_byte_buf(Bytes)
    }
}

/// A machine as it is now: its record and where it stands.
pub struct Instance<M: Machine> {
    /// Its id.
    pub id: MachineId,
    /// Its state.
    pub state: M::State,
    /// Its record.
    pub record: M::Record,
    /// The version of the row: 1 when created, one more with each commit.
    pub version: u64,
    /// When it was created, in milliseconds since 1970.
    pub created_at_ms: u64,
    /// When the last commit was.
    pub changed_at_ms: u64,
    /// When it came into its state.
    pub entered_at_ms: u64,
    /// The run that is wanted or in progress.
    pub run: Option<RunInfo>,
    /// Failures of the current state's step since its last success, by class.
    pub failures: BTreeMap<Class, Failures>,
    /// The number of the next or current attempt of this state's step; the first is 1.
    pub attempt: u32,
    /// The last failure of any step.
    pub last_failure: Option<LastFailure>,
    /// Why it stands still until a person acts.
    pub parked: Option<Parked>,
    /// When the step is tried again, in milliseconds since 1970.
    pub next_try_ms: Option<u64>,
    /// The last input that planning refused by an error of its own.
    pub trouble: Option<Trouble>,
}

/// A run that is wanted or in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInfo {
    /// The version that asked for it: with the machine, the run's id.
    pub version: u64,
    /// 1 for the first.
    pub attempt: u32,
    /// When it started, in milliseconds since 1970; `None` while it waits for its resources.
    pub started_at_ms: Option<u64>,
}

impl<M: Machine> Instance<M> {
    pub(crate) fn of(id: &MachineId, stored: &StoredOf<M>) -> Self {
        Self {
            id: id.clone(),
            state: stored.state,
            record: stored.record.clone(),
            version: stored.version,
            created_at_ms: stored.created_at_ms,
            changed_at_ms: stored.changed_at_ms,
            entered_at_ms: stored.entered_at_ms,
            run: stored.run.as_ref().map(|run| RunInfo {
                version: run.version,
                attempt: run.attempt,
                started_at_ms: run.started_at_ms,
            }),
            failures: stored.failures.get(stored.state.name()).cloned().unwrap_or_default(),
            attempt: stored.run.as_ref().map_or_else(|| stored.next_attempt(), |run| run.attempt),
            last_failure: stored.last_failure.clone(),
            parked: stored.parked.clone(),
            next_try_ms: stored.next_try_ms,
            trouble: stored.trouble.clone(),
        }
    }
}

impl<S: Kind, R> Stored<S, R> {
    /// The number the next attempt of this state's step has.
    pub(crate) fn next_attempt(&self) -> u32 {
        let failed = self.failures.get(self.state.name());
        failed.map_or(0, |classes| classes.values().map(|f| f.count).sum::<u32>()).saturating_add(1)
    }
}

impl<M: Machine> Clone for Instance<M> {
    fn clone(&self) -> Self {
        Self {
            id: self.id.clone(),
            state: self.state,
            record: self.record.clone(),
            version: self.version,
            created_at_ms: self.created_at_ms,
            changed_at_ms: self.changed_at_ms,
            entered_at_ms: self.entered_at_ms,
            run: self.run.clone(),
            failures: self.failures.clone(),
            attempt: self.attempt,
            last_failure: self.last_failure.clone(),
            parked: self.parked.clone(),
            next_try_ms: self.next_try_ms,
            trouble: self.trouble.clone(),
        }
    }
}

impl<M: Machine> std::fmt::Debug for Instance<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instance")
            .field("id", &self.id)
            .field("state", &self.state)
            .field("version", &self.version)
            .field("record", &self.record)
            .field("run", &self.run)
            .field("parked", &self.parked)
            .field("next_try_ms", &self.next_try_ms)
            .finish_non_exhaustive()
    }
}
