//! `tool add-piece`: the first stage by itself.

use super::dir::{Record, SealDir, SectorFlags, agree, need};
use super::report::{self, DataReport};
use super::source::Source;
use super::{Terminal, pieces};
use crate::exit::{Failure, Result};
use clap::Args;
use std::path::PathBuf;

/// Arguments of `tool add-piece`.
#[derive(Debug, Args)]
#[command(
    after_help = "The first call says which sector it is and makes DIR; later calls append. Each FILE is a \
                        piece: filled with zeros to 127 * 2^k bytes and placed at a multiple of its size. Without a \
                        FILE the sector is zeros.\n\nExample:\n  sealrig tool add-piece --dir /tmp/sector \
                        --seal-proof 5 --miner-id 1000 --sector 1 notes.txt"
)]
pub(crate) struct AddPiece {
    /// The sector's folder, made if it is not there
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    sector: SectorFlags,
    /// The data, one piece for each file
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(super) fn run(args: &AddPiece, terminal: &Terminal) -> Result {
    if args.sector.ticket.is_some() {
        return Err(
            Failure::usage("pieces need no ticket").next("give --ticket to `sealrig tool precommit1`")
        );
    }
    let sources = args.files.iter().map(|file| Source::open(file)).collect::<Result<Vec<_>>>()?;
    let flags = &args.sector;
    let known = match args.dir.exists() {
        true => SealDir::open(&args.dir, super::dir::Access::Read)?.load()?,
        false => None,
    };
    // Everything is checked before the folder is made.
    let record = match known {
        Some(record) => {
            agree(flags, &record)?;
            record
        }
        None => Record::new(
            need("seal-proof", flags.seal_proof)?,
            need("miner-id", flags.miner_id)?,
            need("sector", flags.sector)?,
        ),
    };
    pieces::check_fit(record.seal_proof.sector_size(), record.written(), &sources)?;
    let dir = SealDir::create(&args.dir)?;
    let mut record = dir.load()?.unwrap_or(record);
    if let Some(ticket) = record.ticket {
        return Err(Failure::usage(format!(
            "sealing of {} has begun with ticket {ticket}: no piece can be added",
            record.id()
        ))
        .next("begin a new sector in another --dir"));
    }
    pieces::check_fit(record.seal_proof.sector_size(), record.written(), &sources)?;
    pieces::append(&dir, &mut record, &sources, terminal)?;
    let data = DataReport::of(&record);
    let text = data.text(&record);
    report::print(terminal, &data, &text)
}
