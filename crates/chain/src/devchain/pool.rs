//! Messages waiting for a block.

use super::block::Included;
use super::state::State;
use crate::{Address, Error, ExitCode, NonceProblem, Policy, Result, SignedMessage, TokenAmount};
use cid::Cid;
use primitives::Epoch;
use std::collections::{BTreeMap, HashMap};

/// The most messages that wait.
pub(super) const MAX_MESSAGES: usize = 10_000;
/// How far a nonce may lie ahead of the sender's next one.
const MAX_NONCE_GAP: u64 = 1_000;
/// What a block takes at most: messages, and bytes of them.
const MAX_BLOCK: (usize, usize) = (500, 8 << 20);
/// The largest gas limit of a message.
const MAX_GAS: i64 = 10_000_000_000;
/// The least fee cap.
const MIN_FEE_CAP: TokenAmount = TokenAmount(100);
/// Numbers below belong to system actors, which send nothing.
const FIRST_ACCOUNT: u64 = 100;

#[derive(Debug, Clone)]
struct Waiting {
    included: Included,
    cid: Cid,
    bytes: usize,
    /// The first height that may include it.
    ready: Epoch,
}

/// The pool. It lives in memory: a chain opened again has lost it, as a real node may, and senders push again.
#[derive(Debug, Default)]
pub(super) struct Pool {
    waiting: BTreeMap<(Address, u64), Waiting>,
    cids: HashMap<Cid, (Address, u64)>,
}

/// Checks every node makes before it accepts a message (`chain.md` §1.4), except those of signatures and funds.
pub(super) fn check(signed: &SignedMessage, cid: Cid, bytes: usize, policy: &Policy) -> Result<()> {
    let message = &signed.message;
    let refuse = |reason: String| Err(Error::Message { cid: Box::new(cid), reason });
    if message.version != 0 {
        return refuse(format!("its version must be 0, got {}", message.version));
    }
    if !(TokenAmount::ZERO..=TokenAmount::SUPPLY).contains(&message.value) {
        return refuse(format!(
            "its value must be 0 to {} attoFIL, got {}",
            TokenAmount::SUPPLY,
            message.value
        ));
    }
    if message.gas_premium < TokenAmount::ZERO || message.gas_premium > message.gas_fee_cap {
        return refuse(format!(
            "its premium must be 0 to the fee cap, {}, got {}",
            message.gas_fee_cap, message.gas_premium
        ));
    }
    if !(1..=MAX_GAS).contains(&message.gas_limit) {
        return refuse(format!("its gas limit must be 1 to {MAX_GAS}, got {}", message.gas_limit));
    }
    if message.gas_fee_cap < MIN_FEE_CAP {
        let got = message.gas_fee_cap;
        return Err(Error::FeeTooLow { cid: Box::new(cid), got, least: MIN_FEE_CAP });
    }
    if bytes as u64 > policy.max_message_bytes {
        return refuse(format!("it may have {} bytes, got {bytes}", policy.max_message_bytes));
    }
    match &message.from {
        Address::Id(number) if *number >= FIRST_ACCOUNT => Ok(()),
        other => Err(Error::ActorNotFound(other.clone())),
    }
}

impl Pool {
    /// Whether a message waits.
    pub(super) fn holds(&self, cid: &Cid) -> bool {
        self.cids.contains_key(cid)
    }

    /// How many messages wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The sender's next nonce: that of the chain, and on through its waiting messages without a gap.
    pub(super) fn next_nonce(&self, sender: &Address, state: &State) -> u64 {
        let first = state.nonce(sender);
        let run = self.waiting.range((sender.clone(), first)..=(sender.clone(), u64::MAX));
        run.zip(first..).take_while(|(((_, nonce), _), at)| nonce == at).count() as u64 + first
    }

    /// Whether the nonce fits, for a message which is neither waiting nor on the chain.
    pub(super) fn check_nonce(&self, signed: &SignedMessage, cid: Cid, state: &State) -> Result<()> {
        let (from, got) = (&signed.message.from, signed.message.nonce);
        let expected = state.nonce(from);
        let problem = if got < expected {
            NonceProblem::TooLow { got, expected }
        } else if got - expected > MAX_NONCE_GAP {
            NonceProblem::TooFar { got, expected }
        } else if self.waiting.contains_key(&(from.clone(), got)) {
            NonceProblem::Taken { got }
        } else if self.waiting.len() >= MAX_MESSAGES {
            return Err(Error::PoolFull { limit: MAX_MESSAGES });
        } else {
            return Ok(());
        };
        Err(Error::Nonce { cid: Box::new(cid), from: from.clone(), problem })
    }

    /// Adds a message that was checked.
    pub(super) fn add(
        &mut self,
        signed: SignedMessage,
        cid: Cid,
        bytes: usize,
        ready: Epoch,
        forced: Option<ExitCode>,
    ) {
        let key = (signed.message.from.clone(), signed.message.nonce);
        self.cids.insert(cid, key.clone());
        self.waiting.insert(key, Waiting { included: Included { signed, forced }, cid, bytes, ready });
    }

    /// The messages that follow the chain's nonces, in order, with the first height that may include each: a delayed
    /// message holds back its successors.
    fn in_order<'a>(&'a self, state: &'a State) -> impl Iterator<Item = (&'a Waiting, Epoch)> {
        let mut sender: Option<(&Address, u64, Epoch)> = None;
        self.waiting.iter().filter_map(move |((from, nonce), waiting)| {
            let (next, ready) = match sender {
                Some((last, next, ready)) if last == from => (next, ready),
                _ => (state.nonce(from), Epoch::MIN),
            };
            if *nonce != next {
                // After a gap nothing more of this sender fits.
                sender = Some((from, next, ready));
                return None;
            }
            let ready = ready.max(waiting.ready);
            sender = Some((from, next.saturating_add(1), ready));
            Some((waiting, ready))
        })
    }

    /// The messages for the block at `height`.
    pub(super) fn select(&self, state: &State, height: Epoch) -> Vec<Included> {
        let mut bytes = 0;
        self.in_order(state)
            .filter(|(_, ready)| *ready <= height)
            .map(|(waiting, _)| waiting)
            .take(MAX_BLOCK.0)
            .take_while(|waiting| {
                bytes += waiting.bytes;
                bytes <= MAX_BLOCK.1
            })
            .map(|waiting| waiting.included.clone())
            .collect()
    }

    /// The first height that can include a message.
    pub(super) fn next_height(&self, state: &State) -> Option<Epoch> {
        self.in_order(state).map(|(_, ready)| ready.max(state.tip().height + 1)).min()
    }

    /// Forgets messages that a block includes.
    pub(super) fn remove(&mut self, messages: &[Included]) {
        for message in messages {
            let plain = &message.signed.message;
            if let Some(gone) = self.waiting.remove(&(plain.from.clone(), plain.nonce)) {
                self.cids.remove(&gone.cid);
            }
        }
    }
}
