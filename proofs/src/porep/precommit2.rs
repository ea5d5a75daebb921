//! PC2: column hashes and tree-C, the replica, tree-R-last, CommR (proofs.md §5.5).

use super::{PRECOMMIT1, PRECOMMIT2, PoRepError, PreCommit1Output, SEALED, require, unit};
use crate::control::Control;
use crate::encode;
use crate::field::Fr;
use crate::files::config::{PAux, StoreConfig, TAux};
use crate::files::{
    InFile, StagedFile, TREE_C, TREE_D, TREE_R_LAST, base_tree_id, digest_state, finish, layer_id, store_path,
};
use crate::params::PoRepConfig;
use crate::tree::build::build;
use crate::tree::open::{OctalTree, TreeD, TreeError};
use crate::tree::rows::Rows;
use crate::tree::{PoseidonTree, TreeHash};
use crate::{Node, poseidon};
use primitives::Commitment;
use rayon::prelude::*;
use std::path::Path;

/// Nodes that are encoded at a time.
const BLOCK: usize = 1 << 15;
/// Nodes that one task turns into field elements.
const GRAIN: usize = 256;

/// What PC2 gives: the commitments of a sealed sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreCommit2Output {
    /// Root of tree-D.
    pub comm_d: Commitment,
    /// `P_2(CommC, CommRLast)`, which goes on chain.
    pub comm_r: Commitment,
    /// Root of tree-C.
    pub comm_c: Commitment,
    /// Root of tree-R-last.
    pub comm_r_last: Commitment,
}

/// Builds tree-C from the layers, the sealed file from data and last layer, tree-R-last from the sealed file; writes
/// `p_aux` and `t_aux`. `unsealed` is only read and is compared with tree-D on the way.
///
/// Progress: phases named as the units, in nodes; the sealed file in bytes.
///
/// # Errors
/// [`PoRepError::Refused`] if the sink says that tree-D or a layer is not PC1's output; else if a file has the wrong
/// length, is not the data of tree-D or holds a node that is no field element; if cancelled.
pub fn precommit2(
    config: &PoRepConfig,
    pc1: &PreCommit1Output,
    cache: &Path,
    unsealed: &Path,
    sealed: &Path,
    control: &Control<'_>,
) -> Result<PreCommit2Output, PoRepError> {
    let shape = config.shape();
    let tree_d = TreeD::open(cache, config.nodes())?;
    if tree_d.root() != &pc1.comm_d.0 {
        return Err(PoRepError::mismatch(tree_d.path(), "root", &pc1.comm_d.0, tree_d.root()));
    }
    let mut layers = Vec::with_capacity(config.layers);
    for layer in 1..=config.layers {
        layers.push(InFile::open_exact(&store_path(cache, &layer_id(layer)), config.sector_size.bytes())?);
    }
    require(control, PRECOMMIT1, TREE_D, tree_d.path())?;
    for (layer, file) in (1..).zip(&layers) {
        require(control, PRECOMMIT1, &layer_id(layer), file.path())?;
    }

    let count = shape.base_trees();
    let rows = Rows::full(&PoseidonTree(8), shape.leaves_per_base_tree());
    for base in 0..count {
        tree_c(config, &rows, base, &layers, cache, control)?;
    }
    let key = &layers[config.layers - 1];
    sealed_file(config, key, cache, unsealed, sealed, control)?;
    let kept = rows.discarding(shape.rows_to_discard());
    for base in 0..count {
        tree_r_last(config, &kept, base, cache, sealed, control)?;
    }

    let comm_c = *OctalTree::open_tree_c(cache, &shape)?.root();
    let comm_r_last = *OctalTree::open_tree_r_last(cache, sealed, &shape, shape.rows_to_discard())?.root();
    let comm_r = poseidon::merkle_pair(&comm_c, &comm_r_last).expect("the roots are hashes");
    let output = PreCommit2Output {
        comm_d: pc1.comm_d,
        comm_r: Commitment(comm_r),
        comm_c: Commitment(comm_c),
        comm_r_last: Commitment(comm_r_last),
    };
    PAux { comm_c: output.comm_c, comm_r_last: output.comm_r_last }.store(cache)?;
    t_aux(config, pc1, cache).store(cache)?;
    Ok(output)
}

/// The `t_aux` of a sector (proofs.md §5.7).
fn t_aux(config: &PoRepConfig, pc1: &PreCommit1Output, cache: &Path) -> TAux {
    let shape = config.shape();
    let here = PreCommit1Output::of(config, cache, pc1.comm_d, pc1.replica_id);
    TAux {
        labels: here.labels,
        tree_d: here.config,
        tree_r_last: StoreConfig {
            rows_to_discard: shape.rows_to_discard() as u64,
            ..StoreConfig::full(cache, TREE_R_LAST, shape.base_tree_nodes())
        },
        tree_c: StoreConfig::full(cache, TREE_C, shape.base_tree_nodes()),
    }
}

/// Reads nodes from `start` on as field elements: the `i`-th goes to `out[i * stride + offset]`.
fn read_elements(
    file: &InFile,
    start: u64,
    buffer: &mut Vec<Node>,
    out: &mut [Fr],
    (stride, offset): (usize, usize),
) -> Result<(), PoRepError> {
    buffer.resize(out.len() / stride, [0; 32]);
    file.read_at(buffer.as_flattened_mut(), 32 * start)?;
    let bad = buffer
        .par_chunks(GRAIN)
        .zip(out.par_chunks_mut(GRAIN * stride))
        .enumerate()
        .filter_map(|(chunk, (nodes, out))| {
            for (i, node) in nodes.iter().enumerate() {
                match Fr::from_bytes_le(node) {
                    Some(element) => out[i * stride + offset] = element,
                    None => return Some(chunk * GRAIN + i),
                }
            }
            None
        })
        .min();
    match bad {
        None => Ok(()),
        Some(i) => Err(TreeError::not_canonical(file.path(), start + i as u64, &buffer[i]).into()),
    }
}

/// Base tree `base` of tree-C: its leaves are the hashes of columns.
fn tree_c(
    config: &PoRepConfig,
    rows: &Rows,
    base: usize,
    layers: &[InFile],
    cache: &Path,
    control: &Control<'_>,
) -> Result<(), PoRepError> {
    let name = base_tree_id(TREE_C, base, config.shape().base_trees());
    let columns = PoseidonTree(layers.len());
    let (mut buffer, mut labels) = (Vec::new(), Vec::new());
    unit(control, PRECOMMIT2, &name, &store_path(cache, &name), |staged| {
        let built = build(&PoseidonTree(8), rows, Some(staged), control, |start, chunk: &mut [Fr]| {
            control.report(&name, start, rows.leaves(), "nodes");
            labels.resize(chunk.len() * layers.len(), Fr::ZERO);
            let first = base as u64 * rows.leaves() + start;
            for (layer, file) in layers.iter().enumerate() {
                read_elements(file, first, &mut buffer, &mut labels, (layers.len(), layer))?;
            }
            columns.hash_row(&labels, chunk);
            Ok::<_, PoRepError>(())
        })?;
        control.report(&name, rows.leaves(), rows.leaves(), "nodes");
        Ok((built.len, built.digest))
    })
}

/// The sealed sector: data plus key, in a new file.
fn sealed_file(
    config: &PoRepConfig,
    key: &InFile,
    cache: &Path,
    unsealed: &Path,
    sealed: &Path,
    control: &Control<'_>,
) -> Result<(), PoRepError> {
    let total = config.sector_size.bytes();
    let data = InFile::open_exact(unsealed, total)?;
    if data.is_at(sealed) {
        return Err(PoRepError::InPlace(sealed.to_owned()));
    }
    let tree_d = InFile::open(&store_path(cache, TREE_D))?;
    unit(control, PRECOMMIT2, SEALED, sealed, |staged| {
        encode_into(staged, &data, &tree_d, key, total, control)
    })
}

fn encode_into(
    staged: &StagedFile,
    data: &InFile,
    tree_d: &InFile,
    key: &InFile,
    total: u64,
    control: &Control<'_>,
) -> Result<(u64, [u8; 32]), PoRepError> {
    let mut digest = digest_state();
    let mut nodes = vec![[0; 32]; BLOCK.min((total / 32) as usize)];
    let mut other = nodes.clone();
    for start in (0..total / 32).step_by(nodes.len()) {
        control.check()?;
        control.report(SEALED, 32 * start, total, "bytes");
        data.read_at(nodes.as_flattened_mut(), 32 * start)?;
        // The leaves of tree-D are the data that PC1 saw: a file that changed since, or is sealed already, ends here.
        tree_d.read_at(other.as_flattened_mut(), 32 * start)?;
        if let Some(i) = (0..nodes.len()).find(|&i| nodes[i] != other[i]) {
            let what = format!("node {}, compared with tree-D,", start + i as u64);
            return Err(PoRepError::mismatch(data.path(), what, &other[i], &nodes[i]));
        }
        key.read_at(other.as_flattened_mut(), 32 * start)?;
        encode::encode(&mut nodes, &other).map_err(|bad| {
            let (file, node) = if bad.in_key { (key, other[bad.index]) } else { (data, nodes[bad.index]) };
            PoRepError::from(TreeError::not_canonical(file.path(), start + bad.index as u64, &node))
        })?;
        staged.write_at(nodes.as_flattened(), 32 * start)?;
        digest.update(nodes.as_flattened());
    }
    control.report(SEALED, total, total, "bytes");
    Ok((total, finish(&digest)))
}

/// Base tree `base` of tree-R-last: its leaves are the nodes of the replica.
fn tree_r_last(
    config: &PoRepConfig,
    rows: &Rows,
    base: usize,
    cache: &Path,
    sealed: &Path,
    control: &Control<'_>,
) -> Result<(), PoRepError> {
    let name = base_tree_id(TREE_R_LAST, base, config.shape().base_trees());
    let replica = InFile::open_exact(sealed, config.sector_size.bytes())?;
    let mut buffer = Vec::new();
    unit(control, PRECOMMIT2, &name, &store_path(cache, &name), |staged| {
        let built = build(&PoseidonTree(8), rows, Some(staged), control, |start, chunk: &mut [Fr]| {
            control.report(&name, start, rows.leaves(), "nodes");
            read_elements(&replica, base as u64 * rows.leaves() + start, &mut buffer, chunk, (1, 0))
        })?;
        control.report(&name, rows.leaves(), rows.leaves(), "nodes");
        Ok((built.len, built.digest))
    })
}
