//! `sealrig tool`: the stages of sealing one by one or all at once, on files in a folder, without node or chain.

mod add_piece;
mod commit1;
mod commp;
mod dir;
mod failure;
mod pieces;
mod precommit1;
mod precommit2;
mod report;
mod seal;
mod source;
mod stages;
mod units;
mod unseal;
mod values;
mod verify_vanilla;

use crate::cli::Global;
use crate::exit::Result;
use crate::interrupt;
use crate::progress::Bars;
use clap::Subcommand;
use proofs::control::{CancelFlag, Control, UnitSink};
use std::sync::Arc;

/// The tools.
#[derive(Debug, Subcommand)]
pub(crate) enum Tool {
    /// Compute the piece commitment (CommP) of a file
    Commp(commp::Commp),
    /// Seal a sector: AddPiece, PC1, PC2, C1, and verify the proofs
    Seal(seal::Seal),
    /// Add files to a sector as pieces
    AddPiece(add_piece::AddPiece),
    /// PC1: tree-D and the layers of labels
    Precommit1(precommit1::PreCommit1),
    /// PC2: tree-C, the sealed file, tree-R-last and CommR
    Precommit2(precommit2::PreCommit2),
    /// C1: vanilla proofs for a seed
    Commit1(commit1::Commit1),
    /// Verify the vanilla proofs of a C1 output
    VerifyVanilla(verify_vanilla::VerifyVanilla),
    /// Get data back out of a sealed sector
    Unseal(unseal::Unseal),
}

/// What every tool gets: how to print, and the signals.
struct Terminal {
    json: bool,
    bars: Bars,
    cancel: Arc<CancelFlag>,
}

impl Terminal {
    /// A control for a stage, with `units` as its memory.
    fn control<'a>(&'a self, units: &'a dyn UnitSink) -> Control<'a> {
        Control { cancel: &self.cancel, progress: &self.bars, units }
    }

    /// A remark on stderr; nothing with `--json`.
    fn note(&self, remark: &str) {
        self.bars.clear();
        crate::output::note(self.json, remark);
    }
}

/// Runs one tool.
pub(crate) fn run(tool: &Tool, global: &Global) -> Result {
    let terminal =
        Terminal { json: global.json, bars: Bars::new(global.json), cancel: interrupt::cancel_on_signal()? };
    let result = match tool {
        Tool::Commp(args) => commp::run(args, &terminal),
        Tool::Seal(args) => seal::run(args, &terminal),
        Tool::AddPiece(args) => add_piece::run(args, &terminal),
        Tool::Precommit1(args) => precommit1::run(args, &terminal),
        Tool::Precommit2(args) => precommit2::run(args, &terminal),
        Tool::Commit1(args) => commit1::run(args, &terminal),
        Tool::VerifyVanilla(args) => verify_vanilla::run(args, &terminal),
        Tool::Unseal(args) => unseal::run(args, &terminal),
    };
    terminal.bars.clear();
    result
}
