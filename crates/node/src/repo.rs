//! The repo: one folder that holds everything of a node.
//!
//! ```text
//! repo.json   what the repo is for: miner, seal proof, proof system, the chain's seed; written once
//! store/      records and journal (its lock says which process owns the repo)
//! chain/      the embedded chain
//! storage/    sector files, in the layout other Filecoin tools read
//! api         the address of the running node
//! token       what a client must present; readable by the owner only
//! ```
//!
//! Everything in it is private to its owner.

use crate::ProofSystem;
use primitives::{ActorId, RegisteredSealProof, SectorSize};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The version of `repo.json`.
pub const REPO_SCHEMA: u32 = 1;

const FACTS: &str = "repo.json";
const API: &str = "api";
const TOKEN: &str = "token";

/// Why a repo cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepoError {
    /// The file system said no.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The path of the repo names something else than a folder.
    #[error("{} is not a folder; the repo is one: choose another `--repo`", path.display())]
    NotAFolder {
        /// What was named.
        path: PathBuf,
    },
    /// There is no repo.
    #[error("there is no sealrig repo in {}; `sealrig run --repo {}` makes one, or name another with `--repo`",
            path.display(), path.display())]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// The folder holds something else.
    #[error("{} is not empty and holds no sealrig repo; choose an empty or a new folder", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
    },
    /// `repo.json` cannot be read as such.
    #[error("{} is damaged: {reason}; restore it from a copy, it is written only once", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A newer program made the repo.
    #[error("the repo {} has schema {found}, this program knows up to {REPO_SCHEMA}: use the newer program", path.display())]
    Newer {
        /// The folder.
        path: PathBuf,
        /// Its schema.
        found: u64,
    },
    /// The repo is for other sectors.
    #[error("the repo {} is for sectors of {has}, not of {asked}: a repo has one sector size; leave `--sector-size` away, \
             or take another folder", path.display())]
    SectorSize {
        /// The folder.
        path: PathBuf,
        /// What it is for.
        has: SectorSize,
        /// What was asked for.
        asked: SectorSize,
    },
    /// The repo is for another proof system.
    #[error("the repo {} is for {has} proofs, not for {asked}: a repo has one proof system; take another folder",
            path.display())]
    ProofSystem {
        /// The folder.
        path: PathBuf,
        /// What it is for.
        has: String,
        /// What was asked for.
        asked: ProofSystem,
    },
    /// No registered proof has this size.
    #[error("{0} is not a sector size of a network: use 2KiB, 8MiB, 512MiB, 32GiB or 64GiB")]
    NoProof(SectorSize),
}

/// What a repo is for. Written once, when it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepoFacts {
    /// [`REPO_SCHEMA`].
    pub schema: u32,
    /// The miner.
    pub miner: ActorId,
    /// The seal proof, by its number; fixes the sector size.
    pub seal_proof: RegisteredSealProof,
    /// The sector size in bytes, for people and scripts.
    pub sector_size: SectorSize,
    /// The proof system's name.
    pub proof_system: String,
    /// The embedded chain's seed, in hexadecimal.
    #[serde(with = "hex_seed")]
    pub chain_seed: [u8; 32],
}

mod hex_seed {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(seed: &[u8; 32], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&hex::encode(seed))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<[u8; 32], D::Error> {
        let mut seed = [0; 32];
        hex::decode_to_slice(String::deserialize(d)?, &mut seed).map_err(D::Error::custom)?;
        Ok(seed)
    }
}

/// What is asked of a repo at a start.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// The sector size that must be, if one was named.
    pub sector_size: Option<SectorSize>,
    /// The size of a repo that is made now without one being named.
    pub default_size: SectorSize,
    /// The proof system.
    pub proofs: ProofSystem,
    /// The miner of a repo that is made now.
    pub miner: ActorId,
    /// The chain's seed of a repo that is made now; drawn when `None`.
    pub chain_seed: Option<[u8; 32]>,
}

/// A folder that is, or becomes, a repo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repo {
    root: PathBuf,
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RepoError {
    let path = path.to_owned();
    move |source| match (source.kind(), path.parent()) {
        (io::ErrorKind::NotADirectory, Some(folder)) => RepoError::NotAFolder { path: folder.to_owned() },
        _ => RepoError::Io { action, path, source },
    }
}

impl Repo {
    /// A repo in this folder. Looks at nothing yet.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The store's folder.
    pub fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    /// The chain's folder.
    pub fn chain(&self) -> PathBuf {
        self.root.join("chain")
    }

    /// The storage path.
    pub fn storage(&self) -> PathBuf {
        self.root.join("storage")
    }

    /// What the repo is for.
    ///
    /// # Errors
    /// [`RepoError::Missing`] when there is none; else when it cannot be read.
    pub fn facts(&self) -> Result<RepoFacts, RepoError> {
        let path = self.root.join(FACTS);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(RepoError::Missing { path: self.root.clone() });
            }
            Err(e) => return Err(failed("read", &path)(e)),
        };
        let damaged = |reason: String| RepoError::Damaged { path: path.clone(), reason };
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
        let found = value.get("schema").and_then(serde_json::Value::as_u64);
        if let Some(found) = found.filter(|found| *found > u64::from(REPO_SCHEMA)) {
            return Err(RepoError::Newer { path: self.root.clone(), found });
        }
        let facts: RepoFacts = serde_json::from_value(value).map_err(|e| damaged(e.to_string()))?;
        if facts.seal_proof.sector_size() != facts.sector_size {
            return Err(damaged(format!(
                "{} is not a proof for {} sectors",
                facts.seal_proof, facts.sector_size
            )));
        }
        Ok(facts)
    }

    /// Makes the folder a repo, or checks that it is the one that is asked for.
    ///
    /// # Errors
    /// When the folder cannot be written or holds something else, or the repo is for another size or proof system.
    pub fn settle(&self, wanted: &Wanted) -> Result<RepoFacts, RepoError> {
        let facts = match self.facts() {
            Ok(facts) => facts,
            Err(RepoError::Missing { .. }) => self.make(wanted)?,
            Err(e) => return Err(e),
        };
        if let Some(asked) = wanted.sector_size.filter(|asked| *asked != facts.sector_size) {
            return Err(RepoError::SectorSize { path: self.root.clone(), has: facts.sector_size, asked });
        }
        if facts.proof_system != wanted.proofs.name() {
            let has = facts.proof_system;
            return Err(RepoError::ProofSystem { path: self.root.clone(), has, asked: wanted.proofs });
        }
        Ok(facts)
    }

    fn make(&self, wanted: &Wanted) -> Result<RepoFacts, RepoError> {
        let size = wanted.sector_size.unwrap_or(wanted.default_size);
        let seal_proof = RegisteredSealProof::v1_1(size).ok_or(RepoError::NoProof(size))?;
        private_folder(&self.root)?;
        for entry in fs::read_dir(&self.root).map_err(failed("list", &self.root))? {
            let name = entry.map_err(failed("list", &self.root))?.file_name();
            // A start that was cut while it made the repo leaves only this.
            if !name.to_string_lossy().starts_with("repo.json.") {
                return Err(RepoError::Foreign { path: self.root.clone() });
            }
        }
        let facts = RepoFacts {
            schema: REPO_SCHEMA,
            miner: wanted.miner,
            seal_proof,
            sector_size: size,
            proof_system: wanted.proofs.name().to_owned(),
            chain_seed: match wanted.chain_seed {
                Some(seed) => seed,
                None => random_bytes()?,
            },
        };
        let path = self.root.join(FACTS);
        let text = serde_json::to_string_pretty(&facts)
            .map_err(|e| RepoError::Damaged { path: path.clone(), reason: e.to_string() })?;
        let temporary = self.root.join(format!("{FACTS}.{}", std::process::id()));
        write_private(&temporary, format!("{text}\n").as_bytes())?;
        // A link instead of a rename: of two processes that make the repo at once, one wins and both read its facts.
        let linked = fs::hard_link(&temporary, &path);
        fs::remove_file(&temporary).map_err(failed("remove", &temporary))?;
        match linked {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(failed("write", &path)(e)),
            _ => {}
        }
        File::open(&self.root).and_then(|f| f.sync_all()).map_err(failed("sync", &self.root))?;
        self.facts()
    }

    /// Says how to reach the running node: address and token, readable by the owner only.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn announce(&self, url: &str, token: &str) -> Result<(), RepoError> {
        // The token first: whoever sees the address finds the token that belongs to it.
        for (name, text) in [(TOKEN, token), (API, url)] {
            let path = self.root.join(name);
            let temporary = self.root.join(format!("{name}.tmp"));
            write_private(&temporary, format!("{text}\n").as_bytes())?;
            fs::rename(&temporary, &path).map_err(failed("write", &path))?;
        }
        Ok(())
    }

    /// Takes the announcement back.
    ///
    /// # Errors
    /// When the files cannot be removed; it is fine when they are gone.
    pub fn withdraw(&self) -> Result<(), RepoError> {
        for name in [API, TOKEN] {
            let path = self.root.join(name);
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed("remove", &path)(e)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Address and token of the node that announced itself; `None` when there is no announcement.
    ///
    /// # Errors
    /// When a file is there and cannot be read.
    pub fn announced(&self) -> Result<Option<(String, String)>, RepoError> {
        let read = |name: &str| {
            let path = self.root.join(name);
            match fs::read_to_string(&path) {
                Ok(text) => Ok(Some(text.trim().to_owned())),
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(e) => Err(failed("read", &path)(e)),
            }
        };
        let (url, token) = (read(API)?, read(TOKEN)?);
        Ok(url.zip(token).filter(|(url, token)| !url.is_empty() && !token.is_empty()))
    }
}

/// A new token for the API.
///
/// # Errors
/// When the system gives no randomness.
pub fn new_token() -> Result<String, RepoError> {
    Ok(hex::encode(random_bytes()?))
}

/// 32 bytes from the system's generator.
fn random_bytes() -> Result<[u8; 32], RepoError> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0; 32];
    File::open(source).and_then(|mut f| f.read_exact(&mut bytes)).map_err(failed("read", source))?;
    Ok(bytes)
}

/// Makes a folder, and those above it that are missing; a new one is for its owner only.
fn private_folder(path: &Path) -> Result<(), RepoError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("create the folder", path))
}

/// Writes a file for its owner only and syncs it.
fn write_private(path: &Path, bytes: &[u8]) -> Result<(), RepoError> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .map_err(failed("create", path))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn wanted(size: Option<SectorSize>) -> Wanted {
        Wanted {
            sector_size: size,
            default_size: SectorSize::MiB8,
            proofs: ProofSystem::Vanilla,
            miner: ActorId(1000),
            chain_seed: None,
        }
    }

    #[test]
    fn a_repo_is_made_once_and_then_only_checked() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repo::at(dir.path().join("a/b"));
        assert!(matches!(repo.facts(), Err(RepoError::Missing { .. })));
        let made = repo.settle(&wanted(Some(SectorSize::KiB2))).unwrap();
        assert_eq!(made.seal_proof.number(), 5);
        assert_eq!(repo.settle(&wanted(None)).unwrap(), made);
        assert_eq!(repo.settle(&wanted(Some(SectorSize::KiB2))).unwrap(), made);
        let other = repo.settle(&wanted(Some(SectorSize::MiB8))).unwrap_err();
        assert!(other.to_string().contains("2KiB") && other.to_string().contains("8MiB"), "{other}");
        assert_eq!(fs::metadata(repo.root()).unwrap().permissions().mode() & 0o777, 0o700);
        let names: Vec<_> = fs::read_dir(repo.root()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, [FACTS]);
    }

    #[test]
    fn foreign_folders_newer_and_damaged_repos_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.txt"), "years of work").unwrap();
        let repo = Repo::at(dir.path());
        assert!(matches!(repo.settle(&wanted(None)), Err(RepoError::Foreign { .. })));
        fs::remove_file(dir.path().join("thesis.txt")).unwrap();
        let no_proof = repo.settle(&wanted(Some(SectorSize::KiB16))).unwrap_err();
        assert!(matches!(no_proof, RepoError::NoProof(SectorSize::KiB16)));
        let facts = repo.settle(&wanted(None)).unwrap();
        let path = dir.path().join(FACTS);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"schema\": 1", "\"schema\": 9")).unwrap();
        assert!(matches!(repo.facts(), Err(RepoError::Newer { found: 9, .. })));
        fs::write(&path, text.replace("vanilla", "groth16")).unwrap();
        assert!(matches!(repo.settle(&wanted(None)), Err(RepoError::ProofSystem { .. })));
        fs::write(&path, text.replace("\"seal_proof\": 6", "\"seal_proof\": 5")).unwrap();
        assert!(matches!(repo.facts(), Err(RepoError::Damaged { .. })));
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        assert!(matches!(repo.settle(&wanted(None)), Err(RepoError::Damaged { .. })));
        fs::write(&path, text).unwrap();
        assert_eq!(repo.facts().unwrap(), facts);
    }

    #[test]
    fn the_announcement_is_private_and_can_be_withdrawn_twice() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repo::at(dir.path());
        assert_eq!(repo.announced().unwrap(), None);
        let token = new_token().unwrap();
        assert_ne!(token, new_token().unwrap());
        repo.announce("http://127.0.0.1:9", &token).unwrap();
        assert_eq!(repo.announced().unwrap(), Some(("http://127.0.0.1:9".to_owned(), token)));
        for name in [API, TOKEN] {
            assert_eq!(fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777, 0o600);
        }
        repo.withdraw().unwrap();
        repo.withdraw().unwrap();
        assert_eq!(repo.announced().unwrap(), None);
    }
}
