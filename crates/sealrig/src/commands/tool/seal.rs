//! `tool seal`: a sector from files to vanilla proofs, AddPiece to C1, verified.

use super::dir::{Record, SealDir};
use super::report::{self, DataReport, SealedReport, StageTimes};
use super::source::Source;
use super::stages::{self, Work};
use super::units::Account;
use super::{Terminal, pieces, values};
use crate::exit::{Failure, Result};
use clap::Args;
use primitives::{ActorId, RegisteredSealProof, SectorNumber, Seed, Ticket};
use proofs::control::Reuse;
use proofs::params::PoRepConfig;
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `tool seal`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each FILE is a piece: filled with zeros to 127 * 2^k bytes and placed at a multiple of its size. Without a FILE the \
sector is zeros.\n\
DIR gets unsealed (the fr32-padded sector), sealed, cache/, pc1.json, pc2.json, c1.json and tool.json.\n\
Run again with the same values it takes every finished file that cache/sealrig-manifest.json proves; with another \
ticket it takes none.\n\
The parents cache is kept in FIL_PROOFS_PARENT_CACHE [default: /var/tmp/filecoin-parents].\n\n\
Seal proofs, for sectors of 2KiB, 8MiB, 512MiB, 32GiB, 64GiB: 0-4 V1, 5-9 V1_1, 10-14 synthetic, 15-19 \
non-interactive. 11-14 and 16-19 stop before C1.\n\n\
Example:\n  \
sealrig tool seal --seal-proof 5 --miner-id 1000 --sector 1 --ticket $(openssl rand -hex 32) \\\n    \
--seed $(openssl rand -hex 32) --dir /tmp/sector notes.txt")]
pub(crate) struct Seal {
    /// Number of the registered seal proof, 0 to 19; it fixes the sector's size
    #[arg(long, value_name = "N", value_parser = values::seal_proof)]
    seal_proof: RegisteredSealProof,
    /// The miner, such as 1000 or f01000
    #[arg(long, value_name = "N", value_parser = values::miner_id)]
    miner_id: ActorId,
    /// The sector's number
    #[arg(long, value_name = "N", value_parser = values::sector)]
    sector: SectorNumber,
    /// Seal randomness, 64 hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = values::hex32::<Ticket>)]
    ticket: Ticket,
    /// Interactive randomness, 64 hexadecimal digits, not all zero
    #[arg(long, value_name = "HEX", value_parser = values::hex32::<Seed>)]
    seed: Seed,
    /// The sector's folder, made if it is not there
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// The data, one piece for each file
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    data: DataReport,
    #[serde(flatten)]
    sealed: SealedReport,
    /// The file of the vanilla proofs; none if their kind stops before C1.
    c1: Option<PathBuf>,
    verified: bool,
    stages_ms: StageTimes,
    #[serde(flatten)]
    account: Account,
}

pub(super) fn run(args: &Seal, terminal: &Terminal) -> Result {
    stages::check_seed(&args.seed)?;
    let config = PoRepConfig::registered(args.seal_proof);
    let c1_possible = stages::c1_possible(&config);
    let sources = args.files.iter().map(|file| Source::open(file)).collect::<Result<Vec<_>>>()?;
    pieces::check_fit(config.sector_size, 0, &sources)?;
    if c1_possible.is_err() {
        terminal.note("this kind of proof stops before C1, after the commitments are made");
    }

    let dir = SealDir::create(&args.dir)?;
    let mut times = StageTimes::default();
    let mut work = times.time("add_piece", || add_pieces(args, &dir, &sources, terminal))?;
    let pc1 = times.time("precommit1", || work.precommit1())?;
    let sealed = times.time("precommit2", || work.precommit2(&pc1))?;
    if c1_possible.is_ok() {
        times.time("commit1", || work.commit1(args.seed).map(drop))?;
        times.time("verify_vanilla", || work.verify(args.seed))?;
    }
    work.remark();

    let account = work.units.account();
    let data = DataReport::of(&work.record);
    let sealed = SealedReport::of(&sealed);
    let mut text = data.text(&work.record) + &sealed.text() + &report::reused_text(&account) + &times.text();
    if c1_possible.is_ok() {
        text += &report::line("verified", format!("the proofs in {} hold", dir.c1().display()));
    }
    let report = Report {
        data,
        sealed,
        c1: c1_possible.is_ok().then(|| dir.c1()),
        verified: c1_possible.is_ok(),
        stages_ms: times,
        account,
    };
    report::print(terminal, &report, &text)?;
    c1_possible
}

/// The sector, with its unsealed file on disk, made of the sources and recorded.
fn add_pieces<'a>(
    args: &Seal,
    dir: &'a SealDir,
    sources: &[Source],
    terminal: &'a Terminal,
) -> Result<Work<'a>> {
    let new = Record::new(args.seal_proof, args.miner_id, args.sector);
    let mut record = dir.load()?.unwrap_or_else(|| new.clone());
    if (record.seal_proof, record.id()) != (new.seal_proof, new.id()) {
        return Err(Failure::usage(format!(
            "{} holds sector {} of {}, not {} of {}",
            dir.root().display(),
            record.id(),
            record.seal_proof.name(),
            new.id(),
            new.seal_proof.name()
        ))
        .next("give another --dir"));
    }
    let known = !record.pieces.is_empty() || record.ticket.is_some();
    if known {
        pieces::same_pieces(dir, &record, sources, terminal)?;
    }
    if record.ticket != Some(args.ticket) {
        if record.ticket.is_some() {
            terminal.note("the folder was sealed with another ticket; nothing of that is used");
        }
        dir.forget(&stages::outputs(dir))?;
        record.ticket = Some(args.ticket);
        record.sealed = None;
        record.seed = None;
    }
    if known {
        // The same pieces: the replica id stays what it is when the data has to be written anew.
        let mut work = Work::new(terminal, dir, record)?;
        if work.units.data(&dir.unsealed()) == Reuse::Proven {
            dir.store(&work.record)?;
        } else {
            work.record.pieces.clear();
            pieces::append(dir, &mut work.record, sources, terminal)?;
            work.units.record_data(&dir.unsealed())?;
        }
        return Ok(work);
    }
    pieces::append(dir, &mut record, sources, terminal)?;
    let work = Work::new(terminal, dir, record)?;
    work.units.record_data(&dir.unsealed())?;
    Ok(work)
}
