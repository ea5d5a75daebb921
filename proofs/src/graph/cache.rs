//! The parents of all nodes, from the cache file other implementations share (proofs.md §3.5), or generated.

use super::map::FileMap;
use super::{Graph, ParentList};
use crate::Error;
use crate::control::{Cancelled, Control};
use crate::files::{FileError, StagedFile};
use crate::params::{BASE_DEGREE, DEGREE};
use rayon::prelude::*;
use sha2::Digest;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names the folder of parents files.
pub const CACHE_DIR_VARIABLE: &str = "FIL_PROOFS_PARENT_CACHE";
/// The folder if [`CACHE_DIR_VARIABLE`] is not set.
pub const DEFAULT_CACHE_DIR: &str = "/var/tmp/filecoin-parents";

/// Bytes of one node's parents in the file.
const RECORD: usize = 4 * DEGREE;
/// Nodes generated or read between two looks at the cancel flag.
const BLOCK: usize = 1 << 16;
/// Up to this many nodes the lists are held in memory if there is no file; above they are made when asked for.
const MEMORY_NODES: u64 = 1 << 19;
/// Nodes recomputed to check a large file without a published digest.
const SAMPLE: u64 = 1 << 16;

/// The folder of parents files: `FIL_PROOFS_PARENT_CACHE`, else the default of other implementations.
pub fn cache_dir() -> PathBuf {
    match std::env::var_os(CACHE_DIR_VARIABLE) {
        Some(dir) if !dir.is_empty() => dir.into(),
        _ => DEFAULT_CACHE_DIR.into(),
    }
}

/// SHA-256 of the parents file with this id, for the graphs it is published of (proofs.md §3.5).
pub fn published_digest(id: &str) -> Option<&'static str> {
    const TABLE: [(&str, &str); 10] = [
        (
            "3f0eef38bb48af1f48ad65e14eb85b4ebfc167cec18cd81764f6d998836c9899",
            "3da49221e2ed55371b86d0bf3d6526fcf128af61bed904f966428db1b531750d",
        ),
        (
            "494d91dc80f2df5272c4b9e129bc7ade9405225993af9fe34e6542a39a47554b",
            "840057702eea7652cf97e04306c30fe57174714d90de156a25eddd6075c25b97",
        ),
        (
            "dcdabb0fbe4364bf0ac28b6a18c66de246409fa1a9020a00f33fb3e3053da6dc",
            "a76604f2f59f2744c7151653bbb1d8596b6b57d295e6fa6c1f0c41d725b502ce",
        ),
        (
            "5eed212119fd91aa6220a27f31a8966444a9381842bceb3a1ea61525bd47a5b5",
            "03cd13565ded97c240a5f52e54295ad127bd0461b57904cb3a4d79b097bbecab",
        ),
        (
            "2aa9c77c3e58259481351cc4be2079cc71e1c9af39700866545c043bfa30fb42",
            "3adcc092423aa76d6a7184016893406da44dd974b219a89cd3ece25e4e3018f5",
        ),
        (
            "7ba215a1d2345774ab90b8cb1158d296e409d6068819d7b8c7baf0b25d63dc34",
            "b5877d1963793efebc261fd8fde4dd6bc59e6b5c7abf52617a4ee023b8dc173a",
        ),
        (
            "e1fa5d5b811ddbd118be3412c4a8c329156b8b8acc72632bca459455b5a05a13",
            "3c4f9841fcc75aed8c695800e58d08480629f25af3a2aefd81904181d75cc0b6",
        ),
        (
            "21981246c370f9d76c7a77ab273d94bde0ceb4e938292334960bce05585dc117",
            "93deeac5e3052b6927467d4b2641bb782f05491de18d510147c93eeedd8672da",
        ),
        (
            "8a99e8d6b6be7ab87a56b632e6739ff201c23ea14e99737c74690f0e265574d6",
            "2778a732ad46a7dc18e0564dfdf59fd321dcde74ab476fd6d3c4e6735d7cd89c",
        ),
        (
            "4905486b7af19558ac3649bc6261411858b6add534438878c4ee3b29d8b9de0b",
            "2698b74eb2606b55b98d8b095e18b6320b47f46e00075956d48640ccd1641b03",
        ),
    ];
    TABLE.iter().find(|(known, _)| *known == id).map(|(_, digest)| *digest)
}

/// Where the parents come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A verified file from an earlier run.
    Reused,
    /// A file written now; `replaced` says what was wrong with one that was there.
    Written {
        /// Why an earlier file was refused.
        replaced: Option<String>,
    },
    /// No file, and why: the folder cannot be used or none was wanted.
    Generated {
        /// Why there is no file.
        reason: String,
    },
}

#[derive(Debug)]
enum Store {
    File(FileMap),
    Memory(Vec<ParentList>),
    /// Made when asked for.
    None,
}

/// The parents of every node of a graph.
#[derive(Debug)]
pub struct Parents {
    graph: Graph,
    store: Store,
    origin: Origin,
}

impl Parents {
    /// The name of a graph's parents file.
    pub fn file_name(graph: &Graph) -> String {
        format!("v28-sdr-parent-{}.cache", graph.cache_id())
    }

    /// Maps the parents file of `graph` in `dir`. A missing, damaged or truncated file is replaced. If the folder cannot
    /// be used the parents are generated without it ([`Parents::origin`] says so).
    ///
    /// # Errors
    /// Only [`Error::Cancelled`].
    pub fn open(graph: Graph, dir: &Path, control: &Control<'_>) -> Result<Self, Error> {
        let outcome = match open_file(&graph, dir, control) {
            Ok((map, origin)) => (Store::File(map), origin),
            Err(Error::Cancelled(cancelled)) => return Err(cancelled.into()),
            Err(error) => return Self::without_file(graph, error.to_string(), control),
        };
        Ok(Self { graph, store: outcome.0, origin: outcome.1 })
    }

    /// The parents without any file: in memory for small graphs, else made when asked for.
    ///
    /// # Errors
    /// Only [`Error::Cancelled`].
    pub fn generated(graph: Graph, control: &Control<'_>) -> Result<Self, Error> {
        Self::without_file(graph, "no file was asked for".to_owned(), control)
    }

    fn without_file(graph: Graph, reason: String, control: &Control<'_>) -> Result<Self, Error> {
        let store = if graph.nodes() <= MEMORY_NODES {
            let mut lists = vec![[0; DEGREE]; graph.nodes() as usize];
            for (i, block) in lists.chunks_mut(BLOCK).enumerate() {
                control.check()?;
                generate(&graph, (i * BLOCK) as u64, block);
            }
            Store::Memory(lists)
        } else {
            Store::None
        };
        Ok(Self { graph, store, origin: Origin::Generated { reason } })
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Where the parents come from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The parents of node `v`.
    ///
    /// # Panics
    /// If `v` is not a node of the graph.
    pub fn get(&self, v: u32) -> ParentList {
        let mut out = [[0; DEGREE]];
        self.fill(u64::from(v), &mut out);
        out[0]
    }

    /// The parents of the nodes from `start` on. On the calling thread.
    ///
    /// # Panics
    /// If the nodes are not all in the graph.
    pub fn fill(&self, start: u64, out: &mut [ParentList]) {
        assert!(start + out.len() as u64 <= self.graph.nodes(), "nodes within the graph");
        match &self.store {
            Store::File(map) => {
                let (records, _) = map.as_chunks::<RECORD>();
                for (list, record) in out.iter_mut().zip(&records[start as usize..]) {
                    *list = decode(record);
                }
            }
            Store::Memory(lists) => {
                out.copy_from_slice(&lists[start as usize..start as usize + out.len()]);
            }
            Store::None => {
                for (v, list) in (start as u32..).zip(out) {
                    *list = self.graph.parents(v);
                }
            }
        }
    }
}

/// Whether a list could be that of node `v`: parents within the layer come before it, the others exist.
pub(crate) fn is_possible(v: u64, nodes: u64, list: &ParentList) -> bool {
    let (base, expander) = list.split_at(BASE_DEGREE);
    base.iter().all(|&p| u64::from(p) < v.max(1)) && expander.iter().all(|&p| u64::from(p) < nodes)
}

#[inline]
fn decode(record: &[u8; RECORD]) -> ParentList {
    let (words, _) = record.as_chunks::<4>();
    std::array::from_fn(|i| u32::from_le_bytes(words[i]))
}

/// In parallel.
fn generate(graph: &Graph, start: u64, out: &mut [ParentList]) {
    out.par_chunks_mut(1024).enumerate().for_each(|(chunk, lists)| {
        for (v, list) in ((start as usize + chunk * 1024) as u32..).zip(lists) {
            *list = graph.parents(v);
        }
    });
}

fn open_file(graph: &Graph, dir: &Path, control: &Control<'_>) -> Result<(FileMap, Origin), Error> {
    let path = dir.join(Parents::file_name(graph));
    // A good file needs no right to write.
    match check_file(graph, &path, control)? {
        Check::Good(map) => return Ok((map, Origin::Reused)),
        Check::Absent | Check::Bad(_) => {}
    }
    fs::create_dir_all(dir).map_err(FileError::io("create", dir))?;
    let _lock = lock(&path.with_extension("lock"), control)?;
    // Somebody else may have written it while we waited for the lock.
    let replaced = match check_file(graph, &path, control)? {
        Check::Good(map) => return Ok((map, Origin::Reused)),
        Check::Absent => None,
        Check::Bad(reason) => Some(reason),
    };
    write_file(graph, &path, control)?;
    let file = File::open(&path).map_err(FileError::io("open", &path))?;
    let map = FileMap::new(&file).map_err(FileError::io("map", &path))?;
    expect_length(graph, &path, map.len() as u64)?;
    Ok((map, Origin::Written { replaced }))
}

/// An exclusive lock, held until dropped; waiting for it can be cancelled.
fn lock(path: &Path, control: &Control<'_>) -> Result<File, Error> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(FileError::io("open", path))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {
                control.check()?;
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(TryLockError::Error(source)) => return Err(FileError::io("lock", path)(source).into()),
        }
    }
}

fn write_file(graph: &Graph, path: &Path, control: &Control<'_>) -> Result<(), Error> {
    let staged = StagedFile::create(path)?;
    let nodes = graph.nodes();
    let mut lists = vec![[0; DEGREE]; BLOCK.min(nodes as usize)];
    let mut bytes = Vec::with_capacity(lists.len() * RECORD);
    for start in (0..nodes).step_by(BLOCK) {
        control.check()?;
        control.report("parents", start, nodes, "nodes");
        generate(graph, start, &mut lists);
        bytes.clear();
        bytes.extend(lists.as_flattened().iter().flat_map(|p| p.to_le_bytes()));
        staged.write_at(&bytes, start * RECORD as u64)?;
    }
    staged.publish(nodes * RECORD as u64)?;
    control.report("parents", nodes, nodes, "nodes");
    Ok(())
}

fn expect_length(graph: &Graph, path: &Path, got: u64) -> Result<(), FileError> {
    let expected = graph.nodes() * RECORD as u64;
    if got == expected { Ok(()) } else { Err(FileError::Length { path: path.to_owned(), expected, got }) }
}

enum Check {
    Good(FileMap),
    Absent,
    Bad(String),
}

fn check_file(graph: &Graph, path: &Path, control: &Control<'_>) -> Result<Check, Error> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Check::Absent),
        Err(e) => return Err(FileError::io("open", path)(e).into()),
    };
    let length = file.metadata().map_err(FileError::io("examine", path))?.len();
    if let Err(wrong) = expect_length(graph, path, length) {
        return Ok(Check::Bad(wrong.to_string()));
    }
    let map = FileMap::new(&file).map_err(FileError::io("map", path))?;
    Ok(match fault(graph, &map, control)? {
        None => Check::Good(map),
        Some(fault) => Check::Bad(format!("{}: {fault}", path.display())),
    })
}

/// What is wrong with the content, if anything. With a published digest the whole file is proven; without, small files
/// are recomputed and of large ones a sample.
fn fault(graph: &Graph, map: &FileMap, control: &Control<'_>) -> Result<Option<String>, Cancelled> {
    let nodes = graph.nodes();
    if let Some(expected) = published_digest(&graph.cache_id()) {
        let mut hash = sha2::Sha256::new();
        for (i, block) in map.chunks(BLOCK * RECORD).enumerate() {
            control.check()?;
            control.report("check parents", (i * BLOCK) as u64, nodes, "nodes");
            hash.update(block);
        }
        let got = hex::encode(hash.finalize());
        return Ok((got != expected).then(|| format!("SHA-256 is {got}, expected {expected}")));
    }
    let (records, _) = map.as_chunks::<RECORD>();
    let stride = nodes.div_ceil(MEMORY_NODES).next_power_of_two();
    let stride = if stride == 1 { 1 } else { nodes / SAMPLE };
    for start in (0..nodes).step_by((BLOCK as u64 * stride) as usize) {
        control.check()?;
        let end = (start + BLOCK as u64 * stride).min(nodes);
        // One node of each stride, at a place that differs from stride to stride; always the last one.
        let wrong = (start / stride..end / stride).into_par_iter().find_any(|&s| {
            let v = (s * stride + s.wrapping_mul(0x9e37_79b9_7f4a_7c15) % stride) as u32;
            decode(&records[v as usize]) != graph.parents(v)
        });
        if let Some(s) = wrong {
            return Ok(Some(format!("wrong parents near node {}", s * stride)));
        }
    }
    let last = nodes as usize - 1;
    Ok((decode(&records[last]) != graph.parents(last as u32))
        .then(|| "wrong parents of the last node".to_owned()))
}

#[cfg(test)]
mod tests;
