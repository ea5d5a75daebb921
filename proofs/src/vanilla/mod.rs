//! Vanilla proofs: the opened columns, labels and paths that a SNARK later proves knowledge of (proofs.md §8).
//!
//! The types here are the reference's, field by field, because their JSON and byte forms are interchanged. [`prove`]
//! makes them from a sector's files, [`verify`] checks them, [`wire`] is the C1 output as other tools read it.

mod fault;
pub mod prove;
pub mod verify;
pub mod wire;

use crate::Node;
use crate::codec::{CodecError, Reader, Writer};
use crate::tree::path::MerkleProof;
use serde::{Deserialize, Serialize};

/// Parent labels in a label's message (proofs.md §4.2).
pub const REPEATED_PARENTS: usize = 37;

/// The labels of one node in all layers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// The node.
    pub index: u32,
    /// Its labels, layer 1 first.
    pub rows: Vec<Node>,
    /// A field without content, `null` in JSON.
    #[serde(rename = "_h")]
    pub phantom: (),
}

/// A column and the proof that its hash is in tree-C.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnProof {
    /// The column.
    pub column: Column,
    /// From the column hash to CommC.
    pub inclusion_proof: MerkleProof,
}

/// The columns of a challenge and of its parents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaColumnProof {
    /// Of the challenge.
    pub c_x: ColumnProof,
    /// Of its 6 base parents in graph order, repeated ones repeated.
    pub drg_parents: Vec<ColumnProof>,
    /// Of its 8 expander parents in graph order, repeated ones repeated.
    pub exp_parents: Vec<ColumnProof>,
}

/// What a label was made of; of the last layer also what the encoding key was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelingProof {
    /// The 37 parent labels as they were hashed.
    pub parents: Vec<Node>,
    /// The layer, from 1.
    pub layer_index: u32,
    /// The node.
    pub node: u64,
}

/// Same fields as a labelling proof, for the key that encodes the data node.
pub type EncodingProof = LabelingProof;

/// Everything that is opened for one challenge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChallengeProof {
    /// The data node in tree-D.
    pub comm_d_proofs: MerkleProof,
    /// The replica node in tree-R-last.
    pub comm_r_last_proof: MerkleProof,
    /// Columns in tree-C.
    pub replica_column_proofs: ReplicaColumnProof,
    /// One for each layer.
    pub labeling_proofs: Vec<LabelingProof>,
    /// Of the key.
    pub encoding_proof: EncodingProof,
}

impl ChallengeProof {
    /// Writes the byte form (bincode 1).
    pub fn encode(&self, out: &mut Writer) {
        self.comm_d_proofs.encode(out);
        self.comm_r_last_proof.encode(out);
        self.replica_column_proofs.c_x.encode(out);
        out.list(&self.replica_column_proofs.drg_parents, |out, c| c.encode(out));
        out.list(&self.replica_column_proofs.exp_parents, |out, c| c.encode(out));
        out.list(&self.labeling_proofs, |out, l| l.encode(out));
        self.encoding_proof.encode(out);
    }

    /// Reads the byte form.
    pub fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            comm_d_proofs: MerkleProof::decode(input)?,
            comm_r_last_proof: MerkleProof::decode(input)?,
            replica_column_proofs: ReplicaColumnProof {
                c_x: ColumnProof::decode(input)?,
                drg_parents: input.list("drg_parents", ColumnProof::decode)?,
                exp_parents: input.list("exp_parents", ColumnProof::decode)?,
            },
            labeling_proofs: input.list("labeling_proofs", LabelingProof::decode)?,
            encoding_proof: LabelingProof::decode(input)?,
        })
    }
}

impl ColumnProof {
    fn encode(&self, out: &mut Writer) {
        out.u32(self.column.index);
        out.list(&self.column.rows, Writer::node);
        self.inclusion_proof.encode(out);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        let index = input.u32("column index")?;
        let rows = input.list("column rows", |input| input.node("row"))?;
        Ok(Self { column: Column { index, rows, phantom: () }, inclusion_proof: MerkleProof::decode(input)? })
    }
}

impl LabelingProof {
    fn encode(&self, out: &mut Writer) {
        out.list(&self.parents, Writer::node);
        out.u32(self.layer_index);
        out.u64(self.node);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            parents: input.list("parents", |input| input.node("parent"))?,
            layer_index: input.u32("layer_index")?,
            node: input.u64("node")?,
        })
    }
}

/// The 37 labels hashed for a node in `layer`, from the columns of its base and expander parents: on layer 1 the base
/// parents again and again, above it base parents of the same and expander parents of the layer before (proofs.md §4.2).
///
/// # Panics
/// If there is no parent, or a column has fewer than `layer` rows.
pub(crate) fn repeated_parents(layer: usize, drg: &[&[Node]], exp: &[&[Node]]) -> Vec<Node> {
    let mut once: Vec<Node> = drg.iter().map(|rows| rows[layer - 1]).collect();
    if layer > 1 {
        once.extend(exp.iter().map(|rows| rows[layer - 2]));
    }
    once.iter().copied().cycle().take(REPEATED_PARENTS).collect()
}
