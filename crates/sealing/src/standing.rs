//! What the chain says of a sector. Every decision that could repeat or undo something asks here first (PL-10).

use crate::record::{SectorRecord, SeedDraw, TicketDraw};
use chain::{Chain, NetworkInfo, PreCommitOnChain, SectorOnChain, Tag, Tipset};
use primitives::{Epoch, Seed, Ticket, cids};
use statemachine::{Class, Failure};

/// A sector's standing on the chain, as seen from one tipset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The number was never used.
    Nothing,
    /// Pre-committed, with our commitment and ticket as far as we know them.
    PreCommitted(PreCommitOnChain),
    /// Active, with our commitment.
    Proven(SectorOnChain),
    /// Allocated, and neither pre-committed nor active: its pre-commit expired, or the sector ended. The number can never
    /// be used again.
    Burnt,
    /// Something is on chain under this number that is not ours; with both values.
    Contradiction(String),
}

/// A look at the chain.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    /// The tipset everything was asked at.
    pub(crate) head: Tipset,
    /// The sector's standing there.
    pub(crate) standing: Standing,
    /// The chain's numbers.
    pub(crate) network: NetworkInfo,
}

impl Look {
    /// The epoch of the seed that belongs to a pre-commit.
    pub(crate) fn seed_epoch(&self, precommit: &PreCommitOnChain) -> Epoch {
        precommit.epoch + self.network.challenge_delay
    }
}

/// A chain error as a step's failure. Trouble with the chain is never a verdict about a sector (PL-9): what the chain's
/// client calls permanent needs a person, everything else is tried again.
pub(crate) fn chain_failure(doing: &str, error: &chain::Error) -> Failure {
    let class = match error.class() {
        chain::Class::Transient | chain::Class::Refused => Class::Transient,
        chain::Class::Permanent => Class::NeedsPerson,
    };
    Failure::new(class, format_args!("cannot {doing}: {error}"))
}

/// Asks the chain about a sector, all at one tipset.
pub(crate) async fn look(chain: &dyn Chain, r: &SectorRecord) -> Result<Look, Failure> {
    let failed = |e: chain::Error| chain_failure("ask the chain about the sector", &e);
    let network = chain.network().await.map_err(failed)?;
    let head = chain.head().await.map_err(failed)?;
    let standing = if let Some(sector) = chain.sector(r.miner, r.number, &head.key).await.map_err(failed)? {
        proven(r, sector)
    } else if let Some(found) = chain.precommit(r.miner, r.number, &head.key).await.map_err(failed)? {
        precommitted(r, found)
    } else if chain.allocated(r.miner, r.number, &head.key).await.map_err(failed)? {
        Standing::Burnt
    } else {
        Standing::Nothing
    };
    Ok(Look { head, standing, network })
}

fn proven(r: &SectorRecord, sector: SectorOnChain) -> Standing {
    match r.comm_r.map(|c| cids::comm_r_to_cid(&c)) {
        Some(ours) if ours == sector.sealed_cid => Standing::Proven(sector),
        ours => Standing::Contradiction(format!(
            "the chain has an active sector {} with CommR {}, ours is {}",
            r.number,
            sector.sealed_cid,
            ours.map_or("not computed".to_owned(), |c| c.to_string())
        )),
    }
}

fn precommitted(r: &SectorRecord, found: PreCommitOnChain) -> Standing {
    let ours = r.comm_r.map(|c| cids::comm_r_to_cid(&c));
    if ours.is_some_and(|ours| ours != found.info.sealed_cid) {
        return Standing::Contradiction(format!(
            "the chain's pre-commit of sector {} has CommR {}, ours is {}",
            r.number,
            found.info.sealed_cid,
            ours.map_or_else(String::new, |c| c.to_string())
        ));
    }
    match r.ticket {
        Some(ticket) if ticket.epoch != found.info.seal_rand_epoch => Standing::Contradiction(format!(
            "the chain's pre-commit of sector {} has the ticket of epoch {}, ours is of epoch {}",
            r.number, found.info.seal_rand_epoch, ticket.epoch
        )),
        _ => Standing::PreCommitted(found),
    }
}

/// Draws the ticket of an epoch as seen from `head`.
pub(crate) async fn draw_ticket(
    chain: &dyn Chain,
    r: &SectorRecord,
    epoch: Epoch,
    head: &Tipset,
) -> Result<TicketDraw, Failure> {
    let entropy = chain::Address::entropy(r.miner);
    let value = chain
        .ticket_rand(Tag::SealRandomness, epoch, &entropy, &head.key)
        .await
        .map_err(|e| chain_failure("draw the ticket", &e))?;
    Ok(TicketDraw { value: Ticket(value), epoch })
}

/// Draws the seed of an epoch as seen from `head`.
pub(crate) async fn draw_seed(
    chain: &dyn Chain,
    miner: primitives::ActorId,
    epoch: Epoch,
    head: &Tipset,
) -> Result<SeedDraw, Failure> {
    let entropy = chain::Address::entropy(miner);
    let value = chain
        .beacon_rand(Tag::InteractiveSealChallenge, epoch, &entropy, &head.key)
        .await
        .map_err(|e| chain_failure("draw the seed", &e))?;
    Ok(SeedDraw { value: Seed(value), epoch })
}
