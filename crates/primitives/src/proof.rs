//! Registered seal proofs (proofs.md §2.5, chain.md §3.2).

use crate::SectorSize;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of the proof algorithms; versions are ordered (proofs.md §2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ApiVersion {
    /// The first graph: predecessor last, expander index cut to 32 bits.
    V1_0_0,
    /// Predecessor first, no truncation.
    V1_1_0,
    /// Like 1.1.0; allows features, and per-sector PoSt challenges.
    V1_2_0,
}

/// How PoRep challenges are made (proofs.md §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ProofFeature {
    /// From the interactive seed.
    Interactive,
    /// Picked by the seed from a set that is fixed before (FIP-0059).
    Synthetic,
    /// From CommR alone (FIP-0092).
    NonInteractive,
}

/// Not the number of a registered seal proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a registered seal proof; they are numbered 0 to 19")]
pub struct UnknownProof(
    /// What was given.
    pub u64,
);

/// A seal proof type as registered on the network, by number: five sizes (2 KiB, 8 MiB, 512 MiB, 32 GiB, 64 GiB) in each
/// of four groups (V1 0-4, V1_1 5-9, synthetic 10-14, non-interactive 15-19).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct RegisteredSealProof(u8);

const SIZES: [SectorSize; 5] =
    [SectorSize::KiB2, SectorSize::MiB8, SectorSize::MiB512, SectorSize::GiB32, SectorSize::GiB64];

impl RegisteredSealProof {
    /// The proof with this number.
    pub const fn new(number: u64) -> Result<Self, UnknownProof> {
        if number < 20 { Ok(Self(number as u8)) } else { Err(UnknownProof(number)) }
    }

    /// Every registered proof, in order of number.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..20).map(Self)
    }

    /// The V1_1 (interactive) proof of a size; `None` for a size without registered proofs.
    pub fn v1_1(size: SectorSize) -> Option<Self> {
        SIZES.iter().position(|&s| s == size).map(|i| Self(5 + i as u8))
    }

    /// The network's number.
    pub const fn number(self) -> u64 {
        self.0 as u64
    }

    /// The sector size it is for.
    pub const fn sector_size(self) -> SectorSize {
        SIZES[(self.0 % 5) as usize]
    }

    /// The version of the algorithms.
    pub const fn api_version(self) -> ApiVersion {
        match self.0 / 5 {
            0 => ApiVersion::V1_0_0,
            1 => ApiVersion::V1_1_0,
            _ => ApiVersion::V1_2_0,
        }
    }

    /// How challenges are made.
    pub const fn feature(self) -> ProofFeature {
        match self.0 / 5 {
            2 => ProofFeature::Synthetic,
            3 => ProofFeature::NonInteractive,
            _ => ProofFeature::Interactive,
        }
    }

    /// `LE64(number) || LE64(nonce = 0) || 0^16` (proofs.md §2.5).
    pub const fn porep_id(self) -> [u8; 32] {
        let mut id = [0u8; 32];
        id[0] = self.0;
        id
    }

    /// The V1 name of the size, which names the variants in PC1 and C1 JSON whatever the version (proofs.md §4.5).
    pub const fn v1_name(self) -> &'static str {
        [
            "StackedDrg2KiBV1",
            "StackedDrg8MiBV1",
            "StackedDrg512MiBV1",
            "StackedDrg32GiBV1",
            "StackedDrg64GiBV1",
        ][(self.0 % 5) as usize]
    }

    /// The name in JSON, such as `StackedDrg32GiBV1_1`.
    pub fn name(self) -> String {
        let stem = self.v1_name();
        match self.0 / 5 {
            0 => stem.to_owned(),
            1 => format!("{stem}_1"),
            2 => format!("{stem}_1_Feat_SyntheticPoRep"),
            _ => format!("{stem}_2_Feat_NonInteractivePoRep"),
        }
    }

    /// The proof with this JSON name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|p| p.name() == name)
    }
}

impl TryFrom<u64> for RegisteredSealProof {
    type Error = UnknownProof;

    fn try_from(number: u64) -> Result<Self, UnknownProof> {
        Self::new(number)
    }
}

impl From<RegisteredSealProof> for u64 {
    fn from(proof: RegisteredSealProof) -> u64 {
        proof.number()
    }
}

impl fmt::Display for RegisteredSealProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree_with_the_table() {
        let name = |n| RegisteredSealProof::new(n).unwrap().name();
        assert_eq!(name(0), "StackedDrg2KiBV1");
        assert_eq!(name(8), "StackedDrg32GiBV1_1");
        assert_eq!(name(13), "StackedDrg32GiBV1_1_Feat_SyntheticPoRep");
        assert_eq!(name(16), "StackedDrg8MiBV1_2_Feat_NonInteractivePoRep");
        for proof in RegisteredSealProof::all() {
            assert_eq!(RegisteredSealProof::from_name(&proof.name()), Some(proof));
            assert_eq!(proof.porep_id()[0] as u64, proof.number());
        }
        assert!(RegisteredSealProof::new(20).is_err());
        assert_eq!(RegisteredSealProof::v1_1(SectorSize::MiB8).unwrap().number(), 6);
        assert_eq!(RegisteredSealProof::v1_1(SectorSize::KiB4), None);
    }
}
