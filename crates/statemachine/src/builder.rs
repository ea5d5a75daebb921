//! How a planner map is written down: one readable table.

use crate::map::{PlannerMap, Role, Sender, StateSpec};
use crate::retry::RetryPolicy;
use crate::rule::{Action, Rule};
use crate::{Class, Kind, Machine};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Collects the table; [`build`](Self::build) gives the map. Mistakes are findings of
/// [`verify`](PlannerMap::verify), not panics.
pub struct MapBuilder<M: Machine>(PlannerMap<M>);

impl<M: Machine> MapBuilder<M> {
    pub(crate) fn new(initial: M::State) -> Self {
        Self(PlannerMap {
            initial,
            senders: BTreeMap::new(),
            controls: HashMap::new(),
            failures: BTreeMap::new(),
            retry: RetryPolicy::DEFAULT,
            states: BTreeMap::new(),
            ended: Rule::new(Action::Reject("the machine has ended".into())),
            ended_control: Rule::new(Action::Ignore("the machine has ended".into())),
            twice: Vec::new(),
        })
    }

    /// Declares who sends a kind of event. Every kind is declared here or by [`control`](Self::control).
    #[must_use]
    pub fn event(mut self, kind: M::EventKind, sender: Sender) -> Self {
        if self.0.senders.insert(kind, sender).is_some_and(|before| before != sender) {
            self.0.twice.push((None, format!("the sender of {}", kind.name())));
        }
        self
    }

    /// Declares several kinds of one sender.
    #[must_use]
    pub fn events(self, sender: Sender, kinds: &[M::EventKind]) -> Self {
        kinds.iter().fold(self, |map, kind| map.event(*kind, sender))
    }

    /// Declares a control event with its rule for all states (SM-11): planned before queued ordinary events, with a
    /// reserved place in the inbox; when its rule goes somewhere or stays, the run is cancelled. A state's own
    /// [`on`](StateBuilder::on) comes first, and in a final state it is ignored. The sender is outside unless declared.
    #[must_use]
    pub fn control(mut self, kind: M::EventKind, rule: Rule<M>) -> Self {
        self.0.senders.entry(kind).or_insert(Sender::Outside);
        if self.0.controls.insert(kind, rule).is_some() {
            self.0.twice.push((None, format!("the control event {}", kind.name())));
        }
        self
    }

    /// The rules of failure classes for all states with a step that do not say otherwise.
    #[must_use]
    pub fn failures(mut self, rules: &[(Class, Rule<M>)]) -> Self {
        for (class, rule) in rules {
            if self.0.failures.insert(*class, rule.clone()).is_some() {
                self.0.twice.push((None, format!("the failure class {class}")));
            }
        }
        self
    }

    /// The retry policy of states that have none of their own.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.0.retry = policy;
        self
    }

    /// A state's row.
    #[must_use]
    pub fn state(mut self, state: M::State, row: impl FnOnce(StateBuilder<M>) -> StateBuilder<M>) -> Self {
        let built = row(StateBuilder { state, spec: StateSpec::new(), twice: Vec::new() });
        self.0.twice.extend(built.twice.into_iter().map(|what| (Some(state), what)));
        match self.0.states.get_mut(&state) {
            Some(spec) => spec.named += 1,
            None => {
                self.0.states.insert(state, built.spec);
            }
        }
        self
    }

    /// The map. It still has to pass [`verify`](PlannerMap::verify); a group refuses one that does not.
    #[must_use]
    pub fn build(self) -> PlannerMap<M> {
        self.0
    }
}

/// One state's row of the table.
pub struct StateBuilder<M: Machine> {
    state: M::State,
    spec: StateSpec<M>,
    twice: Vec<String>,
}

impl<M: Machine> StateSpec<M> {
    fn new() -> Self {
        Self {
            role: Role::Active,
            step: false,
            yields: None,
            needs: Vec::new(),
            retry: None,
            retry_by_class: BTreeMap::new(),
            rules: HashMap::new(),
            failures: BTreeMap::new(),
            spent: None,
            otherwise: None,
            soft_limit: None,
            hard_limit: None,
            named: 1,
        }
    }
}

impl<M: Machine> StateBuilder<M> {
    /// The state whose row this is.
    pub fn name(&self) -> M::State {
        self.state
    }

    /// The state has asynchronous work, given to the group as its step.
    #[must_use]
    pub fn step(mut self) -> Self {
        self.spec.step = true;
        self
    }

    /// Which events the step may send or end with; by default the kinds sent by steps that this row has rules for.
    #[must_use]
    pub fn yields(mut self, kinds: &[M::EventKind]) -> Self {
        self.spec.yields = Some(kinds.to_vec());
        self
    }

    /// A run of this state holds so many units of a named resource (SM-18). May be repeated with other names.
    #[must_use]
    pub fn needs(mut self, resource: &str, units: u32) -> Self {
        if self.spec.needs.iter().any(|(name, _)| name == resource) {
            self.twice.push(format!("the resource {resource}"));
        } else {
            self.spec.needs.push((resource.to_owned(), units));
        }
        self
    }

    /// How failures of this state's step are retried.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.spec.retry = Some(policy);
        self
    }

    /// How failures of one class are retried here.
    #[must_use]
    pub fn retry_class(mut self, class: Class, policy: RetryPolicy) -> Self {
        self.spec.retry_by_class.insert(class, policy);
        self
    }

    /// The rule of an event kind in this state.
    #[must_use]
    pub fn on(mut self, kind: M::EventKind, rule: Rule<M>) -> Self {
        if self.spec.rules.insert(kind, rule).is_some() {
            self.twice.push(format!("the event {}", kind.name()));
        }
        self
    }

    /// One rule for several kinds.
    #[must_use]
    pub fn on_each(self, kinds: &[M::EventKind], rule: &Rule<M>) -> Self {
        kinds.iter().fold(self, |row, kind| row.on(*kind, rule.clone()))
    }

    /// The rule of a failure class of this state's step.
    #[must_use]
    pub fn fail(mut self, class: Class, rule: Rule<M>) -> Self {
        if self.spec.failures.insert(class, rule).is_some() {
            self.twice.push(format!("the failure class {class}"));
        }
        self
    }

    /// What happens when the retry budget is spent: [`to`](crate::to) a state or [`park`](crate::park).
    #[must_use]
    pub fn spent(mut self, rule: Rule<M>) -> Self {
        self.spec.spent = Some(rule);
        self
    }

    /// The rule of all kinds without one of their own here: reject, ignore or defer.
    #[must_use]
    pub fn otherwise(mut self, rule: Rule<M>) -> Self {
        self.spec.otherwise = Some(rule);
        self
    }

    /// A run longer than this is warned about and shown; a run longer than the hard limit is cancelled and has failed
    /// with [`Class::Timeout`].
    #[must_use]
    pub fn limits(mut self, soft: Option<Duration>, hard: Option<Duration>) -> Self {
        (self.spec.soft_limit, self.spec.hard_limit) = (soft, hard);
        self
    }

    /// Nothing to do here until somebody wants something.
    #[must_use]
    pub fn resting(mut self) -> Self {
        self.spec.role = Role::Resting;
        self
    }

    /// The end. Control events are ignored, others rejected, unless the row says otherwise.
    #[must_use]
    pub fn final_(mut self) -> Self {
        self.spec.role = Role::Final;
        self
    }
}
