//! A store that fails on command, for crash sweeps: die at commit 1, 2, 3, ..., before and after, and go on from there.

use crate::{Batch, Committed, Entry, Pair, Store, StoreError};
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What happens at a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// [`StoreError::Io`]; nothing is applied.
    FailBefore,
    /// [`StoreError::Io`]; the batch is applied all the same.
    FailAfter,
    /// [`StoreError::Full`]; nothing is applied.
    DiskFull,
    /// Never answers; nothing is applied.
    HangBefore,
    /// Never answers; the batch is applied.
    HangAfter,
    /// The process dies: this and every later call gets [`StoreError::Closed`]; nothing is applied.
    DieBefore,
    /// The process dies; the batch is applied.
    DieAfter,
    /// [`StoreError::Fatal`], now and for ever; the batch is applied.
    SyncFails,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 8] = [
        Self::FailBefore,
        Self::FailAfter,
        Self::DiskFull,
        Self::HangBefore,
        Self::HangAfter,
        Self::DieBefore,
        Self::DieAfter,
        Self::SyncFails,
    ];

    /// Its name, for messages and seeds.
    pub fn name(self) -> &'static str {
        match self {
            Self::FailBefore => "fail-before",
            Self::FailAfter => "fail-after",
            Self::DiskFull => "disk-full",
            Self::HangBefore => "hang-before",
            Self::HangAfter => "hang-after",
            Self::DieBefore => "die-before",
            Self::DieAfter => "die-after",
            Self::SyncFails => "sync-fails",
        }
    }

    /// Whether the batch is applied.
    pub fn applies(self) -> bool {
        matches!(self, Self::FailAfter | Self::HangAfter | Self::DieAfter | Self::SyncFails)
    }
}

/// Passes everything on to another store, except at the commits it was told about.
pub struct FaultStore {
    inner: Arc<dyn Store>,
    faults: Mutex<BTreeMap<u64, Fault>>,
    commits: AtomicU64,
    dead: AtomicBool,
    failed: AtomicBool,
}

impl std::fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultStore").field("commits", &self.commits()).finish_non_exhaustive()
    }
}

impl FaultStore {
    /// A store that does not fail yet.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            faults: Mutex::default(),
            commits: AtomicU64::new(0),
            dead: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        }
    }

    /// Lets the given commit fail, counted from 1 over the store's life. A later call for the same commit replaces it.
    pub fn at(&self, commit: u64, fault: Fault) -> &Self {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).insert(commit, fault);
        self
    }

    /// How many commits were asked for.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    /// Whether the process died.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// The store behind it: what a new process finds.
    pub fn inner(&self) -> Arc<dyn Store> {
        self.inner.clone()
    }

    fn alive(&self) -> Result<(), StoreError> {
        if self.is_dead() {
            return Err(StoreError::Closed);
        }
        if self.failed.load(Ordering::SeqCst) {
            return Err(sync_failed());
        }
        Ok(())
    }
}

fn sync_failed() -> StoreError {
    StoreError::fatal("sync", "injected".as_ref(), &"injected")
}

fn failed() -> StoreError {
    StoreError::Io { action: "write".to_owned(), path: "injected".into(), reason: "injected".to_owned() }
}

#[async_trait]
impl Store for FaultStore {
    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.alive()?;
        self.inner.get(key).await
    }

    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Pair>, StoreError> {
        self.alive()?;
        self.inner.scan(prefix, after, limit).await
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        self.alive()?;
        let number = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        let fault = self.faults.lock().unwrap_or_else(PoisonError::into_inner).get(&number).copied();
        let Some(fault) = fault else { return self.inner.commit(batch).await };
        // Set before the first await: other tasks of a dead process do nothing either.
        match fault {
            Fault::DieBefore | Fault::DieAfter => self.dead.store(true, Ordering::SeqCst),
            Fault::SyncFails => self.failed.store(true, Ordering::SeqCst),
            _ => {}
        }
        if fault.applies() {
            self.inner.commit(batch).await?;
        }
        match fault {
            Fault::FailBefore | Fault::FailAfter => Err(failed()),
            Fault::DiskFull => Err(StoreError::Full { action: "write".to_owned(), path: "injected".into() }),
            Fault::HangBefore | Fault::HangAfter => pending().await,
            Fault::DieBefore | Fault::DieAfter => Err(StoreError::Closed),
            Fault::SyncFails => Err(sync_failed()),
        }
    }

    async fn journal(
        &self,
        stream: Option<&[u8]>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.alive()?;
        self.inner.journal(stream, after, limit).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;
    use futures_util::FutureExt;

    /// `None` when the call hangs; the memory store is always ready.
    fn put(store: &FaultStore, key: &str) -> Option<Result<Committed, StoreError>> {
        let mut batch = Batch::new();
        batch.put(key, "v");
        store.commit(batch).now_or_never()
    }

    #[test]
    fn each_fault_does_what_its_name_says() {
        for fault in Fault::ALL {
            let store = FaultStore::new(Arc::new(MemoryStore::new()));
            store.at(2, fault);
            assert!(matches!(put(&store, "a"), Some(Ok(_))));
            let answer = put(&store, "b");
            let name = fault.name();
            assert_eq!(answer.is_none(), name.starts_with("hang"), "{name}");
            assert!(!matches!(answer, Some(Ok(_))), "{name}");
            let applied = store.inner().get(b"b").now_or_never().unwrap().unwrap().is_some();
            assert_eq!(applied, fault.applies(), "{name}");
            assert_eq!(store.is_dead(), name.starts_with("die"), "{name}");
            let gone = store.is_dead() || fault == Fault::SyncFails;
            assert_eq!(matches!(put(&store, "c"), Some(Ok(_))), !gone, "{name}");
            assert_eq!(store.get(b"a").now_or_never().unwrap().is_err(), gone, "{name}");
        }
    }
}
