//! Replica ids and labels: PC1 (proofs.md §4), and the key of a sector again for unsealing (§11.1).

mod buffer;
mod layers;
#[allow(unsafe_code)]
mod prefetch;

pub use buffer::LayerBuffer;
pub use layers::{generate_layers, last_layer};

use crate::Node;
use crate::params::{BASE_DEGREE, DEGREE};
use crate::sha256::label::LabelHasher;
use crate::sha256::{self, Backend, Block};
use primitives::{Commitment, ProverId, ReplicaId, SectorNumber, Ticket};

/// The replica id of a sector (proofs.md §4.1). The sector's number is big-endian here.
pub fn replica_id(
    prover: &ProverId,
    sector: SectorNumber,
    ticket: &Ticket,
    comm_d: &Commitment,
    porep_id: &[u8; 32],
) -> ReplicaId {
    let mut message = [0u8; 136];
    message[..32].copy_from_slice(&prover.0);
    message[32..40].copy_from_slice(&sector.0.to_be_bytes());
    message[40..72].copy_from_slice(&ticket.0);
    message[72..104].copy_from_slice(&comm_d.0);
    message[104..].copy_from_slice(porep_id);
    ReplicaId(sha256::truncate(sha256::digest(&message)))
}

/// The block before a label's parents (proofs.md §4.2).
fn prefix(replica_id: &ReplicaId, layer: u32, node: u64) -> Block {
    let mut block = [0u8; 64];
    block[..32].copy_from_slice(&replica_id.0);
    block[32..36].copy_from_slice(&layer.to_be_bytes());
    block[36..44].copy_from_slice(&node.to_be_bytes());
    block
}

/// The number of parents of a node on a layer: none for node 0, 6 on layer 1, 14 above (proofs.md §4.2).
pub const fn parent_count(layer: u32, node: u64) -> usize {
    match (layer, node) {
        (_, 0) => 0,
        (1, _) => BASE_DEGREE,
        _ => DEGREE,
    }
}

/// A label was to be computed from another number of parents than it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("node {node} of layer {layer} has {expected} parents, got {got}")]
pub struct WrongParentCount {
    /// The layer, from 1.
    pub layer: u32,
    /// The node.
    pub node: u64,
    /// Parents it has.
    pub expected: usize,
    /// Parents given.
    pub got: usize,
}

/// The label of a node from its parents' labels: the base parents' of the same layer, then, above layer 1, the expander
/// parents' of the layer before (proofs.md §4.2). Layers count from 1.
///
/// # Errors
/// [`WrongParentCount`] unless there are [`parent_count`] labels.
pub fn label_of(
    replica_id: &ReplicaId,
    layer: u32,
    node: u64,
    parents: &[Node],
) -> Result<Node, WrongParentCount> {
    let expected = parent_count(layer, node);
    if parents.len() != expected {
        return Err(WrongParentCount { layer, node, expected, got: parents.len() });
    }
    let block = prefix(replica_id, layer, node);
    if parents.is_empty() {
        return Ok(sha256::truncate(sha256::digest(&block)));
    }
    let hasher = LabelHasher::new(Backend::detect());
    let midstate = hasher.prefix(&block);
    Ok(if expected == BASE_DEGREE {
        hasher.label::<BASE_DEGREE>(&midstate, std::array::from_fn(|i| &parents[i]), &block).0
    } else {
        hasher.label::<DEGREE>(&midstate, std::array::from_fn(|i| &parents[i]), &block).0
    })
}

#[cfg(test)]
mod tests;
