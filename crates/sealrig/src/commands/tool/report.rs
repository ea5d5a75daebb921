//! What the tools print, for people and as JSON. Hexadecimal values are bytes in network order.

use super::Terminal;
use super::dir::{Record, Sealed};
use super::units::Account;
use crate::exit::Result;
use crate::output;
use primitives::cids::{comm_d_to_cid, comm_r_to_cid};
use proofs::piece::fillers;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Instant;

/// A piece of the user.
#[derive(Debug, Serialize)]
pub(super) struct PieceReport {
    comm_p: String,
    piece_cid: String,
    unpadded: u64,
    offset: u64,
    file_bytes: u64,
}

/// The sector and its data.
#[derive(Debug, Serialize)]
pub(super) struct DataReport {
    seal_proof: u64,
    miner_id: u64,
    sector: u64,
    pieces: Vec<PieceReport>,
    /// Unpadded sizes of the zero pieces after the user's.
    fillers: Vec<u64>,
}

impl DataReport {
    pub(super) fn of(record: &Record) -> Self {
        let pieces = record.pieces.iter().map(|p| PieceReport {
            comm_p: p.comm_p.to_string(),
            piece_cid: comm_d_to_cid(&p.comm_p).to_string(),
            unpadded: p.unpadded.bytes(),
            offset: p.offset,
            file_bytes: p.file_bytes,
        });
        let fill = fillers(record.written(), record.seal_proof.sector_size());
        Self {
            seal_proof: record.seal_proof.number(),
            miner_id: record.miner_id.0,
            sector: record.sector.0,
            pieces: pieces.collect(),
            fillers: fill.into_iter().map(|size| size.bytes()).collect(),
        }
    }

    pub(super) fn text(&self, record: &Record) -> String {
        let proof = record.seal_proof;
        let mut text = line("sector", format!("{}, {}, {}", record.id(), proof.sector_size(), proof.name()));
        for (number, piece) in (1..).zip(&self.pieces) {
            let PieceReport { piece_cid, unpadded, offset, file_bytes, .. } = piece;
            text += &line(
                &format!("piece {number}"),
                format!("{piece_cid}, bytes {offset} to {}, {file_bytes} of a file", offset + unpadded),
            );
        }
        let zeros: u64 = self.fillers.iter().sum();
        text + &line("zeros at the end", format!("{zeros} bytes"))
    }
}

/// The commitments of a sealed sector.
#[derive(Debug, Serialize)]
pub(super) struct SealedReport {
    comm_d: String,
    comm_r: String,
    comm_c: String,
    comm_r_last: String,
    replica_id: String,
    comm_d_cid: String,
    comm_r_cid: String,
}

impl SealedReport {
    pub(super) fn of(sealed: &Sealed) -> Self {
        Self {
            comm_d: sealed.comm_d.to_string(),
            comm_r: sealed.comm_r.to_string(),
            comm_c: sealed.comm_c.to_string(),
            comm_r_last: sealed.comm_r_last.to_string(),
            replica_id: sealed.replica_id.to_string(),
            comm_d_cid: comm_d_to_cid(&sealed.comm_d).to_string(),
            comm_r_cid: comm_r_to_cid(&sealed.comm_r).to_string(),
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in [
            ("comm_d", &self.comm_d),
            ("comm_r", &self.comm_r),
            ("comm_c", &self.comm_c),
            ("comm_r_last", &self.comm_r_last),
            ("replica_id", &self.replica_id),
            ("comm_d CID", &self.comm_d_cid),
            ("comm_r CID", &self.comm_r_cid),
        ] {
            text += &line(name, value);
        }
        text
    }
}

/// One line of the human form.
pub(super) fn line(name: &str, value: impl std::fmt::Display) -> String {
    format!("{name:<17} {value}\n")
}

/// "1 piece", "2 pieces".
pub(super) fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Milliseconds each stage took.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct StageTimes(BTreeMap<&'static str, u64>);

impl StageTimes {
    /// Runs a stage and notes its time.
    ///
    /// # Errors
    /// Those of the stage.
    pub(super) fn time<T>(&mut self, stage: &'static str, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let result = run()?;
        self.0.insert(stage, u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX));
        Ok(result)
    }

    /// In the order of the stages.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for stage in ["add_piece", "precommit1", "precommit2", "commit1", "verify_vanilla"] {
            if let Some(ms) = self.0.get(stage) {
                // Writing to a text cannot fail.
                let _ = write!(text, "{}{stage} {ms} ms", if text.is_empty() { "" } else { ", " });
            }
        }
        line("times", text)
    }
}

/// Files of an earlier run, for people.
pub(super) fn reused_text(account: &Account) -> String {
    if account.reused.is_empty() { String::new() } else { line("reused", account.reused.join(", ")) }
}

/// Prints the JSON or the human form.
///
/// # Errors
/// If stdout cannot be written.
pub(super) fn print<T: Serialize>(terminal: &Terminal, report: &T, text: &str) -> Result {
    terminal.bars.clear();
    if terminal.json { output::json(report) } else { output::text(text) }
}
