//! Memory for one layer.

use crate::control::Control;
use crate::files::InFile;
use crate::{Error, Node};
use memmap2::MmapMut;
use std::path::Path;

/// The labels of one layer in memory, 32 bytes per node. The memory is asked of the system directly, in huge pages where
/// it has them: at 32 GiB each parent is a miss of the page table cache otherwise.
#[derive(Debug)]
pub struct LayerBuffer {
    map: MmapMut,
}

impl LayerBuffer {
    /// Zeros for `nodes` nodes.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system has not enough memory.
    pub fn new(nodes: u64) -> Result<Self, Error> {
        let bytes = nodes * 32;
        let memory = |source| Error::Memory { what: "a layer of labels", bytes, source };
        let length = usize::try_from(bytes).map_err(|_| memory(std::io::ErrorKind::OutOfMemory.into()))?;
        let map = MmapMut::map_anon(length).map_err(memory)?;
        // Advice only: without huge pages it is slower, not wrong.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Self { map })
    }

    /// The labels.
    pub fn nodes(&self) -> &[Node] {
        self.map.as_chunks().0
    }

    /// The labels, to change.
    pub fn nodes_mut(&mut self) -> &mut [Node] {
        self.map.as_chunks_mut().0
    }

    /// Fills the buffer from a file of exactly its length.
    pub(super) fn read(&mut self, path: &Path, control: &Control<'_>) -> Result<(), Error> {
        let file = InFile::open_exact(path, self.map.len() as u64)?;
        let mut at = 0;
        for part in self.map.chunks_mut(16 << 20) {
            control.check()?;
            file.read_at(part, at)?;
            at += part.len() as u64;
        }
        Ok(())
    }
}
