//! Blocks of the development chain: what a block is, and where its randomness comes from.
//!
//! One block makes a tipset and there are no null rounds. A block is a function of its parent, its messages and the
//! outcome of its parent's messages, so the same seed and the same messages give the same CIDs. The header is our own
//! form, not the sixteen fields of a real network.

use super::state::Change;
use crate::randomness::{Tag, draw};
use crate::{ExitCode, Receipt, SignedMessage, Tipset, TipsetKey, cbor};
use cid::Cid;
use primitives::Epoch;
use serde::{Deserialize, Serialize};
use serde_tuple::{Deserialize_tuple, Serialize_tuple};

/// Randomness of the chain, from its seed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Randomness {
    /// The chain's seed.
    pub(super) seed: [u8; 32],
}

impl Randomness {
    fn stretch<const N: usize>(&self, what: &str, height: Epoch, fork: u64) -> [u8; N] {
        let mut bytes = self.seed.to_vec();
        bytes.extend_from_slice(what.as_bytes());
        bytes.extend_from_slice(&height.to_be_bytes());
        bytes.extend_from_slice(&fork.to_be_bytes());
        let mut out = [0; N];
        for (i, part) in out.chunks_mut(32).enumerate() {
            bytes.push(i as u8);
            part.copy_from_slice(&cbor::blake2b_256(&bytes)[..part.len()]);
            bytes.pop();
        }
        out
    }

    /// The VRF proof of the block at a height. Forks come with reorganisations; until then there is fork 0.
    pub(super) fn ticket_proof(&self, height: Epoch) -> [u8; 96] {
        self.stretch("ticket", height, 0)
    }

    /// The beacon entry of an epoch: one round for each epoch, and the same on every fork.
    pub(super) fn beacon_data(&self, height: Epoch) -> [u8; 48] {
        self.stretch("beacon", height, 0)
    }

    /// A ticket draw. The search for the tipset stops at genesis; the epoch goes into the hash as it is.
    pub(super) fn ticket(&self, tag: Tag, epoch: Epoch, entropy: &[u8]) -> [u8; 32] {
        draw(&self.ticket_proof(epoch.max(0)), tag, epoch, entropy)
    }

    /// A beacon draw, likewise.
    pub(super) fn beacon(&self, tag: Tag, epoch: Epoch, entropy: &[u8]) -> [u8; 32] {
        draw(&self.beacon_data(epoch.max(0)), tag, epoch, entropy)
    }
}

/// A message in a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize_tuple, Deserialize_tuple)]
pub(super) struct Included {
    /// The message.
    pub(super) signed: SignedMessage,
    /// The exit code that a fault knob forces on it.
    pub(super) forced: Option<ExitCode>,
}

/// What a block adds to its parent; what the log keeps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize_tuple, Deserialize_tuple)]
pub(super) struct Record {
    /// The messages, in order. They are executed with this block's epoch, and seen in its child.
    pub(super) messages: Vec<Included>,
    /// The receipts of the parent's messages.
    pub(super) receipts: Vec<Receipt>,
    /// What the parent's messages, and its end, changed.
    pub(super) changes: Vec<Change>,
}

#[derive(Serialize_tuple)]
struct Header<'a> {
    parent: &'a Cid,
    height: Epoch,
    state_root: &'a Cid,
    receipts_root: Cid,
    messages_root: Cid,
    #[serde(with = "serde_bytes")]
    ticket_proof: &'a [u8],
    #[serde(with = "serde_bytes")]
    beacon_data: &'a [u8],
}

/// The end of a chain: all that is needed to add a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tip {
    /// The block.
    pub(super) cid: Cid,
    /// Its parent; genesis has none.
    pub(super) parent: Option<Cid>,
    /// Its height.
    pub(super) height: Epoch,
    /// Commits to all changes so far: unchanged where nothing changed, else the CID of the root before and the changes.
    pub(super) state_root: Cid,
}

impl Tip {
    /// The genesis block of a chain with this identity.
    pub(super) fn genesis<T: Serialize>(identity: &T) -> Self {
        let state_root = cbor::cid_of(identity);
        let cid = cbor::cid_of(&("genesis", &state_root));
        Self { cid, parent: None, height: 0, state_root }
    }

    /// The block that adds `record` to this one.
    pub(super) fn child(&self, record: &Record, randomness: Randomness) -> Self {
        let height = self.height + 1;
        let state_root = match record.changes.as_slice() {
            [] => self.state_root,
            changes => cbor::cid_of(&(&self.state_root, changes)),
        };
        let messages: Vec<Cid> = record.messages.iter().map(|m| m.signed.cid()).collect();
        let header = Header {
            parent: &self.cid,
            height,
            state_root: &state_root,
            receipts_root: cbor::cid_of(&record.receipts),
            messages_root: cbor::cid_of(&messages),
            ticket_proof: &randomness.ticket_proof(height),
            beacon_data: &randomness.beacon_data(height),
        };
        Self { cid: cbor::cid_of(&header), parent: Some(self.cid), height, state_root }
    }

    /// The tipset of this block alone.
    pub(super) fn tipset(&self) -> Tipset {
        let parents = self.parent.map_or(TipsetKey::HEAD, TipsetKey::from);
        Tipset { key: self.cid.into(), height: self.height, parents }
    }
}
