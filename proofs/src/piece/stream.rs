//! CommP and AddPiece over streams of any length in bounded memory.

use super::commd::Stack;
use super::{left_padding, zero_commitment};
use crate::control::Control;
use crate::fr32::{QUAD_PADDED, QUAD_UNPADDED, pad_quads};
use crate::{Error, Node, sha256};
use primitives::{Commitment, PieceInfo, UnpaddedSize};
use rayon::prelude::*;
use std::io::{self, Read, Write};

/// Quads one thread pads and hashes at a time: 128 KiB, which stay in its cache.
const CHUNK_QUADS: usize = 1 << 10;
/// Chunks worked on together: 4 MiB are read while the 4 MiB before are hashed.
const GROUP_CHUNKS: usize = 32;

/// What to do if the source ends before the piece is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// That is an error.
    Exact,
    /// The rest is zeros: for files that are not 127 * 2^k long.
    Zeros,
}

/// What [`add_piece`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddedPiece {
    /// The piece: its commitment and size.
    pub piece: PieceInfo,
    /// Zero bytes before it, unpadded.
    pub left_padding: u64,
    /// Bytes added, unpadded: the zeros and the piece.
    pub written: u64,
}

/// CommP of a piece: the root over its padded bytes (proofs.md §11.3). Memory: some MiB.
///
/// # Errors
/// [`Error::PieceTooShort`] (with [`Fill::Exact`]) or [`Error::PieceTooLong`] if `source` is not as long as the piece,
/// [`Error::Stream`] if it cannot be read, [`Error::Cancelled`].
pub fn comm_p<R: Read + Send>(
    source: R,
    size: UnpaddedSize,
    fill: Fill,
    control: &Control<'_>,
) -> Result<PieceInfo, Error> {
    pad_and_hash(source, size, fill, &mut io::sink(), control)
}

/// Adds a piece to a sector: writes zeros that align it, then its padded bytes, to `target`, which stands after the
/// `written` (unpadded) bytes of the pieces before (proofs.md §11.2). Neither flushed nor synced.
///
/// # Errors
/// As [`comm_p`], and [`Error::Stream`] if `target` cannot be written.
pub fn add_piece<R: Read + Send, W: Write>(
    source: R,
    size: UnpaddedSize,
    fill: Fill,
    target: &mut W,
    written: u64,
    control: &Control<'_>,
) -> Result<AddedPiece, Error> {
    let left_padding = left_padding(written, size);
    write_zeros(target, crate::fr32::to_padded(left_padding), control)?;
    let piece = pad_and_hash(source, size, fill, target, control)?;
    Ok(AddedPiece { piece, left_padding, written: left_padding + size.bytes() })
}

fn write_zeros<W: Write>(target: &mut W, mut bytes: u64, control: &Control<'_>) -> Result<(), Error> {
    let zeros = vec![0u8; bytes.min(1 << 20) as usize];
    while bytes > 0 {
        control.check()?;
        let part = bytes.min(zeros.len() as u64);
        target
            .write_all(&zeros[..part as usize])
            .map_err(Error::stream("write the zeros before the piece"))?;
        bytes -= part;
    }
    Ok(())
}

/// Source bytes of a group; `filled` of them are data, the rest is zero.
struct Group {
    bytes: Vec<u8>,
    filled: usize,
}

impl Group {
    /// Reads until the group is full or the source ends.
    fn read(&mut self, source: &mut impl Read, length: usize) -> io::Result<()> {
        self.bytes.resize(length, 0);
        self.filled = 0;
        while self.filled < length {
            match source.read(&mut self.bytes[self.filled..]) {
                Ok(0) => break,
                Ok(n) => self.filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.bytes[self.filled..].fill(0);
        Ok(())
    }
}

fn pad_and_hash<R: Read + Send, W: Write>(
    mut source: R,
    size: UnpaddedSize,
    fill: Fill,
    target: &mut W,
    control: &Control<'_>,
) -> Result<PieceInfo, Error> {
    let total = size.bytes();
    let chunk_quads = CHUNK_QUADS.min((total / QUAD_UNPADDED as u64) as usize);
    let chunk = chunk_quads * QUAD_UNPADDED;
    let group = (GROUP_CHUNKS * chunk) as u64;
    let length_at = |at: u64| group.min(total - at) as usize;
    let read_error = Error::stream("read the piece");

    let mut current = Group { bytes: Vec::new(), filled: 0 };
    let mut next = Group { bytes: Vec::new(), filled: 0 };
    let mut padded = Vec::new();
    let mut stack = Stack::default();
    let mut got = 0;
    let mut at = 0;
    if let Err(source) = current.read(&mut source, length_at(0)) {
        return Err(read_error(source));
    }
    loop {
        control.check()?;
        control.report("piece", at, total, "bytes");
        got += current.filled as u64;
        let end = at + current.bytes.len() as u64;
        if current.filled < current.bytes.len() && fill == Fill::Exact {
            return Err(Error::PieceTooShort { expected: total, got });
        }
        padded.resize(current.bytes.len() / QUAD_UNPADDED * QUAD_PADDED, 0);
        let (roots, read) = rayon::join(
            || hash_group(&current, chunk, &mut padded),
            || if end < total { next.read(&mut source, length_at(end)) } else { Ok(()) },
        );
        target.write_all(&padded).map_err(Error::stream("write the padded piece"))?;
        for root in roots {
            stack.push(chunk as u64, root);
        }
        read.map_err(Error::stream("read the piece"))?;
        at = end;
        if at == total {
            break;
        }
        std::mem::swap(&mut current, &mut next);
    }
    expect_end(&mut source, total)?;
    control.report("piece", total, total, "bytes");
    let root = stack.root().expect("a piece of 2^k chunks makes one tree");
    Ok(PieceInfo { comm_p: Commitment(root), size })
}

/// Fails if there is more in the source.
fn expect_end(source: &mut impl Read, expected: u64) -> Result<(), Error> {
    loop {
        match source.read(&mut [0]) {
            Ok(0) => return Ok(()),
            Ok(_) => return Err(Error::PieceTooLong { expected }),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::stream("read the piece")(e)),
        }
    }
}

/// Pads the group's chunks into `padded` and returns the root of each.
fn hash_group(group: &Group, chunk: usize, padded: &mut [u8]) -> Vec<Node> {
    let padded_chunk = chunk / QUAD_UNPADDED * QUAD_PADDED;
    group
        .bytes
        .par_chunks(chunk)
        .zip(padded.par_chunks_mut(padded_chunk))
        .enumerate()
        .map(|(i, (bytes, padded))| {
            if i * chunk >= group.filled {
                padded.fill(0);
                return zero_commitment((padded_chunk / 32).ilog2());
            }
            pad_quads(bytes, padded);
            root(padded.as_chunks().0)
        })
        .collect()
}

/// The root of the binary tree over `2^k` nodes, k >= 1 (proofs.md §1.4). On the calling thread.
fn root(leaves: &[Node]) -> Node {
    let mut level = vec![[0; 32]; leaves.len() / 2];
    sha256::nodes(leaves, &mut level);
    let mut above = vec![[0; 32]; level.len() / 2];
    while level.len() > 1 {
        above.truncate(level.len() / 2);
        sha256::nodes(&level, &mut above);
        std::mem::swap(&mut level, &mut above);
    }
    level[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fr32;
    use crate::piece::{comm_d, fillers, zero_piece};
    use primitives::SectorSize;
    use proptest::prelude::*;

    fn slow_root(leaves: &[Node]) -> Node {
        match leaves {
            [one] => *one,
            _ => {
                let (l, r) = leaves.split_at(leaves.len() / 2);
                sha256::truncate(sha256::digest([slow_root(l), slow_root(r)].as_flattened()))
            }
        }
    }

    /// Delivers its bytes in odd portions.
    struct Dribble<'a>(&'a [u8], usize);

    impl Read for Dribble<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.1 = self.1 * 7 % 1013 + 1;
            let n = self.1.min(out.len()).min(self.0.len());
            out[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn size(bytes: u64) -> UnpaddedSize {
        UnpaddedSize::new(bytes).unwrap()
    }

    fn pattern(bytes: u64) -> Vec<u8> {
        (0..bytes).map(|k| (7 * k + 3) as u8).collect()
    }

    /// comm_d of proofs.md §14.3.
    #[test]
    fn pattern_data() {
        for (sector, comm) in [
            (SectorSize::KiB2, "692fbdbc72e1aa6468e86a183ed3dfc2d43b8ad6fb6639110966b2d6371f5419"),
            (SectorSize::KiB4, "66af3bb154aa2ac35f872bc7d372ca02ff84d669416875e9208b07ed3517b313"),
            (SectorSize::KiB16, "788d599a794c07c147da19529cfda19c06ef8f673beaf4cc61f0ff27907b141a"),
            (SectorSize::KiB32, "c88f94f32ebb7c8bf2fc62b45aa6c19fdabd9d20f3113b86f98d6d1a0554b028"),
        ] {
            let data = pattern(sector.unpadded_bytes());
            let piece = comm_p(&data[..], size(data.len() as u64), Fill::Exact, &Control::none()).unwrap();
            assert_eq!(piece.comm_p.to_string(), comm);
        }
    }

    #[test]
    fn sources_must_be_as_long_as_announced() {
        let data = pattern(255);
        let run = |n: usize, fill| comm_p(&data[..n], size(254), fill, &Control::none());
        assert!(matches!(run(253, Fill::Exact), Err(Error::PieceTooShort { expected: 254, got: 253 })));
        assert!(matches!(run(255, Fill::Exact), Err(Error::PieceTooLong { expected: 254 })));
        assert!(matches!(run(255, Fill::Zeros), Err(Error::PieceTooLong { expected: 254 })));
        let mut filled = data[..200].to_vec();
        filled.resize(254, 0);
        let expected = comm_p(&filled[..], size(254), Fill::Exact, &Control::none()).unwrap();
        assert_eq!(run(200, Fill::Zeros).unwrap(), expected);
        assert_eq!(run(0, Fill::Zeros).unwrap(), zero_piece(size(254)));
    }

    /// More than a group, so that reading ahead and the stack take part; with zeros at the end.
    #[test]
    fn large_pieces_agree_with_a_slow_tree() {
        let piece_size = size(127 << 16);
        for data_len in [127u64 << 16, (127 << 15) + 12_345, 1] {
            let mut data: Vec<u8> = (0..data_len).map(|k| ((k * k) >> 7) as u8).collect();
            let mut target = Vec::new();
            let source = Dribble(&data, 0);
            let added = add_piece(source, piece_size, Fill::Zeros, &mut target, 0, &Control::none()).unwrap();
            data.resize(127 << 16, 0);
            let mut padded = Vec::new();
            fr32::pad(&data, &mut padded);
            assert!(target == padded);
            assert_eq!(added.piece.comm_p.0, slow_root(padded.as_chunks().0));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Pieces added one by one make up a sector whose root is the CommD of the list.
        #[test]
        fn a_sector_of_pieces_has_their_comm_d(
            quads in proptest::collection::vec(0u32..6, 1..8), seed in any::<u8>(),
        ) {
            let sector = SectorSize::KiB32;
            let mut target = Vec::new();
            let mut pieces = Vec::new();
            let mut written = 0;
            for (i, k) in quads.iter().enumerate() {
                let piece_size = size(127 << k);
                let data = vec![seed.wrapping_add(i as u8); piece_size.bytes() as usize - i.min(20)];
                let added = add_piece(
                    &data[..], piece_size, Fill::Zeros, &mut target, written, &Control::none(),
                ).unwrap();
                written += added.written;
                pieces.push(added.piece);
                prop_assert_eq!(target.len() as u64, fr32::to_padded(written));
            }
            for filler in fillers(written, sector) {
                pieces.push(zero_piece(filler));
            }
            target.resize(sector.bytes() as usize, 0);
            prop_assert_eq!(comm_d(sector, &pieces).unwrap().0, slow_root(target.as_chunks().0));
        }
    }
}
