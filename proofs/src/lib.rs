//! Filecoin proof-of-replication on a CPU: AddPiece, PC1, PC2, C1, verification and unseal, bit-exact with the network.
//!
//! Pure computation over bytes and files: no async runtime, no database, no network. Modules are named by mathematical
//! object; the specification they follow is cited as `proofs.md §n`.

#![deny(unsafe_code)]

pub mod challenges;
pub mod codec;
pub mod control;
pub mod encode;
mod error;
pub mod field;
pub mod files;
pub mod fr32;
pub mod graph;
pub mod labels;
pub mod manifest;
pub mod params;
pub mod piece;
pub mod porep;
pub mod poseidon;
pub mod sha256;
pub mod tree;
pub mod unseal;
pub mod vanilla;

pub use error::Error;

/// A node of a sector, a label or a tree: 32 bytes (proofs.md §0).
pub type Node = [u8; 32];
