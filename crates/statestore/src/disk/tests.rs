//! What the store on disk does beyond the contract of all backends: open, close, damage, failure.

use super::*;
use crate::disk::core::{JOURNAL, RECORDS, SYNC_FAILED};
use crate::{ErrorClass, Expect, Migration, MigrationContext, SCHEMA_KEY};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::AtomicU8;

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
    fn open_on(&self, disk: &Arc<BadDisk>) -> SledStore {
        SledStore::open_on(&self.dir(), Options::default(), disk.clone(), None).unwrap()
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

async fn wait_until_serving(store: &SledStore) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while store.health() != Health::Serving {
        assert!(Instant::now() < deadline, "{:?}", store.health());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
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
        println!("SKIPPED: this user may write into read-only folders");
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

#[tokio::test]
async fn a_full_disk_fails_the_waiters_and_passes() {
    let folder = Folder::new();
    let disk = Arc::new(BadDisk::default());
    let store = folder.open_on(&disk);
    store.commit(step(1)).await.unwrap();
    disk.set(WRITE_FULL);
    let refused = store.commit(step(2)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Full { .. }) && refused.is_transient(), "{refused:?}");
    assert!(matches!(store.health(), Health::Recovering { tries: 1, .. }), "{:?}", store.health());
    let again = store.commit(step(2)).await.unwrap_err();
    assert!(matches!(again, StoreError::Full { .. }), "{again:?}");
    // The records were not touched, so reading goes on.
    assert_steps(&store, 1).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(matches!(store.health(), Health::Recovering { tries: 2.., .. }), "{:?}", store.health());
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
async fn records_are_closed_and_reopened_after_their_write_error() {
    let folder = Folder::new();
    let store = folder.open();
    for n in 1..=3 {
        store.commit(step(n)).await.unwrap();
    }
    store.close().unwrap();
    let opened = Core::open(&folder.dir(), Options::default(), Arc::new(OsDevice)).unwrap();
    let mut core = opened.core;
    let full = StoreError::Full { action: "flush".to_owned(), path: folder.dir() };
    core.abandon(&self::core::Failure::Records(full.clone()));
    assert!(core.shared.view().records.is_none());
    assert_eq!(core.shared.view().blocked, Some(full));
    core.recover().unwrap();
    core.commit(vec![step(4)]).unwrap()[0].clone().unwrap();
    core.close();
    assert_steps(&folder.open(), 4).await;
}

#[tokio::test]
async fn a_failed_sync_is_the_end_of_the_handle() {
    for (fault, good_syncs) in [(SYNC_FAILS, 0), (SYNC_FAILS, 1), (SYNC_PANICS, 0), (SYNC_PANICS, 1)] {
        let folder = Folder::new();
        let disk = Arc::new(BadDisk::default());
        let store = Arc::new(folder.open_on(&disk));
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

#[tokio::test]
async fn an_unfinished_group_is_cut_off() {
    for torn in [0, 1, 5] {
        let folder = Folder::new();
        let store = folder.open();
        for n in 1..=3 {
            store.commit(step(n)).await.unwrap();
        }
        drop(store);
        // As if the process had died between the journal's sync and the records'.
        let mut group = Vec::new();
        for seq in 4..=5u64 {
            frame::write(&mut group, seq, 4, b"s", &seq.to_be_bytes());
        }
        group.truncate(group.len() - torn);
        let segment = folder.segment();
        let length = std::fs::metadata(&segment).unwrap().len();
        File::options().write(true).open(&segment).unwrap().write_all_at(&group, length).unwrap();
        // And had just begun another segment.
        std::fs::write(folder.dir().join(JOURNAL).join("00000000000000000006.seg"), &frame::header(6)[..7])
            .unwrap();

        let store = folder.open();
        assert_eq!(store.report().lost_entries, if torn == 0 { 2 } else { 1 });
        assert_eq!(store.report().lost_bytes, group.len() as u64);
        assert_eq!(folder.segment(), segment);
        assert_steps(&store, 3).await;
        store.commit(step(4)).await.unwrap();
        drop(store);
        let store = folder.open();
        assert_eq!((store.report().lost_entries, store.report().lost_bytes), (0, 0));
        assert_steps(&store, 4).await;
    }
}

#[tokio::test]
async fn damage_is_told_and_nothing_is_changed() {
    type Harm = fn(&Folder);
    let harms: [(&str, Harm); 7] = [
        ("checksum is wrong", |f| {
            let file = File::options().write(true).open(f.segment()).unwrap();
            file.write_all_at(&[0xee], 40).unwrap();
        }),
        ("it should have at least", |f| {
            let file = File::options().write(true).open(f.segment()).unwrap();
            file.set_len(60).unwrap();
        }),
        ("header", |f| {
            let file = File::options().write(true).open(f.segment()).unwrap();
            file.write_all_at(b"?", 3).unwrap();
        }),
        ("the journal ends with entry 0", |f| std::fs::remove_file(f.segment()).unwrap()),
        ("there is a journal but the records are empty", |f| {
            std::fs::remove_dir_all(f.dir().join(RECORDS)).unwrap();
        }),
        // Two groups that the records have never heard of: a commit is acknowledged only when both have it.
        ("was acknowledged", |f| {
            let mut group = Vec::new();
            frame::write(&mut group, 4, 4, b"s", b"4");
            frame::write(&mut group, 5, 5, b"s", b"5");
            let length = std::fs::metadata(f.segment()).unwrap().len();
            File::options().write(true).open(f.segment()).unwrap().write_all_at(&group, length).unwrap();
        }),
        ("", |f| std::fs::write(f.dir().join(RECORDS).join("conf"), "not a configuration at all").unwrap()),
    ];
    for (expected, harm) in harms {
        let folder = Folder::new();
        let store = folder.open();
        for n in 1..=3 {
            store.commit(step(n)).await.unwrap();
        }
        drop(store);
        harm(&folder);
        let journal = contents(&folder.dir().join(JOURNAL));
        let refused = folder.error();
        assert!(refused.to_string().contains(expected), "{expected}: {refused}");
        assert!(
            matches!(&refused, StoreError::Damaged { way_out, .. } if way_out.contains("backup")),
            "{refused:?}"
        );
        assert_eq!(contents(&folder.dir().join(JOURNAL)), journal, "{expected}");
    }
}

/// Any byte of sled's file may be bad: an error or a smaller store, which the journal then notices, never a panic and
/// never a silent loss.
#[tokio::test]
async fn random_damage_to_the_records_never_panics() {
    let folder = Folder::new();
    let store = folder.open();
    for n in 1..=40 {
        store.commit(step(n)).await.unwrap();
    }
    drop(store);
    let db = folder.dir().join(RECORDS).join("db");
    let good = std::fs::read(&db).unwrap();
    let used = good.len().min(16 * 1024);
    let (mut refused, mut intact) = (0, 0);
    for round in 0..30usize {
        let mut bad = good.clone();
        let at = round * used / 30;
        bad[at..(at + 64).min(good.len())].fill(0x99);
        std::fs::write(&db, &bad).unwrap();
        for snapshot in files::names(&folder.dir().join(RECORDS)).unwrap() {
            if snapshot.starts_with("snap.") {
                std::fs::remove_file(folder.dir().join(RECORDS).join(snapshot)).unwrap();
            }
        }
        let journal = contents(&folder.dir().join(JOURNAL));
        match SledStore::open(folder.dir(), Options::default()) {
            Ok(store) => {
                intact += 1;
                assert_eq!(number(&store).await, 40, "round {round}");
                drop(store);
            }
            Err(error) => {
                refused += 1;
                assert_eq!(error.class(), ErrorClass::Operator, "round {round}: {error}");
            }
        }
        assert_eq!(contents(&folder.dir().join(JOURNAL)), journal, "round {round}");
    }
    assert!(refused > 0, "{refused} refused, {intact} intact: the damage hit nothing");
}

const TO_2: Migration = Migration {
    to: 2,
    what: "add 1000 to every number",
    run: |context: &mut MigrationContext<'_>| {
        for (key, value) in context.scan(b"v/")? {
            let number = u64::from_be_bytes(value.try_into().unwrap_or_default()) + 1000;
            context.put(key, number.to_be_bytes());
        }
        Ok(())
    },
};
const TO_3: Migration = Migration {
    to: 3,
    what: "move the numbers",
    run: |context| {
        for (key, value) in context.scan(b"v/")? {
            context.put([b"w/", &key[2..]].concat(), value);
            context.delete(key);
        }
        context.append("migrations", "3");
        Ok(())
    },
};

fn schema(version: u16) -> Options {
    const STEPS: &[Migration] = &[TO_2, TO_3];
    Options { schema: Schema { version, migrations: STEPS }, ..Options::default() }
}

#[tokio::test]
async fn older_stores_are_migrated_and_newer_ones_refused() {
    let folder = Folder::new();
    let store = SledStore::open(folder.dir(), schema(1)).unwrap();
    assert_eq!(store.get(SCHEMA_KEY).await.unwrap(), Some(vec![0, 1]));
    let mut batch = Batch::new();
    batch.put("v/a", 1u64.to_be_bytes()).put("v/b", 2u64.to_be_bytes());
    store.commit(batch).await.unwrap();
    drop(store);
    // A copy is migrated for looking at it, the original is not.
    let copy = SledStore::inspect(folder.dir(), schema(3)).unwrap();
    assert_eq!(copy.report().migrated_from, Some(1));
    drop(copy);
    let store = SledStore::open(folder.dir(), schema(3)).unwrap();
    assert_eq!(store.report().migrated_from, Some(1));
    let pairs = store.scan(b"", None, 9).await.unwrap();
    let expected: [(&[u8], Vec<u8>); 3] = [
        (SCHEMA_KEY, vec![0, 3]),
        (b"w/a", 1001u64.to_be_bytes().to_vec()),
        (b"w/b", 1002u64.to_be_bytes().to_vec()),
    ];
    assert!(pairs.iter().map(|(k, v)| (k.as_slice(), v.clone())).eq(expected), "{pairs:?}");
    assert_eq!(store.journal(None, 0, 9).await.unwrap().len(), 1);
    drop(store);
    let refused = SledStore::open(folder.dir(), schema(2)).unwrap_err();
    assert_eq!(refused, StoreError::NewerSchema { what: "schema", found: 3, supported: 2 });
    let without_steps = Options { schema: Schema { version: 9, migrations: &[] }, ..Options::default() };
    let refused = SledStore::open(folder.dir(), without_steps).unwrap_err();
    assert!(refused.to_string().contains("no step to version 4"), "{refused}");
}

#[tokio::test]
async fn a_failing_migration_leaves_the_old_version() {
    const BAD: &[Migration] = &[Migration {
        to: 2,
        what: "fails",
        run: |context| {
            context.put("v/a", "half");
            Err(StoreError::Damaged { what: "nothing to see".to_owned(), way_out: "Go on.".to_owned() })
        },
    }];
    let folder = Folder::new();
    drop(SledStore::open(folder.dir(), schema(1)).unwrap());
    let options = Options { schema: Schema { version: 2, migrations: BAD }, ..Options::default() };
    assert!(matches!(SledStore::open(folder.dir(), options), Err(StoreError::Damaged { .. })));
    let store = SledStore::open(folder.dir(), schema(1)).unwrap();
    assert_eq!(store.get(b"v/a").await.unwrap(), None);
}

/// A store of format 1 and schema 1 as the first release wrote it. To make one anew for a new version:
/// `STATESTORE_WRITE_FIXTURE=DIR cargo test -p statestore --lib fixture`.
#[tokio::test]
async fn the_fixture_of_version_1_opens() {
    if let Ok(dir) = std::env::var("STATESTORE_WRITE_FIXTURE") {
        let store = SledStore::open(dir, schema(1)).unwrap();
        for n in 1..=3 {
            store.commit(step(n)).await.unwrap();
        }
        let mut batch = Batch::new();
        batch.put("v/a", 1u64.to_be_bytes()).put("v/b", 2u64.to_be_bytes()).append("other", "fixture");
        store.commit(batch).await.unwrap();
        return;
    }
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1");
    let folder = Folder::new();
    files::copy_tree(&fixture, &folder.dir()).unwrap();
    let store = SledStore::open(folder.dir(), schema(1)).unwrap();
    assert_eq!((store.report().created, store.report().lost_bytes), (false, 0));
    assert_steps(&store, 3).await;
    let other = store.journal(Some(b"other"), 0, 9).await.unwrap();
    assert_eq!(other, [Entry { seq: 4, stream: b"other".to_vec(), payload: b"fixture".to_vec() }]);
    assert_eq!(store.get(b"v/a").await.unwrap(), Some(1u64.to_be_bytes().to_vec()));
    drop(store);
    let store = SledStore::open(folder.dir(), schema(3)).unwrap();
    assert_eq!(store.report().migrated_from, Some(1));
    assert_eq!(store.get(b"w/a").await.unwrap(), Some(1001u64.to_be_bytes().to_vec()));
}
