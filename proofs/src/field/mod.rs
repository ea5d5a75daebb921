//! The scalar field of BLS12-381 (proofs.md §1.1): four 64-bit limbs in Montgomery form, portable and without branches on
//! values in the hot paths.

mod limbs;
mod wide;

pub use wide::Wide;

use crate::Node;
use limbs::{adc, mac, sbb};
use std::fmt;
use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// The modulus r, least significant limb first.
pub const MODULUS: [u64; 4] =
    [0xffff_ffff_0000_0001, 0x53bd_a402_fffe_5bfe, 0x3339_d808_09a1_d805, 0x73ed_a753_299d_7d48];

/// `-r^-1 mod 2^64`.
const INV: u64 = 0xffff_fffe_ffff_ffff;

/// `2^256 mod r`: the Montgomery form of one.
const R: [u64; 4] = power_of_two(256);
/// `2^512 mod r`: multiplying by it enters Montgomery form.
const R2: [u64; 4] = power_of_two(512);

/// An element of the field, always fully reduced, so that equality is equality of limbs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Fr(pub(crate) [u64; 4]);

/// `2^n mod r`, by doubling.
const fn power_of_two(n: usize) -> [u64; 4] {
    let mut x = [1, 0, 0, 0];
    let mut i = 0;
    while i < n {
        // x < r < 2^255, so the sum does not leave four limbs.
        x = reduce_once(add_limbs(x, x).0);
        i += 1;
    }
    x
}

#[inline(always)]
const fn add_limbs(a: [u64; 4], b: [u64; 4]) -> ([u64; 4], bool) {
    let (s0, c) = adc(a[0], b[0], false);
    let (s1, c) = adc(a[1], b[1], c);
    let (s2, c) = adc(a[2], b[2], c);
    let (s3, c) = adc(a[3], b[3], c);
    ([s0, s1, s2, s3], c)
}

#[inline(always)]
const fn sub_limbs(a: [u64; 4], b: [u64; 4]) -> ([u64; 4], bool) {
    let (d0, w) = sbb(a[0], b[0], false);
    let (d1, w) = sbb(a[1], b[1], w);
    let (d2, w) = sbb(a[2], b[2], w);
    let (d3, w) = sbb(a[3], b[3], w);
    ([d0, d1, d2, d3], w)
}

/// `x` or `x - r`, for `x < 2r`.
#[inline(always)]
const fn reduce_once(x: [u64; 4]) -> [u64; 4] {
    let (d, borrow) = sub_limbs(x, MODULUS);
    let keep = (borrow as u64).wrapping_neg();
    [
        (x[0] & keep) | (d[0] & !keep),
        (x[1] & keep) | (d[1] & !keep),
        (x[2] & keep) | (d[2] & !keep),
        (x[3] & keep) | (d[3] & !keep),
    ]
}

/// `a * b / 2^256 mod r`. Because the top limb of r is below 2^63, the carries of each round fit one limb.
#[inline(always)]
const fn montgomery_mul(a: [u64; 4], b: [u64; 4]) -> [u64; 4] {
    let mut t = [0u64; 4];
    let mut i = 0;
    while i < 4 {
        let (t0, carry_a) = mac(b[i], a[0], t[0], 0);
        let m = t0.wrapping_mul(INV);
        let (_, carry_m) = mac(m, MODULUS[0], t0, 0);
        let (t1, carry_a) = mac(b[i], a[1], t[1], carry_a);
        let (n0, carry_m) = mac(m, MODULUS[1], t1, carry_m);
        let (t2, carry_a) = mac(b[i], a[2], t[2], carry_a);
        let (n1, carry_m) = mac(m, MODULUS[2], t2, carry_m);
        let (t3, carry_a) = mac(b[i], a[3], t[3], carry_a);
        let (n2, carry_m) = mac(m, MODULUS[3], t3, carry_m);
        t = [n0, n1, n2, carry_a.wrapping_add(carry_m)];
        i += 1;
    }
    reduce_once(t)
}

impl Fr {
    /// Zero.
    pub const ZERO: Fr = Fr([0; 4]);
    /// One.
    pub const ONE: Fr = Fr(R);

    /// The element with this small value.
    pub const fn from_u64(value: u64) -> Fr {
        Fr(montgomery_mul([value, 0, 0, 0], R2))
    }

    /// Reads 32 little-endian bytes; `None` if the integer is not below the modulus (never reduced, proofs.md §1.1).
    #[inline]
    pub fn from_bytes_le(bytes: &Node) -> Option<Fr> {
        let limbs = limbs_of(bytes);
        Self::from_limbs(limbs)
    }

    /// The element with this value, least significant limb first; `None` if it is not below the modulus.
    #[inline]
    pub const fn from_limbs(limbs: [u64; 4]) -> Option<Fr> {
        if sub_limbs(limbs, MODULUS).1 { Some(Fr(montgomery_mul(limbs, R2))) } else { None }
    }

    /// The element whose Montgomery form these limbs are up to one multiple of r: below 2r.
    #[inline]
    pub(crate) const fn from_almost_reduced(limbs: [u64; 4]) -> Fr {
        Fr(reduce_once(limbs))
    }

    /// The canonical value, least significant limb first.
    #[inline]
    pub const fn to_limbs(self) -> [u64; 4] {
        montgomery_mul(self.0, [1, 0, 0, 0])
    }

    /// The canonical value in 32 little-endian bytes.
    #[inline]
    pub fn to_bytes_le(self) -> Node {
        let limbs = self.to_limbs();
        let mut out = [0u8; 32];
        let (words, _) = out.as_chunks_mut::<8>();
        for (word, limb) in words.iter_mut().zip(limbs) {
            *word = limb.to_le_bytes();
        }
        out
    }

    /// Whether this is zero.
    pub fn is_zero(self) -> bool {
        self == Fr::ZERO
    }

    /// `self * self`.
    #[inline(always)]
    pub const fn square(self) -> Fr {
        Fr(montgomery_mul(self.0, self.0))
    }

    /// `self^5`, the S-box of Poseidon.
    #[inline(always)]
    pub fn pow5(self) -> Fr {
        self.square().square() * self
    }

    /// `self^exponent`, the exponent's least significant limb first. Variable time.
    pub fn pow(self, exponent: &[u64]) -> Fr {
        let mut result = Fr::ONE;
        for limb in exponent.iter().rev() {
            for bit in (0..64).rev() {
                result = result.square();
                if limb >> bit & 1 == 1 {
                    result *= self;
                }
            }
        }
        result
    }

    /// The multiplicative inverse; `None` for zero. By Fermat's little theorem, so about 400 multiplications.
    pub fn invert(self) -> Option<Fr> {
        if self.is_zero() {
            return None;
        }
        let [r0, r1, r2, r3] = MODULUS;
        Some(self.pow(&[r0 - 2, r1, r2, r3]))
    }

    /// `sum of a[i] * b[i]` with one reduction at the end (per 16 terms).
    pub fn dot(a: &[Fr], b: &[Fr]) -> Fr {
        debug_assert_eq!(a.len(), b.len());
        let mut sum = Fr::ZERO;
        for (a, b) in a.chunks(Wide::MAX_TERMS - 1).zip(b.chunks(Wide::MAX_TERMS - 1)) {
            let mut wide = Wide::of(sum);
            for (x, y) in a.iter().zip(b) {
                wide.mul_add(x, y);
            }
            sum = wide.reduce();
        }
        sum
    }
}

#[inline(always)]
fn limbs_of(bytes: &Node) -> [u64; 4] {
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|i| u64::from_le_bytes(words[i]))
}

/// Whether 32 bytes are a canonical field element.
#[inline]
pub fn is_canonical(bytes: &Node) -> bool {
    sub_limbs(limbs_of(bytes), MODULUS).1
}

impl Add for Fr {
    type Output = Fr;

    #[inline(always)]
    fn add(self, other: Fr) -> Fr {
        // Both are below r < 2^255: no carry leaves the fourth limb.
        Fr(reduce_once(add_limbs(self.0, other.0).0))
    }
}

impl Sub for Fr {
    type Output = Fr;

    #[inline(always)]
    fn sub(self, other: Fr) -> Fr {
        let (d, borrow) = sub_limbs(self.0, other.0);
        let mask = (borrow as u64).wrapping_neg();
        let back = [MODULUS[0] & mask, MODULUS[1] & mask, MODULUS[2] & mask, MODULUS[3] & mask];
        Fr(add_limbs(d, back).0)
    }
}

impl Mul for Fr {
    type Output = Fr;

    #[inline(always)]
    fn mul(self, other: Fr) -> Fr {
        Fr(montgomery_mul(self.0, other.0))
    }
}

impl Neg for Fr {
    type Output = Fr;

    #[inline]
    fn neg(self) -> Fr {
        Fr::ZERO - self
    }
}

impl AddAssign for Fr {
    #[inline(always)]
    fn add_assign(&mut self, other: Fr) {
        *self = *self + other;
    }
}

impl SubAssign for Fr {
    #[inline(always)]
    fn sub_assign(&mut self, other: Fr) {
        *self = *self - other;
    }
}

impl MulAssign for Fr {
    #[inline(always)]
    fn mul_assign(&mut self, other: Fr) {
        *self = *self * other;
    }
}

impl fmt::Debug for Fr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fr({})", hex::encode(self.to_bytes_le()))
    }
}

#[cfg(test)]
pub(crate) mod tests;
