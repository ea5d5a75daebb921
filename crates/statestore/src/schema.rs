//! The version of what is stored, and the steps from older versions (SS-2).

use crate::check::check_parts;
use crate::{Batch, Pair, StoreError, Write};
use std::collections::BTreeMap;

/// The key that holds the schema version (u16, big endian). Readable like any key, written only by opening a store.
pub const SCHEMA_KEY: &[u8] = b"meta/schema";

/// One forward step.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// The version it leads to, from the one before.
    pub to: u16,
    /// What it does, for people.
    pub what: &'static str,
    /// Does it. Everything written through the context becomes one atomic batch, together with the new version.
    pub run: fn(&mut MigrationContext<'_>) -> Result<(), StoreError>,
}

/// What the program knows how to read: its schema version and the way there.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// The version this program writes. An empty store gets it at once.
    pub version: u16,
    /// Steps in ascending order; a store older than the first step's predecessor is refused.
    pub migrations: &'static [Migration],
}

impl Default for Schema {
    /// Version 1, nothing older.
    fn default() -> Self {
        Self { version: 1, migrations: &[] }
    }
}

/// Reading and writing during a migration. Reads see what the same migration wrote.
pub struct MigrationContext<'a> {
    raw: &'a dyn Raw,
    overlay: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    batch: Batch,
}

impl std::fmt::Debug for MigrationContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MigrationContext").field("batch", &self.batch).finish_non_exhaustive()
    }
}

impl MigrationContext<'_> {
    /// The value of a key.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.overlay.get(key) {
            Some(written) => Ok(written.clone()),
            None => self.raw.get(key),
        }
    }

    /// All pairs whose key begins with `prefix`, ascending.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn scan(&self, prefix: &[u8]) -> Result<Vec<Pair>, StoreError> {
        let mut pairs: BTreeMap<_, _> = self.raw.scan(prefix, None, usize::MAX)?.into_iter().collect();
        for (key, value) in
            self.overlay.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(prefix))
        {
            match value {
                Some(value) => pairs.insert(key.clone(), value.clone()),
                None => pairs.remove(key),
            };
        }
        Ok(pairs.into_iter().collect())
    }

    /// Sets a key.
    pub fn put(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        let (key, value) = (key.into(), value.into());
        self.overlay.insert(key.clone(), Some(value.clone()));
        self.batch.put(key, value);
    }

    /// Removes a key.
    pub fn delete(&mut self, key: impl Into<Vec<u8>>) {
        let key = key.into();
        self.overlay.insert(key.clone(), None);
        self.batch.delete(key);
    }

    /// Adds a journal entry.
    pub fn append(&mut self, stream: impl Into<Vec<u8>>, payload: impl Into<Vec<u8>>) {
        self.batch.append(stream, payload);
    }
}

/// Synchronous reading, which a backend offers while it opens.
pub(crate) trait Raw {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Pair>, StoreError>;
}

/// What opening has to write.
pub(crate) struct Plan {
    /// The version found, if it was an older one.
    pub(crate) migrated_from: Option<u16>,
    /// The changes together with the new version; `None` when nothing changes.
    pub(crate) batch: Option<Batch>,
}

/// Compares the version in the store with the program's and works out the changes.
pub(crate) fn plan(raw: &dyn Raw, schema: &Schema) -> Result<Plan, StoreError> {
    let found = match raw.get(SCHEMA_KEY)? {
        Some(bytes) => match <[u8; 2]>::try_from(bytes.as_slice()) {
            Ok(version) => u16::from_be_bytes(version),
            Err(_) => {
                return Err(StoreError::Damaged {
                    what: format!("the schema version has {} bytes, expected 2", bytes.len()),
                    way_out: "Restore a backup.".to_owned(),
                });
            }
        },
        None => {
            let mut batch = Batch::new();
            batch.put(SCHEMA_KEY, schema.version.to_be_bytes());
            return Ok(Plan { migrated_from: None, batch: Some(batch) });
        }
    };
    if found > schema.version {
        return Err(StoreError::NewerSchema { what: "schema", found, supported: schema.version });
    }
    if found == schema.version {
        return Ok(Plan { migrated_from: None, batch: None });
    }
    let mut context = MigrationContext { raw, overlay: BTreeMap::new(), batch: Batch::new() };
    for version in found + 1..=schema.version {
        let Some(step) = schema.migrations.iter().find(|step| step.to == version) else {
            return Err(StoreError::Damaged {
                what: format!(
                    "the store has schema version {found} and there is no step to version {version}"
                ),
                way_out: "Open it once with an intermediate release of this program.".to_owned(),
            });
        };
        (step.run)(&mut context)?;
    }
    let mut batch = context.batch;
    check_parts(&batch)?;
    batch.writes.push(Write::Put { key: SCHEMA_KEY.to_vec(), value: schema.version.to_be_bytes().to_vec() });
    Ok(Plan { migrated_from: Some(found), batch: Some(batch) })
}
