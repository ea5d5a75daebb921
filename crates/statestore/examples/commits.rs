//! Commits a second, one by one and with 64 waiters, against the bare writes they need: the same bytes appended to a
//! file and put into sled as batches, with the same syncs.
//!
//! `cargo run --release -p statestore --example commits [-- SECONDS]`; the disk is that of the temporary folder
//! (`TMPDIR`). `COMMITS_VERBOSE=1` tells the store's time apart from that of waking its thread.

use futures_util::future::join_all;
use statestore::{Batch, Options, SledStore, Store};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

const WAITERS: u64 = 64;
const ROUNDS: usize = 5;
const MACHINES: u64 = 1000;
const RECORD_BYTES: usize = 2000;
const ENTRY_BYTES: usize = 150;

type Error = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let seconds = std::env::args().nth(1).map_or(Ok(1.0), |text| text.parse())?;
    let time = Duration::from_secs_f64(seconds);
    let folder = tempfile::tempdir()?;
    println!(
        "{RECORD_BYTES}-byte records of {MACHINES} machines, one {ENTRY_BYTES}-byte entry each, medians of {ROUNDS} rounds of {seconds} s"
    );
    for waiters in [1, WAITERS] {
        let (mut bare_rates, mut our_rates) = (Vec::new(), Vec::new());
        // In turns, because other work on the machine and its disk comes and goes.
        for round in 0..ROUNDS {
            bare_rates.push(bare(&folder.path().join(format!("bare-{waiters}-{round}")), waiters, time)?);
            our_rates
                .push(ours(&folder.path().join(format!("ours-{waiters}-{round}")), waiters, time).await?);
        }
        let (bare, ours) = (median(bare_rates), median(our_rates));
        println!(
            "{waiters:>3} at once: {ours:>7.0} commits/s, bare writes {bare:>7.0}/s, ratio {:.2}",
            ours / bare
        );
    }
    Ok(())
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

async fn ours(dir: &Path, waiters: u64, time: Duration) -> Result<f64, Error> {
    let store = SledStore::open(dir, Options::default())?;
    let started = Instant::now();
    let mut n = 0;
    while started.elapsed() < time {
        let commits = (n..n + waiters).map(|n| {
            let mut batch = Batch::new();
            batch.put(key(n), record(n)).append(key(n), entry(n));
            store.commit(batch)
        });
        for committed in join_all(commits).await {
            committed?;
        }
        n += waiters;
    }
    let rate = n as f64 / started.elapsed().as_secs_f64();
    if std::env::var_os("COMMITS_VERBOSE").is_some() {
        let stats = store.stats();
        println!(
            "    {n} commits in {} groups, {:?} a group in the store thread, {:?} a group in all",
            stats.groups,
            stats.writing / stats.groups as u32,
            started.elapsed() / stats.groups as u32
        );
    }
    store.close()?;
    Ok(rate)
}

fn bare(dir: &Path, waiters: u64, time: Duration) -> Result<f64, Error> {
    let db = sled::Config::new().path(dir).cache_capacity(64 << 20).flush_every_ms(Some(250)).open()?;
    let records = File::open(dir.join("db"))?;
    let mut journal = File::create(dir.join("journal"))?;
    let started = Instant::now();
    let mut n = 0;
    while started.elapsed() < time {
        let mut batch = sled::Batch::default();
        let mut entries = Vec::new();
        for n in n..n + waiters {
            batch.insert(key(n), record(n));
            entries.extend(key(n));
            entries.extend(entry(n));
        }
        journal.write_all(&entries)?;
        journal.sync_data()?;
        db.apply_batch(batch)?;
        db.flush()?;
        records.sync_data()?;
        n += waiters;
    }
    Ok(n as f64 / started.elapsed().as_secs_f64())
}

fn key(n: u64) -> Vec<u8> {
    // Machines take turns in no simple order.
    [b"m/".as_slice(), &(n.wrapping_mul(0x9e37_79b9) % MACHINES).to_be_bytes()].concat()
}

fn record(n: u64) -> Vec<u8> {
    vec![n as u8; RECORD_BYTES]
}

fn entry(n: u64) -> Vec<u8> {
    vec![n as u8; ENTRY_BYTES]
}
