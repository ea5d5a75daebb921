//! Versions of what is stored.

use super::*;
use crate::{Migration, MigrationContext, SCHEMA_KEY};

#[test]
fn a_migration_may_touch_more_than_a_batch_holds() {
    const MUCH: &[Migration] = &[Migration {
        to: 2,
        what: "write 20 MiB",
        run: |context| {
            for n in 0..320u32 {
                context.put(format!("v/{n}"), vec![n as u8; crate::VALUE_BYTES_MAX]);
            }
            Ok(())
        },
    }];
    let folder = Folder::new();
    drop(SledStore::open(folder.dir(), schema(1)).unwrap());
    let options = Options { schema: Schema { version: 2, migrations: MUCH }, ..Options::default() };
    drop(SledStore::open(folder.dir(), options.clone()).unwrap());
    let store = SledStore::open(folder.dir(), options).unwrap();
    assert_eq!(store.with_records(|r| r.scan(b"v/", None, 999)).unwrap().len(), 320);
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
