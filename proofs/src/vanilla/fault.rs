//! Why the verifier refuses a proof, down to partition, challenge and part.

use crate::tree::path::PathFault;
use std::fmt;

/// What a fault is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// The data node in tree-D.
    TreeD,
    /// The replica node in tree-R-last.
    TreeRLast,
    /// The challenge's column in tree-C.
    Column,
    /// The column of base parent 0 to 5.
    BaseParent(usize),
    /// The column of expander parent 0 to 7.
    ExpanderParent(usize),
}

impl fmt::Display for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Opened::TreeD => f.write_str("the tree-D proof"),
            Opened::TreeRLast => f.write_str("the tree-R-last proof"),
            Opened::Column => f.write_str("the column of the challenge"),
            Opened::BaseParent(i) => write!(f, "the column of base parent {i}"),
            Opened::ExpanderParent(i) => write!(f, "the column of expander parent {i}"),
        }
    }
}

/// What is wrong with the proof of one challenge. Values are in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChallengeFault {
    /// An inclusion proof does not hold.
    #[error("{of}: {fault}")]
    Path {
        /// Which.
        of: Opened,
        /// Why.
        fault: PathFault,
    },
    /// An inclusion proof holds for another root.
    #[error("{of}: the root is {got}, expected {expected}")]
    Root {
        /// Which.
        of: Opened,
        /// The root that belongs to the sector.
        expected: String,
        /// The root of the proof.
        got: String,
    },
    /// A column is that of another node than the graph says.
    #[error("{of}: the index is {got}, expected {expected}")]
    ColumnIndex {
        /// Which.
        of: Opened,
        /// The challenge, or its parent in the graph.
        expected: u64,
        /// The index given.
        got: u64,
    },
    /// A list has another length than it must have.
    #[error("{got} {what}, expected {expected}")]
    Count {
        /// Of what.
        what: &'static str,
        /// As many as there must be.
        expected: usize,
        /// As many as there are.
        got: usize,
    },
    /// A label, data or replica node is not a field element.
    #[error("{what} is not a field element: {got}")]
    NotCanonical {
        /// What.
        what: String,
        /// Its bytes.
        got: String,
    },
    /// The leaf of a column's inclusion proof is not the hash of the column.
    #[error("{of}: the leaf is {got}, the labels hash to {expected}")]
    ColumnHash {
        /// Which.
        of: Opened,
        /// The hash of the column.
        expected: String,
        /// The leaf.
        got: String,
    },
    /// A labelling or encoding proof is of another layer or node.
    #[error("{of}: the {field} is {got}, expected {expected}")]
    Number {
        /// Which proof.
        of: Stage,
        /// `layer_index` or `node`.
        field: &'static str,
        /// What it must be.
        expected: u64,
        /// What it is.
        got: u64,
    },
    /// A listed parent label is not that of the opened column.
    #[error("{of}: parent label {position} is {got}, the opened column has {expected}")]
    Parent {
        /// Which proof.
        of: Stage,
        /// 0 to 36.
        position: usize,
        /// The label in the column.
        expected: String,
        /// The label listed.
        got: String,
    },
    /// The parents do not hash to the challenge's label.
    #[error("{of}: the parents give the label {expected}, the column has {got}")]
    Label {
        /// Which proof.
        of: Stage,
        /// The hash.
        expected: String,
        /// The label in the column.
        got: String,
    },
    /// The replica node is not the data node plus the key.
    #[error("the replica node is {got}, data and key give {expected}")]
    Encoding {
        /// The sum.
        expected: String,
        /// The replica node.
        got: String,
    },
}

/// A proof about a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The labelling proof of this layer, from 1.
    Labeling(usize),
    /// The encoding proof.
    Encoding,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::Labeling(layer) => write!(f, "the labelling proof of layer {layer}"),
            Stage::Encoding => f.write_str("the encoding proof"),
        }
    }
}

/// Why vanilla proofs are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VanillaError {
    /// A value stated with the proofs is not the one they were checked for.
    #[error("the {what} is {got}, expected {expected}")]
    Stated {
        /// Which value.
        what: &'static str,
        /// As it must be, in hexadecimal.
        expected: String,
        /// As stated, in hexadecimal.
        got: String,
    },
    /// A public value is all zero or not a field element.
    #[error("the {what} is {problem}: {got}")]
    Public {
        /// Which value.
        what: &'static str,
        /// `all zero` or `not a field element`.
        problem: &'static str,
        /// The value in hexadecimal.
        got: String,
    },
    /// The configuration asks for too few challenges.
    #[error("{got} challenges, the sector size needs {expected}")]
    Requirement {
        /// The minimum.
        expected: usize,
        /// What the configuration gives.
        got: usize,
    },
    /// Not one list of proofs for each partition.
    #[error("{got} partitions, expected {expected}")]
    Partitions {
        /// As many as there must be.
        expected: usize,
        /// As many as there are.
        got: usize,
    },
    /// Not one proof for each challenge.
    #[error("partition {partition}: {got} challenge proofs, expected {expected}")]
    Challenges {
        /// The partition, from 0.
        partition: usize,
        /// As many as there must be.
        expected: usize,
        /// As many as there are.
        got: usize,
    },
    /// The roots the partition's first proof opens do not make up CommR.
    #[error(
        "partition {partition}: CommC {comm_c} and CommRLast {comm_r_last} give {got}, CommR is {expected}"
    )]
    CommR {
        /// The partition, from 0.
        partition: usize,
        /// Root of tree-C.
        comm_c: String,
        /// Root of tree-R-last.
        comm_r_last: String,
        /// CommR.
        expected: String,
        /// The hash of the two, or why there is none.
        got: String,
    },
    /// The proof of one challenge is wrong.
    #[error("partition {partition}, challenge {number} (node {node}): {fault}")]
    Challenge {
        /// The partition, from 0.
        partition: usize,
        /// The challenge within the partition, from 0.
        number: usize,
        /// The challenged node.
        node: u64,
        /// What is wrong.
        fault: Box<ChallengeFault>,
    },
}
