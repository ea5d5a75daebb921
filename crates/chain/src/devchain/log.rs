//! The chain's files: a log of blocks in generations, each after the first begun by a checkpoint.
//!
//! `blocks-<height>.log` holds the blocks after that height, `checkpoint-<height>.cbor` the state at it; the first
//! log starts from genesis, which needs no file. A new generation begins when the log has outgrown the state; the one
//! before is kept until then, so that a damaged checkpoint does not end the chain. A log is a magic number and frames,
//! each of a length (4 bytes, little-endian), the BLAKE2b-256 of the payload, and the payload. Frames are written one
//! at a time and synced before anybody sees their blocks, so only the last one can be torn by a crash; it is cut off.
//! Damage anywhere else is not the work of a crash, and is refused.

use super::block::Record;
use super::proof_files::{sync_folder, write_durably};
use super::state::Checkpoint;
use crate::cbor::{self, blake2b_256};
use crate::{Error, Result};
use cid::Cid;
use primitives::Epoch;
use serde_tuple::{Deserialize_tuple, Serialize_tuple};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const LOG_MAGIC: &[u8; 8] = b"srchain1";
const CHECKPOINT_MAGIC: &[u8; 8] = b"srstate1";
const HEAD_BYTES: usize = 36;
/// A log is not cut into generations before it has this many bytes.
const MIN_LOG_BYTES: u64 = 1 << 20;

/// Blocks that are written together.
#[derive(Debug, Serialize_tuple, Deserialize_tuple)]
pub(super) struct Frame {
    /// The height of the first block.
    pub(super) first: Epoch,
    /// The blocks.
    pub(super) records: Vec<Record>,
    /// The CID of the last block, to be compared with what the records give.
    pub(super) last: Cid,
}

/// Where a chain can be taken up.
pub(super) struct Start {
    /// The state to begin with; `None` is genesis.
    pub(super) checkpoint: Option<Checkpoint>,
    /// The frames after it.
    pub(super) frames: Vec<Frame>,
    /// The log to go on with.
    pub(super) log: Log,
}

/// The log that is written to.
#[derive(Debug)]
pub(super) struct Log {
    dir: PathBuf,
    path: PathBuf,
    file: File,
    bytes: u64,
    /// A write failed and could not be taken back yet.
    spoiled: bool,
    /// The log begins a new generation at this size.
    limit: u64,
    /// The heights from which the chain can be read: genesis, and the checkpoints known to be whole. Ascending.
    starts: Vec<Epoch>,
}

fn log_path(dir: &Path, height: Epoch) -> PathBuf {
    dir.join(format!("blocks-{height:012}.log"))
}

fn checkpoint_path(dir: &Path, height: Epoch) -> PathBuf {
    dir.join(format!("checkpoint-{height:012}.cbor"))
}

fn damaged(path: &Path, reason: String) -> Error {
    Error::Damaged { path: path.display().to_string(), reason }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|mut f| f.read_to_end(&mut bytes))
        .map_err(|e| Error::storage("reading", path, &e))?;
    Ok(bytes)
}

fn frame_bytes(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD_BYTES + payload.len());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&blake2b_256(payload));
    out.extend_from_slice(payload);
    out
}

/// The payload at the start of `bytes`, or `None` if it is cut or does not match its digest.
fn whole_frame(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (digest, rest) = rest.split_first_chunk::<32>()?;
    let payload = rest.get(..u32::from_le_bytes(*length) as usize)?;
    (!payload.is_empty() && blake2b_256(payload) == *digest).then_some(payload)
}

/// Whether the broken frame that `bytes` begin with can come from a write that a crash interrupted: it was the last one,
/// so no whole frame follows. Its head may be anything, as the parts of a write reach the disk in any order.
fn can_be_torn(bytes: &[u8]) -> bool {
    !(1..bytes.len()).any(|at| whole_frame(&bytes[at..]).is_some())
}

/// The frames of a log and how many bytes of it are whole. `last` says that a torn end is acceptable.
fn scan(path: &Path, last: bool) -> Result<(Vec<Frame>, u64)> {
    let bytes = read(path)?;
    let mut frames = Vec::new();
    if bytes.len() < LOG_MAGIC.len() && LOG_MAGIC.starts_with(&bytes) && last {
        return Ok((frames, 0));
    }
    if !bytes.starts_with(LOG_MAGIC) {
        return Err(damaged(path, "it does not begin as a log of blocks".into()));
    }
    let mut at = LOG_MAGIC.len();
    while at < bytes.len() {
        let Some(payload) = whole_frame(&bytes[at..]) else {
            if last && can_be_torn(&bytes[at..]) {
                tracing::warn!(path = %path.display(), cut = bytes.len() - at, "an unfinished block is cut off");
                break;
            }
            return Err(damaged(path, format!("the frame at byte {at} does not match its digest")));
        };
        let frame: Frame = cbor::decode("blocks", payload).map_err(|e| damaged(path, e.to_string()))?;
        frames.push(frame);
        at += HEAD_BYTES + payload.len();
    }
    Ok((frames, at as u64))
}

fn read_checkpoint(path: &Path) -> Option<Checkpoint> {
    let bytes = read(path).ok()?;
    let payload = whole_frame(bytes.strip_prefix(CHECKPOINT_MAGIC)?)?;
    cbor::decode("checkpoint", payload).ok()
}

/// The heights in the names of the files `<prefix><height>.<suffix>`, ascending.
fn heights(dir: &Path, prefix: &str, suffix: &str) -> Result<Vec<Epoch>> {
    let list = std::fs::read_dir(dir).map_err(|e| Error::storage("listing", dir, &e))?;
    let mut out = Vec::new();
    for entry in list {
        let entry = entry.map_err(|e| Error::storage("listing", dir, &e))?;
        let name = entry.file_name();
        let digits = name.to_str().and_then(|n| n.strip_prefix(prefix)?.strip_suffix(suffix));
        out.extend(digits.and_then(|d| d.parse::<Epoch>().ok()));
    }
    out.sort_unstable();
    Ok(out)
}

impl Log {
    /// Reads the chain's files, or makes the first log.
    pub(super) fn open(dir: &Path) -> Result<Start> {
        let logs = heights(dir, "blocks-", ".log")?;
        let checkpoints = heights(dir, "checkpoint-", ".cbor")?;
        let mut base = None;
        for height in checkpoints.iter().rev() {
            let path = checkpoint_path(dir, *height);
            match read_checkpoint(&path) {
                Some(checkpoint) => {
                    base = Some((*height, checkpoint));
                    break;
                }
                None => tracing::warn!(path = %path.display(), "a damaged checkpoint is passed over"),
            }
        }
        let (from, checkpoint) = match base {
            Some((height, checkpoint)) => (height, Some(checkpoint)),
            None if logs.first().is_none_or(|first| *first == 0) => (0, None),
            None => return Err(damaged(dir, "no checkpoint can be read, and the first log is gone".into())),
        };
        let mut generations: Vec<Epoch> = logs.into_iter().filter(|h| *h >= from).collect();
        // A log whose checkpoint never came into being holds nothing.
        while let Some(last) = generations.last().copied().filter(|h| *h > from && !checkpoints.contains(h)) {
            if !scan(&log_path(dir, last), true)?.0.is_empty() {
                break;
            }
            remove(&log_path(dir, last))?;
            generations.pop();
        }
        if generations.first() != Some(&from) {
            if from != 0 || !generations.is_empty() {
                return Err(damaged(&log_path(dir, from), "it is missing".into()));
            }
            create(&log_path(dir, 0))?;
            generations.push(0);
        }
        let mut frames = Vec::new();
        let mut bytes = 0;
        for (i, height) in generations.iter().enumerate() {
            let (more, whole) = scan(&log_path(dir, *height), i + 1 == generations.len())?;
            frames.extend(more);
            bytes = whole;
        }
        let path = log_path(dir, *generations.last().expect("there is at least the first log"));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|e| Error::storage("opening", &path, &e))?;
        for height in heights(dir, "checkpoint-", ".tmp")? {
            remove(&checkpoint_path(dir, height).with_extension("tmp"))?;
        }
        let mut starts: Vec<Epoch> = checkpoints.into_iter().filter(|h| *h <= from).collect();
        if log_path(dir, 0).exists() {
            starts.insert(0, 0);
        }
        let state_bytes = std::fs::metadata(checkpoint_path(dir, from)).map_or(0, |m| m.len());
        let mut log = Self {
            dir: dir.to_owned(),
            path,
            file,
            bytes,
            spoiled: true,
            limit: MIN_LOG_BYTES.max(state_bytes * 4),
            starts,
        };
        // Cuts a torn end off.
        log.repair()?;
        Ok(Start { checkpoint, frames, log })
    }

    /// Takes back what a failed write may have left.
    fn repair(&mut self) -> Result<()> {
        if !self.spoiled {
            return Ok(());
        }
        let mut cut = || {
            self.file.set_len(self.bytes)?;
            self.file.seek(SeekFrom::Start(self.bytes))?;
            if self.bytes == 0 {
                self.file.write_all(LOG_MAGIC)?;
            }
            self.file.sync_all()
        };
        cut().map_err(|e| Error::storage("repairing", &self.path, &e))?;
        self.bytes = self.bytes.max(LOG_MAGIC.len() as u64);
        self.spoiled = false;
        Ok(())
    }

    /// Adds a frame and syncs. After an error nothing of it is there.
    pub(super) fn append(&mut self, frame: &Frame) -> Result<()> {
        self.repair()?;
        let bytes = frame_bytes(&cbor::encode(frame));
        let write = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        if let Err(e) = write {
            self.spoiled = true;
            // If this fails too, it is tried again before the next write.
            let _ = self.repair();
            return Err(Error::storage("writing", &self.path, &e));
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Whether the log has outgrown the state.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= self.limit
    }

    /// Begins a new generation with the state at `height`. The new log is used even if its checkpoint cannot be
    /// written: then the chain is read through the log before it.
    pub(super) fn rotate(&mut self, height: Epoch, checkpoint: &Checkpoint) -> Result<()> {
        let path = log_path(&self.dir, height);
        self.file = create(&path)?;
        self.path = path;
        self.bytes = LOG_MAGIC.len() as u64;
        let mut bytes = CHECKPOINT_MAGIC.to_vec();
        bytes.extend(frame_bytes(&cbor::encode(checkpoint)));
        let path = checkpoint_path(&self.dir, height);
        write_durably(&path.with_extension("tmp"), &path, &bytes)?;
        self.limit = MIN_LOG_BYTES.max(bytes.len() as u64 * 4);
        self.starts.push(height);
        let keep = self.starts[self.starts.len().saturating_sub(2)];
        // Checkpoints go first: a log without its checkpoint is just not used.
        for old in heights(&self.dir, "checkpoint-", ".cbor")?.into_iter().filter(|h| *h < keep) {
            remove(&checkpoint_path(&self.dir, old))?;
        }
        for old in heights(&self.dir, "blocks-", ".log")?.into_iter().filter(|h| *h < keep) {
            remove(&log_path(&self.dir, old))?;
        }
        self.starts.retain(|h| *h >= keep);
        Ok(())
    }
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::storage("removing", path, &e)),
        _ => Ok(()),
    }
}

/// Makes an empty log, durably, to be written on.
fn create(path: &Path) -> Result<File> {
    let make = || {
        let mut file = File::create(path)?;
        file.write_all(LOG_MAGIC)?;
        file.sync_all()?;
        Ok(file)
    };
    let file = make().map_err(|e| Error::storage("making", path, &e))?;
    sync_folder(path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(first: Epoch) -> Frame {
        Frame { first, records: vec![Record::default()], last: cbor::cid_of(&first) }
    }

    fn firsts(dir: &Path) -> Vec<Epoch> {
        Log::open(dir).unwrap().frames.iter().map(|f| f.first).collect()
    }

    #[test]
    fn a_failed_write_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::open(dir.path()).unwrap().log;
        log.append(&frame(1)).unwrap();
        // A disk that takes half of a frame and then nothing, not even the repair.
        let half = frame_bytes(&cbor::encode(&frame(2)));
        log.file.write_all(&half[..half.len() / 2]).unwrap();
        let good = std::mem::replace(&mut log.file, File::open(&log.path).unwrap());
        assert!(matches!(log.append(&frame(2)), Err(Error::Storage { .. })));
        assert!(matches!(log.append(&frame(2)), Err(Error::Storage { doing: "repairing", .. })));
        assert_eq!(firsts(dir.path()), [1]);
        // When the disk is well again, the frame goes where the half one was.
        log.file = good;
        log.append(&frame(2)).unwrap();
        log.append(&frame(3)).unwrap();
        assert_eq!(firsts(dir.path()), [1, 2, 3]);
    }

    #[test]
    fn only_the_last_frame_can_be_torn() {
        let (one, two) = (frame_bytes(b"one"), frame_bytes(b"two"));
        for cut in 0..one.len() {
            assert!(can_be_torn(&one[..cut]));
        }
        let mut bad = one.clone();
        bad[0] ^= 0xff;
        assert!(can_be_torn(&bad));
        assert!(!can_be_torn(&[bad, two].concat()));
        assert_eq!(whole_frame(&one), Some(&b"one"[..]));
        assert_eq!(whole_frame(&frame_bytes(b"")), None);
    }
}
