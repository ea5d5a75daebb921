//! Files that are not as they were left.

use super::*;
use std::os::unix::fs::FileExt;

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

#[tokio::test]
async fn any_bad_byte_of_the_journal_is_noticed() {
    let folder = Folder::new();
    let store = folder.open();
    for n in 1..=20 {
        store.commit(step(n)).await.unwrap();
    }
    drop(store);
    let segment = folder.segment();
    let good = std::fs::read(&segment).unwrap();
    for at in (0..good.len()).step_by(13) {
        let mut bad = good.clone();
        bad[at] ^= 0x20;
        std::fs::write(&segment, &bad).unwrap();
        let refused = folder.error();
        assert!(matches!(refused, StoreError::Damaged { .. }), "byte {at}: {refused:?}");
        assert_eq!(std::fs::read(&segment).unwrap(), bad, "byte {at}");
    }
    std::fs::write(&segment, &good).unwrap();
    assert_steps(&folder.open(), 20).await;
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
