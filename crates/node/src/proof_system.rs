//! Which kind of proof goes to the chain.

use std::fmt;
use std::str::FromStr;

/// The proof systems a repo can be made for. Fixed when the repo is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofSystem {
    /// C1's output is the proof: every check of the network's circuit, without the circuit.
    Vanilla,
}

/// Not a proof system that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownProofSystem {
    /// Named in the specification, not built yet.
    #[error(
        "the proof system groth16 is not available in this version: use `--proofs vanilla`, whose proofs the \
             embedded chain verifies in full"
    )]
    NotYet,
    /// Not a name at all.
    #[error("{0:?} is not a proof system; use `--proofs vanilla`")]
    Unknown(String),
}

impl ProofSystem {
    /// The name, as chains and repos store it.
    pub const fn name(self) -> &'static str {
        match self {
            ProofSystem::Vanilla => "vanilla",
        }
    }
}

impl fmt::Display for ProofSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ProofSystem {
    type Err = UnknownProofSystem;

    fn from_str(text: &str) -> Result<Self, UnknownProofSystem> {
        match text {
            "vanilla" => Ok(ProofSystem::Vanilla),
            "groth16" => Err(UnknownProofSystem::NotYet),
            other => Err(UnknownProofSystem::Unknown(other.chars().take(80).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_built_is_taken() {
        assert_eq!("vanilla".parse(), Ok(ProofSystem::Vanilla));
        let refused = "groth16".parse::<ProofSystem>().unwrap_err().to_string();
        assert!(refused.contains("not available") && refused.contains("vanilla"), "{refused}");
        assert!("Vanilla ".parse::<ProofSystem>().is_err());
    }
}
