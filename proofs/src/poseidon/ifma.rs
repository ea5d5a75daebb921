//! Eight hashes at once with AVX-512 IFMA: the optimised permutation over lanes of 52-bit limbs.
//!
//! A lane holds an element as `value * 2^260 mod r` in five limbs below 2^52, not fully reduced. One bound carries all:
//! `r / 2^260 < 0.0284`, so a Montgomery reduction of a sum of `n` products `a b` with `a < A r`, `b < B r`, to which
//! values below `S r` are added outside the product, gives less than `(0.0284 n A B + 1 + S) r`.
//!
//! - State after a dot product of at most 17 terms with constants (`B = 1`): below `(0.0284 * 17 * A + 1) r`.
//! - Elements 1.. gain at most `1 + 0.0284 * 6 * 3.2 < 1.6` per block of partial rounds (x, see below, is below `3.2 r`)
//!   and never lose; [`LIMIT`] bounds them: `2.1 + 1.6 * blocks` in general, and for width 3, which has 19 blocks of 3,
//!   `2.1 + 19 * 1.28 < 27`.
//! - Element 0 in the partial rounds is then below `(0.0284 * (2 * 27 + 3 * 3.2) + 1) r < 3 r` for width 3 and below
//!   `(0.0284 * (11 * 19 + 6 * 3.2) + 1) r < 8 r` for width 12; its S-box `x`: square below `2.9`, fourth power `1.3`,
//!   fifth `1.3`, with the constant `2.3`.
//! - In full round 5 elements below 27 enter the S-box: square below 22, fourth power 15, fifth 13, with the constant 14
//!   (width 3); the dot product of three is below 2.3. For width 12 (below 19): 12, 5.1, 3.8, 4.8, and 2.7.
//!
//! Nothing reaches `35 r < 2^260`, so five limbs always suffice and nothing is subtracted before the end. Accumulators
//! take fewer than 500 additions of 52-bit values: below 2^61.
//!
//! Unsafe code: calls of functions that need AVX-512, which a [`Token`] proves present, and unaligned loads and stores
//! of arrays of eight words.

use super::instance::{Block, Instance};
use crate::field::{Fr, MODULUS};
use std::arch::x86_64::*;

/// Hashes done at once.
pub(super) const LANES: usize = 8;
const LIMBS: usize = 5;
const MASK: u64 = (1 << 52) - 1;
/// `-r^-1 mod 2^52`: that of 2^64, cut.
const INV: u64 = 0xffff_fffe_ffff_ffff & MASK;
const R: Constant = Constant(split(MODULUS));

/// A constant of the permutation in lane form, the same in each lane: `value * 2^260 mod r`, fully reduced.
#[derive(Debug, Clone, Copy)]
pub(super) struct Constant([u64; LIMBS]);

impl Constant {
    pub(super) fn new(value: Fr) -> Self {
        // Fr holds value * 2^256.
        Self(split((value * Fr::from_u64(16)).0))
    }
}

const fn split(x: [u64; 4]) -> [u64; LIMBS] {
    [
        x[0] & MASK,
        (x[0] >> 52 | x[1] << 12) & MASK,
        (x[1] >> 40 | x[2] << 24) & MASK,
        (x[2] >> 28 | x[3] << 36) & MASK,
        x[3] >> 16,
    ]
}

/// Five limbs of 52 bits to four of 64; the value is below 2^256.
const fn join(x: [u64; LIMBS]) -> [u64; 4] {
    [x[0] | x[1] << 52, x[1] >> 12 | x[2] << 40, x[2] >> 24 | x[3] << 28, x[3] >> 36 | x[4] << 16]
}

/// The constants of an instance for lanes.
#[derive(Debug)]
pub(super) struct LaneInstance<const T: usize> {
    constants: Instance<T, Constant>,
    /// `2^264 mod r`, plain: takes `a * 2^256` to `a * 2^260`.
    enter: Constant,
    /// `2^256 mod r`, plain: takes `a * 2^260` to `a * 2^256`.
    leave: Constant,
    /// Element 0 after the first constants are added: the Merkle tag and its constant.
    first: Constant,
}

impl<const T: usize> LaneInstance<T> {
    /// From the portable constants; for widths up to 12, which the bounds above are shown for.
    pub(super) fn new(instance: &Instance<T>) -> Self {
        // The largest bound on elements 1.. after the partial rounds, in thousandths of r.
        let gain = 1000 + 92 * Instance::<T>::BLOCK;
        assert!(T <= 12 && 2100 + gain * instance.blocks.len() < 27_000, "the bounds of this module");
        Self {
            constants: instance.map(Constant::new),
            // Fr(x) holds x * 2^256, so the limbs of 2^8 are 2^264 and those of one 2^256.
            enter: Constant(split(Fr::from_u64(1 << 8).0)),
            leave: Constant(split(Fr::ONE.0)),
            first: Constant::new(super::Domain::Merkle.tag(T - 1) + instance.initial[0]),
        }
    }
}

/// Proof that the processor has the instructions: made by [`Token::detect`] only.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token(());

impl Token {
    #[inline]
    pub(super) fn detect() -> Option<Token> {
        (is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma")).then_some(Token(()))
    }

    /// The Merkle hashes of up to eight groups of `T - 1` inputs.
    pub(super) fn hash<const T: usize>(self, instance: &LaneInstance<T>, inputs: &[Fr], out: &mut [Fr]) {
        assert!(out.len() <= LANES && inputs.len() == out.len() * (T - 1), "a group for each lane");
        // SAFETY: the token exists, so the processor has the instructions.
        unsafe { hash(instance, inputs, out) }
    }
}

/// An element in each lane.
type Lanes = [__m512i; LIMBS];

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn broadcast(c: &Constant) -> Lanes {
    c.0.map(|limb| _mm512_set1_epi64(limb as i64))
}

/// Sums of products by column: column `i` has weight `2^(52 i)`.
#[derive(Clone, Copy)]
struct Columns([__m512i; 2 * LIMBS]);

impl Columns {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn zero() -> Self {
        Self([_mm512_setzero_si512(); 2 * LIMBS])
    }

    /// `value * 2^260`, which the reduction divides out.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn of(value: &Lanes) -> Self {
        let mut columns = Self::zero();
        columns.0[LIMBS..].copy_from_slice(value);
        columns
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn mul_add(&mut self, a: &Lanes, b: &Lanes) {
        for (i, b) in b.iter().enumerate() {
            for (j, a) in a.iter().enumerate() {
                self.0[i + j] = _mm512_madd52lo_epu64(self.0[i + j], *a, *b);
            }
            for (j, a) in a.iter().enumerate() {
                self.0[i + j + 1] = _mm512_madd52hi_epu64(self.0[i + j + 1], *a, *b);
            }
        }
    }

    /// Divides by 2^260 and carries into limbs.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn reduce(mut self) -> Lanes {
        let t = &mut self.0;
        let r = broadcast(&R);
        let inv = _mm512_set1_epi64(INV as i64);
        let mask = _mm512_set1_epi64(MASK as i64);
        for i in 0..LIMBS {
            // The instruction takes the low 52 bits of t[i], which are the limb.
            let m = _mm512_madd52lo_epu64(_mm512_setzero_si512(), t[i], inv);
            for (j, r) in r.iter().enumerate() {
                t[i + j] = _mm512_madd52lo_epu64(t[i + j], m, *r);
            }
            for (j, r) in r.iter().enumerate() {
                t[i + j + 1] = _mm512_madd52hi_epu64(t[i + j + 1], m, *r);
            }
            t[i + 1] = _mm512_add_epi64(t[i + 1], _mm512_srli_epi64::<52>(t[i]));
        }
        for i in LIMBS..2 * LIMBS - 1 {
            t[i + 1] = _mm512_add_epi64(t[i + 1], _mm512_srli_epi64::<52>(t[i]));
            t[i] = _mm512_and_si512(t[i], mask);
        }
        [t[5], t[6], t[7], t[8], t[9]]
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn mul(a: &Lanes, b: &Lanes) -> Lanes {
    let mut columns = Columns::zero();
    columns.mul_add(a, b);
    columns.reduce()
}

/// `x^5 + constant`. A function of its own, like [`dot`], so that there is one copy of the long code for all widths.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma")]
fn boxed(x: &Lanes, constant: &Lanes) -> Lanes {
    let square = mul(x, x);
    let mut columns = Columns::of(constant);
    columns.mul_add(&mul(&square, &square), x);
    columns.reduce()
}

/// Adds `sum of x[i] * c[i]` to columns, over the shorter of both.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma")]
fn dot(x: &[Lanes], c: &[Constant], columns: &Columns) -> Columns {
    let mut sum = *columns;
    for (x, c) in x.iter().zip(c) {
        sum.mul_add(x, &broadcast(c));
    }
    sum
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn full_round<const T: usize>(
    state: &mut [Lanes; T],
    constants: &[Constant; T],
    columns: &[[Constant; T]; T],
) {
    let mut x = *state;
    for (x, c) in x.iter_mut().zip(constants) {
        *x = boxed(x, &broadcast(c));
    }
    for (e, column) in state.iter_mut().zip(columns) {
        *e = dot(&x, column, &Columns::zero()).reduce();
    }
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn partial_rounds<const T: usize>(state: &mut [Lanes; T], block: &Block<T, Constant>) {
    let mut xs = [[_mm512_setzero_si512(); LIMBS]; 8];
    for (k, round) in block.rounds.iter().enumerate() {
        // The products with elements 1.. do not wait for the S-box: first, so that they fill its gaps.
        let columns = dot(&state[1..], &round.of_state[1..], &Columns::zero());
        xs[k] = boxed(&state[0], &broadcast(&round.constant));
        state[0] = dot(&xs, &round.of_x, &columns).reduce();
    }
    for (e, row) in state[1..].iter_mut().zip(block.update.chunks_exact(block.rounds.len())) {
        *e = dot(&xs, row, &Columns::of(e)).reduce();
    }
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn hash<const T: usize>(instance: &LaneInstance<T>, inputs: &[Fr], out: &mut [Fr]) {
    let constants = &instance.constants;
    let mut state = [broadcast(&instance.first); T];
    let enter = broadcast(&instance.enter);
    for (i, e) in state[1..].iter_mut().enumerate() {
        let mut limbs = [[0u64; LANES]; LIMBS];
        for (lane, group) in inputs.chunks_exact(T - 1).enumerate() {
            for (limb, part) in limbs.iter_mut().zip(split(group[i].0)) {
                limb[lane] = part;
            }
        }
        // SAFETY: each limb array has eight words, which the load reads.
        let input = limbs.map(|limb| unsafe { _mm512_loadu_si512(limb.as_ptr().cast()) });
        let mut columns = Columns::of(&broadcast(&constants.initial[i + 1]));
        columns.mul_add(&input, &enter);
        *e = columns.reduce();
    }
    let [first @ .., fourth] = &constants.first;
    for row in first {
        full_round(&mut state, row, &constants.mds);
    }
    full_round(&mut state, fourth, &constants.pre_sparse);
    for block in &constants.blocks {
        partial_rounds(&mut state, block);
    }
    for row in &constants.last {
        full_round(&mut state, row, &constants.mds);
    }
    let zero = [_mm512_setzero_si512(); LIMBS];
    for e in &mut state {
        *e = boxed(e, &zero);
    }
    let result = dot(&state, &constants.mds[1], &Columns::zero()).reduce();
    let result = mul(&result, &broadcast(&instance.leave));
    let mut limbs = [[0u64; LANES]; LIMBS];
    for (limb, lanes) in limbs.iter_mut().zip(result) {
        // SAFETY: each limb array has eight words, which the store writes.
        unsafe { _mm512_storeu_si512(limb.as_mut_ptr().cast(), lanes) };
    }
    for (lane, out) in out.iter_mut().enumerate() {
        // Below (0.0284 * 3 + 1) r: one subtraction makes it canonical.
        *out = Fr::from_almost_reduced(join(limbs.map(|limb| limb[lane])));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn splitting_joins_again() {
        for x in [[0; 4], [u64::MAX; 4], MODULUS, [1, 2, 3, 4]] {
            assert_eq!(join(split(x)), x);
            assert!(split(x).iter().all(|limb| *limb <= MASK));
        }
    }

    /// The largest limbs and values the bounds allow (35 r), in the operations all else is made of.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn extreme_dot(values: &[[u64; LIMBS]], c: Fr, add: [u64; LIMBS]) -> [u64; LIMBS] {
        let wide = |x: &[u64; LIMBS]| x.map(|limb| _mm512_set1_epi64(limb as i64));
        let constant = Constant::new(c);
        let lanes: Vec<Lanes> = values.iter().map(wide).collect();
        let constants = vec![constant; lanes.len()];
        let result = dot(&lanes, &constants, &Columns::of(&wide(&add))).reduce();
        result.map(|limb| {
            let mut words = [0u64; LANES];
            // SAFETY: eight words, which the store writes.
            unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), limb) };
            assert!(words.iter().all(|w| *w == words[0]));
            words[0]
        })
    }

    /// Five limbs as a field element: the value mod r.
    fn value(limbs: [u64; LIMBS]) -> Fr {
        limbs.iter().rev().fold(Fr::ZERO, |sum, limb| sum * Fr::from_u64(1 << 52) + Fr::from_u64(*limb))
    }

    #[test]
    fn extreme_values_stay_exact() {
        if Token::detect().is_none() {
            return;
        }
        let most = [MASK, MASK, MASK, MASK, MASK];
        let scale = Fr::from_u64(1 << 52).pow(&[5]).invert().unwrap();
        for values in [vec![most; 1], vec![most; 17], vec![[0; 5]; 3], vec![[MASK, 0, MASK, 0, 1]; 9]] {
            for c in [-Fr::ONE, Fr::ONE, Fr::ZERO, Fr::from_u64(16).invert().unwrap()] {
                for add in [[0; 5], [MASK, MASK, MASK, MASK, MASK >> 2]] {
                    // SAFETY: the token exists.
                    let got = unsafe { extreme_dot(&values, c, add) };
                    assert!(got.iter().all(|limb| *limb <= MASK), "{got:x?}");
                    let two_260 = Fr::from_u64(1 << 52).pow(&[5]);
                    let sum = values.iter().fold(Fr::ZERO, |s, v| s + value(*v) * c * two_260);
                    assert_eq!(value(got), sum * scale + value(add));
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Against the portable code, with elements at both ends of the field.
        #[test]
        fn lanes_agree_with_the_portable_hash(
            elements in proptest::collection::vec(crate::field::tests::any_fr(), 88), count in 1usize..=8,
        ) {
            fn check<const T: usize>(elements: &[Fr], count: usize) {
                let Some(token) = Token::detect() else { return };
                let instance = Instance::<T>::generate();
                let inputs = &elements[..count * (T - 1)];
                let mut out = vec![Fr::ZERO; count];
                token.hash(&LaneInstance::new(&instance), inputs, &mut out);
                for (group, hash) in inputs.chunks(T - 1).zip(out) {
                    assert_eq!(super::super::merkle(group), hash);
                }
            }
            check::<3>(&elements, count);
            check::<5>(&elements, count);
            check::<9>(&elements, count);
            check::<12>(&elements, count);
        }
    }
}
