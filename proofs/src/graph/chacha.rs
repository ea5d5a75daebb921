//! The ChaCha8 stream of the base parents (proofs.md §3.2): 8 rounds, 256-bit key, counter and nonce zero.

/// The first `N` blocks of the stream of a key, as 32-bit words.
#[inline(always)]
pub(super) fn blocks<const N: usize>(key: &[u32; 8]) -> [[u32; 16]; N] {
    std::array::from_fn(|n| block(key, n as u64))
}

#[inline(always)]
fn block(key: &[u32; 8], counter: u64) -> [u32; 16] {
    let input = [
        0x6170_7865,
        0x3320_646e,
        0x7962_2d32,
        0x6b20_6574, // "expand 32-byte k"
        key[0],
        key[1],
        key[2],
        key[3],
        key[4],
        key[5],
        key[6],
        key[7],
        counter as u32,
        (counter >> 32) as u32,
        0,
        0,
    ];
    let mut s = input;
    for _ in 0..4 {
        quarter(&mut s, 0, 4, 8, 12);
        quarter(&mut s, 1, 5, 9, 13);
        quarter(&mut s, 2, 6, 10, 14);
        quarter(&mut s, 3, 7, 11, 15);
        quarter(&mut s, 0, 5, 10, 15);
        quarter(&mut s, 1, 6, 11, 12);
        quarter(&mut s, 2, 7, 8, 13);
        quarter(&mut s, 3, 4, 9, 14);
    }
    std::array::from_fn(|i| s[i].wrapping_add(input[i]))
}

#[inline(always)]
fn quarter(s: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize) {
    s[a] = s[a].wrapping_add(s[b]);
    s[d] = (s[d] ^ s[a]).rotate_left(16);
    s[c] = s[c].wrapping_add(s[d]);
    s[b] = (s[b] ^ s[c]).rotate_left(12);
    s[a] = s[a].wrapping_add(s[b]);
    s[d] = (s[d] ^ s[a]).rotate_left(8);
    s[c] = s[c].wrapping_add(s[d]);
    s[b] = (s[b] ^ s[c]).rotate_left(7);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{RngCore, SeedableRng};

    proptest! {
        #[test]
        fn is_the_stream_of_rand_chacha(seed in any::<[u8; 32]>()) {
            let (words, _) = seed.as_chunks::<4>();
            let key = std::array::from_fn(|i| u32::from_le_bytes(words[i]));
            let stream: [[u32; 16]; 3] = blocks(&key);
            let mut rng = ChaCha8Rng::from_seed(seed);
            for pair in stream.as_flattened().chunks(2) {
                prop_assert_eq!(rng.next_u64(), u64::from(pair[1]) << 32 | u64::from(pair[0]));
            }
        }
    }
}
