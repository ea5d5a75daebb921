//! The node: builds its parts in order, keeps them going, takes them down in order.

use crate::api;
use crate::preflight;
use crate::repo::{Repo, RepoFacts, Wanted, new_token};
use crate::view::{self, History};
use crate::wire;
use crate::{NodeError, ProofSystem, VanillaVerifier};
use chain::Chain;
use chain::devchain::{DevChain, DevChainConfig, EpochClock, IntervalClock, OnDemandClock};
use futures_core::Stream as _;
use primitives::{ActorId, Epoch, SectorNumber, SectorSize};
use sealing::prover::Pools;
use sealing::{
    LocalProver, LocalStorage, Parallel, Pipeline, PipelineConfig, PipelineError, Prover, Sector,
    SectorInstance, SectorStorage, State, machine_id, tokio_env,
};
use statemachine::{Explanation, MachineId, Reader, StopReport};
use statestore::{Options, SledStore, Store, StoreError};
use std::collections::HashMap;
use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The miner of a repo that is made without one being named.
pub const DEFAULT_MINER: ActorId = ActorId(1000);

/// Epochs that must be left of a ticket's age when its pre-commit is sent: time for it to land.
const SUBMIT_MARGIN: Epoch = 20;
/// How long the API may take to finish answers at a stop.
const API_GRACE: Duration = Duration::from_secs(2);
/// How long a start waits for somebody who reads the store of the stopped node.
const LOOK_PATIENCE: Duration = Duration::from_secs(10);
/// How many journal lines are read at a time.
const JOURNAL_PAGE: usize = 1000;

/// When the embedded chain makes blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Epochs {
    /// Whenever one is needed.
    OnDemand,
    /// In every interval.
    Interval(Duration),
}

/// How a node is built.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// The repo's folder; made at the first start.
    pub repo: PathBuf,
    /// The sector size that must be; `None` takes the repo's, or `default_size` for a new one.
    pub sector_size: Option<SectorSize>,
    /// The size of a repo that is made now without one being named.
    pub default_size: SectorSize,
    /// The proof system.
    pub proofs: ProofSystem,
    /// The miner of a repo that is made now.
    pub miner: ActorId,
    /// The chain's seed of a repo that is made now; drawn when `None`.
    pub chain_seed: Option<[u8; 32]>,
    /// When blocks are made.
    pub epochs: Epochs,
    /// Where the API listens; `None` takes a free port on the loopback interface.
    pub listen: Option<SocketAddr>,
    /// Epochs a message or a seed must be buried before it counts; `None`: 0 on demand, else 2.
    pub confidence: Option<Epoch>,
    /// Threads of each proof pool; 0 takes one for each processor.
    pub threads: usize,
    /// Runs at a time, by stage.
    pub parallel: Parallel,
    /// How long a sector waits for more pieces before it is sealed; `None`: until it is full or told to.
    pub wait_deals: Option<Duration>,
}

impl NodeConfig {
    /// The defaults for a repo: 8 MiB sectors, vanilla proofs, an epoch each second, a free port.
    pub fn new(repo: impl Into<PathBuf>) -> Self {
        Self {
            repo: repo.into(),
            sector_size: None,
            default_size: SectorSize::MiB8,
            proofs: ProofSystem::Vanilla,
            miner: DEFAULT_MINER,
            chain_seed: None,
            epochs: Epochs::Interval(Duration::from_secs(1)),
            listen: None,
            confidence: None,
            threads: 0,
            parallel: Parallel::default(),
            wait_deals: None,
        }
    }
}

/// The parts of a node that answer questions and take orders; what the API works on.
pub struct Core {
    /// The repo.
    pub repo: Repo,
    /// What it is for.
    pub facts: RepoFacts,
    /// All sectors, and the work on them.
    pub pipeline: Arc<Pipeline>,
    /// The chain.
    pub chain: Arc<DevChain>,
    store: Arc<SledStore>,
    reader: Reader<Sector>,
    started_ms: u64,
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// The history of a sector, from its journal.
pub(crate) async fn history(reader: &Reader<Sector>, id: &MachineId) -> Result<History, PipelineError> {
    let mut history = History::default();
    loop {
        let lines = reader.journal(id, history.last_seq(), JOURNAL_PAGE).await?;
        for line in &lines {
            history.add(line);
        }
        if lines.len() < JOURNAL_PAGE {
            return Ok(history);
        }
    }
}

impl Core {
    /// A sector with everything about it; `None` when there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn detail(&self, number: SectorNumber) -> Result<Option<wire::SectorDetail>, PipelineError> {
        let Some((sector, live)) = self.sector_now(number).await? else { return Ok(None) };
        let id = machine_id(number);
        let history = history(&self.reader, &id).await?;
        let outbox = self.reader.outbox(&id).await?;
        Ok(Some(view::detail(&sector, &history, &outbox, Some(&live), now_ms())))
    }

    /// A sector and what the engine says about it.
    pub(crate) async fn sector_now(
        &self,
        number: SectorNumber,
    ) -> Result<Option<(SectorInstance, Explanation)>, PipelineError> {
        let Some(sector) = self.pipeline.sector(number).await? else { return Ok(None) };
        Ok(self.pipeline.explain(number).await?.map(|live| (sector, live)))
    }

    /// The times and messages of a sector.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn history(&self, number: SectorNumber) -> Result<History, PipelineError> {
        history(&self.reader, &machine_id(number)).await
    }

    /// The chain's head.
    ///
    /// # Errors
    /// When the chain does not answer.
    pub async fn chain_head(&self) -> Result<wire::ChainHead, NodeError> {
        let network = self.chain.network().await.map_err(NodeError::chain("ask what chain this is"))?;
        let head = self.chain.head().await.map_err(NodeError::chain("ask for the head"))?;
        Ok(wire::ChainHead {
            schema: wire::SCHEMA,
            network: network.name,
            height: head.height,
            blocks: head.key.0.iter().map(ToString::to_string).collect(),
            epoch_ms: network.epoch_delay_ms,
        })
    }

    /// What the node is and how it is.
    ///
    /// # Errors
    /// When store or chain do not answer.
    pub async fn status(&self) -> Result<wire::Status, NodeError> {
        const PAGE: usize = 1000;
        let mut sectors = std::collections::BTreeMap::new();
        let mut after = None;
        loop {
            let page = self.pipeline.sectors(None, after, PAGE).await?;
            for sector in &page {
                *sectors.entry(sector.state.to_string()).or_insert(0) += 1;
            }
            after = page.last().map(|s| s.record.number);
            if page.len() < PAGE {
                break;
            }
        }
        let quarantined = self.pipeline.quarantined().await?;
        Ok(wire::Status {
            schema: wire::SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_ms: self.started_ms,
            repo: self.repo.root().display().to_string(),
            miner: format!("f0{}", self.facts.miner.0),
            sector_size: self.facts.sector_size.bytes(),
            seal_proof: self.facts.seal_proof.name(),
            proof_system: self.facts.proof_system.clone(),
            chain: self.chain_head().await?,
            sectors,
            quarantined: quarantined.into_iter().map(|q| (q.id.to_string(), q.reason)).collect(),
            reserved_bytes: self.pipeline.storage().reserved(),
            store_error: self.pipeline.health().store_error,
        })
    }
}

/// What a stop did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopSummary {
    /// Runs that ended in time.
    pub ended: usize,
    /// Sectors whose runs were cut at the deadline. Their finished units stay.
    pub cut: Vec<String>,
}

/// A running node. Stop it with [`Node::stop`]; dropping it cuts everything off as a crash would.
pub struct Node {
    core: Arc<Core>,
    url: String,
    /// Says `true` when the API should end.
    closing: watch::Sender<bool>,
    /// Turns `true` when a client asked the node to stop.
    asked: watch::Receiver<bool>,
    server: JoinHandle<()>,
    watchers: Vec<JoinHandle<()>>,
}

impl Node {
    /// Builds and starts a node: the checklist, the store (whose lock makes this process the repo's owner), the chain, the
    /// storage path, the prover, the pipeline with all unfinished work, the API. Call within a tokio runtime.
    ///
    /// # Errors
    /// What is missing or in the way, with what to do about it. Nothing is left running.
    pub async fn start(config: NodeConfig) -> Result<Self, NodeError> {
        let repo = Repo::at(&config.repo);
        let (facts, store, storage) = {
            let (repo, config) = (repo.clone(), config.clone());
            blocking("opening the repo", move || open_repo(&repo, &config)).await??
        };
        let store = Arc::new(store);
        let started = Self::start_on(repo, facts, Arc::clone(&store), storage, &config).await;
        if started.is_err() {
            // The reason of the failed start is the one to report.
            let _ = blocking("closing the store", move || store.close()).await;
        }
        started
    }

    async fn start_on(
        repo: Repo,
        facts: RepoFacts,
        store: Arc<SledStore>,
        storage: Arc<LocalStorage>,
        config: &NodeConfig,
    ) -> Result<Self, NodeError> {
        let clock: Arc<dyn EpochClock> = match config.epochs {
            Epochs::OnDemand => Arc::new(OnDemandClock),
            Epochs::Interval(delay) => Arc::new(IntervalClock::new(delay)),
        };
        let chain_config = DevChainConfig {
            confidence: config.confidence,
            ..DevChainConfig::new(facts.chain_seed, facts.miner, facts.sector_size, clock)
        };
        let chain = DevChain::open(repo.chain(), chain_config, Arc::new(VanillaVerifier))
            .await
            .map_err(NodeError::chain("open the chain"))?;
        let chain = Arc::new(chain);
        let network = chain.network().await.map_err(NodeError::chain("ask what chain this is"))?;
        let threads = match config.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let pools = Pools::new(threads).map_err(|e| NodeError::Threads { threads, reason: e.to_string() })?;
        let prover: Arc<dyn Prover> = Arc::new(LocalProver::new(pools));
        let pipeline = Pipeline::open(
            Arc::clone(&store) as Arc<dyn Store>,
            tokio_env(),
            Arc::clone(&chain) as Arc<dyn Chain>,
            Arc::clone(&prover),
            storage as Arc<dyn SectorStorage>,
            PipelineConfig {
                miner: facts.miner,
                proof: facts.seal_proof,
                sender: chain.worker(),
                confidence: network.confidence,
                submit_margin: SUBMIT_MARGIN,
                wait_deals: config.wait_deals,
                parallel: config.parallel,
                poll_interval: Duration::from_secs(5),
            },
        )
        .await?;
        let reader = Reader::new(Arc::clone(&store) as Arc<dyn Store>);
        let core = Arc::new(Core { repo, facts, pipeline, chain, store, reader, started_ms: now_ms() });
        match Self::serve(Arc::clone(&core), config.listen).await {
            Ok(node) => Ok(node),
            Err(e) => {
                core.pipeline.stop(Duration::from_secs(5)).await;
                core.chain.close().await;
                Err(e)
            }
        }
    }

    /// Puts the API in front and announces it.
    async fn serve(core: Arc<Core>, listen: Option<SocketAddr>) -> Result<Self, NodeError> {
        let address = listen.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let cannot = |e: std::io::Error| NodeError::Listen { address, reason: e.to_string() };
        let listener = TcpListener::bind(address).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        if !address.ip().is_loopback() {
            tracing::warn!(
                "the API listens on {address}: whoever can see this network can read its token and its data"
            );
        }
        let url = format!("http://{address}");
        let token = new_token()?;
        let (closing, closed) = watch::channel(false);
        let (ask, asked) = watch::channel(false);
        let access = api::Access::new(token.clone(), address);
        let router = api::router(Arc::clone(&core), access, ask);
        let server = tokio::spawn(async move {
            let served = axum::serve(listener, router).with_graceful_shutdown(until_true(closed)).await;
            if let Err(e) = served {
                tracing::error!("the API ended: {e}");
            }
        });
        let announced = core.repo.announce(&url, &token).map_err(NodeError::from);
        if let Err(e) = announced.and_then(|()| core.store.set_contact(&url).map_err(NodeError::from)) {
            server.abort();
            return Err(e);
        }
        let watchers =
            vec![tokio::spawn(nudge_on_heads(Arc::clone(&core))), tokio::spawn(log_moves(Arc::clone(&core)))];
        Ok(Self { core, url, closing, asked, server, watchers })
    }

    /// The API's address, such as `http://127.0.0.1:41973`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What answers questions and takes orders.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Ready when the store has failed for good: report the error, stop, end with a non-zero code.
    pub async fn fatal(&self) -> StoreError {
        match self.core.store.fatal().await {
            Some(error) => error,
            // Closed in order: that is the stop's business.
            None => std::future::pending().await,
        }
    }

    /// Ready when a client asked the node to stop.
    pub async fn stop_asked(&self) {
        until_true(self.asked.clone()).await;
    }

    /// Stops within the deadline and a few seconds: no more requests, runs cancelled with their finished units kept, no
    /// more blocks, store closed, announcement withdrawn.
    ///
    /// # Errors
    /// [`StoreError`] when the store had failed for good; everything else is stopped all the same.
    pub async fn stop(self, deadline: Duration) -> Result<StopSummary, NodeError> {
        let Self { core, closing, mut server, watchers, .. } = self;
        // Withdrawn first, so that nobody is sent to an address that no longer answers.
        if let Err(e) = core.repo.withdraw() {
            tracing::warn!("{e}");
        }
        closing.send_replace(true);
        let StopReport { ended, cut } = core.pipeline.stop(deadline).await;
        for watcher in watchers {
            watcher.abort();
        }
        core.chain.close().await;
        if tokio::time::timeout(API_GRACE, &mut server).await.is_err() {
            server.abort();
        }
        let store = Arc::clone(&core.store);
        blocking("closing the store", move || store.close()).await??;
        let cut = cut.iter().map(|id| id.as_str().trim_start_matches('0').to_owned()).collect();
        Ok(StopSummary { ended, cut })
    }
}

/// Repo, store and storage path, in the order in which they protect each other. Blocks.
fn open_repo(
    repo: &Repo,
    config: &NodeConfig,
) -> Result<(RepoFacts, SledStore, Arc<LocalStorage>), NodeError> {
    let facts = repo.settle(&Wanted {
        sector_size: config.sector_size,
        default_size: config.default_size,
        proofs: config.proofs,
        miner: config.miner,
        chain_seed: config.chain_seed,
    })?;
    preflight::pass(&preflight::checklist(repo, &facts))?;
    let store = patiently(|| SledStore::open(repo.store(), Options::default()))?;
    let report = store.report();
    if let Some(pid) = report.stale_owner {
        tracing::info!(
            "process {pid} owned this repo and ended without closing it; going on from its last commit"
        );
    }
    if report.rewritten {
        tracing::warn!("the last process had a failed sync: all files of the store were written anew");
    }
    // From here on this process owns the repo: what is announced is by a process that is gone.
    repo.withdraw()?;
    let storage = Arc::new(LocalStorage::open(repo.storage())?);
    Ok((facts, store, storage))
}

/// Opens a store, waiting a little while somebody only looks at it: who looks holds the lock for a moment, and has no
/// process that would own the store.
pub(crate) fn patiently<T>(mut open: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let until = Instant::now() + LOOK_PATIENCE;
    loop {
        match open() {
            Err(StoreError::Locked { pid: None, .. }) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(50));
            }
            other => return other,
        }
    }
}

/// Work that blocks, off the async threads.
pub(crate) async fn blocking<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NodeError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| NodeError::Lost(what))
}

async fn until_true(mut flag: watch::Receiver<bool>) {
    // An error means that the other side is gone, and with it the node.
    let _ = flag.wait_for(|set| *set).await;
}

/// Tells the pipeline of each new head.
async fn nudge_on_heads(core: Arc<Core>) {
    let mut seen = None;
    loop {
        let next = match &seen {
            None => core.chain.head().await,
            Some(key) => core.chain.head_changed(key).await,
        };
        match next {
            Ok(head) => {
                seen = Some(head.key);
                core.pipeline.nudge();
            }
            Err(chain::Error::Closed) => return,
            Err(e) => {
                tracing::warn!("cannot watch the chain's head: {e}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Tells the log where sectors go.
async fn log_moves(core: Arc<Core>) {
    let mut states: HashMap<MachineId, State> = HashMap::new();
    loop {
        let mut changes = core.pipeline.watch();
        while let Some(change) = poll_fn(|cx| Pin::new(&mut changes).poll_next(cx)).await {
            let sector: u64 = change.id.as_str().parse().unwrap_or_default();
            let before = states.insert(change.id, change.state);
            if before != Some(change.state) {
                tracing::info!("sector {sector} is now {}", change.state);
            }
        }
        // The stream ends when it was not read fast enough, and when the engine ends.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
