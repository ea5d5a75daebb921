//! The main job in one call (PL-24): files to Proving on the embedded chain, and back to bytes.
//!
//! The folder is a repo like any other. A second run on it goes on where the first one stopped: inputs are recognised by
//! name, length and content, and only parts that no sector holds are added.

use crate::node::{Epochs, Node, NodeConfig};
use crate::preflight::free_bytes;
use crate::repo::{Repo, RepoError};
use crate::{Core, NodeError, ProofSystem, view, wire};
use chain::Chain as _;
use primitives::cids::comm_r_to_cid;
use primitives::{SectorNumber, SectorSize};
use sealing::{PipelineError, SectorInstance, State};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

mod input;
mod notes;
mod output;
mod plan;

pub use plan::Plan;

/// More sectors than this want a confirmation.
pub const SECTORS_UNASKED: u64 = 64;
/// The folder of what was unsealed.
pub const OUTPUT: &str = "unsealed-output";

/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(150);
/// A step that failed so often in a row needs somebody to look.
const FAILURES_MAX: u32 = 3;
/// How long the store may refuse writes.
const STORE_PATIENCE: Duration = Duration::from_secs(20);
const STOP: Duration = Duration::from_secs(20);
const PAGE: usize = 1000;

/// What a demo is to do.
#[derive(Debug, Clone)]
pub struct DemoConfig {
    /// The inputs.
    pub files: Vec<PathBuf>,
    /// The folder.
    pub dir: PathBuf,
    /// The sector size; `None`: that of the folder, or the smallest that holds everything, at most 8 MiB.
    pub sector_size: Option<SectorSize>,
    /// The proof system.
    pub proofs: ProofSystem,
    /// Go on with more than [`SECTORS_UNASKED`] sectors.
    pub yes: bool,
    /// Threads of each proof pool; 0 takes one for each processor.
    pub threads: usize,
}

/// What a demo tells while it works.
#[derive(Debug, Clone)]
pub enum DemoEvent {
    /// The node runs.
    Opened {
        /// The sector size.
        sector_size: SectorSize,
        /// Sectors that the new inputs need.
        new_sectors: u64,
    },
    /// An input is on disk and has its sectors.
    Added {
        /// Its name.
        name: String,
        /// Its length.
        bytes: u64,
        /// Whether it was there already.
        known: bool,
        /// Its sectors.
        sectors: Vec<u64>,
    },
    /// A sector is in another state than when last looked at.
    Moved {
        /// The sector.
        number: u64,
        /// Its state now.
        state: State,
    },
    /// What is being worked on now.
    Running(Vec<Running>),
    /// A sector is on chain.
    Verified {
        /// The sector.
        number: u64,
        /// The epoch at which it was activated.
        activation: i64,
    },
    /// An input is being computed back.
    Unsealing {
        /// Its name.
        name: String,
        /// Its length.
        bytes: u64,
    },
    /// An input was computed back and compared.
    Compared(wire::DemoFile),
}

/// A sector that is worked on, or waits.
#[derive(Debug, Clone)]
pub struct Running {
    /// The sector.
    pub number: u64,
    /// Its state.
    pub state: State,
    /// The run.
    pub run: Option<wire::Run>,
    /// What it waits for.
    pub waiting_for: Option<String>,
}

/// Why a demo did not get to its end. What was done is kept: the same command goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The node did not start, or an order failed.
    #[error(transparent)]
    Node(Box<NodeError>),
    /// There is nothing to do.
    #[error("no file was named")]
    NoFiles,
    /// A file cannot be used.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Not a file with a length.
    #[error("{} is not a regular file; a folder can be packed into one with tar", path.display())]
    NotAFile {
        /// What was named.
        path: PathBuf,
    },
    /// There is nothing in it.
    #[error("{} is empty: a piece holds at least one byte", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// It changed while it was read.
    #[error("{} changed while it was read; leave it alone and run the same command again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The folder's notes cannot be read.
    #[error("{} cannot be read: {reason}; take another folder with --dir", path.display())]
    Notes {
        /// The notes.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It is a lot, and nobody said yes.
    #[error("this takes {} sectors of {}, roughly {} on two processors and {} of disk; say --yes to do it, or take a larger \
             --sector-size", plan.sectors, plan.sector_size, view::span(plan.seconds * 1000), view::bytes(plan.disk_bytes))]
    Many {
        /// What it takes.
        plan: Plan,
    },
    /// There is no room.
    #[error("this needs {} of disk and {} has {} free; make room, or take another folder with --dir",
            view::bytes(*needed), path.display(), view::bytes(*free))]
    Space {
        /// Bytes needed.
        needed: u64,
        /// Where.
        path: PathBuf,
        /// Bytes free.
        free: u64,
    },
    /// A sector does not go on by itself.
    #[error("sector {number} does not go on. {}", explain.join(" "))]
    Stuck {
        /// The sector.
        number: u64,
        /// Why.
        explain: Vec<String>,
    },
    /// A part of an input was left out of its sector.
    #[error(
        "{name} is not whole: {missing} of its bytes are in no sector; run the same command again to add them"
    )]
    NotWhole {
        /// The input.
        name: String,
        /// Bytes missing.
        missing: u64,
    },
    /// The store takes no writes.
    #[error("the store takes no writes: {0}; mend that, then run the same command again")]
    Store(String),
    /// Somebody ended it.
    #[error("interrupted; what is finished is kept: run the same command with --dir {} to go on", dir.display())]
    Interrupted {
        /// The folder.
        dir: PathBuf,
    },
}

impl From<NodeError> for DemoError {
    fn from(e: NodeError) -> Self {
        DemoError::Node(Box::new(e))
    }
}

/// Takes what the demo tells. Called often; must not block.
pub type Tell = Arc<dyn Fn(DemoEvent) + Send + Sync>;

/// What is known before anything is started.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) digest: String,
}

/// Seals the files and gives them back. Ends early, in order, when `interrupt` is ready.
///
/// # Errors
/// [`DemoError`]; a difference between input and output is none, but in the result.
pub async fn run(
    config: DemoConfig,
    tell: Tell,
    interrupt: impl Future<Output = ()>,
) -> Result<wire::DemoResult, DemoError> {
    let started = Instant::now();
    let (sources, plan) = {
        let config = config.clone();
        crate::node::blocking("reading the inputs", move || look(&config)).await??
    };
    let node = Node::start(NodeConfig {
        sector_size: Some(plan.sector_size),
        proofs: config.proofs,
        epochs: Epochs::OnDemand,
        threads: config.threads,
        ..NodeConfig::new(&config.dir)
    })
    .await?;
    tell(DemoEvent::Opened { sector_size: plan.sector_size, new_sectors: plan.sectors });
    let work = seal_and_return(node.core(), &config.dir, &sources, &tell);
    let result = tokio::select! {
        result = work => result,
        error = node.fatal() => Err(NodeError::Store(error).into()),
        () = interrupt => Err(DemoError::Interrupted { dir: config.dir.clone() }),
    };
    let stopped = node.stop(STOP).await;
    let mut result = result?;
    stopped?;
    result.elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(result)
}

/// Reads every input once and finds out what is to be done. Blocks.
fn look(config: &DemoConfig) -> Result<(Vec<Source>, Plan), DemoError> {
    if config.files.is_empty() {
        return Err(DemoError::NoFiles);
    }
    let sources: Vec<Source> = config.files.iter().map(|path| input::look(path)).collect::<Result<_, _>>()?;
    let repo = Repo::at(&config.dir);
    let existing = match repo.facts() {
        Ok(facts) => Some(facts.sector_size),
        Err(RepoError::Missing { .. }) => None,
        Err(e) => return Err(NodeError::Repo(e).into()),
    };
    let mut notes = notes::Notes::read(&config.dir)?;
    let before = notes.len();
    let mut seen = BTreeSet::new();
    let mut fresh = Vec::new();
    for source in &sources {
        let input = notes.know(&source.name, source.bytes, &source.digest);
        let is_new = existing.is_none() || notes.place(&input.label) >= before;
        if is_new && seen.insert(input.label) {
            fresh.push(input.bytes);
        }
    }
    let lengths: Vec<u64> = sources.iter().map(|s| s.bytes).collect();
    let plan = match config.sector_size.or(existing) {
        Some(size) => Plan::new(&fresh, size),
        None => Plan::smallest(&lengths),
    };
    if plan.sectors > SECTORS_UNASKED && !config.yes {
        return Err(DemoError::Many { plan });
    }
    // The folder itself may not exist yet; then its nearest ancestor says how much room there is.
    let mut place: &Path = &config.dir;
    while !place.exists() {
        place = match place.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
    }
    let data: u64 = fresh.iter().sum();
    let needed = plan.disk_bytes.saturating_add(2 * data);
    match free_bytes(place) {
        Ok(free) if free < needed => Err(DemoError::Space { needed, path: place.to_owned(), free }),
        // Without an answer the stages find out.
        _ => Ok((sources, plan)),
    }
}

async fn seal_and_return(
    core: &Arc<Core>,
    dir: &Path,
    sources: &[Source],
    tell: &Tell,
) -> Result<wire::DemoResult, DemoError> {
    let inputs = input::add_all(core, dir, sources, tell).await?;
    let held = input::held(core).await?;
    let labels = inputs.iter().map(|i| &i.label);
    let numbers: BTreeSet<SectorNumber> =
        labels.filter_map(|l| held.get(l)).flat_map(|parts| parts.iter().map(|p| p.number)).collect();
    for &number in &numbers {
        seal(core, number).await?;
    }
    let sealed = wait_for_proving(core, &numbers, tell).await?;
    let mut sectors = Vec::with_capacity(sealed.len());
    for sector in &sealed {
        sectors.push(verify(core, sector, tell).await?);
    }
    let held = input::held(core).await?;
    let files = output::unseal_all(core, dir, sources, &inputs, &held, tell).await?;
    Ok(wire::DemoResult {
        schema: wire::SCHEMA,
        dir: dir.display().to_string(),
        proof_system: core.facts.proof_system.clone(),
        sector_size: core.facts.sector_size.bytes(),
        verified_on_chain: sectors.iter().all(|s| s.on_chain),
        unsealed_equal: files.iter().all(|f| f.equal),
        sectors,
        files,
        elapsed_ms: 0,
    })
}

/// Seals a sector that still waits for pieces. One that is full starts by itself, perhaps in this moment.
async fn seal(core: &Core, number: SectorNumber) -> Result<(), DemoError> {
    let sector = core.pipeline.sector(number).await.map_err(NodeError::from)?;
    let waits =
        |s: SectorInstance| matches!(s.state, State::WaitDeals | State::AddPiece | State::AddPieceFailed);
    if sector.is_some_and(waits) {
        match core.pipeline.seal(number).await {
            Ok(_) | Err(PipelineError::Refused { .. }) => {}
            Err(e) => return Err(NodeError::from(e).into()),
        }
    }
    Ok(())
}

/// All sectors, by number.
pub(crate) async fn all_sectors(core: &Core) -> Result<Vec<SectorInstance>, DemoError> {
    let mut all: Vec<SectorInstance> = Vec::new();
    loop {
        let after = all.last().map(|s| s.record.number);
        let page = core.pipeline.sectors(None, after, PAGE).await.map_err(NodeError::from)?;
        let full = page.len() == PAGE;
        all.extend(page);
        if !full {
            return Ok(all);
        }
    }
}

async fn wait_for_proving(
    core: &Core,
    numbers: &BTreeSet<SectorNumber>,
    tell: &Tell,
) -> Result<Vec<SectorInstance>, DemoError> {
    let mut states: BTreeMap<SectorNumber, State> = BTreeMap::new();
    let mut refusing: Option<Instant> = None;
    loop {
        let mut ours = all_sectors(core).await?;
        ours.retain(|s| numbers.contains(&s.record.number));
        let mut running = Vec::new();
        for sector in &ours {
            let number = sector.record.number;
            if states.insert(number, sector.state) != Some(sector.state) {
                tell(DemoEvent::Moved { number: number.0, state: sector.state });
            }
            let failures: u32 = sector.failures.values().map(|f| f.count).sum();
            let gone = matches!(sector.state, State::Removing | State::RemoveFailed | State::Removed);
            if gone || view::needs_attention(sector) || failures >= FAILURES_MAX {
                let detail = core.detail(number).await.map_err(NodeError::from)?;
                let explain = detail.map(|d| d.explain).unwrap_or_default();
                return Err(DemoError::Stuck { number: number.0, explain });
            }
            if sector.state == State::WaitDeals && !sector.record.pack_requested {
                seal(core, number).await?;
            }
            if sector.state != State::Proving
                && let Some((now, live)) = core.sector_now(number).await.map_err(NodeError::from)?
            {
                let (run, waiting_for) = view::doing(&now, &live, crate::node::now_ms());
                running.push(Running { number: number.0, state: now.state, run, waiting_for });
            }
        }
        tell(DemoEvent::Running(running));
        if ours.len() == numbers.len() && ours.iter().all(|s| s.state == State::Proving) {
            return Ok(ours);
        }
        match core.pipeline.health().store_error {
            None => refusing = None,
            Some(error) => {
                let since = *refusing.get_or_insert_with(Instant::now);
                if since.elapsed() > STORE_PATIENCE {
                    return Err(DemoError::Store(error));
                }
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Asks the chain for a sector, as anybody could.
async fn verify(core: &Core, sector: &SectorInstance, tell: &Tell) -> Result<wire::DemoSector, DemoError> {
    let r = &sector.record;
    let head = core.chain.head().await.map_err(NodeError::chain("ask for the head"))?;
    let found = core.chain.sector(r.miner, r.number, &head.key).await;
    let found = found.map_err(NodeError::chain("ask for a sector on chain"))?;
    let on_chain = match (&found, &r.comm_r) {
        (Some(found), Some(comm_r)) => found.sealed_cid == comm_r_to_cid(comm_r),
        _ => false,
    };
    if let Some(found) = found.filter(|_| on_chain) {
        tell(DemoEvent::Verified { number: r.number.0, activation: found.activation });
    }
    let history = core.history(r.number).await.map_err(NodeError::from)?;
    Ok(wire::DemoSector {
        number: r.number.0,
        state: sector.state.to_string(),
        comm_d: r.comm_d.map(|c| c.to_string()),
        comm_r: r.comm_r.map(|c| c.to_string()),
        replica_id: r.replica_id.map(|c| c.to_string()),
        on_chain,
        stages_ms: history.stages_ms(),
        timeline: history.timeline().to_vec(),
    })
}
