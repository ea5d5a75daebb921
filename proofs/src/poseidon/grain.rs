//! Round constants from the Grain LFSR (proofs.md §6.3).

use crate::field::Fr;

/// An 80-bit register; bit `i` is `b_i`.
struct Grain(u128);

impl Grain {
    fn new(width: usize, full_rounds: usize, partial_rounds: usize) -> Self {
        let mut register = 0u128;
        let mut filled = 0;
        let mut push = |value: u64, bits: usize| {
            for bit in (0..bits).rev() {
                register |= u128::from(value >> bit & 1) << filled;
                filled += 1;
            }
        };
        push(1, 2); // prime field
        push(1, 4); // S-box x^5
        push(255, 12); // bits of the field
        push(width as u64, 12);
        push(full_rounds as u64, 10);
        push(partial_rounds as u64, 10);
        push((1 << 30) - 1, 30);
        let mut grain = Self(register);
        for _ in 0..160 {
            grain.step();
        }
        grain
    }

    fn step(&mut self) -> bool {
        let s = self.0;
        let bit = (s >> 62 ^ s >> 51 ^ s >> 38 ^ s >> 23 ^ s >> 13 ^ s) & 1;
        self.0 = s >> 1 | bit << 79;
        bit == 1
    }

    /// Self-shrinking: of each pair of bits the first says whether the second is output.
    fn bit(&mut self) -> bool {
        loop {
            let keep = self.step();
            let bit = self.step();
            if keep {
                return bit;
            }
        }
    }

    /// 255 bits, most significant first; too large values are rejected.
    fn element(&mut self) -> Fr {
        loop {
            let mut limbs = [0u64; 4];
            for i in (0..255).rev() {
                limbs[i / 64] |= u64::from(self.bit()) << (i % 64);
            }
            if let Some(element) = Fr::from_limbs(limbs) {
                return element;
            }
        }
    }
}

/// The round constants of all rounds, `width` per round.
pub(super) fn round_constants(width: usize, full_rounds: usize, partial_rounds: usize) -> Vec<Fr> {
    let mut grain = Grain::new(width, full_rounds, partial_rounds);
    (0..(full_rounds + partial_rounds) * width).map(|_| grain.element()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// proofs.md §6.3.
    #[test]
    fn first_constants() {
        for (arity, partial, first) in [
            (2, 55, "d8d36e9d000a32a7368b75a292ac1e50244abb1d8651bd237ae13afa4b069f66"),
            (8, 57, "f9c2f4f25441984394d48ce4e74a2bc54ad86d77dbad3c8ce05f04c4120de96c"),
            (11, 57, "e4bc89d06b09dee67db73a0f8ef106d5e00289f3c5bf997304b548e676956c1f"),
        ] {
            assert_eq!(hex::encode(round_constants(arity + 1, 8, partial)[0].to_bytes_le()), first);
        }
    }
}
