//! The commands, one file for each.

pub(crate) mod demo;
pub(crate) mod run;
pub(crate) mod sectors;
mod service;
pub(crate) mod tool;

use crate::cli::{Cli, Command};
use crate::exit::Result;

/// Runs the command.
pub(crate) fn run(cli: &Cli) -> Result {
    match &cli.command {
        Command::Demo(args) => demo::run(args, &cli.global),
        Command::Run(args) => run::run(args, &cli.global),
        Command::Sectors(command) => sectors::run(command, &cli.global),
        Command::Tool(tool) => tool::run(tool, &cli.global),
    }
}
