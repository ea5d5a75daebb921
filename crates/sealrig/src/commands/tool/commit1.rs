//! `tool commit1`: the vanilla proofs for a seed.

use super::Terminal;
use super::dir::{Access, SealDir, SectorFlags, agree, pick};
use super::report;
use super::stages::{self, Work};
use super::values;
use crate::exit::Result;
use clap::Args;
use primitives::Seed;
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `tool commit1`.
#[derive(Debug, Args)]
#[command(
    after_help = "Opens the challenged nodes, verifies the proofs and writes them to DIR/c1.json, in the form of \
                        other tools. Another --seed makes other proofs of the same sector.\n\nExample:\n  sealrig tool \
                        commit1 --dir /tmp/sector --seed $(openssl rand -hex 32)"
)]
pub(crate) struct Commit1 {
    /// The sector's folder
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Interactive randomness, 64 hexadecimal digits, not all zero; without it that of the last commit1
    #[arg(long, value_name = "HEX", value_parser = values::hex32::<Seed>)]
    seed: Option<Seed>,
    #[command(flatten)]
    sector: SectorFlags,
}

#[derive(Serialize)]
struct Report {
    c1: PathBuf,
    seed: String,
    partitions: usize,
    challenges: usize,
}

pub(super) fn run(args: &Commit1, terminal: &Terminal) -> Result {
    let dir = SealDir::open(&args.dir, Access::Write)?;
    let record = dir.record()?;
    agree(&args.sector, &record)?;
    let seed = pick("seed", args.seed, if args.seed.is_some() { None } else { record.seed })?;
    stages::check_seed(&seed)?;
    let mut work = Work::new(terminal, &dir, record)?;
    stages::c1_possible(&work.config)?;
    let output = work.commit1(seed)?;
    let report = Report {
        c1: dir.c1(),
        seed: seed.to_string(),
        partitions: output.vanilla_proofs.len(),
        challenges: output.vanilla_proofs.iter().map(Vec::len).sum(),
    };
    let text = report::line("proofs", report.c1.display())
        + &report::line(
            "challenges",
            format!("{} in {}", report.challenges, report::count(report.partitions, "partition")),
        );
    report::print(terminal, &report, &text)
}
