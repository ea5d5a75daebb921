//! Token amounts (`chain.md` §1.2).

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// An amount in attoFIL (10^-18 FIL). The whole supply is 2 * 10^27, far inside the range; amounts can be negative in
/// messages, which are then refused. In CBOR a byte string: empty for zero, else a sign byte (0 positive, 1 negative)
/// and the magnitude, big-endian, without leading zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TokenAmount(pub i128);

impl TokenAmount {
    /// Nothing.
    pub const ZERO: TokenAmount = TokenAmount(0);
    /// More than was ever minted: the largest value of a message (`chain.md` §1.4).
    pub const SUPPLY: TokenAmount = TokenAmount(2_000_000_000 * 1_000_000_000_000_000_000);

    fn to_bytes(self) -> Vec<u8> {
        if self.0 == 0 {
            return Vec::new();
        }
        let magnitude = self.0.unsigned_abs().to_be_bytes();
        let digits = &magnitude[magnitude.iter().position(|b| *b != 0).unwrap_or(magnitude.len())..];
        let mut out = vec![u8::from(self.0 < 0)];
        out.extend_from_slice(digits);
        out
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let Some((sign, digits)) = bytes.split_first() else { return Ok(Self::ZERO) };
        if *sign > 1 {
            return Err(format!("the sign byte of an amount is 0 or 1, got {sign}"));
        }
        if digits.first().is_none_or(|b| *b == 0) {
            return Err("an amount has leading zeros".into());
        }
        if digits.len() > 16 {
            return Err(format!("an amount of {} bytes is out of range", digits.len()));
        }
        let magnitude = digits.iter().fold(0u128, |sum, b| sum << 8 | u128::from(*b));
        let value = i128::try_from(magnitude).map_err(|_| "an amount is out of range".to_string())?;
        Ok(Self(if *sign == 1 { -value } else { value }))
    }
}

impl fmt::Display for TokenAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for TokenAmount {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() { s.collect_str(self) } else { s.serialize_bytes(&self.to_bytes()) }
    }
}

impl<'de> Deserialize<'de> for TokenAmount {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        if d.is_human_readable() {
            return String::deserialize(d)?.parse().map(Self).map_err(D::Error::custom);
        }
        let bytes = serde_bytes::ByteBuf::deserialize(d)?;
        Self::from_bytes(&bytes).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cbor;
    use proptest::prelude::*;

    #[test]
    fn known_answers() {
        // chain-vectors.json, bigint_cbor.
        for (value, hex) in [
            (0, "40"),
            (1, "420001"),
            (-1, "420101"),
            (255, "4200ff"),
            (256, "43000100"),
            (1_000_000_000_000_000_000, "49000de0b6b3a7640000"),
        ] {
            assert_eq!(hex::encode(cbor::encode(&TokenAmount(value))), hex);
            assert_eq!(
                cbor::decode::<TokenAmount>("x", &hex::decode(hex).unwrap()).unwrap(),
                TokenAmount(value)
            );
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for bad in ["4100", "420000", "4101", "420201", "43000001", "01", "f6"] {
            assert!(cbor::decode::<TokenAmount>("x", &hex::decode(bad).unwrap()).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(value in -i128::MAX..=i128::MAX) {
            let bytes = cbor::encode(&TokenAmount(value));
            prop_assert_eq!(cbor::decode::<TokenAmount>("x", &bytes).unwrap().0, value);
        }

        #[test]
        fn one_form_each(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            if let Ok(value) = TokenAmount::from_bytes(&bytes) {
                prop_assert_eq!(value.to_bytes(), bytes);
            }
        }
    }
}
