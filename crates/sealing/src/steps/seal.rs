//! PC1 and PC2.

use super::{Answer, Cx, World, blocking, drive};
use crate::event::Event;
use crate::prover::SealJob;
use crate::standing::{Look, Standing, look};
use primitives::Epoch;
use statemachine::{Class, Failure};
use std::sync::Arc;

/// Labels. Before hours of work the ticket's age is looked at; a chain that does not answer is no reason to wait.
pub(super) async fn precommit1(world: Arc<World>, cx: Cx) -> Answer {
    let r = cx.record();
    let Some(ticket) = r.ticket else {
        return Ok(Event::OldTicket { reason: "the sector has no ticket".to_owned() });
    };
    match look(&*world.chain, r).await {
        Ok(seen) => match &seen.standing {
            Standing::Nothing => {
                if let Some(reason) = too_old(&seen, ticket.epoch, 0) {
                    return Ok(Event::OldTicket { reason });
                }
            }
            Standing::Burnt => return Err(burnt(r.number.0)),
            // What is on chain was made with this ticket: the files are made anew, to the same CommR.
            Standing::PreCommitted(_) | Standing::Proven(_) => {}
            Standing::Contradiction(reason) => return Err(Failure::needs_person(reason)),
        },
        Err(e) if e.class == Class::Transient => {}
        Err(e) => return Err(e),
    }
    let paths = world.storage.paths(r.id());
    let (storage, sector, remake) = (Arc::clone(&world.storage), r.id(), r.remake);
    world.prover.idle(sector).await;
    blocking("prepare a sector's folder", move || {
        storage.prepare(sector)?;
        if remake { storage.forget_units(sector) } else { Ok(()) }
    })
    .await?;
    if remake {
        cx.send(Event::UnitsForgotten).await?;
    }
    let job = SealJob::of(r, paths)?;
    let labelled = drive(&cx, |watch| world.prover.precommit1(job, watch)).await?;
    Ok(Event::PreCommit1 { comm_d: labelled.comm_d, replica_id: labelled.replica_id })
}

/// Trees, replica and CommR.
pub(super) async fn precommit2(world: Arc<World>, cx: Cx) -> Answer {
    let r = cx.record();
    let job = SealJob::of(r, world.storage.paths(r.id()))?;
    let comm_r = drive(&cx, |watch| world.prover.precommit2(job, watch)).await?;
    Ok(Event::PreCommit2 { comm_r })
}

/// Whether a ticket is past what a pre-commit may carry, `margin` epochs from now.
pub(super) fn too_old(seen: &Look, ticket_epoch: Epoch, margin: Epoch) -> Option<String> {
    let age = seen.head.height + margin - ticket_epoch;
    let limit = seen.network.max_pre_commit_randomness_lookback;
    (age > limit).then(|| {
        format!("the ticket of epoch {ticket_epoch} is {age} epochs old at the earliest inclusion, the limit is {limit}")
    })
}

/// The failure of a sector whose number cannot be used again.
pub(super) fn burnt(number: u64) -> Failure {
    Failure::permanent(format_args!(
        "the chain has allocated number {number} and holds neither a pre-commit nor a sector under it: the number is \
         burnt, and its pieces have to go to a new sector"
    ))
}
