//! The moves of a plan: entering states, wanting runs, parking. Each changes the next row and nothing else.

use super::{CYCLES_MAX, Planner, Reply, short};
use crate::effects::TimerChange;
use crate::group::Verdict;
use crate::map::Role;
use crate::stored::{Guard, Parked, RETRY_TIMER, StoredRun};

use crate::{Class, Kind, Machine};
use std::collections::BTreeMap;

impl<M: Machine> Planner<'_, M> {
    /// Leaves the state and enters another, or the same again.
    pub(super) fn go(&mut self, target: M::State) -> Reply<M::State> {
        let from = self.next.state;
        if let Some(run) = self.next.run.take() {
            self.ended_run = self.ended_run.or(Some(run.version));
        }
        self.clear_retry();
        self.enter(target);
        Reply::Done(Verdict::Moved { from, to: target })
    }

    pub(super) fn enter(&mut self, state: M::State) {
        self.next.state = state;
        self.next.entered_at_ms = self.at_ms;
        self.next.entered_version = self.next.version;
        self.next.parked = None;
        if self.looping(state) {
            let path: Vec<&str> = self.next.guard.entries.keys().map(String::as_str).collect();
            let last = self.next.last_failure.as_ref();
            let last =
                last.map_or_else(String::new, |f| format!("; the last failure: {}: {}", f.class, f.message));
            let reason = format!(
                "{} was entered {} times without a new fact (among {}){last}",
                state.name(),
                CYCLES_MAX + 1,
                path.join(", "),
            );
            let class = self.next.last_failure.as_ref().map(|failure| failure.class);
            self.park(class, reason, "remove the cause of the last failure, then retry now".to_owned());
        } else if self.map.has_step(state) {
            self.want_run();
        }
    }

    /// Counts entries since the last new fact.
    pub(super) fn looping(&mut self, state: M::State) -> bool {
        let facts = M::facts(&self.next.record);
        if self.news || facts != self.next.guard.facts || self.map.role(state) != Role::Active {
            self.next.guard = Guard { facts, entries: BTreeMap::new() };
        }
        let entries = self.next.guard.entries.entry(state.name().to_owned()).or_insert(0);
        *entries += 1;
        *entries > CYCLES_MAX
    }

    pub(super) fn want_run(&mut self) {
        let attempt = self.next.next_attempt();
        self.next.run = Some(StoredRun { version: self.next.version, attempt, started_at_ms: None });
    }

    pub(super) fn park(&mut self, class: Option<Class>, reason: String, next_action: String) {
        if let Some(run) = self.next.run.take() {
            self.ended_run = self.ended_run.or(Some(run.version));
        }
        self.clear_retry();
        self.next.parked = Some(Parked {
            reason: short(reason),
            class,
            next_action: short(next_action),
            since_ms: self.at_ms,
        });
    }

    pub(super) fn unpark(&mut self) {
        self.next.parked = None;
        self.clear_retry();
    }

    pub(super) fn clear_retry(&mut self) {
        if self.next.next_try_ms.take().is_some() {
            self.fx.timers.push(TimerChange::Clear { name: RETRY_TIMER.to_owned() });
        }
    }
}
