//! What a development chain is made with, and what of it is fixed for ever.

use super::clock::{EpochClock, Pace};
use super::proof_files::write_durably;
use crate::{Error, Policy, Result};
use primitives::{ActorId, Epoch, SectorSize};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The version of the chain's files.
const SCHEMA: u32 = 1;
const FILE: &str = "devchain.json";

/// The configuration of a development chain. All but `clock` and `confidence` are fixed when the chain is made.
#[derive(Clone)]
pub struct DevChainConfig {
    /// Determines everything random on the chain.
    pub seed: [u8; 32],
    /// The one miner on it.
    pub miner: ActorId,
    /// The account that acts for the miner, `f0100` as a rule.
    pub worker: ActorId,
    /// The size of the miner's sectors.
    pub sector_size: SectorSize,
    /// The numbers of the rules.
    pub policy: Policy,
    /// When blocks are made.
    pub clock: Arc<dyn EpochClock>,
    /// The confidence that [`crate::NetworkInfo`] hints at; by default 2 when time makes blocks, else 0.
    pub confidence: Option<Epoch>,
}

impl DevChainConfig {
    /// A configuration with the usual worker and the rules of a development network.
    pub fn new(seed: [u8; 32], miner: ActorId, sector_size: SectorSize, clock: Arc<dyn EpochClock>) -> Self {
        let policy = Policy::development();
        Self { seed, miner, worker: ActorId(100), sector_size, policy, clock, confidence: None }
    }

    /// The confidence to hint at.
    pub(super) fn confidence(&self) -> Epoch {
        self.confidence.unwrap_or(match self.clock.pace() {
            Pace::Ticks => 2,
            Pace::OnDemand | Pace::ByHand => 0,
        })
    }
}

impl fmt::Debug for DevChainConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevChainConfig")
            .field("miner", &self.miner)
            .field("sector_size", &self.sector_size)
            .field("pace", &self.clock.pace())
            .finish_non_exhaustive()
    }
}

/// What is fixed when a chain is made. Genesis commits to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    schema: u32,
    pub(super) seed: String,
    pub(super) miner: ActorId,
    pub(super) worker: ActorId,
    pub(super) sector_size: SectorSize,
    pub(super) proof_system: String,
    pub(super) policy: Policy,
}

impl Identity {
    pub(super) fn new(config: &DevChainConfig, proof_system: &str) -> Self {
        Self {
            schema: SCHEMA,
            seed: hex::encode(config.seed),
            miner: config.miner,
            worker: config.worker,
            sector_size: config.sector_size,
            proof_system: proof_system.to_owned(),
            policy: config.policy.clone(),
        }
    }

    /// Compares with the identity that `dir` was made with, or makes it.
    ///
    /// # Errors
    /// [`Error::Config`] names the first thing that is different.
    pub(super) fn settle(&self, dir: &Path) -> Result<()> {
        let path = dir.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let text = serde_json::to_string_pretty(self).expect("an identity has a JSON form");
                return write_durably(&path.with_extension("tmp"), &path, text.as_bytes());
            }
            Err(e) => return Err(Error::storage("reading", &path, &e)),
        };
        let damaged = |reason: String| Error::Damaged { path: path.display().to_string(), reason };
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
        let schema = value.get("schema").and_then(serde_json::Value::as_u64);
        if schema.is_some_and(|s| s > u64::from(SCHEMA)) {
            return Err(Error::Config(format!(
                "the chain in {} was made by a newer version (schema {}, this one knows {SCHEMA})",
                dir.display(),
                schema.unwrap_or_default()
            )));
        }
        let stored: Self = serde_json::from_value(value).map_err(|e| damaged(e.to_string()))?;
        let seeds = [&stored.seed, &self.seed].map(|s| s.get(..16).unwrap_or(s));
        let miners = [stored.miner, self.miner].map(|m| format!("f0{}", m.0));
        let workers = [stored.worker, self.worker].map(|m| format!("f0{}", m.0));
        let sizes = [stored.sector_size, self.sector_size].map(|s| s.to_string());
        let differ = |what: &str, a: &str, b: &str| {
            Err(Error::Config(format!(
                "the chain in {} was made with {what} {a} and cannot be opened with {b}; use another folder",
                dir.display()
            )))
        };
        if stored.proof_system != self.proof_system {
            return differ("the proof system", &stored.proof_system, &self.proof_system);
        }
        if stored.miner != self.miner {
            return differ("miner", &miners[0], &miners[1]);
        }
        if stored.worker != self.worker {
            return differ("worker", &workers[0], &workers[1]);
        }
        if stored.sector_size != self.sector_size {
            return differ("sectors of", &sizes[0], &sizes[1]);
        }
        if stored.seed != self.seed {
            return differ("the seed that begins with", seeds[0], seeds[1]);
        }
        if stored != *self {
            return differ("other rules than asked for", "(its policy)", "these");
        }
        Ok(())
    }
}
