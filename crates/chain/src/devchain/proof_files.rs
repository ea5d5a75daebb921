//! Proofs that are too large for a message: files named by their digest (PL-14).

use crate::cbor::blake2b_256;
use crate::{Error, Result};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest proof file in bytes.
pub const MAX_PROOF_FILE_BYTES: u64 = 16 << 20;

/// The folder of proof files. The reference that goes into a message is the BLAKE2b-256 digest of the proof; the file
/// is named by it in hexadecimal.
#[derive(Debug)]
pub(super) struct ProofFiles {
    dir: PathBuf,
    next_tmp: AtomicU64,
}

impl ProofFiles {
    /// The folder, made if it is missing. Unfinished files of an earlier process are removed.
    pub(super) fn open(dir: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&dir).map_err(|e| Error::storage("making", &dir, &e))?;
        let list = std::fs::read_dir(&dir).map_err(|e| Error::storage("listing", &dir, &e))?;
        for entry in list.flatten() {
            if entry.path().extension().is_some_and(|e| e == "tmp") {
                std::fs::remove_file(entry.path())
                    .map_err(|e| Error::storage("removing", &entry.path(), &e))?;
            }
        }
        Ok(Self { dir, next_tmp: AtomicU64::new(0) })
    }

    fn path(&self, reference: &[u8; 32]) -> PathBuf {
        self.dir.join(hex::encode(reference))
    }

    /// Stores a proof durably and returns its reference.
    pub(super) fn put(&self, proof: &[u8]) -> Result<[u8; 32]> {
        let size = proof.len() as u64;
        if size > MAX_PROOF_FILE_BYTES {
            return Err(Error::ProofTooLarge { got: size, limit: MAX_PROOF_FILE_BYTES });
        }
        let reference = blake2b_256(proof);
        // A file that is there under its digest but holds something else is replaced.
        if self.get(&reference)?.is_some() {
            return Ok(reference);
        }
        let path = self.path(&reference);
        let tmp = self.dir.join(format!("{}.tmp", self.next_tmp.fetch_add(1, Ordering::Relaxed)));
        write_durably(&tmp, &path, proof)?;
        Ok(reference)
    }

    /// The proof with this reference; `None` if there is no such file, or its content is not the one named.
    pub(super) fn get(&self, reference: &[u8; 32]) -> Result<Option<Vec<u8>>> {
        let path = self.path(reference);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::storage("opening", &path, &e)),
        };
        let mut bytes = Vec::new();
        file.take(MAX_PROOF_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| Error::storage("reading", &path, &e))?;
        Ok((blake2b_256(&bytes) == *reference).then_some(bytes))
    }

    /// Removes a proof that nobody needs any more. It need not be there.
    pub(super) fn remove(&self, reference: &[u8; 32]) -> Result<()> {
        let path = self.path(reference);
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::storage("removing", &path, &e)),
            _ => Ok(()),
        }
    }
}

/// Writes `bytes` to `tmp`, syncs, renames to `path` and syncs the folder.
pub(super) fn write_durably(tmp: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let mut file = File::create(tmp)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    if let Err(e) = write() {
        // Nothing refers to it; a full disk gets its space back.
        let _ = std::fs::remove_file(tmp);
        return Err(Error::storage("writing", tmp, &e));
    }
    std::fs::rename(tmp, path).map_err(|e| Error::storage("renaming to", path, &e))?;
    sync_folder(path)
}

/// Syncs the folder that `path` lies in.
pub(super) fn sync_folder(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder).and_then(|f| f.sync_all()).map_err(|e| Error::storage("syncing", folder, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_found_by_its_digest_only() {
        let dir = tempfile::tempdir().unwrap();
        let files = ProofFiles::open(dir.path().join("proofs")).unwrap();
        let reference = files.put(b"proof").unwrap();
        assert_eq!(reference, blake2b_256(b"proof"));
        assert_eq!(files.get(&reference).unwrap().unwrap(), b"proof");
        assert_eq!(files.get(&[0; 32]).unwrap(), None);
        // A damaged file is no proof, and is repaired by putting the proof again.
        std::fs::write(files.path(&reference), b"prooF").unwrap();
        assert_eq!(files.get(&reference).unwrap(), None);
        assert_eq!(files.put(b"proof").unwrap(), reference);
        assert_eq!(files.get(&reference).unwrap().unwrap(), b"proof");
    }

    #[test]
    fn the_limit_is_16_mib() {
        let dir = tempfile::tempdir().unwrap();
        let files = ProofFiles::open(dir.path().to_owned()).unwrap();
        let mut proof = vec![0; (16 << 20) + 1];
        assert_eq!(
            files.put(&proof).unwrap_err(),
            Error::ProofTooLarge { got: (16 << 20) + 1, limit: 16 << 20 }
        );
        proof.pop();
        files.put(&proof).unwrap();
    }

    #[test]
    fn unfinished_files_are_removed_at_open() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("7.tmp"), b"half").unwrap();
        ProofFiles::open(dir.path().to_owned()).unwrap();
        assert!(!dir.path().join("7.tmp").exists());
    }
}
