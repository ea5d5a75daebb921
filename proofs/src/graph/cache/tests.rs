use super::super::tests::registered;
use super::*;
use crate::control::CancelFlag;
use std::os::unix::fs::PermissionsExt;

fn open(number: u64, dir: &Path) -> Parents {
    Parents::open(registered(number), dir, &Control::none()).unwrap()
}

fn file_digest(number: u64, dir: &Path) -> String {
    hex::encode(crate::sha256::digest(&fs::read(dir.join(Parents::file_name(&registered(number)))).unwrap()))
}

#[test]
fn files_of_2_kib_and_8_mib_have_the_published_digests() {
    let dir = tempfile::tempdir().unwrap();
    for number in [0, 5, 1, 6] {
        let parents = open(number, dir.path());
        assert_eq!(parents.origin(), &Origin::Written { replaced: None });
        let id = registered(number).cache_id();
        assert_eq!(Some(file_digest(number, dir.path()).as_str()), published_digest(&id), "proof {number}");
        assert_eq!(open(number, dir.path()).origin(), &Origin::Reused);
    }
}

/// 512 MiB: a minute in a debug build; on request.
#[test]
#[ignore = "writes two files of 940 MB"]
fn files_of_512_mib_have_the_published_digests() {
    let dir = tempfile::tempdir().unwrap();
    for number in [2, 7] {
        open(number, dir.path());
        let id = registered(number).cache_id();
        assert_eq!(Some(file_digest(number, dir.path()).as_str()), published_digest(&id), "proof {number}");
        fs::remove_file(dir.path().join(Parents::file_name(&registered(number)))).unwrap();
    }
}

#[test]
fn every_store_gives_the_same_parents() {
    let dir = tempfile::tempdir().unwrap();
    let file = open(5, dir.path());
    let memory = Parents::generated(registered(5), &Control::none()).unwrap();
    assert!(matches!(memory.store, Store::Memory(_)));
    let none = Parents { graph: registered(5), store: Store::None, origin: Origin::Reused };
    for v in 0..64 {
        let expected = registered(5).parents(v);
        assert!(is_possible(u64::from(v), 64, &expected));
        for parents in [&file, &memory, &none] {
            assert_eq!(parents.get(v), expected);
        }
    }
    assert!(!is_possible(5, 64, &[5; DEGREE]));
    assert!(!is_possible(5, 64, &[4, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0]));
}

/// With a published digest (5) and without (10).
#[test]
fn damaged_files_are_replaced() {
    for number in [5, 10] {
        let dir = tempfile::tempdir().unwrap();
        open(number, dir.path());
        let path = dir.path().join(Parents::file_name(&registered(number)));
        let good = fs::read(&path).unwrap();
        for damage in ["flip", "cut", "empty", "long"] {
            let mut bad = good.clone();
            match damage {
                "flip" => bad[63 * RECORD + 55] ^= 1,
                "cut" => bad.truncate(good.len() - 1),
                "empty" => bad.clear(),
                _ => bad.push(0),
            }
            fs::write(&path, bad).unwrap();
            let parents = open(number, dir.path());
            assert!(
                matches!(parents.origin(), Origin::Written { replaced: Some(_) }),
                "{damage}: {:?}",
                parents.origin()
            );
            assert_eq!(fs::read(&path).unwrap(), good, "{damage}");
        }
    }
}

#[test]
fn a_folder_that_cannot_be_used_does_not_stop_anything() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
    let parents = open(5, &file.join("below"));
    assert!(matches!(parents.origin(), Origin::Generated { .. }));
    assert_eq!(parents.get(63), registered(5).parents(63));
}

#[test]
fn cancelling_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let cancel = CancelFlag::new();
    cancel.cancel();
    let control = Control { cancel: &cancel, progress: &(), units: &() };
    assert!(matches!(Parents::open(registered(1), dir.path(), &control), Err(Error::Cancelled(_))));
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name.to_string_lossy().ends_with(".lock")), "{left:?}");
}
