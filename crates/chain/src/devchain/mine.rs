//! Making blocks.

use super::actor::{self, Env};
use super::block::{Randomness, Record, Tip};
use super::config::{DevChainConfig, Identity};
use super::faults::Faults;
use super::log::{Frame, Log, Start};
use super::pool::Pool;
use super::proof_files::ProofFiles;
use super::state::State;
use super::verifier::ProofVerifier;
use crate::{Error, Result, Tipset};
use primitives::Epoch;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use tokio::sync::watch;

/// The most blocks that are written at once.
const MAX_FRAME_BLOCKS: u64 = 1_000;

/// What all parts of an open chain share.
pub(super) struct Inner {
    pub(super) config: DevChainConfig,
    pub(super) genesis: Tip,
    pub(super) name: String,
    pub(super) verifier: Arc<dyn ProofVerifier>,
    pub(super) randomness: Randomness,
    pub(super) proofs: ProofFiles,
    pub(super) faults: Faults,
    /// Always locked before `state`.
    pool: Mutex<Pool>,
    /// Written only under `mining`.
    state: RwLock<State>,
    /// Whoever makes blocks holds it; `None` once the chain is closed.
    pub(super) mining: Arc<tokio::sync::Mutex<Option<Files>>>,
    pub(super) head: watch::Sender<Tipset>,
    /// Becomes true when the chain is closed.
    pub(super) closed: watch::Sender<bool>,
}

/// The files of an open chain.
pub(super) struct Files {
    pub(super) log: Log,
    /// Keeps other processes away as long as the log can be written.
    _lock: File,
}

fn lock(dir: &Path) -> Result<File> {
    let path = dir.join("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|e| Error::storage("opening", &path, &e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(Error::InUse { path: dir.display().to_string() }),
        Err(std::fs::TryLockError::Error(e)) => Err(Error::storage("locking", &path, &e)),
    }
}

/// Adds a stored frame to the state.
pub(super) fn replay(state: &mut State, frame: Frame, randomness: Randomness) -> Result<(), String> {
    let next = state.tip().height + 1;
    if frame.first != next {
        return Err(format!("block {next} is missing, block {} follows", frame.first));
    }
    for record in frame.records {
        if record.receipts.len() != state.head_messages().len() {
            return Err(format!("block {} has receipts for other messages", state.tip().height + 1));
        }
        let tip = state.tip().child(&record, randomness);
        state.apply(tip, record);
    }
    let got = state.tip();
    if got.cid != frame.last {
        return Err(format!(
            "block {} is stored as {}, its content gives {}",
            got.height, frame.last, got.cid
        ));
    }
    Ok(())
}

impl Inner {
    /// Opens the files and reads the chain up to its head.
    pub(super) fn open(dir: &Path, config: DevChainConfig, verifier: Arc<dyn ProofVerifier>) -> Result<Self> {
        std::fs::create_dir_all(dir).map_err(|e| Error::storage("making", dir, &e))?;
        let file_lock = lock(dir)?;
        let identity = Identity::new(&config, verifier.system());
        identity.settle(dir)?;
        let genesis = Tip::genesis(&identity);
        let randomness = Randomness { seed: config.seed };
        let Start { checkpoint, frames, log } = Log::open(dir)?;
        let damaged = |reason| Error::Damaged { path: dir.display().to_string(), reason };
        let mut state = match checkpoint {
            None => State::genesis(genesis.clone()),
            Some(checkpoint) => State::from_checkpoint(checkpoint)
                .ok_or_else(|| damaged("its checkpoint contradicts itself".into()))?,
        };
        for frame in frames {
            replay(&mut state, frame, randomness).map_err(damaged)?;
        }
        let (head, _) = watch::channel(state.tip().tipset());
        let digest = hex::encode(&genesis.cid.hash().digest()[..4]);
        Ok(Self {
            name: format!("sealrig-dev-{digest}"),
            proofs: ProofFiles::open(dir.join("proofs"))?,
            faults: Faults::default(),
            pool: Mutex::new(Pool::default()),
            state: RwLock::new(state),
            mining: Arc::new(tokio::sync::Mutex::new(Some(Files { log, _lock: file_lock }))),
            head,
            closed: watch::channel(false).0,
            config,
            genesis,
            verifier,
            randomness,
        })
    }

    pub(super) fn pool(&self) -> MutexGuard<'_, Pool> {
        // The pool is whole between its operations, none of which calls foreign code.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many blocks are wanted now by messages and by whoever waits for `needed`.
    pub(super) fn demand(&self, needed: Epoch) -> u64 {
        let pool = self.pool();
        let state = self.state();
        let head = state.tip().height;
        let receipts = if state.head_messages().is_empty() { head } else { head + 1 };
        let messages = pool.next_height(&state).unwrap_or(head);
        u64::try_from(receipts.max(messages).max(needed) - head).unwrap_or(0)
    }

    /// Makes at least one and at most `most` blocks, writes them, and shows them. Returns how many. Blocks while
    /// proofs are verified.
    pub(super) fn make_blocks(&self, log: &mut Log, most: u64) -> Result<u64> {
        let (tip, frame) = self.next_frame(most)?;
        log.append(&frame)?;
        let made = frame.records.len() as u64;
        {
            let mut pool = self.pool();
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            let last = frame.records.len() - 1;
            for (i, record) in frame.records.into_iter().enumerate() {
                pool.remove(&record.messages);
                let child = if i == last { tip.clone() } else { state.tip().child(&record, self.randomness) };
                state.apply(child, record);
            }
        }
        self.head.send_replace(tip.tipset());
        if log.is_full() {
            // The chain is whole without it; it is tried again after the next block.
            if let Err(error) = self.shorten(log, &tip) {
                tracing::warn!(%error, "the log of blocks could not be shortened");
            }
        }
        Ok(made)
    }

    /// Begins a new generation of the files, and removes proofs of sectors that are active for longer than finality.
    fn shorten(&self, log: &mut Log, tip: &Tip) -> Result<()> {
        let checkpoint = self.state().to_checkpoint();
        log.rotate(tip.height, &checkpoint)?;
        let final_height = tip.height - self.config.policy.seal_randomness_lookback;
        let spent = self.state.write().unwrap_or_else(PoisonError::into_inner).take_spent(final_height);
        // The checkpoint still lists them, so after a crash here they are removed by the next one.
        spent.iter().try_for_each(|reference| self.proofs.remove(&reference.0))
    }

    /// The next block, and empty ones after it as long as nothing can happen in them.
    fn next_frame(&self, most: u64) -> Result<(Tip, Frame)> {
        let mut tip = self.state().tip().clone();
        let state = self.state();
        let env = Env {
            policy: &self.config.policy,
            miner: self.config.miner,
            worker: self.config.worker,
            sector_size: self.config.sector_size,
            randomness: self.randomness,
            verifier: self.verifier.as_ref(),
            proofs: &self.proofs,
            now: tip.height,
        };
        let (receipts, changes) = actor::execute(&env, &state, state.head_messages())?;
        drop(state);
        let (messages, next_message) = {
            let pool = self.pool();
            let state = self.state();
            (pool.select(&state, tip.height + 1), pool.next_height(&state))
        };
        let first = tip.height + 1;
        let mut records = vec![Record { messages, receipts, changes }];
        tip = tip.child(&records[0], self.randomness);
        // Execution of messages, the next message and the next clean-up each need the state before them. Clean-ups of
        // pre-commits in this very block are months away.
        let clean_up = self.state().next_clean_up();
        let quiet = if records[0].messages.is_empty() { MAX_FRAME_BLOCKS.min(most) } else { 1 };
        while (records.len() as u64) < quiet
            && next_message.is_none_or(|height| height > tip.height + 1)
            && clean_up.is_none_or(|due| due > tip.height)
        {
            let record = Record::default();
            tip = tip.child(&record, self.randomness);
            records.push(record);
        }
        let last = tip.cid;
        Ok((tip, Frame { first, records, last }))
    }
}
