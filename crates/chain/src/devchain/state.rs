//! The state of the development chain, as seen from any of its recent tipsets.
//!
//! Nothing is ever overwritten: a sector number lives through allocation, pre-commit, and proof or expiry once, and
//! each of these steps carries the height from which on it is visible. So the state at any height is read from one
//! map, an empty block costs nothing, and dropping what became visible after a height undoes the blocks after it.

use super::block::{Record, Tip};
use crate::{Address, Lookup, PreCommitOnChain, Receipt, SectorOnChain, TipsetKey};
use cid::Cid;
use primitives::{Epoch, SectorNumber};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// How many tipsets behind head can be asked about: more than finality and any ticket's age.
pub(super) const WINDOW: usize = 4_096;

/// One change of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Change {
    /// A number was allocated and its sector pre-committed.
    PreCommit {
        /// What was pre-committed.
        record: PreCommitOnChain,
        /// When it is removed if it is not proven.
        clean_up: Epoch,
    },
    /// A pre-commit was not proven in time and removed. Its number stays allocated.
    Expire {
        /// The sector.
        number: SectorNumber,
    },
    /// A sector was proven; its pre-commit is gone.
    Activate {
        /// The sector.
        record: SectorOnChain,
        /// The reference of its proof, if that is a file.
        proof: Option<ProofReference>,
    },
}

/// The reference of a proof file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct ProofReference(#[serde(with = "serde_bytes")] pub(super) [u8; 32]);

/// The life of a sector number on the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Life {
    pre_commit: PreCommitOnChain,
    clean_up: Epoch,
    /// Allocation and pre-commit are visible from here on.
    from: Epoch,
    /// The pre-commit is visible until before this height.
    until: Option<Epoch>,
    /// The sector, visible from `until` on.
    sector: Option<SectorOnChain>,
}

/// A message that is on the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Landed {
    /// The tipset that includes it.
    pub(super) included: Epoch,
    /// Its receipt and the tipset that shows it, once there is one.
    seen: Option<(Receipt, Cid)>,
}

/// The state of the chain up to its head.
#[derive(Debug, Clone)]
pub(super) struct State {
    tip: Tip,
    /// The messages of the head block, not executed yet.
    head_messages: Vec<super::block::Included>,
    window: VecDeque<Cid>,
    heights: HashMap<Cid, Epoch>,
    lives: BTreeMap<SectorNumber, Life>,
    clean_up: BTreeSet<(Epoch, SectorNumber)>,
    nonces: BTreeMap<Address, u64>,
    landed: HashMap<Cid, Landed>,
    /// Proof files whose sector was activated at a height: a block after finality nobody needs them.
    spent: VecDeque<(Epoch, ProofReference)>,
}

/// The stored form of a [`State`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    tip: Tip,
    head_messages: Vec<super::block::Included>,
    window: Vec<Cid>,
    lives: Vec<Life>,
    nonces: Vec<(Address, u64)>,
    landed: Vec<(Cid, Landed)>,
    spent: Vec<(Epoch, ProofReference)>,
}

impl State {
    /// The state at genesis.
    pub(super) fn genesis(tip: Tip) -> Self {
        let checkpoint = Checkpoint {
            window: vec![tip.cid],
            tip,
            head_messages: vec![],
            lives: vec![],
            nonces: vec![],
            landed: vec![],
            spent: vec![],
        };
        Self::from_checkpoint(checkpoint).expect("genesis is a whole checkpoint")
    }

    /// The state from its stored form; `None` if the window does not end with the tip.
    pub(super) fn from_checkpoint(stored: Checkpoint) -> Option<Self> {
        let oldest = stored.tip.height + 1 - Epoch::try_from(stored.window.len()).ok()?;
        if stored.window.last() != Some(&stored.tip.cid) || oldest < 0 {
            return None;
        }
        let heights = stored.window.iter().copied().zip(oldest..).collect();
        let lives: BTreeMap<_, _> =
            stored.lives.into_iter().map(|life| (life.pre_commit.info.number, life)).collect();
        let open =
            |(number, life): (&SectorNumber, &Life)| life.until.is_none().then_some((life.clean_up, *number));
        Some(Self {
            clean_up: lives.iter().filter_map(open).collect(),
            tip: stored.tip,
            head_messages: stored.head_messages,
            window: stored.window.into(),
            heights,
            lives,
            nonces: stored.nonces.into_iter().collect(),
            landed: stored.landed.into_iter().collect(),
            spent: stored.spent.into(),
        })
    }

    /// The stored form; the same for the same state.
    pub(super) fn to_checkpoint(&self) -> Checkpoint {
        let mut landed: Vec<_> = self.landed.iter().map(|(cid, l)| (*cid, l.clone())).collect();
        landed.sort_by_key(|(cid, _)| *cid);
        Checkpoint {
            tip: self.tip.clone(),
            head_messages: self.head_messages.clone(),
            window: self.window.iter().copied().collect(),
            lives: self.lives.values().cloned().collect(),
            nonces: self.nonces.iter().map(|(a, n)| (a.clone(), *n)).collect(),
            landed,
            spent: self.spent.iter().copied().collect(),
        }
    }

    /// Takes the proof files that were spent up to a height off the list.
    pub(super) fn take_spent(&mut self, until: Epoch) -> Vec<ProofReference> {
        let count = self.spent.partition_point(|(height, _)| *height <= until);
        self.spent.drain(..count).map(|(_, reference)| reference).collect()
    }

    /// The head.
    pub(super) fn tip(&self) -> &Tip {
        &self.tip
    }

    /// The messages of the head block, which its child executes.
    pub(super) fn head_messages(&self) -> &[super::block::Included] {
        &self.head_messages
    }

    /// Adds a block; `tip` is the child that `record` makes.
    pub(super) fn apply(&mut self, tip: Tip, record: Record) {
        let height = tip.height;
        for (message, receipt) in self.head_messages.iter().zip(record.receipts) {
            let cid = message.signed.cid();
            self.landed.insert(cid, Landed { included: self.tip.height, seen: Some((receipt, tip.cid)) });
        }
        for change in record.changes {
            self.change(change, height);
        }
        for message in &record.messages {
            let plain = &message.signed.message;
            self.nonces.insert(plain.from.clone(), plain.nonce.saturating_add(1));
            self.landed.insert(message.signed.cid(), Landed { included: height, seen: None });
        }
        self.window.push_back(tip.cid);
        self.heights.insert(tip.cid, height);
        if self.window.len() > WINDOW
            && let Some(old) = self.window.pop_front()
        {
            self.heights.remove(&old);
        }
        self.head_messages = record.messages;
        self.tip = tip;
    }

    fn change(&mut self, change: Change, height: Epoch) {
        match change {
            Change::PreCommit { record, clean_up } => {
                let number = record.info.number;
                self.clean_up.insert((clean_up, number));
                let life = Life { pre_commit: record, clean_up, from: height, until: None, sector: None };
                self.lives.insert(number, life);
            }
            Change::Expire { number } => self.end(number, height, None),
            Change::Activate { record, proof } => {
                self.spent.extend(proof.map(|reference| (height, reference)));
                self.end(record.number, height, Some(record));
            }
        }
    }

    fn end(&mut self, number: SectorNumber, height: Epoch, sector: Option<SectorOnChain>) {
        if let Some(life) = self.lives.get_mut(&number) {
            self.clean_up.remove(&(life.clean_up, number));
            life.until = Some(height);
            life.sector = sector;
        }
    }

    /// The height of a recent tipset; an empty key is the head.
    pub(super) fn height_of(&self, key: &TipsetKey) -> Option<Epoch> {
        match key.0.as_slice() {
            [] => Some(self.tip.height),
            [block] => self.heights.get(block).copied(),
            _ => None,
        }
    }

    /// The block at a height, and its parent, if it is recent enough.
    pub(super) fn block_at(&self, height: Epoch) -> Option<(Cid, Option<Cid>)> {
        let oldest = self.tip.height + 1 - self.window.len() as Epoch;
        let place = usize::try_from(height.checked_sub(oldest)?).ok()?;
        let parent = place.checked_sub(1).and_then(|p| self.window.get(p));
        // The parent of the window's first block is not known, unless that is genesis.
        (place > 0 || height == 0).then_some(())?;
        Some((*self.window.get(place)?, parent.copied()))
    }

    /// The oldest height that can be asked about.
    pub(super) fn oldest(&self) -> Epoch {
        match self.tip.height + 1 - self.window.len() as Epoch {
            0 => 0,
            first => first + 1,
        }
    }

    /// The pre-commit of a number at a height.
    pub(super) fn pre_commit(&self, number: SectorNumber, at: Epoch) -> Option<&PreCommitOnChain> {
        let life = self.lives.get(&number)?;
        (life.from <= at && life.until.is_none_or(|until| at < until)).then_some(&life.pre_commit)
    }

    /// The sector of a number at a height.
    pub(super) fn sector(&self, number: SectorNumber, at: Epoch) -> Option<&SectorOnChain> {
        let life = self.lives.get(&number)?;
        life.sector.as_ref().filter(|_| life.until.is_some_and(|until| until <= at))
    }

    /// Whether a number was allocated at a height.
    pub(super) fn allocated(&self, number: SectorNumber, at: Epoch) -> bool {
        self.lives.get(&number).is_some_and(|life| life.from <= at)
    }

    /// The highest number allocated at a height.
    pub(super) fn allocated_max(&self, at: Epoch) -> Option<SectorNumber> {
        self.lives.iter().rev().find(|(_, life)| life.from <= at).map(|(number, _)| *number)
    }

    /// Pre-commits to be removed at the end of `epoch`.
    pub(super) fn due_clean_ups(&self, epoch: Epoch) -> impl Iterator<Item = SectorNumber> + '_ {
        self.clean_up.iter().take_while(move |(due, _)| *due <= epoch).map(|(_, number)| *number)
    }

    /// The epoch of the next clean-up.
    pub(super) fn next_clean_up(&self) -> Option<Epoch> {
        self.clean_up.first().map(|(due, _)| *due)
    }

    /// The next nonce of a sender by the messages in blocks.
    pub(super) fn nonce(&self, sender: &Address) -> u64 {
        self.nonces.get(sender).copied().unwrap_or(0)
    }

    /// Whether a message is in a block.
    pub(super) fn landed(&self, message: &Cid) -> Option<&Landed> {
        self.landed.get(message)
    }

    /// An executed message, if its execution tipset lies in `from ..= to`.
    pub(super) fn lookup(&self, message: &Cid, from: Epoch, to: Epoch) -> Option<Lookup> {
        let landed = self.landed.get(message)?;
        let (receipt, tipset) = landed.seen.as_ref()?;
        let height = landed.included + 1;
        (from..=to).contains(&height).then(|| Lookup {
            message: *message,
            receipt: receipt.clone(),
            tipset: (*tipset).into(),
            height,
        })
    }
}
