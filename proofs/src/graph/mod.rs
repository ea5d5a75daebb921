//! The stacked depth-robust graph (proofs.md §3): which labels a label is made of.

pub(crate) mod cache;
mod chacha;
mod feistel;
#[allow(unsafe_code)]
mod map;

pub use cache::{CACHE_DIR_VARIABLE, DEFAULT_CACHE_DIR, Origin, Parents, cache_dir, published_digest};

use crate::params::{BASE_DEGREE, DEGREE, EXPANDER_DEGREE, PoRepConfig};
use feistel::Feistel;
use primitives::ApiVersion;
use sha2::Digest;

/// The parents of a node: six base parents, then eight expander parents (proofs.md §3.4).
pub type ParentList = [u32; DEGREE];

/// The graph of a sector; the same on every layer.
#[derive(Debug, Clone)]
pub struct Graph {
    nodes: u64,
    api_version: ApiVersion,
    drg_seed: [u32; 7],
    keys: [u64; 4],
    feistel: Feistel,
}

impl Graph {
    /// The most nodes a graph can have: those of 64 GiB.
    pub const MAX_NODES: u64 = 1 << 31;

    /// The graph over `nodes` nodes. Tabulates the expander's round function, which takes milliseconds for small sectors
    /// and about 0.1 s for 32 GiB.
    ///
    /// # Panics
    /// If `nodes` is not a power of two from 2 to [`Graph::MAX_NODES`]; every sector size has such a number.
    pub fn new(nodes: u64, porep_id: &[u8; 32], api_version: ApiVersion) -> Self {
        assert!(nodes.is_power_of_two() && (2..=Self::MAX_NODES).contains(&nodes), "{nodes} nodes");
        let seed = seed_of("Filecoin_DRSample", porep_id);
        let (seed_words, _) = seed.as_chunks::<4>();
        let drg_seed = std::array::from_fn(|i| u32::from_le_bytes(seed_words[i]));
        let seed = seed_of("Filecoin_Feistel", porep_id);
        let (key_words, _) = seed.as_chunks::<8>();
        let keys: [u64; 4] = std::array::from_fn(|i| u64::from_le_bytes(key_words[i]));
        let feistel = Feistel::new(EXPANDER_DEGREE as u64 * nodes, [keys[0], keys[1], keys[2]]);
        Self { nodes, api_version, drg_seed, keys, feistel }
    }

    /// The graph of a PoRep.
    pub fn of(config: &PoRepConfig) -> Self {
        Self::new(config.nodes(), &config.porep_id, config.api_version)
    }

    /// Whether this is the graph of `config`.
    pub fn is_of(&self, config: &PoRepConfig) -> bool {
        let seed = seed_of("Filecoin_DRSample", &config.porep_id);
        let (words, _) = seed.as_chunks::<4>();
        // Versions 1.1.0 and 1.2.0 have the same graph.
        let legacy = |version| version == ApiVersion::V1_0_0;
        self.nodes == config.nodes()
            && legacy(self.api_version) == legacy(config.api_version)
            && self.drg_seed.iter().zip(words).all(|(seed, word)| *seed == u32::from_le_bytes(*word))
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// All parents of node `v` (proofs.md §3.4).
    ///
    /// # Panics
    /// May panic if `v` is not a node of the graph.
    #[inline]
    pub fn parents(&self, v: u32) -> ParentList {
        let mut out = [0; DEGREE];
        self.base_parents(v, &mut out);
        for i in 0..EXPANDER_DEGREE {
            let mut y = self.feistel.permute(EXPANDER_DEGREE as u64 * u64::from(v) + i as u64);
            if self.api_version == ApiVersion::V1_0_0 {
                // The first version cut the index to 32 bits (proofs.md §13, trap 6).
                y &= 0xffff_ffff;
            }
            out[BASE_DEGREE + i] = (y / EXPANDER_DEGREE as u64) as u32;
        }
        out
    }

    /// The six parents within the layer, into the front of `out` (proofs.md §3.2).
    #[inline(always)]
    fn base_parents(&self, v: u32, out: &mut ParentList) {
        if v < 2 {
            return;
        }
        const DRAWS: u64 = BASE_DEGREE as u64 - 1;
        let mut key = [0u32; 8];
        key[..7].copy_from_slice(&self.drg_seed);
        key[7] = v;
        let stream: [[u32; 16]; 2] = chacha::blocks(&key);
        let words = stream.as_flattened();
        let draw = |i: usize| u64::from(words[2 * i]) | u64::from(words[2 * i + 1]) << 32;
        let metagraph = DRAWS * u64::from(v);
        let buckets = u64::from(64 - (metagraph - 1).leading_zeros());
        let (predecessor, first) = match self.api_version {
            ApiVersion::V1_0_0 => (BASE_DEGREE - 1, 0),
            ApiVersion::V1_1_0 | ApiVersion::V1_2_0 => (0, 1),
        };
        for i in 0..DRAWS as usize {
            let bucket = draw(2 * i) % buckets + 1;
            let high = metagraph.min(1 << bucket);
            let low = (high / 2).max(2);
            let distance = low + draw(2 * i + 1) % (high - low + 1);
            let parent = ((metagraph - distance) / DRAWS) as u32;
            // No edge from a node to itself.
            out[first + i] = if parent == v { v - 1 } else { parent };
        }
        out[predecessor] = v - 1;
    }

    /// The one-line text that names the graph in identifiers (proofs.md §3.5).
    pub fn identity(&self) -> String {
        format!(
            "stacked_graph::StackedGraph{{expansion_degree: 8 base_graph: drgraph::BucketGraph{{size: {}; degree: 6; \
             hasher: poseidon_hasher}} }}",
            self.nodes
        )
    }

    /// The id in the name of the parents cache file, in hex (proofs.md §3.5).
    pub fn cache_id(&self) -> String {
        let mut hash = sha2::Sha256::new();
        hash.update("poseidon_hasher");
        hash.update(self.identity());
        for key in self.keys {
            hash.update(key.to_le_bytes());
        }
        // The largest graph has 2^31 nodes.
        hash.update((self.nodes as u32).to_le_bytes());
        hex::encode(hash.finalize())
    }
}

fn seed_of(tag: &str, porep_id: &[u8; 32]) -> [u8; 32] {
    let mut hash = sha2::Sha256::new();
    hash.update(tag);
    hash.update(porep_id);
    hash.finalize().into()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use primitives::RegisteredSealProof;

    pub(crate) fn registered(number: u64) -> Graph {
        Graph::of(&PoRepConfig::registered(RegisteredSealProof::new(number).unwrap()))
    }

    /// proofs.md §14.1.
    #[test]
    fn parents_of_single_nodes() {
        let v0 = registered(0);
        assert_eq!(v0.keys, [0x8fb5fa185a23bce6, 0xd567abafe374f26e, 0xa2f3f4da23359acc, 0xcbf4931c8d02e1a5]);
        assert_eq!(v0.parents(0)[..6], [0; 6]);
        assert_eq!(v0.parents(1)[..6], [0; 6]);
        assert_eq!(v0.parents(2), [0, 1, 1, 1, 1, 1, 32, 49, 26, 57, 3, 4, 47, 63]);
        assert_eq!(v0.parents(63), [62, 61, 56, 62, 37, 62, 49, 37, 35, 41, 52, 50, 54, 5]);
        let v1 = registered(5);
        assert_eq!(v1.parents(2), [1, 1, 1, 0, 1, 0, 30, 28, 55, 63, 63, 36, 37, 36]);
        assert_eq!(v1.parents(63), [62, 15, 42, 62, 61, 62, 0, 15, 30, 30, 28, 42, 49, 38]);
        assert_eq!(
            registered(3).parents(1000),
            [
                992, 999, 685, 999, 851, 999, 56765109, 142792959, 55421737, 123123914, 7049045, 479267348,
                532767812, 301615063
            ]
        );
        let large = registered(8);
        assert_eq!(
            large.parents(1000),
            [
                999, 999, 993, 999, 987, 994, 610880257, 52958456, 114467229, 442886740, 935021104,
                986163808, 486080124, 611062435
            ]
        );
        assert_eq!(
            large.parents((1 << 30) - 1),
            [
                1073741822, 1073258530, 440642413, 663190843, 1073741654, 1073741786, 307718517, 715446084,
                558280128, 265147410, 110937796, 626719228, 201839602, 653041812
            ]
        );
        assert_eq!(
            registered(9).parents(u32::MAX >> 1),
            [
                2147483646, 2147483645, 2147473607, 2147483646, 2147483609, 1322413322, 319537050, 259923117,
                180788485, 1838730986, 786079656, 319786570, 1561782586, 1183784015
            ]
        );
    }

    /// All ten ids of proofs.md §3.5, and that each has a published digest.
    #[test]
    fn cache_ids() {
        for (number, id) in [
            (0, "3f0eef38bb48af1f48ad65e14eb85b4ebfc167cec18cd81764f6d998836c9899"),
            (5, "494d91dc80f2df5272c4b9e129bc7ade9405225993af9fe34e6542a39a47554b"),
            (1, "dcdabb0fbe4364bf0ac28b6a18c66de246409fa1a9020a00f33fb3e3053da6dc"),
            (6, "5eed212119fd91aa6220a27f31a8966444a9381842bceb3a1ea61525bd47a5b5"),
            (2, "2aa9c77c3e58259481351cc4be2079cc71e1c9af39700866545c043bfa30fb42"),
            (7, "7ba215a1d2345774ab90b8cb1158d296e409d6068819d7b8c7baf0b25d63dc34"),
            (3, "e1fa5d5b811ddbd118be3412c4a8c329156b8b8acc72632bca459455b5a05a13"),
            (8, "21981246c370f9d76c7a77ab273d94bde0ceb4e938292334960bce05585dc117"),
            (4, "8a99e8d6b6be7ab87a56b632e6739ff201c23ea14e99737c74690f0e265574d6"),
            (9, "4905486b7af19558ac3649bc6261411858b6add534438878c4ee3b29d8b9de0b"),
        ] {
            let graph = registered(number);
            assert_eq!(graph.cache_id(), id, "proof {number}");
            assert!(published_digest(id).is_some());
        }
        assert_eq!(published_digest(&registered(10).cache_id()), None);
    }
}
