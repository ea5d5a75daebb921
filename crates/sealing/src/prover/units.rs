//! Units of work on their way to the journal (PL-4).
//!
//! A stage runs on a thread of its own and announces each unit. The step that waits for the stage sends the announcement
//! as an event of its run and answers when it is applied and on disk; only then does the unit begin.

use crate::Event;
use proofs::control::{Reuse, Unit, UnitError, UnitSink};
use std::path::Path;
use tokio::sync::{mpsc, oneshot};

/// What happens to a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitEvent {
    /// It begins.
    Started,
    /// Its file is on disk, with so many bytes.
    Finished(u64),
    /// A file from an earlier run is not taken for it.
    Refused(String),
}

/// One announcement, to be answered.
#[derive(Debug)]
pub struct UnitNote {
    /// The stage.
    pub stage: &'static str,
    /// The unit within it.
    pub unit: String,
    /// What happens.
    pub what: UnitEvent,
    /// Tells the stage that it is on record; dropped when it is not.
    pub done: oneshot::Sender<()>,
}

impl UnitNote {
    /// The event to record.
    pub fn event(&self) -> Event {
        let (stage, unit) = (self.stage.to_owned(), self.unit.clone());
        match &self.what {
            UnitEvent::Started => Event::UnitStarted { stage, unit },
            UnitEvent::Finished(bytes) => Event::UnitFinished { stage, unit, bytes: *bytes },
            UnitEvent::Refused(reason) => Event::UnitRefused { stage, unit, reason: reason.clone() },
        }
    }
}

/// Announces units, and keeps them in a manifest that decides what an earlier run left behind may be used.
pub(crate) struct Announced<'a> {
    pub(crate) inner: &'a dyn UnitSink,
    pub(crate) notes: &'a mpsc::UnboundedSender<UnitNote>,
}

impl Announced<'_> {
    fn announce(&self, unit: &Unit, what: UnitEvent) -> Result<(), UnitError> {
        let (done, answer) = oneshot::channel();
        let note = UnitNote { stage: unit.stage, unit: unit.name.clone(), what, done };
        let lost =
            || UnitError { unit: unit.to_string(), reason: "the run it belongs to has ended".to_owned() };
        self.notes.send(note).map_err(|_| lost())?;
        answer.blocking_recv().map_err(|_| lost())
    }
}

impl UnitSink for Announced<'_> {
    fn reuse(&self, unit: &Unit, file: &Path) -> Reuse {
        let answer = self.inner.reuse(unit, file);
        if let Reuse::Refused(reason) = &answer {
            // When this cannot be recorded the run has ended, and `started` will say so.
            let _ = self.announce(unit, UnitEvent::Refused(reason.clone()));
        }
        answer
    }

    fn started(&self, unit: &Unit) -> Result<(), UnitError> {
        self.announce(unit, UnitEvent::Started)?;
        self.inner.started(unit)
    }

    fn finished(&self, unit: &Unit, file: &Path, len: u64, blake2b_256: &[u8; 32]) -> Result<(), UnitError> {
        self.inner.finished(unit, file, len, blake2b_256)?;
        self.announce(unit, UnitEvent::Finished(len))
    }
}
