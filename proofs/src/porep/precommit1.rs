//! PC1: tree-D over the data, replica id, labels (proofs.md §4.4).

use super::{PRECOMMIT1, PoRepError, unit};
use crate::control::Control;
use crate::field::is_canonical;
use crate::files::config::StoreConfig;
use crate::files::{InFile, TREE_D, layer_id, store_path};
use crate::graph::{self, Graph, Parents};
use crate::params::PoRepConfig;
use crate::tree::Sha256Tree;
use crate::tree::build::build;
use crate::tree::open::{TreeD, TreeError};
use crate::tree::rows::Rows;
use crate::{Node, labels, piece};
use primitives::{Commitment, PieceInfo, ProverId, ReplicaId, SectorNumber, Ticket};
use std::path::Path;

/// A sector as PC1 takes it.
#[derive(Debug, Clone, Copy)]
pub struct SectorInput<'a> {
    /// The padded data: a file of exactly the sector's size. Only read.
    pub unsealed: &'a Path,
    /// The cache folder, which must exist. Nothing else may be working in it.
    pub cache: &'a Path,
    /// The miner.
    pub prover_id: ProverId,
    /// The sector.
    pub sector_number: SectorNumber,
    /// Seal randomness.
    pub ticket: Ticket,
    /// The pieces in order, fillers included; none is a sector of zeros (proofs.md §11.4).
    pub pieces: &'a [PieceInfo],
}

impl SectorInput<'_> {
    /// CommD of the pieces. The data is not read.
    ///
    /// # Errors
    /// If the pieces do not fit a sector.
    pub fn comm_d(&self, config: &PoRepConfig) -> Result<Commitment, PoRepError> {
        Ok(piece::comm_d(config.sector_size, self.pieces).map_err(crate::Error::from)?)
    }

    /// The replica id that PC1 will label for, by which the sector's manifest is opened. The data is not read.
    ///
    /// # Errors
    /// If the pieces do not fit a sector.
    pub fn replica_id(&self, config: &PoRepConfig) -> Result<ReplicaId, PoRepError> {
        let comm_d = self.comm_d(config)?;
        Ok(labels::replica_id(&self.prover_id, self.sector_number, &self.ticket, &comm_d, &config.porep_id))
    }
}

/// What PC1 gives to PC2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreCommit1Output {
    /// Root of tree-D.
    pub comm_d: Commitment,
    /// What the labels are bound to.
    pub replica_id: ReplicaId,
    /// Layers 1 to L in the cache folder.
    pub labels: Vec<StoreConfig>,
    /// Tree-D in the cache folder.
    pub config: StoreConfig,
}

impl PreCommit1Output {
    /// What PC1 of this configuration gives in `cache`.
    pub fn of(config: &PoRepConfig, cache: &Path, comm_d: Commitment, replica_id: ReplicaId) -> Self {
        let nodes = config.nodes();
        Self {
            comm_d,
            replica_id,
            labels: (1..=config.layers).map(|l| StoreConfig::full(cache, layer_id(l), nodes)).collect(),
            config: StoreConfig::full(cache, TREE_D, config.shape().tree_d_nodes()),
        }
    }
}

/// Builds tree-D, checks that it is that of the pieces, and labels the graph, whose parents it maps from the usual folder
/// ([`crate::graph::cache_dir`]), making the file there if need be.
///
/// Progress: phase `tree-d` in bytes, then the layers in nodes.
///
/// # Errors
/// If the unsealed file has not exactly the sector's size, is not the data of the pieces, or holds a node that is no
/// field element; if a file cannot be read or written; if cancelled.
pub fn precommit1(
    config: &PoRepConfig,
    input: &SectorInput<'_>,
    control: &Control<'_>,
) -> Result<PreCommit1Output, PoRepError> {
    let parents = Parents::open(Graph::of(config), &graph::cache_dir(), control)?;
    precommit1_with(config, &parents, input, control)
}

/// [`precommit1`] with the parents of the graph given, which sectors of one type can share.
///
/// # Errors
/// As [`precommit1`], and for parents of another graph.
pub fn precommit1_with(
    config: &PoRepConfig,
    parents: &Parents,
    input: &SectorInput<'_>,
    control: &Control<'_>,
) -> Result<PreCommit1Output, PoRepError> {
    let comm_d = input.comm_d(config)?;
    let replica_id = input.replica_id(config)?;
    tree_d(config, input.unsealed, &comm_d, input.cache, control)?;
    // A file that was taken from an earlier run.
    let tree = TreeD::open(input.cache, config.nodes())?;
    if tree.root() != &comm_d.0 {
        return Err(PoRepError::mismatch(tree.path(), "root", &comm_d.0, tree.root()));
    }
    labels::generate_layers(config, parents, &replica_id, input.cache, control)?;
    Ok(PreCommit1Output::of(config, input.cache, comm_d, replica_id))
}

/// Makes the file of tree-D. Data that is not that of the pieces ends here: the unit must not be recorded as done.
fn tree_d(
    config: &PoRepConfig,
    unsealed: &Path,
    comm_d: &Commitment,
    cache: &Path,
    control: &Control<'_>,
) -> Result<(), PoRepError> {
    let total = config.sector_size.bytes();
    let data = InFile::open_exact(unsealed, total)?;
    unit(control, PRECOMMIT1, TREE_D, &store_path(cache, TREE_D), |staged| {
        let rows = Rows::full(&Sha256Tree, config.nodes());
        let built = build(&Sha256Tree, &rows, Some(staged), control, |start, chunk: &mut [Node]| {
            control.report(TREE_D, 32 * start, total, "bytes");
            data.read_at(chunk.as_flattened_mut(), 32 * start)?;
            match chunk.iter().position(|node| !is_canonical(node)) {
                None => Ok(()),
                Some(i) => {
                    let bad = TreeError::not_canonical(unsealed, start + i as u64, &chunk[i]);
                    Err(PoRepError::from(bad))
                }
            }
        })?;
        control.report(TREE_D, total, total, "bytes");
        if built.root != comm_d.0 {
            let what = "CommD of the data (its pieces say otherwise)";
            return Err(PoRepError::mismatch(unsealed, what, &comm_d.0, &built.root));
        }
        Ok((built.len, built.digest))
    })
}
