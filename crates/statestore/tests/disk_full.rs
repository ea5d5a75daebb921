//! A disk that is really full: a small tmpfs, for which the test must be root.

#[allow(unreachable_pub, reason = "in the library it is public")]
#[path = "../src/testkit/skips.rs"]
mod skips;

use statestore::{Batch, Health, Options, SledStore, Store, StoreError};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` when this user may not mount.
    fn new(megabytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={megabytes}m");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).output();
        mount.is_ok_and(|out| out.status.success()).then_some(Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Leaves no room.
    fn fill(&self) -> PathBuf {
        let filler = self.path().join("filler");
        let mut file = std::fs::File::create(&filler).unwrap();
        let block = [1; 4096];
        while std::io::Write::write_all(&mut file, &block).is_ok() {}
        filler
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

async fn commit(store: &SledStore, n: u64) -> Result<(), StoreError> {
    let mut batch = Batch::new();
    batch.put(format!("k{:03}", n % 500), [n.to_be_bytes().as_slice(), &[7; 3000]].concat());
    batch.append("s", n.to_be_bytes());
    store.commit(batch).await.map(drop)
}

async fn check(store: &SledStore, acknowledged: &[u64]) {
    let journal = store.journal(Some(b"s"), 0, usize::MAX).await.unwrap();
    let found: Vec<u64> =
        journal.iter().map(|e| u64::from_be_bytes(e.payload[..8].try_into().unwrap())).collect();
    for n in acknowledged {
        assert!(found.contains(n), "{n} was acknowledged and is gone");
    }
    for slot in 0..500 {
        let last = found.iter().rev().find(|&&n| n % 500 == slot);
        let record = store.get(format!("k{slot:03}").as_bytes()).await.unwrap();
        let record = record.map(|bytes| u64::from_be_bytes(bytes[..8].try_into().unwrap()));
        assert_eq!(record, last.copied(), "journal and record of slot {slot} differ");
    }
}

/// While nothing can be written, the journal is read, and the records unless the database itself has given up: it
/// refuses reads too once its own thread met the full disk. What it answers is right.
async fn check_what_is_read(store: &SledStore, acknowledged: &[u64]) {
    let journal = store.journal(Some(b"s"), 0, usize::MAX).await.unwrap();
    assert!(journal.len() >= acknowledged.len());
    match store.scan(b"k", None, usize::MAX).await {
        Ok(pairs) => {
            let slots: std::collections::BTreeSet<u64> = acknowledged.iter().map(|n| n % 500).collect();
            assert!(pairs.len() >= slots.len(), "{} of {} pairs", pairs.len(), slots.len());
        }
        Err(error) => assert!(matches!(error, StoreError::Full { .. }), "{error:?}"),
    }
}

#[tokio::test]
async fn a_full_disk_stops_commits_and_nothing_else() {
    let Some(disk) = SmallDisk::new(24) else {
        skips::skipped("a_full_disk_stops_commits_and_nothing_else", "mounting a small tmpfs needs root");
        return;
    };
    let dir = disk.path().join("store");
    let store = SledStore::open(&dir, Options::default()).unwrap();
    let (mut n, mut acknowledged, mut failures) = (0, Vec::new(), 0);
    for round in 0..3 {
        for _ in 0..60 {
            n += 1;
            commit(&store, n).await.unwrap();
            acknowledged.push(n);
        }
        let filler = disk.fill();
        // The database writes into segments that it already has for a while.
        let refused = loop {
            n += 1;
            match commit(&store, n).await {
                Ok(()) => acknowledged.push(n),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, StoreError::Full { .. }), "round {round}: {refused:?}");
        assert!(matches!(store.health(), Health::Recovering { .. }), "round {round}: {:?}", store.health());
        for _ in 0..20 {
            n += 1;
            match commit(&store, n).await {
                Err(StoreError::Full { .. }) => failures += 1,
                other => panic!("round {round}: a full disk took a commit: {other:?}"),
            }
            assert!(matches!(store.health(), Health::Recovering { .. }), "{:?}", store.health());
            check_what_is_read(&store, &acknowledged).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        std::fs::remove_file(filler).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while store.health() != Health::Serving {
            assert!(Instant::now() < deadline, "round {round}: {:?}", store.health());
            check_what_is_read(&store, &acknowledged).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        check(&store, &acknowledged).await;
    }
    store.close().unwrap();
    drop(store);
    assert_eq!(failures, 60);

    // Opening on a full disk is an error like any other, and harms nothing.
    let filler = disk.fill();
    match SledStore::open(&dir, Options::default()) {
        Ok(store) => check(&store, &acknowledged).await,
        Err(error) => assert!(matches!(error, StoreError::Full { .. }), "{error:?}"),
    }
    std::fs::remove_file(filler).unwrap();
    let store = SledStore::open(&dir, Options::default()).unwrap();
    check(&store, &acknowledged).await;
    commit(&store, n + 1).await.unwrap();
}
