//! Sums of products that are reduced once.

use super::limbs::{adc, mac};
use super::{Fr, INV, MODULUS, add_limbs, reduce_once, sub_limbs};

/// A sum of products of Montgomery forms, not reduced yet.
///
/// Each product is below `r^2 < 0.206 * 2^512`, so [`Wide::MAX_TERMS`] of them stay below `2^515`: nine limbs.
#[derive(Clone, Copy)]
pub struct Wide([u64; 9]);

/// `k * r` for `k` in 0..16, five limbs each.
const MULTIPLES: [[u64; 5]; 16] = {
    let mut table = [[0u64; 5]; 16];
    let mut k = 1;
    while k < 16 {
        let p = table[k - 1];
        let (sum, carry) = add_limbs([p[0], p[1], p[2], p[3]], MODULUS);
        table[k] = [sum[0], sum[1], sum[2], sum[3], p[4] + carry as u64];
        k += 1;
    }
    table
};

impl Wide {
    /// The most terms ([`Wide::of`] counts as one) that may be summed before [`Wide::reduce`].
    pub const MAX_TERMS: usize = 24;

    /// Nothing.
    pub const ZERO: Wide = Wide([0; 9]);

    /// A sum that begins with `value` itself (in effect `value * 1`).
    #[inline(always)]
    pub const fn of(value: Fr) -> Wide {
        // value * 2^256, which the reduction divides out again; it is below r * 2^256 < 2.3 r^2.
        let [v0, v1, v2, v3] = value.0;
        Wide([0, 0, 0, 0, v0, v1, v2, v3, 0])
    }

    /// Adds `a * b`.
    #[inline(always)]
    pub const fn mul_add(&mut self, a: &Fr, b: &Fr) {
        let (a, b) = (&a.0, &b.0);
        // The product row by row; it stays below 2^512, so that the last carry of a row is its top limb.
        let (p0, c) = mac(a[0], b[0], 0, 0);
        let (p1, c) = mac(a[0], b[1], 0, c);
        let (p2, c) = mac(a[0], b[2], 0, c);
        let (p3, p4) = mac(a[0], b[3], 0, c);
        let (p1, c) = mac(a[1], b[0], p1, 0);
        let (p2, c) = mac(a[1], b[1], p2, c);
        let (p3, c) = mac(a[1], b[2], p3, c);
        let (p4, p5) = mac(a[1], b[3], p4, c);
        let (p2, c) = mac(a[2], b[0], p2, 0);
        let (p3, c) = mac(a[2], b[1], p3, c);
        let (p4, c) = mac(a[2], b[2], p4, c);
        let (p5, p6) = mac(a[2], b[3], p5, c);
        let (p3, c) = mac(a[3], b[0], p3, 0);
        let (p4, c) = mac(a[3], b[1], p4, c);
        let (p5, c) = mac(a[3], b[2], p5, c);
        let (p6, p7) = mac(a[3], b[3], p6, c);
        let t = &mut self.0;
        let c;
        (t[0], c) = adc(t[0], p0, false);
        let (t1, c) = adc(t[1], p1, c);
        let (t2, c) = adc(t[2], p2, c);
        let (t3, c) = adc(t[3], p3, c);
        let (t4, c) = adc(t[4], p4, c);
        let (t5, c) = adc(t[5], p5, c);
        let (t6, c) = adc(t[6], p6, c);
        let (t7, c) = adc(t[7], p7, c);
        [t[1], t[2], t[3], t[4], t[5], t[6], t[7]] = [t1, t2, t3, t4, t5, t6, t7];
        t[8] += c as u64;
    }

    /// The sum as a field element.
    #[inline(always)]
    pub const fn reduce(&self) -> Fr {
        let mut t = self.0;
        // Montgomery: make the four low limbs zero by adding multiples of r, then drop them.
        let mut carry_top = false;
        let mut i = 0;
        while i < 4 {
            let m = t[i].wrapping_mul(INV);
            let (_, c) = mac(m, MODULUS[0], t[i], 0);
            let c1;
            (t[i + 1], c1) = mac(m, MODULUS[1], t[i + 1], c);
            let c2;
            (t[i + 2], c2) = mac(m, MODULUS[2], t[i + 2], c1);
            let c3;
            (t[i + 3], c3) = mac(m, MODULUS[3], t[i + 3], c2);
            // One carry bit is handed on to the limb above, which the next round touches last.
            (t[i + 4], carry_top) = adc(t[i + 4], c3, carry_top);
            i += 1;
        }
        t[8] += carry_top as u64;
        // With at most 24 terms (one of them a plain value) what is left is below 24 * 0.453 r + 2 r < 13 r. Its bits
        // from 254 up, times 0.5508 (a little less than 2^254 / r = 0.5520), give the multiple of r to take off, or one
        // less.
        let top = t[8] << 2 | t[7] >> 62;
        let q = (top * 141) >> 8;
        let multiple = &MULTIPLES[(q & 15) as usize];
        // The difference is below 2r < 2^256: the borrow out of the fourth limb takes the fifth to zero.
        let (low, _) =
            sub_limbs([t[4], t[5], t[6], t[7]], [multiple[0], multiple[1], multiple[2], multiple[3]]);
        Fr(reduce_once(low))
    }
}
