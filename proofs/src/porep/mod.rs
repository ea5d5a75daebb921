//! The stages of sealing, from an unsealed sector file to proofs a verifier accepts.
//!
//! ```text
//! unsealed file --precommit1--> tree-D, layers --precommit2--> tree-C, sealed file, tree-R-last, CommR
//!               --commit1(seed)--> vanilla proofs --verify_vanilla--> accepted or refused with the reason
//! ```
//!
//! Each stage is a plain function that blocks, takes a [`Control`] and is **re-entrant**: after a crash it is called
//! again with the same arguments and takes every file that [`UnitSink::reuse`](crate::control::UnitSink::reuse) proves;
//! everything else is made anew. No stage writes over its input. A file that the sink refuses is replaced by the stage
//! that makes it, and is an error ([`PoRepError::Refused`]) in a stage that only reads it.
//!
//! To open the sink that is a sector's manifest one needs the replica id first: [`SectorInput::replica_id`].
//!
//! The units, in order: `precommit1` `tree-d`, `layer-1` .. `layer-L`; `precommit2` `tree-c` (`tree-c-0` .. when there
//! are several base trees), `sealed`, `tree-r-last` (`-0` ..). `p_aux` and `t_aux` are small and always rewritten.

mod check;
mod commit1;
mod precommit1;
mod precommit2;
pub mod wire;

#[cfg(test)]
mod tests;

pub use check::check_sealed;
pub use commit1::{Commit1Input, Commit1Output, commit1, commit1_supported, verify_vanilla};
pub use precommit1::{PreCommit1Output, SectorInput, precommit1, precommit1_with};
pub use precommit2::{PreCommit2Output, precommit2};

use crate::control::{Cancelled, Control, Reuse, Unit, UnitError};
use crate::files::config::AuxError;
use crate::files::{FileError, StagedFile};
use crate::params::PoRepConfig;
use crate::tree::open::TreeError;
use crate::vanilla::verify::VanillaError;
use primitives::{ProofFeature, SectorSize};
use std::path::{Path, PathBuf};

/// The stage that makes tree-D and the layers.
pub const PRECOMMIT1: &str = "precommit1";
/// The stage that makes tree-C, the replica and tree-R-last.
pub const PRECOMMIT2: &str = "precommit2";
/// The unit that is the sealed sector file.
pub const SEALED: &str = "sealed";

/// Why a stage failed.
#[derive(Debug, thiserror::Error)]
pub enum PoRepError {
    /// A primitive, a stream or the file system failed, or the stage was cancelled.
    #[error(transparent)]
    Proofs(#[from] crate::Error),
    /// A tree or layer file is missing, has the wrong length, or holds what it cannot.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A file of the cache folder or a sector file is damaged or belongs to another sector.
    #[error("{}: the {what} is {got}, expected {expected}", file.display())]
    Mismatch {
        /// The file.
        file: PathBuf,
        /// What was compared.
        what: String,
        /// What it must be.
        expected: String,
        /// What it is.
        got: String,
    },
    /// What is known of a file of an earlier stage says that it is not that stage's output. Run that stage again.
    #[error("{} cannot be used as {unit}: {reason}", file.display())]
    Refused {
        /// The file.
        file: PathBuf,
        /// The unit it should be the output of.
        unit: Unit,
        /// What the sink found.
        reason: String,
    },
    /// Input and output of PC2 are one file.
    #[error("{} is the unsealed and the sealed file at once; sealing in place would lose the data", .0.display())]
    InPlace(PathBuf),
    /// `t_aux` is damaged.
    #[error(transparent)]
    Aux(AuxError),
    /// A value from outside cannot be used.
    #[error(transparent)]
    Public(VanillaError),
    /// Proofs just made from the files do not hold: a file is damaged.
    #[error(
        "the proofs made from the sector's files do not hold: {fault}; {}",
        suspects.iter().map(|s| s.to_string()).collect::<Vec<_>>().join(", ")
    )]
    SelfCheck {
        /// What the verifier found.
        fault: Box<VanillaError>,
        /// The files that can be the cause, those that are proven to be damaged alone if there are any.
        suspects: Vec<Suspect>,
    },
    /// Not possible yet.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
}

/// A file from which a wrong proof may have come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspect {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it, if it is known to be damaged.
    pub damage: Option<String>,
}

impl std::fmt::Display for Suspect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.damage {
            Some(damage) => write!(f, "{} is damaged: {damage}", self.file.display()),
            None => write!(f, "{} may be damaged", self.file.display()),
        }
    }
}

/// A combination that has no implementation yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{feature:?} proofs are not made for sectors of {sector_size} yet, only up to 32KiB")]
pub struct Unsupported {
    /// The kind of challenges.
    pub feature: ProofFeature,
    /// The sector size.
    pub sector_size: SectorSize,
}

impl PoRepError {
    /// Whether the stage ended because it was asked to.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, PoRepError::Proofs(crate::Error::Cancelled(_)))
    }

    fn mismatch(file: &Path, what: impl Into<String>, expected: &[u8; 32], got: &[u8; 32]) -> Self {
        let (expected, got) = (hex::encode(expected), hex::encode(got));
        PoRepError::Mismatch { file: file.to_owned(), what: what.into(), expected, got }
    }
}

impl From<FileError> for PoRepError {
    fn from(e: FileError) -> Self {
        PoRepError::Tree(TreeError::File(e))
    }
}

impl From<Cancelled> for PoRepError {
    fn from(e: Cancelled) -> Self {
        PoRepError::Proofs(e.into())
    }
}

impl From<UnitError> for PoRepError {
    fn from(e: UnitError) -> Self {
        PoRepError::Proofs(e.into())
    }
}

impl From<AuxError> for PoRepError {
    fn from(e: AuxError) -> Self {
        match e {
            AuxError::File(e) => e.into(),
            e @ AuxError::Content { .. } => PoRepError::Aux(e),
        }
    }
}

/// Makes the file of a unit unless the sink proves the one that is there. `work` writes the staged file and returns its
/// length and digest.
fn unit(
    control: &Control<'_>,
    stage: &'static str,
    name: &str,
    file: &Path,
    work: impl FnOnce(&StagedFile) -> Result<(u64, [u8; 32]), PoRepError>,
) -> Result<(), PoRepError> {
    control.check()?;
    let unit = Unit { stage, name: name.to_owned() };
    if control.reuse(&unit, file)? == Reuse::Proven {
        return Ok(());
    }
    control.units.started(&unit)?;
    let staged = StagedFile::create(file)?;
    let (len, digest) = work(&staged)?;
    staged.publish(len)?;
    control.units.finished(&unit, file, len, &digest)?;
    Ok(())
}

/// Asks the sink whether a file of an earlier stage is that stage's output. A sink that knows nothing of it lets it
/// pass: whoever keeps no account of units vouches for the folder.
fn require(control: &Control<'_>, stage: &'static str, name: &str, file: &Path) -> Result<(), PoRepError> {
    control.check()?;
    let unit = Unit { stage, name: name.to_owned() };
    match control.reuse(&unit, file)? {
        Reuse::Refused(reason) => Err(PoRepError::Refused { file: file.to_owned(), unit, reason }),
        Reuse::Proven | Reuse::Absent => Ok(()),
    }
}

/// The rows that tree-R-last of this sector does not keep above its leaves: what `t_aux` says, else the usual number.
fn rows_to_discard(config: &PoRepConfig, cache: &Path) -> Result<usize, PoRepError> {
    let shape = config.shape();
    let stored = match crate::files::config::TAux::load(cache) {
        Err(AuxError::File(e)) if e.is_not_found() => return Ok(shape.rows_to_discard()),
        aux => aux?.tree_r_last.rows_to_discard,
    };
    match usize::try_from(stored) {
        // The root at least is kept.
        Ok(discard) if discard < shape.rows() - 1 => Ok(discard),
        _ => Err(PoRepError::Mismatch {
            file: cache.join(crate::files::T_AUX),
            what: "number of rows that tree-r-last does not keep".to_owned(),
            expected: format!("at most {}", shape.rows() - 2),
            got: stored.to_string(),
        }),
    }
}
