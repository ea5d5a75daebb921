//! What the parts of a group share: the machines in memory, the queues, the store.

use crate::cancel::Cancel;
use crate::cell::{Cell, Item, Lane, Nack, Row, Work};
use crate::config::GroupConfig;
use crate::dispatch::Outbox;
use crate::env::Env;
use crate::error::SendError;
use crate::group::{Change, Health};
use crate::keys::Keys;
use crate::lock;
use crate::reader::{Reader, scan_all};
use crate::resources::Resources;
use crate::signal::Signal;
use crate::stored::{InboxRow, Input, SCHEMA, TimerRow};
use crate::timers::TimerQueue;
use crate::{Kind, Machine, MachineId, Sender};
use futures_channel::{mpsc, oneshot};
use futures_util::future::{Either, select};
use statestore::{Store, StoreError, codec};
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

pub(crate) struct Inner<M: Machine> {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) env: Env,
    pub(crate) config: GroupConfig<M>,
    pub(crate) keys: Keys,
    pub(crate) reader: Reader<M>,
    cells: Mutex<HashMap<MachineId, Arc<Cell<M>>>>,
    pub(crate) timers: TimerQueue,
    pub(crate) outbox: Outbox,
    pub(crate) resources: Arc<Resources>,
    watchers: Mutex<Vec<mpsc::Sender<Change<M::State>>>>,
    pub(crate) health: Mutex<Health>,
    /// Takes nothing new, starts no run.
    pub(crate) stopping: AtomicBool,
    /// Everything ends.
    pub(crate) ended: Cancel,
    pub(crate) restarted: Cancel,
    /// Pumps, runs and callers' work.
    active: AtomicUsize,
    pub(crate) quiet: Signal,
}

/// Why a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    Due,
    /// The clock was set back.
    SetBack,
}

/// Why a machine is not in memory.
pub(crate) enum LoadError {
    Unknown,
    Quarantined(String),
    Store(StoreError),
}

impl LoadError {
    pub(crate) fn into_send(self, id: &MachineId) -> SendError {
        match self {
            LoadError::Unknown => SendError::Unknown(id.clone()),
            LoadError::Quarantined(reason) => SendError::Quarantined { id: id.clone(), reason },
            LoadError::Store(source) => SendError::Store { id: id.clone(), source },
        }
    }
}

impl<M: Machine> Inner<M> {
    pub(crate) fn new(store: Arc<dyn Store>, env: Env, config: GroupConfig<M>) -> Self {
        Self {
            reader: Reader::new(Arc::clone(&store)),
            resources: Resources::new(&config.resources),
            store,
            env,
            keys: Keys(M::NAME),
            cells: Mutex::new(HashMap::new()),
            timers: TimerQueue::default(),
            outbox: Outbox::default(),
            watchers: Mutex::new(Vec::new()),
            health: Mutex::new(Health::default()),
            stopping: AtomicBool::new(false),
            ended: Cancel::new(),
            restarted: Cancel::new(),
            active: AtomicUsize::new(0),
            quiet: Signal::default(),
            config,
        }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.env.clock.now_ms()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Sleeps until a time, or until the clock is seen going back: then the time may be far away.
    pub(crate) fn sleep_until(&self, at_ms: u64) -> impl Future<Output = Woken> + Send + Unpin + 'static {
        let clock = Arc::clone(&self.env.clock);
        let mut seen_ms = clock.now_ms();
        let mut sleep = clock.sleep_until(at_ms);
        poll_fn(move |cx| {
            let now_ms = clock.now_ms();
            if now_ms < seen_ms {
                return Poll::Ready(Woken::SetBack);
            }
            seen_ms = now_ms;
            sleep.as_mut().poll(cx).map(|()| Woken::Due)
        })
    }

    /// Sleeps, not beyond a clock that is set back; `false` when the group ended meanwhile.
    pub(crate) async fn pause(&self, until_ms: u64) -> bool {
        matches!(select(self.sleep_until(until_ms), self.ended.cancelled()).await, Either::Left(_))
            && !self.ended.is_cancelled()
    }

    /// A machine's place in memory, loaded or not.
    pub(crate) fn cell(&self, id: &MachineId) -> Arc<Cell<M>> {
        let mut cells = lock(&self.cells);
        if let Some(cell) = cells.get(id) {
            return Arc::clone(cell);
        }
        let cell = Arc::new(Cell::new(id.clone()));
        cells.insert(id.clone(), Arc::clone(&cell));
        cell
    }

    /// All machines in memory.
    pub(crate) fn cells(&self) -> Vec<Arc<Cell<M>>> {
        let mut cells: Vec<_> = lock(&self.cells).values().cloned().collect();
        cells.sort_by(|a, b| a.id.cmp(&b.id));
        cells
    }

    /// Forgets a machine that has nothing to do, when there are many or it could not be loaded.
    pub(crate) fn evict(&self, cell: &Arc<Cell<M>>) {
        let mut cells = lock(&self.cells);
        let many = cells.len() > self.config.keep_loaded;
        let mut state = cell.lock();
        if state.is_idle() && (many || state.row.is_none()) && !state.evicted {
            state.evicted = true;
            cells.remove(&cell.id);
        }
    }

    /// Gives a machine work and sees that it is planned.
    pub(crate) fn push(self: &Arc<Self>, id: &MachineId, mut item: Item<M>) {
        loop {
            let cell = self.cell(id);
            match self.push_to(&cell, item) {
                Ok(()) => return,
                Err(back) => item = *back,
            }
        }
    }

    /// [`push`](Self::push) to a place that may have been forgotten meanwhile.
    pub(crate) fn push_to(self: &Arc<Self>, cell: &Arc<Cell<M>>, item: Item<M>) -> Result<(), Box<Item<M>>> {
        {
            let mut state = cell.lock();
            if state.evicted {
                return Err(Box::new(item));
            }
            state.queue(item);
        }
        self.kick(cell);
        Ok(())
    }

    /// Sees that a machine's work is planned.
    pub(crate) fn kick(self: &Arc<Self>, cell: &Arc<Cell<M>>) {
        {
            let mut state = cell.lock();
            if state.pumping {
                drop(state);
                cell.signal.notify();
                return;
            }
            state.pumping = true;
        }
        self.enter();
        self.env.spawner.spawn(Box::pin(crate::pump::pump(Arc::clone(self), Arc::clone(cell))));
    }

    /// Does work on a task of its own, which goes on when the caller is dropped. `None`: the group ended before.
    pub(crate) async fn detached<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let inner = Arc::clone(self);
        self.enter();
        self.env.spawner.spawn(Box::pin(async move {
            if let Either::Left((done, _)) = select(Box::pin(work), inner.ended.cancelled()).await {
                // Whoever is gone needs no answer.
                drop(answer.send(done));
            }
            inner.leave();
        }));
        answered.await.ok()
    }

    /// A pump, a run or a caller's work begins.
    pub(crate) fn enter(&self) {
        self.active.fetch_add(1, Ordering::AcqRel);
    }

    /// A pump, a run or a caller's work is over.
    pub(crate) fn leave(&self) {
        if self.active.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.quiet.notify();
        }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.active.load(Ordering::Acquire) == 0
    }

    /// Reads a machine into memory, if it is not there. Fails all waiting work when there is no such machine.
    pub(crate) async fn ensure_loaded(self: &Arc<Self>, cell: &Arc<Cell<M>>) -> Result<(), LoadError> {
        if cell.lock().row.is_some() {
            return Ok(());
        }
        let _loading = cell.loading.lock().await;
        if cell.lock().row.is_some() {
            return Ok(());
        }
        let bytes = self.store.get(&self.keys.record(&cell.id)).await.map_err(LoadError::Store)?;
        let bytes = bytes.ok_or(LoadError::Unknown)?;
        let stored = crate::reader::decode::<M>(&bytes);
        let stored = Arc::new(stored.map_err(|error| LoadError::Quarantined(error.to_string()))?);
        let inbox =
            scan_all(self.store.as_ref(), &self.keys.inbox(&cell.id)).await.map_err(LoadError::Store)?;
        let timers =
            scan_all(self.store.as_ref(), &self.keys.timers_of(&cell.id)).await.map_err(LoadError::Store)?;
        let mut state = cell.lock();
        for (key, bytes) in timers {
            let Some((_, name)) = self.keys.id_of_timer(&key) else { continue };
            match codec::decode::<TimerRow<M::Event>>(SCHEMA, &bytes) {
                Ok(row) => {
                    state.timers.insert(name, row);
                }
                Err(error) => {
                    tracing::error!(machine = %cell.id, timer = name, %error, "a timer cannot be decoded");
                }
            }
        }
        self.take_rows(cell, &mut state, inbox);
        // A run that was in progress belongs to a process that is gone: within one life a machine with a run is never
        // forgotten.
        if let Some(run) = stored.run.as_ref().filter(|run| run.started_at_ms.is_some()) {
            let reason = "the process ended".to_owned();
            let input = Input::Interrupted { run: run.version, reason };
            state.lanes[Lane::Run as usize].push_front(Item::new(Lane::Run, Work::Input(input)));
        }
        state.tokens_at_ms = self.now_ms();
        state.row = Some(Row { stored, bytes });
        Ok(())
    }

    /// Queues rows of the inbox that are not known yet, in their order.
    pub(crate) fn take_rows(
        &self,
        cell: &Cell<M>,
        state: &mut crate::cell::CellState<M>,
        rows: Vec<(Vec<u8>, Vec<u8>)>,
    ) {
        for (key, bytes) in rows {
            let Some((_, lane, number)) = self.keys.id_of_inbox(&key) else { continue };
            state.next_inbox = state.next_inbox.max(number + 1);
            if state.known.contains(&(lane, number)) {
                continue;
            }
            match codec::decode::<InboxRow<M::Event>>(SCHEMA, &bytes) {
                Ok(row) => {
                    let lane = Lane::parse(lane);
                    let work = Work::Event { event: row.event, source: row.source };
                    let mut item = Item::new(lane, work);
                    item.row = Some(number);
                    state.ordinary += usize::from(lane == Lane::Ordinary);
                    state.queue(item);
                }
                Err(error) => {
                    tracing::error!(machine = %cell.id, number, %error, "a waiting event cannot be decoded");
                }
            }
        }
    }

    /// The lane of an event.
    pub(crate) fn lane(&self, event: &M::Event) -> Lane {
        if self.config.map.is_control(M::kind(event)) { Lane::Control } else { Lane::Ordinary }
    }

    /// Who sends events of this kind from outside the engine.
    pub(crate) fn outside_source(&self, event: &M::Event) -> Sender {
        match self.config.map.sender(M::kind(event)) {
            Sender::Subscription => Sender::Subscription,
            _ => Sender::Outside,
        }
    }

    /// Tells watchers; those that are too far behind are cut off.
    pub(crate) fn announce(&self, change: &Change<M::State>) {
        lock(&self.watchers).retain_mut(|watcher| watcher.try_send(change.clone()).is_ok());
    }

    pub(crate) fn add_watcher(&self) -> mpsc::Receiver<Change<M::State>> {
        let (sender, receiver) = mpsc::channel(self.config.watch_buffer);
        lock(&self.watchers).push(sender);
        receiver
    }

    /// Remembers how the last commit went.
    pub(crate) fn note_commit(&self, result: Result<(), &StoreError>) {
        let mut health = lock(&self.health);
        match result {
            Ok(()) => {
                if health.store_error.take().is_some() {
                    tracing::info!(machines = M::NAME, "the store writes again");
                }
            }
            Err(error) => {
                if health.store_error.is_none() {
                    tracing::error!(machines = M::NAME, %error, "the store does not write");
                }
                health.fatal |= error.is_fatal();
                health.store_error = Some(error.to_string());
            }
        }
    }

    /// Fails everything that waits for a machine that is not there.
    pub(crate) fn fail_all(&self, cell: &Cell<M>, error: &SendError) {
        let mut state = cell.lock();
        state.ordinary = 0;
        let items: Vec<_> = state.lanes.iter_mut().flat_map(|lane| lane.drain(..)).collect();
        state.known.clear();
        drop(state);
        for mut item in items {
            if item.waiter.is_none() {
                tracing::error!(machine = %cell.id, %error, "work for a machine that cannot be planned");
            }
            item.answer(Err(Nack::Send(error.clone())));
        }
    }

    /// The text of an event's kind.
    pub(crate) fn kind_name(event: &M::Event) -> &'static str {
        M::kind(event).name()
    }
}
