//! sealrig's proofs against the published `filecoin-proofs` crates: the same inputs, the same bytes.

pub mod artifacts;
pub mod case;
pub mod oracle;
pub mod spec_values;
pub mod stream;
