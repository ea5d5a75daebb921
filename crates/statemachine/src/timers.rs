//! Timers of all machines in one queue, and the task that fires them, late rather than never (SM-16).

use crate::cell::{Item, Lane, Work};
use crate::inner::Inner;
use crate::reader::PAGE;
use crate::signal::Signal;
use crate::stored::{SCHEMA, TimerRow};
use crate::{Machine, MachineId, lock};
use futures_util::future::select;
use statestore::{StoreError, codec};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Who is due when.
#[derive(Default)]
pub(crate) struct TimerQueue {
    due: Mutex<BTreeSet<(u64, MachineId, String)>>,
    changed: Signal,
}

impl TimerQueue {
    pub(crate) fn insert(&self, at_ms: u64, id: &MachineId, name: &str) {
        lock(&self.due).insert((at_ms, id.clone(), name.to_owned()));
        self.changed.notify();
    }

    pub(crate) fn remove(&self, at_ms: u64, id: &MachineId, name: &str) {
        lock(&self.due).remove(&(at_ms, id.clone(), name.to_owned()));
    }

    /// Whether a machine has a timer. Walks the queue: for the restart at open.
    pub(crate) fn has(&self, id: &MachineId) -> bool {
        lock(&self.due).iter().any(|(_, other, _)| other == id)
    }

    fn first_ms(&self) -> Option<u64> {
        lock(&self.due).first().map(|(at_ms, ..)| *at_ms)
    }

    fn take_due(&self, now_ms: u64) -> Vec<(u64, MachineId, String)> {
        let mut due = lock(&self.due);
        let mut taken = Vec::new();
        while due.first().is_some_and(|(at_ms, ..)| *at_ms <= now_ms) {
            taken.extend(due.pop_first());
        }
        taken
    }
}

impl<M: Machine> Inner<M> {
    /// Reads every timer at open.
    pub(crate) async fn load_timers(&self) -> Result<(), StoreError> {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let rows = self.store.scan(&self.keys.timers(), after.as_deref(), PAGE).await?;
            let Some((last, _)) = rows.last() else { return Ok(()) };
            after = Some(last.clone());
            for (key, bytes) in &rows {
                let Some((id, name)) = self.keys.id_of_timer(key) else { continue };
                match codec::decode::<TimerRow<M::Event>>(SCHEMA, bytes) {
                    Ok(row) => self.timers.insert(row.at_ms, &id, &name),
                    Err(error) => {
                        tracing::error!(machine = %id, timer = name, %error, "a timer cannot be decoded");
                    }
                }
            }
        }
    }
}

/// Hands due timers to their machines until the group ends.
pub(crate) async fn run<M: Machine>(inner: Arc<Inner<M>>) {
    while !inner.ended.is_cancelled() {
        for (at_ms, id, name) in inner.timers.take_due(inner.now_ms()) {
            inner.push(&id, Item::new(Lane::Engine, Work::Timer { name, at_ms }));
        }
        let changed = Box::pin(inner.timers.changed.wait());
        match inner.timers.first_ms() {
            Some(at_ms) => {
                select(select(inner.env.clock.sleep_until(at_ms), changed), inner.ended.cancelled()).await;
            }
            None => {
                select(changed, inner.ended.cancelled()).await;
            }
        }
    }
}
