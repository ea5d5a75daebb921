//! Fixed 32-byte values: commitments, identifiers and randomness.

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Why a text is not a 32-byte value in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected 64 hexadecimal digits, got {got:?}")]
pub struct HexError {
    /// The offending text, cut to a printable length.
    pub got: String,
}

/// Parses 64 hexadecimal digits, with or without a leading `0x`.
fn parse_hex(text: &str) -> Result<[u8; 32], HexError> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let mut out = [0u8; 32];
    match hex::decode_to_slice(digits, &mut out) {
        Ok(()) => Ok(out),
        Err(_) => Err(HexError { got: text.chars().take(80).collect() }),
    }
}

struct BytesVisitor;

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = [u8; 32];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("32 bytes")
    }

    fn visit_bytes<E: serde::de::Error>(self, v: &[u8]) -> Result<Self::Value, E> {
        v.try_into().map_err(|_| E::invalid_length(v.len(), &self))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut out = [0u8; 32];
        for (i, byte) in out.iter_mut().enumerate() {
            *byte = seq.next_element()?.ok_or_else(|| A::Error::invalid_length(i, &self))?;
        }
        match seq.next_element::<u8>()? {
            None => Ok(out),
            Some(_) => Err(A::Error::invalid_length(33, &self)),
        }
    }
}

macro_rules! bytes32 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub [u8; 32]);

        impl $name {
            /// The bytes in network order.
            pub fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }
        }

        impl From<[u8; 32]> for $name {
            fn from(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }
        }

        impl From<$name> for [u8; 32] {
            fn from(value: $name) -> Self {
                value.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex::encode(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self)
            }
        }

        impl FromStr for $name {
            type Err = HexError;

            fn from_str(text: &str) -> Result<Self, HexError> {
                parse_hex(text).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                if s.is_human_readable() { s.collect_str(self) } else { s.serialize_bytes(&self.0) }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                if d.is_human_readable() {
                    String::deserialize(d)?.parse().map_err(D::Error::custom)
                } else {
                    d.deserialize_bytes(BytesVisitor).map(Self)
                }
            }
        }
    };
}

bytes32! {
    /// A commitment: CommD, CommR, CommC, CommRLast or CommP (proofs.md §1.7), as the proof library returns it.
    Commitment
}
bytes32! {
    /// The replica id of a sector (proofs.md §4.1): binds labels to prover, sector, ticket, data and proof type.
    ReplicaId
}
bytes32! {
    /// Seal randomness, drawn from chain tickets before PC1 (chain.md §2.3).
    Ticket
}
bytes32! {
    /// Interactive seal randomness, drawn from the beacon after the pre-commit (chain.md §2.3).
    Seed
}
bytes32! {
    /// The prover id: a miner's actor number as LEB128, zero-filled (proofs.md §1.8).
    ProverId
}

impl ProverId {
    /// The prover id of a miner actor.
    pub fn from_actor(actor: crate::ActorId) -> Self {
        let mut out = [0u8; 32];
        let mut rest = actor.0;
        for byte in &mut out {
            *byte = (rest & 0x7f) as u8;
            rest >>= 7;
            if rest == 0 {
                break;
            }
            *byte |= 0x80;
        }
        Self(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ActorId;
    use proptest::prelude::*;

    #[test]
    fn prover_id_is_leb128() {
        // proofs.md §1.8: actor 1000 is e8 07.
        assert_eq!(ProverId::from_actor(ActorId(1000)).0[..3], [0xe8, 0x07, 0]);
        assert_eq!(ProverId::from_actor(ActorId(0)).0, [0; 32]);
        assert_eq!(ProverId::from_actor(ActorId(127)).0[..2], [0x7f, 0]);
        assert_eq!(ProverId::from_actor(ActorId(u64::MAX)).0[9], 1);
    }

    #[test]
    fn bad_hex_is_refused_with_the_text() {
        for bad in ["", "00", "zz", &"0".repeat(63), &"0".repeat(65), "0x"] {
            assert_eq!(bad.parse::<Ticket>().unwrap_err().got, bad);
        }
    }

    proptest! {
        #[test]
        fn text_json_and_cbor_round_trip(bytes: [u8; 32]) {
            let value = Commitment(bytes);
            prop_assert_eq!(value.to_string().parse::<Commitment>().unwrap(), value);
            let json = serde_json::to_string(&value).unwrap();
            prop_assert_eq!(serde_json::from_str::<Commitment>(&json).unwrap(), value);
            let cbor = serde_cbor::to_vec(&value).unwrap();
            prop_assert_eq!(cbor.len(), 34);
            prop_assert_eq!(serde_cbor::from_slice::<Commitment>(&cbor).unwrap(), value);
        }

        #[test]
        fn other_lengths_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            prop_assume!(bytes.len() != 32);
            let cbor = serde_cbor::to_vec(&serde_cbor::Value::Bytes(bytes)).unwrap();
            prop_assert!(serde_cbor::from_slice::<Commitment>(&cbor).is_err());
        }
    }
}
