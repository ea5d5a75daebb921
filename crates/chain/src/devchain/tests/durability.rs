//! Restarts: at every block, with cut files, with damage, with another configuration.

use super::*;
use crate::{Error, Tipset};
use std::collections::BTreeSet;
use std::fs;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

async fn open(dir: &Path) -> Result<DevChain> {
    DevChain::open(dir, config(1, ManualClock), DigestVerifier::new("digest")).await
}

/// Everything that can be asked about sector 1 and the head.
async fn answers(chain: &DevChain, cids: &[Cid]) -> String {
    let number = SectorNumber(1);
    let mut lookups = Vec::new();
    for cid in cids {
        lookups.push(chain.search(cid, &HEAD, None).await.unwrap());
    }
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {lookups:?}",
        chain.head().await.unwrap(),
        chain.precommit(MINER, number, &HEAD).await.unwrap(),
        chain.sector(MINER, number, &HEAD).await.unwrap(),
        chain.allocated_max(MINER, &HEAD).await.unwrap(),
        chain.next_nonce(&Address::Id(100)).await.unwrap(),
        chain.network().await.unwrap(),
    )
}

/// A life of sector 1, with a copy of the folder, as a crash would leave it, after every block.
async fn life(copies: &Path) -> (Vec<String>, Vec<Tipset>, Vec<Cid>) {
    let rig = Rig::new().await;
    let mut heads = Vec::new();
    let mut told = Vec::new();
    let mut cids = Vec::new();
    for height in 0..16 {
        if height == 1 {
            let sectors = vec![info(1, 2)];
            cids.push(
                rig.send(Method::PreCommitSectorBatch2, &PreCommitSectorBatch2Params { sectors }).await,
            );
        }
        if height == 13 {
            let params = rig.commit(&[1]).await;
            cids.push(rig.send(Method::ProveCommitSectors3, &params).await);
        }
        copy(rig.dir.path(), &copies.join(height.to_string()));
        // The pool is lost with a crash, so the answers are those without it.
        heads.push(rig.chain.head().await.unwrap());
        told.push(
            rig.chain.precommit(MINER, SectorNumber(1), &HEAD).await.unwrap().is_some().to_string()
                + &rig.active(1).await.to_string(),
        );
        rig.chain.mine(1).await.unwrap();
    }
    (told, heads, cids)
}

#[tokio::test]
async fn a_crash_after_any_block_loses_nothing() {
    let copies = tempfile::tempdir().unwrap();
    let (told, heads, cids) = life(copies.path()).await;
    for height in 0..heads.len() {
        let dir = copies.path().join(height.to_string());
        let chain = open(&dir).await.unwrap();
        assert_eq!(chain.head().await.unwrap(), heads[height]);
        let found = chain.precommit(MINER, SectorNumber(1), &HEAD).await.unwrap().is_some().to_string()
            + &chain.sector(MINER, SectorNumber(1), &HEAD).await.unwrap().is_some().to_string();
        assert_eq!(found, told[height], "{height}");
        // It goes on as the undisturbed one: empty blocks where that one had empty blocks.
        let first = answers(&chain, &cids).await;
        chain.close().await;
        let again = open(&dir).await.unwrap();
        assert_eq!(answers(&again, &cids).await, first);
        let next = again.mine(1).await.unwrap();
        // Pushed messages are included at 2 and 14; elsewhere the same block follows.
        if let Some(expected) = heads.get(height + 1).filter(|h| ![2, 14].contains(&h.height)) {
            assert_eq!(next, *expected);
        }
        again.close().await;
    }
}

#[tokio::test]
async fn a_torn_last_block_is_cut_off() {
    let copies = tempfile::tempdir().unwrap();
    let (_, heads, _) = life(copies.path()).await;
    let whole = copies.path().join("15");
    let log = fs::read(whole.join("blocks-000000000000.log")).unwrap();
    let dir = copies.path().join("torn");
    copy(&whole, &dir);
    let path = dir.join("blocks-000000000000.log");
    let mut last = None;
    let mut seen = 0;
    // Every length near the ends of blocks, and a sample of the others.
    for length in (0..=log.len()).filter(|l| l % 7 == 0 || log.len() - l < 150 || *l < 20) {
        fs::write(&path, &log[..length]).unwrap();
        let chain = open(&dir).await.unwrap();
        let head = chain.head().await.unwrap();
        assert_eq!(head, heads[head.height as usize]);
        assert!(last <= Some(head.height), "a longer log has no fewer blocks");
        if last != Some(head.height) {
            seen += 1;
            chain.mine(1).await.unwrap();
        }
        last = Some(head.height);
        chain.close().await;
        if seen > 0 {
            let again = open(&dir).await.unwrap();
            assert!(again.head().await.unwrap().height >= head.height);
            again.close().await;
        }
    }
    assert_eq!((last, seen), (Some(15), 16));
    // The file had grown, but its content had not arrived.
    for rubbish in [vec![0; 100], vec![0xff; 100], log[8..50].to_vec()] {
        fs::write(&path, [log.clone(), rubbish].concat()).unwrap();
        let chain = open(&dir).await.unwrap();
        assert_eq!(chain.head().await.unwrap(), heads[15]);
        chain.close().await;
        assert_eq!(fs::read(&path).unwrap(), log);
    }
}

#[tokio::test]
async fn damage_that_no_crash_makes_is_refused() {
    let copies = tempfile::tempdir().unwrap();
    life(copies.path()).await;
    let dir = copies.path().join("15");
    let path = dir.join("blocks-000000000000.log");
    let log = fs::read(&path).unwrap();
    for at in [0, 3, 8, 9, 20, 45, 60, log.len() / 2] {
        let mut flipped = log.clone();
        flipped[at] ^= 0x40;
        fs::write(&path, &flipped).unwrap();
        let error = open(&dir).await.unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{at}: {error}");
        assert_eq!(fs::read(&path).unwrap(), flipped, "nothing is touched");
    }
    fs::write(&path, &log).unwrap();
    open(&dir).await.unwrap();
}

#[tokio::test]
async fn another_configuration_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).await.unwrap();
    let head = first.mine(3).await.unwrap();
    first.close().await;
    let try_with = |system, change: fn(&mut DevChainConfig)| {
        let dir = dir.path().to_owned();
        async move {
            let mut config = config(1, ManualClock);
            change(&mut config);
            DevChain::open(&dir, config, DigestVerifier::new(system)).await.unwrap_err().to_string()
        }
    };
    let text = try_with("groth16", |_| ()).await;
    assert!(text.contains("the proof system digest and cannot be opened with groth16"), "{text}");
    let text = try_with("digest", |c| c.miner = ActorId(1001)).await;
    assert!(text.contains("miner f01000 and cannot be opened with f01001"), "{text}");
    let text = try_with("digest", |c| c.sector_size = SectorSize::MiB8).await;
    assert!(text.contains("2KiB and cannot be opened with 8MiB"), "{text}");
    let text = try_with("digest", |c| c.seed = [2; 32]).await;
    assert!(text.contains("0101010101010101 and cannot be opened with 0202020202020202"), "{text}");
    assert!(try_with("digest", |c| c.worker = ActorId(105)).await.contains("worker f0100"));
    assert!(try_with("digest", |c| c.policy.challenge_delay = 150).await.contains("rules"));
    // The clock may change, and nothing was lost.
    let other = config(1, OnDemandClock);
    let chain = DevChain::open(dir.path(), other, DigestVerifier::new("digest")).await.unwrap();
    assert_eq!(chain.head().await.unwrap(), head);
}

#[tokio::test]
async fn newer_and_damaged_identities_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).await.unwrap().close().await;
    let path = dir.path().join("devchain.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"schema\": 1", "\"schema\": 2")).unwrap();
    assert!(open(dir.path()).await.unwrap_err().to_string().contains("newer version"));
    fs::write(&path, &text[..20]).unwrap();
    assert!(matches!(open(dir.path()).await.unwrap_err(), Error::Damaged { .. }));
}

#[tokio::test]
async fn one_process_at_a_time() {
    let rig = Rig::new().await;
    assert!(matches!(open(rig.dir.path()).await.unwrap_err(), Error::InUse { .. }));
    rig.chain.close().await;
    open(rig.dir.path()).await.unwrap();
}

fn files(dir: &Path, prefix: &str) -> BTreeSet<String> {
    let names = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(prefix)).collect()
}

/// Fills the log until a new generation begins, one block at a time.
async fn grow(chain: &DevChain, dir: &Path) {
    let (from, old) = (chain.worker(), files(dir, "checkpoint-"));
    for made in 0..500 {
        let nonce = chain.next_nonce(&from).await.unwrap();
        // Large messages fill the log sooner.
        for i in 0..8 {
            chain.push(&message(from.clone(), nonce + i, Method::Send, vec![0; 60_000])).await.unwrap();
        }
        chain.mine(1).await.unwrap();
        if !files(dir, "checkpoint-").is_subset(&old) {
            assert!(made > 0);
            return;
        }
    }
    panic!("no new generation begins");
}

#[tokio::test]
async fn generations_keep_the_files_small() {
    let rig = Rig::new().await;
    rig.pre_committed(&[1]).await;
    let params = rig.commit(&[1]).await;
    let cid = rig.send(Method::ProveCommitSectors3, &params).await;
    grow(&rig.chain, rig.dir.path()).await;
    let path = rig.dir.path().to_owned();
    let logs = |path: &Path| -> Vec<String> {
        files(path, "blocks-").into_iter().chain(files(path, "checkpoint-")).collect()
    };
    assert_eq!(logs(&path).len(), 3);
    grow(&rig.chain, &path).await;
    rig.chain.mine(3).await.unwrap();
    let names = logs(&path);
    assert_eq!(names.len(), 4, "{names:?}");
    let told = answers(&rig.chain, &[cid]).await;
    let head = rig.chain.head().await.unwrap();
    rig.chain.close().await;

    let again = open(&path).await.unwrap();
    assert_eq!(answers(&again, &[cid]).await, told);
    let next = again.mine(1).await.unwrap();
    assert_eq!(next.parents, head.key);
    again.close().await;

    // With a damaged newest checkpoint the one before serves.
    let other = tempfile::tempdir().unwrap();
    copy(&path, other.path());
    let newest = other.path().join(names.last().unwrap());
    let bytes = fs::read(&newest).unwrap();
    fs::write(&newest, &bytes[..bytes.len() / 2]).unwrap();
    let chain = open(other.path()).await.unwrap();
    assert_eq!(chain.head().await.unwrap(), next);
    grow(&chain, other.path()).await;
    chain.close().await;
    open(other.path()).await.unwrap().close().await;
    // Without any, the chain cannot be read, and says so.
    for name in logs(other.path()).iter().filter(|n| n.starts_with("checkpoint-")) {
        fs::write(other.path().join(name), b"").unwrap();
    }
    assert!(matches!(open(other.path()).await.unwrap_err(), Error::Damaged { .. }));

    // A crash between the new log and its checkpoint.
    let half = tempfile::tempdir().unwrap();
    copy(&path, half.path());
    fs::write(half.path().join(format!("blocks-{:012}.log", next.height)), b"srchain1").unwrap();
    fs::write(half.path().join(format!("checkpoint-{:012}.tmp", next.height)), b"sr").unwrap();
    let chain = open(half.path()).await.unwrap();
    assert_eq!(chain.head().await.unwrap(), next);
    chain.mine(1).await.unwrap();
    assert_eq!(logs(half.path()).len(), 4);
}

#[tokio::test]
async fn copies_of_a_running_chain_can_be_opened() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(1, IntervalClock::new(Duration::from_millis(1)));
    let chain = DevChain::open(dir.path(), config, DigestVerifier::new("digest")).await.unwrap();
    let mut last = 0;
    for round in 0..20 {
        send_from(&chain, Address::Id(100), Method::Send, vec![0; 1000]).await;
        let before = chain.head().await.unwrap().height;
        let at = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().to_owned(), at.path().to_owned());
        tokio::task::spawn_blocking(move || copy(&from, &to)).await.unwrap();
        let taken = open(at.path()).await.unwrap();
        let height = taken.head().await.unwrap().height;
        assert!(height >= before && height >= last, "round {round}: what was seen is in the copy");
        last = height;
        assert_eq!(taken.mine(1).await.unwrap().height, height + 1);
    }
    assert!(last > 0);
}

#[tokio::test]
async fn proofs_of_active_sectors_are_removed_after_finality() {
    let rig = Rig::with("vanilla", |_| ()).await;
    rig.pre_committed(&[1, 2, 3]).await;
    let proofs = |rig: &Rig| files(&rig.dir.path().join("proofs"), "").len();
    let mut params = rig.commit(&[1, 2]).await;
    params.proofs.swap(0, 1);
    params.proofs[1] = rig.commit(&[2]).await.proofs.remove(0);
    assert_eq!(rig.prove_commit(&params).await.1.successes, 1);
    assert_eq!(proofs(&rig), 2);
    grow(&rig.chain, rig.dir.path()).await;
    assert_eq!(proofs(&rig), 2, "not final yet");
    rig.chain.mine(900).await.unwrap();
    let params = rig.commit(&[3]).await;
    assert_eq!(rig.prove_commit(&params).await.1.successes, 1);
    grow(&rig.chain, rig.dir.path()).await;
    // Sector 1 failed and may need its proof; sector 3 is not final.
    assert_eq!(proofs(&rig), 2);
    let params = rig.commit(&[1]).await;
    assert_eq!(rig.prove_commit(&params).await.1.successes, 1);
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_written_is_done_without() {
    let rig = Rig::new().await;
    rig.pre_committed(&[1]).await;
    // A folder in its place makes the checkpoint of a height fail. Which height it is, is not known beforehand.
    let next = rig.height().await + 1;
    let blocked = |h: Epoch| rig.dir.path().join(format!("checkpoint-{h:012}.tmp"));
    for height in next..next + 40 {
        fs::create_dir(blocked(height)).unwrap();
    }
    let nonce = |made: u64| 1 + made;
    for made in 0..40 {
        let large = message(rig.chain.worker(), nonce(made), Method::Send, vec![0; 60_000]);
        rig.chain.push(&large).await.unwrap();
        rig.chain.mine(1).await.unwrap();
    }
    assert_eq!(files(rig.dir.path(), "blocks-").len(), 3, "two logs without a checkpoint");
    let told = answers(&rig.chain, &[]).await;
    rig.chain.close().await;
    for height in next..next + 40 {
        fs::remove_dir(blocked(height)).unwrap();
    }
    let chain = open(rig.dir.path()).await.unwrap();
    assert_eq!(answers(&chain, &[]).await, told);
    grow(&chain, rig.dir.path()).await;
    let told = answers(&chain, &[]).await;
    chain.close().await;
    let chain = open(rig.dir.path()).await.unwrap();
    assert_eq!(answers(&chain, &[]).await, told);
}

/// The files of schema 1, which later versions must read: made with `SEALRIG_BLESS=1 cargo test -p chain golden`.
#[tokio::test]
async fn golden_files_of_schema_1() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/devchain-1");
    let copies = tempfile::tempdir().unwrap();
    let (_, heads, cids) = life(copies.path()).await;
    let fresh = copies.path().join("15");
    let mut state = state::State::genesis(heads_genesis(&fresh));
    replay_all(&fresh, &mut state);
    fs::write(fresh.join("state.cbor"), cbor::encode(&state.to_checkpoint())).unwrap();
    let names = ["devchain.json", "blocks-000000000000.log", "state.cbor"];
    if std::env::var_os("SEALRIG_BLESS").is_some() {
        fs::create_dir_all(&golden).unwrap();
        for name in names {
            fs::copy(fresh.join(name), golden.join(name)).unwrap();
        }
    }
    for name in names {
        let (got, expected) = (fs::read(fresh.join(name)).unwrap(), fs::read(golden.join(name)).unwrap());
        assert!(got == expected, "{name} is written otherwise than by the first version of schema 1");
    }
    let stored: state::Checkpoint =
        cbor::decode("checkpoint", &fs::read(golden.join("state.cbor")).unwrap()).unwrap();
    assert_eq!(state::State::from_checkpoint(stored).unwrap().tip(), state.tip());

    let dir = tempfile::tempdir().unwrap();
    fs::copy(golden.join(names[0]), dir.path().join(names[0])).unwrap();
    fs::copy(golden.join(names[1]), dir.path().join(names[1])).unwrap();
    let chain = open(dir.path()).await.unwrap();
    assert_eq!(chain.head().await.unwrap(), heads[15]);
    let found = chain.search(&cids[1], &HEAD, None).await.unwrap().unwrap();
    assert_eq!((found.height, found.receipt.exit_code), (15, ExitCode::OK));
}

fn heads_genesis(dir: &Path) -> block::Tip {
    let identity = config::Identity::new(&config(1, ManualClock), "digest");
    identity.settle(dir).unwrap();
    block::Tip::genesis(&identity)
}

fn replay_all(dir: &Path, state: &mut state::State) {
    let start = log::Log::open(dir).unwrap();
    for frame in start.frames {
        mine::replay(state, frame, block::Randomness { seed: [1; 32] }).unwrap();
    }
}
