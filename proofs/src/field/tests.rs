use super::*;
use proptest::prelude::*;

/// An independent slow arithmetic on big-endian bit vectors: no limbs, no Montgomery form.
mod slow {
    /// Little-endian base 2^8 digits; schoolbook.
    pub(super) fn mul(a: &[u8], b: &[u8]) -> Vec<u8> {
        let mut out = vec![0u32; a.len() + b.len() + 4];
        for (i, &x) in a.iter().enumerate() {
            for (j, &y) in b.iter().enumerate() {
                let mut carry = u32::from(x) * u32::from(y);
                let mut k = i + j;
                while carry > 0 {
                    carry += out[k];
                    out[k] = carry & 0xff;
                    carry >>= 8;
                    k += 1;
                }
            }
        }
        out.iter().map(|&d| d as u8).collect()
    }

    pub(super) fn add(a: &[u8], b: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut carry = 0u16;
        for i in 0..a.len().max(b.len()) + 1 {
            carry += u16::from(*a.get(i).unwrap_or(&0)) + u16::from(*b.get(i).unwrap_or(&0));
            out.push(carry as u8);
            carry >>= 8;
        }
        out
    }

    fn at_least(a: &[u8], b: &[u8]) -> bool {
        for i in (0..a.len().max(b.len())).rev() {
            let (x, y) = (*a.get(i).unwrap_or(&0), *b.get(i).unwrap_or(&0));
            if x != y {
                return x > y;
            }
        }
        true
    }

    /// `a mod r` by shift and subtract, one bit at a time.
    pub(super) fn modulo(a: &[u8], r: &[u8]) -> Vec<u8> {
        let mut rest = vec![0u8; 33];
        for bit in (0..a.len() * 8).rev() {
            let mut carry = a[bit / 8] >> (bit % 8) & 1;
            for byte in &mut rest {
                let next = *byte >> 7;
                *byte = *byte << 1 | carry;
                carry = next;
            }
            if at_least(&rest, r) {
                let mut borrow = 0i16;
                for (i, byte) in rest.iter_mut().enumerate() {
                    let d = i16::from(*byte) - i16::from(*r.get(i).unwrap_or(&0)) - borrow;
                    borrow = i16::from(d < 0);
                    *byte = d as u8;
                }
            }
        }
        rest.truncate(32);
        rest
    }
}

const R_HEX: &str = "73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001";

fn r_bytes() -> Vec<u8> {
    let mut bytes = hex::decode(R_HEX).unwrap();
    bytes.reverse();
    bytes
}

/// Any element, with extreme ones more often than chance.
pub(crate) fn any_fr() -> impl Strategy<Value = Fr> {
    let near = prop_oneof![Just(0u64), Just(1), Just(u64::MAX), Just(1 << 63), any::<u64>()];
    let extreme = [near.clone(), near.clone(), near.clone(), near].prop_map(|mut limbs| {
        limbs[3] &= (1 << 62) - 1;
        Fr::from_limbs(limbs).unwrap()
    });
    let below = (0u64..5).prop_map(|k| Fr::ZERO - Fr::from_u64(k));
    let any = any::<[u64; 4]>().prop_map(|mut limbs| {
        limbs[3] %= MODULUS[3];
        Fr::from_limbs(limbs).unwrap()
    });
    // Montgomery limbs right below the modulus are the hard case of the accumulators.
    let high = (1u64..5).prop_map(|k| Fr([MODULUS[0] - k, MODULUS[1], MODULUS[2], MODULUS[3]]));
    prop_oneof![extreme, below, any, high]
}

fn reduced(bytes: &[u8]) -> Fr {
    let out = slow::modulo(bytes, &r_bytes());
    Fr::from_bytes_le(&out.try_into().unwrap()).unwrap()
}

#[test]
fn reading_is_strict() {
    let r: Node = r_bytes().try_into().unwrap();
    assert_eq!(Fr::from_bytes_le(&r), None);
    assert!(!is_canonical(&r));
    let mut less = r;
    less[0] -= 1;
    assert_eq!(Fr::from_bytes_le(&less), Some(-Fr::ONE));
    assert_eq!((-Fr::ONE).to_bytes_le(), less);
    assert_eq!(Fr::from_bytes_le(&[0xff; 32]), None);
    assert_eq!(Fr::from_u64(7).to_bytes_le()[..9], [7, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn the_longest_sums_reduce() {
    let high = -Fr::ONE;
    let most = Fr([MODULUS[0] - 1, MODULUS[1], MODULUS[2], MODULUS[3]]);
    for x in [high, most] {
        for terms in 1..Wide::MAX_TERMS {
            let mut wide = Wide::of(x);
            let mut expected = x;
            for _ in 0..terms {
                wide.mul_add(&x, &x);
                expected += x * x;
            }
            assert_eq!(wide.reduce(), expected, "{terms}");
        }
    }
    let long = vec![most; 100];
    assert_eq!(Fr::dot(&long, &long), most * most * Fr::from_u64(100));
}

proptest! {
    #[test]
    fn bytes_round_trip(a in any_fr()) {
        prop_assert_eq!(Fr::from_bytes_le(&a.to_bytes_le()), Some(a));
    }

    #[test]
    fn agrees_with_slow_arithmetic(a in any_fr(), b in any_fr()) {
        let (x, y) = (a.to_bytes_le(), b.to_bytes_le());
        prop_assert_eq!(a + b, reduced(&slow::add(&x, &y)));
        prop_assert_eq!(a * b, reduced(&slow::mul(&x, &y)));
        prop_assert_eq!(a.square(), reduced(&slow::mul(&x, &x)));
        prop_assert_eq!((a - b) + b, a);
        prop_assert_eq!(a + -a, Fr::ZERO);
    }

    #[test]
    fn is_a_field(a in any_fr(), b in any_fr(), c in any_fr()) {
        prop_assert_eq!(a * (b + c), a * b + a * c);
        prop_assert_eq!((a * b) * c, a * (b * c));
        prop_assert_eq!(a * Fr::ONE, a);
        prop_assert_eq!(a.pow5(), a.pow(&[5]));
        match a.invert() {
            Some(inverse) => prop_assert_eq!(a * inverse, Fr::ONE),
            None => prop_assert!(a.is_zero()),
        }
    }

    #[test]
    fn dot_products_agree(pairs in proptest::collection::vec((any_fr(), any_fr()), 0..60)) {
        let (a, b): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
        let plain = pairs.iter().fold(Fr::ZERO, |sum, (x, y)| sum + *x * *y);
        prop_assert_eq!(Fr::dot(&a, &b), plain);
    }
}
