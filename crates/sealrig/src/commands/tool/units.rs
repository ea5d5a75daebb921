//! The memory of units: the sector's manifest, and an account of what was reused, refused and made.

use super::failure;
use crate::exit::Result;
use primitives::ReplicaId;
use proofs::control::{CancelFlag, Reuse, Unit, UnitError, UnitSink};
use proofs::files::{InFile, TREE_D};
use proofs::manifest::Manifest;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The unit that is the unsealed file. It is ours: the proofs only read the file.
const DATA: (&str, &str) = ("add-piece", "unsealed");

/// A file that was there and was not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Refusal {
    unit: String,
    reason: String,
}

/// What became of the units of a run.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Account {
    /// Units whose files of an earlier run were taken.
    pub(super) reused: Vec<String>,
    /// Files that were not taken, and why.
    pub(super) refused: Vec<Refusal>,
    #[serde(skip)]
    made: BTreeSet<String>,
    /// Tree-D must be built from the data once more before it is believed.
    #[serde(skip)]
    rebuild_tree_d: bool,
}

impl Account {
    /// One sentence for each refused file.
    pub(super) fn remarks(&self) -> Vec<String> {
        self.refused.iter().map(|r| format!("{} was not reused: {}", r.unit, r.reason)).collect()
    }
}

/// A unit sink that is the manifest and keeps the account.
#[derive(Debug)]
pub(super) struct Units {
    manifest: Manifest,
    account: Mutex<Account>,
}

impl Units {
    /// Opens the manifest of a cache folder for one replica. Long digests end when `cancel` is set.
    ///
    /// # Errors
    /// If it cannot be read or is of a newer form.
    pub(super) fn open(cache: &Path, replica_id: &ReplicaId, cancel: Arc<CancelFlag>) -> Result<Self> {
        let manifest = Manifest::open(cache, replica_id).map_err(failure::of_manifest)?.ended_by(cancel);
        Ok(Self { manifest, account: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Account> {
        // Only whole entries are pushed, so a panic elsewhere leaves it good.
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The account so far.
    pub(super) fn account(&self) -> Account {
        self.lock().clone()
    }

    fn data_unit() -> Unit {
        Unit { stage: DATA.0, name: DATA.1.to_owned() }
    }

    /// Whether the unsealed file is the one that was recorded.
    pub(super) fn data(&self, unsealed: &Path) -> Reuse {
        self.reuse(&Self::data_unit(), unsealed)
    }

    /// Records the unsealed file as it is now. Whatever tree-D is there was perhaps not built from it.
    ///
    /// # Errors
    /// If the file cannot be read or the manifest not be written.
    pub(super) fn record_data(&self, unsealed: &Path) -> Result {
        let unit = Self::data_unit();
        let file = InFile::open(unsealed).map_err(failure::of_file)?;
        let digest = file.digest().map_err(failure::of_file)?;
        self.finished(&unit, unsealed, file.len(), &digest).map_err(|e| failure::of_proofs(e.into()))?;
        self.lock().rebuild_tree_d = true;
        Ok(())
    }
}

impl UnitSink for Units {
    fn reuse(&self, unit: &Unit, file: &Path) -> Reuse {
        let name = unit.to_string();
        {
            let account = self.lock();
            if unit.name == TREE_D && account.rebuild_tree_d && !account.made.contains(&name) {
                return Reuse::Absent;
            }
        }
        let reuse = self.manifest.reuse(unit, file);
        let mut account = self.lock();
        match &reuse {
            Reuse::Proven if !account.made.contains(&name) && !account.reused.contains(&name) => {
                account.reused.push(name);
            }
            Reuse::Refused(reason) => {
                let refusal = Refusal { unit: name, reason: reason.clone() };
                if !account.refused.contains(&refusal) {
                    account.refused.push(refusal);
                }
            }
            Reuse::Proven | Reuse::Absent => {}
        }
        reuse
    }

    fn started(&self, unit: &Unit) -> std::result::Result<(), UnitError> {
        self.manifest.started(unit)
    }

    fn finished(
        &self,
        unit: &Unit,
        file: &Path,
        len: u64,
        digest: &[u8; 32],
    ) -> std::result::Result<(), UnitError> {
        self.manifest.finished(unit, file, len, digest)?;
        self.lock().made.insert(unit.to_string());
        Ok(())
    }
}
