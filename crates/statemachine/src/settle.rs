//! The task that asks what became of sent effects, and how an effect is settled (SM-17).

use crate::cell::{Item, Lane, Work};
use crate::dispatch::{Open, intent_of, outbox_fact};
use crate::inner::{Inner, Woken};
use crate::outbox::Outcome;
use crate::plan::EVENT_BYTES_MAX;
use crate::retry::millis;
use crate::stored::{InboxRow, OutboxStage, SCHEMA};
use crate::{Failure, IntentId, Machine, Sender};
use futures_util::future::{Either, join_all, select};
use statestore::{Batch, Expect, StoreError, codec};
use std::sync::Arc;

/// How many rows are asked about at once.
const POLL_PARALLEL: usize = 16;

/// Polls sent rows until the group ends.
pub(crate) async fn run<M: Machine>(inner: Arc<Inner<M>>) {
    while !inner.ended.is_cancelled() {
        let (due, next_ms) = inner.outbox.to_poll(inner.now_ms(), POLL_PARALLEL);
        if due.is_empty() {
            let news = Box::pin(inner.outbox.to_poll.wait());
            let sleep = match next_ms {
                Some(at_ms) => Either::Left(inner.sleep_until(at_ms)),
                None => Either::Right(std::future::pending()),
            };
            let woken = select(select(sleep, news), inner.ended.cancelled()).await;
            if matches!(woken, Either::Left((Either::Left((Woken::SetBack, _)), _))) {
                // Its times are of the old clock.
                inner.outbox.nudge();
            }
            continue;
        }
        join_all(due.iter().map(|id| poll(&inner, id))).await;
    }
}

async fn poll<M: Machine>(inner: &Arc<Inner<M>>, id: &IntentId) {
    let Some(open) = inner.outbox.get(id) else { return };
    if let Err(failure) = ask(inner, id, &open).await {
        inner.effect_failed(id, &failure);
    }
}

async fn ask<M: Machine>(inner: &Arc<Inner<M>>, id: &IntentId, open: &Open) -> Result<(), Failure> {
    let Some(prepared) = open.prepared() else { return Ok(()) };
    let handler = inner.handler(&open.row.kind)?;
    let intent = intent_of(id, &open.row);
    match inner.guarded("polling", handler.poll(&intent, prepared)).await? {
        Outcome::Pending => {
            let next_ms = inner.now_ms().saturating_add(millis(inner.config.poll_interval).max(1));
            inner.outbox.update(id, |open| {
                open.failures = 0;
                open.last_error = None;
                open.next_ms = next_ms;
            });
            Ok(())
        }
        Outcome::SendAgain => {
            let stage = OutboxStage::Prepared { bytes: prepared.to_vec() };
            inner.advance(id, open, stage, "lost; sent again".to_owned()).await?;
            inner.outbox.to_send.notify();
            Ok(())
        }
        Outcome::PrepareAgain(reason) => {
            inner.advance(id, open, OutboxStage::Decided, format!("prepared again: {reason}")).await?;
            inner.outbox.to_send.notify();
            Ok(())
        }
        Outcome::Settled(event) => inner.settle(id, open, event, "settled".to_owned()).await,
        Outcome::Done => inner.close(id, open).await,
    }
}

impl<M: Machine> Inner<M> {
    /// Ends a row and puts its event into the machine's inbox, in one commit.
    pub(crate) async fn settle(
        self: &Arc<Self>,
        id: &IntentId,
        open: &Open,
        event: M::Event,
        change: String,
    ) -> Result<(), Failure> {
        let cell = loop {
            let cell = self.cell(&id.machine);
            if let Err(error) = self.ensure_loaded(&cell).await {
                self.evict(&cell);
                return Err(Failure::transient(error.into_send(&id.machine)));
            }
            if !cell.lock().evicted {
                break cell;
            }
        };
        let row = InboxRow { at_ms: self.now_ms(), source: Sender::Outbox, event: event.clone() };
        let bytes = codec::encode(SCHEMA, &row).map_err(Failure::permanent)?;
        if bytes.len() > EVENT_BYTES_MAX {
            let have = bytes.len();
            return Err(Failure::permanent(format_args!(
                "the event has {have} bytes, at most {EVENT_BYTES_MAX}"
            )));
        }
        let lane = Lane::Engine;
        let Some(number) = self.reserve(&cell, lane) else {
            return Err(Failure::transient("the machine was put away meanwhile"));
        };
        let key = self.keys.outbox_row(id);
        let mut batch = Batch::new();
        batch.expect(key.clone(), Expect::Is(open.bytes.clone())).delete(key.clone());
        batch.put(self.keys.inbox_row(&cell.id, lane as u8, number), bytes);
        let kind = Self::kind_name(&event);
        let fact = outbox_fact(id, &open.row.kind, format!("{change} with {kind}"));
        batch.append(
            self.keys.stream(&id.machine),
            self.fact_entry(id.version, fact).map_err(Failure::permanent)?,
        );
        match self.store.commit(batch).await {
            Ok(_) => {
                self.note_commit(Ok(()));
                self.outbox.withdraw(std::slice::from_ref(id));
                let mut item = Item::new(lane, Work::Event { event, source: Sender::Outbox });
                item.row = Some(number);
                self.push(&cell.id, item);
                Ok(())
            }
            Err(error) => {
                self.unreserve(&cell, lane, number, error.is_uncertain());
                self.settle_failed(id, &key, &error).await
            }
        }
    }

    /// Ends a row that the machine need not be told about.
    async fn close(self: &Arc<Self>, id: &IntentId, open: &Open) -> Result<(), Failure> {
        let key = self.keys.outbox_row(id);
        let mut batch = Batch::new();
        batch.expect(key.clone(), Expect::Is(open.bytes.clone())).delete(key.clone());
        let fact = outbox_fact(id, &open.row.kind, "done".to_owned());
        batch.append(
            self.keys.stream(&id.machine),
            self.fact_entry(id.version, fact).map_err(Failure::permanent)?,
        );
        match self.store.commit(batch).await {
            Ok(_) => {
                self.note_commit(Ok(()));
                self.outbox.withdraw(std::slice::from_ref(id));
                Ok(())
            }
            Err(error) => self.settle_failed(id, &key, &error).await,
        }
    }

    /// After a failed commit: the row may be gone all the same.
    async fn settle_failed(
        self: &Arc<Self>,
        id: &IntentId,
        key: &[u8],
        error: &StoreError,
    ) -> Result<(), Failure> {
        if error.is_conflict() {
            self.outbox.withdraw(std::slice::from_ref(id));
            return Ok(());
        }
        self.note_commit(Err(error));
        if error.is_uncertain() && matches!(self.store.get(key).await, Ok(None)) {
            self.outbox.withdraw(std::slice::from_ref(id));
            return Ok(());
        }
        Err(Failure::transient(format_args!("settling {id}: {error}")))
    }

    /// A number for a row of the inbox that is about to be written. `None` when the machine was put away.
    pub(crate) fn reserve(&self, cell: &crate::cell::Cell<M>, lane: Lane) -> Option<u64> {
        let mut state = cell.lock();
        if state.evicted {
            return None;
        }
        let number = state.next_inbox;
        state.next_inbox += 1;
        state.known.insert((lane as u8, number));
        state.ordinary += usize::from(lane == Lane::Ordinary);
        Some(number)
    }

    /// Gives the number back after a failed write; `uncertain` when the row may be there all the same.
    pub(crate) fn unreserve(
        self: &Arc<Self>,
        cell: &Arc<crate::cell::Cell<M>>,
        lane: Lane,
        number: u64,
        uncertain: bool,
    ) {
        {
            let mut state = cell.lock();
            state.known.remove(&(lane as u8, number));
            if lane == Lane::Ordinary {
                state.ordinary = state.ordinary.saturating_sub(1);
            }
            state.resync |= uncertain;
        }
        if uncertain {
            self.kick(cell);
        }
    }
}
