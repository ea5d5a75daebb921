//! The embedded development chain.

mod clock;
mod verifier;

pub use clock::{EpochClock, IntervalClock, ManualClock, OnDemandClock, Pace};
pub use verifier::{PoRepStatement, ProofVerifier, VerifierUnavailable};
