//! `sealrig-manifest.json`: what is known of the files of a sector (PL-4, PL-22).
//!
//! The manifest is the memory that lets a later run of a stage take a file instead of computing it again. It proves a
//! file only by the file's content: recorded for this replica id, exact length, digest computed anew. It is not part of
//! what other tools compare.

use crate::Error;
use crate::control::{CancelFlag, Cancelled, Reuse, Unit, UnitError, UnitSink};
use crate::files::{FileError, InFile, read_small, write_atomic};
use primitives::{Commitment, PieceInfo, ProverId, RegisteredSealProof, ReplicaId, SectorNumber, Ticket};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The file's name in the cache folder.
pub const FILE_NAME: &str = "sealrig-manifest.json";
/// The form of the file; a newer one is refused.
pub const SCHEMA: u32 = 1;
/// A manifest has some tens of short entries; more bytes are not one.
const LIMIT: u64 = 1 << 20;

/// One finished unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The stage, such as `precommit1`.
    pub stage: String,
    /// The unit's name, such as `layer-1`.
    pub name: String,
    /// Name of the file; a file outside the cache folder, as the sealed sector, is known by its last name only, so that
    /// a sector can be moved.
    pub file: String,
    /// Bytes in it.
    pub len: u64,
    /// BLAKE2b-256 of it, in hexadecimal.
    pub blake2b_256: String,
}

/// Whose sector it is and what it commits to, for whoever finds the folder (PL-22).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The proof type.
    pub seal_proof: RegisteredSealProof,
    /// The miner.
    pub prover_id: ProverId,
    /// The sector.
    pub sector_number: SectorNumber,
    /// Seal randomness.
    pub ticket: Ticket,
    /// The pieces in order, fillers included.
    pub pieces: Vec<PieceInfo>,
    /// Root of the data.
    pub comm_d: Commitment,
    /// Commitment to the replica, once PC2 is done.
    pub comm_r: Option<Commitment>,
}

/// What a manifest says, whether or not the files still bear it out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// The form of the file.
    pub schema: u32,
    /// The replica the units were made for.
    pub replica_id: ReplicaId,
    /// The sector, if the pipeline has described it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sector: Option<Description>,
    /// The finished units.
    pub units: Vec<Entry>,
    /// Why a file without an entry is not this replica's: what was wrong with the record that this one took the place
    /// of. Files that it was about may still be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

#[derive(Deserialize)]
struct SchemaOnly {
    schema: u32,
}

/// The manifest could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// It was written by a later version.
    #[error("{} has schema {got}; this version knows up to {SCHEMA}", path.display())]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        got: u32,
    },
}

/// The manifest of a cache folder, opened for one replica.
#[derive(Debug)]
pub struct Manifest {
    cache: PathBuf,
    replica_id: ReplicaId,
    /// What is on disk, or will be with the first unit.
    known: Mutex<Content>,
    cancel: Arc<CancelFlag>,
}

impl Manifest {
    /// Opens the manifest of `cache` for the replica that is being made or used. A missing file is an empty record. One
    /// of another replica, or one that cannot be parsed, proves nothing. [`UnitSink::reuse`] says so for each file that is
    /// there until its unit is finished anew, also after the first finished unit has replaced the old record.
    ///
    /// # Errors
    /// If the file cannot be read, or has a newer schema and so must not be overwritten.
    pub fn open(cache: &Path, replica_id: &ReplicaId) -> Result<Self, ManifestError> {
        let refused = match load(cache)? {
            Some(Ok(content)) if content.replica_id == *replica_id => {
                return Ok(Self::with(cache, content));
            }
            None => None,
            Some(Ok(content)) => Some(format!(
                "it was made for replica id {}, this is replica id {replica_id}",
                content.replica_id
            )),
            Some(Err(reason)) => Some(reason),
        };
        let (schema, replica_id) = (SCHEMA, *replica_id);
        Ok(Self::with(cache, Content { schema, replica_id, sector: None, units: Vec::new(), refused }))
    }

    fn with(cache: &Path, known: Content) -> Self {
        let (cache, replica_id) = (cache.to_owned(), known.replica_id);
        Self { cache, replica_id, known: Mutex::new(known), cancel: Arc::default() }
    }

    /// The same with the cancel flag of the stage that will use it, at which [`UnitSink::reuse`] looks before every MiB of
    /// a file's digest. When it is set, the answer is [`Reuse::Absent`]; [`Control::reuse`](crate::control::Control::reuse)
    /// then ends the stage.
    #[must_use]
    pub fn ended_by(self, cancel: Arc<CancelFlag>) -> Self {
        Self { cancel, ..self }
    }

    /// What the manifest of a cache folder says; `None` without one.
    ///
    /// # Errors
    /// As [`Manifest::open`]; a manifest that cannot be parsed gives the reason in the inner result.
    pub fn read(cache: &Path) -> Result<Option<Result<Content, String>>, ManifestError> {
        load(cache)
    }

    /// The replica it was opened for.
    pub fn replica_id(&self) -> &ReplicaId {
        &self.replica_id
    }

    /// The units recorded for this replica.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().units.clone()
    }

    /// Writes down whose sector it is. Durable when it returns.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn describe(&self, sector: &Description) -> Result<(), FileError> {
        self.change(|next| next.sector = Some(sector.clone()))
    }

    /// Changes the record on disk, then in memory.
    fn change(&self, change: impl FnOnce(&mut Content)) -> Result<(), FileError> {
        let mut known = self.lock();
        let mut next = Content { schema: SCHEMA, ..known.clone() };
        change(&mut next);
        let bytes = serde_json::to_vec_pretty(&next).expect("plain structs with text keys have a JSON form");
        write_atomic(&self.cache.join(FILE_NAME), &bytes)?;
        *known = next;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        // The record is replaced as a whole, so that a panic elsewhere leaves it good.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name under which a file is recorded.
    fn name_of(&self, file: &Path) -> Option<String> {
        let name = file.strip_prefix(&self.cache).ok().or_else(|| file.file_name().map(Path::new))?;
        name.to_str().map(str::to_owned)
    }

    fn judge(&self, unit: &Unit, file: &Path) -> Result<Reuse, Error> {
        let found = match InFile::open(file) {
            Ok(found) => found,
            Err(e) if e.is_not_found() => return Ok(Reuse::Absent),
            Err(e) => return Err(e.into()),
        };
        let (entry, refused) = {
            let known = self.lock();
            let entry = known.units.iter().find(|e| e.stage == unit.stage && e.name == unit.name);
            (entry.cloned(), known.refused.clone())
        };
        let Some(entry) = entry else { return Ok(refused.map_or(Reuse::Absent, Reuse::Refused)) };
        if self.name_of(file).as_deref() != Some(&entry.file) {
            return Ok(Reuse::Refused(format!("the unit was recorded as the file {}", entry.file)));
        }
        if found.len() != entry.len {
            return Ok(Reuse::Refused(format!("{} bytes, expected {}", found.len(), entry.len)));
        }
        let go_on = || if self.cancel.is_cancelled() { Err(Error::from(Cancelled)) } else { Ok(()) };
        let digest = hex::encode(found.digest_unless(go_on)?);
        if digest != entry.blake2b_256 {
            return Ok(Reuse::Refused(format!("BLAKE2b-256 {digest}, expected {}", entry.blake2b_256)));
        }
        Ok(Reuse::Proven)
    }
}

/// Reads the file: `None` if there is none, the inner error if it cannot be parsed.
fn load(cache: &Path) -> Result<Option<Result<Content, String>>, ManifestError> {
    let path = cache.join(FILE_NAME);
    let bytes = match read_small(&path, LIMIT) {
        Ok(bytes) => bytes,
        Err(e) if e.is_not_found() => return Ok(None),
        Err(e @ FileError::Length { .. }) => return Ok(Some(Err(format!("the manifest is unusable: {e}")))),
        Err(e) => return Err(e.into()),
    };
    if let Ok(SchemaOnly { schema }) = serde_json::from_slice(&bytes)
        && schema > SCHEMA
    {
        return Err(ManifestError::NewerSchema { path, got: schema });
    }
    Ok(Some(serde_json::from_slice(&bytes).map_err(|e| format!("the manifest is damaged: {e}"))))
}

impl UnitSink for Manifest {
    fn reuse(&self, unit: &Unit, file: &Path) -> Reuse {
        match self.judge(unit, file) {
            Ok(answer) => answer,
            Err(Error::Cancelled(_)) => Reuse::Absent,
            Err(e) => Reuse::Refused(e.to_string()),
        }
    }

    /// Nothing to keep: the record of the old file stays true until the new one takes its name, and is replaced then.
    fn started(&self, _: &Unit) -> Result<(), UnitError> {
        Ok(())
    }

    fn finished(&self, unit: &Unit, file: &Path, len: u64, blake2b_256: &[u8; 32]) -> Result<(), UnitError> {
        let fail = |reason: String| UnitError { unit: unit.to_string(), reason };
        let name =
            self.name_of(file).ok_or_else(|| fail(format!("{} has no name in UTF-8", file.display())))?;
        let entry = Entry {
            stage: unit.stage.to_owned(),
            name: unit.name.clone(),
            file: name,
            len,
            blake2b_256: hex::encode(blake2b_256),
        };
        self.change(|next| {
            match next.units.iter_mut().find(|e| e.stage == entry.stage && e.name == entry.name) {
                Some(old) => *old = entry,
                None => next.units.push(entry),
            }
        })
        .map_err(|e| fail(e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Control;
    use std::fs;

    const ID: ReplicaId = ReplicaId([1; 32]);

    fn unit(name: &str) -> Unit {
        Unit { stage: "precommit1", name: name.to_owned() }
    }

    /// Writes `bytes` as a file of the unit `layer-1` and records it.
    fn record(manifest: &Manifest, file: &Path, bytes: &[u8]) {
        fs::write(file, bytes).unwrap();
        let opened = InFile::open(file).unwrap();
        manifest.finished(&unit("layer-1"), file, opened.len(), &opened.digest().unwrap()).unwrap();
    }

    fn refusal(reuse: Reuse) -> String {
        match reuse {
            Reuse::Refused(reason) => reason,
            other => panic!("expected a refusal, got {other:?}"),
        }
    }

    #[test]
    fn a_recorded_file_is_proven_after_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("layer");
        let manifest = Manifest::open(dir.path(), &ID).unwrap();
        assert_eq!(manifest.reuse(&unit("layer-1"), &file), Reuse::Absent);
        record(&manifest, &file, b"labels");
        assert_eq!(manifest.reuse(&unit("layer-1"), &file), Reuse::Proven);
        assert_eq!(manifest.reuse(&unit("layer-2"), &file), Reuse::Absent, "nothing is known of this unit");
        let manifest = Manifest::open(dir.path(), &ID).unwrap();
        assert_eq!(manifest.reuse(&unit("layer-1"), &file), Reuse::Proven);
        assert_eq!(manifest.entries().len(), 1);
        let content = Manifest::read(dir.path()).unwrap().unwrap().unwrap();
        assert_eq!((content.replica_id, content.sector, content.units), (ID, None, manifest.entries()));
        fs::remove_file(&file).unwrap();
        assert_eq!(manifest.reuse(&unit("layer-1"), &file), Reuse::Absent);
    }

    #[test]
    fn another_replica_a_cut_and_a_flip_are_refused_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("layer");
        let manifest = Manifest::open(dir.path(), &ID).unwrap();
        record(&manifest, &file, b"labels");

        let other = Manifest::open(dir.path(), &ReplicaId([2; 32])).unwrap();
        assert!(refusal(other.reuse(&unit("layer-1"), &file)).contains(&ID.to_string()));

        fs::write(&file, b"label").unwrap();
        assert_eq!(refusal(manifest.reuse(&unit("layer-1"), &file)), "5 bytes, expected 6");
        fs::write(&file, b"labelz").unwrap();
        assert!(refusal(manifest.reuse(&unit("layer-1"), &file)).starts_with("BLAKE2b-256 "));
        let foreign = dir.path().join("other");
        fs::write(&foreign, b"labels").unwrap();
        assert!(refusal(manifest.reuse(&unit("layer-1"), &foreign)).contains("the file layer"));

        // The first unit of the other replica begins a new record.
        record(&other, &file, b"other labels");
        assert_eq!(other.reuse(&unit("layer-1"), &file), Reuse::Proven);
        // It does not know the other files of the first replica, and says so as long as they are there.
        let reopened = Manifest::open(dir.path(), &ReplicaId([2; 32])).unwrap();
        for manifest in [&other, &reopened] {
            assert!(refusal(manifest.reuse(&unit("layer-2"), &foreign)).contains(&ID.to_string()));
            assert_eq!(manifest.reuse(&unit("layer-2"), &dir.path().join("none")), Reuse::Absent);
        }
        let again = Manifest::open(dir.path(), &ID).unwrap();
        assert!(refusal(again.reuse(&unit("layer-1"), &file)).contains("replica id"));
    }

    #[test]
    fn a_cancelled_proof_is_no_proof_and_no_refusal() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("layer");
        let cancel = Arc::new(CancelFlag::new());
        let manifest = Manifest::open(dir.path(), &ID).unwrap().ended_by(Arc::clone(&cancel));
        record(&manifest, &file, b"labels");
        let control = Control { cancel: &cancel, units: &manifest, ..Control::none() };
        assert_eq!(control.reuse(&unit("layer-1"), &file), Ok(Reuse::Proven));
        cancel.cancel();
        assert_eq!(manifest.reuse(&unit("layer-1"), &file), Reuse::Absent);
        assert_eq!(control.reuse(&unit("layer-1"), &file), Err(Cancelled));
    }

    #[test]
    fn a_damaged_manifest_proves_nothing_and_a_newer_one_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("layer");
        fs::write(&file, b"labels").unwrap();
        for damaged in ["", "{", "{\"schema\":1}", "[1]"] {
            fs::write(dir.path().join(FILE_NAME), damaged).unwrap();
            let manifest = Manifest::open(dir.path(), &ID).unwrap();
            assert!(refusal(manifest.reuse(&unit("layer-1"), &file)).contains("damaged"));
        }
        fs::write(dir.path().join(FILE_NAME), "{\"schema\":2,\"anything\":[]}").unwrap();
        let newer = Manifest::open(dir.path(), &ID).unwrap_err();
        assert!(matches!(newer, ManifestError::NewerSchema { got: 2, .. }), "{newer}");
    }

    #[test]
    fn a_description_stays_with_the_units() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Manifest::read(dir.path()).unwrap(), None);
        let manifest = Manifest::open(dir.path(), &ID).unwrap();
        let sector = Description {
            seal_proof: RegisteredSealProof::new(5).unwrap(),
            prover_id: ProverId([2; 32]),
            sector_number: SectorNumber(7),
            ticket: Ticket([3; 32]),
            pieces: vec![PieceInfo {
                comm_p: Commitment([4; 32]),
                size: primitives::UnpaddedSize::new(2032).unwrap(),
            }],
            comm_d: Commitment([4; 32]),
            comm_r: None,
        };
        manifest.describe(&sector).unwrap();
        record(&manifest, &dir.path().join("layer"), b"labels");
        let manifest = Manifest::open(dir.path(), &ID).unwrap();
        assert_eq!(manifest.entries().len(), 1);
        let sealed = Description { comm_r: Some(Commitment([5; 32])), ..sector };
        manifest.describe(&sealed).unwrap();
        let content = Manifest::read(dir.path()).unwrap().unwrap().unwrap();
        assert_eq!((content.sector, content.units), (Some(sealed), manifest.entries()));
        // Another replica's record begins without it.
        let other = Manifest::open(dir.path(), &ReplicaId([2; 32])).unwrap();
        record(&other, &dir.path().join("layer"), b"labels");
        assert_eq!(Manifest::read(dir.path()).unwrap().unwrap().unwrap().sector, None);
    }

    #[test]
    fn a_sector_that_moves_as_a_whole_stays_proven() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, sealed) = (dir.path().join("cache"), dir.path().join("sealed"));
        fs::create_dir(&cache).unwrap();
        record(&Manifest::open(&cache, &ID).unwrap(), &sealed, b"replica");
        let moved = tempfile::tempdir().unwrap();
        fs::rename(&cache, moved.path().join("cache")).unwrap();
        fs::rename(&sealed, moved.path().join("sealed")).unwrap();
        let manifest = Manifest::open(&moved.path().join("cache"), &ID).unwrap();
        assert_eq!(manifest.reuse(&unit("layer-1"), &moved.path().join("sealed")), Reuse::Proven);
    }
}
