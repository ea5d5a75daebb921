//! The numbers of the miner actor's rules (`chain.md` §3.3).

use primitives::{ApiVersion, Epoch, ProofFeature, RegisteredSealProof};
use serde::{Deserialize, Serialize};

/// Epochs in a day at 30 s. The actor counts epochs, never seconds.
pub const EPOCHS_IN_DAY: Epoch = 2_880;
/// The epochs of a deadline.
pub const DEADLINE_EPOCHS: Epoch = 60;
/// The epochs of a proving period.
pub const PROVING_PERIOD_EPOCHS: Epoch = 2_880;

/// The numbers of the rules. Durations are in epochs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Finality, and how far behind head the ticket of a new sector is drawn.
    pub seal_randomness_lookback: Epoch,
    /// From the pre-commit to its seed.
    pub challenge_delay: Epoch,
    /// The largest age of a ticket at pre-commit.
    pub max_pre_commit_randomness_lookback: Epoch,
    /// The longest time from pre-commit to prove-commit, without the challenge delay (V1_1 and synthetic).
    pub prove_commit_window: Epoch,
    /// After that time until an expired pre-commit is removed.
    pub expired_pre_commit_clean_up_delay: Epoch,
    /// The least life of a sector.
    pub min_sector_expiration: Epoch,
    /// The latest expiration from now.
    pub max_sector_expiration_extension: Epoch,
    /// The longest life of a sector.
    pub max_sector_lifetime: Epoch,
    /// The fewest and the most sectors of an aggregate.
    pub aggregated_sectors: (u64, u64),
    /// The largest aggregate proof in bytes.
    pub max_aggregate_proof_bytes: u64,
    /// The largest message in bytes.
    pub max_message_bytes: u64,
}

impl Policy {
    /// The numbers of the main network, nv28.
    pub const fn mainnet() -> Self {
        Self {
            seal_randomness_lookback: 900,
            challenge_delay: 150,
            max_pre_commit_randomness_lookback: EPOCHS_IN_DAY + 900,
            prove_commit_window: 30 * EPOCHS_IN_DAY,
            expired_pre_commit_clean_up_delay: 960,
            min_sector_expiration: 180 * EPOCHS_IN_DAY,
            max_sector_expiration_extension: 1_278 * EPOCHS_IN_DAY,
            max_sector_lifetime: 5_259_485,
            aggregated_sectors: (4, 819),
            max_aggregate_proof_bytes: 81_960,
            max_message_bytes: 65_536,
        }
    }

    /// The numbers of a development network: the challenge delay is 10 (`chain.md` §0).
    pub const fn development() -> Self {
        Self { challenge_delay: 10, ..Self::mainnet() }
    }

    /// The longest time from pre-commit to prove-commit (msd).
    pub const fn max_prove_commit_duration(&self) -> Epoch {
        self.prove_commit_window + self.challenge_delay
    }

    /// Whether sectors of this type may be pre-committed: V1_1, plain or synthetic.
    pub fn accepts(&self, proof: RegisteredSealProof) -> bool {
        proof.api_version() != ApiVersion::V1_0_0 && proof.feature() != ProofFeature::NonInteractive
    }
}

/// The largest proof of one sector in bytes (`chain.md` §3.2): 192 for each Groth16 partition.
pub const fn seal_proof_bytes(proof: RegisteredSealProof) -> u64 {
    if proof.sector_size().bytes() >= 32 << 30 { 1_920 } else { 192 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sums() {
        // chain.md §3.3, §3.5.
        let least = |p: &Policy| p.max_prove_commit_duration() + p.min_sector_expiration;
        assert_eq!(Policy::mainnet().max_prove_commit_duration(), 86_550);
        assert_eq!(least(&Policy::mainnet()), 604_950);
        assert_eq!(least(&Policy::development()), 604_810);
        assert_eq!(Policy::mainnet().max_pre_commit_randomness_lookback, 3_780);
        assert_eq!(Policy::mainnet().max_sector_expiration_extension, 3_680_640);
    }

    #[test]
    fn pre_commit_takes_v1_1_and_synthetic() {
        let policy = Policy::mainnet();
        let taken: Vec<u64> =
            RegisteredSealProof::all().filter(|p| policy.accepts(*p)).map(|p| p.number()).collect();
        assert_eq!(taken, (5..15).collect::<Vec<u64>>());
        assert_eq!(seal_proof_bytes(RegisteredSealProof::new(6).unwrap()), 192);
        assert_eq!(seal_proof_bytes(RegisteredSealProof::new(8).unwrap()), 1_920);
    }
}
