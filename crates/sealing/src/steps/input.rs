//! Pieces into the sector, and zeros behind them.

use super::{Answer, Cx, World, blocking, drive};
use crate::event::Event;
use crate::prover::PieceJob;
use crate::record::{PieceRecord, SectorRecord};
use crate::storage::StorageError;
use primitives::PaddedSize;
use proofs::piece::zero_piece;
use statemachine::Failure;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

/// Writes the first assigned piece.
pub(super) async fn add_piece(world: Arc<World>, cx: Cx) -> Answer {
    let r = cx.record();
    let Some(piece) = r.assigned.first().cloned() else {
        return Err(Failure::permanent("the sector has no assigned piece to write"));
    };
    let job = PieceJob {
        sector: r.id(),
        source: world.storage.staged(&piece.staged),
        payload_bytes: piece.payload.bytes,
        digest: piece.digest,
        unsealed: world.storage.paths(r.id()).unsealed,
        offset: piece.offset,
        size: piece.size,
        expected: piece.expected,
    };
    let info = drive(&cx, |watch| world.prover.add_piece(job, watch)).await?;
    Ok(Event::PieceAdded { piece: PieceRecord { info, offset: piece.offset, payload: Some(piece.payload) } })
}

/// Fills what no piece takes with zero pieces, up to the sector's size.
pub(super) async fn packing(world: Arc<World>, cx: Cx) -> Answer {
    let r = cx.record();
    let fillers = fillers(r);
    let unsealed = world.storage.paths(r.id()).unsealed;
    let size = r.proof.sector_size().bytes();
    world.prover.idle(r.id()).await;
    blocking("fill a sector with zeros", move || extend(&unsealed, size)).await?;
    Ok(Event::Packed { fillers })
}

/// Sets the file's length; what is new reads as zeros, and takes no room until it is written. The data before it was
/// synced piece by piece.
fn extend(unsealed: &Path, size: u64) -> Result<(), StorageError> {
    let failed = |action| {
        let path = unsealed.to_owned();
        move |source| StorageError::Io { action, path, source }
    };
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).open(unsealed).map_err(failed("open"))?;
    file.set_len(size).map_err(failed("set the length of"))?;
    file.sync_all().map_err(failed("sync"))
}

/// Zero pieces for every gap: before pieces that had to be aligned, and behind the last one. Each is the largest power
/// of two that its place allows.
fn fillers(r: &SectorRecord) -> Vec<PieceRecord> {
    let size = r.proof.sector_size().bytes();
    let mut out = Vec::new();
    let mut at = 0;
    for next in r.pieces.iter().map(Some).chain([None]) {
        let end = next.map_or(size, |p| p.offset);
        while at < end {
            let aligned = if at == 0 { size } else { 1 << at.trailing_zeros() };
            let room = 1u64 << (end - at).ilog2();
            let bytes = aligned.min(room);
            let padded = PaddedSize::new(bytes).expect("sizes and offsets in a sector are multiples of 128");
            out.push(PieceRecord { info: zero_piece(padded.unpadded()), offset: at, payload: None });
            at += bytes;
        }
        at = next.map_or(size, |p| p.offset + p.info.size.padded().bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::{
        ActorId, Commitment, PieceInfo, RegisteredSealProof, SectorId, SectorNumber, UnpaddedSize,
    };

    fn sector(pieces: &[(u64, u64)]) -> SectorRecord {
        let id = SectorId { miner: ActorId(1000), number: SectorNumber(1) };
        let mut r = SectorRecord::new(id, RegisteredSealProof::new(5).unwrap(), 0);
        for &(offset, padded) in pieces {
            let size = PaddedSize::new(padded).unwrap().unpadded();
            r.pieces.push(PieceRecord {
                info: PieceInfo { comm_p: Commitment([1; 32]), size },
                offset,
                payload: None,
            });
        }
        r
    }

    fn layout(r: &SectorRecord) -> Vec<(u64, u64)> {
        fillers(r).iter().map(|p| (p.offset, p.info.size.padded().bytes())).collect()
    }

    #[test]
    fn an_empty_sector_is_one_filler() {
        assert_eq!(layout(&sector(&[])), [(0, 2048)]);
    }

    #[test]
    fn gaps_before_aligned_pieces_and_the_tail_are_filled() {
        assert_eq!(layout(&sector(&[(0, 128), (512, 512)])), [(128, 128), (256, 256), (1024, 1024)]);
        assert_eq!(layout(&sector(&[(0, 2048)])), []);
        assert_eq!(layout(&sector(&[(0, 1024), (1024, 128)])), [(1152, 128), (1280, 256), (1536, 512)]);
    }

    #[test]
    fn pieces_and_fillers_cover_the_sector_wherever_pieces_go() {
        for a in 0..5u32 {
            for b in 0..5u32 {
                let mut r = sector(&[]);
                for size in [127u64 << a, 127 << b] {
                    let size = UnpaddedSize::new(size).unwrap();
                    if let Some(offset) = r.place(size) {
                        let info = PieceInfo { comm_p: Commitment([1; 32]), size };
                        r.pieces.push(PieceRecord { info, offset, payload: None });
                    }
                }
                let mut all: Vec<_> = r.pieces.iter().cloned().chain(fillers(&r)).collect();
                all.sort_by_key(|p| p.offset);
                let mut at = 0;
                for p in &all {
                    let padded = p.info.size.padded().bytes();
                    assert_eq!(p.offset, at);
                    assert_eq!(p.offset % padded, 0, "aligned to its own size");
                    at += padded;
                }
                assert_eq!(at, 2048);
            }
        }
    }
}
