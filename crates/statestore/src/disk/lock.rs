//! One process owns the store (SS-6). The lock is the kernel's, so it ends with its process; the file's text tells
//! others whom to ask.

use super::files;
use crate::StoreError;
use std::fs::{File, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The lock's file in the store's folder: the owner's process id and its contact, one a line.
pub(crate) const LOCK_FILE: &str = "lock";

#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
    owner: bool,
}

impl Lock {
    /// Takes the lock and says who held it and did not let go in order.
    pub(crate) fn acquire(dir: &Path, contact: &str) -> Result<(Self, Option<u32>), StoreError> {
        let path = dir.join(LOCK_FILE);
        let file = files::open_rw(&path).map_err(|e| StoreError::io("open the lock file", &path, &e))?;
        take(&file, dir, &path)?;
        let stale = read_owner(&file).0;
        let lock = Self { file, path, owner: true };
        lock.set_contact(contact)?;
        Ok((lock, stale))
    }

    /// Takes the lock without writing anything, to look at a store that nobody runs.
    pub(crate) fn for_reading(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(LOCK_FILE);
        let file = File::open(&path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => StoreError::Io {
                action: "open the store".to_owned(),
                path: dir.to_owned(),
                reason: "there is no store in this folder".to_owned(),
            },
            _ => StoreError::io("open the lock file", &path, &e),
        })?;
        take(&file, dir, &path)?;
        Ok(Self { file, path, owner: false })
    }

    /// Tells others how to reach the owner.
    pub(crate) fn set_contact(&self, contact: &str) -> Result<(), StoreError> {
        let line = contact.replace(['\n', '\r'], " ");
        let text = format!("{}\n{line}\n", std::process::id());
        self.file
            .write_all_at(text.as_bytes(), 0)
            .and_then(|()| self.file.set_len(text.len() as u64))
            .map_err(|e| StoreError::io("write the lock file", &self.path, &e))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.owner {
            // An empty file says that the owner left in order. When this fails, the next owner reports a stale one.
            let _ = self.file.set_len(0);
        }
    }
}

fn take(file: &File, dir: &Path, path: &Path) -> Result<(), StoreError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let (pid, contact) = read_owner(file);
            // Whoever looks at the store offline holds the lock without writing to it; then the text is an old one.
            let pid = pid.filter(|&pid| is_alive(pid));
            let contact = contact.filter(|_| pid.is_some());
            Err(StoreError::Locked { path: dir.to_owned(), pid, contact })
        }
        Err(TryLockError::Error(e)) => Err(StoreError::io("lock", path, &e)),
    }
}

fn read_owner(file: &File) -> (Option<u32>, Option<String>) {
    let mut text = String::new();
    // A foreign or torn text only makes the message poorer.
    let _ = file.take(4096).read_to_string(&mut text);
    let mut lines = text.lines();
    let pid = lines.next().and_then(|line| line.trim().parse().ok());
    (pid, lines.next().filter(|line| !line.is_empty()).map(str::to_owned))
}

fn is_alive(pid: u32) -> bool {
    // Without /proc there is no telling; the kernel's lock is held, so believe the text.
    !Path::new("/proc/self").exists() || Path::new(&format!("/proc/{pid}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_owner_is_told_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let (lock, stale) = Lock::acquire(dir.path(), "http://127.0.0.1:9\nx").unwrap();
        assert_eq!(stale, None);
        let refused = Lock::acquire(dir.path(), "").unwrap_err();
        let me = std::process::id();
        assert!(
            matches!(&refused, StoreError::Locked { pid: Some(pid), contact: Some(c), .. }
                if *pid == me && c == "http://127.0.0.1:9 x"),
            "{refused:?}"
        );
        drop(lock);
        assert_eq!(Lock::acquire(dir.path(), "").unwrap().1, None);
    }

    #[test]
    fn the_lock_of_a_dead_process_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(LOCK_FILE), "4194305\nsomewhere very long ago\n").unwrap();
        let (lock, stale) = Lock::acquire(dir.path(), "here").unwrap();
        assert_eq!(stale, Some(4_194_305));
        let text = std::fs::read_to_string(dir.path().join(LOCK_FILE)).unwrap();
        assert_eq!(text, format!("{}\nhere\n", std::process::id()));
        drop(lock);
    }

    #[test]
    fn a_reader_holds_the_lock_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Lock::for_reading(dir.path()).unwrap_err().to_string().contains("no store"));
        std::fs::write(dir.path().join(LOCK_FILE), "4194305\nold\n").unwrap();
        let lock = Lock::for_reading(dir.path()).unwrap();
        let refused = Lock::acquire(dir.path(), "").unwrap_err();
        assert!(matches!(refused, StoreError::Locked { pid: None, contact: None, .. }), "{refused:?}");
        drop(lock);
        assert_eq!(std::fs::read_to_string(dir.path().join(LOCK_FILE)).unwrap(), "4194305\nold\n");
    }
}
