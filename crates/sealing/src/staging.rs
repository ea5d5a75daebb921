//! Input on its way into sectors: spooled to disk first, so that nothing depends on the sender once it is accepted.

use crate::record::Payload;
use crate::storage::{SectorStorage, StorageError};
use primitives::{Commitment, SectorSize};
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest name of an input, in bytes; longer ones are cut.
const NAME_BYTES_MAX: usize = 255;

/// A part of an input, on disk and synced: the data of one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedPart {
    /// The staging file's name.
    pub staged: String,
    /// What it holds.
    pub payload: Payload,
    /// BLAKE2b-256 of it.
    pub digest: Commitment,
}

/// Why an input was not taken.
#[derive(Debug, thiserror::Error)]
pub enum StagingError {
    /// There is nothing in it.
    #[error("{name} is empty: a piece holds at least one byte")]
    Empty {
        /// The input's name.
        name: String,
    },
    /// The sender's data could not be read.
    #[error("cannot read {name} after {bytes} bytes: {source}")]
    Read {
        /// The input's name.
        name: String,
        /// Bytes read before.
        bytes: u64,
        /// Why.
        source: io::Error,
    },
    /// The staging area could not take it.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Spools an input, cut at the capacity of a sector and nowhere else. Blocks.
///
/// On an error nothing is left behind.
pub fn stage(
    storage: &Arc<dyn SectorStorage>,
    name: &str,
    input: &mut dyn Read,
    sector_size: SectorSize,
) -> Result<Vec<StagedPart>, StagingError> {
    let name: String = cut(name);
    let mut parts = Vec::new();
    let result = stage_parts(storage, &name, input, sector_size.unpadded_bytes(), &mut parts);
    if result.is_err() {
        for part in &parts {
            // The error that is reported is the first one.
            let _ = storage.unstage(&part.staged);
        }
    }
    result.map(|()| parts)
}

fn stage_parts(
    storage: &Arc<dyn SectorStorage>,
    name: &str,
    input: &mut dyn Read,
    capacity: u64,
    parts: &mut Vec<StagedPart>,
) -> Result<(), StagingError> {
    let mut buffer = vec![0u8; 256 << 10];
    let mut total = 0u64;
    let mut open: Option<(File, PathBuf)> = None;
    let mut state = new_digest();
    loop {
        let got = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(got) => got,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(StagingError::Read { name: name.to_owned(), bytes: total, source }),
        };
        let mut rest = &buffer[..got];
        while !rest.is_empty() {
            if open.is_none() {
                let staged = new_name();
                let path = storage.staged(&staged);
                let payload = Payload { name: name.to_owned(), input_offset: total, bytes: 0 };
                parts.push(StagedPart { staged, payload, digest: Commitment::default() });
                state = new_digest();
                let file = File::create_new(&path).map_err(failed("create", &path))?;
                open = Some((file, path));
            }
            let (Some((file, path)), Some(part)) = (&mut open, parts.last_mut()) else { break };
            let take = rest.len().min((capacity - part.payload.bytes) as usize);
            file.write_all(&rest[..take]).map_err(failed("write", path))?;
            state.update(&rest[..take]);
            part.digest.0.copy_from_slice(state.finalize().as_bytes());
            part.payload.bytes += take as u64;
            total += take as u64;
            rest = &rest[take..];
            if part.payload.bytes == capacity {
                finish(&mut open)?;
            }
        }
    }
    finish(&mut open)?;
    if total == 0 { Err(StagingError::Empty { name: name.to_owned() }) } else { Ok(()) }
}

fn new_digest() -> blake2b_simd::State {
    blake2b_simd::Params::new().hash_length(32).to_state()
}

/// Syncs the open part, and the folder that names it.
fn finish(open: &mut Option<(File, PathBuf)>) -> Result<(), StorageError> {
    if let Some((file, path)) = open.take() {
        file.sync_all().map_err(failed("sync", &path))?;
        if let Some(folder) = path.parent() {
            File::open(folder).and_then(|f| f.sync_all()).map_err(failed("sync", &path))?;
        }
    }
    Ok(())
}

fn failed(action: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> StorageError {
    let path = path.to_owned();
    move |source| StorageError::Io { action, path, source }
}

/// A name no other staged piece has: time, process and a counter.
fn new_name() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    format!("{now:x}-{:x}-{:x}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed))
}

fn cut(name: &str) -> String {
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::LocalStorage;

    fn storage() -> (tempfile::TempDir, Arc<dyn SectorStorage>) {
        let dir = tempfile::tempdir().unwrap();
        let storage: Arc<dyn SectorStorage> = Arc::new(LocalStorage::open(dir.path()).unwrap());
        (dir, storage)
    }

    #[test]
    fn inputs_are_cut_at_the_capacity_only_and_nothing_is_lost() {
        let (_dir, storage) = storage();
        let capacity = SectorSize::KiB2.unpadded_bytes() as usize;
        for bytes in [1, capacity - 1, capacity, capacity + 1, 3 * capacity + 5] {
            let data: Vec<u8> = (0..bytes).map(|i| (i * 7 + 3) as u8).collect();
            let parts = stage(&storage, "x", &mut data.as_slice(), SectorSize::KiB2).unwrap();
            assert_eq!(parts.len(), bytes.div_ceil(capacity));
            let mut back = Vec::new();
            for part in &parts {
                assert_eq!(part.payload.input_offset as usize, back.len());
                let content = std::fs::read(storage.staged(&part.staged)).unwrap();
                assert_eq!(content.len() as u64, part.payload.bytes);
                back.extend(content);
            }
            assert_eq!(back, data);
        }
    }

    #[test]
    fn a_failing_or_empty_input_leaves_nothing_behind() {
        struct Torn(usize);
        impl Read for Torn {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0 += 1;
                if self.0 > 2 { Err(io::Error::other("cable pulled")) } else { Ok(buffer.len()) }
            }
        }
        let (_dir, storage) = storage();
        let error = stage(&storage, "torn", &mut Torn(0), SectorSize::KiB2).unwrap_err();
        assert!(error.to_string().contains("torn") && error.to_string().contains("cable pulled"), "{error}");
        let error = stage(&storage, "nothing", &mut io::empty(), SectorSize::KiB2).unwrap_err();
        assert!(error.to_string().contains("nothing is empty"), "{error}");
        assert_eq!(storage.all_staged().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn long_names_are_cut_at_a_character() {
        assert_eq!(cut(&"ä".repeat(200)).len(), 254);
        assert_eq!(cut("short"), "short");
    }
}
