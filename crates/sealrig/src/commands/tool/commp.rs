//! `tool commp`: the commitment of a file as a piece.

use super::source::Source;
use super::{Terminal, failure};
use crate::exit::Result;
use crate::output;
use clap::Args;
use primitives::cids::comm_d_to_cid;
use proofs::piece::{Fill, comm_p};
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `tool commp`.
#[derive(Debug, Args)]
#[command(after_help = "The file is filled up with zeros to the next size of a piece, 127 * 2^k bytes.\n\n\
                        Example:\n  sealrig tool commp data.car --json")]
pub(crate) struct Commp {
    /// The file, not empty
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Serialize)]
struct Report {
    comm_p: String,
    piece_cid: String,
    unpadded: u64,
    padded: u64,
    file_bytes: u64,
}

pub(super) fn run(args: &Commp, terminal: &Terminal) -> Result {
    let source = Source::open(&args.file)?;
    let piece = source.read(|reader| {
        comm_p(reader, source.size(), Fill::Zeros, &terminal.control(&())).map_err(failure::of_proofs)
    })?;
    let report = Report {
        comm_p: piece.comm_p.to_string(),
        piece_cid: comm_d_to_cid(&piece.comm_p).to_string(),
        unpadded: piece.size.bytes(),
        padded: piece.size.padded().bytes(),
        file_bytes: source.bytes(),
    };
    terminal.bars.clear();
    if terminal.json {
        return output::json(&report);
    }
    output::text(&format!(
        "{}  {}  padded {}, unpadded {}, file {} bytes\n",
        report.piece_cid, report.comm_p, report.padded, report.unpadded, report.file_bytes
    ))
}
