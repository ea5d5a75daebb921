//! `tool precommit2`: tree-C, the sealed file, tree-R-last, CommR.

use super::Terminal;
use super::dir::{Access, SealDir, SectorFlags, agree};
use super::report::{self, SealedReport};
use super::stages::Work;
use super::units::Account;
use crate::exit::Result;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `tool precommit2`.
#[derive(Debug, Args)]
#[command(
    after_help = "Reads what precommit1 left in DIR, writes DIR/sealed, the trees in DIR/cache, and its output \
                        to DIR/pc2.json.\n\nExample:\n  sealrig tool precommit2 --dir /tmp/sector --json"
)]
pub(crate) struct PreCommit2 {
    /// The sector's folder
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    sector: SectorFlags,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    sealed: SealedReport,
    #[serde(flatten)]
    account: Account,
}

pub(super) fn run(args: &PreCommit2, terminal: &Terminal) -> Result {
    let dir = SealDir::open(&args.dir, Access::Write)?;
    let record = dir.record()?;
    agree(&args.sector, &record)?;
    let mut work = Work::new(terminal, &dir, record)?;
    let pc1 = work.load_pc1()?;
    let sealed = work.precommit2(&pc1)?;
    work.remark();
    let report = Report { sealed: SealedReport::of(&sealed), account: work.units.account() };
    let text = report.sealed.text() + &report::reused_text(&report.account);
    report::print(terminal, &report, &text)
}
