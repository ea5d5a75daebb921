//! The journal for readers: one line per entry, events as JSON.

use crate::stored::{Entry, EntryOf, Fact, Input, Outcome, Ruling};
use crate::{Failure, Kind, Machine, Sender};
use serde::Serialize;

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum LineKind {
    /// The machine was created.
    Created,
    /// An event was planned.
    Event,
    /// A run got its resources and started.
    RunStarted,
    /// A run ended with an event or a failure.
    RunEnded,
    /// A run was cut by a crash or a stop.
    Interrupted,
    /// The next attempt was due.
    RetryDue,
    /// A person asked for the next attempt.
    RetryNow,
    /// A person ended the run.
    Aborted,
    /// A person set the state.
    Forced,
    /// Nothing would have moved the machine.
    Stuck,
    /// Planning refused an input by an error of its own.
    Refused,
    /// A late result of a fenced-off run was dropped.
    Dropped,
    /// A run is over its soft limit.
    Slow,
    /// A cancelled run did not end within its grace.
    Abandoned,
    /// An outbox row changed.
    Outbox,
    /// The entry cannot be decoded by this program.
    Unreadable,
}

/// One line of a machine's history.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JournalLine {
    /// Its place in the store's one order.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The version it made, or, for lines that changed no row, belongs to.
    pub version: u64,
    /// What it is about.
    pub kind: LineKind,
    /// The event's kind.
    pub event: Option<&'static str>,
    /// The event's data.
    pub data: Option<serde_json::Value>,
    /// Who sent the event.
    pub source: Option<Sender>,
    /// The run it is about.
    pub run: Option<u64>,
    /// How the run failed.
    pub failure: Option<Failure>,
    /// The state before.
    pub from: Option<String>,
    /// The state after.
    pub to: Option<String>,
    /// `moved`, `stayed`, `ignored`, `rejected`, `refused`; nothing for lines that changed no row.
    pub ruling: Option<&'static str>,
    /// A reason or remark.
    pub note: Option<String>,
}

impl JournalLine {
    /// The line of an entry.
    pub(crate) fn of<M: Machine>(seq: u64, payload: &[u8]) -> Self {
        match statestore::codec::decode::<EntryOf<M>>(crate::stored::SCHEMA, payload) {
            Ok(entry) => Self::of_entry::<M>(seq, entry),
            Err(error) => {
                Self { note: Some(error.to_string()), ..Self::empty(seq, 0, 0, LineKind::Unreadable) }
            }
        }
    }

    fn empty(seq: u64, at_ms: u64, version: u64, kind: LineKind) -> Self {
        Self {
            seq,
            at_ms,
            version,
            kind,
            event: None,
            data: None,
            source: None,
            run: None,
            failure: None,
            from: None,
            to: None,
            ruling: None,
            note: None,
        }
    }

    fn of_entry<M: Machine>(seq: u64, entry: EntryOf<M>) -> Self {
        match entry {
            Entry::Fact { at_ms, version, fact } => {
                let (kind, run, note) = match fact {
                    Fact::Dropped { run, what } => (LineKind::Dropped, Some(run), what),
                    Fact::Slow { run, limit_ms } => {
                        (LineKind::Slow, Some(run), format!("over its soft limit of {limit_ms} ms"))
                    }
                    Fact::Abandoned { run } => {
                        (LineKind::Abandoned, Some(run), "did not end within its grace".to_owned())
                    }
                    Fact::Outbox { version, ordinal, kind, change } => {
                        (LineKind::Outbox, None, format!("{kind} {version}#{ordinal}: {change}"))
                    }
                };
                Self { run, note: Some(note), ..Self::empty(seq, at_ms, version, kind) }
            }
            Entry::Step { at_ms, version, from, to, ruling, note, ended_run, input } => {
                let mut line = Self::empty(seq, at_ms, version, LineKind::Event);
                line.from = from;
                line.to = Some(to);
                line.note = note;
                line.run = ended_run;
                line.ruling = Some(match ruling {
                    Ruling::Moved => "moved",
                    Ruling::Stayed => "stayed",
                    Ruling::Ignored => "ignored",
                    Ruling::Rejected => "rejected",
                    Ruling::Refused => "refused",
                });
                line.set_input::<M>(input);
                line
            }
        }
    }

    fn set_input<M: Machine>(&mut self, input: Input<M::Record, M::Event>) {
        match input {
            Input::Created { record } => {
                self.kind = LineKind::Created;
                self.data = serde_json::to_value(record).ok();
            }
            Input::Event { event, source, run } => {
                self.set_event::<M>(&event);
                self.source = Some(source);
                self.run = run.or(self.run);
            }
            Input::RunStarted { run } => (self.kind, self.run) = (LineKind::RunStarted, Some(run)),
            Input::RunEnded { run, outcome } => {
                (self.kind, self.run) = (LineKind::RunEnded, Some(run));
                match outcome {
                    Outcome::Event(event) => self.set_event::<M>(&event),
                    Outcome::Failure(failure) => self.failure = Some(failure),
                }
            }
            Input::Interrupted { run, reason } => {
                (self.kind, self.run) = (LineKind::Interrupted, Some(run));
                self.remark(reason);
            }
            Input::RetryDue => self.kind = LineKind::RetryDue,
            Input::RetryNow => self.kind = LineKind::RetryNow,
            Input::Abort { reason } => {
                self.kind = LineKind::Aborted;
                self.remark(reason);
            }
            Input::Force { state, reason } => {
                self.kind = LineKind::Forced;
                self.remark(format!("to {state}: {reason}"));
            }
            Input::Stuck { reason, .. } => {
                self.kind = LineKind::Stuck;
                self.remark(reason);
            }
            Input::Refused { what, reason, run, .. } => {
                self.kind = LineKind::Refused;
                self.run = run.or(self.run);
                self.remark(format!("{what}: {reason}"));
            }
        }
    }

    fn set_event<M: Machine>(&mut self, event: &M::Event) {
        self.event = Some(M::kind(event).name());
        self.data = serde_json::to_value(event).ok();
    }

    fn remark(&mut self, text: String) {
        self.note = Some(match self.note.take() {
            Some(note) => format!("{text}; {note}"),
            None => text,
        });
    }
}
