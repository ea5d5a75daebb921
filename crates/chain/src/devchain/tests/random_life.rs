//! Random sequences of messages, blocks, faults and restarts.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone)]
enum Act {
    PreCommit(Vec<u64>),
    /// Numbers, how their proofs are spoiled, and whether success is required.
    Commit(Vec<(u64, bool)>, bool),
    /// The message of an earlier act again.
    Again(prop::sample::Index),
    Mine(u64),
    Fault(Fault),
    Restart,
}

fn any_act() -> impl Strategy<Value = Act> {
    let numbers = proptest::collection::vec(0u64..6, 1..4);
    let proofs = proptest::collection::vec((0u64..6, prop::bool::weighted(0.2)), 1..4);
    prop_oneof![
        4 => numbers.prop_map(Act::PreCommit),
        4 => (proofs, any::<bool>()).prop_map(|(p, all)| Act::Commit(p, all)),
        1 => any::<prop::sample::Index>().prop_map(Act::Again),
        6 => (1u64..12).prop_map(Act::Mine),
        1 => prop_oneof![
            Just(Fault::Drop), (1i64..5).prop_map(Fault::Delay), Just(Fault::Reject(ExitCode::OUT_OF_GAS)),
        ].prop_map(Act::Fault),
        1 => Just(Act::Restart),
    ]
}

/// Plays the acts and checks after each block what must always hold; returns the last head.
async fn play(acts: &[Act]) -> Tipset {
    let mut rig = Rig::new().await;
    let mut sent: Vec<SignedMessage> = Vec::new();
    let mut pre_commits: BTreeMap<u64, Epoch> = BTreeMap::new();
    let mut active: BTreeSet<u64> = BTreeSet::new();
    for act in acts {
        let height = rig.height().await;
        let nonce = rig.chain.next_nonce(&rig.chain.worker()).await.unwrap();
        let worker = rig.chain.worker();
        match act {
            Act::PreCommit(numbers) => {
                let sectors = numbers.iter().map(|n| info(*n, height + 1)).collect();
                let params = cbor::encode(&PreCommitSectorBatch2Params { sectors });
                sent.push(message(worker, nonce, Method::PreCommitSectorBatch2, params));
                rig.chain.push(&sent[sent.len() - 1]).await.unwrap();
            }
            Act::Commit(list, all) => {
                let mut ready = Vec::new();
                for (number, spoiled) in list {
                    let found = rig.chain.precommit(MINER, SectorNumber(*number), &HEAD).await.unwrap();
                    if found.is_some_and(|p| height >= p.epoch + 10) {
                        ready.push((*number, *spoiled));
                    }
                }
                let mut params = rig.commit(&ready.iter().map(|(n, _)| *n).collect::<Vec<_>>()).await;
                for ((_, spoiled), proof) in ready.iter().zip(&mut params.proofs) {
                    if *spoiled {
                        *proof = RawBytes::new(vec![0; 32]);
                    }
                }
                params.require_activation_success = *all;
                sent.push(message(worker, nonce, Method::ProveCommitSectors3, cbor::encode(&params)));
                rig.chain.push(&sent[sent.len() - 1]).await.unwrap();
            }
            Act::Again(index) if !sent.is_empty() => {
                // Its nonce may be taken by another message when this one was lost.
                let _ = rig.chain.push(index.get(&sent)).await;
            }
            Act::Again(_) => {}
            Act::Mine(count) => {
                for _ in 0..*count {
                    rig.chain.mine(1).await.unwrap();
                    check(&rig, &mut pre_commits, &mut active).await;
                }
            }
            Act::Fault(fault) => {
                rig.chain.faults().add(FaultRule { fault: *fault, method: None, count: 1 });
            }
            Act::Restart => {
                rig.chain.close().await;
                let opened = DevChain::open(rig.dir.path(), config(1, ManualClock), rig.verifier.clone());
                rig.chain = opened.await.unwrap();
            }
        }
    }
    rig.chain.head().await.unwrap()
}

async fn check(rig: &Rig, pre_commits: &mut BTreeMap<u64, Epoch>, active: &mut BTreeSet<u64>) {
    for number in 0..6u64 {
        let n = SectorNumber(number);
        let found = rig.chain.precommit(MINER, n, &HEAD).await.unwrap();
        let sector = rig.chain.sector(MINER, n, &HEAD).await.unwrap();
        let allocated = rig.chain.allocated(MINER, n, &HEAD).await.unwrap();
        assert!(found.is_none() || sector.is_none(), "pre-commit and sector at once");
        assert_eq!(allocated, found.is_some() || sector.is_some());
        if let Some(found) = &found {
            let first = *pre_commits.entry(number).or_insert(found.epoch);
            assert_eq!(first, found.epoch, "number {number} was allocated twice");
            assert!(!active.contains(&number), "number {number} was allocated twice");
        }
        if let Some(sector) = &sector {
            assert!(sector.activation > pre_commits[&number] + 10);
            active.insert(number);
        }
        assert!(sector.is_some() || !active.contains(&number), "an active sector stays");
        assert!(allocated || !pre_commits.contains_key(&number), "allocation is for ever");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_number_is_ever_allocated_twice(acts in proptest::collection::vec(any_act(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let one = runtime.block_on(play(&acts));
        prop_assert_eq!(runtime.block_on(play(&acts)), one, "the same acts give the same chain");
    }
}
