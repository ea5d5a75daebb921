//! How a plan becomes one batch, and what follows once it is on disk (SM-4).

use crate::cell::{Cell, Lane, Row};
use crate::effects::TimerChange;
use crate::group::Change;
use crate::inner::Inner;
use crate::plan::Plan;
use crate::stored::{Entry, EntryOf, Fact, OutboxRow, OutboxStage, RETRY_TIMER, SCHEMA, TimerRow};
use crate::{IntentId, Kind, Machine, MachineId};
use statestore::{Batch, Expect, StoreError, codec};
use std::sync::Arc;

/// What a commit consumes besides what the plan says.
#[derive(Clone, Copy)]
pub(crate) struct Extra<'a> {
    /// The timer that fired.
    pub(crate) timer: Option<&'a str>,
    /// The event's row in the inbox.
    pub(crate) row: Option<(Lane, u64)>,
}

/// What a commit wrote.
pub(crate) struct Committed {
    seq: u64,
    intents: Vec<(IntentId, OutboxRow, Vec<u8>)>,
    withdrawn: Vec<IntentId>,
}

impl<M: Machine> Inner<M> {
    /// Writes a plan: all of it, or nothing.
    pub(crate) async fn commit_plan(
        &self,
        cell: &Cell<M>,
        row: &Row<M>,
        plan: &Plan<M>,
        extra: Extra<'_>,
    ) -> Result<Committed, StoreError> {
        let (id, keys) = (&cell.id, self.keys);
        let key = keys.record(id);
        let mut batch = Batch::new();
        batch.expect(key.clone(), Expect::Is(row.bytes.clone())).put(key.clone(), plan.bytes.clone());
        if row.stored.state != plan.next.state {
            batch.delete(keys.in_state(row.stored.state.name(), id));
            batch.put(keys.in_state(plan.next.state.name(), id), Vec::new());
        }
        if let Some((lane, number)) = extra.row {
            batch.delete(keys.inbox_row(id, lane as u8, number));
        }
        if let Some(name) = extra.timer {
            batch.delete(keys.timer(id, name));
        }
        for change in &plan.timers {
            match change {
                TimerChange::Set { name, at_ms, event } => {
                    let timer = TimerRow { at_ms: *at_ms, event: event.clone() };
                    let bytes = codec::encode(SCHEMA, &timer);
                    batch.put(keys.timer(id, name), bytes.map_err(|e| StoreError::codec(name.as_str(), e))?);
                }
                TimerChange::Clear { name } => {
                    batch.delete(keys.timer(id, name));
                }
            }
        }
        let withdrawn = self.outbox.withdrawable(id, &plan.withdrawn);
        for (intent, bytes) in &withdrawn {
            // The dispatcher may be preparing it: whoever commits first wins, the other sees a conflict.
            let key = keys.outbox_row(intent);
            batch.expect(key.clone(), Expect::Is(bytes.clone())).delete(key);
        }
        let mut intents = Vec::with_capacity(plan.intents.len());
        for (ordinal, intent) in (0u32..).zip(&plan.intents) {
            let intent_id = IntentId { machine: id.clone(), version: plan.next.version, ordinal };
            let row = OutboxRow {
                kind: intent.kind.clone(),
                payload: intent.payload.clone(),
                created_at_ms: plan.next.changed_at_ms,
                stage: OutboxStage::Decided,
                stage_at_ms: plan.next.changed_at_ms,
                preparations: 0,
            };
            let bytes = codec::encode(SCHEMA, &row);
            let bytes = bytes.map_err(|e| StoreError::codec(intent.kind.as_str(), e))?;
            batch.put(keys.outbox_row(&intent_id), bytes.clone());
            intents.push((intent_id, row, bytes));
        }
        batch.append(keys.stream(id), plan.entry.clone());
        let withdrawn = withdrawn.into_iter().map(|(intent, _)| intent).collect();
        match self.store.commit(batch).await {
            Ok(done) => {
                self.note_commit(Ok(()));
                Ok(Committed { seq: done.last_seq, intents, withdrawn })
            }
            // It may be on disk all the same: look.
            Err(error) if error.is_uncertain() => match self.store.get(&key).await {
                Ok(Some(bytes)) if bytes == plan.bytes => Ok(Committed { seq: 0, intents, withdrawn }),
                _ => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Takes over what was committed: memory, timers, outbox, runs, watchers.
    pub(crate) fn applied(
        self: &Arc<Self>,
        cell: &Arc<Cell<M>>,
        before: &Row<M>,
        plan: Plan<M>,
        done: &Committed,
        fired: Option<&str>,
    ) {
        let change =
            Change { id: cell.id.clone(), state: plan.next.state, version: plan.next.version, seq: done.seq };
        let wanted = plan.next.run.as_ref().map(|run| run.version);
        let (cancelled, forgotten) = {
            let mut state = cell.lock();
            if let Some(name) = fired {
                state.timers.remove(name);
            }
            for timer in plan.timers {
                match timer {
                    TimerChange::Set { name, at_ms, event } => {
                        if let Some(old) = state.timers.get(&name) {
                            self.timers.remove(old.at_ms, &cell.id, &name);
                        }
                        self.timers.insert(at_ms, &cell.id, &name);
                        if name == RETRY_TIMER {
                            // The machine's own time may be ahead of a clock that was set back.
                            let wait_ms = at_ms.saturating_sub(plan.next.changed_at_ms);
                            let limit_ms = self.now_ms().saturating_add(wait_ms);
                            self.timers.no_later(at_ms, &cell.id, &name, limit_ms);
                        }
                        state.timers.insert(name, TimerRow { at_ms, event });
                    }
                    TimerChange::Clear { name } => {
                        if let Some(old) = state.timers.remove(&name) {
                            self.timers.remove(old.at_ms, &cell.id, &name);
                        }
                    }
                }
            }
            if plan.next.entered_version != before.stored.entered_version {
                state.undefer();
            }
            let mut cancelled = None;
            if let Some(live) = state.live.take_if(|live| Some(live.version) != wanted) {
                cancelled = Some(live.cancel.clone());
                state.ending.push(live);
            }
            let forgotten = state.requested.filter(|run| Some(*run) != wanted);
            if forgotten.is_some() {
                state.requested = None;
            }
            state.row = Some(Row { stored: Arc::new(plan.next), bytes: plan.bytes });
            (cancelled, forgotten)
        };
        // Outside the lock: both call back.
        if let Some(cancel) = cancelled {
            cancel.cancel();
        }
        if let Some(version) = forgotten {
            self.resources.forget(&crate::RunId { machine: cell.id.clone(), version });
        }
        self.outbox.withdraw(&done.withdrawn);
        for (id, row, bytes) in &done.intents {
            self.outbox.insert(id.clone(), row.clone(), bytes.clone(), false);
        }
        self.announce(&change);
        self.request_run(cell);
    }

    /// Gives a deferred event its row; a timer that brought it is gone with that.
    pub(crate) async fn write_deferred(
        &self,
        cell: &Cell<M>,
        lane: Lane,
        number: u64,
        bytes: Vec<u8>,
        timer: Option<&str>,
    ) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        batch.put(self.keys.inbox_row(&cell.id, lane as u8, number), bytes);
        if let Some(name) = timer {
            batch.delete(self.keys.timer(&cell.id, name));
        }
        let result = self.store.commit(batch).await;
        self.note_commit(result.as_ref().map(|_| ()));
        result.map(|_| ())
    }

    /// A journal entry of something that changes no machine.
    pub(crate) fn fact_entry(&self, version: u64, fact: Fact) -> Result<Vec<u8>, StoreError> {
        let entry: EntryOf<M> = Entry::Fact { at_ms: self.now_ms(), version, fact };
        codec::encode(SCHEMA, &entry).map_err(|error| StoreError::codec("a journal entry", error))
    }

    /// Journals something that changes no machine.
    pub(crate) async fn write_fact(
        &self,
        id: &MachineId,
        version: u64,
        fact: Fact,
    ) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        batch.append(self.keys.stream(id), self.fact_entry(version, fact)?);
        self.store.commit(batch).await.map(|_| ())
    }
}
