//! The encoding of everything that goes to the chain: tuple CBOR and its CIDs (`chain.md` §1.1, §1.2).

use crate::{Error, Result};
use cid::Cid;
use multihash::Multihash;
use serde::Serialize;
use serde::de::DeserializeOwned;

const DAG_CBOR: u64 = 0x71;
const BLAKE2B_256: u64 = 0xb220;

/// Encodes a value of this crate.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    fvm_ipld_encoding::to_vec(value).expect("the types of this crate have no form that CBOR cannot hold")
}

/// Decodes `bytes` as `what`; refuses trailing bytes.
///
/// # Errors
/// [`Error::Decode`].
pub fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T> {
    fvm_ipld_encoding::from_slice(bytes)
        .map_err(|e| Error::Decode { what: what.to_owned(), reason: e.to_string() })
}

/// BLAKE2b with 32 bytes of output.
pub fn blake2b_256(bytes: &[u8]) -> [u8; 32] {
    let hash = blake2b_simd::Params::new().hash_length(32).hash(bytes);
    hash.as_bytes().try_into().expect("32 bytes were asked for")
}

/// The CID of encoded bytes: version 1, dag-cbor, BLAKE2b-256.
pub fn cid_of_bytes(bytes: &[u8]) -> Cid {
    let hash = Multihash::<64>::wrap(BLAKE2B_256, &blake2b_256(bytes)).expect("32 bytes fit in 64");
    Cid::new_v1(DAG_CBOR, hash)
}

/// The CID of a value's encoding.
pub fn cid_of<T: Serialize>(value: &T) -> Cid {
    cid_of_bytes(&encode(value))
}
