//! The way out of each failed state (PL-9, PL-10): ask the chain what exists, wait a little longer each time, and go back
//! exactly as far as the fault demands. What keeps failing is parked for a person, never deleted.

use super::seal::{burnt, too_old};
use super::{Answer, Cx, World, pause};
use crate::event::Event;
use crate::record::SectorRecord;
use crate::standing::{Look, Standing, look};
use statemachine::Failure;
use std::sync::Arc;
use std::time::Duration;

/// Faults of one kind in a row that are answered by trying again.
const TRIES: u32 = 3;
/// Refusals by the chain that are answered by checking and sending again.
const REFUSALS: u32 = 5;

/// How long to leave alone what only passes by itself.
const LONG: Duration = Duration::from_secs(60);

fn given_up(r: &SectorRecord, what: &str, times: u32) -> Failure {
    let last = r.last_fault.as_deref().unwrap_or("not recorded");
    Failure::needs_person(format_args!(
        "{what} of sector {} failed {times} times; the last reason: {last}",
        r.number
    ))
}

/// What stands above every way back: a sector on chain goes forward, a burnt number ends, a contradiction waits.
fn forward(r: &SectorRecord, seen: &Look) -> Result<Option<Event>, Failure> {
    match &seen.standing {
        Standing::Proven(sector) => Ok(Some(Event::CommitFound { activation: sector.activation })),
        Standing::Burnt => Err(burnt(r.number.0)),
        Standing::Contradiction(reason) => Err(Failure::needs_person(reason)),
        Standing::Nothing | Standing::PreCommitted(_) => Ok(None),
    }
}

pub(super) async fn packing(_: Arc<World>, cx: Cx) -> Answer {
    cx.sleep(LONG).await?;
    Ok(Event::RetryPacking)
}

/// The labels or their input are in doubt.
pub(super) async fn precommit1(world: Arc<World>, cx: Cx) -> Answer {
    let r = cx.record();
    let seen = look(&*world.chain, r).await?;
    // A sector that is active but whose files are damaged cannot be mended by going forward.
    if let Standing::Burnt | Standing::Contradiction(_) = seen.standing {
        return forward(r, &seen)?.ok_or_else(|| burnt(r.number.0));
    }
    if r.faults.precommit1 > TRIES {
        return Err(given_up(r, "PC1", r.faults.precommit1));
    }
    pause(&cx, r.faults.precommit1).await?;
    Ok(Event::RetrySealPreCommit1)
}

/// Trees or replica are in doubt: PC2 again, and PC1 when that does not help or its result was wrong.
pub(super) async fn precommit2(world: Arc<World>, cx: Cx) -> Answer {
    let r = cx.record();
    let seen = look(&*world.chain, r).await?;
    if let Standing::Burnt | Standing::Contradiction(_) = seen.standing {
        return forward(r, &seen)?.ok_or_else(|| burnt(r.number.0));
    }
    if r.faults.precommit2 > 2 * TRIES {
        return Err(given_up(r, "PC2", r.faults.precommit2));
    }
    pause(&cx, r.faults.precommit2).await?;
    let from_labels = r.remake || r.faults.precommit2 > TRIES;
    Ok(if from_labels { Event::RetrySealPreCommit1 } else { Event::RetrySealPreCommit2 })
}

/// The chain, or our check, refused the pre-commit.
pub(super) async fn precommit(world: Arc<World>, cx: Cx) -> Answer {
    let r = cx.record();
    let seen = look(&*world.chain, r).await?;
    if let Some(event) = forward(r, &seen)? {
        return Ok(event);
    }
    if let Standing::PreCommitted(found) = &seen.standing {
        let seed_epoch = seen.seed_epoch(found);
        return Ok(Event::PreCommitFound { epoch: found.epoch, seed_epoch });
    }
    if let Some(reason) = r.ticket.and_then(|t| too_old(&seen, t.epoch, world.submit_margin)) {
        return Ok(Event::OldTicket { reason });
    }
    if r.faults.precommits_refused > REFUSALS {
        return Err(given_up(r, "the pre-commit", r.faults.precommits_refused));
    }
    pause(&cx, r.faults.precommits_refused).await?;
    Ok(Event::RetryPreCommit)
}

/// A proof that does not verify: once more from the same files, then from new labels.
pub(super) async fn proof(world: Arc<World>, cx: Cx) -> Answer {
    let r = cx.record();
    let seen = look(&*world.chain, r).await?;
    if let Some(event) = forward(r, &seen)? {
        return Ok(event);
    }
    if r.faults.precommit1 > TRIES {
        return Err(given_up(r, "the proof", r.faults.invalid_proofs));
    }
    pause(&cx, r.faults.invalid_proofs).await?;
    if r.faults.invalid_proofs > 1 {
        let reason = format!("{} proofs in a row did not verify", r.faults.invalid_proofs);
        return Ok(Event::SealAgain { reason });
    }
    Ok(Event::RetryComputeProof)
}

/// The chain, or our check, refused the prove-commit.
pub(super) async fn commit(world: Arc<World>, cx: Cx) -> Answer {
    let r = cx.record();
    let seen = look(&*world.chain, r).await?;
    if let Some(event) = forward(r, &seen)? {
        return Ok(event);
    }
    let Standing::PreCommitted(found) = &seen.standing else {
        // Never allocated: a reorg took the pre-commit away.
        return Ok(Event::RetryPreCommit);
    };
    if r.faults.commits_refused > REFUSALS {
        return Err(given_up(r, "the prove-commit", r.faults.commits_refused));
    }
    let seed_epoch = seen.seed_epoch(found);
    if r.seed.is_none_or(|seed| seed.epoch != seed_epoch) {
        return Ok(Event::RetryWaitSeed { epoch: found.epoch, seed_epoch });
    }
    pause(&cx, r.faults.commits_refused).await?;
    // The first refusal may have other causes; a second one puts the proof itself in doubt.
    Ok(match (r.faults.commits_refused, &r.commit_proof) {
        (0 | 1, Some(_)) => Event::RetrySubmitCommit,
        (0..=3, _) => Event::RetryComputeProof,
        (times, _) => {
            Event::SealAgain { reason: format!("the chain refused the prove-commit {times} times") }
        }
    })
}

pub(super) async fn finalize(_: Arc<World>, cx: Cx) -> Answer {
    cx.sleep(LONG).await?;
    Ok(Event::RetryFinalize)
}

pub(super) async fn remove(_: Arc<World>, cx: Cx) -> Answer {
    cx.sleep(LONG).await?;
    Ok(Event::RetryRemove)
}
