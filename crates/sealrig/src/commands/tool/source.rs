//! Files of the user that become pieces.

use crate::exit::{Failure, Result};
use primitives::UnpaddedSize;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A regular, readable, non-empty file and the piece it becomes.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    file: File,
    bytes: u64,
    size: UnpaddedSize,
}

impl Source {
    /// Opens a file.
    ///
    /// # Errors
    /// If it is missing, empty, not a regular file, cannot be read, or is larger than any piece.
    pub(super) fn open(path: &Path) -> Result<Self> {
        // Looked at before it is opened: opening a pipe would wait for its writer.
        let meta =
            fs::metadata(path).map_err(|e| cannot("read", path, &e).next("check the name of the file"))?;
        if meta.is_dir() {
            return Err(Failure::usage(format!("{} is a folder, not a file", path.display()))
                .next("name the files in it one by one, or pack them into one file first"));
        }
        if !meta.is_file() {
            return Err(Failure::usage(format!("{} is not a regular file", path.display()))
                .next("copy the data into a file first: its length must be known"));
        }
        let file =
            File::open(path).map_err(|e| cannot("read", path, &e).next("check who may read the file"))?;
        let bytes = file.metadata().map_err(|e| cannot("examine", path, &e))?.len();
        if bytes == 0 {
            return Err(Failure::usage(format!(
                "{} is empty: a piece has at least one byte",
                path.display()
            ))
            .next("leave the file out"));
        }
        let size = UnpaddedSize::containing(bytes).ok_or_else(|| {
            Failure::failed(format!("{} has {bytes} bytes, more than any piece", path.display()))
        })?;
        Ok(Self { path: path.to_owned(), file, bytes, size })
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes in it.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The size of the piece: the file with zeros up to 127 * 2^k.
    pub(super) fn size(&self) -> UnpaddedSize {
        self.size
    }

    /// Gives the content from the beginning to `consume` and makes sure that it was read as long as it was when it was
    /// opened: a file that grows or shrinks meanwhile would get a commitment nobody can repeat.
    ///
    /// # Errors
    /// What `consume` says, or that the file has changed.
    pub(super) fn read<T>(&self, consume: impl FnOnce(Reader<'_>) -> Result<T>) -> Result<T> {
        let mut got = 0;
        let reader = Reader { file: &self.file, at: 0, got: &mut got };
        let result = consume(reader)?;
        if got != self.bytes {
            return Err(Failure::failed(format!(
                "{} was changed while it was read: it had {} bytes, {got} were read",
                self.path.display(),
                self.bytes
            ))
            .next("wait until nothing writes to the file, and run the command again"));
        }
        Ok(result)
    }
}

/// Reads a source from its beginning; several can, one after the other.
pub(super) struct Reader<'a> {
    file: &'a File,
    at: u64,
    got: &'a mut u64,
}

impl Read for Reader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        use std::os::unix::fs::FileExt;
        let n = self.file.read_at(buf, self.at)?;
        self.at += n as u64;
        *self.got = self.at;
        Ok(n)
    }
}

/// "cannot `doing` `path`: why".
pub(super) fn cannot(doing: &str, path: &Path, why: &io::Error) -> Failure {
    let failure = Failure::failed(format!("cannot {doing} {}: {why}", path.display()));
    match super::failure::remedy(why) {
        Some(remedy) => failure.next(remedy),
        None => failure,
    }
}
