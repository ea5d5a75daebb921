//! The prover in this process: the `proofs` crate on threads and pools of its own.

use super::units::Announced;
use super::{Labelled, PieceJob, Prover, ProverError, SealJob, Watch};
use async_trait::async_trait;
use primitives::{Commitment, PieceInfo, ProverId, SectorId, Seed};
use proofs::Error as ProofsError;
use proofs::control::{CancelFlag, Control, Progress as ProofsProgress, ProgressSink, Reuse, Unit};
use proofs::files::config::TAux;
use proofs::files::{FileError, TREE_R_LAST, base_tree_id, store_path};
use proofs::manifest::Manifest;
use proofs::params::PoRepConfig;
use proofs::piece::{self, Fill};
use proofs::porep::{self, Commit1Input, PoRepError, PreCommit1Output, SectorInput};
use proofs::tree::open::TreeError;
use proofs::unseal::{UnsealError, UnsealInput};
use proofs::vanilla::verify::PublicSector;
use rayon::{ThreadPool, ThreadPoolBuilder};
use statemachine::{Cancel, Class, Progress};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, oneshot};

/// Sample challenges that are opened and verified after PC2 (PL-7).
const SAMPLES: u32 = 8;

/// The rayon pools, by what they do (PL-8). Sized by configuration; their threads are nobody else's.
pub struct Pools {
    labels: Arc<ThreadPool>,
    trees: Arc<ThreadPool>,
    input: Arc<ThreadPool>,
}

impl Pools {
    /// Pools of so many threads each.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn new(threads: usize) -> Result<Self, rayon::ThreadPoolBuildError> {
        let pool = |name: &'static str| {
            let builder = ThreadPoolBuilder::new().num_threads(threads.max(1));
            builder.thread_name(move |i| format!("{name}-{i}")).build().map(Arc::new)
        };
        Ok(Self { labels: pool("labels")?, trees: pool("trees")?, input: pool("input")? })
    }
}

/// Computes with the `proofs` crate. The proof system is `vanilla`: C1's output is the proof.
pub struct LocalProver {
    pools: Pools,
    /// One lock per sector: a stage holds it until its thread has ended, whoever still waits for it.
    busy: Mutex<HashMap<SectorId, Arc<AsyncMutex<()>>>>,
}

impl LocalProver {
    /// A prover with these pools.
    pub fn new(pools: Pools) -> Self {
        Self { pools, busy: Mutex::default() }
    }

    async fn enter(&self, sector: SectorId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
            busy.retain(|id, lock| *id == sector || Arc::strong_count(lock) > 1);
            Arc::clone(busy.entry(sector).or_default())
        };
        lock.lock_owned().await
    }

    /// Runs a stage on a thread of its own, inside a pool, with the sector's lock held to its end.
    async fn on_thread<T: Send + 'static>(
        &self,
        name: &'static str,
        sector: SectorId,
        pool: &Arc<ThreadPool>,
        cancel: &Cancel,
        work: impl FnOnce(&Arc<CancelFlag>) -> Result<T, ProverError> + Send + 'static,
    ) -> Result<T, ProverError> {
        let guard = self.enter(sector).await;
        let flag = Arc::new(CancelFlag::new());
        let raised = Arc::clone(&flag);
        cancel.on_cancel(move || raised.cancel());
        let (answer, result) = oneshot::channel();
        let pool = Arc::clone(pool);
        let thread = std::thread::Builder::new().name(format!("{name}-{}", sector.number)).spawn(move || {
            let done = pool.install(|| work(&flag));
            drop(guard);
            // Nobody waits any more when the run was cut; what was made is on disk.
            let _ = answer.send(done);
        });
        thread.map_err(|e| {
            ProverError::new(Class::Capacity, format_args!("cannot start a thread for {name}: {e}"))
        })?;
        // The sender is only dropped unsent when the stage panicked.
        let panicked = |_| {
            ProverError::new(Class::WorkerLost, format_args!("{name} of sector {} panicked", sector.number))
        };
        result.await.map_err(panicked)?
    }
}

/// Passes progress on.
struct Reports(Arc<dyn Fn(Progress) + Send + Sync>);

impl ProgressSink for Reports {
    fn report(&self, p: ProofsProgress<'_>) {
        (self.0)(Progress {
            phase: p.phase.to_owned(),
            done: p.done,
            total: p.total,
            unit: p.unit.to_owned(),
        });
    }
}

fn config(job: &SealJob) -> PoRepConfig {
    PoRepConfig::registered(job.proof)
}

fn input<'a>(job: &'a SealJob) -> SectorInput<'a> {
    SectorInput {
        unsealed: &job.paths.unsealed,
        cache: &job.paths.cache,
        prover_id: ProverId::from_actor(job.sector.miner),
        sector_number: job.sector.number,
        ticket: job.ticket,
        pieces: &job.pieces,
    }
}

/// Runs a stage under the sector's manifest: units are proven by it, and announced.
fn with_units<T>(
    job: &SealJob,
    watch: &Watch,
    cancel: &Arc<CancelFlag>,
    stage: impl FnOnce(&PoRepConfig, &Control<'_>) -> Result<T, PoRepError>,
) -> Result<T, ProverError> {
    let config = config(job);
    let replica_id = input(job).replica_id(&config).map_err(|e| failure(job.sector, &e))?;
    let manifest = Manifest::open(&job.paths.cache, &replica_id)
        .map_err(|e| ProverError::new(Class::Transient, format_args!("sector {}: {e}", job.sector.number)))?
        .ended_by(Arc::clone(cancel));
    let units = Announced { inner: &manifest, notes: &watch.units };
    let progress = Reports(Arc::clone(&watch.progress));
    let control = Control { cancel, progress: &progress, units: &units };
    stage(&config, &control).map_err(|e| failure(job.sector, &e))
}

#[async_trait]
impl Prover for LocalProver {
    fn system(&self) -> &'static str {
        "vanilla"
    }

    async fn add_piece(&self, job: PieceJob, watch: Watch) -> Result<PieceInfo, ProverError> {
        let cancel = watch.cancel.clone();
        self.on_thread("add-piece", job.sector, &self.pools.input, &cancel, move |flag| {
            write_piece(&job, &watch, flag)
        })
        .await
    }

    async fn precommit1(&self, job: SealJob, watch: Watch) -> Result<Labelled, ProverError> {
        let cancel = watch.cancel.clone();
        self.on_thread("precommit1", job.sector, &self.pools.labels, &cancel, move |flag| {
            let out = with_units(&job, &watch, flag, |config, control| {
                porep::precommit1(config, &input(&job), control)
            })?;
            Ok(Labelled { comm_d: out.comm_d, replica_id: out.replica_id })
        })
        .await
    }

    async fn precommit2(&self, job: SealJob, watch: Watch) -> Result<Commitment, ProverError> {
        let cancel = watch.cancel.clone();
        self.on_thread("precommit2", job.sector, &self.pools.trees, &cancel, move |flag| {
            with_units(&job, &watch, flag, |config, control| {
                let (cache, sealed) = (&job.paths.cache, &job.paths.sealed);
                let sector = input(&job);
                let pc1 =
                    PreCommit1Output::of(config, cache, sector.comm_d(config)?, sector.replica_id(config)?);
                let out = porep::precommit2(config, &pc1, cache, &job.paths.unsealed, sealed, control)?;
                let public = public(&job, out.comm_d, out.comm_r, Seed([1; 32]));
                porep::check_sealed(config, &public, cache, sealed, SAMPLES, control)?;
                Ok(out.comm_r)
            })
        })
        .await
    }

    async fn commit(
        &self,
        job: SealJob,
        comm_d: Commitment,
        comm_r: Commitment,
        seed: Seed,
        watch: Watch,
    ) -> Result<Vec<u8>, ProverError> {
        let cancel = watch.cancel.clone();
        self.on_thread("commit", job.sector, &self.pools.trees, &cancel, move |flag| {
            with_units(&job, &watch, flag, |config, control| {
                let public = public(&job, comm_d, comm_r, seed);
                let (cache, sealed) = (job.paths.cache.as_path(), job.paths.sealed.as_path());
                let commit = Commit1Input { cache, sealed, public, pieces: &job.pieces };
                // Verified by commit1 itself before it returns.
                let out = porep::commit1(config, &commit, control)?;
                Ok(out.to_json(job.proof).into_bytes())
            })
        })
        .await
    }

    async fn check_kept(
        &self,
        job: SealJob,
        comm_d: Commitment,
        comm_r: Commitment,
        watch: Watch,
    ) -> Result<(), ProverError> {
        let cancel = watch.cancel.clone();
        self.on_thread("check-kept", job.sector, &self.pools.trees, &cancel, move |flag| {
            with_units(&job, &watch, flag, |config, control| {
                let (cache, sealed) = (job.paths.cache.as_path(), job.paths.sealed.as_path());
                for (unit, file) in kept_units(config, cache, sealed) {
                    if let Reuse::Refused(reason) = control.reuse(&unit, &file)? {
                        return Err(PoRepError::Refused { file, unit, reason });
                    }
                }
                TAux::load(cache)?;
                porep::check_sealed(
                    config,
                    &public(&job, comm_d, comm_r, Seed([1; 32])),
                    cache,
                    sealed,
                    SAMPLES,
                    control,
                )
            })
        })
        .await
    }

    async fn unseal(
        &self,
        job: SealJob,
        comm_d: Commitment,
        offset: u64,
        bytes: u64,
        mut out: Box<dyn Write + Send>,
        cancel: Cancel,
    ) -> Result<u64, ProverError> {
        self.on_thread("unseal", job.sector, &self.pools.labels, &cancel, move |flag| {
            let control = Control { cancel: flag, progress: &(), units: &() };
            let config = config(&job);
            let input = UnsealInput {
                sealed: &job.paths.sealed,
                prover_id: ProverId::from_actor(job.sector.miner),
                sector_number: job.sector.number,
                ticket: job.ticket,
                comm_d,
            };
            let range = offset..offset.saturating_add(bytes);
            let written = proofs::unseal::unseal(&config, &input, range, true, &mut *out, &control)
                .map_err(|e| unseal_failure(job.sector, &e))?;
            out.flush().map_err(|e| {
                ProverError::new(
                    io_class(&e),
                    format_args!("sector {}: cannot write the data: {e}", job.sector.number),
                )
            })?;
            Ok(written)
        })
        .await
    }

    async fn idle(&self, sector: SectorId) {
        drop(self.enter(sector).await);
    }
}

/// The units whose files stay for proving: the replica and tree-R-last.
fn kept_units(config: &PoRepConfig, cache: &Path, sealed: &Path) -> Vec<(Unit, PathBuf)> {
    let trees = config.shape().base_trees();
    let unit = |name: String| Unit { stage: porep::PRECOMMIT2, name };
    let tree = |i| base_tree_id(TREE_R_LAST, i, trees);
    std::iter::once((unit(porep::SEALED.to_owned()), sealed.to_owned()))
        .chain((0..trees).map(|i| (unit(tree(i)), store_path(cache, &tree(i)))))
        .collect()
}

fn public(job: &SealJob, comm_d: Commitment, comm_r: Commitment, seed: Seed) -> PublicSector {
    PublicSector {
        prover_id: ProverId::from_actor(job.sector.miner),
        sector_number: job.sector.number,
        ticket: job.ticket,
        seed,
        comm_d,
        comm_r,
    }
}

/// Writes a piece at its place: everything before it stays, everything behind it is cut first, so that a piece that was
/// half written by an earlier run is written anew.
fn write_piece(job: &PieceJob, watch: &Watch, cancel: &CancelFlag) -> Result<PieceInfo, ProverError> {
    let number = job.sector.number;
    let progress = Reports(Arc::clone(&watch.progress));
    let control = Control { cancel, progress: &progress, units: &() };
    let at = |action: &str, path: &Path| {
        let text = format!("sector {number}: cannot {action} {}", path.display());
        move |e: io::Error| ProverError::new(io_class(&e), format_args!("{text}: {e}"))
    };
    let source = File::open(&job.source).map_err(at("open the staged piece", &job.source))?;
    let staged = source.metadata().map_err(at("look at the staged piece", &job.source))?.len();
    if staged != job.payload_bytes {
        return Err(ProverError {
            class: Class::CorruptInput,
            message: format!(
                "sector {number}: the staged piece {} has {staged} bytes, expected {}",
                job.source.display(),
                job.payload_bytes
            ),
            made_by: None,
        });
    }
    let unsealed = &job.unsealed;
    let options = || OpenOptions::new().create(true).truncate(false).write(true).open(unsealed);
    let mut file = options().map_err(at("open", unsealed))?;
    file.set_len(job.offset).map_err(at("cut", unsealed))?;
    file.seek(SeekFrom::Start(job.offset)).map_err(at("seek in", unsealed))?;
    let mut target = BufWriter::with_capacity(1 << 20, &mut file);
    let mut source = Digested::new(source);
    let info =
        piece::add_piece(&mut source, job.size, Fill::Zeros, &mut target, job.offset / 128 * 127, &control)
            .map_err(|e| proofs_failure(job.sector, &e))?
            .piece;
    target.flush().map_err(at("write", unsealed))?;
    drop(target);
    let digest = source.digest();
    if digest != job.digest {
        let what = format!(
            "the staged piece {} has the digest {digest}, expected {}",
            job.source.display(),
            job.digest
        );
        return Err(ProverError::new(
            Class::CorruptInput,
            format_args!("sector {number}: {what}: it was damaged on disk"),
        ));
    }
    file.sync_all().map_err(at("sync", unsealed))?;
    if let Some(folder) = unsealed.parent() {
        File::open(folder).and_then(|f| f.sync_all()).map_err(at("sync the folder of", unsealed))?;
    }
    match job.expected {
        Some(expected) if expected != info.comm_p => Err(ProverError::new(
            Class::InvalidOutput,
            format_args!("sector {number}: the piece is {}, expected {expected}", info.comm_p),
        )),
        _ => Ok(info),
    }
}

/// A reader that takes the digest of what it passes on.
pub(crate) struct Digested<R> {
    inner: R,
    state: blake2b_simd::State,
}

impl<R: Read> Digested<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, state: blake2b_simd::Params::new().hash_length(32).to_state() }
    }

    /// BLAKE2b-256 of what was read so far.
    pub(crate) fn digest(&self) -> Commitment {
        let mut out = [0u8; 32];
        out.copy_from_slice(self.state.finalize().as_bytes());
        Commitment(out)
    }
}

impl<R: Read> Read for Digested<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.state.update(&buffer[..got]);
        Ok(got)
    }
}

fn io_class(e: &io::Error) -> Class {
    match e.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::OutOfMemory => {
            Class::Capacity
        }
        io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => Class::CorruptInput,
        _ => Class::Transient,
    }
}

/// The state that can make a file of a sector anew.
fn maker(file: &Path) -> &'static str {
    let name = file.file_name().and_then(|n| n.to_str()).unwrap_or("");
    let folder = file.parent().and_then(|p| p.file_name()).and_then(|n| n.to_str()).unwrap_or("");
    if folder == "unsealed" {
        "AddPiece"
    } else if name.contains("layer-") || name.contains("tree-d") {
        "PreCommit1"
    } else {
        "PreCommit2"
    }
}

fn damaged(sector: SectorId, made_by: &'static str, e: &dyn std::fmt::Display) -> ProverError {
    let message = format!("sector {}: {e}", sector.number);
    ProverError { class: Class::CorruptInput, message, made_by: Some(made_by) }
}

fn of_file(sector: SectorId, path: &Path, source: &io::Error, e: &dyn std::fmt::Display) -> ProverError {
    match io_class(source) {
        Class::CorruptInput => damaged(sector, maker(path), e),
        class => ProverError::new(class, format_args!("sector {}: {e}", sector.number)),
    }
}

/// The class of a primitive's error.
fn proofs_failure(sector: SectorId, e: &ProofsError) -> ProverError {
    let plain = |class| ProverError::new(class, format_args!("sector {}: {e}", sector.number));
    match e {
        // A unit cannot be recorded when the run it belongs to was ended.
        ProofsError::Cancelled(_) | ProofsError::Unit(_) => plain(Class::Cancelled),
        ProofsError::File(FileError::Io { path, source, .. }) => of_file(sector, path, source, e),
        ProofsError::File(FileError::Length { path, .. }) => damaged(sector, maker(path), e),
        ProofsError::Stream { source, .. } => plain(io_class(source)),
        ProofsError::Memory { .. } => plain(Class::Capacity),
        ProofsError::PieceTooShort { .. } | ProofsError::PieceTooLong { .. } => plain(Class::CorruptInput),
        ProofsError::NotCanonical { .. } => plain(Class::CorruptInput),
        ProofsError::Config(_) | ProofsError::Pieces(_) => plain(Class::Permanent),
        _ => plain(Class::Permanent),
    }
}

/// The class of a stage's error, and who can mend what it found (SM-14).
fn failure(sector: SectorId, e: &PoRepError) -> ProverError {
    match e {
        PoRepError::Proofs(inner) => proofs_failure(sector, inner),
        PoRepError::Tree(TreeError::File(FileError::Io { path, source, .. })) => {
            of_file(sector, path, source, e)
        }
        PoRepError::Tree(inner) => damaged(sector, maker(inner.path()), e),
        PoRepError::Mismatch { file, .. } => damaged(sector, maker(file), e),
        PoRepError::Refused { unit, .. } if unit.stage == porep::PRECOMMIT1 => {
            damaged(sector, "PreCommit1", e)
        }
        PoRepError::Refused { .. } | PoRepError::Aux(_) => damaged(sector, "PreCommit2", e),
        // No file is known to be damaged: what was computed is wrong.
        PoRepError::SelfCheck { suspects, .. } if suspects.iter().all(|s| s.damage.is_none()) => {
            ProverError::new(Class::InvalidOutput, format_args!("sector {}: {e}", sector.number))
        }
        PoRepError::SelfCheck { suspects, .. } => {
            let first = suspects.iter().map(|s| maker(&s.file)).find(|m| *m == "PreCommit1");
            damaged(sector, first.unwrap_or("PreCommit2"), e)
        }
        PoRepError::Public(_) | PoRepError::Unsupported(_) | PoRepError::InPlace(_) => {
            ProverError::new(Class::Permanent, format_args!("sector {}: {e}", sector.number))
        }
    }
}

/// The class of an unsealing error.
fn unseal_failure(sector: SectorId, e: &UnsealError) -> ProverError {
    match e {
        UnsealError::Proofs(inner) => proofs_failure(sector, inner),
        UnsealError::NotCanonical { .. } | UnsealError::NotTheData { .. } => damaged(sector, "PreCommit2", e),
        UnsealError::CommD(_) | UnsealError::Range { .. } => {
            ProverError::new(Class::Permanent, format_args!("sector {}: {e}", sector.number))
        }
    }
}
