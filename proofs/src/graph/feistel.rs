//! The keyed permutation of the expander (proofs.md §3.3): three Feistel rounds and cycle walking.

/// A permutation of `0..modulus`.
///
/// The round function is a BLAKE2b-512 of half an index and a key; it has only `2^h` inputs under three fixed keys, so it
/// is tabulated: `3 * 2^h` hashes replace 24 or 48 of them for each node.
#[derive(Debug, Clone)]
pub(super) struct Feistel {
    modulus: u64,
    half_bits: u32,
    /// `F(R, K_0), F(R, K_1), F(R, K_2)` one after the other.
    tables: Box<[u32]>,
}

impl Feistel {
    /// `modulus` is 8 times the number of nodes, at most `2^34`.
    pub(super) fn new(modulus: u64, keys: [u64; 3]) -> Self {
        use rayon::prelude::*;
        let mut half_bits = 1;
        while 1u128 << (2 * half_bits) < u128::from(modulus) {
            half_bits += 1;
        }
        let size = 1usize << half_bits;
        let tables = (0..3 * size)
            .into_par_iter()
            .with_min_len(1024)
            .map(|i| round_function((i % size) as u64, keys[i / size], size as u64 - 1) as u32)
            .collect();
        Self { modulus, half_bits, tables }
    }

    #[inline(always)]
    fn network(&self, x: u64) -> u64 {
        let size = 1usize << self.half_bits;
        let mask = size - 1;
        let (mut left, mut right) = ((x >> self.half_bits) as usize, x as usize & mask);
        for table in self.tables.chunks_exact(size) {
            (left, right) = (right, left ^ table[right & mask] as usize);
        }
        (left as u64) << self.half_bits | right as u64
    }

    /// The image of `x < modulus`.
    #[inline(always)]
    pub(super) fn permute(&self, x: u64) -> u64 {
        let mut y = self.network(x);
        while y >= self.modulus {
            y = self.network(y);
        }
        y
    }
}

/// The first eight bytes, big-endian, of BLAKE2b-512(BE64(right) || BE64(key)), masked.
fn round_function(right: u64, key: u64, mask: u64) -> u64 {
    let mut message = [0u8; 16];
    message[..8].copy_from_slice(&right.to_be_bytes());
    message[8..].copy_from_slice(&key.to_be_bytes());
    let hash = blake2b_simd::blake2b(&message);
    let (words, _) = hash.as_bytes().as_chunks::<8>();
    u64::from_be_bytes(words[0]) & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_a_permutation_with_and_without_cycle_walking() {
        // 2^9 needs walking in 2^10; 2^10 does not.
        for modulus in [512u64, 1024] {
            let feistel = Feistel::new(modulus, [1, 2, 3]);
            assert_eq!(feistel.half_bits, 5);
            let mut seen = vec![false; modulus as usize];
            for x in 0..modulus {
                assert!(!std::mem::replace(&mut seen[feistel.permute(x) as usize], true));
            }
        }
    }

    #[test]
    fn tables_hold_the_round_function() {
        let keys = [7, 1 << 63, u64::MAX];
        let feistel = Feistel::new(512, keys);
        for x in 0..1024u64 {
            let (mut left, mut right) = (x >> 5, x & 31);
            for key in keys {
                (left, right) = (right, left ^ round_function(right, key, 31));
            }
            assert_eq!(feistel.network(x), left << 5 | right);
        }
    }
}
