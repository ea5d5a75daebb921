//! The command line and the exit codes.

use anyhow::{Context as _, bail};
use clap::Parser;
use node::State;
use std::path::PathBuf;

/// Exit code: a repo, a store or a connection was in the way.
pub(crate) const FAILED: u8 = 1;
/// Exit code: the command line cannot be followed.
pub(crate) const USAGE: u8 = 2;
/// Exit code: there is no such sector.
pub(crate) const UNKNOWN: u8 = 5;

/// Show the sectors of a sealrig node, or all about one of them
///
/// Asks the running node. When none runs, the store it left is read, without changing it.
#[derive(Debug, Parser)]
#[command(
    version,
    max_term_width = 100,
    after_help = "Examples:
  sector-status                         every sector in a table
  sector-status --state PreCommit1,WaitSeed
  sector-status 7                       one sector: values, messages, time line, why it is where it is
  sector-status 7 --log                 and all that happened to it

States have the names of Lotus; older ones such as PreCommitting, CommitWait and SealFailed are understood.

Exit codes:
    0  done
    1  failed: a repo, a store or a connection was in the way
    2  the command line cannot be followed
    5  there is no such sector"
)]
pub(crate) struct Args {
    /// The sector to tell all about
    #[arg(value_name = "SECTOR")]
    pub(crate) sector: Option<u64>,
    /// Folder of the node's state [default: ~/.sealrig]
    #[arg(long, env = "SEALRIG_REPO", hide_env_values = true, value_name = "DIR")]
    repo: Option<PathBuf>,
    /// List only sectors in these states, with commas between
    #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = state, conflicts_with = "sector")]
    pub(crate) state: Vec<State>,
    /// List removed sectors too (JSON always has them)
    #[arg(long, conflicts_with = "sector")]
    pub(crate) all: bool,
    /// Tell all that happened to the sector
    #[arg(long, requires = "sector")]
    pub(crate) log: bool,
    /// Print JSON, alone on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

fn state(name: &str) -> Result<State, String> {
    let unknown = || format!("no state of a sector; {}", node::view::state_names());
    if name.trim().is_empty() {
        Err(unknown())
    } else {
        State::from_operator(name.trim()).ok_or_else(unknown)
    }
}

impl Args {
    /// The repo: `--repo`, else `SEALRIG_REPO`, else `~/.sealrig`.
    pub(crate) fn repo(&self) -> anyhow::Result<PathBuf> {
        match &self.repo {
            Some(repo) if repo.as_os_str().is_empty() => {
                bail!("the repo's folder is an empty name; use --repo DIR")
            }
            Some(repo) => Ok(repo.clone()),
            None => {
                let home = std::env::home_dir().filter(|p| !p.as_os_str().is_empty());
                Ok(home
                    .context("there is no home folder; name the repo with --repo DIR or SEALRIG_REPO")?
                    .join(".sealrig"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed_and_the_help_lists_the_codes() {
        Args::command().debug_assert();
        let help = Args::command().render_long_help().to_string();
        for code in [FAILED, USAGE, UNKNOWN] {
            assert!(help.contains(&format!("\n    {code}  ")), "{code} is missing in\n{help}");
        }
    }

    #[test]
    fn states_go_by_new_and_old_names() {
        let parse = |text: &str| Args::try_parse_from(["sector-status", "--state", text]);
        assert_eq!(
            parse("PreCommitting,proving").unwrap().state,
            [State::SubmitPreCommitBatch, State::Proving]
        );
        for bad in ["Sealing", "", "Proving,"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(Args::try_parse_from(["sector-status", "x"]).is_err());
        assert!(Args::try_parse_from(["sector-status", "--log"]).is_err());
    }
}
