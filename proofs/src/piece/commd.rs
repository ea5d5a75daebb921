//! Commitments of zeros, and CommD from the commitments of pieces.

use crate::{Node, sha256};
use primitives::{Commitment, PieceInfo, SectorSize, UnpaddedSize};
use std::sync::OnceLock;

/// Why pieces do not make up a sector (proofs.md §11.4).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PiecesError {
    /// More pieces than smallest pieces fit into a sector.
    #[error("{got} pieces: a sector of {sector_size} holds at most {limit}")]
    TooMany {
        /// The sector's size.
        sector_size: SectorSize,
        /// The limit.
        limit: u64,
        /// The number given.
        got: u64,
    },
    /// The pieces are larger than the sector.
    #[error("the pieces have {got} padded bytes: more than a sector of {sector_size}")]
    TooLarge {
        /// The sector's size.
        sector_size: SectorSize,
        /// Bytes of all pieces after padding.
        got: u128,
    },
    /// The zeros between the pieces, which align each to its size, do not fit.
    #[error(
        "the pieces with the zeros that align them have {got} padded bytes: more than a sector of {sector_size}"
    )]
    TooLargeAligned {
        /// The sector's size.
        sector_size: SectorSize,
        /// Bytes of all pieces and zeros after padding.
        got: u64,
    },
    /// A commitment of zeros stands for no piece (proofs.md §1.5).
    #[error("piece {index} has an all-zero commitment")]
    ZeroCommitment {
        /// Which piece, from 0.
        index: usize,
    },
}

/// `Z_level`: the root over `2^level` zero nodes, 32 * 2^level padded bytes (proofs.md §1.6).
///
/// # Panics
/// If `level` is above 63.
pub fn zero_commitment(level: u32) -> Node {
    static TABLE: OnceLock<[Node; 64]> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = [[0; 32]; 64];
        for i in 1..64 {
            table[i] = sha256::node(&table[i - 1], &table[i - 1]);
        }
        table
    })[level as usize]
}

fn zeros(padded_bytes: u64) -> Commitment {
    Commitment(zero_commitment((padded_bytes / 32).ilog2()))
}

/// A piece of zeros.
pub fn zero_piece(size: UnpaddedSize) -> PieceInfo {
    PieceInfo { comm_p: zeros(size.padded().bytes()), size }
}

/// The zero pieces that fill a sector after `written` unpadded bytes, in order: each begins at a multiple of its size.
/// `written` counts whole quads; a rest is counted as a quad. Empty if the sector is full.
pub fn fillers(written: u64, sector_size: SectorSize) -> Vec<UnpaddedSize> {
    let total = sector_size.bytes() / 128;
    let mut at = written.div_ceil(127);
    let mut out = Vec::new();
    while at < total {
        // The largest power of two that divides `at`; from 0 the whole sector.
        let quads = if at == 0 { total } else { 1 << at.trailing_zeros() };
        out.push(UnpaddedSize::new(quads * 127).expect("127 times a power of two"));
        at += quads;
    }
    out
}

/// CommD from the pieces in order (proofs.md §11.4). Zeros are put between pieces to align them and after the last one up
/// to a power of two, but not up to the sector: callers add filler pieces.
///
/// # Errors
/// [`PiecesError`] for pieces that do not fit, also with the zeros between them.
pub fn comm_d(sector_size: SectorSize, pieces: &[PieceInfo]) -> Result<Commitment, PiecesError> {
    let limit = sector_size.unpadded_bytes() / 127;
    if pieces.len() as u64 > limit {
        return Err(PiecesError::TooMany { sector_size, limit, got: pieces.len() as u64 });
    }
    let sum: u128 = pieces.iter().map(|p| u128::from(p.size.padded().bytes())).sum();
    if sum > u128::from(sector_size.bytes()) {
        return Err(PiecesError::TooLarge { sector_size, got: sum });
    }
    if let Some(index) = pieces.iter().position(|p| p.comm_p.0 == [0; 32]) {
        return Err(PiecesError::ZeroCommitment { index });
    }
    let mut stack = Stack::default();
    for piece in pieces {
        let size = piece.size.padded().bytes();
        while let Some(top) = stack.top_size()
            && top < size
        {
            stack.push(top, zeros(top).0);
        }
        stack.push(size, piece.comm_p.0);
    }
    while stack.0.len() > 1
        && let Some(top) = stack.top_size()
    {
        stack.push(top, zeros(top).0);
    }
    match stack.0.pop() {
        None => Ok(zeros(sector_size.bytes())),
        Some((size, _)) if size > sector_size.bytes() => {
            Err(PiecesError::TooLargeAligned { sector_size, got: size })
        }
        Some((_, root)) => Ok(Commitment(root)),
    }
}

/// Roots of complete subtrees from left to right, sizes descending; two equal ones are joined.
#[derive(Default)]
pub(super) struct Stack(Vec<(u64, Node)>);

impl Stack {
    pub(super) fn push(&mut self, mut size: u64, mut root: Node) {
        while let Some((top, lower)) = self.0.last()
            && *top == size
        {
            root = sha256::node(lower, &root);
            size *= 2;
            self.0.pop();
        }
        self.0.push((size, root));
    }

    fn top_size(&self) -> Option<u64> {
        self.0.last().map(|(size, _)| *size)
    }

    /// The root, if there is one single tree.
    pub(super) fn root(&self) -> Option<Node> {
        match self.0[..] {
            [(_, root)] => Some(root),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn size(quads: u64) -> UnpaddedSize {
        UnpaddedSize::new(quads * 127).unwrap()
    }

    fn piece(quads: u64, byte: u8) -> PieceInfo {
        PieceInfo { comm_p: Commitment([byte; 32]), size: size(quads) }
    }

    /// proofs.md §1.6.
    #[test]
    fn zero_commitments() {
        for (bytes, hex) in [
            (64u64, "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb0b"),
            (128, "3731bb99ac689f66eef5973e4a94da188f4ddcae580724fc6f3fd60dfd488333"),
            (2 << 10, "fc7e928296e516faade986b28f92d44a4f24b935485223376a799027bc18f833"),
            (8 << 20, "65f29e5d98d246c38b388cfc06db1f6b021303c5a289000bdce832a9c3ec421c"),
            (512 << 20, "39560e7b13a93b07a243fd2720ffa7cb3e1d2e505ab3629e79f46313512cda06"),
            (32 << 30, "077e5fde35c50a9303a55009e3498a4ebedff39c42b710b730d8ec7ac7afa63e"),
            (64 << 30, "e64005a6bfe3777953b8ad6ef93f0fca1049b2041654f2a411f7702799cece02"),
        ] {
            assert_eq!(zeros(bytes).to_string(), hex, "{bytes}");
        }
    }

    #[test]
    fn no_pieces_are_a_sector_of_zeros() {
        let empty = comm_d(SectorSize::MiB8, &[]).unwrap();
        assert_eq!(empty, zeros(8 << 20));
        let full = comm_d(SectorSize::MiB8, &[zero_piece(size(1 << 16))]).unwrap();
        assert_eq!(full, empty);
    }

    #[test]
    fn pieces_are_aligned_but_not_extended() {
        let h = sha256::node;
        let (a, b) = (piece(1, 1), piece(2, 2));
        // A half-filled sector: not padded (proofs.md §13, trap 15).
        assert_eq!(comm_d(SectorSize::KiB2, &[b]).unwrap(), b.comm_p);
        let z = zero_commitment(2);
        let expected = h(&h(&a.comm_p.0, &z), &b.comm_p.0);
        assert_eq!(comm_d(SectorSize::KiB2, &[a, b]).unwrap().0, expected);
        let expected = h(&b.comm_p.0, &h(&a.comm_p.0, &z));
        assert_eq!(comm_d(SectorSize::KiB2, &[b, a]).unwrap().0, expected);
    }

    #[test]
    fn too_much_is_refused() {
        let too_many = vec![piece(1, 1); 17];
        assert!(matches!(comm_d(SectorSize::KiB2, &too_many), Err(PiecesError::TooMany { .. })));
        assert!(matches!(comm_d(SectorSize::KiB2, &[piece(32, 1)]), Err(PiecesError::TooLarge { .. })));
        // 8 + 1 + 4 = 13 quads fit, but aligned they need 8 + (1 + 3) + 4; one more does not.
        comm_d(SectorSize::KiB2, &[piece(8, 1), piece(1, 1), piece(4, 1)]).unwrap();
        let unaligned = [piece(1, 1), piece(8, 1), piece(4, 1)];
        comm_d(SectorSize::KiB2, &unaligned[..2]).unwrap();
        let over = [piece(1, 1), piece(8, 1), piece(1, 1)];
        assert!(matches!(comm_d(SectorSize::KiB2, &over), Err(PiecesError::TooLargeAligned { .. })));
        let zero = [PieceInfo { comm_p: Commitment([0; 32]), size: size(1) }];
        assert_eq!(comm_d(SectorSize::KiB2, &zero), Err(PiecesError::ZeroCommitment { index: 0 }));
    }

    proptest! {
        #[test]
        fn fillers_fill_the_sector(written in 0u64..=SectorSize::KiB32.unpadded_bytes()) {
            let mut at = written.div_ceil(127) * 127;
            for filler in fillers(written, SectorSize::KiB32) {
                prop_assert_eq!(at % filler.bytes(), 0);
                at += filler.bytes();
            }
            prop_assert_eq!(at, SectorSize::KiB32.unpadded_bytes());
        }
    }
}
