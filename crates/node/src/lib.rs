//! A sealing node: everything built from its configuration, started, supervised and stopped.
//!
//! - [`repo`]: the folder of a node; [`preflight`]: what is looked at before a start;
//! - [`Node`]: store, chain, storage, prover and pipeline in one process, with the HTTP [`api`] in front;
//! - [`wire`]: the JSON of API and commands; [`view`]: how stored things become it;
//! - [`Client`]: the API from the other side; [`Offline`]: the same answers from the store of a stopped node;
//! - [`demo`]: files to Proving and back in one call (PL-24).
//!
//! HTTP lives in this crate and nowhere else.

#![forbid(unsafe_code)]

pub mod api;
pub mod client;
pub mod demo;
mod error;
mod node;
mod offline;
pub mod preflight;
mod proof_system;
pub mod repo;
mod verifier;
pub mod view;
pub mod wire;

pub use client::{Client, ClientError};
pub use error::NodeError;
pub use node::{Core, DEFAULT_MINER, Epochs, Node, NodeConfig, StopSummary};
pub use offline::{Offline, OfflineError};
pub use proof_system::{ProofSystem, UnknownProofSystem};
pub use sealing::State;
pub use verifier::VanillaVerifier;
