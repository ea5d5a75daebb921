//! Filecoin proof-of-replication on a CPU: AddPiece, PC1, PC2, C1, verification and unseal, bit-exact with the network.
//!
//! Pure computation over bytes and files: no async runtime, no database, no network. Modules are named by mathematical
//! object; the specification they follow is cited as `proofs.md §n`.

#![deny(unsafe_code)]

pub mod control;

/// A node of a sector, a label or a tree: 32 bytes (proofs.md §0).
pub type Node = [u8; 32];
