//! Timers of all machines in one queue, and the task that fires them, late rather than never (SM-16).

use crate::cell::{Item, Lane, Work};
use crate::inner::{Inner, Woken};
use crate::reader::PAGE;
use crate::retry::RetryPolicy;
use crate::signal::Signal;
use crate::stored::{RETRY_TIMER, SCHEMA, TimerRow};
use crate::{Machine, MachineId, lock};
use futures_util::future::{Either, select};
use statestore::{StoreError, codec};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Who is due when.
#[derive(Default)]
pub(crate) struct TimerQueue {
    queue: Mutex<Queue>,
    changed: Signal,
}

#[derive(Default)]
struct Queue {
    due: BTreeSet<(u64, MachineId, String)>,
    /// Those that do not wait for the time of their row, because the clock was set back: that time, and when they are
    /// due.
    sooner: BTreeMap<(MachineId, String), (u64, u64)>,
}

impl TimerQueue {
    pub(crate) fn insert(&self, at_ms: u64, id: &MachineId, name: &str) {
        lock(&self.queue).due.insert((at_ms, id.clone(), name.to_owned()));
        self.changed.notify();
    }

    pub(crate) fn remove(&self, at_ms: u64, id: &MachineId, name: &str) {
        let mut queue = lock(&self.queue);
        let due_ms = queue.sooner.remove(&(id.clone(), name.to_owned())).map_or(at_ms, |(_, due_ms)| due_ms);
        queue.due.remove(&(due_ms, id.clone(), name.to_owned()));
    }

    /// A timer whose row says `at_ms` fires at `limit_ms` at the latest.
    pub(crate) fn no_later(&self, at_ms: u64, id: &MachineId, name: &str, limit_ms: u64) {
        let due_ms = self.due_ms(at_ms, id, name);
        let mut queue = lock(&self.queue);
        if due_ms > limit_ms && queue.due.remove(&(due_ms, id.clone(), name.to_owned())) {
            queue.due.insert((limit_ms, id.clone(), name.to_owned()));
            queue.sooner.insert((id.clone(), name.to_owned()), (at_ms, limit_ms));
            drop(queue);
            self.changed.notify();
        }
    }

    /// When a timer whose row says `at_ms` fires.
    pub(crate) fn due_ms(&self, at_ms: u64, id: &MachineId, name: &str) -> u64 {
        match lock(&self.queue).sooner.get(&(id.clone(), name.to_owned())) {
            Some((row_ms, due_ms)) if *row_ms == at_ms => *due_ms,
            _ => at_ms,
        }
    }

    /// The engine's own timers with the times of their rows.
    fn retries(&self) -> Vec<(u64, MachineId)> {
        let queue = lock(&self.queue);
        let rows = queue.due.iter().filter(|(.., name)| name == RETRY_TIMER);
        rows.map(|(due_ms, id, name)| {
            let moved = queue.sooner.get(&(id.clone(), name.clone()));
            (moved.map_or(*due_ms, |(at_ms, _)| *at_ms), id.clone())
        })
        .collect()
    }

    /// Whether a machine has a timer. Walks the queue: for the restart at open.
    pub(crate) fn has(&self, id: &MachineId) -> bool {
        lock(&self.queue).due.iter().any(|(_, other, _)| other == id)
    }

    fn first_ms(&self) -> Option<u64> {
        lock(&self.queue).due.first().map(|(at_ms, ..)| *at_ms)
    }

    /// Takes what is due, with the times of the rows.
    fn take_due(&self, now_ms: u64) -> Vec<(u64, MachineId, String)> {
        let mut queue = lock(&self.queue);
        let mut taken = Vec::new();
        while queue.due.first().is_some_and(|(due_ms, ..)| *due_ms <= now_ms) {
            taken.extend(queue.due.pop_first());
        }
        for (at_ms, id, name) in &mut taken {
            if let Some((row_ms, _)) = queue.sooner.remove(&(id.clone(), name.clone())) {
                *at_ms = row_ms;
            }
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
    // The clock may have been set back while no process ran.
    let mut set_back = true;
    let mut seen_ms = 0;
    while !inner.ended.is_cancelled() {
        let now_ms = inner.now_ms();
        if set_back || now_ms < seen_ms {
            shorten(&inner, now_ms).await;
        }
        seen_ms = now_ms;
        for (at_ms, id, name) in inner.timers.take_due(now_ms) {
            inner.push(&id, Item::new(Lane::Engine, Work::Timer { name, at_ms }));
        }
        let changed = Box::pin(inner.timers.changed.wait());
        set_back = match inner.timers.first_ms() {
            Some(at_ms) => {
                let woken = select(select(inner.sleep_until(at_ms), changed), inner.ended.cancelled()).await;
                matches!(woken, Either::Left((Either::Left((Woken::SetBack, _)), _)))
            }
            None => {
                select(changed, inner.ended.cancelled()).await;
                false
            }
        };
    }
}

/// After the clock was set back no retry waits longer than it was meant to wait from the start, nor than its policy
/// allows; else it would wait for as long as the clock went back.
async fn shorten<M: Machine>(inner: &Arc<Inner<M>>, now_ms: u64) {
    for (at_ms, id) in inner.timers.retries() {
        if at_ms <= now_ms {
            continue;
        }
        // A row that cannot be read now gets the default: an attempt that comes early harms nothing.
        let mut wait_ms = RetryPolicy::DEFAULT.longest_ms();
        if let Ok(Some(instance)) = inner.reader.get(&id).await
            && let Some(failure) = &instance.last_failure
        {
            let policy = inner.config.map.retry_policy(instance.state, failure.class);
            wait_ms = policy.longest_ms().min(at_ms.saturating_sub(failure.at_ms));
        }
        inner.timers.no_later(at_ms, &id, RETRY_TIMER, now_ms.saturating_add(wait_ms));
    }
}
