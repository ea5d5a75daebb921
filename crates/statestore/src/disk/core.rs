//! One group of batches: checked, journalled, applied and synced; and the way back after a failure.

use super::files::{self, Device};
use super::records::{Overlay, Records};
use super::segments::{self, Index, Tail, Writer};
use super::{FORMAT, Health, Options, WAY_OUT};
use crate::error::printable;
use crate::schema::Raw;
use crate::{Batch, Committed, Expect, StoreError, Write};
use futures_channel::oneshot;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// The folder of the records.
pub(crate) const RECORDS: &str = "records";
/// The folder of the journal's segments.
pub(crate) const JOURNAL: &str = "journal";
/// There after a failed sync: the next open rewrites the files first.
pub(crate) const SYNC_FAILED: &str = "sync-failed";

/// What readers see.
pub(crate) struct View {
    pub(crate) records: Option<Records>,
    pub(crate) index: Index,
    /// What the keys of a group held whose write failed. The records may hold it in memory and not on disk, and nobody
    /// may see it until they are opened again.
    pub(crate) before: Overlay,
    /// Why nothing can be read.
    pub(crate) blocked: Option<StoreError>,
}

/// Shared by the store thread and all callers.
pub(crate) struct Shared {
    pub(crate) dir: PathBuf,
    view: RwLock<View>,
    health: Mutex<Health>,
    /// Those who wait to hear that the store failed for good.
    pub(crate) fatal: Mutex<Vec<oneshot::Sender<StoreError>>>,
    pub(crate) batches: AtomicU64,
    pub(crate) groups: AtomicU64,
    pub(crate) sync_nanos: AtomicU64,
}

impl Shared {
    /// Readers wait for a group being applied in memory, never for a sync.
    pub(crate) fn view(&self) -> RwLockReadGuard<'_, View> {
        // A panic of the store thread blocks the view for good; see `Core::fail_for_good`.
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn view_mut(&self) -> RwLockWriteGuard<'_, View> {
        self.view.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn fatal_waiters(&self) -> MutexGuard<'_, Vec<oneshot::Sender<StoreError>>> {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a group failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Before the records knew of it: they can still be read.
    Journal(StoreError),
    /// In the records, which may now hold in memory what is not on disk: they have to be opened again before the next
    /// write. Until then they are read as they were before.
    Records(StoreError),
    /// At a sync.
    Fatal(StoreError),
}

impl Failure {
    pub(crate) fn error(&self) -> &StoreError {
        match self {
            Self::Journal(error) | Self::Records(error) | Self::Fatal(error) => error,
        }
    }
}

/// The writing side; lives on the store thread.
pub(crate) struct Core {
    pub(crate) shared: Arc<Shared>,
    device: Arc<dyn Device>,
    options: Options,
    journal: Option<Writer>,
    /// The records' handle failed a write and is good for reading only.
    reopen: bool,
}

/// What opening found.
pub(crate) struct Opened {
    pub(crate) core: Core,
    pub(crate) created: bool,
    pub(crate) tail: Tail,
}

impl Core {
    /// Opens records and journal in `dir`, which this process owns.
    pub(crate) fn open(dir: &Path, options: Options, device: Arc<dyn Device>) -> Result<Opened, StoreError> {
        let journal_dir = dir.join(JOURNAL);
        files::private_dir(&journal_dir)?;
        let records = Records::open(&dir.join(RECORDS), options.cache_bytes, options.flush_every)?;
        let created = match records.format()? {
            Some(FORMAT) => false,
            Some(found) => {
                return Err(StoreError::NewerSchema { what: "format", found, supported: FORMAT });
            }
            None => {
                // The format is on disk before the first entry: a journal without it has lost its records.
                if !segments::segments(&journal_dir)?.is_empty() {
                    return Err(StoreError::Damaged {
                        what: format!(
                            "there is a journal but the records are empty or missing ({})",
                            dir.display()
                        ),
                        way_out: WAY_OUT.to_owned(),
                    });
                }
                records.set_format(FORMAT)?;
                records.make_durable(&*device)?;
                for dir in [&dir.join(RECORDS), dir] {
                    files::sync_dir(dir)?;
                }
                true
            }
        };
        // What was recovered may never have been synced by the process that wrote it.
        records.make_durable(&*device)?;
        let position = records.position()?;
        let (index, tail) = segments::scan(&journal_dir, position)?;
        let journal = Writer::at(&journal_dir, options.segment_bytes, position)?;
        let shared = Arc::new(Shared {
            dir: dir.to_owned(),
            view: RwLock::new(View { records: Some(records), index, before: Overlay::new(), blocked: None }),
            health: Mutex::new(Health::Serving),
            fatal: Mutex::default(),
            batches: AtomicU64::new(0),
            groups: AtomicU64::new(0),
            sync_nanos: AtomicU64::new(0),
        });
        Ok(Opened {
            core: Self { shared, device, options, journal: Some(journal), reopen: false },
            created,
            tail,
        })
    }

    /// Commits batches in order as one group. Each gets its own answer; a failure is everyone's.
    pub(crate) fn commit(
        &mut self,
        batches: Vec<Batch>,
    ) -> Result<Vec<Result<Committed, StoreError>>, Failure> {
        let shared = self.shared.clone();
        let Some(journal) = &mut self.journal else {
            return Err(Failure::Journal(StoreError::Closed));
        };
        let journal_end = journal.position();
        let mut last_seq = journal_end.last_seq;
        let mut answers = Vec::with_capacity(batches.len());
        let mut overlay = Overlay::new();
        let mut entries = Vec::new();
        let mut before = Overlay::new();
        {
            let view = shared.view();
            let records = view.records.as_ref().ok_or(Failure::Records(StoreError::Closed))?;
            for batch in batches {
                if let Some(error) = check(records, &overlay, &batch).map_err(Failure::Records)? {
                    answers.push(Err(error));
                    continue;
                }
                for write in batch.writes {
                    match write {
                        Write::Put { key, value } => overlay.insert(key, Some(value)),
                        Write::Delete { key } => overlay.insert(key, None),
                    };
                }
                last_seq += batch.journal.len() as u64;
                entries.extend(batch.journal);
                answers.push(Ok(Committed { last_seq }));
            }
            for key in overlay.keys() {
                before.insert(key.clone(), records.get(key).map_err(Failure::Records)?);
            }
        }
        if overlay.is_empty() && entries.is_empty() {
            return Ok(answers);
        }
        let started = Instant::now();
        let appended = if entries.is_empty() {
            None
        } else {
            Some(journal.append(&entries, &*self.device).map_err(|error| match error {
                StoreError::Fatal { .. } => Failure::Fatal(error),
                error => Failure::Journal(error),
            })?)
        };
        let records_failure = |error: StoreError| match error {
            StoreError::Fatal { .. } => Failure::Fatal(error),
            error => Failure::Records(error),
        };
        let applied = {
            // Both at once, so that a reader who sees a record also sees its entry.
            let mut view = shared.view_mut();
            let View { records, index, .. } = &mut *view;
            let records = records.as_mut().ok_or(Failure::Records(StoreError::Closed))?;
            let applied = records.apply(&overlay, appended.as_ref().map(|a| a.position));
            if let (Ok(()), Some(appended)) = (&applied, &appended) {
                index.publish(appended, &entries);
            }
            applied
        };
        let durable = applied.and_then(|()| self.make_durable());
        if let Err(error) = durable {
            let mut view = shared.view_mut();
            view.before = before;
            view.index.withdraw_after(journal_end);
            return Err(records_failure(error));
        }
        if let (Some(journal), Some(appended)) = (&mut self.journal, &appended) {
            journal.advance(appended);
        }
        shared.sync_nanos.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        shared.groups.fetch_add(1, Ordering::Relaxed);
        shared.batches.fetch_add(answers.iter().filter(|a| a.is_ok()).count() as u64, Ordering::Relaxed);
        Ok(answers)
    }

    fn make_durable(&self) -> Result<(), StoreError> {
        match &self.shared.view().records {
            Some(records) => records.make_durable(&*self.device),
            None => Err(StoreError::Closed),
        }
    }

    /// sled's background thread moves pages, sometimes into new files that it does not sync.
    pub(crate) fn sync_idle(&self) -> Result<(), StoreError> {
        match &self.shared.view().records {
            Some(records) => records.sync_blobs(&*self.device),
            None => Ok(()),
        }
    }

    /// Gives up what cannot be used after the failure; [`Core::recover`] brings it back.
    pub(crate) fn abandon(&mut self, failure: &Failure) {
        match failure {
            Failure::Journal(_) => self.journal = None,
            Failure::Records(_) => {
                self.journal = None;
                self.reopen = true;
            }
            Failure::Fatal(error) => self.fail_for_good(error),
        }
    }

    /// After this the store only ever answers with `error`.
    pub(crate) fn fail_for_good(&mut self, error: &StoreError) {
        self.journal = None;
        // The records stay open: closing sled would write once more.
        self.shared.view_mut().blocked = Some(error.clone());
        // When even this cannot be written the next open does not rewrite the files; it still checks them.
        let marker = self.shared.dir.join(SYNC_FAILED);
        let _ = std::fs::write(&marker, error.to_string())
            .and_then(|()| std::fs::File::open(&marker)?.sync_all());
        *self.shared.health() = Health::Fatal { error: error.clone() };
        for waiter in self.shared.fatal_waiters().drain(..) {
            // Whoever stopped waiting needs no answer.
            let _ = waiter.send(error.clone());
        }
    }

    fn close_records(&self, why: StoreError) {
        let records = {
            let mut view = self.shared.view_mut();
            view.blocked = Some(why);
            view.records.take()
        };
        // Closing writes; readers need not wait for that.
        drop(records);
    }

    /// One attempt to serve again: is there room, does everything open? Reading goes on until there is room; while the
    /// records are opened again readers wait.
    pub(crate) fn recover(&mut self) -> Result<(), Failure> {
        self.probe().map_err(Failure::Journal)?;
        if self.reopen {
            let mut view = self.shared.view_mut();
            let opened = self.reopen(view.records.take());
            match opened {
                Ok(opened) => *view = opened,
                Err(error) => {
                    view.blocked = Some(error.clone());
                    return Err(Failure::from_reopening(error));
                }
            }
            self.reopen = false;
        }
        let position = match &self.shared.view().records {
            Some(records) => records.position().map_err(Failure::from_reopening)?,
            None => return Err(Failure::Records(StoreError::Closed)),
        };
        let journal_dir = self.shared.dir.join(JOURNAL);
        let journal = Writer::at(&journal_dir, self.options.segment_bytes, position).map_err(|error| {
            match Failure::from_reopening(error) {
                // The records are as good as before.
                Failure::Records(error) => Failure::Journal(error),
                failure => failure,
            }
        })?;
        self.journal = Some(journal);
        *self.shared.health() = Health::Serving;
        Ok(())
    }

    /// Closes the old handle, whose lock keeps any other out, and opens a new one.
    fn reopen(&self, old: Option<Records>) -> Result<View, StoreError> {
        /// The database lets go of its lock when its own threads have ended, soon after it was closed.
        const CLOSING: Duration = Duration::from_secs(1);
        drop(old);
        let dir = &self.shared.dir;
        let started = Instant::now();
        let records = loop {
            let opened =
                Records::open(&dir.join(RECORDS), self.options.cache_bytes, self.options.flush_every);
            match opened {
                Err(StoreError::Locked { .. }) if started.elapsed() < CLOSING => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                opened => break opened?,
            }
        };
        records.make_durable(&*self.device)?;
        let (index, _) = segments::scan(&dir.join(JOURNAL), records.position()?)?;
        Ok(View { records: Some(records), index, before: Overlay::new(), blocked: None })
    }

    /// Whether a little more than the next writes need can be written.
    fn probe(&self) -> Result<(), StoreError> {
        // Closing and opening the records writes a few of the database's segments.
        let probe_bytes = if self.reopen { 4 } else { 1 } * 1024 * 1024;
        let path = self.shared.dir.join("probe");
        let written = files::open_rw(&path).and_then(|file| {
            self.device.write_at(&file, &vec![0x5a; probe_bytes], 0)?;
            self.device.sync(&file)
        });
        let removed = std::fs::remove_file(&path);
        written.and(removed).map_err(|e| StoreError::io("write a probe to", &path, &e))
    }

    /// Closes everything in order.
    pub(crate) fn close(mut self) {
        self.journal = None;
        let fatal = matches!(&*self.shared.health(), Health::Fatal { .. });
        if fatal {
            return;
        }
        self.close_records(StoreError::Closed);
        *self.shared.health() = Health::Closed;
        self.shared.fatal_waiters().clear();
    }
}

/// The first condition that does not hold, seen after the batches before it in the group.
fn check(records: &Records, overlay: &Overlay, batch: &Batch) -> Result<Option<StoreError>, StoreError> {
    for condition in &batch.conditions {
        let stored;
        let found = match overlay.get(&condition.key) {
            Some(value) => value.as_deref(),
            None => {
                stored = records.get(&condition.key)?;
                stored.as_deref()
            }
        };
        let holds = match &condition.expect {
            Expect::Absent => found.is_none(),
            Expect::Is(expected) => found == Some(expected.as_slice()),
        };
        if !holds {
            return Ok(Some(StoreError::Conflict { key: printable(&condition.key) }));
        }
    }
    Ok(None)
}
