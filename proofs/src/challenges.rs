//! Which nodes a prover must open (proofs.md §7).
//!
//! Challenge `i` of partition `k` has the global number `j = n * k + i`, with `n` challenges per partition. Node 0 is
//! never challenged: every result is in `1..nodes`.

use primitives::{Commitment, ReplicaId, Seed};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sha2::{Digest, Sha256};

const GENERATION: &[u8] = b"filecoin.io|PoRep|1|Synthetic|1|Generation";
const SELECTION: &[u8] = b"filecoin.io|PoRep|1|Synthetic|1|Selection";
const NON_INTERACTIVE: &[u8] = b"filecoin.io|PoRep|1|NonInteractive|1";
/// The cipher's nonce: 11 ASCII bytes and a zero.
const NONCE: &[u8; 12] = b"synth-porep\0";
/// The largest synthetic set.
const SYNTHETIC_SET: u64 = 1 << 18;

/// Reduces 32 bytes, a little-endian integer, to `1..nodes`.
///
/// # Panics
/// If `nodes < 2`: there is no node to challenge.
fn reduce(bytes: &[u8; 32], nodes: u64) -> u64 {
    let modulus = u128::from(nodes - 1);
    let rest = bytes.iter().rev().fold(0u128, |rest, &byte| (rest << 8 | u128::from(byte)) % modulus);
    u64::try_from(rest).expect("less than the modulus") + 1
}

/// Challenge number `j` of an interactive proof (§7.1). The digest is not truncated.
pub fn interactive(nodes: u64, replica_id: &ReplicaId, seed: &Seed, j: u32) -> u64 {
    let digest = Sha256::new().chain_update(replica_id.0).chain_update(seed.0).chain_update(j.to_le_bytes());
    reduce(&digest.finalize().into(), nodes)
}

/// Challenge number `j` of a non-interactive proof (§7.3).
pub fn non_interactive(nodes: u64, replica_id: &ReplicaId, comm_r: &Commitment, j: u32) -> u64 {
    let digest = Sha256::new()
        .chain_update(NON_INTERACTIVE)
        .chain_update(replica_id.0)
        .chain_update(comm_r.0)
        .chain_update(j.to_le_bytes());
    reduce(&digest.finalize().into(), nodes)
}

/// A key stream in the IETF layout (32-bit counter, 96-bit nonce), which the generator with its 64-bit counter and
/// 64-bit stream number gives when the nonce's first word is the counter's upper half.
struct KeyStream(ChaCha20Rng);

impl KeyStream {
    fn new(domain: &[u8], a: &[u8; 32], b: &[u8; 32]) -> Self {
        let key =
            blake2b_simd::Params::new().hash_length(32).key(domain).to_state().update(a).update(b).finalize();
        let key: [u8; 32] = key.as_bytes().try_into().expect("a digest of 32 bytes");
        let mut rng = ChaCha20Rng::from_seed(key);
        let [.., a, b, c, d, e, f, g, h] = *NONCE;
        rng.set_stream(u64::from_le_bytes([a, b, c, d, e, f, g, h]));
        Self(rng)
    }

    /// Bytes `N * index ..` of the stream; `N` is a multiple of 4.
    fn at<const N: usize>(&mut self, index: u64) -> [u8; N] {
        let [a, b, c, d, ..] = *NONCE;
        let first_block = u128::from(u32::from_le_bytes([a, b, c, d])) << 32;
        self.0.set_word_pos(first_block * 16 + u128::from(index) * (N as u128 / 4));
        let mut out = [0; N];
        self.0.fill_bytes(&mut out);
        out
    }
}

/// The challenges a synthetic proof may be asked for, fixed by CommR (§7.2).
pub struct SyntheticSet {
    nodes: u64,
    len: u64,
    replica_id: ReplicaId,
    stream: KeyStream,
}

impl SyntheticSet {
    /// The set of a replica: `min(nodes, 2^18)` challenges.
    pub fn new(nodes: u64, replica_id: &ReplicaId, comm_r: &Commitment) -> Self {
        let stream = KeyStream::new(GENERATION, &replica_id.0, &comm_r.0);
        Self { nodes, len: nodes.min(SYNTHETIC_SET), replica_id: *replica_id, stream }
    }

    /// How many challenges there are; some may be equal.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Challenge `index` of the set.
    pub fn get(&mut self, index: u64) -> u64 {
        reduce(&self.stream.at(index), self.nodes)
    }

    /// The place in the set that `seed` picks for challenge number `j`.
    pub fn pick(&self, seed: &Seed, j: u32) -> u64 {
        let mut stream = KeyStream::new(SELECTION, &self.replica_id.0, &seed.0);
        u64::from(u32::from_le_bytes(stream.at(u64::from(j)))) % self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hex32(text: &str) -> [u8; 32] {
        let mut out = [0; 32];
        hex::decode_to_slice(text, &mut out).unwrap();
        out
    }

    /// Nodes, replica id, CommR, interactive and non-interactive challenges.
    type Block = (u64, &'static str, &'static str, [u64; 2], [u64; 4]);

    /// The last line of each block of proofs.md §14.3.
    #[rustfmt::skip]
    const BLOCKS: [Block; 6] = [
        (64, "833e3d0ec6313d5110118382a53eadc8851b3bdc3c64d9d0a9515f36d630ee22",
         "5b25c87c9893927d5e7fe75707fc77fd700b9c0c732851dea4da8a7822fca340", [41, 50], [10, 2, 58, 24]),
        (64, "3e75e87332cd5d60132c1f9f9a8362e2e4cf190b46f4fd636fd8864b842d170b",
         "77424390b36f74acd595c40d0e341f4fbff18623feaf8ad72fe73d7490d0d65c", [28, 27], [63, 37, 49, 57]),
        (64, "71b3b9d0eb15ebb9bd1173744c6ec39316d185acc7185f85b791771871698d15",
         "7777d59842a6fc61a8476774ceef63700462235c27a7952652e915fa8207d032", [6, 33], [19, 55, 41, 58]),
        (128, "a19059ad39d5d606728463ae44097392ea80a528405f2243def83ba078bd3934",
         "3404db924e553daad20d3fbeac2c943cc32cc069eefc6fc5b68eac835b436415", [66, 118], [42, 121, 123, 47]),
        (512, "f760536277b9baf3569561f1eb6c9f7f307b111c752b2f5e6d5bdc055cf0860d",
         "617a6a17b9ec115995bf5000051beecd93d59cba6851c0992a2c539156ca8f0d", [426, 264], [73, 353, 109, 418]),
        (1024, "7998372300d6a0a4ff6a1dd36fced4baab612153bfd862900727558416bef13f",
         "0d90ec1fef43ccc527e3d9068d02b6e1d3b1de4c4b06bf59bbf82f63fdad4c26", [644, 296], [177, 822, 417, 573]),
    ];

    #[test]
    fn interactive_and_non_interactive_known_answers() {
        let seed = Seed([2; 32]);
        for (nodes, id, comm_r, expected, expected_ni) in BLOCKS {
            let (id, comm_r) = (ReplicaId(hex32(id)), Commitment(hex32(comm_r)));
            let got: Vec<u64> = (0..2).map(|j| interactive(nodes, &id, &seed, j)).collect();
            assert_eq!(got, expected, "{nodes} nodes");
            let got: Vec<u64> = (0..4).map(|j| non_interactive(nodes, &id, &comm_r, j)).collect();
            assert_eq!(got, expected_ni, "{nodes} nodes, non-interactive");
        }
    }

    #[test]
    fn synthetic_known_answers() {
        // proofs.md §7.2.
        let fr = |n: u8| {
            let mut bytes = [0; 32];
            bytes[0] = n;
            bytes
        };
        let mut set = SyntheticSet::new(1024, &ReplicaId(fr(55)), &Commitment(fr(101)));
        assert_eq!(set.len(), 1024);
        let all: Vec<u64> = (0..21).map(|i| set.get(i)).collect();
        assert_eq!(
            all,
            [
                178, 297, 869, 211, 875, 477, 94, 781, 124, 332, 856, 801, 176, 692, 429, 691, 290, 204, 986,
                210, 973
            ]
        );
        // The vector's picks are from a set of 21.
        set.len = 21;
        let picks: Vec<u64> = (0..10)
            .map(|j| {
                let index = set.pick(&Seed([1; 32]), j);
                set.get(index)
            })
            .collect();
        assert_eq!(picks, [176, 781, 801, 986, 290, 211, 692, 856, 986, 332]);
    }

    proptest! {
        #[test]
        fn node_0_is_never_challenged(id: [u8; 32], other: [u8; 32], j: u32, nodes in 2u64..1 << 31) {
            let mut set = SyntheticSet::new(nodes, &ReplicaId(id), &Commitment(other));
            let index = set.pick(&Seed(other), j);
            for c in [
                interactive(nodes, &ReplicaId(id), &Seed(other), j),
                non_interactive(nodes, &ReplicaId(id), &Commitment(other), j),
                set.get(index),
            ] {
                prop_assert!((1..nodes).contains(&c));
            }
        }

        #[test]
        fn reduction_is_that_of_the_integer(low: u128, nodes in 2u64..1 << 40) {
            let mut bytes = [0; 32];
            bytes[..16].copy_from_slice(&low.to_le_bytes());
            prop_assert_eq!(u128::from(reduce(&bytes, nodes)), low % u128::from(nodes - 1) + 1);
        }
    }
}
