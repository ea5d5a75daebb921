//! `p_aux`, `t_aux` and the store descriptions inside (proofs.md §5.7), in the byte form of bincode 1 with fixed-width
//! little-endian integers.

use super::{FileError, P_AUX, T_AUX, read_small, write_atomic};
use crate::codec::{CodecError, Reader, Writer};
use primitives::Commitment;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// More bytes than a `t_aux` of eleven layers with the longest path can have.
const T_AUX_LIMIT: u64 = 1 << 20;

/// Where a tree or layer is and how much of it is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreConfig {
    /// The folder. Written for other tools; whoever reads it puts the folder it read from in its place.
    pub path: PathBuf,
    /// The id in the file name: `layer-1`, `tree-d`, ...
    pub id: String,
    /// Number of 32-byte elements of the whole, discarded rows included.
    pub size: Option<u64>,
    /// Rows above the leaves that are not in the file (proofs.md §2.4).
    pub rows_to_discard: u64,
}

impl StoreConfig {
    /// A store that is complete.
    pub fn full(path: &Path, id: impl Into<String>, size: u64) -> Self {
        Self { path: path.to_owned(), id: id.into(), size: Some(size), rows_to_discard: 0 }
    }

    fn encode(&self, out: &mut Writer) {
        // Paths are Unicode here: a lossy path could name another folder, but readers replace it anyway.
        out.text(&self.path.to_string_lossy());
        out.text(&self.id);
        match self.size {
            None => out.u8(0),
            Some(size) => {
                out.u8(1);
                out.u64(size);
            }
        }
        out.u64(self.rows_to_discard);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        let path = PathBuf::from(input.text("path")?);
        let id = input.text("id")?.to_owned();
        let size = match input.u8("size")? {
            0 => None,
            1 => Some(input.u64("size")?),
            tag => return Err(input.bad("size", format!("option tag {tag}"))),
        };
        Ok(Self { path, id, size, rows_to_discard: input.u64("rows_to_discard")? })
    }
}

/// The content of `t_aux`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TAux {
    /// Layers 1 to L.
    pub labels: Vec<StoreConfig>,
    /// Tree-D.
    pub tree_d: StoreConfig,
    /// One base tree of tree-R-last, its id without a number.
    pub tree_r_last: StoreConfig,
    /// One base tree of tree-C, its id without a number.
    pub tree_c: StoreConfig,
}

impl TAux {
    /// The byte form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.u64(self.labels.len() as u64);
        for label in &self.labels {
            label.encode(&mut out);
        }
        for config in [&self.tree_d, &self.tree_r_last, &self.tree_c] {
            config.encode(&mut out);
        }
        out.into_bytes()
    }

    /// Reads the byte form; all of it must be used.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut input = Reader::new(bytes);
        let labels = input.list("labels", StoreConfig::decode)?;
        let tree_d = StoreConfig::decode(&mut input)?;
        let tree_r_last = StoreConfig::decode(&mut input)?;
        let tree_c = StoreConfig::decode(&mut input)?;
        input.end()?;
        Ok(Self { labels, tree_d, tree_r_last, tree_c })
    }

    /// Writes `t_aux` in `cache`.
    pub fn store(&self, cache: &Path) -> Result<(), FileError> {
        write_atomic(&cache.join(T_AUX), &self.to_bytes())
    }

    /// Reads `t_aux` of `cache` and puts that folder in place of the stored one.
    pub fn load(cache: &Path) -> Result<Self, AuxError> {
        let path = cache.join(T_AUX);
        let bytes = read_small(&path, T_AUX_LIMIT)?;
        let mut aux = Self::from_bytes(&bytes).map_err(|source| AuxError::Content { path, source })?;
        for config in aux.labels.iter_mut().chain([&mut aux.tree_d, &mut aux.tree_r_last, &mut aux.tree_c]) {
            config.path = cache.to_owned();
        }
        Ok(aux)
    }
}

/// The content of `p_aux`: what PoSt needs besides tree-R-last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PAux {
    /// Root of tree-C.
    pub comm_c: Commitment,
    /// Root of tree-R-last.
    pub comm_r_last: Commitment,
}

impl PAux {
    /// Writes `p_aux` in `cache`.
    pub fn store(&self, cache: &Path) -> Result<(), FileError> {
        write_atomic(&cache.join(P_AUX), &[self.comm_c.0, self.comm_r_last.0].concat())
    }

    /// Reads `p_aux` of `cache`.
    pub fn load(cache: &Path) -> Result<Self, FileError> {
        let path = cache.join(P_AUX);
        let bytes = read_small(&path, 64)?;
        let (Some(c), Some(r)) =
            (bytes.first_chunk::<32>(), bytes.get(32..).and_then(<[u8]>::first_chunk::<32>))
        else {
            return Err(FileError::Length { path, expected: 64, got: bytes.len() as u64 });
        };
        Ok(Self { comm_c: Commitment(*c), comm_r_last: Commitment(*r) })
    }
}

/// `t_aux` could not be read.
#[derive(Debug, thiserror::Error)]
pub enum AuxError {
    /// The file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its content is not a `t_aux`.
    #[error("{} is damaged: {source}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: CodecError,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(cache: &Path) -> TAux {
        TAux {
            labels: vec![StoreConfig::full(cache, "layer-1", 64), StoreConfig::full(cache, "layer-2", 64)],
            tree_d: StoreConfig::full(cache, "tree-d", 127),
            tree_r_last: StoreConfig { rows_to_discard: 1, ..StoreConfig::full(cache, "tree-r-last", 73) },
            tree_c: StoreConfig::full(cache, "tree-c", 73),
        }
    }

    #[test]
    fn t_aux_has_the_stated_layout() {
        let bytes = sample(Path::new("/c")).to_bytes();
        // LE64(2), then path "/c", id "layer-1", Some(64), 0.
        let mut head = vec![2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        head.extend(b"/c");
        head.extend([7, 0, 0, 0, 0, 0, 0, 0]);
        head.extend(b"layer-1");
        head.extend([1, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[..head.len()], head);
        assert_eq!(bytes.len(), 8 + 5 * (8 + 2 + 8 + 9 + 8) + 7 + 7 + 6 + 11 + 6);
    }

    #[test]
    fn both_files_round_trip_and_take_the_folder_they_are_in() {
        let dir = tempfile::tempdir().unwrap();
        sample(Path::new("/elsewhere")).store(dir.path()).unwrap();
        assert_eq!(TAux::load(dir.path()).unwrap(), sample(dir.path()));
        let p = PAux { comm_c: Commitment([1; 32]), comm_r_last: Commitment([2; 32]) };
        p.store(dir.path()).unwrap();
        assert_eq!(PAux::load(dir.path()).unwrap(), p);
        std::fs::write(dir.path().join(P_AUX), [0; 63]).unwrap();
        assert!(matches!(PAux::load(dir.path()), Err(FileError::Length { expected: 64, got: 63, .. })));
        std::fs::write(dir.path().join(P_AUX), [0; 65]).unwrap();
        assert!(matches!(PAux::load(dir.path()), Err(FileError::Length { expected: 64, got: 65, .. })));
    }

    proptest! {
        #[test]
        fn hostile_t_aux_is_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = TAux::from_bytes(&bytes);
            // A count far beyond the input must not be believed.
            bytes.splice(0..0, u64::MAX.to_le_bytes());
            prop_assert!(TAux::from_bytes(&bytes).is_err());
        }

        #[test]
        fn every_cut_is_an_error(at in 0usize..300) {
            let bytes = sample(Path::new("/c")).to_bytes();
            prop_assume!(at < bytes.len());
            prop_assert!(TAux::from_bytes(&bytes[..at]).is_err());
        }
    }
}
