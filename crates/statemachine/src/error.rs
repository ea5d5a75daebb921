//! Why the engine could not do what it was asked.

use crate::MachineId;
use statestore::{CodecError, StoreError};

/// Why a group did not open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The planner map has findings.
    #[error("the planner map of {machine} has {} findings; the first: {}", findings.len(), findings.first().map_or("", String::as_str))]
    Map {
        /// The kind of machine.
        machine: &'static str,
        /// All findings, as text.
        findings: Vec<String>,
    },
    /// The configuration does not fit the map.
    #[error("the configuration of {machine} does not fit its map: {reason}")]
    Config {
        /// The kind of machine.
        machine: &'static str,
        /// What does not fit.
        reason: String,
    },
    /// The store failed.
    #[error("opening the machines of {machine}: {source}")]
    Store {
        /// The kind of machine.
        machine: &'static str,
        /// What the store said.
        source: StoreError,
    },
}

/// Why a machine was not created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The id is empty, too long or has control characters.
    #[error("{0:?} is no machine id: 1 to 256 bytes without control characters")]
    BadId(String),
    /// There is one already.
    #[error("the machine {0} exists already")]
    Exists(MachineId),
    /// The record or first event is too large, or planning refused it.
    #[error("creating {id}: {reason}")]
    Refused {
        /// The machine.
        id: MachineId,
        /// Why.
        reason: String,
    },
    /// The group is stopping.
    #[error("the group is stopping; {0} was not created")]
    Stopping(MachineId),
    /// The engine went away before it answered; whether the machine exists is seen after the next start.
    #[error("the engine ended before the creation of {0} was answered")]
    Gone(MachineId),
    /// The store failed; whether the machine exists is seen by asking for it.
    #[error("creating {id}: {source}")]
    Store {
        /// The machine.
        id: MachineId,
        /// What the store said.
        source: StoreError,
    },
}

/// Why an event was not taken or not applied.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// No such machine; sending creates none.
    #[error("there is no machine {0}")]
    Unknown(MachineId),
    /// The machine's row cannot be read; it is set aside.
    #[error("the machine {id} is set aside: {reason}")]
    Quarantined {
        /// The machine.
        id: MachineId,
        /// Why its row cannot be read.
        reason: String,
    },
    /// Too many events wait. Try later; nothing was dropped.
    #[error("the inbox of {id} is full: {limit} events wait")]
    InboxFull {
        /// The machine.
        id: MachineId,
        /// The limit.
        limit: usize,
    },
    /// A rule refused the event.
    #[error("{id} in state {state} rejects {event}: {reason}")]
    Rejected {
        /// The machine.
        id: MachineId,
        /// Its state.
        state: &'static str,
        /// The event's kind.
        event: &'static str,
        /// The rule's reason.
        reason: String,
    },
    /// Planning failed: a panic, a record over its limit, an unlisted target. The machine is alive and unchanged.
    #[error("{id} could not apply {event}: {reason}")]
    Refused {
        /// The machine.
        id: MachineId,
        /// The event's kind.
        event: String,
        /// The error.
        reason: String,
    },
    /// The event is too large to be stored.
    #[error("the event {event} for {id} has {bytes} bytes, at most {limit} are stored")]
    TooLarge {
        /// The machine.
        id: MachineId,
        /// The event's kind.
        event: &'static str,
        /// Its encoded size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The event has no encoded form.
    #[error("the event {event} for {id}: {source}")]
    Encode {
        /// The machine.
        id: MachineId,
        /// The event's kind.
        event: &'static str,
        /// What the codec said.
        source: CodecError,
    },
    /// The group takes nothing any more.
    #[error("the group is stopping; the event for {0} was not taken")]
    Stopping(MachineId),
    /// The engine went away before it answered; a durable event is applied after the next start.
    #[error("the engine ended before {0} answered")]
    Gone(MachineId),
    /// The store failed; the event may or may not be stored.
    #[error("sending to {id}: {source}")]
    Store {
        /// The machine.
        id: MachineId,
        /// What the store said.
        source: StoreError,
    },
}

/// Why something could not be read.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The store failed.
    #[error("reading {what}: {source}")]
    Store {
        /// What was read.
        what: String,
        /// What the store said.
        source: StoreError,
    },
    /// A row cannot be decoded.
    #[error("reading {what}: {source}")]
    Codec {
        /// What was read.
        what: String,
        /// What the codec said.
        source: CodecError,
    },
}

/// A machine whose row cannot be read: set aside, all others run (SM-13).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// The machine.
    pub id: MachineId,
    /// Why its row cannot be read.
    pub reason: String,
    /// The row, as it is in the store.
    pub bytes: Vec<u8>,
}
