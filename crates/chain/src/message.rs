//! Messages, their signatures and their CIDs (`chain.md` §1.4).

use crate::cbor;
use crate::{Address, TokenAmount};
use cid::Cid;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_tuple::{Deserialize_tuple, Serialize_tuple};

/// The number of an actor's method.
pub type MethodNum = u64;

/// The methods this crate knows (`chain.md` §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Method {
    /// A plain transfer.
    Send = 0,
    /// `PreCommitSectorBatch2`.
    PreCommitSectorBatch2 = 28,
    /// `ProveCommitSectors3`.
    ProveCommitSectors3 = 34,
}

impl Method {
    /// The number on the wire.
    pub const fn number(self) -> MethodNum {
        self as u64
    }
}

/// A message: a tuple of ten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize_tuple, Deserialize_tuple)]
pub struct Message {
    /// Always 0.
    pub version: u64,
    /// The receiver.
    pub to: Address,
    /// The sender.
    pub from: Address,
    /// The sender's message count before this one.
    pub nonce: u64,
    /// What is sent along.
    pub value: TokenAmount,
    /// The most gas it may use.
    pub gas_limit: i64,
    /// The most that is paid for a unit of gas.
    pub gas_fee_cap: TokenAmount,
    /// The part of it offered to the block producer.
    pub gas_premium: TokenAmount,
    /// The method.
    pub method: MethodNum,
    /// Its parameters, encoded; empty when there are none.
    #[serde(with = "serde_bytes")]
    pub params: Vec<u8>,
}

impl Message {
    /// The message's CID, which is also what is signed (its 38 bytes).
    pub fn cid(&self) -> Cid {
        cbor::cid_of(self)
    }
}

/// A signature: a type byte and its data, or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signature {
    /// No signature. Only a chain that says so takes such messages; the development chain does until it checks
    /// signatures.
    Unsigned,
    /// Type 1, 65 bytes.
    Secp256k1(Vec<u8>),
    /// Type 2, 96 bytes.
    Bls(Vec<u8>),
    /// Type 3.
    Delegated(Vec<u8>),
}

impl Signature {
    fn to_bytes(&self) -> Vec<u8> {
        let (kind, data) = match self {
            Signature::Unsigned => return Vec::new(),
            Signature::Secp256k1(data) => (1, data),
            Signature::Bls(data) => (2, data),
            Signature::Delegated(data) => (3, data),
        };
        [&[kind], data.as_slice()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let Some((kind, data)) = bytes.split_first() else { return Ok(Signature::Unsigned) };
        match kind {
            1 => Ok(Signature::Secp256k1(data.to_vec())),
            2 => Ok(Signature::Bls(data.to_vec())),
            3 => Ok(Signature::Delegated(data.to_vec())),
            other => Err(format!("signature types are 1 to 3, got {other}")),
        }
    }
}

impl Serialize for Signature {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_bytes(&self.to_bytes())
    }
}

impl<'de> Deserialize<'de> for Signature {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let bytes = serde_bytes::ByteBuf::deserialize(d)?;
        Self::from_bytes(&bytes).map_err(D::Error::custom)
    }
}

/// A message with its signature: what is pushed. Its encoding ([`SignedMessage::to_bytes`]) is what an outbox keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize_tuple, Deserialize_tuple)]
pub struct SignedMessage {
    /// The message.
    pub message: Message,
    /// Its signature.
    pub signature: Signature,
}

impl SignedMessage {
    /// The CID that everything keyed by "message CID" uses: of the message alone for BLS (and without a signature), of
    /// the pair otherwise.
    pub fn cid(&self) -> Cid {
        match self.signature {
            Signature::Unsigned | Signature::Bls(_) => self.message.cid(),
            Signature::Secp256k1(_) | Signature::Delegated(_) => cbor::cid_of(self),
        }
    }

    /// The encoded pair.
    pub fn to_bytes(&self) -> Vec<u8> {
        cbor::encode(self)
    }

    /// The pair from [`SignedMessage::to_bytes`].
    ///
    /// # Errors
    /// [`crate::Error::Decode`].
    pub fn from_bytes(bytes: &[u8]) -> crate::Result<Self> {
        cbor::decode("signed message", bytes)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(
        to: &str,
        from: &str,
        nonce: u64,
        value: i128,
        gas: (i64, i128, i128),
        method: u64,
    ) -> Message {
        Message {
            version: 0,
            to: to.parse().unwrap(),
            from: from.parse().unwrap(),
            nonce,
            value: TokenAmount(value),
            gas_limit: gas.0,
            gas_fee_cap: TokenAmount(gas.1),
            gas_premium: TokenAmount(gas.2),
            method,
            params: vec![],
        }
    }

    #[test]
    fn known_answers() {
        // chain-vectors.json, messages.
        let zero = message("f00", "f00", 0, 0, (0, 0, 0), 0);
        assert_eq!(hex::encode(cbor::encode(&zero)), "8a0042000042000000400040400040");
        assert_eq!(zero.cid().to_string(), "bafy2bzaced3xdk2uf6azekyxgcttujvy3fzyeqmibtpjf2fxcpfdx2zcx4s3g");
        let mut power = message("f04", "f00", 34, 0, (123, 234, 234), 6);
        power.params = b"hai".to_vec();
        assert_eq!(power.cid().to_string(), "bafy2bzaced5rdpz57e64sc7mdwjn3blicglhpialnrph2dlbufhf6iha63dmc");
        let mut odd = message("f01234", "f01234", 42, 0, (9, 0, 0), 1);
        odd.version = 42;
        odd.params = b"byte array".to_vec();
        assert_eq!(odd.cid().to_string(), "bafy2bzacebbpdegvr3i4cosewthysg5xkxpqfn2wfcz6mv2hmoktwbdxkax4s");
        let mut prove =
            message("f01000", "f01001", 7, 1_000_000_000_000_000_000, (1_234_567, 100_000, 2_000), 34);
        prove.params = vec![0x83, 1];
        let hex = "8a004300e8074300e9070749000de0b6b3a76400001a0012d68744000186a0430007d01822428301";
        assert_eq!(hex::encode(cbor::encode(&prove)), hex);
        assert_eq!(cbor::decode::<Message>("x", &hex::decode(hex).unwrap()).unwrap(), prove);
        assert_eq!(prove.cid().to_string(), "bafy2bzaceavbdpd6acwpbhmzh5kejkhpjwr3qsxw3ej7newpirxxww4xu5vti");
    }

    #[test]
    fn the_cid_of_a_signed_message_depends_on_its_signature() {
        // chain-vectors.json, signatures.
        let gas = (1_234_567, 100_000, 2_000);
        let bls = "f3vfm5zzbelqfxd32ek5v4e5kco5md6kkx4i3zmpsh63stfxrdpoczqzr3enr6b5jii7dgibzgp65eikkxbwza";
        let mut one = message("f01000", bls, 7, 1_000_000_000_000_000_000, gas, 28);
        one.params = vec![0x81, 0x80];
        let cid = "bafy2bzacealgtvnorkxumik7seus6g4uwlnlw4suqkefyi7y7ktqjthrnwtbo";
        assert_eq!(one.cid().to_string(), cid);
        let signed = SignedMessage { message: one.clone(), signature: Signature::Bls(vec![1; 96]) };
        assert_eq!(signed.cid().to_string(), cid);

        one.from = "f1stsxmgygkr23vddmzlcpuh37exvatj5hkb7ovdy".parse().unwrap();
        assert_eq!(one.cid().to_string(), "bafy2bzacebijpg2lch5j4js2bkrhvidftt3dabji64qoy7xaji5x6733bidn2");
        let data = "251afbc78a8251f15d9368d2b8fa03c9a62e312f909cbba63be0781dcb886be71299535adbefd4fbdfae7bbb90fd9c2d\
                    e6d12c06e109da78a68704c32d7366f600";
        let signed =
            SignedMessage { message: one, signature: Signature::Secp256k1(hex::decode(data).unwrap()) };
        assert_eq!(
            signed.cid().to_string(),
            "bafy2bzacecubeb4far2gv5o4xhywwszxsqduxrjr7wvhildnpvvpotnmrfkaa"
        );
    }

    prop_compose! {
        /// Any message from one number to another.
        pub(crate) fn any_message()(
            ids in any::<(u64, u64)>(), nonce: u64, value in -1i128..i128::MAX, gas in any::<(i64, u64, u64)>(),
            method: u64, params in proptest::collection::vec(any::<u8>(), 0..100)
        ) -> Message {
            Message {
                version: 0, to: Address::Id(ids.0), from: Address::Id(ids.1), nonce, value: TokenAmount(value),
                gas_limit: gas.0, gas_fee_cap: TokenAmount(gas.1.into()), gas_premium: TokenAmount(gas.2.into()),
                method, params,
            }
        }
    }

    proptest! {
        #[test]
        fn round_trip(message in any_message(), data in proptest::collection::vec(any::<u8>(), 0..100), kind in 0..4) {
            let signature = match kind {
                0 => Signature::Unsigned,
                1 => Signature::Secp256k1(data),
                2 => Signature::Bls(data),
                _ => Signature::Delegated(data),
            };
            let signed = SignedMessage { message, signature };
            prop_assert_eq!(SignedMessage::from_bytes(&signed.to_bytes()).unwrap(), signed);
        }

        #[test]
        fn hostile_bytes_never_panic(
            message in any_message(), at in any::<prop::sample::Index>(), to: u8, cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = SignedMessage { message, signature: Signature::Unsigned }.to_bytes();
            let mut changed = bytes.clone();
            changed[at.index(bytes.len())] = to;
            // A changed byte may well give another message, also one that takes in what follows.
            let _ = SignedMessage::from_bytes(&changed);
            let cut = cut.index(bytes.len());
            prop_assert!(SignedMessage::from_bytes(&bytes[..cut]).is_err());
            bytes.push(0);
            prop_assert!(SignedMessage::from_bytes(&bytes).is_err());
        }
    }
}
