//! Merkle trees over a sector: tree-D (SHA-256, arity 2), tree-C and tree-R-last (Poseidon, shapes `8-s-t`)
//! (proofs.md §1.4, §5.3, §5.6, §8.1).
//!
//! [`rows`] is where a node is in a file, [`build`] makes a file from a stream of leaves, [`path`] is an inclusion proof,
//! [`open`] reads one from files.

pub mod build;
pub mod open;
pub mod path;
pub mod rows;

use crate::Node;
use crate::field::Fr;
use crate::params::SectorShape;
use crate::{poseidon, sha256};
use rayon::prelude::*;

/// The hash of a tree's inner nodes.
pub trait TreeHash: Sync {
    /// What nodes are while they are hashed.
    type Element: Copy + Default + Send + Sync;

    /// Children of a node.
    fn arity(&self) -> usize;

    /// Nodes that one task hashes; a small multiple of what pays for handing it over.
    fn grain(&self) -> usize;

    /// Most leaves that are in memory at a time; much less than a second's work.
    fn chunk(&self) -> u64;

    /// `out[i]` becomes the hash of the `i`-th group of children; on the calling thread.
    fn hash_groups(&self, children: &[Self::Element], out: &mut [Self::Element]);

    /// The node as it is in files.
    fn to_node(element: &Self::Element) -> Node;

    /// [`TreeHash::hash_groups`] on all threads of the pool.
    fn hash_row(&self, children: &[Self::Element], out: &mut [Self::Element]) {
        let grain = self.grain();
        if out.len() <= grain {
            self.hash_groups(children, out);
        } else {
            let children = children.par_chunks(grain * self.arity());
            out.par_chunks_mut(grain)
                .zip(children)
                .for_each(|(out, children)| self.hash_groups(children, out));
        }
    }
}

/// `trunc(SHA256(left || right))`, the hash of tree-D.
#[derive(Debug, Clone, Copy)]
pub struct Sha256Tree;

impl TreeHash for Sha256Tree {
    type Element = Node;

    fn arity(&self) -> usize {
        2
    }

    fn grain(&self) -> usize {
        1024
    }

    fn chunk(&self) -> u64 {
        1 << 15
    }

    fn hash_groups(&self, children: &[Node], out: &mut [Node]) {
        sha256::nodes(children, out);
    }

    fn to_node(element: &Node) -> Node {
        *element
    }
}

/// Poseidon of some arity with the Merkle tag.
#[derive(Debug, Clone, Copy)]
pub struct PoseidonTree(
    /// Children of a node, one of [`poseidon::ARITIES`].
    pub usize,
);

impl TreeHash for PoseidonTree {
    type Element = Fr;

    fn arity(&self) -> usize {
        self.0
    }

    fn grain(&self) -> usize {
        16
    }

    fn chunk(&self) -> u64 {
        1 << 12
    }

    fn hash_groups(&self, children: &[Fr], out: &mut [Fr]) {
        poseidon::merkle_many(self.0, children, out);
    }

    fn to_node(element: &Fr) -> Node {
        element.to_bytes_le()
    }
}

/// The root of a tree of shape `8-s-t` from the roots of its base trees, in order (proofs.md §5.3).
///
/// # Panics
/// If there are not as many roots as the shape has base trees.
pub fn root_of_base_roots(shape: &SectorShape, base_roots: &[Fr]) -> Fr {
    assert_eq!(base_roots.len(), shape.base_trees(), "one root for each base tree");
    let mut level = base_roots.to_vec();
    for arity in [shape.sub_arity, shape.top_arity] {
        if arity > 0 {
            level = level.chunks(arity).map(poseidon::merkle).collect();
        }
    }
    let [root] = level[..] else { unreachable!("the arities of a shape multiply to its base trees") };
    root
}
