//! `tool precommit1`: tree-D, replica id and labels.

use super::Terminal;
use super::dir::{Access, SealDir, SectorFlags, agree, pick};
use super::report;
use super::stages::{self, Work};
use super::units::Account;
use crate::exit::Result;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `tool precommit1`.
#[derive(Debug, Args)]
#[command(after_help = "Reads DIR/unsealed, writes tree-D and the layers to DIR/cache and its output to \
                        DIR/pc1.json. The first call needs --ticket.\n\nExample:\n  sealrig tool precommit1 --dir \
                        /tmp/sector --ticket $(openssl rand -hex 32)")]
pub(crate) struct PreCommit1 {
    /// The sector's folder
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    sector: SectorFlags,
}

#[derive(Serialize)]
struct Report {
    comm_d: String,
    replica_id: String,
    #[serde(flatten)]
    account: Account,
}

pub(super) fn run(args: &PreCommit1, terminal: &Terminal) -> Result {
    let dir = SealDir::open(&args.dir, Access::Write)?;
    let mut record = dir.record()?;
    agree(&args.sector, &record)?;
    record.ticket = Some(pick("ticket", args.sector.ticket, record.ticket)?);
    dir.store(&record)?;
    let work = Work::new(terminal, &dir, record)?;
    dir.forget(&stages::outputs(&dir)[..1])?;
    let output = work.precommit1()?;
    work.remark();
    let report = Report {
        comm_d: output.comm_d.to_string(),
        replica_id: output.replica_id.to_string(),
        account: work.units.account(),
    };
    let text = report::line("comm_d", &report.comm_d)
        + &report::line("replica_id", &report.replica_id)
        + &report::reused_text(&report.account);
    report::print(terminal, &report, &text)
}
