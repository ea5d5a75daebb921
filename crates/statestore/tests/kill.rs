//! SIGKILL at random moments: no acknowledged batch is lost, none is torn, journal and records agree.

use statestore::{Batch, Expect, Options, SledStore, Store};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const CHILD_DIR: &str = "STATESTORE_KILL_CHILD_DIR";
const WRITERS: u8 = 8;

fn options() -> Options {
    // Small segments, so that kills hit rotation as well.
    Options { segment_bytes: 16 * 1024, ..Options::default() }
}

fn counter(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().unwrap())
}

fn value(n: u64) -> Vec<u8> {
    // Sizes vary so that database pages split, merge and move.
    let mut value = n.to_be_bytes().to_vec();
    value.resize(8 + (n * 131 % 3000) as usize, n as u8);
    value
}

async fn write(store: Arc<SledStore>, writer: u8) {
    let keys = [format!("r/{writer}/a"), format!("r/{writer}/b")];
    let mut current = store.get(keys[0].as_bytes()).await.unwrap();
    loop {
        let n = current.as_deref().map_or(0, counter) + 1;
        let mut batch = Batch::new();
        for key in &keys {
            batch.expect(key.as_bytes(), current.clone().map_or(Expect::Absent, Expect::Is));
            batch.put(key.as_bytes(), value(n));
        }
        batch.append([writer], n.to_be_bytes());
        let committed = store.commit(batch).await.unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nack {writer} {n} {}", committed.last_seq).unwrap();
        out.flush().unwrap();
        current = Some(value(n));
    }
}

/// Not a test of its own: the process that is killed.
#[test]
fn child() {
    let Ok(dir) = std::env::var(CHILD_DIR) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Arc::new(SledStore::open(dir, options()).unwrap());
        let writers: Vec<_> = (0..WRITERS).map(|writer| tokio::spawn(write(store.clone(), writer))).collect();
        for writer in writers {
            writer.await.unwrap();
        }
    });
}

/// Acknowledged count and journal number of each writer.
type Acks = BTreeMap<u8, (u64, u64)>;

/// Kills the child some time after its start, or after its first acknowledgement.
fn run_and_kill(dir: &Path, after: Duration, acknowledged: bool, acks: &mut Acks) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(CHILD_DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = child.stdout.take().unwrap();
    let (first, first_ack) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut lines = Vec::new();
        // The last line may be cut off by the kill: only whole ones count.
        let mut out = BufReader::new(out);
        let mut line = String::new();
        while out.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
            if line.starts_with("ack ") {
                let _ = first.send(());
            }
            lines.push(std::mem::take(&mut line));
        }
        lines
    });
    if acknowledged {
        first_ack.recv_timeout(Duration::from_secs(60)).expect("the child acknowledges something");
    }
    std::thread::sleep(after);
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(status.code().is_none(), "the child ended by itself: {status}");
    for line in reader.join().unwrap() {
        let words: Vec<_> = line.split_whitespace().collect();
        if let ["ack", writer, n, seq] = words[..] {
            acks.insert(writer.parse().unwrap(), (n.parse().unwrap(), seq.parse().unwrap()));
        }
    }
}

async fn check(dir: &Path, acks: &Acks, round: u32) -> u64 {
    let store = SledStore::open(dir, options()).unwrap();
    let all = store.journal(None, 0, usize::MAX).await.unwrap();
    assert!(all.iter().map(|e| e.seq).eq(1..=all.len() as u64), "round {round}: the journal has gaps");
    for writer in 0..WRITERS {
        let a = store.get(format!("r/{writer}/a").as_bytes()).await.unwrap();
        let b = store.get(format!("r/{writer}/b").as_bytes()).await.unwrap();
        assert_eq!(a, b, "round {round}: a batch of writer {writer} is torn");
        let n = a.as_deref().map_or(0, counter);
        assert_eq!(a.unwrap_or_default(), if n == 0 { Vec::new() } else { value(n) }, "round {round}");
        let journal: Vec<_> = all.iter().filter(|e| e.stream == [writer]).collect();
        let counts: Vec<u64> = journal.iter().map(|e| counter(&e.payload)).collect();
        assert!(
            counts.iter().copied().eq(1..=n),
            "round {round}: journal and record of writer {writer} differ"
        );
        let (acknowledged, seq) = acks.get(&writer).copied().unwrap_or_default();
        assert!(
            n == acknowledged || n == acknowledged + 1,
            "round {round}: {n}, acknowledged {acknowledged}"
        );
        if acknowledged > 0 {
            assert_eq!(
                journal[acknowledged as usize - 1].seq,
                seq,
                "round {round}: another number was acknowledged"
            );
        }
    }
    store.report().lost_entries
}

#[test]
fn killed_at_random_nothing_acknowledged_is_lost() {
    let rounds: u32 = std::env::var("STATESTORE_KILL_ROUNDS").map_or(40, |n| n.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    let mut random = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
    println!("seed {random}");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut acks = Acks::new();
    let (mut lost, mut with_acks) = (0, 0);
    for round in 0..rounds {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let before = acks.clone();
        // Every third round may hit the opening, the others hit the writing.
        run_and_kill(&dir, Duration::from_millis(random % 120), round % 3 != 0, &mut acks);
        with_acks += u32::from(acks != before);
        if dir.exists() {
            lost += runtime.block_on(check(&dir, &acks, round));
            // The unacknowledged ones that were applied count from here on.
            let store = SledStore::open(&dir, options()).unwrap();
            for writer in 0..WRITERS {
                let journal = runtime.block_on(store.journal(Some(&[writer]), 0, usize::MAX)).unwrap();
                if let Some(last) = journal.last() {
                    acks.insert(writer, (counter(&last.payload), last.seq));
                }
            }
        }
    }
    let total: u64 = acks.values().map(|(n, _)| n).sum();
    println!(
        "{rounds} rounds, {with_acks} with acknowledgements, {total} commits, {lost} unfinished entries cut"
    );
    assert!(with_acks * 2 > rounds, "too few rounds wrote anything: {with_acks} of {rounds}");
}
