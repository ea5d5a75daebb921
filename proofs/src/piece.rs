//! Pieces: CommP, CommD and AddPiece (proofs.md §1.5, §11.2-§11.4).

mod commd;
mod stream;

pub use commd::{PiecesError, comm_d, fillers, zero_commitment, zero_piece};
pub use stream::{AddedPiece, Fill, add_piece, comm_p};

use primitives::UnpaddedSize;

/// Zero bytes (unpadded) to write before a piece of `size` after `written` bytes, so that it begins at a multiple of its
/// size (proofs.md §11.2).
pub const fn left_padding(written: u64, size: UnpaddedSize) -> u64 {
    let need = size.bytes();
    (need - written % need) % need
}
