//! `sealrig tool`: the stages of sealing one by one or all at once, on files in a folder, without node or chain.

mod commp;
mod failure;
mod source;
mod values;

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
    };
    terminal.bars.clear();
    result
}
