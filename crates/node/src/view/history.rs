//! A sector's history in short: the states it went through, and the messages that came to an end.

use crate::wire::{Message, Stay};
use sealing::{Event, intent};
use statemachine::{JournalLine, LineKind};

/// Folds journal lines, in order, into a time line and a list of messages.
#[derive(Debug, Clone, Default)]
pub struct History {
    stays: Vec<Stay>,
    messages: Vec<Message>,
    last_seq: u64,
}

impl History {
    /// Takes the next line.
    pub fn add(&mut self, line: &JournalLine) {
        self.last_seq = line.seq;
        if line.kind == LineKind::RunStarted
            && let Some(stay) = self.stays.last_mut()
        {
            stay.attempts += 1;
        }
        if let Some(data) = line.data.as_ref().filter(|_| line.event.is_some()) {
            self.note_message(line.at_ms, data);
        }
        let Some(to) = line.to.as_deref() else { return };
        // Leaving a state for itself is a new stay too: its work begins anew.
        if line.from.as_deref() != Some(to) || line.ruling == Some("moved") {
            self.enter(to, line);
        }
    }

    fn enter(&mut self, state: &str, line: &JournalLine) {
        if let Some(stay) = self.stays.last_mut() {
            stay.left_ms = Some(line.at_ms);
            stay.duration_ms = Some(line.at_ms.saturating_sub(stay.entered_ms));
            stay.by = match &line.failure {
                Some(failure) => Some(failure.class.name().to_owned()),
                None => line.event.map_or_else(|| Some(format!("{:?}", line.kind)), |e| Some(e.to_owned())),
            };
        }
        self.stays.push(Stay {
            state: state.to_owned(),
            entered_ms: line.at_ms,
            left_ms: None,
            duration_ms: None,
            attempts: 0,
            by: None,
        });
    }

    fn note_message(&mut self, at_ms: u64, data: &serde_json::Value) {
        let Ok(event) = serde_json::from_value::<Event>(data.clone()) else { return };
        let mut note = |kind: &str, status: &str, cid: Option<String>, epoch, note| {
            self.messages.push(Message {
                kind: kind.to_owned(),
                cid,
                epoch,
                status: status.to_owned(),
                at_ms,
                note,
            });
        };
        match event {
            Event::PreCommitLanded { message, epoch, .. } => {
                note(intent::PRECOMMIT, "landed", message.map(|m| m.0), Some(epoch), None);
            }
            Event::ChainPreCommitFailed { message, reason } => {
                note(intent::PRECOMMIT, "refused", message.map(|m| m.0), None, Some(reason));
            }
            Event::CommitLanded { message, activation } => {
                note(intent::COMMIT, "landed", message.map(|m| m.0), Some(activation), None);
            }
            Event::ChainCommitFailed { message, reason } => {
                note(intent::COMMIT, "refused", message.map(|m| m.0), None, Some(reason));
            }
            _ => {}
        }
    }

    /// The states it went through, oldest first; the last one is where it is.
    pub fn timeline(&self) -> &[Stay] {
        &self.stays
    }

    /// The messages that came to an end, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The place of the last line in the journal: where to go on reading.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Milliseconds spent in each state, all stays together, where it is now left out.
    pub fn stages_ms(&self) -> std::collections::BTreeMap<String, u64> {
        let mut sums = std::collections::BTreeMap::new();
        for stay in &self.stays {
            if let Some(ms) = stay.duration_ms {
                *sums.entry(stay.state.clone()).or_insert(0) += ms;
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealing::record::CidText;
    use statemachine::{Class, Failure};

    fn line(seq: u64, at_ms: u64, kind: LineKind, from: Option<&str>, to: Option<&str>) -> JournalLine {
        JournalLine {
            seq,
            at_ms,
            version: seq,
            kind,
            event: None,
            data: None,
            source: None,
            run: None,
            failure: None,
            from: from.map(str::to_owned),
            to: to.map(str::to_owned),
            ruling: None,
            note: None,
        }
    }

    fn event(mut line: JournalLine, event: &Event) -> JournalLine {
        use statemachine::Kind as _;
        line.event = Some(event.kind().name());
        line.data = Some(serde_json::to_value(event).unwrap());
        line
    }

    #[test]
    fn times_attempts_and_messages_come_from_the_lines() {
        let mut history = History::default();
        let cid = || Some(CidText("bafy".to_owned()));
        let landed = Event::PreCommitLanded { message: cid(), epoch: 7, seed_epoch: 17 };
        let refused = Event::ChainPreCommitFailed { message: cid(), reason: "exit 16".to_owned() };
        let mut failed = line(5, 190, LineKind::RunEnded, Some("PreCommit1"), Some("PreCommit1"));
        failed.failure = Some(Failure::new(Class::Transient, "busy"));
        for line in [
            line(1, 100, LineKind::Created, None, Some("Empty")),
            event(line(2, 110, LineKind::Event, Some("Empty"), Some("PreCommit1")), &Event::StartCc),
            line(3, 120, LineKind::RunStarted, Some("PreCommit1"), Some("PreCommit1")),
            failed,
            line(6, 200, LineKind::RunStarted, Some("PreCommit1"), Some("PreCommit1")),
            line(7, 205, LineKind::Outbox, None, None),
            event(line(8, 300, LineKind::Event, Some("PreCommit1"), Some("PreCommitFailed")), &refused),
            event(line(9, 400, LineKind::Event, Some("PreCommitFailed"), Some("WaitSeed")), &landed),
        ] {
            history.add(&line);
        }
        let stays: Vec<_> = history
            .timeline()
            .iter()
            .map(|s| (s.state.as_str(), s.duration_ms, s.attempts, s.by.as_deref()))
            .collect();
        assert_eq!(
            stays,
            [
                ("Empty", Some(10), 0, Some("StartCc")),
                ("PreCommit1", Some(190), 2, Some("ChainPreCommitFailed")),
                ("PreCommitFailed", Some(100), 0, Some("PreCommitLanded")),
                ("WaitSeed", None, 0, None),
            ]
        );
        let messages: Vec<_> =
            history.messages().iter().map(|m| (m.status.as_str(), m.epoch, m.at_ms)).collect();
        assert_eq!(messages, [("refused", None, 300), ("landed", Some(7), 400)]);
        assert_eq!(history.stages_ms()["PreCommit1"], 190);
        assert_eq!(history.last_seq(), 9);
    }
}
