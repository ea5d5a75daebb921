//! The pool: what it takes, in which order blocks take it, and the fault knobs.

use super::*;
use crate::{Error, NonceProblem};

fn send(nonce: u64, params: u8) -> SignedMessage {
    message(Address::Id(100), nonce, Method::Send, vec![params])
}

async fn landed(chain: &DevChain, cid: &Cid) -> Option<Epoch> {
    chain.search(cid, &HEAD, None).await.unwrap().map(|l| l.height)
}

#[tokio::test]
async fn pushing_is_idempotent() {
    let rig = Rig::new().await;
    let one = send(0, 1);
    let cid = rig.chain.push(&one).await.unwrap();
    assert_eq!(cid, one.cid());
    assert_eq!(rig.chain.push(&one).await.unwrap(), cid);
    assert_eq!(rig.chain.pending(), 1);
    for made in 0..3 {
        rig.chain.mine(1).await.unwrap();
        assert_eq!(rig.chain.push(&one).await.unwrap(), cid, "{made}");
        assert_eq!((rig.chain.pending(), rig.chain.next_nonce(&Address::Id(100)).await.unwrap()), (0, 1));
    }
    assert_eq!(landed(&rig.chain, &cid).await, Some(2));
}

#[tokio::test]
async fn nonces() {
    let rig = Rig::new().await;
    let (chain, from) = (&rig.chain, Address::Id(100));
    let problem = |message: SignedMessage| async move {
        match chain.push(&message).await.unwrap_err() {
            Error::Nonce { problem, cid, .. } => {
                assert_eq!(*cid, message.cid());
                problem
            }
            other => panic!("{other}"),
        }
    };
    chain.push(&send(0, 1)).await.unwrap();
    assert_eq!(problem(send(0, 2)).await, NonceProblem::Taken { got: 0 });
    let far = send(1_001, 1);
    assert_eq!(problem(far).await, NonceProblem::TooFar { got: 1_001, expected: 0 });
    assert_eq!(problem(send(u64::MAX, 1)).await, NonceProblem::TooFar { got: u64::MAX, expected: 0 });
    // A gap waits.
    let later = chain.push(&send(2, 1)).await.unwrap();
    assert_eq!(chain.next_nonce(&from).await.unwrap(), 1);
    chain.mine(3).await.unwrap();
    assert_eq!((landed(chain, &later).await, chain.pending()), (None, 1));
    assert_eq!(problem(send(0, 2)).await, NonceProblem::TooLow { got: 0, expected: 1 });
    assert_eq!(chain.next_nonce(&from).await.unwrap(), 1);
    let filler = chain.push(&send(1, 1)).await.unwrap();
    assert_eq!(chain.next_nonce(&from).await.unwrap(), 3);
    chain.mine(2).await.unwrap();
    assert_eq!((landed(chain, &filler).await, landed(chain, &later).await), (Some(5), Some(5)));
    assert_eq!(chain.next_nonce(&Address::Id(555)).await.unwrap(), 0);
}

#[tokio::test]
async fn messages_that_no_node_accepts() {
    let rig = Rig::new().await;
    type Change = fn(&mut Message);
    let wrong: [(&str, Change); 10] = [
        ("version", |m| m.version = 1),
        ("negative value", |m| m.value = TokenAmount(-1)),
        ("value above the supply", |m| m.value = TokenAmount(TokenAmount::SUPPLY.0 + 1)),
        ("negative premium", |m| m.gas_premium = TokenAmount(-1)),
        ("premium above the cap", |m| m.gas_premium = TokenAmount(101)),
        ("no gas", |m| m.gas_limit = 0),
        ("too much gas", |m| m.gas_limit = 10_000_000_001),
        ("fee cap", |m| m.gas_fee_cap = TokenAmount(99)),
        ("size", |m| m.params = vec![0; 65_536]),
        ("system actor", |m| m.from = Address::Id(99)),
    ];
    for (name, change) in wrong {
        let mut message = send(0, 0);
        change(&mut message.message);
        let error = rig.chain.push(&message).await.unwrap_err();
        assert_eq!(error.class(), crate::Class::Refused, "{name}: {error}");
    }
    let key = message(Address::Bls([1; 48]), 0, Method::Send, vec![]);
    assert_eq!(rig.chain.push(&key).await.unwrap_err(), Error::ActorNotFound(Address::Bls([1; 48])));
    assert_eq!(rig.chain.pending(), 0);
}

#[tokio::test]
async fn a_block_takes_500_messages() {
    let rig = Rig::new().await;
    for nonce in 0..501 {
        rig.chain.push(&send(nonce, 0)).await.unwrap();
    }
    rig.chain.mine(1).await.unwrap();
    assert_eq!(rig.chain.pending(), 1);
    rig.chain.mine(2).await.unwrap();
    assert_eq!(landed(&rig.chain, &send(499, 0).cid()).await, Some(2));
    assert_eq!(landed(&rig.chain, &send(500, 0).cid()).await, Some(3));
}

#[tokio::test]
async fn dropped_messages_vanish() {
    let rig = Rig::new().await;
    rig.chain.faults().add(FaultRule { fault: Fault::Drop, method: Some(0), count: 1 });
    let cid = rig.chain.push(&send(0, 1)).await.unwrap();
    rig.chain.mine(3).await.unwrap();
    assert_eq!((landed(&rig.chain, &cid).await, rig.chain.pending()), (None, 0));
    assert_eq!(rig.chain.next_nonce(&Address::Id(100)).await.unwrap(), 0);
    assert_eq!(rig.chain.push(&send(0, 1)).await.unwrap(), cid);
    rig.chain.mine(2).await.unwrap();
    assert_eq!(landed(&rig.chain, &cid).await, Some(5));
}

#[tokio::test]
async fn delayed_messages_hold_back_their_successors() {
    let rig = Rig::new().await;
    rig.chain.faults().add(FaultRule { fault: Fault::Delay(4), method: None, count: 1 });
    let first = rig.chain.push(&send(0, 1)).await.unwrap();
    let second = rig.chain.push(&send(1, 1)).await.unwrap();
    let other = message(Address::Id(101), 0, Method::Send, vec![]);
    let other = rig.chain.push(&other).await.unwrap();
    // One call makes them all, block by block where something happens.
    rig.chain.mine(10).await.unwrap();
    assert_eq!(landed(&rig.chain, &other).await, Some(2));
    assert_eq!(landed(&rig.chain, &first).await, Some(6));
    assert_eq!(landed(&rig.chain, &second).await, Some(6));
}

#[tokio::test]
async fn rejected_messages_have_no_effect() {
    let rig = Rig::new().await;
    let fault = Fault::Reject(ExitCode::OUT_OF_GAS);
    rig.chain.faults().add(FaultRule { fault, method: Some(28), count: 1 });
    let one = rig.info(1).await;
    assert_eq!(rig.pre_commit(&[one]).await, ExitCode::OUT_OF_GAS);
    assert!(!rig.chain.allocated(MINER, SectorNumber(1), &HEAD).await.unwrap());
    let one = rig.info(1).await;
    assert_eq!(rig.pre_commit(&[one]).await, ExitCode::OK);
}
