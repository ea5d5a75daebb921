//! Shapes, layers and challenge numbers of each sector size, and the configuration of a PoRep (proofs.md §2).

use primitives::{ApiVersion, ProofFeature, RegisteredSealProof, SectorSize};

/// Arity of every base tree (proofs.md §2.1).
pub const BASE_ARITY: usize = 8;
/// In-degree of a node from its own layer (proofs.md §3.2).
pub const BASE_DEGREE: usize = 6;
/// In-degree of a node from the layer before (proofs.md §3.3).
pub const EXPANDER_DEGREE: usize = 8;
/// All parents of a node: [`BASE_DEGREE`] + [`EXPANDER_DEGREE`].
pub const DEGREE: usize = BASE_DEGREE + EXPANDER_DEGREE;

/// The shape of the octal trees over a sector: `8-s-t` (proofs.md §2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SectorShape {
    /// Bytes of the sector.
    pub sector_size: SectorSize,
    /// Nodes of the sector: bytes / 32.
    pub nodes: u64,
    /// Arity of the sub level, 0 if there is none.
    pub sub_arity: usize,
    /// Arity of the top level, 0 if there is none.
    pub top_arity: usize,
}

impl SectorShape {
    /// The shape of a sector size.
    pub const fn of(sector_size: SectorSize) -> Self {
        let (sub_arity, top_arity) = match sector_size {
            SectorSize::KiB2 | SectorSize::MiB8 | SectorSize::MiB512 => (0, 0),
            SectorSize::KiB4 | SectorSize::MiB16 | SectorSize::GiB1 => (2, 0),
            SectorSize::KiB16 | SectorSize::GiB32 => (8, 0),
            SectorSize::KiB32 | SectorSize::GiB64 => (8, 2),
        };
        Self { sector_size, nodes: sector_size.nodes(), sub_arity, top_arity }
    }

    /// Arity of the base trees: always 8.
    pub const fn base_arity(&self) -> usize {
        BASE_ARITY
    }

    /// Number of base trees: `max(1, s) * max(1, t)`.
    pub const fn base_trees(&self) -> usize {
        let s = if self.sub_arity == 0 { 1 } else { self.sub_arity };
        let t = if self.top_arity == 0 { 1 } else { self.top_arity };
        s * t
    }

    /// Leaves of one base tree, a power of eight.
    pub const fn leaves_per_base_tree(&self) -> u64 {
        self.nodes / self.base_trees() as u64
    }

    /// Rows of one base tree, leaves and root included (proofs.md §2.4).
    pub const fn rows(&self) -> usize {
        self.leaves_per_base_tree().ilog2() as usize / 3 + 1
    }

    /// Rows above the leaves that tree-r-last does not keep (proofs.md §2.4), with the production cap of 2.
    pub const fn rows_to_discard(&self) -> usize {
        match self.rows() {
            0..=2 => 0,
            3 => 1,
            rows if rows - 2 < 2 => rows - 2,
            _ => 2,
        }
    }

    /// Nodes of one full base tree: `(8 * leaves - 1) / 7`.
    pub const fn base_tree_nodes(&self) -> u64 {
        (8 * self.leaves_per_base_tree() - 1) / 7
    }

    /// Nodes of one base tree that tree-r-last keeps: the rows above row [`Self::rows_to_discard`].
    pub const fn kept_tree_nodes(&self) -> u64 {
        // The kept rows are themselves the full tree over row `discard + 1`.
        let first = self.leaves_per_base_tree() >> (3 * (self.rows_to_discard() + 1));
        (8 * first - 1) / 7
    }

    /// Nodes of tree-D: `2 * nodes - 1`.
    pub const fn tree_d_nodes(&self) -> u64 {
        2 * self.nodes - 1
    }
}

/// Layers of a sector size as registered (proofs.md §2.1).
pub const fn layers(sector_size: SectorSize) -> usize {
    if is_large(sector_size) { 11 } else { 2 }
}

const fn is_large(sector_size: SectorSize) -> bool {
    matches!(sector_size, SectorSize::GiB32 | SectorSize::GiB64)
}

/// The least number of challenges a verifier accepts (proofs.md §2.2).
pub const fn minimum_challenges(sector_size: SectorSize, feature: ProofFeature) -> usize {
    match (feature, is_large(sector_size)) {
        (ProofFeature::Interactive | ProofFeature::Synthetic, false) => 2,
        (ProofFeature::Interactive | ProofFeature::Synthetic, true) => 176,
        (ProofFeature::NonInteractive, false) => 26,
        (ProofFeature::NonInteractive, true) => 2253,
    }
}

/// The number of partitions as registered (proofs.md §2.2).
pub const fn partitions(sector_size: SectorSize, feature: ProofFeature) -> usize {
    match (feature, is_large(sector_size)) {
        (ProofFeature::Interactive | ProofFeature::Synthetic, false) => 1,
        (ProofFeature::Interactive | ProofFeature::Synthetic, true) => 10,
        (ProofFeature::NonInteractive, false) => 13,
        (ProofFeature::NonInteractive, true) => 126,
    }
}

/// Why a [`PoRepConfig`] is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Columns are hashed with arity 2 or 11 only (proofs.md §5.1).
    #[error("{0} layers: a column hash is defined for 2 and 11 layers only")]
    Layers(usize),
    /// Features came with version 1.2.0 (proofs.md §2.5).
    #[error("the feature {feature:?} needs version 1.2.0, not {version:?}")]
    FeatureVersion {
        /// The feature.
        feature: ProofFeature,
        /// The version asked for.
        version: ApiVersion,
    },
    /// Partition numbers are one byte in the challenge hash (proofs.md §13, trap 30).
    #[error("{0} partitions: there must be 1 to 255")]
    Partitions(usize),
    /// A partition without challenges proves nothing, and the circuit's size is bounded.
    #[error("{0} challenges per partition: there must be 1 to 65535")]
    Challenges(usize),
}

/// Everything a PoRep depends on apart from the sector itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoRepConfig {
    /// Bytes of the sector.
    pub sector_size: SectorSize,
    /// Layers of labels: 2 or 11.
    pub layers: usize,
    /// Seeds the graph and enters the replica id (proofs.md §2.5).
    pub porep_id: [u8; 32],
    /// Version of the algorithms.
    pub api_version: ApiVersion,
    /// How challenges are made.
    pub feature: ProofFeature,
    /// Partitions of the proof.
    pub partitions: usize,
    /// Challenges of each partition.
    pub challenges_per_partition: usize,
}

impl PoRepConfig {
    /// The configuration of a registered proof.
    pub fn registered(proof: RegisteredSealProof) -> Self {
        Self::with_defaults(proof.sector_size(), proof.porep_id(), proof.api_version(), proof.feature())
    }

    /// A configuration for any sector size of proofs.md §2.1 and any porep id, with the layers and challenge numbers
    /// of that size.
    ///
    /// # Errors
    /// [`ConfigError::FeatureVersion`] for a feature on a version that has none.
    pub fn custom(
        sector_size: SectorSize,
        porep_id: [u8; 32],
        api_version: ApiVersion,
        feature: ProofFeature,
    ) -> Result<Self, ConfigError> {
        if feature != ProofFeature::Interactive && api_version < ApiVersion::V1_2_0 {
            return Err(ConfigError::FeatureVersion { feature, version: api_version });
        }
        Ok(Self::with_defaults(sector_size, porep_id, api_version, feature))
    }

    fn with_defaults(
        sector_size: SectorSize,
        porep_id: [u8; 32],
        api_version: ApiVersion,
        feature: ProofFeature,
    ) -> Self {
        let partitions = partitions(sector_size, feature);
        Self {
            sector_size,
            layers: layers(sector_size),
            porep_id,
            api_version,
            feature,
            partitions,
            challenges_per_partition: minimum_challenges(sector_size, feature).div_ceil(partitions),
        }
    }

    /// The same with another number of layers.
    ///
    /// # Errors
    /// [`ConfigError::Layers`] unless it is 2 or 11.
    pub fn with_layers(mut self, layers: usize) -> Result<Self, ConfigError> {
        if layers != 2 && layers != 11 {
            return Err(ConfigError::Layers(layers));
        }
        self.layers = layers;
        Ok(self)
    }

    /// The same with other challenge numbers; whether they suffice is the verifier's question
    /// ([`Self::has_enough_challenges`]).
    ///
    /// # Errors
    /// [`ConfigError::Partitions`] or [`ConfigError::Challenges`] for numbers out of range.
    pub fn with_challenges(mut self, partitions: usize, per_partition: usize) -> Result<Self, ConfigError> {
        if partitions == 0 || partitions > 255 {
            return Err(ConfigError::Partitions(partitions));
        }
        if per_partition == 0 || per_partition > 65_535 {
            return Err(ConfigError::Challenges(per_partition));
        }
        self.partitions = partitions;
        self.challenges_per_partition = per_partition;
        Ok(self)
    }

    /// The verifier's requirement: `partitions * per partition >= minimum` (proofs.md §2.2).
    pub const fn has_enough_challenges(&self) -> bool {
        self.partitions * self.challenges_per_partition >= minimum_challenges(self.sector_size, self.feature)
    }

    /// The shape of the sector's trees.
    pub const fn shape(&self) -> SectorShape {
        SectorShape::of(self.sector_size)
    }

    /// Nodes of the sector.
    pub const fn nodes(&self) -> u64 {
        self.sector_size.nodes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of proofs.md §2.4: size, base leaves, rows, discard, base tree nodes, tree-r-last, tree-c, tree-d bytes.
    #[test]
    fn shapes_agree_with_the_table() {
        let rows: [(SectorSize, u64, usize, usize, u64, u64, u64); 10] = [
            (SectorSize::KiB2, 64, 3, 1, 73, 32, 4064),
            (SectorSize::KiB4, 64, 3, 1, 73, 32, 8160),
            (SectorSize::KiB16, 64, 3, 1, 73, 32, 32736),
            (SectorSize::KiB32, 64, 3, 1, 73, 32, 65504),
            (SectorSize::MiB8, 262_144, 7, 2, 299_593, 18_720, 16_777_184),
            (SectorSize::MiB16, 262_144, 7, 2, 299_593, 18_720, 33_554_400),
            (SectorSize::MiB512, 16_777_216, 9, 2, 19_173_961, 1_198_368, 1_073_741_792),
            (SectorSize::GiB1, 16_777_216, 9, 2, 19_173_961, 1_198_368, 2_147_483_616),
            (SectorSize::GiB32, 134_217_728, 10, 2, 153_391_689, 9_586_976, 68_719_476_704),
            (SectorSize::GiB64, 134_217_728, 10, 2, 153_391_689, 9_586_976, 137_438_953_440),
        ];
        for (size, leaves, tree_rows, discard, nodes, r_last, tree_d) in rows {
            let shape = SectorShape::of(size);
            assert_eq!(shape.leaves_per_base_tree(), leaves, "{size}");
            assert_eq!(shape.rows(), tree_rows, "{size}");
            assert_eq!(shape.rows_to_discard(), discard, "{size}");
            assert_eq!(shape.base_tree_nodes(), nodes, "{size}");
            assert_eq!(shape.kept_tree_nodes() * 32, r_last, "{size}");
            assert_eq!(shape.tree_d_nodes() * 32, tree_d, "{size}");
        }
    }

    #[test]
    fn challenge_numbers_agree_with_the_table() {
        let of = |n| {
            let c = PoRepConfig::registered(RegisteredSealProof::new(n).unwrap());
            assert!(c.has_enough_challenges());
            (c.layers, c.partitions, c.challenges_per_partition)
        };
        assert_eq!(of(0), (2, 1, 2));
        assert_eq!(of(8), (11, 10, 18));
        assert_eq!(of(12), (2, 1, 2));
        assert_eq!(of(15), (2, 13, 2));
        assert_eq!(of(19), (11, 126, 18));
    }

    #[test]
    fn nonsense_is_refused() {
        let config = |v, f| PoRepConfig::custom(SectorSize::KiB2, [0; 32], v, f);
        assert!(config(ApiVersion::V1_1_0, ProofFeature::Synthetic).is_err());
        let good = config(ApiVersion::V1_2_0, ProofFeature::NonInteractive).unwrap();
        assert_eq!(good.clone().with_layers(3), Err(ConfigError::Layers(3)));
        assert_eq!(good.clone().with_layers(11).unwrap().layers, 11);
        assert_eq!(good.clone().with_challenges(256, 1), Err(ConfigError::Partitions(256)));
        assert_eq!(good.clone().with_challenges(1, 0), Err(ConfigError::Challenges(0)));
        assert!(!good.with_challenges(1, 2).unwrap().has_enough_challenges());
    }
}
