//! Waits for a seed's epoch, with confidence, and draws the seed. Nothing is sent.

use super::payload;
use crate::intent::SeedIntent;
use crate::standing::{chain_failure, draw_seed};
use crate::{Event, Sector};
use async_trait::async_trait;
use chain::Chain;
use primitives::Epoch;
use statemachine::{EffectHandler, Failure, Intent, Outcome, Prepared};
use std::sync::Arc;

pub(crate) struct SeedHandler {
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) confidence: Epoch,
}

#[async_trait]
impl EffectHandler<Sector> for SeedHandler {
    async fn prepare(&self, _: &Intent, _: &[Prepared]) -> Result<Vec<u8>, Failure> {
        Ok(Vec::new())
    }

    async fn send(&self, _: &Intent, _: &[u8]) -> Result<(), Failure> {
        Ok(())
    }

    async fn poll(&self, intent: &Intent, _: &[u8]) -> Result<Outcome<Event>, Failure> {
        let row: SeedIntent = payload(intent)?;
        let failed = |e: chain::Error| chain_failure("look for the seed's epoch", &e);
        let head = self.chain.head().await.map_err(failed)?;
        let due = row.epoch + self.confidence;
        if head.height < due {
            self.chain.need_epoch(due);
            return Ok(Outcome::Pending);
        }
        let challenge_delay = self.chain.network().await.map_err(failed)?.challenge_delay;
        let Some(precommit) = self.chain.precommit(row.miner, row.number, &head.key).await.map_err(failed)?
        else {
            let reason = format!("the pre-commit of sector {} is no longer on chain", row.number);
            return Ok(Outcome::Settled(Event::ChainPreCommitFailed { message: None, reason }));
        };
        let seed_epoch = precommit.epoch + challenge_delay;
        if seed_epoch != row.epoch {
            // A reorg moved the pre-commit: another epoch, another seed.
            let moved = Event::PreCommitLanded { message: None, epoch: precommit.epoch, seed_epoch };
            return Ok(Outcome::Settled(moved));
        }
        let seed = draw_seed(&*self.chain, row.miner, row.epoch, &head).await?;
        Ok(Outcome::Settled(Event::SeedReady { seed }))
    }
}
