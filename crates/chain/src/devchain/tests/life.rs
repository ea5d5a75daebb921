//! The happy life, and what can be seen when.

use super::*;
use crate::{Error, Side};

#[tokio::test]
async fn a_sector_lives_from_pre_commit_to_activation() {
    let rig = Rig::new().await;
    let (chain, number) = (&rig.chain, SectorNumber(7));
    assert_eq!(chain.allocated_max(MINER, &HEAD).await.unwrap(), None);

    // Included at 1, executed with epoch 1, visible at 2.
    let cid = rig
        .send(Method::PreCommitSectorBatch2, &PreCommitSectorBatch2Params { sectors: vec![info(7, 1)] })
        .await;
    let included = chain.mine(1).await.unwrap();
    assert_eq!(included.height, 1);
    assert_eq!(chain.search(&cid, &HEAD, None).await.unwrap(), None);
    assert!(!chain.allocated(MINER, number, &HEAD).await.unwrap());
    let executed = chain.mine(1).await.unwrap();
    let lookup = chain.search(&cid, &HEAD, None).await.unwrap().unwrap();
    assert_eq!((&lookup.tipset, lookup.height, lookup.message), (&executed.key, 2, cid));
    assert_eq!(lookup.receipt.exit_code, ExitCode::OK);
    assert!(lookup.receipt.return_data.is_empty());
    let found = chain.precommit(MINER, number, &HEAD).await.unwrap().unwrap();
    assert_eq!((found.epoch, found.info), (1, info(7, 1)));
    assert_eq!(chain.precommit(MINER, number, &included.key).await.unwrap(), None);
    assert_eq!(chain.allocated_max(MINER, &included.key).await.unwrap(), None);
    assert_eq!(chain.allocated_max(MINER, &HEAD).await.unwrap(), Some(number));

    // The seed is of epoch 11; the first prove-commit may be included at 12.
    chain.mine(9).await.unwrap();
    let params = rig.commit(&[7]).await;
    let lookup = rig.run(Method::ProveCommitSectors3, &params).await;
    assert_eq!((lookup.height, lookup.receipt.exit_code), (13, ExitCode::OK));
    let batch: BatchReturn = cbor::decode("return", &lookup.receipt.return_data).unwrap();
    assert_eq!(batch, BatchReturn { successes: 1, failures: vec![] });
    let sector = chain.sector(MINER, number, &lookup.tipset).await.unwrap().unwrap();
    assert_eq!((sector.activation, sector.expiration), (12, info(7, 1).expiration));
    assert_eq!(chain.precommit(MINER, number, &HEAD).await.unwrap(), None);

    // The same questions about the tipset before give the answers of then.
    let before = chain.tipset_at(12, &HEAD, Side::Before).await.unwrap();
    assert_eq!(chain.sector(MINER, number, &before.key).await.unwrap(), None);
    assert!(chain.precommit(MINER, number, &before.key).await.unwrap().is_some());
    assert_eq!(lookup.tipset, chain.head().await.unwrap().key);
    assert_eq!(before.key, chain.head().await.unwrap().parents);
}

#[tokio::test]
async fn pieces_are_bound_to_the_pre_committed_data() {
    let rig = Rig::new().await;
    let piece = Commitment([3; 32]);
    let mut pre = rig.info(1).await;
    let data = crate::pieces::comm_d(SectorSize::KiB2, &[(piece, 512)]).unwrap();
    pre.unsealed_cid = Some(cids::comm_d_to_cid(&data));
    assert_eq!(rig.pre_commit(&[pre]).await, ExitCode::OK);
    rig.chain.mine(9).await.unwrap();
    let mut params = rig.commit(&[1]).await;
    // No pieces stand for zeros, which these data are not.
    assert_eq!(rig.prove_commit(&params).await.0, ExitCode::ILLEGAL_ARGUMENT);
    let cid = cids::comm_d_to_cid(&piece);
    params.activations[0].pieces = vec![PieceManifest { cid, size: 512, allocation: None, notify: vec![] }];
    assert_eq!(rig.prove_commit(&params).await.0, ExitCode::OK);
    assert!(rig.active(1).await);
}

#[tokio::test]
async fn vanilla_proofs_are_files() {
    let rig = Rig::with("vanilla", |_| ()).await;
    let network = rig.chain.network().await.unwrap();
    assert!(network.proofs_by_reference);
    assert_eq!((network.max_proof_bytes, network.max_message_bytes), (16 << 20, 65_536));
    assert_eq!(network.proof_system, "vanilla");
    rig.pre_committed(&[1, 2, 3]).await;
    let mut params = rig.commit(&[1, 2, 3]).await;
    let reference: [u8; 32] = params.proofs[0].bytes().try_into().unwrap();
    let file = rig.dir.path().join("proofs").join(hex::encode(reference));
    assert_eq!(std::fs::read(&file).unwrap(), prove(&statement(&rig.chain, 1).await));
    // A reference to nothing and something that is no reference are invalid proofs.
    params.proofs[1] = RawBytes::new(vec![9; 32]);
    params.proofs[2] = RawBytes::new(prove(&statement(&rig.chain, 3).await)[..31].to_vec());
    let (code, batch) = rig.prove_commit(&params).await;
    assert_eq!((code, batch.successes), (ExitCode::OK, 1));
    assert_eq!((batch.code(1), batch.code(2)), (ExitCode::ILLEGAL_ARGUMENT, ExitCode::ILLEGAL_ARGUMENT));
    assert_eq!((rig.active(1).await, rig.active(2).await), (true, false));
    let too_large = rig.chain.put_proof(&vec![0; (16 << 20) + 1]).await.unwrap_err();
    assert_eq!(too_large, Error::ProofTooLarge { got: (16 << 20) + 1, limit: 16 << 20 });
}

#[tokio::test]
async fn other_systems_carry_the_proof() {
    let rig = Rig::new().await;
    let network = rig.chain.network().await.unwrap();
    assert_eq!((network.proofs_by_reference, network.max_proof_bytes), (false, 192));
    assert_eq!(rig.chain.put_proof(&[1; 192]).await.unwrap(), [1; 192]);
    assert!(rig.chain.put_proof(&[1; 193]).await.is_err());
}

#[tokio::test]
async fn randomness_is_that_of_the_definition() {
    let rig = Rig::new().await;
    let chain = &rig.chain;
    chain.mine(5).await.unwrap();
    let entropy = Address::entropy(MINER);
    let ticket = |epoch| chain.ticket_rand(Tag::SealRandomness, epoch, &entropy, &HEAD);
    let beacon = |epoch| chain.beacon_rand(Tag::SealRandomness, epoch, &entropy, &HEAD);
    let of = block::Randomness { seed: [1; 32] };
    assert_eq!(
        ticket(3).await.unwrap(),
        crate::randomness::draw(&of.ticket_proof(3), Tag::SealRandomness, 3, &entropy)
    );
    assert_eq!(
        beacon(3).await.unwrap(),
        crate::randomness::draw(&of.beacon_data(3), Tag::SealRandomness, 3, &entropy)
    );
    // Before genesis: the base of genesis, but the number goes into the hash.
    let early = crate::randomness::draw(&of.ticket_proof(0), Tag::SealRandomness, -895, &entropy);
    assert_eq!(ticket(-895).await.unwrap(), early);
    assert_ne!(ticket(-895).await.unwrap(), ticket(-894).await.unwrap());
    assert_eq!(ticket(6).await.unwrap_err(), Error::FutureEpoch { epoch: 6, height: 5 });
    let old = chain.tipset_at(2, &HEAD, Side::After).await.unwrap().key;
    let late = chain.beacon_rand(Tag::SealRandomness, 3, &entropy, &old).await.unwrap_err();
    assert_eq!(late, Error::FutureEpoch { epoch: 3, height: 2 });
}

#[tokio::test]
async fn unknown_tipsets_and_miners_are_errors() {
    let rig = Rig::new().await;
    let foreign = TipsetKey::from(cbor::cid_of(&"foreign"));
    let error = rig.chain.precommit(MINER, SectorNumber(1), &foreign).await.unwrap_err();
    assert_eq!(error, Error::UnknownTipset(foreign.clone()));
    let two = TipsetKey([rig.chain.head().await.unwrap().key.0, foreign.0].concat());
    assert!(rig.chain.sector(MINER, SectorNumber(1), &two).await.is_err());
    let other = rig.chain.sector(ActorId(1001), SectorNumber(1), &HEAD).await.unwrap_err();
    assert_eq!(other, Error::ActorNotFound(Address::Id(1001)));
}

#[tokio::test]
async fn old_tipsets_leave_the_window() {
    let rig = Rig::new().await;
    let genesis = rig.chain.head().await.unwrap();
    rig.chain.mine(4_095).await.unwrap();
    let found = rig.chain.tipset_at(0, &HEAD, Side::Before).await.unwrap();
    assert_eq!(found, genesis);
    let first = rig.chain.tipset_at(1, &HEAD, Side::Before).await.unwrap();
    assert_eq!((first.height, &first.parents), (1, &genesis.key));
    rig.chain.mine(1).await.unwrap();
    assert_eq!(
        rig.chain.tipset_at(0, &HEAD, Side::Before).await.unwrap_err(),
        Error::TooOld { epoch: 0, oldest: 2 }
    );
    assert!(rig.chain.tipset_at(2, &HEAD, Side::Before).await.is_ok());
    assert!(rig.chain.tipset_at(-1, &HEAD, Side::Before).await.is_err());
    assert!(rig.chain.tipset_at(Epoch::MIN, &HEAD, Side::Before).await.is_err());
    assert!(rig.chain.allocated(MINER, SectorNumber(1), &genesis.key).await.is_err());
}

#[tokio::test]
async fn search_looks_no_further_than_asked() {
    let rig = Rig::new().await;
    let cid = rig.send(Method::Send, &()).await;
    let included = rig.chain.mine(1).await.unwrap().key;
    rig.chain.mine(4).await.unwrap();
    let find = |from: TipsetKey, limit| {
        let chain = &rig.chain;
        async move { chain.search(&cid, &from, limit).await.unwrap().map(|l| l.height) }
    };
    assert_eq!(find(HEAD.clone(), None).await, Some(2));
    assert_eq!(find(HEAD.clone(), Some(3)).await, Some(2));
    assert_eq!(find(HEAD.clone(), Some(2)).await, None);
    assert_eq!(find(HEAD.clone(), Some(Epoch::MIN)).await, None);
    assert_eq!(find(HEAD.clone(), Some(Epoch::MAX)).await, Some(2));
    assert_eq!(find(included, None).await, None);
    assert_eq!(rig.chain.search(&cbor::cid_of(&1), &HEAD, None).await.unwrap(), None);
}

#[tokio::test]
async fn the_chain_is_an_object() {
    let Rig { chain, dir: _dir, .. } = Rig::new().await;
    let chain: Arc<dyn Chain> = Arc::new(chain);
    assert_eq!(chain.head().await.unwrap().height, 0);
    chain.need_epoch(1);
}

#[tokio::test]
async fn the_same_messages_give_the_same_chain() {
    let life = |seed| async move {
        let rig = Rig::with("digest", |c| c.seed = [seed; 32]).await;
        rig.pre_committed(&[1, 2]).await;
        let params = rig.commit(&[2, 1]).await;
        rig.prove_commit(&params).await;
        (rig.chain.network().await.unwrap(), rig.chain.head().await.unwrap())
    };
    let (one, again, other) = (life(1).await, life(1).await, life(2).await);
    assert_eq!(one, again);
    assert_ne!(one.0.genesis, other.0.genesis);
    assert_ne!(one.0.name, other.0.name);
    assert_ne!(one.1.key, other.1.key);
}
