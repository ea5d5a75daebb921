//! CommD from declared pieces (`proofs.md` §11.4), as the actor computes it.

use primitives::{Commitment, SectorSize};
use sha2::{Digest, Sha256};

/// The smallest padded piece in bytes.
const MIN_PIECE_BYTES: u64 = 128;

/// Why pieces cannot make up a sector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PiecesError {
    /// A size is no power of two, or too small.
    #[error("a padded piece is a power of two of at least 128 bytes, got {0}")]
    Size(u64),
    /// They do not fit, zeros for alignment included.
    #[error("the pieces take more than the sector's {0} bytes")]
    TooMuch(u64),
}

/// SHA-256 of two nodes with the two top bits cleared.
fn node(left: &Commitment, right: &Commitment) -> Commitment {
    let mut hasher = Sha256::new();
    hasher.update(left.as_bytes());
    hasher.update(right.as_bytes());
    let mut out: [u8; 32] = hasher.finalize().into();
    out[31] &= 0x3f;
    Commitment(out)
}

/// The commitment of `bytes` zero bytes; `bytes` is a power of two of at least 32.
pub fn zero_commitment(bytes: u64) -> Commitment {
    let mut out = Commitment([0; 32]);
    for _ in 0..(bytes / 32).max(1).ilog2() {
        out = node(&out, &out);
    }
    out
}

/// Adds a subtree; equal neighbours become one of twice the size.
fn push(stack: &mut Vec<(u64, Commitment)>, mut size: u64, mut commitment: Commitment) {
    while let Some((top, left)) = stack.last() {
        if *top != size {
            break;
        }
        commitment = node(left, &commitment);
        size *= 2;
        stack.pop();
    }
    stack.push((size, commitment));
}

/// CommD of a sector that holds `pieces` (CommP and padded size in bytes) in order, each aligned to its size, and zeros
/// up to its end.
///
/// # Errors
/// [`PiecesError`].
pub fn comm_d(size: SectorSize, pieces: &[(Commitment, u64)]) -> Result<Commitment, PiecesError> {
    let mut stack: Vec<(u64, Commitment)> = Vec::new();
    let mut used = 0u64;
    let too_much = || PiecesError::TooMuch(size.bytes());
    let mut add = |stack: &mut Vec<_>, bytes: u64, commitment| {
        used = used.checked_add(bytes).filter(|u| *u <= size.bytes()).ok_or_else(too_much)?;
        push(stack, bytes, commitment);
        Ok(())
    };
    for (commitment, bytes) in pieces {
        if !bytes.is_power_of_two() || *bytes < MIN_PIECE_BYTES {
            return Err(PiecesError::Size(*bytes));
        }
        while let Some((top, _)) = stack.last().copied().filter(|(top, _)| top < bytes) {
            add(&mut stack, top, zero_commitment(top))?;
        }
        add(&mut stack, *bytes, *commitment)?;
    }
    while let Some((top, _)) = stack.last().copied().filter(|(top, _)| *top < size.bytes()) {
        add(&mut stack, top, zero_commitment(top))?;
    }
    Ok(stack.pop().map_or_else(|| zero_commitment(size.bytes()), |(_, commitment)| commitment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_answers() {
        // chain-vectors.json, zero_commd and zero_piece.
        for (bytes, hex) in [
            (128u64, "3731bb99ac689f66eef5973e4a94da188f4ddcae580724fc6f3fd60dfd488333"),
            (2048, "fc7e928296e516faade986b28f92d44a4f24b935485223376a799027bc18f833"),
            (8 << 20, "65f29e5d98d246c38b388cfc06db1f6b021303c5a289000bdce832a9c3ec421c"),
            (512 << 20, "39560e7b13a93b07a243fd2720ffa7cb3e1d2e505ab3629e79f46313512cda06"),
            (32 << 30, "077e5fde35c50a9303a55009e3498a4ebedff39c42b710b730d8ec7ac7afa63e"),
            (64 << 30, "e64005a6bfe3777953b8ad6ef93f0fca1049b2041654f2a411f7702799cece02"),
        ] {
            assert_eq!(zero_commitment(bytes).to_string(), hex, "{bytes}");
        }
    }

    /// The same by a plain tree over places: an independent slow way.
    fn plain(size: u64, pieces: &[(Commitment, u64)]) -> Option<Commitment> {
        let mut placed = Vec::new();
        let mut at = 0u64;
        for (commitment, bytes) in pieces {
            at = at.next_multiple_of(*bytes);
            placed.push((at, *bytes, *commitment));
            at += bytes;
        }
        fn tree(from: u64, size: u64, placed: &[(u64, u64, Commitment)]) -> Commitment {
            if let Some(p) = placed.iter().find(|p| p.0 == from && p.1 == size) {
                return p.2;
            }
            if !placed.iter().any(|p| p.0 >= from && p.0 < from + size) {
                return zero_commitment(size);
            }
            node(&tree(from, size / 2, placed), &tree(from + size / 2, size / 2, placed))
        }
        (at <= size).then(|| tree(0, size, &placed))
    }

    proptest! {
        #[test]
        fn equals_the_plain_tree(list in proptest::collection::vec((any::<[u8; 32]>(), 7u32..12), 0..8)) {
            let pieces: Vec<_> = list.into_iter().map(|(c, log)| (Commitment(c), 1u64 << log)).collect();
            let got = comm_d(SectorSize::KiB2, &pieces);
            match plain(2048, &pieces) {
                Some(expected) => prop_assert_eq!(got.unwrap(), expected),
                None => prop_assert_eq!(got.unwrap_err(), PiecesError::TooMuch(2048)),
            }
        }

        #[test]
        fn hostile_sizes_never_panic(sizes in proptest::collection::vec(any::<u64>(), 0..6), logs in proptest::collection::vec(0u32..64, 0..6)) {
            let of = |sizes: &[u64]| {
                let pieces: Vec<_> = sizes.iter().map(|s| (Commitment([1; 32]), *s)).collect();
                comm_d(SectorSize::GiB64, &pieces)
            };
            let _ = of(&sizes);
            let _ = of(&logs.iter().map(|l| 1u64 << l).collect::<Vec<_>>());
        }
    }
}
