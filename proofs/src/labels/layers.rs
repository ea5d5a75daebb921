//! Labelling whole layers, one after the other.
//!
//! Within a layer each label needs the one before, so that one thread hashes. Two others help: one brings the parents of
//! the next nodes, one takes finished labels to disk. They are threads of their own, apart from rayon's pool, because
//! they wait for each other.

use super::LayerBuffer;
use super::prefetch::prefetch;
use super::prefix;
use crate::control::{Cancelled, Control, Reuse, Unit};
use crate::files::{StagedFile, digest_state, finish, layer_id, store_path};
use crate::graph::{ParentList, Parents, cache};
use crate::params::{BASE_DEGREE, DEGREE, PoRepConfig};
use crate::sha256::label::LabelHasher;
use crate::sha256::{self, Backend};
use crate::{Error, Node};
use primitives::ReplicaId;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Nodes handed from thread to thread at a time, about 2 ms of hashing.
const WINDOW: usize = 2048;
/// Nodes between a prefetch and the use of what it brought: about 10 us.
const AHEAD: usize = 12;
/// Time between two progress reports.
const REPORT: Duration = Duration::from_millis(200);

/// Labels all layers of a sector into `cache_dir`, which must exist (proofs.md §4.4 step 5). Returns the layer files.
///
/// Each layer is a unit `precommit1 layer-i`: if `control` proves its file, it is skipped; else it is computed, written
/// under a temporary name, synced, renamed, and reported with its BLAKE2b-256. Memory: two layers.
///
/// # Errors
/// [`Error::Cancelled`] within a few milliseconds of the flag; [`Error::Unit`] from the sink; [`Error::File`] and
/// [`Error::Memory`]; [`Error::WrongGraph`] and [`Error::ImpossibleParents`] for parents that are not those of `config`.
pub fn generate_layers(
    config: &PoRepConfig,
    parents: &Parents,
    replica_id: &ReplicaId,
    cache_dir: &Path,
    control: &Control<'_>,
) -> Result<Vec<PathBuf>, Error> {
    let files: Vec<PathBuf> = (1..=config.layers).map(|l| store_path(cache_dir, &layer_id(l))).collect();
    let mut labeller = Labeller::new(config, parents, replica_id, control)?;
    for (layer, path) in (1..).zip(&files) {
        control.check()?;
        let unit = Unit { stage: "precommit1", name: layer_id(layer) };
        if control.reuse(&unit, path)? == Reuse::Proven {
            continue;
        }
        control.units.started(&unit)?;
        if layer > 1 {
            labeller.have(layer - 1, &files[layer - 2])?;
        }
        let digest = labeller.layer_to_file(layer, path)?;
        control.units.finished(&unit, path, config.nodes() * 32, &digest)?;
    }
    Ok(files)
}

/// The labels of the last layer, in memory: the key a sector is encoded with (proofs.md §11.1). Writes no file; needs
/// memory for two layers.
///
/// # Errors
/// As [`generate_layers`].
pub fn last_layer(
    config: &PoRepConfig,
    parents: &Parents,
    replica_id: &ReplicaId,
    control: &Control<'_>,
) -> Result<LayerBuffer, Error> {
    let mut labeller = Labeller::new(config, parents, replica_id, control)?;
    for layer in 1..=config.layers {
        labeller.layer(layer, None)?;
    }
    Ok(labeller.previous)
}

struct Labeller<'a> {
    config: &'a PoRepConfig,
    parents: &'a Parents,
    replica_id: &'a ReplicaId,
    control: &'a Control<'a>,
    hasher: LabelHasher,
    /// The layer whose labels `previous` holds, 0 for none.
    held: usize,
    previous: LayerBuffer,
    current: LayerBuffer,
}

impl<'a> Labeller<'a> {
    fn new(
        config: &'a PoRepConfig,
        parents: &'a Parents,
        replica_id: &'a ReplicaId,
        control: &'a Control<'a>,
    ) -> Result<Self, Error> {
        let (expected, got) = (config.nodes(), parents.graph().nodes());
        if expected != got || !parents.graph().is_of(config) {
            return Err(Error::WrongGraph { expected, got });
        }
        Ok(Self {
            config,
            parents,
            replica_id,
            control,
            hasher: LabelHasher::new(Backend::detect()),
            held: 0,
            previous: LayerBuffer::new(expected)?,
            current: LayerBuffer::new(expected)?,
        })
    }

    /// Makes sure `previous` holds `layer`, which is in its file.
    fn have(&mut self, layer: usize, path: &Path) -> Result<(), Error> {
        if self.held != layer {
            self.held = 0;
            self.previous.read(path, self.control)?;
            self.held = layer;
        }
        Ok(())
    }

    /// Computes a layer while another thread takes it to its file. Returns the file's BLAKE2b-256.
    fn layer_to_file(&mut self, layer: usize, path: &Path) -> Result<[u8; 32], Error> {
        // The name other implementations use, so that either removes the other's left-overs (proofs.md §4.4).
        let staged = StagedFile::create_as(path, path.with_extension(".tmp"))?;
        let (sender, receiver) = sync_channel::<Vec<u8>>(32);
        let digest = thread::scope(|scope| {
            let writer = scope.spawn(|| -> Result<[u8; 32], Error> {
                let mut hash = digest_state();
                let mut at = 0;
                for bytes in receiver {
                    hash.update(&bytes);
                    staged.write_at(&bytes, at)?;
                    at += bytes.len() as u64;
                }
                Ok(finish(&hash))
            });
            let computed = self.layer(layer, Some(&sender));
            // Ends the writer.
            drop(sender);
            let written = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // If writing failed, that is why computing stopped.
            let digest = written?;
            computed.map(|()| digest)
        })?;
        staged.publish(self.config.nodes() * 32)?;
        Ok(digest)
    }

    /// Computes a layer into `current` and makes it `previous`; finished labels go to `sink`, if there is one.
    fn layer(&mut self, layer: usize, sink: Option<&SyncSender<Vec<u8>>>) -> Result<(), Error> {
        let (filled, windows) = sync_channel::<Result<Vec<ParentList>, Error>>(2);
        let (give_back, spare) = sync_channel::<Vec<ParentList>>(4);
        let parents = self.parents;
        thread::scope(|scope| {
            scope.spawn(move || feed_parents(parents, &filled, &spare));
            if layer == 1 {
                self.hash_layer::<BASE_DEGREE>(layer, &windows, &give_back, sink)
            } else {
                self.hash_layer::<DEGREE>(layer, &windows, &give_back, sink)
            }
            // Dropping the channels ends the feeder, also when hashing failed.
            .inspect_err(|_| drop(windows))
        })?;
        std::mem::swap(&mut self.previous, &mut self.current);
        self.held = layer;
        Ok(())
    }

    fn hash_layer<const P: usize>(
        &mut self,
        layer: usize,
        windows: &Receiver<Result<Vec<ParentList>, Error>>,
        give_back: &SyncSender<Vec<ParentList>>,
        sink: Option<&SyncSender<Vec<u8>>>,
    ) -> Result<(), Error> {
        let nodes = self.config.nodes();
        let phase = format!("layer {layer} of {}", self.config.layers);
        let layer = u32::try_from(layer).expect("a config has 2 or 11 layers");
        let mut reported = Instant::now();
        let mut start = 0;
        let mut midstate = self.hasher.prefix(&prefix(self.replica_id, layer, 1));
        self.control.report(&phase, 0, nodes, "nodes");
        while start < nodes {
            self.control.check()?;
            // The feeder ends early only with an error, which it sends first.
            let lists = windows.recv().map_err(|_| Cancelled)??;
            midstate = self.hash_window::<P>(layer, start, &lists, midstate);
            let end = start + lists.len() as u64;
            if let Some(sink) = sink {
                let done = &self.current.nodes()[start as usize..end as usize];
                // The writer has ended with an error, which its join brings; this one is not seen.
                sink.send(done.as_flattened().to_vec()).map_err(|_| Cancelled)?;
            }
            start = end;
            // A feeder that is done takes nothing back.
            let _ = give_back.try_send(lists);
            if reported.elapsed() >= REPORT {
                reported = Instant::now();
                self.control.report(&phase, start, nodes, "nodes");
            }
        }
        self.control.report(&phase, nodes, nodes, "nodes");
        Ok(())
    }

    /// Labels the nodes from `start` on, one for each list. Takes and returns the midstate of the next node's prefix.
    fn hash_window<const P: usize>(
        &mut self,
        layer: u32,
        start: u64,
        lists: &[ParentList],
        mut midstate: sha256::label::Midstate,
    ) -> sha256::label::Midstate {
        let previous = self.previous.nodes();
        let current = self.current.nodes_mut();
        let mut next_prefix = prefix(self.replica_id, layer, 0);
        for (i, list) in lists.iter().enumerate() {
            let v = start + i as u64;
            if let Some(coming) = lists.get(i + AHEAD) {
                for &p in &coming[..BASE_DEGREE] {
                    prefetch(&current[p as usize]);
                }
                if P == DEGREE {
                    for &p in &coming[BASE_DEGREE..] {
                        prefetch(&previous[p as usize]);
                    }
                }
            }
            if v == 0 {
                current[0] = sha256::truncate(sha256::digest(&prefix(self.replica_id, layer, 0)));
                continue;
            }
            next_prefix[36..44].copy_from_slice(&(v + 1).to_be_bytes());
            let (done, rest) = current.split_at_mut(v as usize);
            let parents: [&Node; P] = std::array::from_fn(|j| {
                if j < BASE_DEGREE { &done[list[j] as usize] } else { &previous[list[j] as usize] }
            });
            (rest[0], midstate) = self.hasher.label(&midstate, parents, &next_prefix);
        }
        midstate
    }
}

/// Sends the parents of all nodes in order, a window at a time, until done or nobody listens.
fn feed_parents(
    parents: &Parents,
    filled: &SyncSender<Result<Vec<ParentList>, Error>>,
    spare: &Receiver<Vec<ParentList>>,
) {
    let nodes = parents.graph().nodes();
    for start in (0..nodes).step_by(WINDOW) {
        let mut lists = spare.try_recv().unwrap_or_default();
        lists.resize(WINDOW.min((nodes - start) as usize), [0; DEGREE]);
        parents.fill(start, &mut lists);
        // A damaged file may have passed its check if it was too large to be checked whole.
        let wrong = (start..).zip(&lists).find(|(v, list)| !cache::is_possible(*v, nodes, list));
        let message = match wrong {
            None => Ok(lists),
            Some((node, _)) => Err(Error::ImpossibleParents { node }),
        };
        let failed = message.is_err();
        if filled.send(message).is_err() || failed {
            return;
        }
    }
}
