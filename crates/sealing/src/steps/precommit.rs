//! The ticket, and the checks before a pre-commit (chain.md §5.2, steps 1 and 3).

use super::seal::{burnt, too_old};
use super::{Answer, Cx, World, held};
use crate::event::Event;
use crate::standing::{Standing, draw_ticket, look};
use statemachine::Failure;
use std::sync::Arc;

/// Draws the ticket: that of the pre-commit when there is one on chain, else one of `lookback` epochs ago.
pub(super) async fn get_ticket(world: Arc<World>, cx: Cx) -> Answer {
    let r = cx.record();
    let seen = look(&*world.chain, r).await?;
    let epoch = match seen.standing {
        Standing::Nothing => seen.head.height - seen.network.seal_randomness_lookback,
        Standing::PreCommitted(found) => found.info.seal_rand_epoch,
        Standing::Proven(sector) => {
            let reason = format!("sector {} is active on chain and has no ticket on record", sector.number);
            return Err(Failure::needs_person(reason));
        }
        Standing::Burnt => return Err(burnt(r.number.0)),
        Standing::Contradiction(reason) => return Err(Failure::needs_person(reason)),
    };
    let ticket = draw_ticket(&*world.chain, r, epoch, &seen.head).await?;
    Ok(Event::Ticket { ticket })
}

/// Everything that would make the chain refuse the pre-commit, before it costs money.
pub(super) async fn submit(world: Arc<World>, cx: Cx) -> Answer {
    let r = cx.record();
    held(&r.comm_d, "CommD", r)?;
    held(&r.comm_r, "CommR", r)?;
    let ticket = held(&r.ticket, "ticket", r)?;
    let seen = look(&*world.chain, r).await?;
    match &seen.standing {
        Standing::Nothing => {}
        Standing::PreCommitted(found) => {
            let seed_epoch = seen.seed_epoch(found);
            return Ok(Event::PreCommitFound { epoch: found.epoch, seed_epoch });
        }
        Standing::Proven(sector) => {
            return Ok(Event::CommitFound { activation: sector.activation });
        }
        Standing::Burnt => return Err(burnt(r.number.0)),
        Standing::Contradiction(reason) => return Err(Failure::needs_person(reason)),
    }
    if let Some(reason) = too_old(&seen, ticket.epoch, world.submit_margin) {
        return Ok(Event::OldTicket { reason });
    }
    let now = draw_ticket(&*world.chain, r, ticket.epoch, &seen.head).await?;
    if now.value != ticket.value {
        let reason = format!(
            "a reorg changed the ticket of epoch {}: {} is now {}",
            ticket.epoch, ticket.value, now.value
        );
        return Ok(Event::OldTicket { reason });
    }
    // Counted from the ticket it is always legal: the ticket is older than the inclusion (chain.md §5.2).
    let expiration = ticket.epoch + seen.network.max_sector_expiration_extension;
    Ok(Event::PreCommitBatchSent { expiration })
}
