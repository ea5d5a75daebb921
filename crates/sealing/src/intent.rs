//! What a sector asks of the world outside: rows of the outbox (PL-16, SM-17).
//!
//! A row is written by the transition that decides it. The wait states have no step; the handler of the row answers
//! with the event that moves the sector on.

use primitives::{ActorId, Commitment, Epoch, PieceInfo, RegisteredSealProof, SectorNumber};
use serde::{Deserialize, Serialize};

/// Kind of a row that sends a pre-commit.
pub const PRECOMMIT: &str = "precommit";
/// Kind of a row that sends a prove-commit.
pub const COMMIT: &str = "commit";
/// Kind of a row that waits for the seed's epoch and draws the seed. It sends nothing.
pub const SEED: &str = "seed";

/// Kind of a row that deletes a staged piece.
pub const UNSTAGE: &str = "unstage";

/// A pre-commit to send (chain.md §3.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreCommitIntent {
    /// The miner.
    pub miner: ActorId,
    /// The sector.
    pub number: SectorNumber,
    /// The seal proof.
    pub proof: RegisteredSealProof,
    /// CommR.
    pub comm_r: Commitment,
    /// CommD; none for committed capacity, where the actor uses that of zeros.
    pub comm_d: Option<Commitment>,
    /// The ticket's epoch.
    pub ticket_epoch: Epoch,
    /// When the sector is to expire.
    pub expiration: Epoch,
}

/// A prove-commit to send (chain.md §3.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitIntent {
    /// The miner.
    pub miner: ActorId,
    /// The sector.
    pub number: SectorNumber,
    /// The seal proof.
    pub proof: RegisteredSealProof,
    /// The pieces declared; none for committed capacity.
    pub pieces: Vec<PieceInfo>,
    /// The proof bytes of the message.
    #[serde(with = "serde_bytes")]
    pub proof_bytes: Vec<u8>,
}

/// A seed to wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeedIntent {
    /// The miner.
    pub miner: ActorId,
    /// The sector.
    pub number: SectorNumber,
    /// The epoch the seed is drawn for.
    pub epoch: Epoch,
}

/// A staged piece that nobody needs any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnstageIntent {
    /// The staging file's name.
    pub staged: String,
}
