//! Failures with their class, decided where the error arises (SM-14).

use serde::{Deserialize, Serialize};
use std::fmt;

/// What kind of failure it is; each maps to a policy in the planner map. The stored text is the variant's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Class {
    /// The same again may work: network, time-outs of a dependency, a full queue.
    Transient,
    /// No room: disk, memory, quota.
    Capacity,
    /// Who did the work is gone.
    WorkerLost,
    /// What an earlier state left behind is damaged; [`Failure::made_by`] names that state.
    CorruptInput,
    /// The result was checked and is wrong.
    InvalidOutput,
    /// The outside said no.
    Rejected,
    /// Too late.
    Expired,
    /// Only a person can move it.
    NeedsPerson,
    /// It will never work.
    Permanent,
    /// The step panicked. Made by the engine.
    Panic,
    /// The run was over its hard time limit. Made by the engine.
    Timeout,
    /// The run was cancelled: the answer of a step that noticed. Made by the engine's context.
    Cancelled,
}

impl Class {
    /// Every class.
    pub const ALL: &'static [Class] = &[
        Class::Transient,
        Class::Capacity,
        Class::WorkerLost,
        Class::CorruptInput,
        Class::InvalidOutput,
        Class::Rejected,
        Class::Expired,
        Class::NeedsPerson,
        Class::Permanent,
        Class::Panic,
        Class::Timeout,
        Class::Cancelled,
    ];

    /// The stable text.
    pub fn name(self) -> &'static str {
        match self {
            Class::Transient => "Transient",
            Class::Capacity => "Capacity",
            Class::WorkerLost => "WorkerLost",
            Class::CorruptInput => "CorruptInput",
            Class::InvalidOutput => "InvalidOutput",
            Class::Rejected => "Rejected",
            Class::Expired => "Expired",
            Class::NeedsPerson => "NeedsPerson",
            Class::Permanent => "Permanent",
            Class::Panic => "Panic",
            Class::Timeout => "Timeout",
            Class::Cancelled => "Cancelled",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The longest stored message or reason, in bytes; longer ones are clipped, so that a text can never fail a transition.
pub const TEXT_BYTES_MAX: usize = 2048;

/// At most this many sources are kept.
const SOURCES_MAX: usize = 16;

/// A classified failure of a step or of an outbox handler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Its class.
    pub class: Class,
    /// What was being done to which thing, expected and got; clipped to [`TEXT_BYTES_MAX`].
    pub message: String,
    /// The state that made a corrupt input.
    #[serde(default)]
    pub made_by: Option<String>,
    /// The causes, outermost first.
    #[serde(default)]
    pub sources: Vec<String>,
}

impl Failure {
    /// A failure of a class.
    pub fn new(class: Class, message: impl fmt::Display) -> Self {
        Self { class, message: clip(message.to_string()), made_by: None, sources: Vec::new() }
    }

    /// A failure of a class from an error, its chain of sources kept.
    pub fn from_error(class: Class, error: &dyn std::error::Error) -> Self {
        let mut failure = Self::new(class, error);
        let mut source = error.source();
        while let Some(cause) = source {
            if failure.sources.len() == SOURCES_MAX {
                break;
            }
            failure.sources.push(clip(cause.to_string()));
            source = cause.source();
        }
        failure
    }

    /// [`Class::Transient`].
    pub fn transient(message: impl fmt::Display) -> Self {
        Self::new(Class::Transient, message)
    }

    /// [`Class::Capacity`].
    pub fn capacity(message: impl fmt::Display) -> Self {
        Self::new(Class::Capacity, message)
    }

    /// [`Class::WorkerLost`].
    pub fn worker_lost(message: impl fmt::Display) -> Self {
        Self::new(Class::WorkerLost, message)
    }

    /// [`Class::CorruptInput`], made by the named state.
    pub fn corrupt_input(made_by: impl Into<String>, message: impl fmt::Display) -> Self {
        Self { made_by: Some(made_by.into()), ..Self::new(Class::CorruptInput, message) }
    }

    /// [`Class::InvalidOutput`].
    pub fn invalid_output(message: impl fmt::Display) -> Self {
        Self::new(Class::InvalidOutput, message)
    }

    /// [`Class::Rejected`].
    pub fn rejected(message: impl fmt::Display) -> Self {
        Self::new(Class::Rejected, message)
    }

    /// [`Class::Expired`].
    pub fn expired(message: impl fmt::Display) -> Self {
        Self::new(Class::Expired, message)
    }

    /// [`Class::NeedsPerson`].
    pub fn needs_person(message: impl fmt::Display) -> Self {
        Self::new(Class::NeedsPerson, message)
    }

    /// [`Class::Permanent`].
    pub fn permanent(message: impl fmt::Display) -> Self {
        Self::new(Class::Permanent, message)
    }

    /// [`Class::Cancelled`].
    pub fn cancelled(message: impl fmt::Display) -> Self {
        Self::new(Class::Cancelled, message)
    }

    /// Within the limits of what is stored, whatever the fields were set to.
    pub(crate) fn clipped(mut self) -> Self {
        self.message = clip(self.message);
        self.made_by = self.made_by.map(clip);
        self.sources.truncate(SOURCES_MAX);
        self.sources = self.sources.into_iter().map(clip).collect();
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.message)?;
        if let Some(state) = &self.made_by {
            write!(f, " (made by {state})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// Cuts a text at [`TEXT_BYTES_MAX`], at a character's border, and says so.
pub(crate) fn clip(mut text: String) -> String {
    const MARK: &str = " ... (cut)";
    if text.len() > TEXT_BYTES_MAX {
        let mut end = TEXT_BYTES_MAX - MARK.len();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(MARK);
    }
    text
}

/// The text of a caught panic.
pub(crate) fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_clipped_at_a_character() {
        let failure = Failure::transient("ä".repeat(5000));
        assert!(failure.message.len() <= TEXT_BYTES_MAX);
        assert!(failure.message.ends_with("ä ... (cut)"));
        assert_eq!(clip("short".to_owned()), "short");
    }

    #[test]
    fn names_are_the_serialized_text() {
        for class in Class::ALL {
            assert_eq!(serde_json::to_value(class).unwrap(), class.name());
        }
    }

    #[test]
    fn sources_are_kept() {
        let inner = std::io::Error::other("disk gone");
        let outer = std::io::Error::other(inner);
        let failure = Failure::from_error(Class::Capacity, &outer);
        assert_eq!(failure.message, "disk gone");
        assert_eq!(failure.to_string(), "Capacity: disk gone");
    }
}
