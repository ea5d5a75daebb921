//! A machine in memory: its row, what waits for it, its runs. Only the pump changes the row; everybody else queues work.

use crate::cancel::Cancel;
use crate::error::SendError;
use crate::group::Applied;
use crate::lock;
use crate::resources::Permit;
use crate::signal::Signal;
use crate::stored::{InputOf, StoredOf, TimerRow};
use crate::{Machine, MachineId, Progress, Sender};
use futures_channel::oneshot;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};

/// The order in which waiting work is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Control events: before everything else.
    Control = 0,
    /// Starts and events of runs: never delayed by the rate limit.
    Run = 1,
    /// Outcomes, timers, outbox results: places that a full inbox cannot take.
    Engine = 2,
    /// Everything else.
    Ordinary = 3,
}

pub(crate) const LANES: usize = 4;

impl Lane {
    pub(crate) fn parse(lane: u8) -> Self {
        match lane {
            0 => Lane::Control,
            1 => Lane::Run,
            2 => Lane::Engine,
            _ => Lane::Ordinary,
        }
    }
}

/// Why queued work has no `Applied`.
#[derive(Debug)]
pub(crate) enum Nack {
    Send(SendError),
    /// The run was fenced off.
    Fenced,
    /// A run's own mistake.
    Misuse(String),
}

pub(crate) type Answer<M> = Result<Applied<<M as Machine>::State>, Nack>;

/// What there is to plan.
pub(crate) enum Work<M: Machine> {
    Event {
        event: M::Event,
        source: Sender,
    },
    RunEvent {
        run: u64,
        event: M::Event,
    },
    Timer {
        name: String,
        at_ms: u64,
    },
    Input(InputOf<M>),
    Start {
        run: u64,
        permit: Permit,
    },
    /// In the pump's hands.
    Taken,
}

/// Work in its lane.
pub(crate) struct Item<M: Machine> {
    pub(crate) work: Work<M>,
    pub(crate) lane: Lane,
    /// The number of its row in the store, if it has one.
    pub(crate) row: Option<u64>,
    pub(crate) waiter: Option<oneshot::Sender<Answer<M>>>,
}

impl<M: Machine> Item<M> {
    pub(crate) fn new(lane: Lane, work: Work<M>) -> Self {
        Self { work, lane, row: None, waiter: None }
    }

    pub(crate) fn answer(&mut self, answer: Answer<M>) {
        if let Some(waiter) = self.waiter.take() {
            // Who asked may have gone.
            let _ = waiter.send(answer);
        }
    }
}

/// A run in progress.
pub(crate) struct LiveRun {
    pub(crate) version: u64,
    pub(crate) cancel: Cancel,
    pub(crate) progress: Arc<Mutex<Option<Progress>>>,
    pub(crate) slow: Arc<AtomicBool>,
}

/// A machine's row as it is in the store.
pub(crate) struct Row<M: Machine> {
    pub(crate) stored: Arc<StoredOf<M>>,
    pub(crate) bytes: Vec<u8>,
}

impl<M: Machine> Clone for Row<M> {
    fn clone(&self) -> Self {
        Self { stored: Arc::clone(&self.stored), bytes: self.bytes.clone() }
    }
}

pub(crate) struct CellState<M: Machine> {
    /// `None` until it is loaded.
    pub(crate) row: Option<Row<M>>,
    pub(crate) lanes: [VecDeque<Item<M>>; LANES],
    /// Waits for the state to change.
    pub(crate) deferred: VecDeque<Item<M>>,
    /// Ordinary events that wait, rows on their way to the store included.
    pub(crate) ordinary: usize,
    pub(crate) next_inbox: u64,
    /// Rows that wait here or are on their way to the store.
    pub(crate) known: BTreeSet<(u8, u64)>,
    /// Rows may be in the store that are not known here.
    pub(crate) resync: bool,
    pub(crate) timers: BTreeMap<String, TimerRow<M::Event>>,
    pub(crate) pumping: bool,
    pub(crate) evicted: bool,
    pub(crate) live: Option<LiveRun>,
    /// Cancelled runs that have not ended yet.
    pub(crate) ending: Vec<LiveRun>,
    /// The run that asked for its resources.
    pub(crate) requested: Option<u64>,
    /// Events that may still be planned before planning is delayed, and when that was counted.
    pub(crate) tokens: f64,
    pub(crate) tokens_at_ms: u64,
    pub(crate) throttled_until_ms: Option<u64>,
}

pub(crate) struct Cell<M: Machine> {
    pub(crate) id: MachineId,
    state: Mutex<CellState<M>>,
    /// Held while it is read from the store.
    pub(crate) loading: futures_util::lock::Mutex<()>,
    /// New work while the pump waits.
    pub(crate) signal: Signal,
}

impl<M: Machine> Cell<M> {
    pub(crate) fn new(id: MachineId) -> Self {
        Self {
            id,
            state: Mutex::new(CellState {
                row: None,
                lanes: [const { VecDeque::new() }; LANES],
                deferred: VecDeque::new(),
                ordinary: 0,
                next_inbox: 0,
                known: BTreeSet::new(),
                resync: false,
                timers: BTreeMap::new(),
                pumping: false,
                evicted: false,
                live: None,
                ending: Vec::new(),
                requested: None,
                tokens: f64::INFINITY,
                tokens_at_ms: 0,
                throttled_until_ms: None,
            }),
            loading: futures_util::lock::Mutex::new(()),
            signal: Signal::default(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, CellState<M>> {
        lock(&self.state)
    }
}

impl<M: Machine> CellState<M> {
    pub(crate) fn queue(&mut self, item: Item<M>) {
        if let Some(number) = item.row {
            self.known.insert((item.lane as u8, number));
        }
        self.lanes[item.lane as usize].push_back(item);
    }

    /// Takes the next work; without `counted`, only what the rate limit does not delay.
    pub(crate) fn next(&mut self, counted: bool) -> Option<Item<M>> {
        let lanes = if counted { LANES } else { Lane::Engine as usize };
        self.lanes[..lanes].iter_mut().find_map(VecDeque::pop_front)
    }

    pub(crate) fn has_work(&self) -> bool {
        self.resync || self.lanes.iter().any(|lane| !lane.is_empty())
    }

    /// Whether nothing would be lost by forgetting it.
    pub(crate) fn is_idle(&self) -> bool {
        !self.pumping
            && !self.has_work()
            && self.deferred.is_empty()
            && self.known.is_empty()
            && self.live.is_none()
            && self.ending.is_empty()
            && self.requested.is_none()
            && self.ordinary == 0
    }

    /// Puts back what waited for the state to change, before what came later.
    pub(crate) fn undefer(&mut self) {
        while let Some(item) = self.deferred.pop_back() {
            self.lanes[item.lane as usize].push_front(item);
        }
    }

    /// An item left the machine.
    pub(crate) fn done(&mut self, item: &Item<M>) {
        if let Some(number) = item.row {
            self.known.remove(&(item.lane as u8, number));
        }
        if item.lane == Lane::Ordinary {
            self.ordinary = self.ordinary.saturating_sub(1);
        }
    }

    /// Whether a counted event may be planned now; else when.
    pub(crate) fn take_token(&mut self, now_ms: u64, per_minute: u32) -> Result<(), u64> {
        let limit = f64::from(per_minute.max(1));
        let per_ms = limit / 60_000.0;
        let passed = now_ms.saturating_sub(self.tokens_at_ms);
        #[allow(clippy::cast_precision_loss, reason = "milliseconds between two events")]
        let grown = self.tokens + passed as f64 * per_ms;
        self.tokens = grown.min(limit);
        self.tokens_at_ms = now_ms;
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            self.throttled_until_ms = None;
            return Ok(());
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 < missing <= 1 minute")]
        let wait = ((1.0 - self.tokens) / per_ms).ceil() as u64;
        let until = now_ms + wait.max(1);
        self.throttled_until_ms = Some(until);
        Err(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests_support::Lamp;

    #[test]
    fn the_rate_is_a_bucket_that_refills() {
        let cell = Cell::<Lamp>::new("m".into());
        let mut state = cell.lock();
        for _ in 0..600 {
            assert_eq!(state.take_token(1_000_000, 600), Ok(()));
        }
        assert_eq!(state.take_token(1_000_000, 600), Err(1_000_100), "one more each 100 ms");
        assert_eq!(state.take_token(1_000_100, 600), Ok(()));
        assert!(state.take_token(1_000_150, 600).is_err());
    }
}
