//! Exit codes, in one table, and the error every command ends with.

use std::io::Write;
use std::process::ExitCode;

/// How the process ends. Scripts decide by the number; the sentence on stderr is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, also when the reader of our output went away.
    Success,
    /// Something on this computer was in the way: a file, a disk, memory, a node that does not answer.
    Failure,
    /// The command line cannot be followed. Nothing was touched.
    Usage,
    /// A check did not hold: proofs, commitments, or a file that is damaged or of another sector.
    Verification,
    /// Asked for what this version cannot do yet.
    Unsupported,
    /// There is no such sector.
    Unknown,
    /// The rules say no: the order does not fit the state of its sector.
    Refused,
    /// Stopped by a signal.
    Interrupted,
}

/// Every exit code with its meaning, as `--help` lists it.
pub(crate) const TABLE: &[(Exit, u8, &str)] = &[
    (Exit::Success, 0, "done"),
    (Exit::Failure, 1, "failed: a file, disk, memory or connection was in the way"),
    (Exit::Usage, 2, "the command line cannot be followed; nothing was touched"),
    (
        Exit::Verification,
        3,
        "verification failed: proofs do not hold, or a file is damaged or of another sector",
    ),
    (Exit::Unsupported, 4, "not possible in this version yet"),
    (Exit::Unknown, 5, "there is no such sector"),
    (Exit::Refused, 6, "refused: the order does not fit the state of its sector"),
    (Exit::Interrupted, 130, "interrupted by a signal; finished work is kept"),
];

impl Exit {
    /// The number.
    pub(crate) fn code(self) -> u8 {
        TABLE.iter().find(|(exit, ..)| *exit == self).map_or(1, |(_, code, _)| *code)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// The table as a section of the help.
pub(crate) fn help_section() -> String {
    let mut text = String::from("Exit codes:\n");
    for (_, code, meaning) in TABLE {
        text.push_str(&format!("  {code:>3}  {meaning}\n"));
    }
    text
}

/// Why a command did not do what it was asked: one sentence, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// What was being done to which thing, and what was in the way.
    pub(crate) message: String,
    /// What the user can do about it.
    pub(crate) next: Option<String>,
}

/// What a command returns.
pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure with this code and sentence.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), next: None }
    }

    /// [`Exit::Failure`].
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failure, message)
    }

    /// [`Exit::Usage`].
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// The same with a next step; one that is there already stays.
    #[must_use]
    pub(crate) fn next(mut self, step: impl Into<String>) -> Self {
        self.next.get_or_insert_with(|| step.into());
        self
    }

    /// The same with another next step than the one that is there.
    #[must_use]
    pub(crate) fn replace_next(mut self, step: impl Into<String>) -> Self {
        self.next = Some(step.into());
        self
    }

    /// Says it on stderr and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let mut text = format!("error: {}\n", self.message);
        if let Some(next) = &self.next {
            text.push_str(&format!("  next: {next}\n"));
        }
        // If stderr is gone there is nobody left to tell.
        let _ = std::io::stderr().write_all(text.as_bytes());
        self.exit.into()
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::failed(format!("{error:#}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_has_one_code_of_its_own() {
        use Exit::*;
        for exit in [Success, Failure, Usage, Verification, Unsupported, Unknown, Refused, Interrupted] {
            assert_eq!(TABLE.iter().filter(|(e, ..)| *e == exit).count(), 1, "{exit:?}");
        }
        let mut codes: Vec<u8> = TABLE.iter().map(|(_, code, _)| *code).collect();
        codes.dedup();
        assert_eq!(codes.len(), TABLE.len());
        // clap ends with 2 on a bad command line; the table must agree.
        assert_eq!(Usage.code(), 2);
    }

    #[test]
    fn the_first_next_step_stays() {
        let failure = super::Failure::failed("x").next("first").next("second");
        assert_eq!(failure.next.as_deref(), Some("first"));
    }
}
