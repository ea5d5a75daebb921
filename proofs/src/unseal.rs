//! Unsealing: any range of the user's bytes out of a sealed sector (proofs.md §11.1).
//!
//! The key, the last layer's labels, is made again in memory; that takes as long as PC1 and memory for two layers.
//! Nothing is written but the output, and no file of the sector is touched.

use crate::control::Control;
use crate::encode;
use crate::files::{FileError, InFile};
use crate::fr32;
use crate::graph::{self, Graph, Parents};
use crate::labels::{self, LayerBuffer};
use crate::params::PoRepConfig;
use crate::tree::Sha256Tree;
use crate::tree::build::build;
use crate::tree::rows::Rows;
use crate::{Error, Node};
use primitives::{Commitment, ProverId, ReplicaId, SectorNumber, Ticket};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Nodes decoded at a time.
const BLOCK: u64 = 1 << 15;
/// Nodes of a quad.
const QUAD_NODES: u64 = 4;

/// A sealed sector and what its key is made of.
#[derive(Debug, Clone, Copy)]
pub struct UnsealInput<'a> {
    /// The sealed sector file. Only read.
    pub sealed: &'a Path,
    /// The miner.
    pub prover_id: ProverId,
    /// The sector.
    pub sector_number: SectorNumber,
    /// Seal randomness.
    pub ticket: Ticket,
    /// Root of the data.
    pub comm_d: Commitment,
}

/// Why a sector could not be unsealed.
#[derive(Debug, thiserror::Error)]
pub enum UnsealError {
    /// A primitive, a stream or the file system failed, or it was cancelled.
    #[error(transparent)]
    Proofs(#[from] Error),
    /// CommD cannot be one.
    #[error("CommD {0} is all zero or not a field element")]
    CommD(Commitment),
    /// The range is not within the sector.
    #[error("bytes {} to {} are not within the sector's {capacity}", range.start, range.end)]
    Range {
        /// The range asked for, in unpadded bytes.
        range: Range<u64>,
        /// Unpadded bytes of the sector.
        capacity: u64,
    },
    /// The sealed file holds a node that cannot be one.
    #[error("{}: node {node} is {got}, expected a field element", sealed.display())]
    NotCanonical {
        /// The sealed sector file.
        sealed: PathBuf,
        /// The node.
        node: u64,
        /// Its bytes in hexadecimal.
        got: String,
    },
    /// The whole sector does not unseal to the data it was sealed from.
    #[error("{} unseals to data with CommD {got}, expected {expected}: it is damaged, or sealed with other values", sealed.display())]
    NotTheData {
        /// The sealed sector file.
        sealed: PathBuf,
        /// CommD as asked for.
        expected: Commitment,
        /// CommD of what came out.
        got: Commitment,
    },
}

impl From<FileError> for UnsealError {
    fn from(e: FileError) -> Self {
        UnsealError::Proofs(e.into())
    }
}

impl From<crate::control::Cancelled> for UnsealError {
    fn from(e: crate::control::Cancelled) -> Self {
        UnsealError::Proofs(e.into())
    }
}

/// A sealed sector with its key in memory, from which any number of ranges can be read.
#[derive(Debug)]
pub struct Unsealer {
    sealed: InFile,
    comm_d: Commitment,
    capacity: u64,
    key: LayerBuffer,
}

impl Unsealer {
    /// Makes the key of a sector. Progress: the layers, in nodes. The graph's parents come from the usual folder
    /// ([`graph::cache_dir`]).
    ///
    /// # Errors
    /// If the sealed file has not exactly the sector's size or CommD cannot be one; if memory for two layers is not
    /// there; if cancelled. Wrong identifiers give another key, not an error: see [`Unsealer::verify`].
    pub fn new(
        config: &PoRepConfig,
        input: &UnsealInput<'_>,
        control: &Control<'_>,
    ) -> Result<Self, UnsealError> {
        let parents = Parents::open(Graph::of(config), &graph::cache_dir(), control)?;
        Self::with(config, &parents, input, control)
    }

    /// [`Unsealer::new`] with the parents of the graph given.
    ///
    /// # Errors
    /// As [`Unsealer::new`], and for parents of another graph.
    pub fn with(
        config: &PoRepConfig,
        parents: &Parents,
        input: &UnsealInput<'_>,
        control: &Control<'_>,
    ) -> Result<Self, UnsealError> {
        let sealed = InFile::open_exact(input.sealed, config.sector_size.bytes())?;
        if input.comm_d.0 == [0; 32] || !crate::field::is_canonical(&input.comm_d.0) {
            return Err(UnsealError::CommD(input.comm_d));
        }
        let replica_id: ReplicaId = labels::replica_id(
            &input.prover_id,
            input.sector_number,
            &input.ticket,
            &input.comm_d,
            &config.porep_id,
        );
        let key = labels::last_layer(config, parents, &replica_id, control)?;
        Ok(Self { sealed, comm_d: input.comm_d, capacity: config.sector_size.unpadded_bytes(), key })
    }

    /// Unseals the whole sector without keeping it and compares its CommD.
    ///
    /// # Errors
    /// [`UnsealError::NotTheData`] or [`UnsealError::NotCanonical`] if the sealed file is damaged or the identifiers are
    /// not those it was sealed with; if cancelled.
    pub fn verify(&self, control: &Control<'_>) -> Result<(), UnsealError> {
        let nodes = self.key.nodes().len() as u64;
        let rows = Rows::full(&Sha256Tree, nodes).none_kept();
        let built = build(&Sha256Tree, &rows, None, |start, chunk: &mut [Node]| {
            control.check()?;
            control.report("verify", 32 * start, 32 * nodes, "bytes");
            self.decode(start, chunk)
        })?;
        control.report("verify", 32 * nodes, 32 * nodes, "bytes");
        if built.root != self.comm_d.0 {
            let (expected, got) = (self.comm_d, Commitment(built.root));
            return Err(UnsealError::NotTheData { sealed: self.sealed.path().to_owned(), expected, got });
        }
        Ok(())
    }

    /// Writes the user's bytes `range`, counted without padding; it may begin and end anywhere within the sector's
    /// 127/128. Returns the number of bytes written, which is the range's length. `out` is not flushed.
    ///
    /// # Errors
    /// If the range is not within the sector, the sealed file cannot be read or holds what cannot be, `out` fails, or
    /// cancelled; some bytes may have been written then.
    pub fn read(
        &self,
        range: Range<u64>,
        out: &mut dyn Write,
        control: &Control<'_>,
    ) -> Result<u64, UnsealError> {
        if range.start > range.end || range.end > self.capacity {
            return Err(UnsealError::Range { range, capacity: self.capacity });
        }
        let total = range.end - range.start;
        let quad = fr32::QUAD_UNPADDED as u64;
        let (first, last) = (range.start / quad * QUAD_NODES, range.end.div_ceil(quad) * QUAD_NODES);
        let mut nodes = Vec::new();
        let mut bytes = Vec::new();
        let mut written = 0;
        for start in (first..last).step_by(BLOCK as usize) {
            control.check()?;
            control.report("unseal", written, total, "bytes");
            nodes.resize(BLOCK.min(last - start) as usize, [0; 32]);
            self.decode(start, &mut nodes)?;
            bytes.resize(nodes.len() / QUAD_NODES as usize * fr32::QUAD_UNPADDED, 0);
            fr32::unpad_quads(nodes.as_flattened(), &mut bytes);
            let at = start / QUAD_NODES * quad;
            let from = range.start.saturating_sub(at) as usize;
            let to = (range.end - at).min(bytes.len() as u64) as usize;
            out.write_all(&bytes[from..to]).map_err(Error::stream("write the unsealed data"))?;
            written += (to - from) as u64;
        }
        control.report("unseal", written, total, "bytes");
        Ok(written)
    }

    /// Reads nodes from `start` on and takes the key off them.
    fn decode(&self, start: u64, nodes: &mut [Node]) -> Result<(), UnsealError> {
        self.sealed.read_at(nodes.as_flattened_mut(), 32 * start)?;
        let first = start as usize;
        encode::decode(nodes, &self.key.nodes()[first..first + nodes.len()]).map_err(|bad| {
            UnsealError::NotCanonical {
                sealed: self.sealed.path().to_owned(),
                node: start + bad.index as u64,
                got: hex::encode(nodes[bad.index]),
            }
        })
    }
}

/// Makes the key and writes one range; with `verify` the whole sector is checked against CommD before the first byte is
/// written. See [`Unsealer`] for several ranges.
///
/// # Errors
/// As [`Unsealer::new`], [`Unsealer::verify`] and [`Unsealer::read`].
pub fn unseal(
    config: &PoRepConfig,
    input: &UnsealInput<'_>,
    range: Range<u64>,
    verify: bool,
    out: &mut dyn Write,
    control: &Control<'_>,
) -> Result<u64, UnsealError> {
    let capacity = config.sector_size.unpadded_bytes();
    if range.start > range.end || range.end > capacity {
        // Before the hours that the key takes.
        return Err(UnsealError::Range { range, capacity });
    }
    let unsealer = Unsealer::new(config, input, control)?;
    if verify {
        unsealer.verify(control)?;
    }
    unsealer.read(range, out, control)
}
