//! Folders, syncs and copies.

use crate::StoreError;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The two calls by which data reaches a disk; a seam so that tests can let a sync fail.
pub(crate) trait Device: Send + Sync + 'static {
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()>;
    fn sync(&self, file: &File) -> io::Result<()>;
}

/// The real thing.
pub(crate) struct OsDevice;

impl Device for OsDevice {
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }
}

/// Makes sure that `dir` is a folder; a new one is for its owner only. Its parent must be there.
pub(crate) fn private_dir(dir: &Path) -> Result<bool, StoreError> {
    match std::fs::metadata(dir) {
        Ok(found) if found.is_dir() => Ok(false),
        Ok(_) => Err(io_text("use as the store's folder", dir, "it is a file, expected a folder")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().mode(0o700).create(dir).map_err(|e| match e.kind() {
                io::ErrorKind::NotFound => {
                    io_text("create the folder", dir, "its parent folder does not exist")
                }
                _ => StoreError::io("create the folder", dir, &e),
            })?;
            if let Some(parent) = dir.parent() {
                sync_dir(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })?;
            }
            Ok(true)
        }
        Err(error) => Err(StoreError::io("look at", dir, &error)),
    }
}

fn io_text(action: &str, path: &Path, reason: &str) -> StoreError {
    StoreError::Io { action: action.to_owned(), path: path.to_owned(), reason: reason.to_owned() }
}

/// Makes names in a folder durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|d| d.sync_all()).map_err(|e| StoreError::io("sync the folder", dir, &e))
}

/// Opens for reading and writing, creating it for its owner only.
pub(crate) fn open_rw(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// The names in a folder, sorted; none when the folder is not there.
pub(crate) fn names(dir: &Path) -> Result<Vec<String>, StoreError> {
    let listed = match std::fs::read_dir(dir) {
        Ok(listed) => listed,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::io("list the folder", dir, &e)),
    };
    let mut names = Vec::new();
    for entry in listed {
        let entry = entry.map_err(|e| StoreError::io("list the folder", dir, &e))?;
        // Names that are not UTF-8 are none of ours.
        if let Ok(name) = entry.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The bytes of all files below a folder; files that vanish meanwhile count nothing.
pub(crate) fn tree_bytes(dir: &Path) -> u64 {
    let Ok(listed) = std::fs::read_dir(dir) else { return 0 };
    listed
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => tree_bytes(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Copies a folder with everything in it.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> Result<(), StoreError> {
    private_dir(to)?;
    for name in names(from)? {
        let (source, target) = (from.join(&name), to.join(&name));
        if source.is_dir() {
            copy_tree(&source, &target)?;
        } else {
            std::fs::copy(&source, &target).map_err(|e| StoreError::io("copy", &source, &e))?;
        }
    }
    Ok(())
}

/// Writes every file below a folder anew: copy, sync, rename. After a failed sync the kernel may hold pages that it
/// believes to be on disk; only writing them again puts them there.
pub(crate) fn rewrite_tree(dir: &Path) -> Result<(), StoreError> {
    const SUFFIX: &str = ".rewrite";
    for name in names(dir)? {
        let path = dir.join(&name);
        if path.is_dir() {
            rewrite_tree(&path)?;
        } else if name.ends_with(SUFFIX) {
            std::fs::remove_file(&path).map_err(|e| StoreError::io("remove", &path, &e))?;
        } else {
            let copy = dir.join(format!("{name}{SUFFIX}"));
            std::fs::copy(&path, &copy)
                .and_then(|_| File::open(&copy)?.sync_all())
                .and_then(|()| std::fs::rename(&copy, &path))
                .map_err(|e| StoreError::io("rewrite", &path, &e))?;
        }
    }
    sync_dir(dir)
}

/// A new folder for a copy, removed when dropped.
#[derive(Debug)]
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new(purpose: &str) -> Result<Self, StoreError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path =
                std::env::temp_dir().join(format!("statestore-{purpose}-{}-{number}", std::process::id()));
            // Creating fails when the name is taken, by whomever: nobody can place a folder of theirs here.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(StoreError::io("create the folder", &path, &e)),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // Nothing depends on it being gone; the system cleans its temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
