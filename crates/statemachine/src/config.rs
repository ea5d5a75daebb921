//! What a group is built from.

use crate::map::PlannerMap;
use crate::outbox::EffectHandler;
use crate::step::Step;
use crate::{Machine, OpenError};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The steps of a group, by state.
pub struct Steps<M: Machine>(pub(crate) BTreeMap<M::State, Arc<dyn Step<M>>>);

impl<M: Machine> Steps<M> {
    /// No steps.
    pub fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// The step of a state.
    #[must_use]
    pub fn add(mut self, state: M::State, step: Arc<dyn Step<M>>) -> Self {
        self.0.insert(state, step);
        self
    }
}

impl<M: Machine> Default for Steps<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// What a group is built from, and its limits. [`GroupConfig::new`] has the defaults.
pub struct GroupConfig<M: Machine> {
    /// The planner map; it must have no findings.
    pub map: Arc<PlannerMap<M>>,
    /// One step per state that has one.
    pub steps: Steps<M>,
    /// One handler per kind of intent.
    pub effects: Vec<(&'static str, Arc<dyn EffectHandler<M>>)>,
    /// Named counted resources and how many units there are.
    pub resources: Vec<(String, u32)>,
    /// How many ordinary events may wait per machine (default 256). Control events, outcomes, timers and outbox results
    /// have places of their own.
    pub inbox_limit: usize,
    /// Beyond this many planned events per machine and minute planning is delayed (default 600, SM-12). Events of a run
    /// and control events do not count.
    pub events_per_minute: u32,
    /// How often outbox rows are polled (default 5 s).
    pub poll_interval: Duration,
    /// The limit of one call of an outbox handler (default 60 s).
    pub handler_limit: Duration,
    /// How long a cancelled run has to end before its future is dropped (default 5 s). The next run of the machine, and
    /// its resources, wait for it.
    pub grace: Duration,
    /// At open so many machines are restarted, then [`restart_pause`](Self::restart_pause) (default 64, SM-19).
    pub restart_batch: usize,
    /// The pause between two batches at open (default 20 ms).
    pub restart_pause: Duration,
    /// How many idle machines stay in memory (default 4096).
    pub keep_loaded: usize,
    /// How many changes a slow reader of [`watch`](crate::Group::watch) may be behind (default 4096).
    pub watch_buffer: usize,
}

impl<M: Machine> GroupConfig<M> {
    /// The defaults for a map.
    pub fn new(map: impl Into<Arc<PlannerMap<M>>>) -> Self {
        Self {
            map: map.into(),
            steps: Steps::new(),
            effects: Vec::new(),
            resources: Vec::new(),
            inbox_limit: 256,
            events_per_minute: 600,
            poll_interval: Duration::from_secs(5),
            handler_limit: Duration::from_secs(60),
            grace: Duration::from_secs(5),
            restart_batch: 64,
            restart_pause: Duration::from_millis(20),
            keep_loaded: 4096,
            watch_buffer: 4096,
        }
    }

    /// Adds a state's step.
    #[must_use]
    pub fn step(mut self, state: M::State, step: Arc<dyn Step<M>>) -> Self {
        self.steps = self.steps.add(state, step);
        self
    }

    /// Adds the handler of a kind of intent.
    #[must_use]
    pub fn effect(mut self, kind: &'static str, handler: Arc<dyn EffectHandler<M>>) -> Self {
        self.effects.push((kind, handler));
        self
    }

    /// Adds a resource.
    #[must_use]
    pub fn resource(mut self, name: &str, units: u32) -> Self {
        self.resources.push((name.to_owned(), units));
        self
    }

    /// Whether map, steps, handlers and resources fit each other.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let findings = self.map.verify();
        if !findings.is_empty() {
            let findings = findings.iter().map(ToString::to_string).collect();
            return Err(OpenError::Map { machine: M::NAME, findings });
        }
        let wrong = |reason: String| Err(OpenError::Config { machine: M::NAME, reason });
        for (state, spec) in &self.map.states {
            match (spec.step, self.steps.0.contains_key(state)) {
                (true, false) => return wrong(format!("the state {state:?} has a step, and none was given")),
                (false, true) => return wrong(format!("a step was given for {state:?}, which has none")),
                _ => {}
            }
            for (name, units) in &spec.needs {
                match self.resources.iter().find(|(resource, _)| resource == name) {
                    None => return wrong(format!("{state:?} needs {name:?}, which is no resource")),
                    Some((_, have)) if have < units => {
                        return wrong(format!("{state:?} needs {units} of {name:?}, there are {have}"));
                    }
                    Some(_) => {}
                }
            }
        }
        for (index, (kind, _)) in self.effects.iter().enumerate() {
            if self.effects[..index].iter().any(|(before, _)| before == kind) {
                return wrong(format!("the intent kind {kind:?} has two handlers"));
            }
        }
        if M::NAME.is_empty() || !M::NAME.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        {
            return wrong("its name must be ASCII letters, digits, - and _".to_owned());
        }
        Ok(())
    }
}
