//! Vanilla proofs from the files of a sealed sector (proofs.md §8.2).

use super::{ChallengeProof, Column, ColumnProof, LabelingProof, ReplicaColumnProof, repeated_parents};
use crate::Node;
use crate::files::{InFile, layer_id, store_path};
use crate::graph::Graph;
use crate::params::{BASE_DEGREE, PoRepConfig};
use crate::tree::open::{OctalTree, TreeD, TreeError};
use std::path::Path;

/// The opened files of a sealed sector.
#[derive(Debug)]
pub struct SealedFiles {
    graph: Graph,
    layers: Vec<InFile>,
    tree_d: TreeD,
    tree_c: OctalTree,
    tree_r_last: OctalTree,
}

impl SealedFiles {
    /// Opens layers and trees in `cache` and the replica in `sealed`. `discard` is the number of rows that tree-R-last
    /// does not keep above the leaves.
    ///
    /// # Errors
    /// If a file is missing or has the wrong length; the error names it.
    pub fn open(
        config: &PoRepConfig,
        cache: &Path,
        sealed: &Path,
        discard: usize,
    ) -> Result<Self, TreeError> {
        let shape = config.shape();
        let layers = (1..=config.layers)
            .map(|layer| InFile::open_exact(&store_path(cache, &layer_id(layer)), config.sector_size.bytes()))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            graph: Graph::of(config),
            layers,
            tree_d: TreeD::open(cache, config.nodes())?,
            tree_c: OctalTree::open_tree_c(cache, &shape)?,
            tree_r_last: OctalTree::open_tree_r_last(cache, sealed, &shape, discard)?,
        })
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Tree-D.
    pub fn tree_d(&self) -> &TreeD {
        &self.tree_d
    }

    /// Tree-C.
    pub fn tree_c(&self) -> &OctalTree {
        &self.tree_c
    }

    /// Tree-R-last.
    pub fn tree_r_last(&self) -> &OctalTree {
        &self.tree_r_last
    }

    /// Opens everything for one challenged node.
    ///
    /// # Errors
    /// If a file cannot be read or two files do not belong together. Whether the proof holds is the verifier's question.
    pub fn prove(&self, node: u32) -> Result<ChallengeProof, TreeError> {
        let parents = self.graph.parents(node);
        let columns = |nodes: &[u32]| nodes.iter().map(|&v| self.column(v)).collect::<Result<Vec<_>, _>>();
        let replica_column_proofs = ReplicaColumnProof {
            c_x: self.column(node)?,
            drg_parents: columns(&parents[..BASE_DEGREE])?,
            exp_parents: columns(&parents[BASE_DEGREE..])?,
        };
        let rows = |columns: &[ColumnProof]| -> Vec<Vec<Node>> {
            columns.iter().map(|c| c.column.rows.clone()).collect()
        };
        let (drg, exp) = (rows(&replica_column_proofs.drg_parents), rows(&replica_column_proofs.exp_parents));
        let drg: Vec<&[Node]> = drg.iter().map(Vec::as_slice).collect();
        let exp: Vec<&[Node]> = exp.iter().map(Vec::as_slice).collect();
        let labeling = |layer: usize| LabelingProof {
            parents: repeated_parents(layer, &drg, &exp),
            layer_index: layer as u32,
            node: node.into(),
        };
        Ok(ChallengeProof {
            comm_d_proofs: self.tree_d.prove(node.into())?,
            comm_r_last_proof: self.tree_r_last.prove(node.into())?,
            labeling_proofs: (1..=self.layers.len()).map(labeling).collect(),
            encoding_proof: labeling(self.layers.len()),
            replica_column_proofs,
        })
    }

    /// The column of a node and its proof.
    fn column(&self, node: u32) -> Result<ColumnProof, TreeError> {
        let rows = self.layers.iter().map(|layer| layer.node(node.into())).collect::<Result<_, _>>()?;
        Ok(ColumnProof {
            column: Column { index: node, rows, phantom: () },
            inclusion_proof: self.tree_c.prove(node.into())?,
        })
    }
}
