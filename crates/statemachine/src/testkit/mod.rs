//! The deterministic test kit (SM-24, SM-25): virtual time, seeded scheduling, scripted steps, crash sweeps.
//!
//! A [`Sim`] owns time and tasks; nothing in it runs on a thread of its own, so a seed gives the same life each time.
//! Faults of the store come from `statestore::testkit::FaultStore`, death of the process is [`Sim::kill`].

mod path;
mod script;
mod sim;
mod sweep;

pub use path::{assert_path, facts, path};
pub use script::{Act, Script};
pub use sim::{Rng, Sim};
pub use sweep::{Sweep, SweepReport};
