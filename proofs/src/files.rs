//! The files of a sector: their names, and how one comes to be on disk whole or not at all (proofs.md §5.6, PL-4).
//!
//! A file is written under a temporary name, synced, renamed, and its folder synced. Nothing here interprets a file's
//! content beyond its length and digest; [`config`] does the two small ones.

pub mod config;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// `p_aux`: CommC and CommRLast (proofs.md §5.7).
pub const P_AUX: &str = "p_aux";
/// `t_aux`: where the trees and layers are (proofs.md §5.7).
pub const T_AUX: &str = "t_aux";
/// The id of tree-D, which is also the name of its unit.
pub const TREE_D: &str = "tree-d";
/// The id of tree-C before a number is appended.
pub const TREE_C: &str = "tree-c";
/// The id of tree-R-last before a number is appended.
pub const TREE_R_LAST: &str = "tree-r-last";
/// The ending of a file that is not finished. It is replaced by nothing when the file gets its name.
const STAGED: &str = ".tmp";
/// Bytes read at a time where a whole file is read.
const BLOCK: usize = 1 << 20;

/// The name of a store file in the cache folder: `sc-02-data-{id}.dat`.
pub fn store_name(id: &str) -> String {
    format!("sc-02-data-{id}.dat")
}

/// The path of a store file in `cache`.
pub fn store_path(cache: &Path, id: &str) -> PathBuf {
    cache.join(store_name(id))
}

/// The id of a layer, counted from 1: `layer-1`.
pub fn layer_id(layer: usize) -> String {
    format!("layer-{layer}")
}

/// The id of base tree `index` of `count`: the stem alone if there is only one, else `{stem}-{index}`.
pub fn base_tree_id(stem: &str, index: usize, count: usize) -> String {
    if count == 1 { stem.to_owned() } else { format!("{stem}-{index}") }
}

/// A file could not be handled, or is not what it must be.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was being done, such as `create`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file has another length than its kind has.
    #[error("{} has {got} bytes, expected {expected}", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// Bytes it must have.
        expected: u64,
        /// Bytes it has.
        got: u64,
    },
}

impl FileError {
    /// Puts an operating system error into words.
    pub fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
        move |source| FileError::Io { doing, path: path.to_owned(), source }
    }

    /// The file or folder it is about.
    pub fn path(&self) -> &Path {
        match self {
            FileError::Io { path, .. } | FileError::Length { path, .. } => path,
        }
    }

    /// Whether the reason is that the file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, FileError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// An open file and its path, read at offsets; an error names the file.
#[derive(Debug)]
pub struct InFile {
    path: PathBuf,
    file: File,
    len: u64,
}

impl InFile {
    /// Opens a regular file of any length.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let file = File::open(path).map_err(FileError::io("open", path))?;
        let meta = file.metadata().map_err(FileError::io("examine", path))?;
        if !meta.is_file() {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
            return Err(FileError::Io { doing: "open", path: path.to_owned(), source });
        }
        Ok(Self { path: path.to_owned(), file, len: meta.len() })
    }

    /// Opens a regular file that must have exactly `len` bytes.
    pub fn open_exact(path: &Path, len: u64) -> Result<Self, FileError> {
        let file = Self::open(path)?;
        if file.len != len {
            return Err(FileError::Length { path: path.to_owned(), expected: len, got: file.len });
        }
        Ok(file)
    }

    /// Fills `buf` from `offset`.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), FileError> {
        self.file.read_exact_at(buf, offset).map_err(FileError::io("read", &self.path))
    }

    /// Node `index` of a file of 32-byte nodes.
    pub fn node(&self, index: u64) -> Result<crate::Node, FileError> {
        let mut node = [0; 32];
        self.read_at(&mut node, 32 * index)?;
        Ok(node)
    }

    /// Bytes it had when it was opened.
    #[expect(clippy::len_without_is_empty, reason = "a length in bytes, not a collection")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether `path` leads to this very file.
    pub fn is_at(&self, path: &Path) -> bool {
        let same = |a: &fs::Metadata, b: &fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        matches!((self.file.metadata(), fs::metadata(path)), (Ok(a), Ok(b)) if same(&a, &b))
    }

    /// The BLAKE2b-256 of the whole file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn digest(&self) -> Result<[u8; 32], FileError> {
        self.digest_unless(|| Ok(()))
    }

    /// [`InFile::digest`], which asks `check` before every MiB whether to go on.
    ///
    /// # Errors
    /// That of `check`, or if the file cannot be read.
    pub fn digest_unless<E: From<FileError>>(
        &self,
        check: impl FnMut() -> Result<(), E>,
    ) -> Result<[u8; 32], E> {
        let mut state = digest_state();
        hash_range(&self.file, &self.path, 0, self.len, &mut state, check)?;
        Ok(finish(&state))
    }
}

/// A BLAKE2b-256 state, the digest by which a unit's file is known.
pub fn digest_state() -> blake2b_simd::State {
    blake2b_simd::Params::new().hash_length(32).to_state()
}

/// The digest of what `state` has taken.
pub fn finish(state: &blake2b_simd::State) -> [u8; 32] {
    state.finalize().as_bytes().try_into().expect("the state was made for 32 bytes")
}

/// Feeds bytes `from..to` of a file to `state`, asking `check` before every [`BLOCK`].
fn hash_range<E: From<FileError>>(
    file: &File,
    path: &Path,
    from: u64,
    to: u64,
    state: &mut blake2b_simd::State,
    mut check: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    let mut buf = vec![0; BLOCK.min(usize::try_from(to - from).unwrap_or(BLOCK))];
    let mut at = from;
    while at < to {
        check()?;
        let n = usize::try_from(to - at).unwrap_or(BLOCK).min(BLOCK);
        file.read_exact_at(&mut buf[..n], at).map_err(FileError::io("read", path))?;
        state.update(&buf[..n]);
        at += n as u64;
    }
    Ok(())
}

/// The temporary name under which [`StagedFile`] writes `path`. Only a crash leaves such a file; whoever removes a sector
/// removes it too.
pub fn staged_path(path: &Path) -> PathBuf {
    let mut staged = path.as_os_str().to_owned();
    staged.push(STAGED);
    PathBuf::from(staged)
}

/// A file being written under a temporary name beside its final one. Dropped without [`StagedFile::publish`] it is
/// removed; after a crash it stays as `*.tmp`, which the next writer of the same file replaces.
#[derive(Debug)]
pub struct StagedFile {
    path: PathBuf,
    staged: PathBuf,
    file: File,
    published: bool,
}

impl StagedFile {
    /// Starts a file that will be `path`. What is there under that name stays until the new one is complete.
    pub fn create(path: &Path) -> Result<Self, FileError> {
        Self::create_as(path, staged_path(path))
    }

    /// [`StagedFile::create`] with another temporary name, which must be in the folder of `path`.
    pub(crate) fn create_as(path: &Path, staged: PathBuf) -> Result<Self, FileError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&staged)
            .map_err(FileError::io("create", &staged))?;
        Ok(Self { path: path.to_owned(), staged, file, published: false })
    }

    /// Writes all of `buf` at `offset`.
    pub fn write_at(&self, buf: &[u8], offset: u64) -> Result<(), FileError> {
        self.file.write_all_at(buf, offset).map_err(FileError::io("write", &self.staged))
    }

    /// Fills `buf` from what was written at `offset`.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), FileError> {
        self.file.read_exact_at(buf, offset).map_err(FileError::io("read back", &self.staged))
    }

    /// Feeds bytes `from..to` of what was written to `state`, asking `check` before every MiB whether to go on.
    ///
    /// # Errors
    /// That of `check`, or if the file cannot be read.
    pub fn hash_range<E: From<FileError>>(
        &self,
        from: u64,
        to: u64,
        state: &mut blake2b_simd::State,
        check: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        hash_range(&self.file, &self.staged, from, to, state, check)
    }

    /// Syncs the file, which must have `len` bytes, gives it its name and syncs the folder.
    pub fn publish(mut self, len: u64) -> Result<(), FileError> {
        let got = self.file.metadata().map_err(FileError::io("examine", &self.staged))?.len();
        if got != len {
            return Err(FileError::Length { path: self.staged.clone(), expected: len, got });
        }
        self.file.sync_all().map_err(FileError::io("sync", &self.staged))?;
        fs::rename(&self.staged, &self.path).map_err(FileError::io("rename into place", &self.path))?;
        self.published = true;
        sync_folder_of(&self.path)
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if !self.published {
            // Best effort: a leftover is harmless, the next writer replaces it.
            let _ = fs::remove_file(&self.staged);
        }
    }
}

/// Makes the names in the folder of `path` durable.
pub fn sync_folder_of(path: &Path) -> Result<(), FileError> {
    let folder = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    File::open(folder).and_then(|f| f.sync_all()).map_err(FileError::io("sync the folder", folder))
}

/// Replaces `path` by `bytes`, all or nothing.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let staged = StagedFile::create(path)?;
    staged.write_at(bytes, 0)?;
    staged.publish(bytes.len() as u64)
}

/// Reads a small file, refusing one of more than `limit` bytes before anything is allocated for it.
pub fn read_small(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let file = InFile::open(path)?;
    if file.len > limit {
        return Err(FileError::Length { path: path.to_owned(), expected: limit, got: file.len });
    }
    let mut bytes = vec![0; usize::try_from(file.len).expect("the limit is small")];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Cancelled;

    #[test]
    fn names_are_those_of_the_reference() {
        assert_eq!(store_name(&layer_id(11)), "sc-02-data-layer-11.dat");
        assert_eq!(base_tree_id(TREE_R_LAST, 0, 1), "tree-r-last");
        assert_eq!(store_name(&base_tree_id(TREE_C, 15, 16)), "sc-02-data-tree-c-15.dat");
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, b"old").unwrap();

        let staged = StagedFile::create(&path).unwrap();
        staged.write_at(b"new content", 0).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        drop(staged);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "an abandoned file is removed");

        let staged = StagedFile::create(&path).unwrap();
        staged.write_at(b"new", 0).unwrap();
        let short = staged.publish(4).unwrap_err();
        assert!(matches!(short, FileError::Length { expected: 4, got: 3, .. }), "{short}");
        assert_eq!(fs::read(&path).unwrap(), b"old");

        write_atomic(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn lengths_and_kinds_are_checked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        assert!(InFile::open(&path).unwrap_err().is_not_found());
        fs::write(&path, vec![1; 64]).unwrap();
        assert!(InFile::open_exact(&path, 64).is_ok());
        let wrong = InFile::open_exact(&path, 65).unwrap_err();
        assert_eq!(wrong.to_string(), format!("{} has 64 bytes, expected 65", path.display()));
        assert!(read_small(&path, 63).is_err());
        assert!(InFile::open(dir.path()).unwrap_err().to_string().contains("not a regular file"));
    }

    #[test]
    fn the_digest_is_that_of_the_bytes_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let bytes: Vec<u8> = (0..(BLOCK as u32 * 2 + 17)).map(|i| ((i * 31) >> 3) as u8).collect();
        let staged = StagedFile::create(&path).unwrap();
        staged.write_at(&bytes, 0).unwrap();
        let mut state = digest_state();
        let go_on = || Ok::<_, FileError>(());
        staged.hash_range(0, 5, &mut state, go_on).unwrap();
        staged.hash_range(5, bytes.len() as u64, &mut state, go_on).unwrap();
        staged.publish(bytes.len() as u64).unwrap();
        let expected = blake2b_simd::Params::new().hash_length(32).hash(&bytes);
        assert_eq!(finish(&state), expected.as_bytes());
        let file = InFile::open(&path).unwrap();
        assert_eq!(file.digest().unwrap(), expected.as_bytes());
        // Asked before each of the three blocks.
        for stop_at in 0..3 {
            let mut asked = 0;
            let stopped = file.digest_unless(|| {
                asked += 1;
                if asked > stop_at { Err(crate::Error::from(Cancelled)) } else { Ok(()) }
            });
            assert!(matches!(stopped, Err(crate::Error::Cancelled(_))), "{stopped:?}");
            assert_eq!(asked, stop_at + 1);
        }
    }
}
