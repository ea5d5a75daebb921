//! The start-up checklist: what is looked at before anything is started, with what to do about each finding.

use crate::repo::{Repo, RepoFacts};
use crate::{NodeError, view};
use proofs::graph::{CACHE_DIR_VARIABLE, cache_dir};
use sealing::storage::life_bytes;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Fine.
    Good,
    /// The node works, but worse than it could.
    Warning,
    /// The node cannot work.
    Failed,
}

/// One line of the checklist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it came out.
    pub outcome: Outcome,
    /// What was found, as a sentence without its full stop.
    pub found: String,
    /// What to do about it, as whole sentences; empty when all is well.
    pub remedy: String,
}

impl Check {
    fn good(name: &'static str, found: String) -> Self {
        Self { name, outcome: Outcome::Good, found, remedy: String::new() }
    }
}

/// Looks at everything a start needs. Blocks.
pub fn checklist(repo: &Repo, facts: &RepoFacts) -> Vec<Check> {
    vec![repo_writable(repo), room(repo, facts), parents_cache()]
}

/// The first failed check as an error; warnings and good news go to the log.
///
/// # Errors
/// [`NodeError::Check`].
pub fn pass(checks: &[Check]) -> Result<(), NodeError> {
    for check in checks {
        match check.outcome {
            Outcome::Good => tracing::debug!("{}: {}", check.name, check.found),
            Outcome::Warning => tracing::warn!("{}: {}. {}", check.name, check.found, check.remedy),
            Outcome::Failed => {
                return Err(NodeError::Check { what: check.found.clone(), remedy: check.remedy.clone() });
            }
        }
    }
    Ok(())
}

/// Writes, syncs and removes a file.
fn probe(folder: &Path) -> std::io::Result<()> {
    let path: PathBuf = folder.join(format!(".probe-{}", std::process::id()));
    let mut file = File::create(&path)?;
    let written = file.write_all(b"probe\n").and_then(|()| file.sync_all());
    fs::remove_file(&path)?;
    written
}

fn repo_writable(repo: &Repo) -> Check {
    let name = "repo";
    let storage = repo.storage();
    let folders = [Some(repo.root().to_owned()), storage.exists().then_some(storage)];
    for folder in folders.into_iter().flatten() {
        if let Err(e) = probe(&folder) {
            return Check {
                name,
                outcome: Outcome::Failed,
                found: format!("cannot write to {}: {e}", folder.display()),
                remedy: "Make room or give this user write permission, or take another folder with --repo (demo: --dir)."
                    .to_owned(),
            };
        }
    }
    Check::good(name, format!("{} can be written", repo.root().display()))
}

fn room(repo: &Repo, facts: &RepoFacts) -> Check {
    let name = "space";
    let needed = life_bytes(facts.seal_proof);
    let free = match free_bytes(repo.root()) {
        Ok(free) => free,
        Err(e) => {
            return Check {
                name,
                outcome: Outcome::Warning,
                found: format!("cannot ask for free space in {}: {e}", repo.root().display()),
                remedy: "Sectors are refused if it turns out that there is none.".to_owned(),
            };
        }
    };
    let found = format!(
        "{} has {} free; a sector of {} needs {} while it is sealed",
        repo.root().display(),
        view::bytes(free),
        facts.sector_size,
        view::bytes(needed)
    );
    if free >= needed {
        return Check::good(name, found);
    }
    let remedy = "Sectors that are there go on as far as they can; new ones are refused until there is room."
        .to_owned();
    Check { name, outcome: Outcome::Warning, found, remedy }
}

/// Bytes that this user may still write to the file system of `path`.
///
/// # Errors
/// When the system does not say.
pub fn free_bytes(path: &Path) -> std::io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn parents_cache() -> Check {
    let name = "parents cache";
    let dir = cache_dir();
    match fs::create_dir_all(&dir).and_then(|()| probe(&dir)) {
        Ok(()) => Check::good(name, format!("{} can be written", dir.display())),
        Err(e) => Check {
            name,
            outcome: Outcome::Warning,
            found: format!(
                "cannot write to {}: {e}; parents that are not in it are computed anew for each sector",
                dir.display()
            ),
            remedy: format!("Set {} to a folder that can be written.", CACHE_DIR_VARIABLE),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProofSystem;
    use crate::repo::Wanted;
    use primitives::{ActorId, SectorSize};

    #[test]
    fn a_new_repo_passes_and_a_file_in_its_place_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repo::at(dir.path());
        let wanted = Wanted {
            sector_size: Some(SectorSize::KiB2),
            default_size: SectorSize::KiB2,
            proofs: ProofSystem::Vanilla,
            miner: ActorId(1000),
            chain_seed: None,
        };
        let facts = repo.settle(&wanted).unwrap();
        pass(&checklist(&repo, &facts)).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "the probe is gone");
        // Works for the superuser too, whom permissions do not stop.
        fs::write(repo.storage(), "not a folder").unwrap();
        let error = pass(&checklist(&repo, &facts)).unwrap_err().to_string();
        assert!(error.contains("cannot write to") && error.contains("--repo"), "{error}");
    }
}
