//! What the store on disk does beyond the contract of all backends.

mod damage;
mod failures;
mod migrations;

use super::*;
use crate::disk::core::{JOURNAL, RECORDS};
use crate::{ErrorClass, Expect};
use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn dir(&self) -> PathBuf {
        self.0.path().join("store")
    }
    fn open(&self) -> SledStore {
        SledStore::open(self.dir(), Options::default()).unwrap()
    }
    fn open_on(&self, disk: Arc<dyn Device>) -> SledStore {
        SledStore::open_on(&self.dir(), Options::default(), disk, None).unwrap()
    }
    fn error(&self) -> StoreError {
        SledStore::open(self.dir(), Options::default()).unwrap_err()
    }
    /// The only journal segment.
    fn segment(&self) -> PathBuf {
        let mut segments: Vec<_> = std::fs::read_dir(self.dir().join(JOURNAL)).unwrap().collect();
        assert_eq!(segments.len(), 1);
        segments.remove(0).unwrap().path()
    }
}

fn step(n: u64) -> Batch {
    let mut batch = Batch::new();
    if n > 1 {
        batch.expect("n", Expect::Is((n - 1).to_be_bytes().to_vec()));
    }
    batch.put("n", n.to_be_bytes()).append("s", n.to_be_bytes());
    batch
}

async fn number(store: &SledStore) -> u64 {
    let bytes = store.get(b"n").await.unwrap().unwrap_or_else(|| vec![0; 8]);
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// Records and journal agree on `n` steps.
async fn assert_steps(store: &SledStore, n: u64) {
    assert_eq!(number(store).await, n);
    let journal = store.journal(Some(b"s"), 0, usize::MAX).await.unwrap();
    let steps: Vec<u64> =
        journal.iter().map(|e| u64::from_be_bytes(e.payload.clone().try_into().unwrap())).collect();
    assert_eq!(steps, (1..=n).collect::<Vec<_>>());
    assert!(journal.iter().map(|e| e.seq).eq(1..=n));
}

#[tokio::test]
async fn what_was_committed_is_there_after_reopening() {
    let folder = Folder::new();
    for opening in 0..4 {
        let store =
            SledStore::open(folder.dir(), Options { segment_bytes: 1, ..Options::default() }).unwrap();
        let expected =
            OpenReport { created: opening == 0, took: store.report().took, ..OpenReport::default() };
        assert_eq!(*store.report(), expected);
        for n in opening * 50 + 1..=opening * 50 + 50 {
            assert_eq!(store.commit(step(n)).await.unwrap().last_seq, n);
        }
        assert_steps(&store, opening * 50 + 50).await;
        if opening % 2 == 0 {
            store.close().unwrap();
            assert_eq!(store.health(), Health::Closed);
            assert_eq!(store.commit(step(1)).await, Err(StoreError::Closed));
            assert_eq!(store.get(b"n").await, Err(StoreError::Closed));
            assert_eq!(store.journal(None, 0, 1).await, Err(StoreError::Closed));
            assert_eq!(store.set_contact("x"), Err(StoreError::Closed));
            assert_eq!(store.fatal().await, None);
        }
    }
    assert!(std::fs::read_dir(folder.dir().join(JOURNAL)).unwrap().count() > 1, "segments rotate");
}

#[tokio::test]
async fn waiters_share_a_sync() {
    let folder = Folder::new();
    let store = folder.open();
    let commits = (0..256u64).map(|n| {
        let mut batch = Batch::new();
        batch.put(format!("k{n}"), n.to_be_bytes());
        store.commit(batch)
    });
    assert!(futures_util::future::join_all(commits).await.iter().all(Result::is_ok));
    let stats = store.stats();
    // The schema version was written by a group of its own.
    assert_eq!(stats.batches, 257);
    assert!(stats.groups < 64, "{} groups", stats.groups);
}

#[tokio::test]
async fn dropping_the_future_of_a_commit_does_not_undo_it() {
    use futures_util::FutureExt;
    let folder = Folder::new();
    let store = folder.open();
    assert!(store.commit(step(1)).now_or_never().is_none(), "a commit takes a sync");
    drop(store);
    assert_steps(&folder.open(), 1).await;
}

#[tokio::test]
async fn the_second_owner_is_told_whom_to_ask() {
    let folder = Folder::new();
    let store =
        SledStore::open(folder.dir(), Options { contact: "first".to_owned(), ..Options::default() }).unwrap();
    store.set_contact("http://127.0.0.1:4242").unwrap();
    for refused in [folder.error(), SledStore::inspect(folder.dir(), Options::default()).unwrap_err()] {
        let StoreError::Locked { pid, contact, .. } = &refused else { panic!("{refused:?}") };
        assert_eq!(*pid, Some(std::process::id()));
        assert_eq!(contact.as_deref(), Some("http://127.0.0.1:4242"));
        assert_eq!(refused.class(), ErrorClass::Operator);
    }
    store.close().unwrap();
    folder.open();
}

#[test]
fn a_program_that_only_knows_the_database_is_kept_out_and_told_of() {
    let folder = Folder::new();
    drop(folder.open());
    let foreign = sled::open(folder.dir().join(RECORDS)).unwrap();
    assert!(matches!(folder.error(), StoreError::Locked { pid: None, .. }));
    drop(foreign);
    let _store = folder.open();
    assert!(sled::open(folder.dir().join(RECORDS)).is_err());
}

#[tokio::test]
async fn inspection_changes_nothing() {
    let folder = Folder::new();
    let store = folder.open();
    for n in 1..=5 {
        store.commit(step(n)).await.unwrap();
    }
    drop(store);
    let before = contents(&folder.dir());
    let copy = SledStore::inspect(folder.dir(), Options::default()).unwrap();
    assert_steps(&copy, 5).await;
    copy.commit(step(6)).await.unwrap();
    let path = copy.shared.dir.clone();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
    // The lock is only held while copying.
    let store = folder.open();
    drop(store);
    drop(copy);
    assert!(!path.exists(), "the copy is removed");
    let mut after = contents(&folder.dir());
    // Opening for real in between rewrote sled's snapshot and lock; the journal is as it was.
    after.retain(|(name, _)| name.contains(JOURNAL));
    assert!(after.iter().all(|file| before.contains(file)));
    let copy = SledStore::inspect(folder.dir(), Options::default()).unwrap();
    let before = contents(&folder.dir());
    assert_steps(&copy, 5).await;
    drop(copy);
    assert_eq!(contents(&folder.dir()), before);
    let nowhere = SledStore::inspect(folder.0.path(), Options::default()).unwrap_err();
    assert!(nowhere.to_string().contains("no store"), "{nowhere}");
}

fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for name in files::names(dir).unwrap() {
        let path = dir.join(&name);
        if path.is_dir() {
            all.extend(contents(&path));
        } else {
            all.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
    all
}

#[test]
fn places_that_cannot_hold_a_store() {
    let folder = Folder::new();
    let open = |path: &Path| SledStore::open(path, Options::default()).unwrap_err().to_string();
    let file = folder.0.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let message = open(&file);
    assert!(message.contains("file: it is a file, expected a folder"), "{message}");
    let message = open(&folder.0.path().join("no/such"));
    assert!(message.contains("no/such: its parent folder does not exist"), "{message}");
    let message = open(&file.join("below"));
    assert!(message.contains("file/below: Not a directory"), "{message}");
    std::fs::create_dir(folder.dir()).unwrap();
    std::fs::write(folder.dir().join(JOURNAL), "x").unwrap();
    let message = open(&folder.dir());
    assert!(message.contains("journal: it is a file"), "{message}");
    std::fs::remove_file(folder.dir().join(JOURNAL)).unwrap();
    std::fs::write(folder.dir().join(RECORDS), "x").unwrap();
    let message = open(&folder.dir());
    assert!(message.contains("records: it is a file"), "{message}");
}

#[test]
fn a_read_only_folder_is_an_error() {
    let folder = Folder::new();
    std::fs::create_dir(folder.dir()).unwrap();
    std::fs::set_permissions(folder.dir(), std::fs::Permissions::from_mode(0o500)).unwrap();
    if File::create(folder.dir().join("probe")).is_ok() {
        crate::testkit::skipped(
            "a_read_only_folder_is_an_error",
            "this user may write into read-only folders",
        );
        return;
    }
    let refused = folder.error();
    assert!(refused.to_string().contains("lock: Permission denied"), "{refused}");
}

#[test]
fn new_folders_are_private() {
    let folder = Folder::new();
    drop(folder.open());
    for dir in [folder.dir(), folder.dir().join(RECORDS), folder.dir().join(JOURNAL)] {
        assert_eq!(std::fs::metadata(&dir).unwrap().mode() & 0o777, 0o700, "{}", dir.display());
    }
}
