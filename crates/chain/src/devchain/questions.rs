//! The development chain as a [`Chain`].

use super::faults::Fault;
use super::pool;
use super::proof_files::MAX_PROOF_FILE_BYTES;
use super::state::State;
use super::{DevChain, MAX_NEED};
use crate::policy::seal_proof_bytes;
use crate::{
    Address, Chain, Error, Lookup, NetworkInfo, PreCommitOnChain, Result, SectorOnChain, Side, SignedMessage,
    Tag, Tipset, TipsetKey,
};
use async_trait::async_trait;
use cid::Cid;
use primitives::{ActorId, Epoch, RegisteredSealProof, SectorNumber};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl DevChain {
    /// Answers from the state at a tipset.
    fn at<T>(&self, at: &TipsetKey, answer: impl FnOnce(&State, Epoch) -> T) -> Result<T> {
        let state = self.inner.state();
        let height = state.height_of(at).ok_or_else(|| Error::UnknownTipset(at.clone()))?;
        Ok(answer(&state, height))
    }

    /// The same for a question about the one miner.
    fn of_miner<T>(
        &self,
        miner: ActorId,
        at: &TipsetKey,
        answer: impl FnOnce(&State, Epoch) -> T,
    ) -> Result<T> {
        if miner != self.inner.config.miner {
            return Err(Error::ActorNotFound(Address::id(miner)));
        }
        self.at(at, answer)
    }

    /// Checks that randomness of `epoch` can be seen from a tipset.
    fn visible(&self, epoch: Epoch, at: &TipsetKey) -> Result<()> {
        let height = self.at(at, |_, height| height)?;
        if epoch > height {
            return Err(Error::FutureEpoch { epoch, height });
        }
        Ok(())
    }

    fn max_proof_bytes(&self) -> u64 {
        if self.inner.verifier.proofs_by_reference() {
            return MAX_PROOF_FILE_BYTES;
        }
        RegisteredSealProof::v1_1(self.inner.config.sector_size).map_or(192, seal_proof_bytes)
    }
}

#[async_trait]
impl Chain for DevChain {
    async fn network(&self) -> Result<NetworkInfo> {
        let (config, policy) = (&self.inner.config, &self.inner.config.policy);
        Ok(NetworkInfo {
            name: self.inner.name.clone(),
            genesis: self.inner.genesis.cid,
            epoch_delay_ms: config.clock.epoch_delay_ms(),
            challenge_delay: policy.challenge_delay,
            seal_randomness_lookback: policy.seal_randomness_lookback,
            max_pre_commit_randomness_lookback: policy.max_pre_commit_randomness_lookback,
            max_prove_commit_duration: policy.max_prove_commit_duration(),
            min_sector_expiration: policy.min_sector_expiration,
            max_sector_expiration_extension: policy.max_sector_expiration_extension,
            proof_system: self.inner.verifier.system().to_owned(),
            proofs_by_reference: self.inner.verifier.proofs_by_reference(),
            max_message_bytes: policy.max_message_bytes,
            max_proof_bytes: self.max_proof_bytes(),
            confidence: config.confidence(),
        })
    }

    async fn head(&self) -> Result<Tipset> {
        Ok(self.inner.state().tip().tipset())
    }

    async fn head_changed(&self, seen: &TipsetKey) -> Result<Tipset> {
        let (mut head, mut closed) = (self.inner.head.subscribe(), self.inner.closed.subscribe());
        tokio::select! {
            biased;
            changed = head.wait_for(|tipset| tipset.key != *seen) => {
                changed.map(|tipset| tipset.clone()).map_err(|_| Error::Closed)
            }
            _ = closed.wait_for(|closed| *closed) => Err(Error::Closed),
        }
    }

    fn need_epoch(&self, epoch: Epoch) {
        let head = self.inner.state().tip().height;
        if epoch > head + MAX_NEED {
            tracing::warn!(epoch, head, "an epoch too far ahead is waited for; making {MAX_NEED} epochs");
        }
        self.demand.needed.fetch_max(epoch.min(head + MAX_NEED), Ordering::SeqCst);
        self.demand.notify.notify_one();
    }

    async fn tipset_at(&self, epoch: Epoch, from: &TipsetKey, _side: Side) -> Result<Tipset> {
        // Every epoch has a tipset here, so neither side is ever needed.
        let state = self.inner.state();
        let height = state.height_of(from).ok_or_else(|| Error::UnknownTipset(from.clone()))?;
        if epoch > height {
            return Err(Error::FutureEpoch { epoch, height });
        }
        let (cid, parent) = state.block_at(epoch).ok_or(Error::TooOld { epoch, oldest: state.oldest() })?;
        let parents = parent.map_or(TipsetKey::HEAD, TipsetKey::from);
        Ok(Tipset { key: cid.into(), height: epoch, parents })
    }

    async fn ticket_rand(&self, tag: Tag, epoch: Epoch, entropy: &[u8], at: &TipsetKey) -> Result<[u8; 32]> {
        self.visible(epoch, at)?;
        Ok(self.inner.randomness.ticket(tag, epoch, entropy))
    }

    async fn beacon_rand(&self, tag: Tag, epoch: Epoch, entropy: &[u8], at: &TipsetKey) -> Result<[u8; 32]> {
        self.visible(epoch, at)?;
        Ok(self.inner.randomness.beacon(tag, epoch, entropy))
    }

    async fn precommit(
        &self,
        miner: ActorId,
        number: SectorNumber,
        at: &TipsetKey,
    ) -> Result<Option<PreCommitOnChain>> {
        self.of_miner(miner, at, |state, height| state.pre_commit(number, height).cloned())
    }

    async fn sector(
        &self,
        miner: ActorId,
        number: SectorNumber,
        at: &TipsetKey,
    ) -> Result<Option<SectorOnChain>> {
        self.of_miner(miner, at, |state, height| state.sector(number, height).cloned())
    }

    async fn allocated(&self, miner: ActorId, number: SectorNumber, at: &TipsetKey) -> Result<bool> {
        self.of_miner(miner, at, |state, height| state.allocated(number, height))
    }

    async fn allocated_max(&self, miner: ActorId, at: &TipsetKey) -> Result<Option<SectorNumber>> {
        self.of_miner(miner, at, |state, height| state.allocated_max(height))
    }

    async fn next_nonce(&self, sender: &Address) -> Result<u64> {
        let pool = self.inner.pool();
        Ok(pool.next_nonce(sender, &self.inner.state()))
    }

    async fn put_proof(&self, proof: &[u8]) -> Result<Vec<u8>> {
        let (got, limit) = (proof.len() as u64, self.max_proof_bytes());
        if got > limit {
            return Err(Error::ProofTooLarge { got, limit });
        }
        if !self.inner.verifier.proofs_by_reference() {
            return Ok(proof.to_vec());
        }
        let (inner, proof) = (Arc::clone(&self.inner), proof.to_vec());
        let put = tokio::task::spawn_blocking(move || inner.proofs.put(&proof)).await;
        let reference =
            put.map_err(|e| Error::Transport { doing: "storing a proof".into(), reason: e.to_string() })??;
        Ok(reference.to_vec())
    }

    async fn push(&self, message: &SignedMessage) -> Result<Cid> {
        let (cid, bytes) = (message.cid(), message.to_bytes().len());
        let mut pool = self.inner.pool();
        let state = self.inner.state();
        if pool.holds(&cid) || state.landed(&cid).is_some() {
            return Ok(cid);
        }
        pool::check(message, cid, bytes, &self.inner.config.policy)?;
        pool.check_nonce(message, cid, &state)?;
        let next = state.tip().height + 1;
        let (ready, forced) = match self.inner.faults.take(message.message.method) {
            Some(Fault::Drop) => return Ok(cid),
            Some(Fault::Delay(epochs)) => (next.saturating_add(epochs.clamp(0, MAX_NEED)), None),
            Some(Fault::Reject(code)) => (next, Some(code)),
            None => (next, None),
        };
        pool.add(message.clone(), cid, bytes, ready, forced);
        drop((state, pool));
        self.demand.notify.notify_one();
        Ok(cid)
    }

    async fn search(&self, message: &Cid, from: &TipsetKey, limit: Option<Epoch>) -> Result<Option<Lookup>> {
        self.at(from, |state, height| {
            let oldest = limit.map_or(0, |limit| height.saturating_sub(limit));
            state.lookup(message, oldest, height)
        })
    }
}
