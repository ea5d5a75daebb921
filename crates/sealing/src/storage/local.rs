//! One storage path on this computer.

use super::{SectorPaths, SectorStorage, StorageError};
use primitives::{ActorId, SectorId, SectorNumber};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const UNSEALED: &str = "unsealed";
const SEALED: &str = "sealed";
const CACHE: &str = "cache";
const STAGING: &str = "staging";

/// Sector files below one folder, in the layout other Filecoin tools read:
/// `{unsealed,sealed,cache}/s-t0<miner>-<number>` beside `sectorstore.json`; pieces wait in `staging/`.
pub struct LocalStorage {
    root: PathBuf,
    promises: Mutex<HashMap<SectorId, u64>>,
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StorageError {
    let path = path.to_owned();
    move |source| StorageError::Io { action, path, source }
}

impl LocalStorage {
    /// Opens a storage path, making its folders and `sectorstore.json` when they are not there.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, StorageError> {
        let root = root.into();
        for folder in [UNSEALED, SEALED, CACHE, STAGING] {
            let path = root.join(folder);
            fs::create_dir_all(&path).map_err(failed("create the folder", &path))?;
        }
        let identity = root.join("sectorstore.json");
        if !identity.exists() {
            let text = serde_json::json!({
                "ID": new_path_id(&root)?,
                "Weight": 10,
                "CanSeal": true,
                "CanStore": true,
                "MaxStorage": 0,
            });
            let temporary = root.join("sectorstore.json.tmp");
            fs::write(&temporary, format!("{text:#}\n")).map_err(failed("write", &temporary))?;
            fs::rename(&temporary, &identity).map_err(failed("write", &identity))?;
        }
        Ok(Self { root, promises: Mutex::default() })
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn promises(&self) -> std::sync::MutexGuard<'_, HashMap<SectorId, u64>> {
        self.promises.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of a sector that are on disk.
    fn written(&self, sector: SectorId) -> u64 {
        let paths = self.paths(sector);
        let in_cache = fs::read_dir(&paths.cache)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|e| e.metadata().ok())
            .map(|m| allocated(&m));
        let files = [&paths.unsealed, &paths.sealed];
        files.into_iter().filter_map(|p| fs::metadata(p).ok()).map(|m| allocated(&m)).chain(in_cache).sum()
    }

    fn outstanding(&self, promises: &HashMap<SectorId, u64>, but: Option<SectorId>) -> u64 {
        promises
            .iter()
            .filter(|(id, _)| Some(**id) != but)
            .map(|(id, bytes)| bytes.saturating_sub(self.written(*id)))
            .sum()
    }
}

/// Bytes a file really takes: a sparse unsealed file of a committed-capacity sector takes next to nothing.
fn allocated(metadata: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    metadata.blocks() * 512
}

/// An identity for a new storage path, in the form of a UUID. Only has to differ from other paths of the operator.
fn new_path_id(root: &Path) -> Result<String, StorageError> {
    use std::io::Read as _;
    let mut bytes = [0u8; 16];
    let source = Path::new("/dev/urandom");
    fs::File::open(source).and_then(|mut f| f.read_exact(&mut bytes)).map_err(failed(
        "draw an identity for the storage path from",
        if source.exists() { source } else { root },
    ))?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex::encode(bytes);
    Ok(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}

/// Removes a file; fine when it is not there.
fn remove_file(path: &Path) -> Result<(), StorageError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed("delete", path)(e)),
        _ => Ok(()),
    }
}

impl SectorStorage for LocalStorage {
    fn paths(&self, sector: SectorId) -> SectorPaths {
        let name = sector.to_string();
        SectorPaths {
            unsealed: self.root.join(UNSEALED).join(&name),
            sealed: self.root.join(SEALED).join(&name),
            cache: self.root.join(CACHE).join(&name),
        }
    }

    fn staged(&self, name: &str) -> PathBuf {
        self.root.join(STAGING).join(name)
    }

    fn reserve(&self, sector: SectorId, bytes: u64) -> Result<(), StorageError> {
        let stat = rustix::fs::statvfs(&self.root)
            .map_err(|e| failed("ask for free space in", &self.root)(io::Error::from(e)))?;
        let free = stat.f_bavail * stat.f_frsize;
        let mut promises = self.promises();
        let reserved = self.outstanding(&promises, Some(sector));
        let needed = bytes.saturating_sub(self.written(sector));
        if free < reserved.saturating_add(needed) {
            let what = format!("sector {}", sector.number);
            return Err(StorageError::Space { what, path: self.root.clone(), needed, free, reserved });
        }
        promises.insert(sector, bytes);
        Ok(())
    }

    fn release(&self, sector: SectorId) {
        self.promises().remove(&sector);
    }

    fn reserved(&self) -> u64 {
        self.outstanding(&self.promises(), None)
    }

    fn highest_number(&self, miner: ActorId) -> Result<Option<SectorNumber>, StorageError> {
        let mut highest = None;
        for folder in [UNSEALED, SEALED, CACHE] {
            let path = self.root.join(folder);
            for entry in fs::read_dir(&path).map_err(failed("list", &path))? {
                let name = entry.map_err(failed("list", &path))?.file_name();
                // A foreign name is not ours to judge: it neither blocks us nor counts.
                if let Some(id) = name.to_str().and_then(|n| n.parse::<SectorId>().ok())
                    && id.miner == miner
                {
                    highest = highest.max(Some(id.number));
                }
            }
        }
        Ok(highest)
    }

    fn prepare(&self, sector: SectorId) -> Result<(), StorageError> {
        let cache = self.paths(sector).cache;
        fs::create_dir_all(&cache).map_err(failed("create the folder", &cache))
    }

    fn forget_units(&self, sector: SectorId) -> Result<(), StorageError> {
        let cache = self.paths(sector).cache;
        let manifest = cache.join(proofs::manifest::FILE_NAME);
        match fs::rename(&manifest, cache.join("sealrig-manifest.forgotten.json")) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed("move aside", &manifest)(e)),
            _ => fs::File::open(&cache).and_then(|f| f.sync_all()).map_err(failed("sync", &cache)),
        }
    }

    fn trim(&self, sector: SectorId) -> Result<(), StorageError> {
        let cache = self.paths(sector).cache;
        let entries = match fs::read_dir(&cache) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(failed("list", &cache)(e)),
        };
        for entry in entries {
            let entry = entry.map_err(failed("list", &cache))?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let part = name.strip_prefix("sc-02-data-").unwrap_or("");
            // Left over by a crash; C1 is done, so nobody writes here any more.
            let unfinished = name.ends_with(".tmp");
            if unfinished
                || part.starts_with("layer-")
                || part.starts_with("tree-c")
                || part.starts_with("tree-d")
            {
                remove_file(&entry.path())?;
            }
        }
        Ok(())
    }

    fn remove(&self, sector: SectorId) -> Result<(), StorageError> {
        let paths = self.paths(sector);
        remove_file(&paths.unsealed)?;
        remove_file(&paths.sealed)?;
        // What a crash may have left of a replica being written.
        remove_file(&proofs::files::staged_path(&paths.sealed))?;
        match fs::remove_dir_all(&paths.cache) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed("delete", &paths.cache)(e)),
            _ => {}
        }
        self.release(sector);
        Ok(())
    }

    fn unstage(&self, name: &str) -> Result<(), StorageError> {
        remove_file(&self.staged(name))
    }

    fn all_staged(&self) -> Result<Vec<String>, StorageError> {
        let path = self.root.join(STAGING);
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(failed("list", &path))? {
            if let Ok(name) = entry.map_err(failed("list", &path))?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::life_bytes;
    use primitives::RegisteredSealProof;

    fn sector(number: u64) -> SectorId {
        SectorId { miner: ActorId(1000), number: SectorNumber(number) }
    }

    #[test]
    fn numbers_come_from_every_kind_of_file_and_foreign_names_do_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let storage = LocalStorage::open(dir.path()).unwrap();
        assert_eq!(storage.highest_number(ActorId(1000)).unwrap(), None);
        fs::write(storage.paths(sector(3)).unsealed, b"").unwrap();
        fs::write(storage.paths(sector(9)).sealed, b"").unwrap();
        fs::create_dir(storage.paths(sector(11)).cache).unwrap();
        fs::write(dir.path().join("sealed/s-t02000-77"), b"").unwrap();
        fs::write(dir.path().join("sealed/notes.txt"), b"").unwrap();
        assert_eq!(storage.highest_number(ActorId(1000)).unwrap(), Some(SectorNumber(11)));
    }

    #[test]
    fn removing_twice_is_fine_and_touches_no_other_sector() {
        let dir = tempfile::tempdir().unwrap();
        let storage = LocalStorage::open(dir.path()).unwrap();
        for n in [1, 2] {
            storage.prepare(sector(n)).unwrap();
            fs::write(storage.paths(sector(n)).cache.join("p_aux"), b"x").unwrap();
            fs::write(storage.paths(sector(n)).sealed, b"x").unwrap();
        }
        storage.remove(sector(1)).unwrap();
        storage.remove(sector(1)).unwrap();
        assert!(!storage.paths(sector(1)).sealed.exists() && !storage.paths(sector(1)).cache.exists());
        assert!(
            storage.paths(sector(2)).sealed.exists() && storage.paths(sector(2)).cache.join("p_aux").exists()
        );
    }

    #[test]
    fn trimming_keeps_what_proving_needs() {
        let dir = tempfile::tempdir().unwrap();
        let storage = LocalStorage::open(dir.path()).unwrap();
        storage.trim(sector(1)).unwrap();
        storage.prepare(sector(1)).unwrap();
        let cache = storage.paths(sector(1)).cache;
        let keep = ["p_aux", "t_aux", "sc-02-data-tree-r-last.dat", "sc-02-data-tree-r-last-3.dat"];
        let drop = ["sc-02-data-layer-1.dat", "sc-02-data-tree-d.dat", "sc-02-data-tree-c-0.dat"];
        for name in keep.iter().chain(&drop) {
            fs::write(cache.join(name), b"x").unwrap();
        }
        storage.trim(sector(1)).unwrap();
        assert!(keep.iter().all(|n| cache.join(n).exists()));
        assert!(!drop.iter().any(|n| cache.join(n).exists()));
    }

    #[test]
    fn promises_are_kept_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let storage = LocalStorage::open(dir.path()).unwrap();
        let life = life_bytes(RegisteredSealProof::new(5).unwrap());
        storage.reserve(sector(1), life).unwrap();
        storage.reserve(sector(2), life).unwrap();
        storage.reserve(sector(2), life).unwrap();
        assert_eq!(storage.reserved(), 2 * life);
        storage.release(sector(1));
        storage.remove(sector(2)).unwrap();
        assert_eq!(storage.reserved(), 0);
        let error = storage.reserve(sector(3), u64::MAX / 2).unwrap_err();
        assert!(error.is_capacity() && error.to_string().contains("sector 3"), "{error}");
    }

    #[test]
    fn the_path_has_one_identity_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        LocalStorage::open(dir.path()).unwrap();
        let first = fs::read(dir.path().join("sectorstore.json")).unwrap();
        LocalStorage::open(dir.path()).unwrap();
        assert_eq!(fs::read(dir.path().join("sectorstore.json")).unwrap(), first);
        let json: serde_json::Value = serde_json::from_slice(&first).unwrap();
        assert_eq!(json["ID"].as_str().unwrap().len(), 36);
    }
}
