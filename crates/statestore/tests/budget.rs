//! The store stays small and opens fast (SS-5), at a fortieth of the size in CI; the whole size on request:
//! `STATESTORE_MACHINES=20000 cargo test --release -p statestore --test budget -- --nocapture`.

use futures_util::future::join_all;
use statestore::{Batch, Options, SledStore, Store};
use std::time::Duration;

const ENTRIES: u64 = 50;

fn record(machine: u64, version: u64) -> Vec<u8> {
    vec![(machine ^ version) as u8; 400 + (version * 50) as usize]
}

#[tokio::test]
async fn size_and_open_time_keep_their_budgets() {
    let machines: u64 = std::env::var("STATESTORE_MACHINES").map_or(500, |n| n.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::open(folder.path().join("store"), Options::default()).unwrap();
    let mut entry_bytes = 0;
    for version in 1..=ENTRIES {
        for first in (0..machines).step_by(250) {
            let commits = (first..machines.min(first + 250)).map(|machine| {
                // Another order in each round.
                let machine = (machine * 7919 + version * 31) % machines;
                let mut batch = Batch::new();
                batch.put([b"m/".as_slice(), &machine.to_be_bytes()].concat(), record(machine, version));
                batch.append(machine.to_be_bytes(), [7; 120]);
                entry_bytes += 128;
                store.commit(batch)
            });
            for committed in join_all(commits).await {
                committed.unwrap();
            }
        }
    }
    // The database tidies up in the background.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let live: u64 = store
        .scan(b"m/", None, usize::MAX)
        .await
        .unwrap()
        .iter()
        .map(|(k, v)| k.len() + v.len())
        .sum::<usize>() as u64;
    let stats = store.stats();
    store.close().unwrap();
    drop(store);
    let store = SledStore::open(folder.path().join("store"), Options::default()).unwrap();
    let opened = store.report().took;
    let blobs = std::fs::read_dir(folder.path().join("store/records/blobs")).unwrap().count();
    println!(
        "{machines} machines: {live} live record bytes in {} ({:.1}x), {entry_bytes} entry bytes in {} ({:.1}x), \
         {blobs} blob files, opened in {opened:?}",
        stats.records_bytes,
        stats.records_bytes as f64 / live as f64,
        stats.journal_bytes,
        stats.journal_bytes as f64 / entry_bytes as f64,
    );
    assert_eq!(store.scan(b"m/", None, usize::MAX).await.unwrap().len() as u64, machines);
    assert_eq!(stats.entries, machines * ENTRIES);
    // A small database does not reuse its first few segments yet.
    assert!(stats.records_bytes < 5 * live + (8 << 20), "records take {} for {live}", stats.records_bytes);
    assert!(stats.journal_bytes < 2 * entry_bytes, "the journal takes {}", stats.journal_bytes);
    assert!(blobs < 200, "{blobs} blob files: values leak");
    assert!(opened < Duration::from_secs(5), "opening took {opened:?}");
}
