//! The embedded development chain (`pipeline.md` PL-14, `chain.md` §6.5).
//!
//! One process, one miner, one block for each epoch. It is deterministic by its seed, keeps every block durably before
//! anybody sees it, and enforces the miner actor's rules of pre-commit and prove-commit, verifying each proof with the
//! [`ProofVerifier`] it is given. Messages are executed as on a real network: with the epoch of the tipset that includes
//! them, visible in its child. What is left out is said in the module of the actor and here: signatures are not
//! checked, there are no null rounds and no reorganisations, and senders are plain numbers (`f0100` and up).

mod actor;
mod block;
mod clock;
mod config;
mod faults;
mod log;
mod mine;
mod pool;
mod proof_files;
mod questions;
mod state;
mod verifier;

#[cfg(test)]
mod tests;

pub use clock::{EpochClock, IntervalClock, ManualClock, OnDemandClock, Pace};
pub use config::DevChainConfig;
pub use faults::{Fault, FaultRule, Faults};
pub use proof_files::MAX_PROOF_FILE_BYTES;
pub use verifier::{PoRepStatement, ProofVerifier, VerifierUnavailable};

use crate::{Address, Error, Result, Tipset};
use mine::Inner;
use primitives::{ActorId, Epoch};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The farthest epoch ahead of head that can be needed at once.
const MAX_NEED: Epoch = 100_000;
/// The pause after a block could not be made; it doubles up to the second value.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// What wakes the task that makes blocks.
#[derive(Debug, Default)]
struct Demand {
    notify: Notify,
    /// The highest epoch that somebody waits for.
    needed: AtomicI64,
}

/// The development chain. Share it in an [`Arc`]; dropping it, or [`DevChain::close`], ends it.
pub struct DevChain {
    inner: Arc<Inner>,
    demand: Arc<Demand>,
    driver: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for DevChain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DevChain").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

impl DevChain {
    /// Opens the chain in `dir`, or makes it. It goes on at the epoch after its head. To be called within a tokio
    /// runtime with time enabled.
    ///
    /// # Errors
    /// [`Error::Config`] if the chain was made with another seed, miner, worker, sector size, proof system or policy;
    /// [`Error::InUse`], [`Error::Damaged`], [`Error::Storage`].
    pub async fn open(
        dir: impl AsRef<Path>,
        config: DevChainConfig,
        verifier: Arc<dyn ProofVerifier>,
    ) -> Result<Self> {
        let dir = dir.as_ref().to_owned();
        let inner = tokio::task::spawn_blocking(move || Inner::open(&dir, config, verifier)).await;
        let inner = Arc::new(inner.map_err(|e| Error::Config(format!("opening the chain failed: {e}")))??);
        let demand = Arc::new(Demand::default());
        let driver = match inner.config.clock.pace() {
            Pace::ByHand => None,
            Pace::Ticks | Pace::OnDemand => {
                Some(tokio::spawn(drive(Arc::clone(&inner), Arc::clone(&demand))))
            }
        };
        Ok(Self { inner, demand, driver })
    }

    /// Makes `count` epochs pass at once, whatever the clock.
    ///
    /// # Errors
    /// A block could not be made: no verdict on a proof, or the disk. What was made before stays.
    pub async fn mine(&self, count: u64) -> Result<Tipset> {
        mine(&self.inner, count).await?;
        Ok(self.inner.head.borrow().clone())
    }

    /// The fault knobs.
    pub fn faults(&self) -> &Faults {
        &self.inner.faults
    }

    /// How many messages wait in the pool.
    pub fn pending(&self) -> usize {
        self.inner.pool().len()
    }

    /// The one miner.
    pub fn miner(&self) -> ActorId {
        self.inner.config.miner
    }

    /// The address of the account that acts for the miner.
    pub fn worker(&self) -> Address {
        Address::id(self.inner.config.worker)
    }

    /// Ends the chain: no more blocks, and when this returns the one in the making is either whole or never was.
    /// Whoever waits for a new head gets [`Error::Closed`]; questions are still answered.
    pub async fn close(&self) {
        if let Some(driver) = &self.driver {
            driver.abort();
        }
        *self.inner.mining.lock().await = None;
        self.inner.closed.send_replace(true);
    }
}

impl Drop for DevChain {
    fn drop(&mut self) {
        if let Some(driver) = &self.driver {
            driver.abort();
        }
    }
}

/// Makes blocks off the async threads, a few at a time so that others get their turn.
async fn mine(inner: &Arc<Inner>, count: u64) -> Result<()> {
    let mut left = count;
    while left > 0 {
        let mut files = Arc::clone(&inner.mining).lock_owned().await;
        let inner = Arc::clone(inner);
        let made = tokio::task::spawn_blocking(move || {
            let files = files.as_mut().ok_or(Error::Closed)?;
            inner.make_blocks(&mut files.log, left)
        });
        let made = made.await.map_err(|e| Error::Transport {
            doing: "making a block".into(),
            reason: format!("the verifier failed: {e}"),
        })??;
        left = left.saturating_sub(made);
    }
    Ok(())
}

/// Makes blocks as the clock says.
async fn drive(inner: Arc<Inner>, demand: Arc<Demand>) {
    let mut pause = RETRY.0;
    loop {
        let count = match inner.config.clock.pace() {
            Pace::Ticks => {
                inner.config.clock.tick().await;
                1
            }
            Pace::OnDemand | Pace::ByHand => {
                let wanted = demand.notify.notified();
                match inner.demand(demand.needed.load(Ordering::SeqCst)) {
                    0 => {
                        wanted.await;
                        continue;
                    }
                    count => count,
                }
            }
        };
        match mine(&inner, count).await {
            Ok(()) => pause = RETRY.0,
            Err(Error::Closed) => return,
            Err(error) => {
                tracing::error!(%error, "no block can be made now");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY.1);
            }
        }
    }
}
