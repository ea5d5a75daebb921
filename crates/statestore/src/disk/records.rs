//! The records: one sled database, and what it takes to have them on disk.

use super::files::{self, Device};
use crate::check::RESERVED;
use crate::schema::Raw;
use crate::{Pair, StoreError, VALUE_BYTES_MAX};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// sled's segment size. Values above a quarter of it leak a file at each rewrite in 0.34; the cap keeps a margin.
const SLED_SEGMENT_BYTES: usize = 512 * 1024;
const _: () = assert!(VALUE_BYTES_MAX <= SLED_SEGMENT_BYTES / 8);

const FORMAT_KEY: &[u8] = b"\0format";
const POSITION_KEY: &[u8] = b"\0position";

/// How far the journal belongs to the records; written in the same atomic batch as the records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The last entry's sequence number; 0 before the first.
    pub(crate) last_seq: u64,
    /// The first sequence number of the segment in use; 0 before the first.
    pub(crate) segment: u64,
    /// Its length in bytes.
    pub(crate) offset: u64,
    /// The number of the last group that had journal entries.
    pub(crate) group: u64,
}

impl Position {
    fn to_bytes(self) -> Vec<u8> {
        [self.last_seq, self.segment, self.offset, self.group].iter().flat_map(|n| n.to_be_bytes()).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut numbers = bytes.chunks_exact(8).map(|c| u64::from_be_bytes(c.try_into().unwrap_or_default()));
        (bytes.len() == 32).then_some(())?;
        Some(Self {
            last_seq: numbers.next()?,
            segment: numbers.next()?,
            offset: numbers.next()?,
            group: numbers.next()?,
        })
    }
}

/// New values of keys; `None` removes.
pub(crate) type Overlay = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

pub(crate) struct Records {
    /// Present until dropped.
    db: Option<sled::Db>,
    dir: PathBuf,
    /// Our own handle to sled's file, opened before anything is written, so that no failed write-back escapes it.
    file: File,
    file_path: PathBuf,
    synced_blobs: Mutex<HashSet<String>>,
}

impl Records {
    /// Opens or creates the database in `dir`.
    pub(crate) fn open(dir: &Path, cache_bytes: u64, flush_every: Duration) -> Result<Self, StoreError> {
        files::private_dir(dir)?;
        let config = sled::Config::new()
            .path(dir)
            .cache_capacity(cache_bytes)
            .segment_size(SLED_SEGMENT_BYTES)
            .flush_every_ms(Some(u64::try_from(flush_every.as_millis()).unwrap_or(u64::MAX).max(1)));
        // sled panics on some damaged files.
        let opened = catch_unwind(AssertUnwindSafe(|| config.open()));
        let db = match opened {
            Ok(opened) => opened.map_err(|e| open_error(dir, e))?,
            Err(_) => return Err(damaged(dir, "the database gave up while opening it")),
        };
        let file_path = dir.join("db");
        let file = files::open_rw(&file_path).map_err(|e| StoreError::io("open", &file_path, &e))?;
        Ok(Self { db: Some(db), dir: dir.to_owned(), file, file_path, synced_blobs: Mutex::default() })
    }

    fn db(&self) -> &sled::Db {
        self.db.as_ref().expect("the database is only taken out when dropped")
    }

    /// The format version, `None` in a new database.
    pub(crate) fn format(&self) -> Result<Option<u16>, StoreError> {
        match self.get(FORMAT_KEY)? {
            None => Ok(None),
            Some(bytes) => match <[u8; 2]>::try_from(bytes.as_slice()) {
                Ok(bytes) => Ok(Some(u16::from_be_bytes(bytes))),
                Err(_) => Err(damaged(&self.dir, "the format version is malformed")),
            },
        }
    }

    pub(crate) fn set_format(&self, format: u16) -> Result<(), StoreError> {
        self.db()
            .insert(FORMAT_KEY, format.to_be_bytes().to_vec())
            .map(drop)
            .map_err(|e| sled_error("write to the records in", &self.dir, e))
    }

    pub(crate) fn position(&self) -> Result<Position, StoreError> {
        match self.get(POSITION_KEY)? {
            None => Ok(Position::default()),
            Some(bytes) => Position::from_bytes(&bytes)
                .ok_or_else(|| damaged(&self.dir, "the journal's position is malformed")),
        }
    }

    /// Applies a whole group in memory; [`Records::make_durable`] brings it to the disk. An error other than a full
    /// disk may hide a failed sync, because sled writes and syncs when its buffers are full.
    pub(crate) fn apply(&self, overlay: &Overlay, position: Option<Position>) -> Result<(), StoreError> {
        let mut batch = sled::Batch::default();
        for (key, value) in overlay {
            match value {
                Some(value) => batch.insert(key.as_slice(), value.as_slice()),
                None => batch.remove(key.as_slice()),
            }
        }
        if let Some(position) = position {
            batch.insert(POSITION_KEY, position.to_bytes());
        }
        self.db().apply_batch(batch).map_err(|e| self.write_error("write to", e))
    }

    /// Returns when everything applied is on disk. sled's own `flush` ends in `sync_file_range` on Linux, which
    /// survives the process but not the power, and its blob files are never synced at all; so both are done here.
    pub(crate) fn make_durable(&self, device: &dyn Device) -> Result<(), StoreError> {
        self.db().flush().map_err(|e| self.write_error("flush", e))?;
        self.sync_blobs(device)?;
        device.sync(&self.file).map_err(|e| StoreError::fatal("sync", &self.file_path, &e))
    }

    /// Syncs blob files that are new since the last call. sled's background thread makes some when it moves pages.
    pub(crate) fn sync_blobs(&self, device: &dyn Device) -> Result<(), StoreError> {
        let blobs = self.dir.join("blobs");
        let present = files::names(&blobs)?;
        let mut synced = self.synced_blobs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new = false;
        for name in &present {
            if synced.contains(name) {
                continue;
            }
            new = true;
            let path = blobs.join(name);
            match File::open(&path) {
                Ok(file) => device.sync(&file).map_err(|e| StoreError::fatal("sync", &path, &e))?,
                // Replaced already.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(StoreError::fatal("open for syncing", &path, &e)),
            }
        }
        if new {
            files::sync_dir(&blobs).map_err(|e| StoreError::fatal("sync", &blobs, &e))?;
        }
        if new || present.len() != synced.len() {
            *synced = present.into_iter().collect();
        }
        Ok(())
    }

    fn write_error(&self, action: &str, error: sled::Error) -> StoreError {
        match sled_error(&format!("{action} the records in"), &self.dir, error) {
            full @ StoreError::Full { .. } => full,
            other => StoreError::fatal(&format!("{action} the records in"), &self.dir, &other),
        }
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        let db = self.db.take();
        // sled writes and syncs once more while closing, and panics when that fails.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(db)));
    }
}

impl Raw for Records {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.db().get(key) {
            Ok(value) => Ok(value.map(|v| v.to_vec())),
            Err(e) => Err(sled_error("read the records in", &self.dir, e)),
        }
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Pair>, StoreError> {
        // The backend's own keys sort before all others.
        let first = prefix.max(&[RESERVED + 1]);
        let from = match after {
            Some(after) if after >= first => Bound::Excluded(after),
            _ => Bound::Included(first),
        };
        let mut pairs = Vec::new();
        for pair in self.db().range::<&[u8], _>((from, Bound::Unbounded)).take(limit) {
            let (key, value) = pair.map_err(|e| sled_error("read the records in", &self.dir, e))?;
            if !key.starts_with(prefix) {
                break;
            }
            pairs.push((key.to_vec(), value.to_vec()));
        }
        Ok(pairs)
    }
}

/// Records as they were before a group whose write failed.
pub(crate) struct Withheld<'a> {
    pub(crate) records: &'a Records,
    /// What the group's keys held.
    pub(crate) before: &'a Overlay,
}

impl Raw for Withheld<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.before.get(key) {
            Some(value) => Ok(value.clone()),
            None => self.records.get(key),
        }
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Pair>, StoreError> {
        // As many more as may have to be left out.
        let found = self.records.scan(prefix, after, limit.saturating_add(self.before.len()))?;
        let mut pairs: BTreeMap<Vec<u8>, Vec<u8>> = found.into_iter().collect();
        for (key, value) in self.before {
            pairs.remove(key);
            let asked = key.starts_with(prefix) && after.is_none_or(|after| key.as_slice() > after);
            if let (Some(value), true) = (value, asked && key.first() != Some(&RESERVED)) {
                pairs.insert(key.clone(), value.clone());
            }
        }
        Ok(pairs.into_iter().take(limit).collect())
    }
}

fn damaged(dir: &Path, what: &str) -> StoreError {
    StoreError::Damaged { what: format!("{what} ({})", dir.display()), way_out: super::WAY_OUT.to_owned() }
}

fn open_error(dir: &Path, error: sled::Error) -> StoreError {
    match &error {
        // sled has a lock of its own, which a program that does not know ours may hold, or a handle of this process
        // that is still closing. There is no telling but by the text.
        sled::Error::Io(e) if e.to_string().contains("could not acquire lock") => {
            StoreError::Locked { path: dir.to_owned(), pid: None, contact: None }
        }
        _ => sled_error("open the records in", dir, error),
    }
}

fn sled_error(action: &str, dir: &Path, error: sled::Error) -> StoreError {
    match error {
        sled::Error::Io(e) => StoreError::io(action, dir, &e),
        sled::Error::Unsupported(reason) => {
            damaged(dir, &format!("the database is of another kind or version: {reason}"))
        }
        sled::Error::CollectionNotFound(_) => damaged(dir, "a collection of the database is missing"),
        sled::Error::ReportableBug(reason) => damaged(dir, &format!("the database reports a bug: {reason}")),
        sled::Error::Corruption { at, .. } => {
            damaged(dir, &format!("the database found corruption at {at:?}"))
        }
        #[allow(unreachable_patterns)]
        other => damaged(dir, &other.to_string()),
    }
}
