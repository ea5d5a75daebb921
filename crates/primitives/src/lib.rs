//! Value types shared by every crate of sealrig: sector, piece, proof and chain numbers, commitments and their CIDs.
//!
//! Nothing here does I/O, hashes data or knows a policy. Types are plain values with a checked constructor, a text form
//! and a serde form: text in human-readable formats (JSON), bytes or integers in binary ones (CBOR).

#![forbid(unsafe_code)]

mod bytes32;
pub mod cids;
mod piece;
mod proof;
mod sector;

pub use bytes32::{Commitment, HexError, ProverId, ReplicaId, Seed, Ticket};
pub use piece::{PaddedSize, PieceInfo, SizeError, UnpaddedSize};
pub use proof::{ApiVersion, ProofFeature, RegisteredSealProof, UnknownProof};
pub use sector::{ActorId, SectorId, SectorNumber, SectorSize, UnknownSectorSize};

/// A chain epoch. Signed, because the epoch of a ticket is legally negative on a chain younger than 900 epochs
/// (chain.md §2.2).
pub type Epoch = i64;
