//! sealrig's proofs against the published `filecoin-proofs` crates: the same inputs, the same bytes.

pub mod artifacts;
pub mod case;
pub mod known;
pub mod oracle;
pub mod parts;
pub mod spec_values;

/// Case types and our side of a case, which the ordinary tests of `proofs` use too.
#[path = "../../../proofs/tests/case/mod.rs"]
pub mod shared;
