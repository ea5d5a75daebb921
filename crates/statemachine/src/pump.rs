//! The one task that plans a machine's work, strictly one after another; it lives while there is work.

use crate::cell::{Answer, Cell, Item, Lane, Nack, Row, Work};
use crate::commit::Extra;
use crate::error::SendError;
use crate::group::{Applied, Verdict};
use crate::inner::{Inner, LoadError};
use crate::plan::{Plan, Planned, Reply, plan};
use crate::reader::scan_all;
use crate::resources::Permit;
use crate::stored::{Fact, InboxRow, Input, InputOf, Outcome, SCHEMA};
use crate::{Kind, Machine, Sender};
use futures_util::future::select;
use statestore::{StoreError, codec};
use std::sync::Arc;

/// The first and the longest pause after a failed commit, in milliseconds.
pub(crate) const STORE_PAUSE_MS: (u64, u64) = (500, 30_000);

/// Plans a machine's work until there is none.
pub(crate) async fn pump<M: Machine>(inner: Arc<Inner<M>>, cell: Arc<Cell<M>>) {
    let mut pump = Pump { inner, cell, pause_ms: 0 };
    pump.run().await;
    let Pump { inner, cell, .. } = pump;
    inner.evict(&cell);
    inner.leave();
}

struct Pump<M: Machine> {
    inner: Arc<Inner<M>>,
    cell: Arc<Cell<M>>,
    pause_ms: u64,
}

/// What is in hand while an item is planned.
struct Task<M: Machine> {
    input: InputOf<M>,
    permit: Option<Permit>,
    timer: Option<String>,
}

impl<M: Machine> Pump<M> {
    async fn run(&mut self) {
        loop {
            if self.inner.ended.is_cancelled() {
                self.leave();
                return;
            }
            match self.inner.ensure_loaded(&self.cell).await {
                Ok(()) => {}
                Err(LoadError::Store(error)) => {
                    self.inner.note_commit(Err(&error));
                    self.pause().await;
                    continue;
                }
                Err(error) => {
                    let error = error.into_send(&self.cell.id);
                    self.inner.fail_all(&self.cell, &error);
                    let mut state = self.cell.lock();
                    if state.lanes.iter().all(std::collections::VecDeque::is_empty) {
                        state.pumping = false;
                        return;
                    }
                    continue;
                }
            }
            if self.cell.lock().resync && !self.resync().await {
                continue;
            }
            self.inner.request_run(&self.cell);
            match self.next() {
                Next::Item(item) => self.item(*item).await,
                Next::Throttled(until_ms) => {
                    let sleep = self.inner.env.clock.sleep_until(until_ms);
                    let news = Box::pin(self.cell.signal.wait());
                    select(select(sleep, news), self.inner.ended.cancelled()).await;
                }
                Next::Idle => return,
            }
        }
    }

    /// The group ended: nobody is left waiting for an answer. What has a row is planned at the next open.
    fn leave(&self) {
        let mut state = self.cell.lock();
        state.pumping = false;
        let items: Vec<_> = state.lanes.iter_mut().flat_map(|lane| lane.drain(..)).collect();
        drop(state);
        for mut item in items {
            item.answer(Err(Nack::Send(SendError::Gone(self.cell.id.clone()))));
        }
    }

    /// Takes the next item, or says under the same lock that the pump is over.
    fn next(&self) -> Next<M> {
        let now_ms = self.inner.now_ms();
        let mut state = self.cell.lock();
        if let Some(item) = state.next(false) {
            return Next::Item(Box::new(item));
        }
        if !state.has_work() {
            state.pumping = false;
            return Next::Idle;
        }
        if let Err(until_ms) = state.take_token(now_ms, self.inner.config.events_per_minute) {
            return Next::Throttled(until_ms);
        }
        match state.next(true) {
            Some(item) => Next::Item(Box::new(item)),
            None => {
                state.pumping = false;
                Next::Idle
            }
        }
    }

    /// Waits after a failure of the store, longer each time.
    async fn pause(&mut self) {
        let (first, last) = STORE_PAUSE_MS;
        self.pause_ms = (self.pause_ms * 2).clamp(first, last);
        self.inner.pause(self.inner.now_ms() + self.pause_ms).await;
    }

    /// Looks for rows whose writing failed in a way that may have written them.
    async fn resync(&mut self) -> bool {
        let rows = scan_all(self.inner.store.as_ref(), &self.inner.keys.inbox(&self.cell.id)).await;
        match rows {
            Ok(rows) => {
                let mut state = self.cell.lock();
                state.resync = false;
                self.inner.take_rows(&self.cell, &mut state, rows);
                true
            }
            Err(error) => {
                self.inner.note_commit(Err(&error));
                self.pause().await;
                false
            }
        }
    }

    /// Plans one item to its end.
    async fn item(&mut self, mut item: Item<M>) {
        let Some(mut task) = self.task(&mut item) else {
            self.cell.lock().done(&item);
            return;
        };
        loop {
            let Some(row) = self.cell.lock().row.clone() else { return };
            let at_ms = self.inner.now_ms();
            let result =
                match plan(&self.inner.config.map, &self.cell.id, Some(&row.stored), &task.input, at_ms) {
                    Planned::Commit(plan) => self.commit(&row, *plan, &mut item, &mut task).await,
                    Planned::Defer => self.defer(&row, &mut item, &task).await,
                    Planned::Fenced => self.fenced(&row, &mut item, &task).await,
                    Planned::Misuse(reason) => {
                        tracing::error!(machine = %self.cell.id, reason, "a run misused its context");
                        item.answer(Err(Nack::Misuse(reason)));
                        Ok(())
                    }
                };
            match result {
                Ok(()) => {
                    self.pause_ms = 0;
                    break;
                }
                Err(error) => {
                    if !self.after_failure(&error, &mut item, &mut task).await {
                        break;
                    }
                }
            }
            if self.inner.ended.is_cancelled() {
                // What has a row is planned at the next open; what has none was never promised.
                item.answer(Err(Nack::Send(SendError::Gone(self.cell.id.clone()))));
                break;
            }
        }
        self.cell.lock().done(&item);
    }

    /// What an item asks to plan; `None` when it is out of date.
    fn task(&self, item: &mut Item<M>) -> Option<Task<M>> {
        let work = std::mem::replace(&mut item.work, Work::Taken);
        let mut task = Task { input: Input::RetryNow, permit: None, timer: None };
        task.input = match work {
            Work::Event { event, source } => Input::Event { event, source, run: None },
            Work::RunEvent { run, event } => Input::Event { event, source: Sender::Step, run: Some(run) },
            Work::Input(input) => input,
            Work::Start { run, permit } => {
                task.permit = Some(permit);
                Input::RunStarted { run }
            }
            Work::Taken => return None,
            Work::Timer { name, at_ms } => {
                let state = self.cell.lock();
                let row = state.timers.get(&name).filter(|row| row.at_ms == at_ms)?;
                let input = match &row.event {
                    Some(event) => Input::Event { event: event.clone(), source: Sender::Timer, run: None },
                    None => Input::RetryDue,
                };
                task.timer = Some(name);
                input
            }
        };
        Some(task)
    }

    async fn commit(
        &mut self,
        row: &Row<M>,
        plan: Plan<M>,
        item: &mut Item<M>,
        task: &mut Task<M>,
    ) -> Result<(), StoreError> {
        let extra = Extra { timer: task.timer.as_deref(), row: item.row.map(|number| (item.lane, number)) };
        let done = self.inner.commit_plan(&self.cell, row, &plan, extra).await?;
        let version = plan.next.version;
        let reply = plan.reply.clone();
        let state = plan.next.state;
        self.inner.applied(&self.cell, row, plan, &done, task.timer.as_deref());
        if let (Input::RunStarted { run }, Some(permit)) = (&task.input, task.permit.take()) {
            self.inner.start_run(&self.cell, *run, permit);
        }
        item.answer(self.answer(&task.input, version, state, reply));
        Ok(())
    }

    fn answer(&self, input: &InputOf<M>, version: u64, state: M::State, reply: Reply<M::State>) -> Answer<M> {
        let id = self.cell.id.clone();
        match reply {
            Reply::Done(verdict) => Ok(Applied { version, state, verdict }),
            Reply::Rejected(reason) => {
                let event = input_name::<M>(input);
                Err(Nack::Send(SendError::Rejected { id, state: state.name(), event, reason }))
            }
            Reply::Refused(reason) => {
                let event = input_name::<M>(input).to_owned();
                Err(Nack::Send(SendError::Refused { id, event, reason }))
            }
        }
    }

    /// Keeps an event until the state changes. One that has no row yet gets one.
    async fn defer(&mut self, row: &Row<M>, item: &mut Item<M>, task: &Task<M>) -> Result<(), StoreError> {
        let Input::Event { event, source, .. } = &task.input else { return Ok(()) };
        let number = match item.row {
            Some(number) => number,
            None => {
                let number = {
                    let mut state = self.cell.lock();
                    let number = state.next_inbox;
                    state.next_inbox += 1;
                    number
                };
                let stored = InboxRow { at_ms: self.inner.now_ms(), source: *source, event: event.clone() };
                let bytes = codec::encode(SCHEMA, &stored);
                let bytes = bytes.map_err(|error| StoreError::codec("a deferred event", error))?;
                self.inner
                    .write_deferred(&self.cell, item.lane, number, bytes, task.timer.as_deref())
                    .await?;
                number
            }
        };
        item.answer(Ok(Applied {
            version: row.stored.version,
            state: row.stored.state,
            verdict: Verdict::Deferred,
        }));
        let mut state = self.cell.lock();
        if let Some(name) = &task.timer {
            state.timers.remove(name);
        }
        let work = Work::Event { event: event.clone(), source: *source };
        let mut kept = Item::new(item.lane, work);
        kept.row = Some(number);
        state.known.insert((item.lane as u8, number));
        // It goes on waiting: `done` of the item in hand must not forget it.
        state.ordinary += usize::from(item.lane == Lane::Ordinary);
        state.deferred.push_back(kept);
        item.row = None;
        Ok(())
    }

    /// A late result of a run that was fenced off: journalled and dropped.
    async fn fenced(&mut self, row: &Row<M>, item: &mut Item<M>, task: &Task<M>) -> Result<(), StoreError> {
        let late = match &task.input {
            Input::RunEnded { run, outcome: Outcome::Event(event) } => {
                Some((*run, format!("ended with {}", Inner::<M>::kind_name(event))))
            }
            Input::RunEnded { run, outcome: Outcome::Failure(failure) } => {
                Some((*run, format!("failed: {failure}")))
            }
            Input::Event { run: Some(run), event, .. } => {
                Some((*run, format!("sent {}", Inner::<M>::kind_name(event))))
            }
            _ => None,
        };
        if let Some((run, what)) = late {
            let what = crate::plan::short(what);
            self.inner.write_fact(&self.cell.id, row.stored.version, Fact::Dropped { run, what }).await?;
        }
        item.answer(Err(Nack::Fenced));
        Ok(())
    }

    /// Decides after a failed write whether to plan again (`true`) or give the item up.
    async fn after_failure(&mut self, error: &StoreError, item: &mut Item<M>, task: &mut Task<M>) -> bool {
        if error.is_conflict() {
            // Somebody else wrote: read, plan again on what is there.
            if self.reload().await.is_err() {
                self.pause().await;
            } else {
                // The outbox may be about to tell of its own commit.
                self.inner.pause(self.inner.now_ms() + 1).await;
            }
            return true;
        }
        self.inner.note_commit(Err(error));
        let impossible = matches!(
            error,
            StoreError::TooLarge { .. } | StoreError::InvalidKey { .. } | StoreError::Codec { .. }
        );
        let from_outside = item.row.is_none()
            && matches!(
                &task.input,
                Input::Event { source: Sender::Outside | Sender::Subscription, .. }
                    | Input::RetryNow
                    | Input::Abort { .. }
                    | Input::Force { .. }
            );
        if from_outside || (impossible && matches!(task.input, Input::Refused { .. })) {
            let id = self.cell.id.clone();
            item.answer(Err(Nack::Send(SendError::Store { id, source: error.clone() })));
            return false;
        }
        if impossible {
            task.input = Input::Refused {
                what: input_name::<M>(&task.input).to_owned(),
                reason: crate::plan::short(error.to_string()),
                run: match &task.input {
                    Input::RunEnded { run, .. } => Some(*run),
                    _ => None,
                },
                from_engine: true,
            };
            return true;
        }
        self.pause().await;
        true
    }

    /// Reads the row again.
    async fn reload(&mut self) -> Result<(), StoreError> {
        let key = self.inner.keys.record(&self.cell.id);
        let Some(bytes) = self.inner.store.get(&key).await? else { return Ok(()) };
        let stored = crate::reader::decode::<M>(&bytes)
            .map_err(|error| StoreError::codec(self.cell.id.as_str(), error))?;
        let mut state = self.cell.lock();
        state.row = Some(Row { stored: Arc::new(stored), bytes });
        Ok(())
    }
}

enum Next<M: Machine> {
    Item(Box<Item<M>>),
    Throttled(u64),
    Idle,
}

/// What an input is called in errors.
fn input_name<M: Machine>(input: &InputOf<M>) -> &'static str {
    match input {
        Input::Event { event, .. } | Input::RunEnded { outcome: Outcome::Event(event), .. } => {
            M::kind(event).name()
        }
        Input::RunEnded { outcome: Outcome::Failure(failure), .. } => failure.class.name(),
        Input::Created { .. } => "creation",
        Input::RunStarted { .. } => "start of a run",
        Input::Interrupted { .. } => "interruption",
        Input::RetryDue => "next attempt",
        Input::RetryNow => "retry now",
        Input::Abort { .. } => "abort",
        Input::Force { .. } => "force",
        Input::Stuck { .. } => "check at open",
        Input::Refused { .. } => "refusal",
    }
}
