//! Addresses (`chain.md` §1.3).

use primitives::ActorId;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The longest sub-address of a delegated address, in bytes.
const MAX_SUBADDRESS_LEN: usize = 54;
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// An address. Compare addresses as values, never as text: the prefix letter is presentation only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// An actor's number (`f0...`): what state stores.
    Id(u64),
    /// A secp256k1 account (`f1...`): BLAKE2b-160 of the public key.
    Secp256k1([u8; 20]),
    /// An actor's robust address (`f2...`).
    Actor([u8; 20]),
    /// A BLS account (`f3...`): the public key.
    Bls([u8; 48]),
    /// A delegated address (`f4...`).
    Delegated {
        /// The actor that gives these addresses.
        namespace: u64,
        /// At most 54 bytes.
        subaddress: Vec<u8>,
    },
}

/// Why something is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{got:?} is not an address: {reason}")]
pub struct AddressError {
    /// What was given, cut to a printable length.
    pub got: String,
    /// Why it is none.
    pub reason: &'static str,
}

fn leb128(mut value: u64, out: &mut Vec<u8>) {
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            return out.push(byte);
        }
        out.push(byte | 0x80);
    }
}

/// The value and the bytes after it; refuses over-long forms.
fn read_leb128(bytes: &[u8]) -> Result<(u64, &[u8]), &'static str> {
    let mut value = 0u64;
    for (i, byte) in bytes.iter().enumerate().take(10) {
        let part = u64::from(byte & 0x7f);
        if i == 9 && part > 1 {
            break;
        }
        value |= part << (7 * i);
        if byte & 0x80 == 0 {
            if i > 0 && part == 0 {
                return Err("the number is not in its shortest form");
            }
            return Ok((value, &bytes[i + 1..]));
        }
    }
    Err("the number is cut or larger than 64 bits")
}

fn base32(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(5) * 8);
    let (mut buffer, mut bits) = (0u32, 0);
    for byte in bytes {
        buffer = buffer << 8 | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            out.push(char::from(BASE32[(buffer >> bits & 31) as usize]));
        }
    }
    if bits > 0 {
        out.push(char::from(BASE32[(buffer << (5 - bits) & 31) as usize]));
    }
    out
}

/// `None` for foreign characters and for left-over bits that are not zero, so that each value has one text.
fn unbase32(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 5 / 8);
    let (mut buffer, mut bits) = (0u32, 0);
    for byte in text.bytes() {
        let digit = BASE32.iter().position(|b| *b == byte)?;
        buffer = buffer << 5 | digit as u32;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            out.push((buffer >> bits & 0xff) as u8);
        }
    }
    (bits < 5 && buffer & ((1 << bits) - 1) == 0).then_some(out)
}

fn checksum(protocol: u8, payload: &[u8]) -> [u8; 4] {
    let mut state = blake2b_simd::Params::new().hash_length(4).to_state();
    state.update(&[protocol]).update(payload);
    state.finalize().as_bytes().try_into().expect("4 bytes were asked for")
}

impl Address {
    /// The address of an actor's number.
    pub const fn id(actor: ActorId) -> Self {
        Address::Id(actor.0)
    }

    /// The number, if the address is one.
    pub fn as_id(&self) -> Option<ActorId> {
        match self {
            Address::Id(number) => Some(ActorId(*number)),
            _ => None,
        }
    }

    /// The protocol, 0 to 4.
    pub fn protocol(&self) -> u8 {
        match self {
            Address::Id(_) => 0,
            Address::Secp256k1(_) => 1,
            Address::Actor(_) => 2,
            Address::Bls(_) => 3,
            Address::Delegated { .. } => 4,
        }
    }

    /// The bytes after the protocol byte.
    pub fn payload(&self) -> Vec<u8> {
        match self {
            Address::Id(number) => {
                let mut out = Vec::new();
                leb128(*number, &mut out);
                out
            }
            Address::Secp256k1(hash) | Address::Actor(hash) => hash.to_vec(),
            Address::Bls(key) => key.to_vec(),
            Address::Delegated { namespace, subaddress } => {
                let mut out = Vec::new();
                leb128(*namespace, &mut out);
                out.extend_from_slice(subaddress);
                out
            }
        }
    }

    /// Protocol byte and payload.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![self.protocol()];
        out.extend(self.payload());
        out
    }

    /// The address in the form of [`Address::to_bytes`].
    ///
    /// # Errors
    /// [`AddressError`] for an unknown protocol or a payload of the wrong form.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, AddressError> {
        let wrong = |reason| AddressError { got: hex::encode(&bytes[..bytes.len().min(64)]), reason };
        let (protocol, payload) = bytes.split_first().ok_or(wrong("it is empty"))?;
        let length = || wrong("the payload has the wrong length");
        match protocol {
            0 => match read_leb128(payload).map_err(wrong)? {
                (number, []) => Ok(Address::Id(number)),
                _ => Err(length()),
            },
            1 => payload.try_into().map(Address::Secp256k1).map_err(|_| length()),
            2 => payload.try_into().map(Address::Actor).map_err(|_| length()),
            3 => payload.try_into().map(Address::Bls).map_err(|_| length()),
            4 => {
                let (namespace, subaddress) = read_leb128(payload).map_err(wrong)?;
                if subaddress.len() > MAX_SUBADDRESS_LEN {
                    return Err(length());
                }
                Ok(Address::Delegated { namespace, subaddress: subaddress.to_vec() })
            }
            _ => Err(wrong("the protocol is not one of 0 to 4")),
        }
    }

    /// The text with the prefix letter of a network: `f` or `t`.
    pub fn to_text(&self, prefix: char) -> String {
        let sum = |payload: &[u8]| {
            let mut bytes = payload.to_vec();
            bytes.extend(checksum(self.protocol(), &self.payload()));
            base32(&bytes)
        };
        match self {
            Address::Id(number) => format!("{prefix}0{number}"),
            Address::Delegated { namespace, subaddress } => {
                format!("{prefix}4{namespace}f{}", sum(subaddress))
            }
            _ => format!("{prefix}{}{}", self.protocol(), sum(&self.payload())),
        }
    }

    /// What randomness is bound to for a miner: the CBOR form of its *number* (`chain.md` §2.1).
    pub fn entropy(miner: ActorId) -> Vec<u8> {
        crate::cbor::encode(&Address::id(miner))
    }
}

/// With the prefix of development and test networks, `t`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.to_text('t'))
    }
}

fn parse(text: &str) -> Result<Address, &'static str> {
    let rest = text.strip_prefix(['f', 't']).ok_or("it begins with neither f nor t")?;
    let mut chars = rest.chars();
    let protocol = match chars.next() {
        Some(c @ '0'..='4') => c as u8 - b'0',
        _ => return Err("the second character is not one of 0 to 4"),
    };
    let body = chars.as_str();
    let decimal = |digits: &str| match digits.parse::<u64>() {
        // One text for each number: no sign, no leading zeros.
        Ok(number) if number.to_string() == digits => Ok(number),
        _ => Err("the number is not a plain 64-bit decimal"),
    };
    if protocol == 0 {
        return decimal(body).map(Address::Id);
    }
    let (namespace, body) = match protocol {
        4 => {
            let (namespace, body) = body.split_once('f').ok_or("the namespace does not end with f")?;
            (Some(decimal(namespace)?), body)
        }
        _ => (None, body),
    };
    if body.len() > 120 {
        return Err("it is too long");
    }
    let bytes = unbase32(body).ok_or("it is not base32")?;
    let (data, sum) = bytes.split_last_chunk::<4>().ok_or("the checksum is missing")?;
    let mut whole = vec![protocol];
    if let Some(namespace) = namespace {
        leb128(namespace, &mut whole);
    }
    whole.extend_from_slice(data);
    let address = Address::from_bytes(&whole).map_err(|e| e.reason)?;
    if checksum(protocol, &whole[1..]) != *sum {
        return Err("the checksum does not match");
    }
    Ok(address)
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        parse(text).map_err(|reason| AddressError { got: text.chars().take(120).collect(), reason })
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() { s.collect_str(self) } else { s.serialize_bytes(&self.to_bytes()) }
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        if d.is_human_readable() {
            return String::deserialize(d)?.parse().map_err(D::Error::custom);
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
        // chain-vectors.json, address_cbor.
        for (text, hex) in [("f0100", "420064"), ("f01000", "4300e807"), ("t01234", "4300d209")] {
            let address: Address = text.parse().unwrap();
            assert_eq!(hex::encode(cbor::encode(&address)), hex);
            assert_eq!(cbor::decode::<Address>("x", &hex::decode(hex).unwrap()).unwrap(), address);
        }
        // chain-vectors.json, signatures: key addresses.
        for text in [
            "f3vfm5zzbelqfxd32ek5v4e5kco5md6kkx4i3zmpsh63stfxrdpoczqzr3enr6b5jii7dgibzgp65eikkxbwza",
            "f1stsxmgygkr23vddmzlcpuh37exvatj5hkb7ovdy",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_text('f'), text);
        }
    }

    #[test]
    fn wrong_texts_are_refused() {
        for bad in [
            "",
            "f",
            "f0",
            "f0x",
            "f0+1",
            "f001",
            "f018446744073709551616",
            "x0100",
            "f5aaaa",
            "f1stsxmgygkr23vddmzlcpuh37exvatj5hkb7ovdz",
            "f1stsxmgygkr23vddmzlcpuh37exvatj5hkb7ovd",
            "F0100",
            "<empty>",
            "f410",
            "f4é",
            "é",
            "f4fa",
        ] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }

    fn any_address() -> impl Strategy<Value = Address> {
        prop_oneof![
            any::<u64>().prop_map(Address::Id),
            any::<[u8; 20]>().prop_map(Address::Secp256k1),
            any::<[u8; 20]>().prop_map(Address::Actor),
            any::<(u64, [u8; 24], [u8; 24])>()
                .prop_map(|(_, a, b)| Address::Bls([a, b].concat().try_into().unwrap())),
            (any::<u64>(), proptest::collection::vec(any::<u8>(), 0..=54))
                .prop_map(|(namespace, subaddress)| Address::Delegated { namespace, subaddress }),
        ]
    }

    proptest! {
        #[test]
        fn text_and_bytes_round_trip(address in any_address()) {
            prop_assert_eq!(&Address::from_bytes(&address.to_bytes()).unwrap(), &address);
            prop_assert_eq!(&address.to_text('f').parse::<Address>().unwrap(), &address);
            prop_assert_eq!(&address.to_string().parse::<Address>().unwrap(), &address);
            prop_assert_eq!(&cbor::decode::<Address>("x", &cbor::encode(&address)).unwrap(), &address);
            let json = serde_json::to_string(&address).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Address>(&json).unwrap(), &address);
        }

        #[test]
        fn bytes_have_one_form(bytes in proptest::collection::vec(any::<u8>(), 0..70), protocol in 0u8..6) {
            let bytes = [vec![protocol], bytes].concat();
            if let Ok(address) = Address::from_bytes(&bytes) {
                prop_assert_eq!(address.to_bytes(), bytes);
            }
        }

        #[test]
        fn hostile_text_never_panics(text in "\\PC{0,80}", body in "[a-z2-7f]{0,90}", n in 0..6) {
            let _ = text.parse::<Address>();
            let _ = format!("f{n}{body}").parse::<Address>();
        }
    }
}
