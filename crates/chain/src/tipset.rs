//! Tipsets and what is read from them (`chain.md` §1.5).

use crate::ExitCode;
use crate::cbor;
use cid::Cid;
use primitives::Epoch;
use serde::{Deserialize, Serialize};
use serde_tuple::{Deserialize_tuple, Serialize_tuple};
use std::fmt;

/// The ordered block CIDs of a tipset. Empty stands for the current head; it is dangerous in a sequence of questions,
/// because head may move between them (`chain.md` §7.8).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TipsetKey(pub Vec<Cid>);

impl TipsetKey {
    /// The key that stands for the current head.
    pub const HEAD: TipsetKey = TipsetKey(Vec::new());

    /// Whether this is [`TipsetKey::HEAD`].
    pub fn is_head(&self) -> bool {
        self.0.is_empty()
    }

    /// The concatenated CIDs.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(Cid::to_bytes).collect()
    }

    /// The key's own CID: that of one CBOR byte string with the concatenated CIDs.
    pub fn cid(&self) -> Cid {
        cbor::cid_of(&serde_bytes::ByteBuf::from(self.to_bytes()))
    }
}

impl From<Cid> for TipsetKey {
    fn from(block: Cid) -> Self {
        Self(vec![block])
    }
}

impl fmt::Display for TipsetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, cid) in self.0.iter().enumerate() {
            write!(f, "{}{cid}", if i == 0 { "" } else { "," })?;
        }
        f.write_str("}")
    }
}

/// A tipset: its key, its height and its parents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tipset {
    /// The block CIDs.
    pub key: TipsetKey,
    /// The epoch.
    pub height: Epoch,
    /// The parents' key; empty for genesis.
    pub parents: TipsetKey,
}

/// The receipt of an executed message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize_tuple, Deserialize_tuple)]
pub struct Receipt {
    /// How the execution ended.
    pub exit_code: ExitCode,
    /// The return value, encoded; empty when there is none.
    #[serde(with = "serde_bytes")]
    pub return_data: Vec<u8>,
    /// Gas used.
    pub gas_used: u64,
    /// The root of the events, if any.
    pub events_root: Option<Cid>,
}

/// Where a message was found (`chain.md` §1.5: the execution tipset is the *child* of the one that includes it).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lookup {
    /// The message found; on a real network it may be a replacement with another CID.
    pub message: Cid,
    /// Its receipt.
    pub receipt: Receipt,
    /// The tipset in which receipt and effects are visible.
    pub tipset: TipsetKey,
    /// The height of that tipset.
    pub height: Epoch,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_cids_in_order() {
        let (a, b) = (cbor::cid_of(&1u8), cbor::cid_of(&2u8));
        let key = TipsetKey(vec![a, b]);
        assert_eq!(key.to_bytes(), [a.to_bytes(), b.to_bytes()].concat());
        assert_ne!(key.cid(), TipsetKey(vec![b, a]).cid());
        assert_eq!(key.to_string(), format!("{{{a},{b}}}"));
        assert!(TipsetKey::HEAD.is_head() && !key.is_head());
    }

    #[test]
    fn a_receipt_is_a_tuple_of_four() {
        let receipt =
            Receipt { exit_code: ExitCode::OK, return_data: vec![0x82], gas_used: 7, events_root: None };
        assert_eq!(hex::encode(cbor::encode(&receipt)), "8400418207f6");
        assert_eq!(cbor::decode::<Receipt>("x", &cbor::encode(&receipt)).unwrap(), receipt);
    }
}
