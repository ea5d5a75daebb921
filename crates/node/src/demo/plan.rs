//! How many sectors inputs need: the same first fit in order that places them, on paper.

use primitives::RegisteredSealProof;
use primitives::{SectorSize, UnpaddedSize};
use sealing::record::PIECES_MAX;
use sealing::storage::life_bytes;

/// Sizes that are chosen without being asked for, smallest first.
const CHOICES: [SectorSize; 2] = [SectorSize::KiB2, SectorSize::MiB8];

/// What inputs will take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// The sector size.
    pub sector_size: SectorSize,
    /// Sectors needed.
    pub sectors: u64,
    /// Bytes of disk while all of them are sealed.
    pub disk_bytes: u64,
    /// Roughly how long sealing takes, in seconds.
    pub seconds: u64,
}

impl Plan {
    /// The plan for inputs of these lengths in sectors of this size.
    pub fn new(lengths: &[u64], sector_size: SectorSize) -> Self {
        let sectors = sectors_needed(lengths, sector_size);
        let life = RegisteredSealProof::v1_1(sector_size).map_or(0, life_bytes);
        Self {
            sector_size,
            sectors,
            disk_bytes: life.saturating_mul(sectors),
            seconds: seconds_per_sector(sector_size).saturating_mul(sectors),
        }
    }

    /// The plan with the smallest size that holds everything in one sector, at most 8 MiB.
    pub fn smallest(lengths: &[u64]) -> Self {
        let fits = CHOICES.into_iter().find(|size| sectors_needed(lengths, *size) <= 1);
        Self::new(lengths, fits.unwrap_or(SectorSize::MiB8))
    }
}

/// Measured on two old cores, rounded up: an order of magnitude, to be told as one.
fn seconds_per_sector(size: SectorSize) -> u64 {
    match size.bytes() {
        0..=32_768 => 1,
        // Labels, trees and proofs grow with the size; large sectors have more layers.
        bytes => (bytes >> 20).max(1) * if size >= SectorSize::GiB32 { 6 } else { 1 } + 2,
    }
}

/// First fit in order, each piece at a multiple of its own size (proofs.md §11.2).
fn sectors_needed(lengths: &[u64], sector_size: SectorSize) -> u64 {
    let capacity = sector_size.unpadded_bytes();
    // Padded bytes taken, and pieces.
    let mut open: Vec<(u64, usize)> = Vec::new();
    let mut full = 0u64;
    for &length in lengths {
        // Whole sectors need no search.
        full += length / capacity;
        let Some(size) = UnpaddedSize::containing(length % capacity) else { continue };
        let padded = size.padded().bytes();
        let room = open.iter_mut().find(|(taken, pieces)| {
            *pieces < PIECES_MAX && taken.next_multiple_of(padded) + padded <= sector_size.bytes()
        });
        match room {
            Some((taken, pieces)) => {
                *taken = taken.next_multiple_of(padded) + padded;
                *pieces += 1;
            }
            None => open.push((padded, 1)),
        }
    }
    full + open.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_share_sectors_as_far_as_alignment_allows() {
        let needed = |lengths: &[u64]| sectors_needed(lengths, SectorSize::KiB2);
        assert_eq!(needed(&[2032]), 1);
        assert_eq!(needed(&[2033]), 2);
        assert_eq!(needed(&[1016, 1016]), 1);
        // 1017 bytes pad to the whole sector.
        assert_eq!(needed(&[1017, 1]), 2);
        // 127 at 0, 1016 at 1024: the hole between is not used again.
        assert_eq!(needed(&[127, 1016, 127]), 2);
        assert_eq!(needed(&[2032 * 3 + 1, 127]), 4);
        assert_eq!(needed(&[]), 0);
    }

    #[test]
    fn the_smallest_size_is_chosen_up_to_eight_mebibytes() {
        assert_eq!(Plan::smallest(&[2032]).sector_size, SectorSize::KiB2);
        assert_eq!(Plan::smallest(&[2033]).sector_size, SectorSize::MiB8);
        assert_eq!(Plan::smallest(&[8_323_072]).sectors, 1);
        let two = Plan::smallest(&[8_323_073]);
        assert_eq!((two.sector_size, two.sectors), (SectorSize::MiB8, 2));
        assert!(two.disk_bytes > 2 * 8 * (8 << 20) / 2 && two.seconds > 2);
    }
}
