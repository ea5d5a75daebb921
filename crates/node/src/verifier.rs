//! The embedded chain's proof verifier.

use chain::devchain::{PoRepStatement, ProofVerifier, VerifierUnavailable};
use primitives::ProverId;
use proofs::params::PoRepConfig;
use proofs::porep::{Commit1Output, verify_vanilla};
use proofs::vanilla::verify::PublicSector;

/// Verifies C1 outputs in JSON against what the chain knows by itself: the statement's values replace whatever the bytes
/// claim. The chain calls it on threads that may block, never on the API's (PL-8).
#[derive(Debug, Clone, Copy, Default)]
pub struct VanillaVerifier;

impl ProofVerifier for VanillaVerifier {
    fn system(&self) -> &str {
        "vanilla"
    }

    fn verify_porep(&self, statement: &PoRepStatement, proof: &[u8]) -> Result<bool, VerifierUnavailable> {
        let sector = statement.number.0;
        let refused = |reason: &dyn std::fmt::Display| {
            tracing::warn!(sector, "the chain refuses the proof: {reason}");
            Ok(false)
        };
        let text = match std::str::from_utf8(proof) {
            Ok(text) => text,
            Err(e) => return refused(&e),
        };
        let (named, output) = match Commit1Output::from_json(text) {
            Ok(read) => read,
            Err(e) => return refused(&e),
        };
        if named != statement.proof_type {
            return refused(&format_args!("it is of type {named}, expected {}", statement.proof_type));
        }
        let config = PoRepConfig::registered(statement.proof_type);
        let public = PublicSector {
            prover_id: ProverId::from_actor(statement.miner),
            sector_number: statement.number,
            ticket: statement.ticket,
            seed: statement.seed,
            comm_d: statement.comm_d,
            comm_r: statement.comm_r,
        };
        match verify_vanilla(&config, &public, &output) {
            Ok(()) => Ok(true),
            Err(e) => refused(&e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::{ActorId, Commitment, RegisteredSealProof, SectorNumber, Seed, Ticket};

    #[test]
    fn bytes_that_are_no_proof_are_invalid_and_not_unavailable() {
        let statement = PoRepStatement {
            proof_type: RegisteredSealProof::new(5).unwrap(),
            comm_r: Commitment([1; 32]),
            comm_d: Commitment([2; 32]),
            miner: ActorId(1000),
            number: SectorNumber(1),
            ticket: Ticket([3; 32]),
            seed: Seed([4; 32]),
        };
        for bytes in [&b""[..], b"\xff\xfe", b"{}", b"[1,2,3]", b"null"] {
            assert_eq!(VanillaVerifier.verify_porep(&statement, bytes), Ok(false));
        }
    }
}
