//! The store on disk.

mod core;
mod files;
mod frame;
mod lock;
mod records;
mod segments;
mod thread;

use self::core::{Core, Opened, Shared};
use self::files::{Device, OsDevice, TempDir};
use self::lock::Lock;
use self::records::Withheld;
use self::thread::{Job, StoreThread};
use crate::check::{RESERVED, check_batch};
use crate::schema::{self, Raw, Schema};
use crate::{Batch, Committed, Entry, Pair, Store, StoreError};
use async_trait::async_trait;
use futures_channel::oneshot;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The version of the folder's layout.
const FORMAT: u16 = 1;

const WAY_OUT: &str = "Keep a copy of the folder, then restore a backup, or move the folder away and rebuild its \
                       content from its sources.";

/// How to open a store on disk.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bytes of memory for the records' cache. Default 64 MiB.
    pub cache_bytes: u64,
    /// How often the database's own thread flushes and tidies up. A backstop: commits never rely on it. Default 250 ms.
    pub flush_every: Duration,
    /// A journal segment is closed when it would grow beyond this many bytes; 4 KiB to 1 GiB. Default 8 MiB.
    pub segment_bytes: u64,
    /// How others reach this process, told to whoever finds the store locked; an address for example.
    pub contact: String,
    /// The version of what is stored, and the way from older ones.
    pub schema: Schema,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 64 * 1024 * 1024,
            flush_every: Duration::from_millis(250),
            segment_bytes: 8 * 1024 * 1024,
            contact: String::new(),
            schema: Schema::default(),
        }
    }
}

/// Whether the store can serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It can.
    Serving,
    /// A write failed; the store tries to open again, with growing pauses. Commits fail with `error` meanwhile; what
    /// was committed before can be read.
    Recovering {
        /// What failed.
        error: StoreError,
        /// Failures since the last good commit.
        tries: u32,
    },
    /// A sync failed: the process must report `error` and exit non-zero.
    Fatal {
        /// What failed.
        error: StoreError,
    },
    /// It was closed.
    Closed,
}

/// What opening did and found. Nothing that was acknowledged is ever in here as lost; damage is an error instead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// A new store was made.
    pub created: bool,
    /// Journal entries of a commit that was under way when the last owner died, cut off.
    pub lost_entries: u64,
    /// Bytes cut off the journal, torn entries included.
    pub lost_bytes: u64,
    /// The process that owned the store and did not close it.
    pub stale_owner: Option<u32>,
    /// The schema version before migration.
    pub migrated_from: Option<u16>,
    /// The last owner had a failed sync, so all files were written anew.
    pub rewritten: bool,
    /// How long opening took.
    pub took: Duration,
}

/// Figures for gauges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Bytes of the records' files.
    pub records_bytes: u64,
    /// Bytes of the journal's segments.
    pub journal_bytes: u64,
    /// Journal entries kept.
    pub entries: u64,
    /// Batches committed since opening.
    pub batches: u64,
    /// Groups (each synced once) that held them.
    pub groups: u64,
    /// Time spent writing and syncing them.
    pub writing: Duration,
}

/// The store on disk: records in sled, the journal in files of its own, one thread that writes both.
///
/// A commit returns when its data is on disk; commits that wait at the same time share the syncs. Dropping the future
/// of a commit does not undo it. Dropping or closing the store waits for what is queued.
pub struct SledStore {
    shared: Arc<Shared>,
    queue: Mutex<Option<Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    lock: Weak<Lock>,
    report: OpenReport,
    /// The copy that an inspected store works on. Declared last: removed after everything is closed.
    _copy: Option<TempDir>,
}

impl std::fmt::Debug for SledStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SledStore")
            .field("dir", &self.shared.dir)
            .field("health", &self.health())
            .finish_non_exhaustive()
    }
}

impl SledStore {
    /// Opens the store in the folder `dir`, or makes it; the folder's parent must exist. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process owns it, [`StoreError::NewerSchema`], [`StoreError::Damaged`],
    /// [`StoreError::Io`] and [`StoreError::Full`] with the file's name, or what a migration says.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        Self::open_on(dir.as_ref(), options, Arc::new(OsDevice), None)
    }

    /// Opens a copy of the store in `dir`, which no process may own. The original stays as it is, to the byte; what is
    /// written goes to the copy, which is removed when the store is dropped. Blocks.
    ///
    /// # Errors
    /// As [`SledStore::open`]; [`StoreError::Io`] when there is no store.
    pub fn inspect(dir: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        let dir = dir.as_ref();
        let lock = Lock::for_reading(dir)?;
        let copy = TempDir::new("inspect")?;
        for part in [self::core::RECORDS, self::core::JOURNAL] {
            files::copy_tree(&dir.join(part), &copy.path().join(part))?;
        }
        drop(lock);
        let path = copy.path().to_owned();
        Self::open_on(&path, options, Arc::new(OsDevice), Some(copy))
    }

    fn open_on(
        dir: &Path,
        options: Options,
        device: Arc<dyn Device>,
        copy: Option<TempDir>,
    ) -> Result<Self, StoreError> {
        let started = Instant::now();
        files::private_dir(dir)?;
        let (lock, stale_owner) = Lock::acquire(dir, &options.contact)?;
        let marker = dir.join(self::core::SYNC_FAILED);
        let rewritten = marker.exists();
        if rewritten {
            files::rewrite_tree(&dir.join(self::core::RECORDS))?;
            files::rewrite_tree(&dir.join(self::core::JOURNAL))?;
            std::fs::remove_file(&marker).map_err(|e| StoreError::io("remove", &marker, &e))?;
            files::sync_dir(dir)?;
        }
        let schema = options.schema;
        let Opened { mut core, created, tail } = Core::open(dir, options, device)?;
        let plan = {
            let view = core.shared.view();
            let records = view.records.as_ref().ok_or(StoreError::Closed)?;
            schema::plan(records, &schema)?
        };
        if let Some(batch) = plan.batch {
            core.commit(vec![batch]).map_err(|failure| failure.error().clone())?;
        }
        let report = OpenReport {
            created,
            lost_entries: tail.entries,
            lost_bytes: tail.bytes,
            stale_owner,
            migrated_from: plan.migrated_from,
            rewritten,
            took: started.elapsed(),
        };
        let (sender, receiver) = channel();
        let lock = Arc::new(lock);
        let shared = core.shared.clone();
        let weak_lock = Arc::downgrade(&lock);
        let store_thread = StoreThread::new(core, receiver, lock);
        let thread = std::thread::Builder::new()
            .name("statestore".to_owned())
            .spawn(move || store_thread.run())
            .map_err(|e| StoreError::io("start the store thread for", dir, &e))?;
        Ok(Self {
            shared,
            queue: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
            lock: weak_lock,
            report,
            _copy: copy,
        })
    }

    /// What opening did and found.
    pub fn report(&self) -> &OpenReport {
        &self.report
    }

    /// Whether the store can serve.
    pub fn health(&self) -> Health {
        self.shared.health().clone()
    }

    /// Returns the error when the store fails for good ([`Health::Fatal`]), `None` when it is closed in order. A server
    /// waits for this beside its work and exits non-zero on an error.
    pub async fn fatal(&self) -> Option<StoreError> {
        let (sender, receiver) = oneshot::channel();
        // Enlisted before looking, so that a failure in between is not missed.
        self.shared.fatal_waiters().push(sender);
        match self.health() {
            Health::Fatal { error } => Some(error),
            Health::Closed => None,
            Health::Serving | Health::Recovering { .. } => receiver.await.ok(),
        }
    }

    /// Changes what others are told who find the store locked.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the lock file cannot be written, [`StoreError::Closed`].
    pub fn set_contact(&self, contact: &str) -> Result<(), StoreError> {
        self.lock.upgrade().ok_or(StoreError::Closed)?.set_contact(contact)
    }

    /// Figures for gauges. Looks at the files' sizes.
    pub fn stats(&self) -> Stats {
        let shared = &self.shared;
        Stats {
            records_bytes: files::tree_bytes(&shared.dir.join(self::core::RECORDS)),
            journal_bytes: files::tree_bytes(&shared.dir.join(self::core::JOURNAL)),
            entries: shared.view().index.len(),
            batches: shared.batches.load(Ordering::Relaxed),
            groups: shared.groups.load(Ordering::Relaxed),
            writing: Duration::from_nanos(shared.sync_nanos.load(Ordering::Relaxed)),
        }
    }

    /// Finishes what is queued, closes the files and lets go of the lock. Blocks. Later calls get
    /// [`StoreError::Closed`]; closing again does nothing.
    ///
    /// # Errors
    /// [`StoreError::Fatal`] when the store had failed.
    pub fn close(&self) -> Result<(), StoreError> {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            return Err(StoreError::fatal("close", &self.shared.dir, &"the store thread panicked"));
        }
        match self.health() {
            Health::Fatal { error } => Err(error),
            _ => Ok(()),
        }
    }

    fn with_records<T>(&self, work: impl FnOnce(&dyn Raw) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let view = self.shared.view();
        match (&view.blocked, &view.records) {
            (Some(error), _) => Err(error.clone()),
            (None, Some(records)) if view.before.is_empty() => work(records),
            (None, Some(records)) => work(&Withheld { records, before: &view.before }),
            (None, None) => Err(StoreError::Closed),
        }
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        let _ = self.close();
    }
}

#[async_trait]
impl Store for SledStore {
    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        if key.first() == Some(&RESERVED) {
            return Ok(None);
        }
        self.with_records(|records| records.get(key))
    }

    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Pair>, StoreError> {
        self.with_records(|records| records.scan(prefix, after, limit))
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        check_batch(&batch)?;
        let (answer, answered) = oneshot::channel();
        {
            let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            let queue = queue.as_ref().ok_or(StoreError::Closed)?;
            queue.send(Job { batch, answer }).map_err(|_| StoreError::Closed)?;
        }
        match answered.await {
            Ok(answer) => answer,
            Err(oneshot::Canceled) => {
                Err(StoreError::fatal("commit to", &self.shared.dir, &"the store thread died"))
            }
        }
    }

    async fn journal(
        &self,
        stream: Option<&[u8]>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let found = {
            let view = self.shared.view();
            if let Some(error) = &view.blocked {
                return Err(error.clone());
            }
            view.index.find(stream, after, limit)
        };
        segments::read(&self.shared.dir.join(self::core::JOURNAL), &found)
    }
}

#[cfg(test)]
mod tests;
