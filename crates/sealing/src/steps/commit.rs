//! C1, C2, and the checks before a prove-commit (chain.md §5.2, steps 6 to 9).

use super::seal::burnt;
use super::{Answer, Cx, World, drive, held};
use crate::event::Event;
use crate::prover::SealJob;
use crate::record::{ProofRef, SectorRecord};
use crate::standing::{Look, Standing, chain_failure, draw_seed, look};
use chain::cbor::blake2b_256;
use primitives::Commitment;
use statemachine::Failure;
use std::sync::Arc;

/// Looks whether the chain still waits for the proof of the seed on record. `Some` when the sector has to go elsewhere.
async fn elsewhere(world: &World, r: &SectorRecord, seen: &Look) -> Result<Option<Event>, Failure> {
    let found = match &seen.standing {
        Standing::PreCommitted(found) => found,
        Standing::Proven(sector) => {
            return Ok(Some(Event::CommitFound { activation: sector.activation }));
        }
        Standing::Nothing => {
            return Err(Failure::rejected(format_args!("sector {} has no pre-commit on chain", r.number)));
        }
        Standing::Burnt => return Err(burnt(r.number.0)),
        Standing::Contradiction(reason) => return Err(Failure::needs_person(reason)),
    };
    let last = found.epoch + seen.network.max_prove_commit_duration;
    if seen.head.height > last {
        return Err(Failure::permanent(format_args!(
            "the pre-commit of sector {} could be proven until epoch {last}, it is {} now; the number is burnt",
            r.number, seen.head.height
        )));
    }
    let seed_epoch = seen.seed_epoch(found);
    let again = Event::RetryWaitSeed { epoch: found.epoch, seed_epoch };
    let Some(seed) = r.seed.filter(|seed| seed.epoch == seed_epoch) else { return Ok(Some(again)) };
    if seen.head.height < seed_epoch {
        return Ok(Some(again));
    }
    let now = draw_seed(&*world.chain, r.miner, seed_epoch, &seen.head).await?;
    Ok((now != seed).then_some(again))
}

/// Computes the proof for the seed, verifies it, and hands it to the chain's keeping.
pub(super) async fn committing(world: Arc<World>, cx: Cx) -> Answer {
    let r = cx.record();
    let seen = look(&*world.chain, r).await?;
    if let Some(event) = elsewhere(&world, r, &seen).await? {
        return Ok(event);
    }
    let (comm_d, comm_r) = (held(&r.comm_d, "CommD", r)?, held(&r.comm_r, "CommR", r)?);
    let seed = held(&r.seed, "seed", r)?;
    let job = SealJob::of(r, world.storage.paths(r.id()))?;
    let proof = drive(&cx, |watch| world.prover.commit(job, comm_d, comm_r, seed.value, watch)).await?;
    let on_chain = world.chain.put_proof(&proof).await.map_err(|e| chain_failure("store the proof", &e))?;
    let proof = ProofRef {
        system: world.prover.system().to_owned(),
        digest: Commitment(blake2b_256(&proof)),
        bytes: proof.len() as u64,
        on_chain,
    };
    Ok(Event::Committed { proof })
}

/// The checks before the prove-commit goes out.
pub(super) async fn submit(world: Arc<World>, cx: Cx) -> Answer {
    let r = cx.record();
    let seen = look(&*world.chain, r).await?;
    if let Some(event) = elsewhere(&world, r, &seen).await? {
        return Ok(event);
    }
    Ok(if r.commit_proof.is_some() { Event::CommitAggregateSent } else { Event::RetryComputeProof })
}
