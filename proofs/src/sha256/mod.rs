//! SHA-256 as the proofs use it: hashes of two nodes for tree-D (proofs.md §1.4), and the bare compression for labels.
//!
//! Processors with SHA instructions are used when the program runs on one; otherwise the portable code of the `sha2`
//! crate. Both are tested equal.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod ni;

use crate::Node;
use sha2::Digest;

/// The state before the first block.
pub const INITIAL: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// A message block.
pub type Block = [u8; 64];

/// The block after a 64-byte message: padding and the length of 512 bits.
const PADDING_64: Block = {
    let mut block = [0u8; 64];
    block[0] = 0x80;
    block[62] = 0x02;
    block
};

/// Which implementation runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// x86-64 SHA extensions, in this crate.
    ShaNi,
    /// The `sha2` crate, which has instruction sets of its own to choose from.
    Portable,
}

impl Backend {
    /// The best one of this processor.
    #[inline]
    pub fn detect() -> Backend {
        #[cfg(target_arch = "x86_64")]
        if ni::Token::detect().is_some() {
            return Backend::ShaNi;
        }
        Backend::Portable
    }
}

/// Compresses whole blocks into the state, without padding.
pub fn compress(state: &mut [u32; 8], blocks: &[Block]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = ni::Token::detect() {
        return token.compress(state, blocks);
    }
    sha2::block_api::compress256(state, blocks);
}

/// The state as a digest.
#[inline]
pub fn state_bytes(state: &[u32; 8]) -> Node {
    let mut out = [0u8; 32];
    let (words, _) = out.as_chunks_mut::<4>();
    for (word, s) in words.iter_mut().zip(state) {
        *word = s.to_be_bytes();
    }
    out
}

/// SHA-256 of any message.
pub fn digest(message: &[u8]) -> Node {
    sha2::Sha256::digest(message).into()
}

/// Clears the two top bits of the little-endian integer, so that it is a field element (proofs.md §0).
#[inline]
pub fn truncate(mut digest: Node) -> Node {
    digest[31] &= 0x3f;
    digest
}

/// `H_D(left, right) = trunc(SHA256(left || right))` (proofs.md §1.4).
pub fn node(left: &Node, right: &Node) -> Node {
    let mut out = [[0u8; 32]];
    nodes(&[*left, *right], &mut out);
    out[0]
}

/// One level of tree-D: `out[i] = H_D(children[2i], children[2i + 1])`. On the calling thread.
///
/// # Panics
/// If `children` is not twice as long as `out`.
pub fn nodes(children: &[Node], out: &mut [Node]) {
    assert_eq!(children.len(), 2 * out.len(), "two children for each node");
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = ni::Token::detect() {
        return token.nodes(children, out);
    }
    nodes_portable(children, out);
}

fn nodes_portable(children: &[Node], out: &mut [Node]) {
    let (pairs, _) = children.as_chunks::<2>();
    for (pair, out) in pairs.iter().zip(out) {
        let mut blocks = [[0u8; 64], PADDING_64];
        blocks[0].copy_from_slice(pair.as_flattened());
        let mut state = INITIAL;
        sha2::block_api::compress256(&mut state, &blocks);
        *out = truncate(state_bytes(&state));
    }
}

/// The labels' message: a prefix block and 37 parent labels, 1248 bytes (proofs.md §4.2).
pub(crate) mod label {
    use super::{Backend, Block, INITIAL, state_bytes, truncate};
    use crate::Node;

    /// The second half of the last block: padding and the length of 9984 bits.
    pub(super) const LABEL_PADDING: Node = {
        let mut half = [0u8; 32];
        half[0] = 0x80;
        half[30] = 0x27;
        half
    };

    /// The state after the prefix block.
    #[derive(Clone, Copy)]
    pub(crate) struct Midstate(pub(super) [u32; 8]);

    /// Hashes labels with one implementation, chosen once.
    #[derive(Clone, Copy)]
    pub(crate) struct LabelHasher {
        #[cfg(target_arch = "x86_64")]
        ni: Option<super::ni::Token>,
    }

    impl LabelHasher {
        pub(crate) fn new(backend: Backend) -> Self {
            #[cfg(not(target_arch = "x86_64"))]
            let _ = backend;
            Self {
                #[cfg(target_arch = "x86_64")]
                ni: super::ni::Token::detect().filter(|_| backend == Backend::ShaNi),
            }
        }

        /// The state after the prefix block.
        pub(crate) fn prefix(&self, prefix: &Block) -> Midstate {
            let mut state = INITIAL;
            #[cfg(target_arch = "x86_64")]
            if let Some(token) = self.ni {
                token.compress(&mut state, std::slice::from_ref(prefix));
                return Midstate(state);
            }
            sha2::block_api::compress256(&mut state, std::slice::from_ref(prefix));
            Midstate(state)
        }

        /// The label from the midstate of its prefix and its parents, which are repeated in order to make 37
        /// (proofs.md §4.2); also the midstate of the next node's prefix, computed beside it.
        ///
        /// `P` is 6 on layer 1 and 14 above.
        #[inline]
        pub(crate) fn label<const P: usize>(
            &self,
            midstate: &Midstate,
            parents: [&Node; P],
            next_prefix: &Block,
        ) -> (Node, Midstate) {
            const { assert!(P == 6 || P == 14) };
            #[cfg(target_arch = "x86_64")]
            if let Some(token) = self.ni {
                return token.label(midstate, parents, next_prefix);
            }
            (label_portable(midstate, parents), self.prefix(next_prefix))
        }
    }

    fn label_portable<const P: usize>(midstate: &Midstate, parents: [&Node; P]) -> Node {
        let mut blocks = [[0u8; 64]; 19];
        let (halves, _) = blocks.as_flattened_mut().as_chunks_mut::<32>();
        for (j, half) in halves.iter_mut().enumerate() {
            *half = if j < 37 { *parents[j % P] } else { LABEL_PADDING };
        }
        let mut state = midstate.0;
        sha2::block_api::compress256(&mut state, &blocks);
        truncate(state_bytes(&state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use label::LabelHasher;
    use proptest::prelude::*;

    /// proofs.md §1.6.
    #[test]
    fn zero_nodes() {
        let one = node(&[0; 32], &[0; 32]);
        assert_eq!(hex::encode(one), "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb0b");
        assert_eq!(
            hex::encode(node(&one, &one)),
            "3731bb99ac689f66eef5973e4a94da188f4ddcae580724fc6f3fd60dfd488333"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn compression_is_sha256(message in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut padded = message.clone();
            padded.push(0x80);
            while padded.len() % 64 != 56 {
                padded.push(0);
            }
            padded.extend_from_slice(&(message.len() as u64 * 8).to_be_bytes());
            let mut state = INITIAL;
            compress(&mut state, padded.as_chunks().0);
            prop_assert_eq!(state_bytes(&state), digest(&message));
        }

        #[test]
        fn nodes_are_truncated_digests(children in proptest::collection::vec(any::<Node>(), 0..20)) {
            let even = children.len() & !1;
            let mut out = vec![[0u8; 32]; even / 2];
            nodes(&children[..even], &mut out);
            let mut portable = out.clone();
            nodes_portable(&children[..even], &mut portable);
            prop_assert_eq!(&out, &portable);
            for (pair, out) in children.chunks_exact(2).zip(&out) {
                prop_assert_eq!(truncate(digest(pair.as_flattened())), *out);
            }
        }

        #[test]
        fn labels_are_truncated_digests(
            prefix in any::<[Node; 2]>(), next in any::<[Node; 2]>(), parents in any::<[Node; 14]>(),
        ) {
            let block = |halves: [Node; 2]| -> Block { halves.as_flattened().try_into().unwrap() };
            let (prefix, next) = (block(prefix), block(next));
            for backend in [Backend::detect(), Backend::Portable] {
                let hasher = LabelHasher::new(backend);
                let midstate = hasher.prefix(&prefix);
                for count in [6, 14] {
                    let mut message = prefix.to_vec();
                    (0..37).for_each(|j| message.extend_from_slice(&parents[j % count]));
                    let (label, after) = if count == 6 {
                        hasher.label::<6>(&midstate, std::array::from_fn(|i| &parents[i]), &next)
                    } else {
                        hasher.label::<14>(&midstate, std::array::from_fn(|i| &parents[i]), &next)
                    };
                    prop_assert_eq!(label, truncate(digest(&message)));
                    prop_assert_eq!(after.0, hasher.prefix(&next).0);
                }
            }
        }
    }
}
