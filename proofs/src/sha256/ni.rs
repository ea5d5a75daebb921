//! SHA-256 with the SHA extensions of x86-64.
//!
//! Unsafe code: calls of functions that need instruction sets, which a [`Token`] proves present; and unaligned loads
//! and stores through references to arrays of exactly the loaded size.

use super::label::{LABEL_PADDING, Midstate};
use super::{Block, INITIAL, PADDING_64};
use crate::Node;
use std::arch::x86_64::*;

const K: [[u32; 4]; 16] = [
    [0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5],
    [0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5],
    [0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3],
    [0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174],
    [0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc],
    [0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da],
    [0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7],
    [0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967],
    [0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13],
    [0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85],
    [0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3],
    [0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070],
    [0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5],
    [0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3],
    [0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208],
    [0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2],
];

/// The constants plus the message schedule of the block after a 64-byte message, which is always the same.
const K_PADDING: [[u32; 4]; 16] = {
    let mut w = [0u32; 64];
    w[0] = 0x8000_0000;
    w[15] = 512;
    let mut i = 16;
    while i < 64 {
        let s0 = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ (w[i - 15] >> 3);
        let s1 = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1);
        i += 1;
    }
    let mut k = K;
    let mut i = 0;
    while i < 64 {
        k[i / 4][i % 4] = k[i / 4][i % 4].wrapping_add(w[i]);
        i += 1;
    }
    k
};
const _: () = assert!(PADDING_64[0] == 0x80 && PADDING_64[62] == 2, "K_PADDING belongs to this block");

/// Proof that the processor has the instructions: made by [`Token::detect`] only.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token(());

impl Token {
    #[inline]
    pub(super) fn detect() -> Option<Token> {
        // The answer is cached by the standard library; this is one load.
        (is_x86_feature_detected!("sha")
            && is_x86_feature_detected!("sse4.1")
            && is_x86_feature_detected!("ssse3"))
        .then_some(Token(()))
    }

    #[inline]
    pub(super) fn compress(self, state: &mut [u32; 8], blocks: &[Block]) {
        // SAFETY: the token exists, so the processor has the instructions.
        unsafe { compress(state, blocks) }
    }

    #[inline]
    pub(super) fn nodes(self, children: &[Node], out: &mut [Node]) {
        // SAFETY: the token exists, so the processor has the instructions.
        unsafe { nodes(children, out) }
    }

    #[inline]
    pub(super) fn label<const P: usize>(
        self,
        midstate: &Midstate,
        parents: [&Node; P],
        next_prefix: &Block,
    ) -> (Node, Midstate) {
        // SAFETY: the token exists, so the processor has the instructions.
        unsafe { label(midstate, parents, next_prefix) }
    }
}

/// The state in the order the instructions want: words A B E F and C D G H, high lane first.
#[derive(Clone, Copy)]
struct State {
    abef: __m128i,
    cdgh: __m128i,
}

#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn load_state(state: &[u32; 8]) -> State {
    let s = |i: usize| state[i] as i32;
    State { abef: _mm_set_epi32(s(0), s(1), s(4), s(5)), cdgh: _mm_set_epi32(s(2), s(3), s(6), s(7)) }
}

#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn words(state: State) -> [u32; 8] {
    let lane = |v: __m128i| -> [u32; 4] {
        [
            _mm_extract_epi32::<3>(v) as u32,
            _mm_extract_epi32::<2>(v) as u32,
            _mm_extract_epi32::<1>(v) as u32,
            _mm_extract_epi32::<0>(v) as u32,
        ]
    };
    let ([a, b, e, f], [c, d, g, h]) = (lane(state.abef), lane(state.cdgh));
    [a, b, c, d, e, f, g, h]
}

/// The truncated digest (proofs.md §0).
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn truncated(state: State) -> Node {
    // Back to D C B A and H G F E, low lane first A, then bytes to big-endian.
    let feba = _mm_shuffle_epi32::<0x1b>(state.abef); // lanes low to high: A B E F
    let dchg = _mm_shuffle_epi32::<0x1b>(state.cdgh); // C D G H
    let abcd = _mm_unpacklo_epi64(feba, dchg);
    let efgh = _mm_unpackhi_epi64(feba, dchg);
    let swap = byte_swap();
    let mut out = [0u8; 32];
    // SAFETY: `out` has 32 bytes, of which the two stores write bytes 0..16 and 16..32.
    unsafe {
        let at = out.as_mut_ptr().cast::<__m128i>();
        _mm_storeu_si128(at, _mm_shuffle_epi8(abcd, swap));
        let mask = _mm_set_epi32(0x3fff_ffff, -1, -1, -1);
        _mm_storeu_si128(at.add(1), _mm_and_si128(_mm_shuffle_epi8(efgh, swap), mask));
    }
    out
}

#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn byte_swap() -> __m128i {
    _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203)
}

/// A node as message words.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn load_node(node: &Node) -> [__m128i; 2] {
    // SAFETY: `node` has 32 bytes, of which the two loads read bytes 0..16 and 16..32.
    let (low, high) = unsafe {
        let at = node.as_ptr().cast::<__m128i>();
        (_mm_loadu_si128(at), _mm_loadu_si128(at.add(1)))
    };
    [_mm_shuffle_epi8(low, byte_swap()), _mm_shuffle_epi8(high, byte_swap())]
}

#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn load_block(block: &Block) -> [__m128i; 4] {
    let (halves, _) = block.as_chunks::<32>();
    let ([a, b], [c, d]) = (load_node(&halves[0]), load_node(&halves[1]));
    [a, b, c, d]
}

#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn constants(k: &[u32; 4]) -> __m128i {
    _mm_set_epi32(k[3] as i32, k[2] as i32, k[1] as i32, k[0] as i32)
}

/// Four rounds with the sums of message words and constants in `wk`.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn rounds_4(s: State, wk: __m128i) -> State {
    let cdgh = _mm_sha256rnds2_epu32(s.cdgh, s.abef, wk);
    let abef = _mm_sha256rnds2_epu32(s.abef, cdgh, _mm_shuffle_epi32::<0x0e>(wk));
    State { abef, cdgh }
}

#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn add(a: State, b: State) -> State {
    State { abef: _mm_add_epi32(a.abef, b.abef), cdgh: _mm_add_epi32(a.cdgh, b.cdgh) }
}

/// The next four message words from the sixteen before.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn schedule(w: &[__m128i; 4]) -> __m128i {
    let sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[0], w[1]), _mm_alignr_epi8::<4>(w[3], w[2]));
    _mm_sha256msg2_epu32(sum, w[3])
}

/// One block in each of `N` independent streams. A single stream waits for each round's result; two fill the gaps.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn compress_block<const N: usize>(states: [State; N], mut w: [[__m128i; 4]; N]) -> [State; N] {
    let mut s = states;
    for (i, k) in K.iter().enumerate() {
        let k = constants(k);
        for n in 0..N {
            if i >= 4 {
                let next = schedule(&w[n]);
                w[n] = [w[n][1], w[n][2], w[n][3], next];
                s[n] = rounds_4(s[n], _mm_add_epi32(next, k));
            } else {
                s[n] = rounds_4(s[n], _mm_add_epi32(w[n][i], k));
            }
        }
    }
    for n in 0..N {
        s[n] = add(s[n], states[n]);
    }
    s
}

#[target_feature(enable = "sha,sse4.1,ssse3")]
fn compress(state: &mut [u32; 8], blocks: &[Block]) {
    let mut s = load_state(state);
    for block in blocks {
        [s] = compress_block([s], [load_block(block)]);
    }
    *state = words(s);
}

#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn hash_nodes<const N: usize>(children: &[[Node; 2]; N]) -> [Node; N] {
    let initial = load_state(&INITIAL);
    let mut s = compress_block(
        [initial; N],
        std::array::from_fn(|n| {
            let ([a, b], [c, d]) = (load_node(&children[n][0]), load_node(&children[n][1]));
            [a, b, c, d]
        }),
    );
    let middle = s;
    for k in &K_PADDING {
        for s in &mut s {
            *s = rounds_4(*s, constants(k));
        }
    }
    std::array::from_fn(|n| truncated(add(s[n], middle[n])))
}

#[target_feature(enable = "sha,sse4.1,ssse3")]
fn nodes(children: &[Node], out: &mut [Node]) {
    let (pairs, _) = children.as_chunks::<2>();
    let (pairs, odd) = pairs.as_chunks::<2>();
    let (outs, odd_out) = out.as_chunks_mut::<2>();
    for (pair, out) in pairs.iter().zip(outs) {
        *out = hash_nodes(pair);
    }
    if let ([pair], [out]) = (odd, odd_out) {
        [*out] = hash_nodes(&[*pair]);
    }
}

#[target_feature(enable = "sha,sse4.1,ssse3")]
fn label<const P: usize>(midstate: &Midstate, parents: [&Node; P], next_prefix: &Block) -> (Node, Midstate) {
    let mut s = load_state(&midstate.0);
    // The list of parents has even length, so the blocks of one round over it are whole pairs.
    let pair = |i: usize| -> [__m128i; 4] {
        let ([a, b], [c, d]) = (load_node(parents[2 * i % P]), load_node(parents[(2 * i + 1) % P]));
        [a, b, c, d]
    };
    for i in 0..18 {
        [s] = compress_block([s], [pair(i)]);
    }
    let ([a, b], [c, d]) = (load_node(parents[36 % P]), load_node(&LABEL_PADDING));
    // The next node's prefix depends on nothing here: it costs almost nothing beside the last block.
    let [s, next] = compress_block([s, load_state(&INITIAL)], [[a, b, c, d], load_block(next_prefix)]);
    (truncated(s), Midstate(words(next)))
}
