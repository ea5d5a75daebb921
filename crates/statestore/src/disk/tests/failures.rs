//! Disks that are full, fail or hang.

use super::*;
use crate::disk::core::{Failure, SYNC_FAILED};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU8};

/// A disk whose next write or sync of a journal segment or of the records fails on command.
#[derive(Default)]
struct BadDisk {
    fault: AtomicU8,
    /// Syncs that go well before one fails: 0 hits the journal, 1 the records.
    good_syncs: AtomicU8,
}
const WRITE_FULL: u8 = 1;
const SYNC_FAILS: u8 = 2;
const SYNC_PANICS: u8 = 3;

impl BadDisk {
    fn set(&self, fault: u8) {
        self.fault.store(fault, Ordering::SeqCst);
    }
}

impl Device for BadDisk {
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.fault.load(Ordering::SeqCst) == WRITE_FULL {
            // A full disk takes a part.
            file.write_all_at(&bytes[..bytes.len() / 2], offset)?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.write_all_at(bytes, offset)
    }
    fn sync(&self, file: &File) -> io::Result<()> {
        let good = |n: u8| n.checked_sub(1);
        if self.good_syncs.fetch_update(Ordering::SeqCst, Ordering::SeqCst, good).is_ok() {
            return file.sync_data();
        }
        match self.fault.load(Ordering::SeqCst) {
            SYNC_FAILS => Err(io::Error::other("bad sector")),
            SYNC_PANICS => panic!("invariant broken"),
            _ => file.sync_data(),
        }
    }
}

async fn wait_until_serving(store: &SledStore) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while store.health() != Health::Serving {
        assert!(Instant::now() < deadline, "{:?}", store.health());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_full_disk_fails_the_waiters_and_passes() {
    let folder = Folder::new();
    let disk = Arc::new(BadDisk::default());
    let store = folder.open_on(disk.clone());
    store.commit(step(1)).await.unwrap();
    disk.set(WRITE_FULL);
    let refused = store.commit(step(2)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Full { .. }) && refused.is_transient(), "{refused:?}");
    assert!(matches!(store.health(), Health::Recovering { tries: 1, .. }), "{:?}", store.health());
    let again = store.commit(step(2)).await.unwrap_err();
    assert!(matches!(again, StoreError::Full { .. }), "{again:?}");
    // The records were not touched, so reading goes on.
    assert_steps(&store, 1).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    while !matches!(store.health(), Health::Recovering { tries: 2.., .. }) {
        assert!(Instant::now() < deadline, "it tries again: {:?}", store.health());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    disk.set(0);
    wait_until_serving(&store).await;
    for n in 2..=4 {
        store.commit(step(n)).await.unwrap();
    }
    assert_steps(&store, 4).await;
    drop(store);
    assert_steps(&folder.open(), 4).await;
}

#[tokio::test]
async fn records_are_read_and_reopened_after_their_write_error() {
    let folder = Folder::new();
    let store = folder.open();
    for n in 1..=3 {
        store.commit(step(n)).await.unwrap();
    }
    store.close().unwrap();
    let opened = Core::open(&folder.dir(), Options::default(), Arc::new(OsDevice)).unwrap();
    let mut core = opened.core;
    let full = StoreError::Full { action: "flush".to_owned(), path: folder.dir() };
    core.abandon(&Failure::Records(full.clone()));
    assert!(core.shared.view().records.is_some(), "reading goes on");
    assert_eq!(core.shared.view().blocked, None);
    core.recover().unwrap();
    core.commit(vec![step(4)]).unwrap()[0].clone().unwrap();
    core.close();
    assert_steps(&folder.open(), 4).await;
}

#[tokio::test]
async fn while_nothing_can_be_written_everything_can_be_read() {
    let folder = Folder::new();
    let disk = Arc::new(BadDisk::default());
    let store = folder.open_on(disk.clone());
    for n in 1..=3 {
        store.commit(step(n)).await.unwrap();
    }
    disk.set(WRITE_FULL);
    assert!(matches!(store.commit(step(4)).await, Err(StoreError::Full { .. })));
    // Longer than several attempts to recover, each of which fails to write its probe.
    let deadline = Instant::now() + Duration::from_secs(20);
    while !matches!(store.health(), Health::Recovering { tries: 4.., .. }) {
        assert_steps(&store, 3).await;
        assert!(!store.scan(b"", None, 10).await.unwrap().is_empty());
        assert!(Instant::now() < deadline, "{:?}", store.health());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(matches!(store.commit(step(4)).await, Err(StoreError::Full { .. })));
    disk.set(0);
    while store.health() != Health::Serving {
        assert_steps(&store, 3).await;
        assert!(Instant::now() < deadline, "{:?}", store.health());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    store.commit(step(4)).await.unwrap();
    assert_steps(&store, 4).await;
}

#[tokio::test]
async fn a_group_whose_write_failed_is_not_seen() {
    let folder = Folder::new();
    let store = folder.open();
    let batch = |n: u8, keys: &[&str]| {
        let mut batch = Batch::new();
        for key in keys {
            batch.put(format!("k{key}"), [n]);
        }
        batch.append(format!("s{n}"), [n]).append("s", [n]);
        batch
    };
    store.commit(batch(1, &["a", "c", "e"])).await.unwrap();
    let mut second = batch(2, &["b", "c", "d"]);
    second.delete("ke");
    store.commit(second).await.unwrap();
    {
        // As if the second had failed in the records.
        let mut view = store.shared.view_mut();
        let one = || Some(vec![1]);
        let before = [("b", None), ("c", one()), ("d", None), ("e", one())];
        view.before = before.map(|(key, value)| (format!("k{key}").into_bytes(), value)).into();
        let segment = 1;
        view.index.withdraw_after(super::super::records::Position {
            last_seq: 2,
            segment,
            ..Default::default()
        });
    }
    assert_eq!(store.get(b"kb").await.unwrap(), None);
    assert_eq!(store.get(b"kc").await.unwrap(), Some(vec![1]));
    for (after, limit, expected) in
        [(None, 9, "ace"), (None, 2, "ac"), (Some("ka"), 1, "c"), (Some("kc"), 9, "e"), (Some("ke"), 9, "")]
    {
        let found = store.scan(b"k", after.map(str::as_bytes), limit).await.unwrap();
        let keys: String = found.iter().map(|(key, _)| String::from_utf8_lossy(&key[1..])).collect();
        assert_eq!(keys, expected, "after {after:?}, {limit}");
        assert!(found.iter().all(|(_, value)| *value == [1]));
    }
    let seqs = |entries: Vec<Entry>| entries.iter().map(|e| e.seq).collect::<Vec<_>>();
    assert_eq!(seqs(store.journal(None, 0, 9).await.unwrap()), [1, 2]);
    assert_eq!(seqs(store.journal(Some(b"s"), 0, 9).await.unwrap()), [2]);
    assert_eq!(seqs(store.journal(Some(b"s2"), 0, 9).await.unwrap()), []);
}

#[tokio::test]
async fn a_failed_sync_is_the_end_of_the_handle() {
    for (fault, good_syncs) in [(SYNC_FAILS, 0), (SYNC_FAILS, 1), (SYNC_PANICS, 0), (SYNC_PANICS, 1)] {
        let folder = Folder::new();
        let disk = Arc::new(BadDisk::default());
        let store = Arc::new(folder.open_on(disk.clone()));
        store.commit(step(1)).await.unwrap();
        let watcher = tokio::spawn({
            let store = store.clone();
            async move { store.fatal().await }
        });
        tokio::task::yield_now().await;
        disk.good_syncs.store(good_syncs, Ordering::SeqCst);
        disk.set(fault);
        let failed = store.commit(step(2)).await.unwrap_err();
        assert!(failed.is_fatal(), "{failed:?}");
        assert!(failed.to_string().contains(if fault == SYNC_FAILS { "bad sector" } else { "invariant" }));
        // It stays so, although the disk works again.
        disk.set(0);
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(store.commit(step(2)).await, Err(failed.clone()));
        assert_eq!(store.get(b"n").await, Err(failed.clone()));
        assert_eq!(store.journal(None, 0, 9).await, Err(failed.clone()));
        assert_eq!(store.health(), Health::Fatal { error: failed.clone() });
        assert_eq!(watcher.await.unwrap(), Some(failed.clone()));
        assert_eq!(store.fatal().await, Some(failed.clone()));
        assert_eq!(store.close(), Err(failed));
        drop(store);
        let before = std::fs::metadata(folder.segment()).unwrap().ino();
        assert!(folder.dir().join(SYNC_FAILED).exists());
        let store = folder.open();
        assert!(store.report().rewritten);
        assert_ne!(std::fs::metadata(folder.segment()).unwrap().ino(), before, "the files are new ones");
        assert!(!folder.dir().join(SYNC_FAILED).exists());
        let n = number(&store).await;
        assert_eq!(n, 1 + u64::from(good_syncs), "unacknowledged, but here the records got it");
        assert_steps(&store, n).await;
    }
}

/// A sync that takes for ever.
struct StuckDisk {
    stuck: AtomicBool,
}

impl Device for StuckDisk {
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }
    fn sync(&self, file: &File) -> io::Result<()> {
        while self.stuck.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        file.sync_data()
    }
}

#[tokio::test]
async fn reading_does_not_wait_for_a_sync() {
    use futures_util::FutureExt;
    let folder = Folder::new();
    let disk = Arc::new(StuckDisk { stuck: false.into() });
    let store = folder.open_on(disk.clone());
    store.commit(step(1)).await.unwrap();
    disk.stuck.store(true, Ordering::SeqCst);
    let mut commit = store.commit(step(2));
    assert!((&mut commit).now_or_never().is_none());
    tokio::time::sleep(Duration::from_millis(50)).await;
    // This would hang for ever if it waited.
    assert_steps(&store, 1).await;
    assert!((&mut commit).now_or_never().is_none());
    disk.stuck.store(false, Ordering::SeqCst);
    commit.await.unwrap();
    assert_steps(&store, 2).await;
}
