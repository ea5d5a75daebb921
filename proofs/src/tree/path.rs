//! Inclusion proofs: their forms, their checks (proofs.md §8.1).

use super::TreeHash;
use crate::codec::{CodecError, Reader, Writer};
use crate::field::Fr;
use crate::params::SectorShape;
use crate::{Node, poseidon, sha256};
use serde::{Deserialize, Serialize};

/// One level: the running node's position among its siblings, and the siblings in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathElement {
    /// The other children of the parent, the running node left out.
    pub hashes: Vec<Node>,
    /// Position of the running node, `0..arity`.
    pub index: u64,
}

/// Levels from the lowest up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InclusionPath {
    /// The levels.
    pub path: Vec<PathElement>,
}

/// The three forms of a proof, by the tree's shape. The field order is the reference's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProofData {
    /// Shape `b-0-0`, and tree-D.
    Single {
        /// Root of the tree.
        root: Node,
        /// The leaf.
        leaf: Node,
        /// From the leaf to the root.
        path: InclusionPath,
    },
    /// Shape `b-s-0`.
    Sub {
        /// Within the base tree.
        base_proof: InclusionPath,
        /// Over the base roots, one level.
        sub_proof: InclusionPath,
        /// Root of the tree.
        root: Node,
        /// The leaf.
        leaf: Node,
    },
    /// Shape `b-s-t`.
    Top {
        /// Within the base tree.
        base_proof: InclusionPath,
        /// Over the base roots, one level.
        sub_proof: InclusionPath,
        /// Over the sub roots, one level.
        top_proof: InclusionPath,
        /// Root of the tree.
        root: Node,
        /// The leaf.
        leaf: Node,
    },
}

/// A proof that a leaf is in a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MerkleProof {
    /// The form.
    pub data: ProofData,
}

/// What a proof must look like: the arity of each level, lowest first, split into its paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathShape {
    base: (usize, usize),
    sub: usize,
    top: usize,
    sha: bool,
}

/// Why a proof does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// The form is that of another shape of tree.
    #[error("the form is {got}, expected {expected}")]
    Form {
        /// The form of this shape.
        expected: &'static str,
        /// The form given.
        got: &'static str,
    },
    /// A path is too long or too short.
    #[error("the {part} path has {got} levels, expected {expected}")]
    Levels {
        /// Which path: `base`, `sub` or `top`.
        part: &'static str,
        /// Levels of this shape.
        expected: usize,
        /// Levels given.
        got: usize,
    },
    /// A level has too many or too few siblings.
    #[error("level {level} has {got} siblings, expected {expected}")]
    Siblings {
        /// Counted from the leaves, 0 first.
        level: usize,
        /// The arity less one.
        expected: usize,
        /// Siblings given.
        got: usize,
    },
    /// The path leads to another leaf than was asked for.
    #[error("the position at level {level} is {got}, expected {expected}")]
    Position {
        /// Counted from the leaves, 0 first.
        level: usize,
        /// The digit of the leaf's index.
        expected: u64,
        /// The position given.
        got: u64,
    },
    /// A node is not a field element.
    #[error("a node at level {level} is not a field element")]
    NotCanonical {
        /// Counted from the leaves, 0 first.
        level: usize,
    },
    /// The path does not end in the proof's root.
    #[error("the path leads to {got}, the stated root is {expected}")]
    Root {
        /// The root the proof states, in hexadecimal.
        expected: String,
        /// What the path hashes to, in hexadecimal.
        got: String,
    },
}

impl PathShape {
    /// Of tree-D over `nodes` nodes.
    pub fn tree_d(nodes: u64) -> Self {
        Self { base: (2, nodes.ilog2() as usize), sub: 0, top: 0, sha: true }
    }

    /// Of tree-C and tree-R-last of a sector.
    pub fn octal(shape: &SectorShape) -> Self {
        Self {
            base: (shape.base_arity(), shape.rows() - 1),
            sub: shape.sub_arity,
            top: shape.top_arity,
            sha: false,
        }
    }

    fn form(&self) -> &'static str {
        match (self.sub, self.top) {
            (0, _) => "Single",
            (_, 0) => "Sub",
            _ => "Top",
        }
    }

    /// The parent of `node` at place `index` among `siblings`; `None` if one is not a field element.
    fn parent(&self, node: &Node, index: usize, siblings: &[Node]) -> Option<Node> {
        let mut children = siblings.to_vec();
        children.insert(index, *node);
        if self.sha {
            return Some(sha256::node(&children[0], &children[1]));
        }
        let elements: Option<Vec<Fr>> = children.iter().map(Fr::from_bytes_le).collect();
        Some(poseidon::merkle(&elements?).to_bytes_le())
    }
}

impl ProofData {
    fn form(&self) -> &'static str {
        match self {
            ProofData::Single { .. } => "Single",
            ProofData::Sub { .. } => "Sub",
            ProofData::Top { .. } => "Top",
        }
    }
}

impl MerkleProof {
    /// Puts paths into the form of their shape.
    pub(super) fn assemble(shape: &PathShape, leaf: Node, root: Node, mut levels: Vec<PathElement>) -> Self {
        let mut upper = levels.split_off(shape.base.1).into_iter();
        let mut one_level = || InclusionPath { path: upper.next().into_iter().collect() };
        let base = InclusionPath { path: levels };
        let data = match (shape.sub, shape.top) {
            (0, _) => ProofData::Single { root, leaf, path: base },
            (_, 0) => ProofData::Sub { base_proof: base, sub_proof: one_level(), root, leaf },
            _ => ProofData::Top {
                base_proof: base,
                sub_proof: one_level(),
                top_proof: one_level(),
                root,
                leaf,
            },
        };
        Self { data }
    }

    /// The root the proof states.
    pub fn root(&self) -> &Node {
        match &self.data {
            ProofData::Single { root, .. } | ProofData::Sub { root, .. } | ProofData::Top { root, .. } => {
                root
            }
        }
    }

    /// The leaf.
    pub fn leaf(&self) -> &Node {
        match &self.data {
            ProofData::Single { leaf, .. } | ProofData::Sub { leaf, .. } | ProofData::Top { leaf, .. } => {
                leaf
            }
        }
    }

    /// The paths in order, with their names.
    fn parts(&self) -> Vec<(&'static str, &InclusionPath)> {
        match &self.data {
            ProofData::Single { path, .. } => vec![("base", path)],
            ProofData::Sub { base_proof, sub_proof, .. } => vec![("base", base_proof), ("sub", sub_proof)],
            ProofData::Top { base_proof, sub_proof, top_proof, .. } => {
                vec![("base", base_proof), ("sub", sub_proof), ("top", top_proof)]
            }
        }
    }

    /// Checks form, lengths, that the path is that of leaf `index`, and that it hashes to the stated root. Whether that
    /// root is the right one, and the leaf, is for the caller.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, shape: &PathShape, index: u64) -> Result<(), PathFault> {
        if self.data.form() != shape.form() {
            return Err(PathFault::Form { expected: shape.form(), got: self.data.form() });
        }
        let mut node = *self.leaf();
        let mut rest = index;
        let mut level = 0;
        for ((part, path), (arity, levels)) in
            self.parts().into_iter().zip([shape.base, (shape.sub, 1), (shape.top, 1)])
        {
            if path.path.len() != levels {
                return Err(PathFault::Levels { part, expected: levels, got: path.path.len() });
            }
            for element in &path.path {
                let expected = rest % arity as u64;
                rest /= arity as u64;
                if element.hashes.len() != arity - 1 {
                    return Err(PathFault::Siblings {
                        level,
                        expected: arity - 1,
                        got: element.hashes.len(),
                    });
                }
                if element.index != expected {
                    return Err(PathFault::Position { level, expected, got: element.index });
                }
                node = shape
                    .parent(&node, expected as usize, &element.hashes)
                    .ok_or(PathFault::NotCanonical { level })?;
                level += 1;
            }
        }
        if node != *self.root() {
            return Err(PathFault::Root { expected: hex::encode(self.root()), got: hex::encode(node) });
        }
        Ok(())
    }

    /// Writes the byte form.
    pub fn encode(&self, out: &mut Writer) {
        match &self.data {
            ProofData::Single { root, leaf, path } => {
                out.u32(0);
                out.node(root);
                out.node(leaf);
                path.encode(out);
            }
            ProofData::Sub { base_proof, sub_proof, root, leaf } => {
                out.u32(1);
                base_proof.encode(out);
                sub_proof.encode(out);
                out.node(root);
                out.node(leaf);
            }
            ProofData::Top { base_proof, sub_proof, top_proof, root, leaf } => {
                out.u32(2);
                base_proof.encode(out);
                sub_proof.encode(out);
                top_proof.encode(out);
                out.node(root);
                out.node(leaf);
            }
        }
    }

    /// Reads the byte form.
    pub fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        let data = match input.u32("proof form")? {
            0 => {
                let (root, leaf) = (input.node("root")?, input.node("leaf")?);
                ProofData::Single { root, leaf, path: InclusionPath::decode(input)? }
            }
            1 => {
                let (base_proof, sub_proof) = (InclusionPath::decode(input)?, InclusionPath::decode(input)?);
                ProofData::Sub { base_proof, sub_proof, root: input.node("root")?, leaf: input.node("leaf")? }
            }
            2 => {
                let (base_proof, sub_proof) = (InclusionPath::decode(input)?, InclusionPath::decode(input)?);
                let top_proof = InclusionPath::decode(input)?;
                let (root, leaf) = (input.node("root")?, input.node("leaf")?);
                ProofData::Top { base_proof, sub_proof, top_proof, root, leaf }
            }
            tag => return Err(input.bad("proof form", format!("tag {tag}"))),
        };
        Ok(Self { data })
    }
}

impl InclusionPath {
    fn encode(&self, out: &mut Writer) {
        out.list(&self.path, |out, element| {
            out.list(&element.hashes, Writer::node);
            out.u64(element.index);
        });
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        let path = input.list("path", |input| {
            let hashes = input.list("hashes", |input| input.node("hash"))?;
            Ok(PathElement { hashes, index: input.u64("index")? })
        })?;
        Ok(Self { path })
    }
}

/// The level above a group of `arity` children from which `index` is proven: its siblings and its place.
pub(super) fn element_of(children: &[Node], index: usize) -> PathElement {
    let mut hashes = children.to_vec();
    hashes.remove(index);
    PathElement { hashes, index: index as u64 }
}

/// The levels from leaf `index` of a small complete tree to its root, and the root.
pub(super) fn climb<H: TreeHash>(
    hash: &H,
    leaves: Vec<H::Element>,
    mut index: usize,
) -> (Vec<PathElement>, H::Element) {
    let arity = hash.arity();
    let mut levels = Vec::new();
    let mut level = leaves;
    while level.len() > 1 {
        let group: Vec<Node> = level[index / arity * arity..][..arity].iter().map(H::to_node).collect();
        levels.push(element_of(&group, index % arity));
        index /= arity;
        let mut next = vec![H::Element::default(); level.len() / arity];
        hash.hash_row(&level, &mut next);
        level = next;
    }
    (levels, level[0])
}
