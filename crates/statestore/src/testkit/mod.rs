//! For backends and their users: the conformance suite and a store that fails on command.

#[cfg(test)]
mod backends;
pub mod conformance;
mod fault;
mod skips;

pub use fault::{Fault, FaultStore};
pub use skips::skipped;
