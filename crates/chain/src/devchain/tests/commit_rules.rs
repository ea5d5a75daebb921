//! Each check of prove-commit by its exit code (`chain.md` §3.6).

use super::*;
use crate::Policy;
use crate::params::{AllocationKey, BatchFailure, Notify};

const BAD: ExitCode = ExitCode::ILLEGAL_ARGUMENT;

fn piece(commitment: Commitment, size: u64) -> PieceManifest {
    PieceManifest { cid: cids::comm_d_to_cid(&commitment), size, allocation: None, notify: vec![] }
}

#[tokio::test]
async fn sectors_must_be_pre_committed() {
    let rig = Rig::new().await;
    rig.pre_committed(&[1]).await;
    let params = rig.commit(&[1]).await;
    let mut more = params.clone();
    more.activations.push(SectorActivation { number: SectorNumber(2), pieces: vec![] });
    more.proofs.push(RawBytes::new(vec![1]));
    assert_eq!(rig.prove_commit(&more).await.0, ExitCode::NOT_FOUND);
    let mut none = params.clone();
    none.activations.clear();
    assert_eq!(rig.prove_commit(&none).await.0, BAD);
    let mut twice = params.clone();
    twice.activations.push(twice.activations[0].clone());
    twice.proofs.push(twice.proofs[0].clone());
    assert_eq!(rig.prove_commit(&twice).await.0, BAD);
    assert_eq!(rig.prove_commit(&params).await.0, ExitCode::OK);
    // A proven sector has no pre-commit any more.
    assert_eq!(rig.prove_commit(&params).await.0, ExitCode::NOT_FOUND);
}

#[tokio::test]
async fn callers_and_forms() {
    let rig = Rig::new().await;
    rig.pre_committed(&[1]).await;
    let params = cbor::encode(&rig.commit(&[1]).await);
    for (from, params, code) in [
        (Address::Id(101), params.clone(), ExitCode::FORBIDDEN),
        (rig.chain.worker(), params[..params.len() - 1].to_vec(), ExitCode::SERIALIZATION),
        (rig.chain.worker(), vec![], ExitCode::SERIALIZATION),
        (rig.chain.worker(), params, ExitCode::OK),
    ] {
        let cid = send_from(&rig.chain, from, Method::ProveCommitSectors3, params).await;
        rig.chain.mine(2).await.unwrap();
        let found = rig.chain.search(&cid, &HEAD, None).await.unwrap().unwrap();
        assert_eq!(found.receipt.exit_code, code);
    }
}

#[tokio::test]
async fn form_of_the_proofs() {
    let rig = Rig::new().await;
    rig.pre_committed(&[1, 2, 3, 4]).await;
    let good = rig.commit(&[1, 2, 3, 4]).await;
    type Change = fn(&mut ProveCommitSectors3Params);
    let wrong: [(&str, Change); 10] = [
        ("no proofs", |p| p.proofs.clear()),
        ("both", |p| p.aggregate_proof = RawBytes::new(vec![1])),
        ("a type without an aggregate", |p| p.aggregate_type = Some(1)),
        ("too few", |p| {
            p.proofs.pop();
        }),
        ("too many", |p| p.proofs.push(p.proofs[0].clone())),
        ("too long", |p| p.proofs[3] = RawBytes::new(vec![0; 193])),
        ("old aggregate", |p| {
            p.proofs.clear();
            p.aggregate_proof = RawBytes::new(vec![1]);
            p.aggregate_type = Some(0);
        }),
        ("aggregate of three", |p| {
            p.proofs.clear();
            p.activations.pop();
            p.aggregate_proof = RawBytes::new(vec![1]);
            p.aggregate_type = Some(1);
        }),
        ("aggregate without a type", |p| {
            p.proofs.clear();
            p.aggregate_proof = RawBytes::new(vec![1]);
        }),
        ("aggregates are not verified here", |p| {
            p.proofs.clear();
            p.aggregate_proof = RawBytes::new(vec![1]);
            p.aggregate_type = Some(1);
        }),
    ];
    for (name, change) in wrong {
        let mut params = good.clone();
        change(&mut params);
        assert_eq!(rig.prove_commit(&params).await.0, BAD, "{name}");
    }
    assert_eq!(rig.verifier.calls.lock().unwrap().len(), 0);
    assert_eq!(rig.prove_commit(&good).await.1.successes, 4);
}

#[tokio::test]
async fn the_challenge_delay_is_kept() {
    let rig = Rig::new().await;
    assert_eq!(rig.pre_commit(&[info(1, 1)]).await, ExitCode::OK);
    // Pre-committed at 1, delay 10: epoch 11 is too early, epoch 12 is right.
    rig.chain.mine(8).await.unwrap();
    let params = {
        // The seed of epoch 11 is drawn ahead of time from the definition.
        let entropy = Address::entropy(MINER);
        let of = block::Randomness { seed: [1; 32] };
        let statement = PoRepStatement {
            proof_type: RegisteredSealProof::new(5).unwrap(),
            comm_r: comm_r(1),
            comm_d: zero_commitment(2048),
            miner: MINER,
            number: SectorNumber(1),
            ticket: Ticket(of.ticket(Tag::SealRandomness, info(1, 1).seal_rand_epoch, &entropy)),
            seed: Seed(of.beacon(Tag::InteractiveSealChallenge, 11, &entropy)),
        };
        ProveCommitSectors3Params {
            activations: vec![SectorActivation { number: SectorNumber(1), pieces: vec![] }],
            proofs: vec![RawBytes::new(prove(&statement))],
            aggregate_proof: RawBytes::default(),
            aggregate_type: None,
            require_activation_success: true,
            require_notification_success: false,
        }
    };
    assert_eq!(rig.height().await, 10);
    let early = rig.send(Method::ProveCommitSectors3, &params).await;
    rig.chain.mine(1).await.unwrap();
    let right = rig.send(Method::ProveCommitSectors3, &params).await;
    rig.chain.mine(2).await.unwrap();
    let code = |cid| {
        let chain = &rig.chain;
        async move { chain.search(&cid, &HEAD, None).await.unwrap().unwrap().receipt.exit_code }
    };
    assert_eq!((code(early).await, code(right).await), (ExitCode::FORBIDDEN, ExitCode::OK));
}

#[tokio::test]
async fn too_early_fails_the_whole_message() {
    let rig = Rig::new().await;
    rig.pre_committed(&[1]).await;
    let two = rig.info(2).await;
    assert_eq!(rig.pre_commit(&[two]).await, ExitCode::OK);
    let mut params = rig.commit(&[1]).await;
    params.activations.push(SectorActivation { number: SectorNumber(2), pieces: vec![] });
    params.proofs.push(RawBytes::new(vec![1]));
    assert_eq!(rig.prove_commit(&params).await.0, ExitCode::FORBIDDEN);
    assert!(!rig.active(1).await);
}

#[tokio::test]
async fn one_seal_type_in_a_message() {
    let rig = Rig::new().await;
    let (one, mut two) = (rig.info(1).await, rig.info(2).await);
    two.seal_proof = 10;
    assert_eq!(rig.pre_commit(&[one, two]).await, ExitCode::OK);
    rig.chain.mine(9).await.unwrap();
    let params = rig.commit(&[1, 2]).await;
    assert_eq!(rig.prove_commit(&params).await.0, ExitCode::ILLEGAL_STATE);
    let params = rig.commit(&[2]).await;
    assert_eq!(rig.prove_commit(&params).await.0, ExitCode::OK);
}

#[tokio::test]
async fn an_old_pre_commit_fails_its_sector() {
    // A short window instead of a month.
    let rig = Rig::with("digest", |c| {
        c.policy = Policy { prove_commit_window: 30, ..Policy::development() };
    })
    .await;
    rig.pre_committed(&[1]).await;
    // Pre-committed at 1; 41 is the last epoch. The next messages are included at 41 and 42.
    rig.chain.mine(20).await.unwrap();
    let two = rig.info(2).await;
    assert_eq!(rig.pre_commit(&[two]).await, ExitCode::OK);
    rig.chain.mine(9).await.unwrap();
    assert_eq!(rig.height().await, 42);
    let mut params = rig.commit(&[1, 2]).await;
    let (code, batch) = rig.prove_commit(&params).await;
    assert_eq!(code, ExitCode::OK);
    let failures = vec![BatchFailure { index: 0, code: BAD }];
    assert_eq!(batch, BatchReturn { successes: 1, failures });
    assert_eq!((rig.active(1).await, rig.active(2).await), (false, true));
    // It was not even looked at; alone it fails the message.
    assert_eq!(*rig.verifier.calls.lock().unwrap(), [SectorNumber(2)]);
    params = rig.commit(&[1]).await;
    assert_eq!(rig.prove_commit(&params).await.0, BAD);
}

#[tokio::test]
async fn the_last_epoch_of_a_pre_commit() {
    let rig = Rig::with("digest", |c| {
        c.policy = Policy { prove_commit_window: 30, ..Policy::development() };
    })
    .await;
    rig.pre_committed(&[1]).await;
    rig.chain.mine(29).await.unwrap();
    assert_eq!(rig.height().await, 40);
    let params = rig.commit(&[1]).await;
    assert_eq!(rig.prove_commit(&params).await.0, ExitCode::OK);
}

#[tokio::test]
async fn invalid_proofs() {
    let rig = Rig::new().await;
    rig.pre_committed(&[1, 2, 3]).await;
    let good = rig.commit(&[1, 2, 3]).await;
    let mut bad = good.clone();
    bad.proofs[1] = RawBytes::new(vec![7; 32]);
    // With success required, the whole message fails.
    bad.require_activation_success = true;
    assert_eq!(rig.prove_commit(&bad).await.0, BAD);
    assert!(!rig.active(1).await);
    bad.require_activation_success = false;
    let (code, batch) = rig.prove_commit(&bad).await;
    assert_eq!(code, ExitCode::OK);
    assert_eq!(batch, BatchReturn { successes: 2, failures: vec![BatchFailure { index: 1, code: BAD }] });
    assert_eq!((rig.active(1).await, rig.active(2).await, rig.active(3).await), (true, false, true));
    // None valid.
    let mut alone = rig.commit(&[2]).await;
    let proof = std::mem::replace(&mut alone.proofs[0], RawBytes::new(vec![]));
    assert_eq!(rig.prove_commit(&alone).await.0, BAD);
    alone.proofs[0] = proof;
    assert_eq!(rig.prove_commit(&alone).await.0, ExitCode::OK);
}

#[tokio::test]
async fn a_proof_is_bound_to_its_sector_ticket_and_seed() {
    let rig = Rig::new().await;
    rig.pre_committed(&[1, 2]).await;
    let right = statement(&rig.chain, 1).await;
    type Change = fn(&mut PoRepStatement);
    let wrong: [Change; 7] = [
        |s| s.number = SectorNumber(2),
        |s| s.ticket.0[0] ^= 1,
        |s| s.seed.0[31] ^= 1,
        |s| s.comm_r.0[5] ^= 1,
        |s| s.comm_d.0[5] ^= 1,
        |s| s.miner = ActorId(1001),
        |s| s.proof_type = RegisteredSealProof::new(10).unwrap(),
    ];
    for change in wrong {
        let mut other = right;
        change(&mut other);
        let mut params = rig.commit(&[1]).await;
        params.proofs[0] = RawBytes::new(prove(&other));
        assert_eq!(rig.prove_commit(&params).await.0, BAD, "{other:?}");
    }
}

#[tokio::test]
async fn pieces_that_do_not_give_comm_d_fail_the_whole_message() {
    let rig = Rig::new().await;
    rig.pre_committed(&[1, 2]).await;
    let good = rig.commit(&[1, 2]).await;
    let zeros = zero_commitment(1024);
    let r = cids::comm_r_to_cid(&zeros);
    for wrong in [
        vec![piece(Commitment([1; 32]), 1024)],
        vec![piece(zeros, 2048)],
        vec![piece(zeros, 1000)],
        vec![piece(zeros, 0)],
        vec![piece(zeros, 64)],
        vec![piece(zeros, 1 << 63)],
        vec![piece(zeros, 1024), piece(zeros, 1024), piece(zero_commitment(128), 128)],
        vec![PieceManifest { cid: r, ..piece(zeros, 1024) }],
    ] {
        let mut params = good.clone();
        params.activations[1].pieces = wrong;
        assert_eq!(rig.prove_commit(&params).await.0, BAD);
        assert!(!rig.active(1).await);
    }
    let mut params = good.clone();
    params.activations[0].pieces = vec![piece(zeros, 1024)];
    params.activations[1].pieces = vec![piece(zero_commitment(128), 128), piece(zeros, 1024)];
    assert_eq!(rig.prove_commit(&params).await.1.successes, 2);
}

#[tokio::test]
async fn allocations_and_notifications_find_nobody() {
    let rig = Rig::new().await;
    rig.pre_committed(&[1, 2]).await;
    let mut params = rig.commit(&[1, 2]).await;
    let mut claims = piece(zero_commitment(2048), 2048);
    claims.allocation = Some(AllocationKey { client: 101, id: 1 });
    params.activations[0].pieces = vec![claims];
    params.require_activation_success = true;
    assert_eq!(rig.prove_commit(&params).await.0, BAD);
    let mut tells = piece(zero_commitment(2048), 2048);
    tells.notify = vec![Notify { address: Address::Id(5), payload: RawBytes::default() }];
    params.activations[1].pieces = vec![tells];
    params.require_activation_success = false;
    params.require_notification_success = true;
    assert_eq!(rig.prove_commit(&params).await.0, ExitCode::NOTIFICATION_SEND_FAILED);
    params.require_notification_success = false;
    let (code, batch) = rig.prove_commit(&params).await;
    assert_eq!((code, batch.code(0), batch.successes), (ExitCode::OK, ExitCode::NOT_FOUND, 1));
}

#[tokio::test]
async fn no_verdict_stops_the_chain_and_is_no_failure() {
    let rig = Rig::new().await;
    rig.pre_committed(&[1]).await;
    let params = rig.commit(&[1]).await;
    let cid = rig.send(Method::ProveCommitSectors3, &params).await;
    rig.verifier.unavailable.store(true, Ordering::SeqCst);
    let included = rig.chain.mine(1).await.unwrap();
    let error = rig.chain.mine(1).await.unwrap_err();
    assert_eq!(error.class(), crate::Class::Transient);
    assert_eq!(rig.chain.head().await.unwrap(), included);
    rig.verifier.unavailable.store(false, Ordering::SeqCst);
    rig.chain.mine(1).await.unwrap();
    let found = rig.chain.search(&cid, &HEAD, None).await.unwrap().unwrap();
    assert_eq!(found.receipt.exit_code, ExitCode::OK);
}
