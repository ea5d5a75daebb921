//! The commands, one file for each.

// demo, run, sectors: the commands of the node go here.
pub(crate) mod tool;

use crate::cli::{Cli, Command};
use crate::exit::Result;

/// Runs the command.
pub(crate) fn run(cli: &Cli) -> Result {
    match &cli.command {
        // Demo, Run, Sectors: the commands of the node go here.
        Command::Tool(tool) => tool::run(tool, &cli.global),
    }
}
