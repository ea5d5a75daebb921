//! Putting the user's files into the unsealed file, as pieces that begin at multiples of their sizes (proofs.md §11.2).

use super::dir::{Piece, Record, SealDir};
use super::report::count;
use super::source::{Source, cannot};
use super::{Terminal, failure};
use crate::exit::{Failure, Result};
use primitives::{PieceInfo, SectorSize, UnpaddedSize};
use proofs::files::sync_folder_of;
use proofs::fr32::to_padded;
use proofs::piece::{Fill, add_piece, comm_p, fillers, left_padding, zero_piece};
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};

/// The pieces as the proofs take them: with fillers up to the sector. No piece is a sector of zeros.
pub(super) fn with_fillers(size: SectorSize, pieces: &[Piece]) -> Vec<PieceInfo> {
    let written = pieces.last().map_or(0, |p| p.offset + p.unpadded.bytes());
    let fill = if pieces.is_empty() { vec![] } else { fillers(written, size) };
    pieces.iter().map(Piece::info).chain(fill.into_iter().map(zero_piece)).collect()
}

/// The largest piece that still fits after `written` bytes.
fn largest_after(size: SectorSize, written: u64) -> u64 {
    let capacity = size.unpadded_bytes();
    std::iter::successors(Some(127u64), |n| n.checked_mul(2))
        .take_while(|n| *n <= capacity)
        .filter_map(|n| UnpaddedSize::new(n).ok())
        .filter(|n| written + left_padding(written, *n) + n.bytes() <= capacity)
        .map(UnpaddedSize::bytes)
        .max()
        .unwrap_or(0)
}

/// Checks that all sources fit into a sector after `written` bytes.
///
/// # Errors
/// Names the first that does not, and says what does.
pub(super) fn check_fit(size: SectorSize, mut written: u64, sources: &[Source]) -> Result {
    for (i, source) in sources.iter().enumerate() {
        let need = source.size();
        let at = written.saturating_add(left_padding(written, need));
        let end = at.saturating_add(need.bytes());
        if end > size.unpadded_bytes() {
            let fits = match largest_after(size, written) {
                0 => "and the sector is full".to_owned(),
                free => format!("and a piece of at most {free} bytes fits"),
            };
            return Err(Failure::usage(format!(
                "{} does not fit: its piece of {} bytes would take bytes {at} to {end} of a sector that holds {} \
                 ({size}); {} before it, {fits}",
                source.path().display(),
                need.bytes(),
                size.unpadded_bytes(),
                match i {
                    0 => "no piece is".to_owned(),
                    1 => "1 piece is".to_owned(),
                    n => format!("{n} pieces are"),
                },
            ))
            .next("give fewer or smaller files, or a seal proof of a larger sector"));
        }
        written = end;
    }
    Ok(())
}

/// Appends the sources to the sector's unsealed file and remembers them. Until all of them are on disk nothing is
/// remembered, and what was written is cut off again.
///
/// # Errors
/// If a source cannot be read or the file not be written.
pub(super) fn append(dir: &SealDir, record: &mut Record, sources: &[Source], terminal: &Terminal) -> Result {
    let path = dir.unsealed();
    let sector = record.seal_proof.sector_size().bytes();
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|e| cannot("write", &path, &e))?;
    let before = to_padded(record.written());
    // Also what an interrupted run left behind.
    file.set_len(before).map_err(|e| cannot("cut", &path, &e))?;
    let appended = write_pieces(dir, record.written(), sources, &mut file, terminal);
    if appended.is_err() {
        // Best effort: the next run does the same first.
        let _ = file.set_len(before);
    }
    // The sector's size in any case: the rest is zeros, which are the fillers.
    file.set_len(sector).map_err(|e| cannot("extend", &path, &e))?;
    let pieces = appended?;
    file.sync_all().map_err(|e| cannot("sync", &path, &e))?;
    sync_folder_of(&path).map_err(failure::of_file)?;
    record.pieces.extend(pieces);
    dir.store(record)
}

fn write_pieces(
    dir: &SealDir,
    mut written: u64,
    sources: &[Source],
    file: &mut File,
    terminal: &Terminal,
) -> Result<Vec<Piece>> {
    let path = dir.unsealed();
    file.seek(SeekFrom::End(0)).map_err(|e| cannot("write", &path, &e))?;
    let mut pieces = Vec::with_capacity(sources.len());
    for source in sources {
        let added = source.read(|reader| {
            add_piece(reader, source.size(), Fill::Zeros, file, written, &terminal.control(&()))
                .map_err(|e| with_files(failure::of_proofs(e), source, &path))
        })?;
        pieces.push(Piece {
            comm_p: added.piece.comm_p,
            unpadded: added.piece.size,
            offset: written + added.left_padding,
            file_bytes: source.bytes(),
        });
        written += added.written;
    }
    Ok(pieces)
}

fn with_files(mut failure: Failure, source: &Source, target: &std::path::Path) -> Failure {
    if failure.exit == crate::exit::Exit::Failure {
        failure.message =
            format!("adding {} to {}: {}", source.path().display(), target.display(), failure.message);
    }
    failure
}

/// Makes sure that the sources are the pieces of the record.
///
/// # Errors
/// The first difference.
pub(super) fn same_pieces(dir: &SealDir, record: &Record, sources: &[Source], terminal: &Terminal) -> Result {
    let other = |what: String| {
        Failure::usage(format!("{} holds a sector of other data: {what}", dir.root().display()))
            .next("give the same files in the same order, or another --dir")
    };
    if record.pieces.len() != sources.len() {
        return Err(other(format!(
            "it has {}, and {} given",
            count(record.pieces.len(), "piece"),
            match sources.len() {
                1 => "1 file was".to_owned(),
                n => format!("{n} files were"),
            }
        )));
    }
    for (i, (piece, source)) in record.pieces.iter().zip(sources).enumerate() {
        let number = i + 1;
        let name = source.path().display();
        if piece.file_bytes != source.bytes() {
            return Err(other(format!(
                "piece {number} was a file of {} bytes, {name} has {}",
                piece.file_bytes,
                source.bytes()
            )));
        }
        let info = source.read(|reader| {
            comm_p(reader, source.size(), Fill::Zeros, &terminal.control(&())).map_err(failure::of_proofs)
        })?;
        if info != piece.info() {
            return Err(other(format!(
                "piece {number} has CommP {}, that of {name} is {}",
                piece.comm_p, info.comm_p
            )));
        }
    }
    Ok(())
}
