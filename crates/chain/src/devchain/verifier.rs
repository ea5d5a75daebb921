//! How the development chain is given its proof verifier.

use primitives::{ActorId, Commitment, RegisteredSealProof, SectorNumber, Seed, Ticket};

/// What a proof of replication proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoRepStatement {
    /// The registered seal proof.
    pub proof_type: RegisteredSealProof,
    /// The replica.
    pub comm_r: Commitment,
    /// The data.
    pub comm_d: Commitment,
    /// The miner, which the prover id is made from.
    pub miner: ActorId,
    /// The sector.
    pub number: SectorNumber,
    /// Seal randomness.
    pub ticket: Ticket,
    /// The interactive challenge.
    pub seed: Seed,
}

/// A verifier could not come to a verdict: it lacks memory, parameters, a file. Says nothing about the proof.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a proof of sector {number} cannot be verified now: {reason}")]
pub struct VerifierUnavailable {
    /// The sector.
    pub number: SectorNumber,
    /// What is missing.
    pub reason: String,
}

/// Verifies proofs for the development chain. Called on threads that may block.
pub trait ProofVerifier: Send + Sync {
    /// The proof system's name: `vanilla`, `groth16`.
    fn system(&self) -> &str;

    /// Whether messages carry a reference to a proof file instead of the proof (PL-14). True for `vanilla`, whose
    /// proofs are too large for a message.
    fn proofs_by_reference(&self) -> bool {
        self.system() == "vanilla"
    }

    /// Whether `proof` proves `statement`. Bytes that are no proof at all are an invalid proof (`Ok(false)`).
    ///
    /// # Errors
    /// [`VerifierUnavailable`] if there is no verdict; the chain then stands still and tries again.
    fn verify_porep(&self, statement: &PoRepStatement, proof: &[u8]) -> Result<bool, VerifierUnavailable>;
}
