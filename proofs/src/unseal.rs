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
        let built = build(&Sha256Tree, &rows, None, control, |start, chunk: &mut [Node]| {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{CancelFlag, Progress};
    use primitives::{ActorId, ApiVersion, ProofFeature, SectorSize};
    use std::fs;

    /// A replica made from its definition: data plus last layer.
    struct Replica {
        dir: tempfile::TempDir,
        config: PoRepConfig,
        parents: Parents,
        raw: Vec<u8>,
        comm_d: Commitment,
    }

    const TICKET: Ticket = Ticket([1; 32]);

    impl Replica {
        fn new(size: SectorSize) -> Self {
            let config =
                PoRepConfig::custom(size, [5; 32], ApiVersion::V1_1_0, ProofFeature::Interactive).unwrap();
            let parents = Parents::generated(Graph::of(&config), &Control::none()).unwrap();
            let raw: Vec<u8> = (0..size.unpadded_bytes()).map(|k| ((k * k) >> 3) as u8).collect();
            let mut padded = Vec::new();
            fr32::pad(&raw, &mut padded);
            let mut nodes: Vec<Node> = padded.as_chunks::<32>().0.to_vec();
            let rows = Rows::full(&Sha256Tree, size.nodes()).none_kept();
            let data = nodes.clone();
            let built = build(&Sha256Tree, &rows, None, &Control::none(), |start, chunk: &mut [Node]| {
                chunk.copy_from_slice(&data[start as usize..][..chunk.len()]);
                Ok::<_, Error>(())
            });
            let comm_d = Commitment(built.unwrap().root);
            let prover_id = ProverId::from_actor(ActorId(1000));
            let id = labels::replica_id(&prover_id, SectorNumber(1), &TICKET, &comm_d, &config.porep_id);
            let key = labels::last_layer(&config, &parents, &id, &Control::none()).unwrap();
            encode::encode(&mut nodes, key.nodes()).unwrap();
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("sealed"), nodes.as_flattened()).unwrap();
            Self { dir, config, parents, raw, comm_d }
        }

        fn unsealer(&self, ticket: Ticket, control: &Control<'_>) -> Result<Unsealer, UnsealError> {
            let sealed = self.dir.path().join("sealed");
            let prover_id = ProverId::from_actor(ActorId(1000));
            let (sector_number, comm_d) = (SectorNumber(1), self.comm_d);
            let input = UnsealInput { sealed: &sealed, prover_id, sector_number, ticket, comm_d };
            Unsealer::with(&self.config, &self.parents, &input, control)
        }
    }

    #[test]
    fn any_range_comes_back() {
        let replica = Replica::new(SectorSize::KiB4);
        let unsealer = replica.unsealer(TICKET, &Control::none()).unwrap();
        unsealer.verify(&Control::none()).unwrap();
        let capacity = replica.raw.len();
        let ends = [0, 1, 31, 32, 126, 127, 128, 253, 254, 255, 1000, 2032, capacity - 1, capacity];
        for from in ends {
            for to in ends.into_iter().filter(|&to| to >= from) {
                let mut out = Vec::new();
                let written = unsealer.read(from as u64..to as u64, &mut out, &Control::none()).unwrap();
                assert_eq!(out, replica.raw[from..to], "{from}..{to}");
                assert_eq!(written, (to - from) as u64);
            }
        }
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        for wrong in [0..capacity as u64 + 1, 2..1, u64::MAX - 1..u64::MAX] {
            let e = unsealer.read(wrong, &mut Vec::new(), &Control::none()).unwrap_err();
            assert!(matches!(e, UnsealError::Range { .. }), "{e}");
        }
        let files: Vec<_> =
            fs::read_dir(replica.dir.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
        assert_eq!(files, ["sealed"], "nothing else was written");
    }

    #[test]
    fn ranges_across_blocks_come_back() {
        // 16 MiB is 16 blocks.
        let replica = Replica::new(SectorSize::MiB16);
        let unsealer = replica.unsealer(TICKET, &Control::none()).unwrap();
        unsealer.verify(&Control::none()).unwrap();
        let block = (BLOCK / QUAD_NODES) as usize * fr32::QUAD_UNPADDED;
        for range in [block - 1..block + 1, 5..3 * block + 7, 0..replica.raw.len()] {
            let mut out = Vec::new();
            unsealer.read(range.start as u64..range.end as u64, &mut out, &Control::none()).unwrap();
            assert!(out == replica.raw[range.clone()], "{range:?}");
        }
    }

    #[test]
    fn damage_and_wrong_values_are_found_by_verification() {
        let replica = Replica::new(SectorSize::KiB2);
        let other = replica.unsealer(Ticket([2; 32]), &Control::none()).unwrap();
        let e = other.verify(&Control::none()).unwrap_err();
        assert!(matches!(e, UnsealError::NotTheData { .. }), "{e}");

        let sealed = replica.dir.path().join("sealed");
        let good = fs::read(&sealed).unwrap();
        let with = |bytes: &[u8]| {
            fs::write(&sealed, bytes).unwrap();
            replica.unsealer(TICKET, &Control::none()).and_then(|u| u.verify(&Control::none())).unwrap_err()
        };
        let mut bad = good.clone();
        bad[100] ^= 1;
        let e = with(&bad);
        assert!(e.to_string().contains("sealed unseals to data with CommD"), "{e}");
        bad[64..96].fill(0xff);
        let e = with(&bad);
        assert!(matches!(e, UnsealError::NotCanonical { node: 2, .. }), "{e}");
        let e = with(&good[1..]);
        assert!(e.to_string().ends_with("sealed has 2047 bytes, expected 2048"), "{e}");

        fs::write(&sealed, &good).unwrap();
        for wrong in [[0; 32], [0xff; 32]] {
            let other = Replica { comm_d: Commitment(wrong), ..Replica::new(SectorSize::KiB2) };
            assert!(matches!(other.unsealer(TICKET, &Control::none()), Err(UnsealError::CommD(_))));
        }
    }

    #[test]
    fn cancelling_ends_it_and_a_failing_writer_is_reported() {
        let replica = Replica::new(SectorSize::MiB16);
        let unsealer = replica.unsealer(TICKET, &Control::none()).unwrap();
        let flag = CancelFlag::new();
        let progress = |p: Progress<'_>| {
            if p.done > 0 {
                flag.cancel();
            }
        };
        let control = Control { cancel: &flag, progress: &progress, units: &() };
        let mut out = Vec::new();
        let e = unsealer.read(0..replica.raw.len() as u64, &mut out, &control).unwrap_err();
        assert!(matches!(e, UnsealError::Proofs(Error::Cancelled(_))), "{e}");
        assert!(!out.is_empty() && out.len() < replica.raw.len() / 4, "{} bytes", out.len());
        let e = replica.unsealer(TICKET, &control).unwrap_err();
        assert!(matches!(e, UnsealError::Proofs(Error::Cancelled(_))), "{e}");

        let mut full = [0u8; 10];
        let e = unsealer.read(0..11, &mut &mut full[..], &Control::none()).unwrap_err();
        assert!(e.to_string().starts_with("cannot write the unsealed data"), "{e}");
    }
}
