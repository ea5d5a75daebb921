//! Whole lives of sectors, with real proofs at 2 KiB and the real chain, undisturbed and disturbed.

mod common;

use chain::devchain::{Fault as ChainFault, FaultRule};
use chain::{Chain as _, ExitCode, Method};
use common::{MINER, Rig};
use primitives::{SectorNumber, cids};
use sealing::{PipelineError, State};
use statemachine::Class;

const HAPPY: [&str; 13] = [
    "Packing",
    "GetTicket",
    "PreCommit1",
    "PreCommit2",
    "SubmitPreCommitBatch",
    "PreCommitBatchWait",
    "WaitSeed",
    "Committing",
    "SubmitCommitAggregate",
    "CommitAggregateWait",
    "FinalizeSector",
    "Proving",
    "",
];

fn happy() -> Vec<String> {
    HAPPY.iter().filter(|s| !s.is_empty()).map(|s| (*s).to_owned()).collect()
}

/// The sector is on chain with our CommR, and exactly one message of each kind landed.
async fn on_chain(rig: &Rig, n: u64) {
    let sector = rig.sector(n).await;
    let head = rig.chain.head().await.unwrap();
    let there = rig.chain.sector(MINER, SectorNumber(n), &head.key).await.unwrap().expect("active on chain");
    assert_eq!(there.sealed_cid, cids::comm_r_to_cid(&sector.record.comm_r.unwrap()));
    assert_eq!(there.activation, sector.record.activation.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pledged_sector_takes_the_straight_way() {
    let rig = Rig::new().await;
    let n = rig.pipeline.pledge().await.unwrap();
    assert_eq!(n, SectorNumber(1));
    rig.until(1, State::Proving).await;
    let path = rig.path(1).await;
    assert_eq!(path[0], "Empty");
    assert_eq!(path[1..], happy());
    on_chain(&rig, 1).await;
    assert_eq!(rig.storage.reserved(), 0);
    let cache = rig.storage.paths(rig.sector(1).await.record.id()).cache;
    assert!(cache.join("p_aux").exists() && !cache.join("sc-02-data-layer-1.dat").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_goes_in_and_comes_back() {
    let rig = Rig::new().await;
    let first: Vec<u8> = (0..700u32).map(|i| (i * 7 + 3) as u8).collect();
    let second: Vec<u8> = (0..2500u32).map(|i| (i * 5 + 1) as u8).collect();
    let placed = [rig.add("first", &first).await, rig.add("second", &second).await].concat();
    // 700 bytes are a piece of 1016; 2500 are cut at the capacity of 2032: a full sector, and 468 bytes behind the first.
    let at: Vec<(u64, u64)> = placed.iter().map(|p| (p.number.0, p.offset)).collect();
    assert_eq!(at, [(1, 0), (2, 0), (1, 1024)]);
    rig.pipeline.seal(SectorNumber(1)).await.unwrap();
    for n in [1, 2] {
        rig.until(n, State::Proving).await;
        on_chain(&rig, n).await;
    }
    assert_eq!(rig.unseal(1, 0, 700).await, first);
    assert_eq!(rig.unseal(2, 0, 2032).await, second[..2032]);
    assert_eq!(rig.unseal(1, 1024 / 128 * 127, 468).await, second[2032..]);
    assert_eq!(rig.storage.all_staged().unwrap(), Vec::<String>::new(), "staged pieces are deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transient_failures_stay_in_their_state() {
    let rig = Rig::new().await;
    for stage in ["precommit1", "precommit2", "commit"] {
        rig.prover.fail(stage, Class::Transient, None);
        rig.prover.fail(stage, Class::Capacity, None);
    }
    rig.pipeline.pledge().await.unwrap();
    rig.until(1, State::Proving).await;
    assert_eq!(rig.path(1).await[1..], happy(), "no failed state was entered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verdicts_go_back_exactly_as_far_as_they_must() {
    let rig = Rig::new().await;
    rig.prover.fail("precommit1", Class::InvalidOutput, None);
    rig.prover.fail("precommit2", Class::CorruptInput, Some("PreCommit1"));
    rig.prover.fail("precommit2", Class::InvalidOutput, None);
    rig.prover.fail("commit", Class::InvalidOutput, None);
    rig.pipeline.pledge().await.unwrap();
    rig.until(1, State::Proving).await;
    let path = rig.path(1).await.join(" ");
    for part in [
        "PreCommit1 SealPreCommit1Failed PreCommit1 PreCommit2 SealPreCommit1Failed PreCommit1 PreCommit2",
        "PreCommit2 SealPreCommit2Failed PreCommit1 PreCommit2 SubmitPreCommitBatch",
        "Committing ComputeProofFailed Committing SubmitCommitAggregate",
    ] {
        assert!(path.contains(part), "{part} is not in {path}");
    }
    on_chain(&rig, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_keeps_failing_is_parked_and_a_person_moves_it() {
    let rig = Rig::new().await;
    for _ in 0..4 {
        rig.prover.fail("precommit1", Class::InvalidOutput, None);
    }
    rig.pipeline.pledge().await.unwrap();
    let parked = rig.until_parked(1).await;
    assert_eq!(parked.state, State::SealPreCommit1Failed);
    let parking = parked.parked.unwrap();
    assert!(parking.reason.contains("failed 4 times") && parking.reason.contains("scripted"), "{parking:?}");
    assert!(parking.next_action.contains("sectors retry"), "{parking:?}");
    rig.pipeline.retry(SectorNumber(1)).await.unwrap();
    rig.until(1, State::Proving).await;
    on_chain(&rig, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_and_lost_messages_are_sent_anew_and_land_once() {
    let rig = Rig::new().await;
    for method in [Method::PreCommitSectorBatch2, Method::ProveCommitSectors3] {
        let method = Some(method.number());
        rig.chain.faults().add(FaultRule { fault: ChainFault::Drop, method, count: 2 });
        rig.chain.faults().add(FaultRule { fault: ChainFault::Delay(3), method, count: 1 });
        rig.chain.faults().add(FaultRule {
            fault: ChainFault::Reject(ExitCode::ILLEGAL_ARGUMENT),
            method,
            count: 1,
        });
    }
    rig.pipeline.pledge().await.unwrap();
    rig.until(1, State::Proving).await;
    on_chain(&rig, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removal_works_in_every_state_and_numbers_are_never_used_again() {
    let rig = Rig::new().await;
    // While a stage hangs, while pieces are awaited, when proving, when removed.
    rig.prover.hang("precommit1");
    rig.pipeline.pledge().await.unwrap();
    rig.until(1, State::PreCommit1).await;
    let begun = std::time::Instant::now();
    rig.pipeline.remove(SectorNumber(1), false).await.unwrap();
    assert!(begun.elapsed().as_millis() < 1000, "control events do not wait for the step");
    rig.until(1, State::Removed).await;
    rig.pipeline.remove(SectorNumber(1), false).await.unwrap();

    rig.add("x", &[1; 100]).await;
    rig.until(2, State::WaitDeals).await;
    rig.pipeline.remove(SectorNumber(2), false).await.unwrap();
    rig.until(2, State::Removed).await;

    assert_eq!(rig.pipeline.pledge().await.unwrap(), SectorNumber(3));
    let record = rig.until(3, State::Proving).await.record;
    let error = rig.pipeline.remove(SectorNumber(3), false).await.unwrap_err();
    assert!(matches!(error, PipelineError::Unconfirmed { .. }), "{error}");
    let kept = rig.sector(3).await;
    assert_eq!((kept.state, &kept.record), (State::Proving, &record), "a refused removal changes nothing");
    assert_eq!(rig.path(3).await.iter().filter(|s| *s == "Proving").count(), 1);
    rig.pipeline.remove(SectorNumber(3), true).await.unwrap();
    rig.until(3, State::Removed).await;
    let paths = rig.storage.paths(record.id());
    assert!(!paths.sealed.exists() && !paths.cache.exists() && !paths.unsealed.exists());
    assert_eq!(rig.pipeline.pledge().await.unwrap(), SectorNumber(4));
    assert!(matches!(rig.pipeline.seal(SectorNumber(99)).await, Err(PipelineError::Unknown(_))));
    assert!(matches!(rig.pipeline.retry(SectorNumber(1)).await, Err(PipelineError::NothingToRetry { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_goes_on_where_it_was() {
    let mut rig = Rig::new().await;
    for stage in ["precommit1", "precommit2", "commit"] {
        rig.prover.hang(stage);
    }
    rig.pipeline.pledge().await.unwrap();
    for state in [State::PreCommit1, State::PreCommit2, State::Committing] {
        rig.until(1, state).await;
        rig.restart().await;
    }
    rig.until(1, State::Proving).await;
    assert_eq!(rig.path(1).await[1..], happy(), "the states are those of an undisturbed life");
    on_chain(&rig, 1).await;
    assert!(rig.folder().join("chain").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_layer_is_made_again_and_the_commitment_is_the_same() {
    let rig = Rig::new().await;
    rig.prover.hang("precommit2");
    rig.pipeline.pledge().await.unwrap();
    let sector = rig.until(1, State::PreCommit2).await;
    let layer = rig.storage.paths(sector.record.id()).cache.join("sc-02-data-layer-2.dat");
    let mut bytes = std::fs::read(&layer).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&layer, &bytes).unwrap();
    // End the hanging run; the next one meets the damage.
    let mut rig = rig;
    rig.restart().await;
    let done = rig.until(1, State::Proving).await;
    let path = rig.path(1).await.join(" ");
    assert!(path.contains("PreCommit2 SealPreCommit1Failed PreCommit1 PreCommit2"), "{path}");
    let lines = rig.pipeline.journal(SectorNumber(1), 0, 1000).await.unwrap();
    let refused = lines.iter().find(|l| l.event == Some("UnitRefused")).expect("the refusal is on record");
    assert!(refused.data.as_ref().unwrap().to_string().contains("layer-2"), "{refused:?}");
    assert!(done.record.comm_r.is_some());
    on_chain(&rig, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_results_are_not_taken_again_from_undamaged_files() {
    let rig = Rig::new().await;
    rig.prover.fail("commit", Class::InvalidOutput, None);
    rig.prover.fail("commit", Class::InvalidOutput, None);
    rig.pipeline.pledge().await.unwrap();
    rig.until(1, State::Proving).await;
    let path = rig.path(1).await.join(" ");
    let part = "Committing ComputeProofFailed SealPreCommit1Failed PreCommit1 PreCommit2 SubmitPreCommitBatch WaitSeed Committing";
    assert!(path.contains(part), "{path}");
    on_chain(&rig, 1).await;
    let lines = rig.pipeline.journal(SectorNumber(1), 0, 1000).await.unwrap();
    // The same ticket gives the same replica, and the chain still holds the one pre-commit.
    let replicas: Vec<_> = lines.iter().filter(|l| l.event == Some("PreCommit2")).map(|l| &l.data).collect();
    assert_eq!(replicas.len(), 2);
    assert_eq!(replicas[0], replicas[1]);
    let times = |event: &str| lines.iter().filter(|l| l.event == Some(event)).count();
    let forgotten =
        lines.iter().position(|l| l.event == Some("UnitsForgotten")).expect("the units are forgotten");
    let again = lines[forgotten..].iter().filter(|l| l.event == Some("UnitStarted")).count();
    assert_eq!(2 * again, times("UnitStarted"), "every unit is made anew");
    assert_eq!(times("PreCommitLanded"), 1);
}

/// Flips one byte in the middle of a file.
fn flip(path: &std::path::Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// Every file that C1 or proving reads, damaged, cut, or gone while the sector waits for its proof: it is refused and made
/// again, and the sector proves with the same commitment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_damaged_before_the_proof_are_made_again() {
    for name in
        ["sc-02-data-layer-2.dat", "sc-02-data-tree-c.dat", "sc-02-data-tree-r-last.dat", "p_aux", "sealed"]
    {
        for damage in ["flipped", "gone"] {
            let mut rig = Rig::new().await;
            rig.prover.hang("commit");
            let data: Vec<u8> = (0..2032u32).map(|i| (i * 3 + 1) as u8).collect();
            rig.add("data", &data).await;
            let sector = rig.until(1, State::Committing).await;
            let paths = rig.storage.paths(sector.record.id());
            let path = if name == "sealed" { paths.sealed } else { paths.cache.join(name) };
            match damage {
                "flipped" => flip(&path),
                _ => std::fs::remove_file(&path).unwrap(),
            }
            rig.restart().await;
            let done = rig.until(1, State::Proving).await;
            assert_eq!(done.record.comm_r, sector.record.comm_r, "{name} {damage}");
            assert_eq!(rig.unseal(1, 0, 2032).await, data, "{name} {damage}");
            on_chain(&rig, 1).await;
        }
    }
}

/// The last look before the layers go: a replica damaged after its proof was made is made again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_damaged_after_the_proof_is_made_again_before_its_layers_go() {
    for damage in ["flipped", "gone"] {
        let mut rig = Rig::new().await;
        rig.prover.hang("check-kept");
        let data = [9u8; 2032];
        rig.add("data", &data).await;
        let sector = rig.until(1, State::FinalizeSector).await;
        let sealed = rig.storage.paths(sector.record.id()).sealed;
        match damage {
            "flipped" => flip(&sealed),
            _ => std::fs::remove_file(&sealed).unwrap(),
        }
        rig.restart().await;
        rig.until(1, State::Proving).await;
        let path = rig.path(1).await.join(" ");
        assert!(path.contains("FinalizeSector SealPreCommit2Failed PreCommit2"), "{damage}: {path}");
        assert_eq!(rig.unseal(1, 0, 2032).await, data, "{damage}");
        on_chain(&rig, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_staged_piece_that_changed_is_left_out_and_never_sealed() {
    let mut rig = Rig::new().await;
    rig.prover.hang("add-piece");
    let placed = rig.add("data", &[5u8; 1000]).await;
    assert_eq!(placed.len(), 1);
    rig.until(1, State::AddPiece).await;
    let staged = rig.storage.all_staged().unwrap();
    flip(&rig.storage.staged(&staged[0]));
    rig.restart().await;
    let sector = rig.until(1, State::WaitDeals).await;
    assert!(sector.record.pieces.is_empty());
    let (payload, reason) = &sector.record.left_out[0];
    assert_eq!(payload.name, "data");
    assert!(reason.contains("damaged on disk"), "{reason}");
}

/// Clients that hang up at any moment leave nothing half done: numbers go on, and every sector moves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pledges_whose_caller_goes_away_end_like_any_other() {
    let rig = Rig::new().await;
    for i in 0..40u64 {
        let pledge = rig.pipeline.pledge();
        let _ = tokio::time::timeout(std::time::Duration::from_micros(i * 50), pledge).await;
    }
    let last = rig.pipeline.pledge().await.unwrap();
    for n in 1..=last.0 {
        rig.until(n, State::Proving).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_with_the_last_number_is_no_reason_to_go_beyond_it() {
    let rig = Rig::new().await;
    std::fs::write(rig.folder().join(format!("storage/sealed/s-t01000-{}", i64::MAX)), b"").unwrap();
    let error = rig.pipeline.pledge().await.unwrap_err().to_string();
    assert!(error.contains("used up") && error.contains(&i64::MAX.to_string()), "{error}");
}
