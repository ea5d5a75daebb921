//! Where a sector's files are (PL-19), how much space it needs, and the one function that deletes (PL-21).
//!
//! The pipeline knows the [`SectorStorage`] trait; [`LocalStorage`] keeps one path on this computer.

use primitives::{ActorId, RegisteredSealProof, SectorId, SectorNumber};
use proofs::params::PoRepConfig;
use std::io;
use std::path::PathBuf;

mod local;

pub use local::LocalStorage;

/// The three places of a sector's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectorPaths {
    /// The fr32-padded data: a file of the sector's size once packed.
    pub unsealed: PathBuf,
    /// The replica: a file of the sector's size.
    pub sealed: PathBuf,
    /// Layers, trees, `p_aux`, `t_aux` and the manifest: a folder.
    pub cache: PathBuf,
}

/// Why storage could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The file system said no.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is not enough room.
    #[error(
        "{} has {} free, of which {} are promised to sectors being sealed; {what} needs {}",
        path.display(), size(*free), size(*reserved), size(*needed)
    )]
    Space {
        /// What asked for room.
        what: String,
        /// The storage path.
        path: PathBuf,
        /// Bytes it needs.
        needed: u64,
        /// Bytes the file system has.
        free: u64,
        /// Bytes promised to others and not yet written.
        reserved: u64,
    },
}

impl StorageError {
    /// Whether the trouble is a lack of space, which passes.
    pub fn is_capacity(&self) -> bool {
        match self {
            StorageError::Space { .. } => true,
            StorageError::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
        }
    }
}

/// A size for people.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let unit = (bytes.max(1).ilog2() / 10).min(4);
    if unit == 0 {
        format!("{bytes} bytes")
    } else {
        format!("{:.1} {}", bytes as f64 / 2f64.powi(10 * unit as i32), UNITS[unit as usize])
    }
}

/// Storage for sectors.
///
/// The methods block; steps call them from threads of their own.
pub trait SectorStorage: Send + Sync + 'static {
    /// Where a sector's files are or will be.
    fn paths(&self, sector: SectorId) -> SectorPaths;

    /// Where a staged piece is.
    fn staged(&self, name: &str) -> PathBuf;

    /// Promises space for a sector's whole life (PL-20). Promising again replaces the promise.
    fn reserve(&self, sector: SectorId, bytes: u64) -> Result<(), StorageError>;

    /// Takes the promise back. No error when there is none.
    fn release(&self, sector: SectorId);

    /// Bytes promised and not yet written, over all sectors.
    fn reserved(&self) -> u64;

    /// The highest number among the sector files of a miner (PL-3).
    fn highest_number(&self, miner: ActorId) -> Result<Option<SectorNumber>, StorageError>;

    /// Makes a sector's folder, and the folders above its files.
    fn prepare(&self, sector: SectorId) -> Result<(), StorageError>;

    /// Takes nothing that earlier runs made for done: the sector's manifest is moved aside. No file is deleted.
    fn forget_units(&self, sector: SectorId) -> Result<(), StorageError>;

    /// Deletes what C1 needs and proving does not: layers, tree-C and tree-D. What is gone already is fine.
    fn trim(&self, sector: SectorId) -> Result<(), StorageError>;

    /// Deletes every file of a sector. What is gone already is fine.
    fn remove(&self, sector: SectorId) -> Result<(), StorageError>;

    /// Deletes a staged piece. No error when it is gone already.
    fn unstage(&self, name: &str) -> Result<(), StorageError>;

    /// The names of all staged pieces.
    fn all_staged(&self) -> Result<Vec<String>, StorageError>;
}

/// Bytes a sector takes at its largest: unsealed and sealed file, layers, tree-D (2x), tree-C and tree-R-last (8/7 each),
/// and one layer more, because a layer is written under a temporary name.
pub fn life_bytes(proof: RegisteredSealProof) -> u64 {
    let config = PoRepConfig::registered(proof);
    let sector = proof.sector_size().bytes();
    let trees = 2 * sector + 2 * sector.div_ceil(7) * 8;
    const SMALL_FILES: u64 = 64 << 10;
    2 * sector + (config.layers as u64 + 1) * sector + trees + SMALL_FILES
}
