//! Each check of pre-commit by its exit code (`chain.md` §3.5).

use super::*;
use crate::Policy;
use multihash::Multihash;

/// Pre-commits one sector after `change`, and says what became of it.
async fn outcome(rig: &Rig, number: u64, change: impl FnOnce(&mut PreCommitInfo, Epoch)) -> ExitCode {
    let height = rig.height().await + 1;
    let mut info = info(number, height);
    change(&mut info, height);
    let code = rig.pre_commit(&[info]).await;
    let there = rig.chain.precommit(MINER, SectorNumber(number), &HEAD).await;
    // A miner cannot be asked about a number out of range, but it has none either.
    assert_eq!(there.unwrap().is_some(), code.is_ok(), "{code}");
    code
}

const BAD: ExitCode = ExitCode::ILLEGAL_ARGUMENT;

#[tokio::test]
async fn numbers() {
    let rig = Rig::new().await;
    assert_eq!(outcome(&rig, 1 << 63, |_, _| ()).await, BAD);
    assert_eq!(outcome(&rig, u64::MAX, |_, _| ()).await, BAD);
    assert_eq!(outcome(&rig, (1 << 63) - 1, |_, _| ()).await, ExitCode::OK);
    assert_eq!(outcome(&rig, 0, |_, _| ()).await, ExitCode::OK);
    let max = rig.chain.allocated_max(MINER, &HEAD).await.unwrap();
    assert_eq!(max, Some(SectorNumber::MAX));
}

#[tokio::test]
async fn proof_types() {
    let rig = Rig::new().await;
    for wrong in [0, 1, 4, 15, 19, 20, -1, i64::MIN, i64::MAX] {
        assert_eq!(outcome(&rig, 1, |i, _| i.seal_proof = wrong).await, BAD, "{wrong}");
    }
    // Accepted in general, but not of this miner's size.
    for wrong in [6, 9, 11, 14] {
        assert_eq!(outcome(&rig, 1, |i, _| i.seal_proof = wrong).await, BAD, "{wrong}");
    }
    assert_eq!(outcome(&rig, 1, |i, _| i.seal_proof = 5).await, ExitCode::OK);
    assert_eq!(outcome(&rig, 2, |i, _| i.seal_proof = 10).await, ExitCode::OK);
}

#[tokio::test]
async fn commitment_cids() {
    let rig = Rig::new().await;
    let (r, d) = (cids::comm_r_to_cid(&comm_r(1)), cids::comm_d_to_cid(&comm_r(2)));
    let short = |cid: &Cid| {
        Cid::new_v1(cid.codec(), Multihash::wrap(cid.hash().code(), &cid.hash().digest()[..31]).unwrap())
    };
    for wrong in [d, short(&r), Cid::new_v1(0x71, *r.hash()), Cid::new_v1(r.codec(), *d.hash())] {
        assert_eq!(outcome(&rig, 1, |i, _| i.sealed_cid = wrong).await, BAD, "{wrong}");
    }
    for wrong in [r, short(&d), Cid::new_v1(0x71, *d.hash())] {
        assert_eq!(outcome(&rig, 1, |i, _| i.unsealed_cid = Some(wrong)).await, BAD, "{wrong}");
    }
    assert_eq!(outcome(&rig, 1, |i, _| i.unsealed_cid = Some(d)).await, ExitCode::OK);
}

#[tokio::test]
async fn ticket_age() {
    let rig = Rig::new().await;
    for (age, code) in [(0, BAD), (-1, BAD), (3_781, BAD), (3_780, ExitCode::OK)] {
        assert_eq!(outcome(&rig, 1, |i, h| i.seal_rand_epoch = h - age).await, code, "{age}");
    }
    assert_eq!(outcome(&rig, 2, |i, h| i.seal_rand_epoch = h - 1).await, ExitCode::OK);
    assert_eq!(outcome(&rig, 3, |i, _| i.seal_rand_epoch = Epoch::MIN).await, BAD);
    assert_eq!(outcome(&rig, 3, |i, _| i.seal_rand_epoch = Epoch::MAX).await, BAD);
}

#[tokio::test]
async fn expirations() {
    let rig = Rig::new().await;
    // chain.md §3.5: the smallest is h + 604,810 with a challenge delay of 10; the latest h + 3,680,640.
    for (life, code) in [(604_809, BAD), (3_680_641, BAD), (0, BAD), (-5, BAD), (604_810, ExitCode::OK)] {
        assert_eq!(outcome(&rig, 1, |i, h| i.expiration = h + life).await, code, "{life}");
    }
    assert_eq!(outcome(&rig, 2, |i, h| i.expiration = h + 3_680_640).await, ExitCode::OK);
    assert_eq!(outcome(&rig, 3, |i, _| i.expiration = Epoch::MAX).await, BAD);
    assert_eq!(outcome(&rig, 3, |i, _| i.expiration = Epoch::MIN).await, BAD);
}

#[tokio::test]
async fn lifetime_of_the_type() {
    // With the usual numbers the latest expiration comes first; here the lifetime does.
    let short = Policy { max_sector_lifetime: 600_000, ..Policy::development() };
    let msd = short.max_prove_commit_duration();
    let rig = Rig::with("digest", |c| c.policy = short).await;
    assert_eq!(outcome(&rig, 1, |i, h| i.expiration = h + msd + 600_001).await, BAD);
    assert_eq!(outcome(&rig, 1, |i, h| i.expiration = h + msd + 600_000).await, ExitCode::OK);
}

#[tokio::test]
async fn deals_are_unknown() {
    let rig = Rig::new().await;
    assert_eq!(outcome(&rig, 1, |i, _| i.deal_ids = vec![3]).await, ExitCode::NOT_FOUND);
}

#[tokio::test]
async fn batches() {
    let rig = Rig::new().await;
    assert_eq!(rig.pre_commit(&[]).await, BAD);
    let one = rig.info(1).await;
    assert_eq!(rig.pre_commit(&[one.clone(), one]).await, BAD);
    // One bad member sinks the batch.
    let (one, mut two) = (rig.info(1).await, rig.info(2).await);
    two.seal_rand_epoch = 1_000;
    assert_eq!(rig.pre_commit(&[one.clone(), two]).await, BAD);
    assert!(!rig.chain.allocated(MINER, SectorNumber(1), &HEAD).await.unwrap());
    let (one, two) = (rig.info(1).await, rig.info(2).await);
    assert_eq!(rig.pre_commit(&[one, two]).await, ExitCode::OK);
}

#[tokio::test]
async fn numbers_are_allocated_for_ever() {
    let rig = Rig::new().await;
    assert_eq!(outcome(&rig, 1, |_, _| ()).await, ExitCode::OK);
    let again = rig.info(1).await;
    assert_eq!(rig.pre_commit(&[again]).await, BAD);
    // Also within one block.
    let send = |number| {
        let rig = &rig;
        async move {
            let sectors = vec![rig.info(number).await];
            rig.send(Method::PreCommitSectorBatch2, &PreCommitSectorBatch2Params { sectors }).await
        }
    };
    let (first, second) = (send(2).await, send(2).await);
    // The same parameters with another nonce are another message.
    assert_ne!(first, second);
    rig.chain.mine(2).await.unwrap();
    let mut codes = Vec::new();
    for cid in [first, second] {
        codes.push(rig.chain.search(&cid, &HEAD, None).await.unwrap().unwrap().receipt.exit_code);
    }
    assert_eq!(codes, [ExitCode::OK, BAD]);
}

#[tokio::test]
async fn an_expired_pre_commit_is_removed_and_its_number_stays() {
    let rig = Rig::new().await;
    rig.pre_committed(&[1, 2]).await;
    let params = rig.commit(&[2]).await;
    assert_eq!(rig.prove_commit(&params).await.0, ExitCode::OK);
    // Included at 1: due at 1 + 86,410 + 960, then the end of a deadline of f01000 (…, 57, 117, …).
    let due: Epoch = (1 + 86_410 + 960..).find(|e| e % 60 == 57).unwrap();
    let left = u64::try_from(due - rig.height().await).unwrap();
    let head = rig.chain.mine(left).await.unwrap();
    assert_eq!(head.height, due);
    let there = |number| {
        let chain = &rig.chain;
        async move { chain.precommit(MINER, SectorNumber(number), &HEAD).await.unwrap().is_some() }
    };
    assert!(there(1).await);
    rig.chain.mine(1).await.unwrap();
    assert!(!there(1).await);
    assert!(rig.chain.precommit(MINER, SectorNumber(1), &head.key).await.unwrap().is_some());
    assert!(rig.chain.allocated(MINER, SectorNumber(1), &HEAD).await.unwrap());
    let again = rig.info(1).await;
    assert_eq!(rig.pre_commit(&[again]).await, BAD);
    assert!(rig.active(2).await);
}

#[tokio::test]
async fn callers_and_forms() {
    let rig = Rig::new().await;
    let stranger = Address::Id(101);
    let params =
        |number, height| cbor::encode(&PreCommitSectorBatch2Params { sectors: vec![info(number, height)] });
    let code = |cid: Cid| {
        let chain = &rig.chain;
        async move {
            chain.mine(2).await.unwrap();
            chain.search(&cid, &HEAD, None).await.unwrap().unwrap().receipt.exit_code
        }
    };
    let send = |from: Address, method, params| send_from(&rig.chain, from, method, params);
    let method = Method::PreCommitSectorBatch2;
    let cid = send(stranger.clone(), method, params(1, 1)).await;
    assert_eq!(code(cid).await, ExitCode::FORBIDDEN);
    // The checks of the sectors come before that of the caller, allocation after it.
    let cid = send(stranger.clone(), method, params(u64::MAX, 3)).await;
    assert_eq!(code(cid).await, BAD);
    let cid = send(rig.chain.worker(), method, params(1, 5)).await;
    assert_eq!(code(cid).await, ExitCode::OK);
    let cid = send(stranger, method, params(1, 7)).await;
    assert_eq!(code(cid).await, ExitCode::FORBIDDEN);

    let cid = send(rig.chain.worker(), method, b"no CBOR".to_vec()).await;
    assert_eq!(code(cid).await, ExitCode::SERIALIZATION);
    let mut other =
        message(rig.chain.worker(), rig.chain.next_nonce(&rig.chain.worker()).await.unwrap(), method, vec![]);
    for gone in [6, 7, 25, 26, 5] {
        other.message.method = gone;
        let cid = rig.chain.push(&other).await.unwrap();
        assert_eq!(code(cid).await, ExitCode::UNHANDLED_MESSAGE, "{gone}");
        other.message.nonce += 1;
    }
    other.message.method = 28;
    other.message.to = Address::Id(1001);
    let cid = rig.chain.push(&other).await.unwrap();
    assert_eq!(code(cid).await, ExitCode::UNHANDLED_MESSAGE);
}
