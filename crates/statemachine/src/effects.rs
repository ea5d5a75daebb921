//! What a transition may cause besides changing the record: rows of the same commit (SM-4, SM-16, SM-17).

use crate::{Machine, MachineId};
use serde::Serialize;
use statestore::CodecError;
use statestore::codec;
use std::fmt;

/// The most effects of one transition.
pub(crate) const EFFECTS_MAX: usize = 256;

/// Collects the effects of one transition. They are written in the commit that applies the event, or not at all.
pub struct Effects<M: Machine> {
    machine: MachineId,
    version: u64,
    at_ms: u64,
    pub(crate) intents: Vec<NewIntent>,
    pub(crate) timers: Vec<TimerChange<M::Event>>,
    pub(crate) withdrawn: Vec<String>,
    pub(crate) error: Option<CodecError>,
}

/// An effect on the outside, before it is a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewIntent {
    pub(crate) kind: String,
    pub(crate) payload: Vec<u8>,
}

/// A change of one timer, in the order of the calls.
#[derive(Debug, Clone)]
pub(crate) enum TimerChange<E> {
    /// No event: the engine's own timer, which starts the next attempt.
    Set {
        name: String,
        at_ms: u64,
        event: Option<E>,
    },
    Clear {
        name: String,
    },
}

impl<M: Machine> fmt::Debug for Effects<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effects")
            .field("machine", &self.machine)
            .field("version", &self.version)
            .field("intents", &self.intents)
            .field("timers", &self.timers)
            .field("withdrawn", &self.withdrawn)
            .finish_non_exhaustive()
    }
}

impl<M: Machine> Effects<M> {
    pub(crate) fn new(machine: MachineId, version: u64, at_ms: u64) -> Self {
        Self {
            machine,
            version,
            at_ms,
            intents: Vec::new(),
            timers: Vec::new(),
            withdrawn: Vec::new(),
            error: None,
        }
    }

    /// For tests of pure `apply` functions, apart from an engine.
    pub fn for_tests(machine: impl Into<MachineId>, version: u64, at_ms: u64) -> Self {
        Self::new(machine.into(), version, at_ms)
    }

    /// When the event is applied, in milliseconds since 1970. It is stored with the event: a replay sees the same.
    pub fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// The machine.
    pub fn machine(&self) -> &MachineId {
        &self.machine
    }

    /// The version the record will have; with the machine it is the id of what this transition starts.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Decides an effect on the outside: an outbox row with the id (machine, version, ordinal), carried out by the
    /// [`EffectHandler`](crate::EffectHandler) of `kind`.
    pub fn intent(&mut self, kind: &'static str, payload: &impl Serialize) {
        match codec::encode_bare(payload) {
            Ok(payload) => self.intents.push(NewIntent { kind: kind.to_owned(), payload }),
            Err(error) => self.error = self.error.take().or(Some(error)),
        }
    }

    /// Sets or replaces the timer of this name: `event` comes at `at_ms` (milliseconds since 1970), or late, never not.
    /// It outlives the state; clear it when it should not.
    pub fn timer(&mut self, name: &str, at_ms: u64, event: M::Event) {
        self.timers.push(TimerChange::Set { name: name.to_owned(), at_ms, event: Some(event) });
    }

    /// Clears a timer; nothing when there is none.
    pub fn clear_timer(&mut self, name: &str) {
        self.timers.push(TimerChange::Clear { name: name.to_owned() });
    }

    /// Takes back this machine's intents of a kind that were not prepared yet; what was prepared runs to its end.
    /// Intents of this same transition stay.
    pub fn withdraw_intents(&mut self, kind: &str) {
        self.withdrawn.push(kind.to_owned());
    }

    /// The kinds of the intents decided so far, with their encoded payloads. For tests of `apply` functions.
    pub fn decided(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.intents.iter().map(|intent| (intent.kind.as_str(), intent.payload.as_slice()))
    }

    pub(crate) fn len(&self) -> usize {
        self.intents.len() + self.timers.len() + self.withdrawn.len()
    }
}
