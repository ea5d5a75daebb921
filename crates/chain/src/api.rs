//! The [`Chain`] trait.

use crate::params::PreCommitInfo;
use crate::{Address, Lookup, Result, SignedMessage, Tag, Tipset, TipsetKey, TokenAmount};
use async_trait::async_trait;
use cid::Cid;
use primitives::{ActorId, Epoch, SectorNumber};
use serde::{Deserialize, Serialize};

/// Which tipset stands in for an epoch without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The last one before.
    Before,
    /// The first one after.
    After,
}

/// What a chain is and which numbers it uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkInfo {
    /// The network's name.
    pub name: String,
    /// The CID of the genesis block; with the name it identifies the network (`chain.md` §5.1).
    pub genesis: Cid,
    /// The time between two epochs in milliseconds; 0 when epochs come on demand or by hand.
    pub epoch_delay_ms: u64,
    /// Epochs between a pre-commit and its seed.
    pub challenge_delay: Epoch,
    /// How far behind head the ticket of a new sector is drawn, in epochs.
    pub seal_randomness_lookback: Epoch,
    /// The largest age of a ticket when its pre-commit is executed, in epochs.
    pub max_pre_commit_randomness_lookback: Epoch,
    /// The longest time from pre-commit to prove-commit, in epochs.
    pub max_prove_commit_duration: Epoch,
    /// The least life of a sector from its latest possible activation, in epochs.
    pub min_sector_expiration: Epoch,
    /// The latest expiration from now, in epochs.
    pub max_sector_expiration_extension: Epoch,
    /// The name of the proof system whose proofs the chain accepts: `groth16`, or `vanilla` on a development chain.
    pub proof_system: String,
    /// Whether a message carries a reference to a proof ([`Chain::put_proof`]) instead of the proof.
    pub proofs_by_reference: bool,
    /// The largest message in bytes.
    pub max_message_bytes: u64,
    /// The largest proof of a sector in bytes. A chain that takes proofs by reference lifts it to 16 MiB.
    pub max_proof_bytes: u64,
    /// How many epochs a message should be buried before its effect is taken as final (a hint of the chain).
    pub confidence: Epoch,
}

/// A pre-committed sector as the chain keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreCommitOnChain {
    /// What was pre-committed.
    pub info: PreCommitInfo,
    /// The deposit.
    pub deposit: TokenAmount,
    /// The epoch of the tipset that included the pre-commit; the seed is drawn `challenge_delay` later.
    pub epoch: Epoch,
}

/// An activated sector as the chain keeps it (the fields of `chain.md` §3.6 that the pipeline reads).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectorOnChain {
    /// Its number.
    pub number: SectorNumber,
    /// The registered seal proof, by number.
    pub seal_proof: i64,
    /// CommR as a CID.
    pub sealed_cid: Cid,
    /// The epoch of the tipset that included the prove-commit.
    pub activation: Epoch,
    /// The epoch at which it expires.
    pub expiration: Epoch,
    /// The pledge locked for it.
    pub initial_pledge: TokenAmount,
}

/// A chain, embedded or remote.
///
/// Questions about state take the key of the tipset they are about: get it once for a decision and use it for all
/// questions of that decision. At key K the state shows the effects of the messages of K's *parents* (`chain.md` §1.5).
#[async_trait]
pub trait Chain: Send + Sync {
    /// What chain this is.
    async fn network(&self) -> Result<NetworkInfo>;

    /// The current head.
    async fn head(&self) -> Result<Tipset>;

    /// Completes with the head as soon as it is another than `seen`, at once if it is already. Safe to drop.
    async fn head_changed(&self, seen: &TipsetKey) -> Result<Tipset>;

    /// Says that someone waits for the head to reach `epoch`. A development chain that makes blocks on demand makes
    /// them; for all others time does it. Returns at once.
    fn need_epoch(&self, epoch: Epoch) {
        let _ = epoch;
    }

    /// The tipset at `epoch` in the past of `from`, or the next one on the given side if that epoch has none.
    ///
    /// # Errors
    /// [`crate::Error::FutureEpoch`] if `epoch` lies after `from`; [`crate::Error::UnknownTipset`].
    async fn tipset_at(&self, epoch: Epoch, from: &TipsetKey, side: Side) -> Result<Tipset>;

    /// Draws randomness from the tickets (`chain.md` §2). `epoch` may be negative on a young chain.
    ///
    /// # Errors
    /// [`crate::Error::FutureEpoch`] if `epoch` lies after `at`; [`crate::Error::UnknownTipset`].
    async fn ticket_rand(&self, tag: Tag, epoch: Epoch, entropy: &[u8], at: &TipsetKey) -> Result<[u8; 32]>;

    /// Draws randomness from the beacon; otherwise as [`Chain::ticket_rand`].
    async fn beacon_rand(&self, tag: Tag, epoch: Epoch, entropy: &[u8], at: &TipsetKey) -> Result<[u8; 32]>;

    /// The pre-commit of a sector, if it has one that is neither proven nor cleaned up.
    async fn precommit(
        &self,
        miner: ActorId,
        number: SectorNumber,
        at: &TipsetKey,
    ) -> Result<Option<PreCommitOnChain>>;

    /// The activated sector, if there is one.
    async fn sector(
        &self,
        miner: ActorId,
        number: SectorNumber,
        at: &TipsetKey,
    ) -> Result<Option<SectorOnChain>>;

    /// Whether the number was ever pre-committed. Allocation is for ever.
    async fn allocated(&self, miner: ActorId, number: SectorNumber, at: &TipsetKey) -> Result<bool>;

    /// The highest number ever pre-committed (`PL-3`).
    async fn allocated_max(&self, miner: ActorId, at: &TipsetKey) -> Result<Option<SectorNumber>>;

    /// The next nonce of a sender, its messages in the pool counted as far as they follow without a gap.
    async fn next_nonce(&self, sender: &Address) -> Result<u64>;

    /// Makes a proof ready to be sent and returns the bytes that stand for it in the message: the proof itself, or a
    /// reference where [`NetworkInfo::proofs_by_reference`] says so. The same proof always gives the same bytes.
    ///
    /// # Errors
    /// [`crate::Error::ProofTooLarge`].
    async fn put_proof(&self, proof: &[u8]) -> Result<Vec<u8>>;

    /// Hands a message to the pool and returns its CID. Pushing a message again, even one already executed, changes
    /// nothing and gives the same answer. The pool may lose a message: push it again until it is found by
    /// [`Chain::search`].
    async fn push(&self, message: &SignedMessage) -> Result<Cid>;

    /// Looks for an executed message in the past of `from`, at most `limit` epochs back.
    async fn search(&self, message: &Cid, from: &TipsetKey, limit: Option<Epoch>) -> Result<Option<Lookup>>;
}
