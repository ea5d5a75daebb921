//! The chain a sealing node talks to.
//!
//! - the [`Chain`] trait: what the pipeline needs to know and do, the same for every back end (`chain.md` §6.2);
//! - the types that go to the chain, in tuple CBOR ([`message`], [`params`], [`Address`], [`TokenAmount`]; `chain.md`
//!   §1), [`randomness`] (§2), [the numbers of the rules](policy) (§3.3) and [exit codes](exit) (§3.4);
//! - [`devchain`]: an embedded development chain which enforces the miner actor's sealing rules and verifies every
//!   proof with the verifier it is given (`pipeline.md` PL-13 to PL-16).
//!
//! The crate knows nothing of sealing, of proofs or of a data base.
#![forbid(unsafe_code)]

pub mod address;
pub mod amount;
pub mod cbor;
pub mod error;
pub mod exit;
pub mod message;
pub mod params;
pub mod pieces;
pub mod policy;
pub mod randomness;
pub mod tipset;

mod api;
pub mod devchain;

pub use address::{Address, AddressError};
pub use amount::TokenAmount;
pub use api::{Chain, NetworkInfo, PreCommitOnChain, SectorOnChain, Side};
pub use error::{Class, Error, NonceProblem, Result};
pub use exit::{ExitClass, ExitCode};
pub use message::{Message, Method, Signature, SignedMessage};
pub use policy::Policy;
pub use randomness::Tag;
pub use tipset::{Lookup, Receipt, Tipset, TipsetKey};
