//! Read-only memory maps of files.
//!
//! Unsafe code: mapping a file is unsound if somebody changes or cuts it meanwhile. The files mapped here are complete
//! under their final name and replaced by rename only, which leaves the mapped file as it is.

use memmap2::{Advice, Mmap};
use std::fs::File;
use std::io;
use std::ops::Deref;

/// A whole file in memory.
#[derive(Debug)]
pub(super) struct FileMap(Mmap);

impl FileMap {
    pub(super) fn new(file: &File) -> io::Result<Self> {
        // SAFETY: see the module: such files are never written in place.
        let map = unsafe { Mmap::map(file)? };
        // Advice only: without it reading is a little slower.
        let _ = map.advise(Advice::Sequential);
        Ok(Self(map))
    }
}

impl Deref for FileMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn maps_what_is_in_the_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"parents").unwrap();
        let map = FileMap::new(file.as_file()).unwrap();
        std::fs::remove_file(file.path()).unwrap();
        assert_eq!(&*map, b"parents");
    }
}
