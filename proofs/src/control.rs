//! What a stage of hours reports to and obeys: cancellation, progress, and units of work.
//!
//! A stage is a plain function that blocks its caller. It receives a [`Control`] and promises (pipeline.md PL-4..PL-6):
//! to look at the cancel flag at least every second, to report progress as data, and to announce each unit of work (a
//! layer, a tree) to the [`UnitSink`] before it begins and after its file is on disk.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set once by the owner of a stage to end it early; a stage polls it.
#[derive(Debug, Default)]
pub struct CancelFlag(AtomicBool);

impl CancelFlag {
    /// A flag that is not set.
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Asks the stage to end.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the stage was asked to end.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The stage ended because its cancel flag was set. Finished units stay on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cancelled")]
pub struct Cancelled;

/// How far a stage is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// What is being done, such as `layer 1 of 2` or `tree-c`.
    pub phase: &'a str,
    /// Work done, in [`Progress::unit`]; never decreases within a phase.
    pub done: u64,
    /// Work in all.
    pub total: u64,
    /// `nodes` or `bytes`.
    pub unit: &'static str,
}

/// Receives progress; called from any thread, some times a second, and must return at once.
pub trait ProgressSink: Sync {
    /// Takes one report.
    fn report(&self, progress: Progress<'_>);
}

/// Throws progress away.
impl ProgressSink for () {
    fn report(&self, _: Progress<'_>) {}
}

impl<F: Fn(Progress<'_>) + Sync> ProgressSink for F {
    fn report(&self, progress: Progress<'_>) {
        self(progress);
    }
}

/// A unit of work: the most that a crash may cost. It ends as one file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unit {
    /// The stage it belongs to: `precommit1`, `precommit2`, ...
    pub stage: &'static str,
    /// Its name within the sector: `tree-d`, `layer-3`, `tree-c-0`, `sealed`, `tree-r-last`, ...
    pub name: String,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.stage, self.name)
    }
}

/// Whether the file of a unit from an earlier run may stand for the unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reuse {
    /// It is proven to be this unit's output: same replica id, same kind, length and digest.
    Proven,
    /// There is no such file or nothing is known of it.
    Absent,
    /// It is there but must not be used, and why.
    Refused(String),
}

/// Why a sink could not take a unit. The stage ends with it: a unit that is not recorded does not exist.
#[derive(Debug, thiserror::Error)]
#[error("cannot record the unit {unit}: {reason}")]
pub struct UnitError {
    /// The unit, in text.
    pub unit: String,
    /// What failed.
    pub reason: String,
}

/// Keeps account of units. A stage calls `reuse` first; unless that proves the file, it calls `started`, works, writes
/// the file (temporary name, fsync, rename, fsync of the folder) and calls `finished`.
pub trait UnitSink: Sync {
    /// May `file` stand for `unit`?
    fn reuse(&self, unit: &Unit, file: &Path) -> Reuse;
    /// The unit begins. Durable when it returns.
    fn started(&self, unit: &Unit) -> Result<(), UnitError>;
    /// The unit's file is on disk under its final name, `len` bytes with this BLAKE2b-256. Durable when it returns.
    fn finished(&self, unit: &Unit, file: &Path, len: u64, blake2b_256: &[u8; 32]) -> Result<(), UnitError>;
}

/// Remembers nothing: every unit is computed.
impl UnitSink for () {
    fn reuse(&self, _: &Unit, _: &Path) -> Reuse {
        Reuse::Absent
    }

    fn started(&self, _: &Unit) -> Result<(), UnitError> {
        Ok(())
    }

    fn finished(&self, _: &Unit, _: &Path, _: u64, _: &[u8; 32]) -> Result<(), UnitError> {
        Ok(())
    }
}

/// The three things every stage is given.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// Ends the stage early.
    pub cancel: &'a CancelFlag,
    /// Takes progress.
    pub progress: &'a dyn ProgressSink,
    /// Takes units.
    pub units: &'a dyn UnitSink,
}

impl Control<'static> {
    /// Never cancelled, silent, without memory: for tests and one-shot tools.
    pub fn none() -> Self {
        static NEVER: CancelFlag = CancelFlag::new();
        Self { cancel: &NEVER, progress: &(), units: &() }
    }
}

impl Control<'_> {
    /// Asks the sink whether `file` may stand for `unit`. Proving a file may take long; a sink that gives it up for the
    /// cancel flag may answer anything.
    ///
    /// # Errors
    /// When the stage was asked to end.
    pub fn reuse(&self, unit: &Unit, file: &Path) -> Result<Reuse, Cancelled> {
        let answer = self.units.reuse(unit, file);
        self.check()?;
        Ok(answer)
    }

    /// Fails when the stage was asked to end.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.cancel.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }

    /// Reports progress.
    pub fn report(&self, phase: &str, done: u64, total: u64, unit: &'static str) {
        self.progress.report(Progress { phase, done, total, unit });
    }
}
