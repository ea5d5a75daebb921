//! The development chain as a whole, with a verifier whose proofs are digests of the statement.

mod clocks;
mod commit_rules;
mod durability;
mod life;
mod pool_rules;
mod pre_commit_rules;
mod random_life;

use super::*;
use crate::cbor;
use crate::params::{
    BatchReturn, PieceManifest, PreCommitInfo, PreCommitSectorBatch2Params, ProveCommitSectors3Params,
    SectorActivation,
};
use crate::pieces::zero_commitment;
use crate::{
    Chain, ExitCode, Lookup, Message, Method, Signature, SignedMessage, Tag, TipsetKey, TokenAmount,
};
use cid::Cid;
use fvm_ipld_encoding::RawBytes;
use primitives::{Commitment, RegisteredSealProof, SectorNumber, SectorSize, Seed, Ticket, cids};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

const MINER: ActorId = ActorId(1000);
static HEAD: TipsetKey = TipsetKey::HEAD;

/// Takes as proof what [`prove`] makes; can be told to have no verdict.
#[derive(Debug)]
struct DigestVerifier {
    system: &'static str,
    unavailable: AtomicBool,
    calls: Mutex<Vec<SectorNumber>>,
}

impl DigestVerifier {
    fn new(system: &'static str) -> Arc<Self> {
        Arc::new(Self { system, unavailable: AtomicBool::new(false), calls: Mutex::default() })
    }
}

fn prove(statement: &PoRepStatement) -> Vec<u8> {
    cbor::blake2b_256(format!("{statement:?}").as_bytes()).to_vec()
}

impl ProofVerifier for DigestVerifier {
    fn system(&self) -> &str {
        self.system
    }

    fn verify_porep(&self, statement: &PoRepStatement, proof: &[u8]) -> Result<bool, VerifierUnavailable> {
        if self.unavailable.load(Ordering::SeqCst) {
            return Err(VerifierUnavailable { number: statement.number, reason: "switched off".into() });
        }
        self.calls.lock().unwrap().push(statement.number);
        Ok(proof == prove(statement))
    }
}

fn config(seed: u8, clock: impl EpochClock + 'static) -> DevChainConfig {
    DevChainConfig::new([seed; 32], MINER, SectorSize::KiB2, Arc::new(clock))
}

/// A chain by hand in a folder of its own.
struct Rig {
    chain: DevChain,
    verifier: Arc<DigestVerifier>,
    dir: TempDir,
}

impl Rig {
    async fn new() -> Self {
        Self::with("digest", |_| ()).await
    }

    async fn with(system: &'static str, change: impl FnOnce(&mut DevChainConfig)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let verifier = DigestVerifier::new(system);
        let mut config = config(1, ManualClock);
        change(&mut config);
        let chain = DevChain::open(dir.path(), config, verifier.clone()).await.unwrap();
        Self { chain, verifier, dir }
    }

    async fn height(&self) -> Epoch {
        self.chain.head().await.unwrap().height
    }

    /// Pushes a message of the worker with the next nonce.
    async fn send<T: serde::Serialize>(&self, method: Method, params: &T) -> Cid {
        send_from(&self.chain, self.chain.worker(), method, cbor::encode(params)).await
    }

    /// Sends, makes two blocks, and returns what became of it.
    async fn run<T: serde::Serialize>(&self, method: Method, params: &T) -> Lookup {
        let cid = self.send(method, params).await;
        self.chain.mine(2).await.unwrap();
        self.chain.search(&cid, &HEAD, None).await.unwrap().unwrap()
    }

    async fn pre_commit(&self, infos: &[PreCommitInfo]) -> ExitCode {
        let params = PreCommitSectorBatch2Params { sectors: infos.to_vec() };
        self.run(Method::PreCommitSectorBatch2, &params).await.receipt.exit_code
    }

    /// A pre-commit that the next block takes.
    async fn info(&self, number: u64) -> PreCommitInfo {
        info(number, self.height().await + 1)
    }

    /// Pre-commits sectors of zeros and waits until they can be proven.
    async fn pre_committed(&self, numbers: &[u64]) {
        let mut infos = Vec::new();
        for number in numbers {
            infos.push(self.info(*number).await);
        }
        assert_eq!(self.pre_commit(&infos).await, ExitCode::OK);
        self.chain.mine(9).await.unwrap();
    }

    /// The prove-commit of sectors of zeros with valid proofs.
    async fn commit(&self, numbers: &[u64]) -> ProveCommitSectors3Params {
        let mut params = ProveCommitSectors3Params {
            activations: vec![],
            proofs: vec![],
            aggregate_proof: RawBytes::default(),
            aggregate_type: None,
            require_activation_success: false,
            require_notification_success: false,
        };
        for number in numbers {
            let statement = statement(&self.chain, *number).await;
            let activation = SectorActivation { number: SectorNumber(*number), pieces: vec![] };
            params.activations.push(activation);
            let proof = self.chain.put_proof(&prove(&statement)).await.unwrap();
            params.proofs.push(RawBytes::new(proof));
        }
        params
    }

    async fn prove_commit(&self, params: &ProveCommitSectors3Params) -> (ExitCode, BatchReturn) {
        let receipt = self.run(Method::ProveCommitSectors3, params).await.receipt;
        let batch = match receipt.return_data.as_slice() {
            [] => BatchReturn::default(),
            bytes => cbor::decode("return", bytes).unwrap(),
        };
        (receipt.exit_code, batch)
    }

    async fn active(&self, number: u64) -> bool {
        self.chain.sector(MINER, SectorNumber(number), &HEAD).await.unwrap().is_some()
    }
}

fn message(from: Address, nonce: u64, method: Method, params: Vec<u8>) -> SignedMessage {
    let message = Message {
        version: 0,
        to: Address::id(MINER),
        from,
        nonce,
        value: TokenAmount::ZERO,
        gas_limit: 1_000_000,
        gas_fee_cap: TokenAmount(100),
        gas_premium: TokenAmount(1),
        method: method.number(),
        params,
    };
    SignedMessage { message, signature: Signature::Unsigned }
}

async fn send_from(chain: &DevChain, from: Address, method: Method, params: Vec<u8>) -> Cid {
    let nonce = chain.next_nonce(&from).await.unwrap();
    chain.push(&message(from, nonce, method, params)).await.unwrap()
}

/// A pre-commit of a sector of zeros that is right when included at `height`.
fn info(number: u64, height: Epoch) -> PreCommitInfo {
    PreCommitInfo {
        seal_proof: 5,
        number: SectorNumber(number),
        sealed_cid: cids::comm_r_to_cid(&comm_r(number)),
        seal_rand_epoch: height - 901,
        deal_ids: vec![],
        expiration: height + 700_000,
        unsealed_cid: None,
    }
}

fn comm_r(number: u64) -> Commitment {
    Commitment(cbor::blake2b_256(&number.to_be_bytes()))
}

/// What has to be proven of a pre-committed sector of zeros, by what the chain says.
async fn statement(chain: &DevChain, number: u64) -> PoRepStatement {
    let number = SectorNumber(number);
    let found = chain.precommit(MINER, number, &HEAD).await.unwrap().unwrap();
    let entropy = Address::entropy(MINER);
    let seed_epoch = found.epoch + chain.network().await.unwrap().challenge_delay;
    let ticket = chain.ticket_rand(Tag::SealRandomness, found.info.seal_rand_epoch, &entropy, &HEAD);
    let seed = chain.beacon_rand(Tag::InteractiveSealChallenge, seed_epoch, &entropy, &HEAD);
    PoRepStatement {
        proof_type: RegisteredSealProof::new(found.info.seal_proof as u64).unwrap(),
        comm_r: cids::cid_to_comm_r(&found.info.sealed_cid).unwrap(),
        comm_d: match found.info.unsealed_cid {
            Some(cid) => cids::cid_to_comm_d(&cid).unwrap(),
            None => zero_commitment(2048),
        },
        miner: MINER,
        number,
        ticket: Ticket(ticket.await.unwrap()),
        seed: Seed(seed.await.unwrap()),
    }
}
