//! Blocks by time, on demand, by hand; waiting for them.

use super::*;
use crate::Error;
use std::time::Instant;

async fn open(clock: impl EpochClock + 'static) -> (DevChain, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let chain = DevChain::open(dir.path(), config(1, clock), DigestVerifier::new("digest")).await.unwrap();
    (chain, dir)
}

async fn wait_for(chain: &DevChain, height: Epoch) {
    let mut head = chain.head().await.unwrap();
    while head.height < height {
        head = tokio::time::timeout(Duration::from_secs(20), chain.head_changed(&head.key))
            .await
            .expect("the head moves")
            .unwrap();
    }
}

#[tokio::test]
async fn time_makes_epochs() {
    let (chain, _dir) = open(IntervalClock::new(Duration::from_millis(5))).await;
    let network = chain.network().await.unwrap();
    assert_eq!((network.epoch_delay_ms, network.confidence), (5, 2));
    let start = Instant::now();
    wait_for(&chain, 10).await;
    assert!(start.elapsed() >= Duration::from_millis(50));
    chain.close().await;
    let head = chain.head().await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(chain.head().await.unwrap(), head);
    assert_eq!(chain.mine(1).await.unwrap_err(), Error::Closed);
}

#[tokio::test]
async fn messages_make_blocks_on_demand() {
    let (chain, _dir) = open(OnDemandClock).await;
    let network = chain.network().await.unwrap();
    assert_eq!((network.epoch_delay_ms, network.confidence), (0, 0));
    let seen = chain.head().await.unwrap();
    let quiet = tokio::time::timeout(Duration::from_millis(50), chain.head_changed(&seen.key)).await;
    assert!(quiet.is_err(), "nobody needs a block");
    let cid = send_from(&chain, Address::Id(100), Method::Send, vec![]).await;
    wait_for(&chain, 2).await;
    assert_eq!(chain.search(&cid, &HEAD, None).await.unwrap().unwrap().height, 2);
    // The receipt is there, so it stands still again.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(chain.head().await.unwrap().height, 2);
    // A delayed message and one behind a gap: only the first is a reason to go on.
    chain.faults().add(FaultRule { fault: Fault::Delay(7), method: None, count: 1 });
    send_from(&chain, Address::Id(100), Method::Send, vec![]).await;
    chain.push(&message(Address::Id(101), 5, Method::Send, vec![])).await.unwrap();
    wait_for(&chain, 11).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!((chain.head().await.unwrap().height, chain.pending()), (11, 1));
}

#[tokio::test]
async fn needed_epochs_are_made_at_once() {
    let (chain, _dir) = open(OnDemandClock).await;
    chain.need_epoch(5_000);
    let start = Instant::now();
    wait_for(&chain, 5_000).await;
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    chain.need_epoch(10);
    chain.need_epoch(Epoch::MIN);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(chain.head().await.unwrap().height, 5_000);
}

#[tokio::test]
async fn trouble_of_the_verifier_passes() {
    let dir = tempfile::tempdir().unwrap();
    let verifier = DigestVerifier::new("digest");
    let chain = DevChain::open(dir.path(), config(1, OnDemandClock), verifier.clone()).await.unwrap();
    let rig = Rig { chain, verifier, dir };
    let sectors = vec![info(1, 1)];
    rig.send(Method::PreCommitSectorBatch2, &PreCommitSectorBatch2Params { sectors }).await;
    wait_for(&rig.chain, 2).await;
    rig.chain.need_epoch(11);
    wait_for(&rig.chain, 11).await;
    let params = rig.commit(&[1]).await;
    rig.verifier.unavailable.store(true, Ordering::SeqCst);
    rig.send(Method::ProveCommitSectors3, &params).await;
    wait_for(&rig.chain, 12).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(rig.height().await, 12);
    rig.verifier.unavailable.store(false, Ordering::SeqCst);
    wait_for(&rig.chain, 13).await;
    assert!(rig.active(1).await);
}

#[tokio::test]
async fn a_waiter_that_comes_late_is_told_at_once() {
    let (chain, _dir) = open(ManualClock).await;
    let seen = chain.head().await.unwrap();
    chain.mine(1).await.unwrap();
    assert_eq!(chain.head_changed(&seen.key).await.unwrap().height, 1);
}

#[tokio::test]
async fn waiters_learn_that_the_chain_is_closed() {
    let (chain, _dir) = open(OnDemandClock).await;
    let chain = Arc::new(chain);
    let seen = chain.head().await.unwrap();
    let waiter = {
        let (chain, key) = (Arc::clone(&chain), seen.key.clone());
        tokio::spawn(async move { chain.head_changed(&key).await })
    };
    tokio::task::yield_now().await;
    chain.close().await;
    assert_eq!(waiter.await.unwrap().unwrap_err(), Error::Closed);
    assert_eq!(chain.head_changed(&seen.key).await.unwrap_err(), Error::Closed);
    assert_eq!(chain.head().await.unwrap(), seen);
}
