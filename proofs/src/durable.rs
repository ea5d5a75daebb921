//! Files that are either complete under their final name or absent.

use crate::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file under a temporary name in its final folder; [`DurableFile::commit`] gives it its name. Dropped before, it is
/// removed.
pub(crate) struct DurableFile {
    file: File,
    temporary: PathBuf,
    target: PathBuf,
    committed: bool,
}

impl DurableFile {
    /// Begins `target` under the name `temporary` (in the same folder); a left-over of that name is overwritten.
    pub(crate) fn create(target: &Path, temporary: PathBuf) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&temporary)
            .map_err(Error::file("create", &temporary))?;
        Ok(Self { file, temporary, target: target.to_owned(), committed: false })
    }

    /// Appends bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(Error::file("write", &self.temporary))
    }

    /// Everything on disk, then the final name, then the name on disk.
    pub(crate) fn commit(mut self) -> Result<(), Error> {
        self.file.sync_all().map_err(Error::file("sync", &self.temporary))?;
        fs::rename(&self.temporary, &self.target)
            .map_err(Error::file("rename to its final name", &self.temporary))?;
        self.committed = true;
        let folder = self.target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        sync_folder(folder).map_err(Error::file("sync", folder))
    }
}

impl Drop for DurableFile {
    fn drop(&mut self) {
        if !self.committed {
            // Nothing depends on it: the next run overwrites the same name.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
