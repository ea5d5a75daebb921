//! The record of a sector: what is stored of it beside its state (PL-2).
//!
//! History is not here but in the journal; large things are files, referenced by digest.

use cid::Cid;
use primitives::{
    ActorId, Commitment, Epoch, PieceInfo, RegisteredSealProof, ReplicaId, SectorId, SectorNumber,
};
use primitives::{Seed, Ticket, UnpaddedSize};
use serde::{Deserialize, Serialize};

/// The most pieces of data in one sector. Keeps a record far below the 64 KiB that a store takes, with file names of any
/// legal length, and below the 256 deals that the network allows.
pub const PIECES_MAX: usize = 96;

/// A CID, stored as its canonical text so that a dump can be read and no encoding of links matters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CidText(pub String);

impl From<&Cid> for CidText {
    fn from(cid: &Cid) -> Self {
        Self(cid.to_string())
    }
}

impl std::fmt::Display for CidText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which part of which input a piece holds, so that the input can be put together again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// The name the input was given, a file name as a rule.
    pub name: String,
    /// Where in the input the piece's data begins, in bytes.
    pub input_offset: u64,
    /// Bytes of data; the rest of the piece is zeros.
    pub bytes: u64,
}

/// A staged piece, accepted for a sector and not yet written into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceAssignment {
    /// The staging file's name (not its path: a repo can be moved).
    pub staged: String,
    /// The piece's size with its zero padding.
    pub size: UnpaddedSize,
    /// Where it goes in the sector, in padded bytes.
    pub offset: u64,
    /// BLAKE2b-256 of the staged data: what was accepted is what is sealed.
    pub digest: Commitment,
    /// What it must turn out to be, when the sender knows.
    pub expected: Option<Commitment>,
    /// What it holds.
    pub payload: Payload,
}

/// A piece of the sector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceRecord {
    /// CommP and size.
    pub info: PieceInfo,
    /// Where it begins, in padded bytes.
    pub offset: u64,
    /// What it holds; none for a filler of zeros.
    pub payload: Option<Payload>,
}

/// Seal randomness as drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketDraw {
    /// The value.
    pub value: Ticket,
    /// The epoch it was drawn for; may be negative on a young chain.
    pub epoch: Epoch,
}

/// Interactive seal randomness as drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeedDraw {
    /// The value.
    pub value: Seed,
    /// The epoch it was drawn for: that of the pre-commit plus the challenge delay.
    pub epoch: Epoch,
}

/// A proof, by reference: the bytes are a file named by their digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofRef {
    /// `vanilla` or `groth16`.
    pub system: String,
    /// BLAKE2b-256 of the bytes.
    pub digest: Commitment,
    /// Their number.
    pub bytes: u64,
    /// The bytes that go into the message: the proof itself, or what stands for it.
    #[serde(with = "serde_bytes")]
    pub on_chain: Vec<u8>,
}

/// How often which kind of fault has sent the sector backwards. Reset when the stage behind them succeeds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Faults {
    /// PC1 or what it was made from was no good.
    pub precommit1: u32,
    /// PC2 was no good.
    pub precommit2: u32,
    /// A proof did not verify, here or on chain.
    pub invalid_proofs: u32,
    /// The chain refused a pre-commit.
    pub precommits_refused: u32,
    /// The chain refused a prove-commit.
    pub commits_refused: u32,
}

/// Everything stored of a sector beside its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SectorRecord {
    /// The miner it belongs to.
    pub miner: ActorId,
    /// Its number.
    pub number: SectorNumber,
    /// The seal proof it is made with; fixes the size.
    pub proof: RegisteredSealProof,
    /// When it was created, in ms since 1970.
    pub created_at_ms: u64,
    /// Committed capacity: no data of anybody.
    pub cc: bool,
    /// Pieces that are written, in order of their place, fillers included once it is packed.
    pub pieces: Vec<PieceRecord>,
    /// Pieces that are accepted and not yet written.
    pub assigned: Vec<PieceAssignment>,
    /// Pieces that were left out, with the reason.
    pub left_out: Vec<(Payload, String)>,
    /// Somebody asked to stop waiting for pieces.
    pub pack_requested: bool,
    /// Seal randomness.
    pub ticket: Option<TicketDraw>,
    /// CommD of the packed sector.
    pub comm_d: Option<Commitment>,
    /// CommR of the sealed sector.
    pub comm_r: Option<Commitment>,
    /// What binds the labels to prover, number, ticket and data.
    pub replica_id: Option<ReplicaId>,
    /// The expiration the pre-commit asks for.
    pub expiration: Option<Epoch>,
    /// The pre-commit message, once it landed (none when it was found on chain).
    pub precommit_message: Option<CidText>,
    /// The epoch of the pre-commit on chain.
    pub precommit_epoch: Option<Epoch>,
    /// Interactive randomness.
    pub seed: Option<SeedDraw>,
    /// The seed's epoch, known before its value.
    pub seed_epoch: Option<Epoch>,
    /// The proof for the seed.
    pub commit_proof: Option<ProofRef>,
    /// The prove-commit message, once it landed.
    pub commit_message: Option<CidText>,
    /// The epoch at which the chain activated the sector.
    pub activation: Option<Epoch>,
    /// Why the sector last went backwards, for people.
    pub last_fault: Option<String>,
    /// Counters of faults.
    pub faults: Faults,
    /// The files that stay after finalizing were found to be what they should be.
    pub kept_checked: bool,
    /// What the stages made is wrong although its files are undamaged: PC1 is to begin anew and take nothing for done.
    pub remake: bool,
    /// Somebody asked to remove it.
    pub remove_requested: bool,
}

impl SectorRecord {
    /// A new sector.
    pub fn new(id: SectorId, proof: RegisteredSealProof, created_at_ms: u64) -> Self {
        Self {
            miner: id.miner,
            number: id.number,
            proof,
            created_at_ms,
            cc: false,
            pieces: Vec::new(),
            assigned: Vec::new(),
            left_out: Vec::new(),
            pack_requested: false,
            ticket: None,
            comm_d: None,
            comm_r: None,
            replica_id: None,
            expiration: None,
            precommit_message: None,
            precommit_epoch: None,
            seed: None,
            seed_epoch: None,
            commit_proof: None,
            commit_message: None,
            activation: None,
            last_fault: None,
            faults: Faults::default(),
            kept_checked: false,
            remake: false,
            remove_requested: false,
        }
    }

    /// Miner and number.
    pub fn id(&self) -> SectorId {
        SectorId { miner: self.miner, number: self.number }
    }

    /// Padded bytes taken by written and assigned pieces, alignment included.
    pub fn taken(&self) -> u64 {
        let written = self.pieces.iter().map(|p| p.offset + p.info.size.padded().bytes()).max();
        let assigned = self.assigned.iter().map(|p| p.offset + p.size.padded().bytes()).max();
        written.max(assigned).unwrap_or(0)
    }

    /// Where a piece of this size would go, in padded bytes: behind everything else, at a multiple of its own size
    /// (proofs.md §11.2); `None` when it does not fit.
    pub fn place(&self, size: UnpaddedSize) -> Option<u64> {
        if self.is_full_of_pieces() {
            return None;
        }
        let padded = size.padded().bytes();
        let offset = self.taken().next_multiple_of(padded);
        (offset + padded <= self.proof.sector_size().bytes()).then_some(offset)
    }

    /// Whether no further piece is taken, however small ([`PIECES_MAX`]).
    pub fn is_full_of_pieces(&self) -> bool {
        self.pieces.len() + self.assigned.len() >= PIECES_MAX
    }

    /// The pieces as CommD is computed from them.
    pub fn piece_infos(&self) -> Vec<PieceInfo> {
        self.pieces.iter().map(|p| p.info).collect()
    }
}
