//! The command line: commands, options every command has, and the help.

use crate::commands;
use crate::exit::{self, Exit, Failure};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Names the repo when `--repo` does not.
pub(crate) const REPO_VARIABLE: &str = "SEALRIG_REPO";
/// The repo below the home folder when nothing names one.
const DEFAULT_REPO: &str = ".sealrig";

/// Seal Filecoin sectors: the node and its commands.
#[derive(Debug, Parser)]
#[command(name = "sealrig", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Folder of the node's state [default: ~/.sealrig]
    #[arg(long, global = true, env = REPO_VARIABLE, hide_env_values = true, value_name = "DIR")]
    #[allow(dead_code, reason = "read by the commands of the node, not by the tools")]
    pub(crate) repo: Option<PathBuf>,
    /// Print the result as JSON, alone on stdout; no progress bars
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl Global {
    /// The repo: `--repo`, else `SEALRIG_REPO`, else `~/.sealrig`.
    ///
    /// # Errors
    /// If nothing names it and there is no home folder.
    #[allow(dead_code, reason = "used by the commands of the node, not by the tools")]
    pub(crate) fn repo_dir(&self) -> exit::Result<PathBuf> {
        if let Some(repo) = self.repo.as_ref().filter(|p| !p.as_os_str().is_empty()) {
            return Ok(repo.clone());
        }
        match std::env::home_dir().filter(|p| !p.as_os_str().is_empty()) {
            Some(home) => Ok(home.join(DEFAULT_REPO)),
            None => Err(Failure::usage("there is no home folder to keep the repo in")
                .next(format!("name the repo with --repo DIR or the variable {REPO_VARIABLE}"))),
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(Box<commands::demo::Demo>),
    Run(Box<commands::run::Run>),
    #[command(subcommand)]
    Sectors(Box<commands::sectors::Sectors>),
    /// Single steps of sealing without a node or a chain, on files in a folder
    #[command(subcommand)]
    Tool(Box<commands::tool::Tool>),
}

/// The whole command line, with the exit codes in the help of every command.
pub(crate) fn command() -> clap::Command {
    with_exit_codes(Cli::command())
}

fn with_exit_codes(command: clap::Command) -> clap::Command {
    let help = match command.get_after_help() {
        Some(own) => format!("{own}\n\n{}", exit::help_section()),
        None => exit::help_section(),
    };
    command.after_help(help).mut_subcommands(with_exit_codes)
}

/// Parses the process's arguments. Help and usage errors are printed here; the error is the exit code.
pub(crate) fn parse() -> Result<Cli, ExitCode> {
    command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|error| {
        // A reader that has enough of the help (`sealrig --help | head -1`) is no failure.
        let _ = error.print();
        if error.use_stderr() { Exit::Usage.into() } else { Exit::Success.into() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn the_help_of_every_command_lists_the_exit_codes() {
        fn check(mut command: clap::Command) {
            let help = command.render_help().to_string();
            for (_, code, meaning) in exit::TABLE {
                let listed = help.lines().any(|line| {
                    line.trim_start().split_once(' ').is_some_and(|(first, rest)| {
                        first == code.to_string() && meaning.starts_with(rest.trim())
                    })
                });
                assert!(listed, "{}: exit code {code} is missing in\n{help}", command.get_name());
            }
            for sub in command.get_subcommands().filter(|c| c.get_name() != "help") {
                check(sub.clone());
            }
        }
        let mut root = command();
        root.build();
        check(root);
    }
}
