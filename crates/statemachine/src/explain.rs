//! Why a machine is where it is (SM-20).

use crate::cell::{Item, Work};
use crate::error::ReadError;
use crate::inner::{Inner, LoadError};
use crate::map::Role;
use crate::reader::store_error;
use crate::stored::{Instance, LastFailure, Parked, RETRY_TIMER, RunInfo, Trouble};
use crate::{Class, Kind, Machine, MachineId, Progress, RunId, Sender, lock};
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::Arc;

/// Everything that answers "why is it there, and what happens next".
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The machine.
    pub id: MachineId,
    /// Its state.
    pub state: &'static str,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// The version of its row.
    pub version: u64,
    /// The run that is wanted or in progress.
    pub run: Option<RunInfo>,
    /// How far the run is, if it says so.
    pub progress: Option<Progress>,
    /// Whether the run is over its soft limit.
    pub slow: bool,
    /// Events that wait.
    pub inbox: Vec<WaitingEvent>,
    /// Timers.
    pub timers: Vec<WaitingTimer>,
    /// Effects that are not settled.
    pub outbox: Vec<OpenEffect>,
    /// What stands in the way.
    pub blocker: Option<Blocker>,
    /// The last failure.
    pub last_failure: Option<LastFailure>,
    /// Failures since the last success of this state, by class.
    pub attempts: Vec<(Class, u32)>,
    /// When the step is tried again.
    pub next_try_ms: Option<u64>,
    /// The last input that planning refused by an error of its own.
    pub trouble: Option<Trouble>,
    /// What needs attention: retrying for over an hour, a soft limit passed, trouble in planning.
    pub alerts: Vec<String>,
    /// The kinds of events that would do something now, and who sends them.
    pub legal_events: Vec<(&'static str, Sender)>,
}

/// What stands in a machine's way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Blocker {
    /// A person has to act.
    Parked(Parked),
    /// A run waits for a resource.
    Resource {
        /// Its name.
        name: String,
        /// Units needed.
        needed: u32,
        /// Units free now.
        free: u32,
        /// Runs that are before it.
        ahead: usize,
    },
    /// A cancelled run has not ended yet.
    EndingRun,
    /// The next attempt or timer is due at this time, in milliseconds since 1970.
    Time(u64),
    /// An effect that is not settled.
    Effect(String),
    /// Too many events a minute: planning goes on at this time, in milliseconds since 1970.
    RateLimit(u64),
    /// The store refuses to write.
    Store(String),
}

/// An event that waits in the inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitingEvent {
    /// Its kind.
    pub kind: &'static str,
    /// Whether it waits for the state to change.
    pub deferred: bool,
}

/// A timer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitingTimer {
    /// Its name.
    pub name: String,
    /// When it is due, in milliseconds since 1970.
    pub at_ms: u64,
    /// The kind of its event; `None` for the engine's retry.
    pub event: Option<&'static str>,
}

/// An effect that is not settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenEffect {
    /// The version that decided it.
    pub version: u64,
    /// Its place in that commit.
    pub ordinal: u32,
    /// Its kind.
    pub kind: String,
    /// `decided`, `prepared` or `sent`.
    pub stage: &'static str,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// How often its handler failed in a row since this process started.
    pub failures: u32,
    /// What the handler said last.
    pub last_error: Option<String>,
    /// When the handler is called next, in milliseconds since 1970.
    pub next_ms: Option<u64>,
}

/// Explains a machine; `None` when there is none.
pub(crate) async fn explain<M: Machine>(
    inner: &Arc<Inner<M>>,
    id: &MachineId,
) -> Result<Option<Explanation>, ReadError> {
    let cell = inner.cell(id);
    match inner.ensure_loaded(&cell).await {
        Ok(()) => {}
        Err(LoadError::Unknown) => {
            inner.evict(&cell);
            return Ok(None);
        }
        Err(LoadError::Store(source)) => return Err(store_error(id, source)),
        Err(LoadError::Quarantined(_)) => {
            inner.evict(&cell);
            return inner.reader.get(id).await.map(|_| None);
        }
    }
    let map = &inner.config.map;
    let state = cell.lock();
    let Some(row) = &state.row else { return Ok(None) };
    let mut instance = Instance::<M>::of(id, &row.stored);
    // After the clock was set back it may come sooner than its row says.
    let due_ms = |at_ms: u64, name: &str| inner.timers.due_ms(at_ms, id, name);
    instance.next_try_ms = instance.next_try_ms.map(|at_ms| due_ms(at_ms, RETRY_TIMER));
    let (progress, slow) = state.live.as_ref().map_or((None, false), crate::runs::look);
    let kinds = |items: &VecDeque<Item<M>>, deferred: bool| {
        let kind = |item: &Item<M>| match &item.work {
            Work::Event { event, .. } => Some(WaitingEvent { kind: M::kind(event).name(), deferred }),
            _ => None,
        };
        items.iter().filter_map(kind).collect::<Vec<_>>()
    };
    let mut inbox: Vec<_> = state.lanes.iter().flat_map(|lane| kinds(lane, false)).collect();
    inbox.extend(kinds(&state.deferred, true));
    let timers: Vec<_> = state
        .timers
        .iter()
        .map(|(name, timer)| WaitingTimer {
            name: name.clone(),
            at_ms: due_ms(timer.at_ms, name),
            event: timer.event.as_ref().map(|event| M::kind(event).name()),
        })
        .collect();
    let ending = !state.ending.is_empty();
    let throttled = state.throttled_until_ms;
    drop(state);
    let outbox = inner.outbox.of(id);
    let blocker = blocker(inner, &instance, ending, throttled, &outbox, &timers);
    Ok(Some(Explanation {
        id: id.clone(),
        state: instance.state.name(),
        since_ms: instance.entered_at_ms,
        version: instance.version,
        alerts: alerts(inner, &instance, slow),
        legal_events: map
            .legal_events(instance.state)
            .into_iter()
            .map(|k| (k.name(), map.sender(k)))
            .collect(),
        attempts: instance.failures.iter().map(|(class, failures)| (*class, failures.count)).collect(),
        run: instance.run,
        progress,
        slow,
        inbox,
        timers,
        outbox,
        blocker,
        last_failure: instance.last_failure,
        next_try_ms: instance.next_try_ms,
        trouble: instance.trouble,
    }))
}

/// The first thing that stands in the way, the most decisive first.
fn blocker<M: Machine>(
    inner: &Inner<M>,
    instance: &Instance<M>,
    ending: bool,
    throttled: Option<u64>,
    outbox: &[OpenEffect],
    timers: &[WaitingTimer],
) -> Option<Blocker> {
    if let Some(parked) = &instance.parked {
        return Some(Blocker::Parked(parked.clone()));
    }
    if let Some(error) = lock(&inner.health).store_error.clone() {
        return Some(Blocker::Store(error));
    }
    if let Some(run) = &instance.run {
        if run.started_at_ms.is_some() {
            return None;
        }
        if ending {
            return Some(Blocker::EndingRun);
        }
        let run = RunId { machine: instance.id.clone(), version: run.version };
        let (name, needed, free, ahead) = inner.resources.lacks(&run)?;
        return Some(Blocker::Resource { name, needed, free, ahead });
    }
    if let Some(next_ms) = instance.next_try_ms {
        return Some(Blocker::Time(next_ms));
    }
    if let Some(until_ms) = throttled.filter(|until_ms| *until_ms > inner.now_ms()) {
        return Some(Blocker::RateLimit(until_ms));
    }
    if let Some(effect) = outbox.first() {
        let error = effect.last_error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
        return Some(Blocker::Effect(format!("{} is {}{error}", effect.kind, effect.stage)));
    }
    if inner.config.map.role(instance.state) != Role::Active {
        return None;
    }
    timers.iter().map(|timer| timer.at_ms).min().map(Blocker::Time)
}

fn alerts<M: Machine>(inner: &Inner<M>, instance: &Instance<M>, slow: bool) -> Vec<String> {
    let mut alerts = Vec::new();
    for (class, failures) in &instance.failures {
        let after = inner.config.map.retry_policy(instance.state, *class).alert_after;
        let since = inner.now_ms().saturating_sub(failures.first_at_ms);
        if since >= crate::retry::millis(after) {
            alerts.push(format!("{class} failures for {} min: {} so far", since / 60_000, failures.count));
        }
    }
    if slow {
        alerts.push("the run is over its soft time limit".to_owned());
    }
    if let Some(trouble) = &instance.trouble {
        alerts.push(format!("planning {} failed: {}", trouble.what, trouble.reason));
    }
    alerts
}
