//! Carries between 64-bit limbs, usable in constants.

/// `a + b + carry`, and the carry out.
#[inline(always)]
pub(super) const fn adc(a: u64, b: u64, carry: bool) -> (u64, bool) {
    let (s, c1) = a.overflowing_add(b);
    let (s, c2) = s.overflowing_add(carry as u64);
    (s, c1 | c2)
}

/// `a - b - borrow`, and the borrow out.
#[inline(always)]
pub(super) const fn sbb(a: u64, b: u64, borrow: bool) -> (u64, bool) {
    let (d, b1) = a.overflowing_sub(b);
    let (d, b2) = d.overflowing_sub(borrow as u64);
    (d, b1 | b2)
}

/// `a * b + add + carry`, low and high limb; cannot overflow.
#[inline(always)]
pub(super) const fn mac(a: u64, b: u64, add: u64, carry: u64) -> (u64, u64) {
    let wide = a as u128 * b as u128 + add as u128 + carry as u128;
    (wide as u64, (wide >> 64) as u64)
}
