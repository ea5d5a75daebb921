//! The planner map: the table (state, event kind) -> rule as data (SM-1, SM-2).

use crate::retry::RetryPolicy;
use crate::rule::{Action, Rule};
use crate::{Class, Kind, Machine};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

pub use crate::builder::{MapBuilder, StateBuilder};

/// Who sends the events of a kind (SM-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Sender {
    /// The step of the current state: its outcome or an event of its run.
    Step,
    /// A timer set by a transition.
    Timer,
    /// A settled outbox row.
    Outbox,
    /// A watcher that answers a stored interest.
    Subscription,
    /// An API call or another machine.
    Outside,
}

impl Sender {
    /// The word in tables and exports.
    pub fn name(self) -> &'static str {
        match self {
            Sender::Step => "step",
            Sender::Timer => "timer",
            Sender::Outbox => "outbox",
            Sender::Subscription => "subscription",
            Sender::Outside => "outside",
        }
    }
}

/// What kind of place a state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Its step works, or it waits for a timer, an outbox row or a subscription.
    Active,
    /// Nothing to do until somebody wants something.
    Resting,
    /// The end: no rule leads out of it.
    Final,
}

/// Which source a resolved rule has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The state's own row.
    Explicit,
    /// The control rule of all states.
    Control,
    /// The state's default, or the end's.
    Default,
}

pub(crate) struct StateSpec<M: Machine> {
    pub(crate) role: Role,
    pub(crate) step: bool,
    pub(crate) yields: Option<Vec<M::EventKind>>,
    pub(crate) needs: Vec<(String, u32)>,
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) retry_by_class: BTreeMap<Class, RetryPolicy>,
    pub(crate) rules: HashMap<M::EventKind, Rule<M>>,
    pub(crate) failures: BTreeMap<Class, Rule<M>>,
    pub(crate) spent: Option<Rule<M>>,
    pub(crate) otherwise: Option<Rule<M>>,
    pub(crate) soft_limit: Option<Duration>,
    pub(crate) hard_limit: Option<Duration>,
    /// How often the map named this state: 1 unless it was written twice.
    pub(crate) named: u32,
}

/// The whole behaviour of a kind of machine, as a table. Build it with [`PlannerMap::builder`], check it with
/// [`verify`](PlannerMap::verify), draw it with [`mermaid`](PlannerMap::mermaid).
pub struct PlannerMap<M: Machine> {
    pub(crate) initial: M::State,
    pub(crate) senders: BTreeMap<M::EventKind, Sender>,
    pub(crate) controls: HashMap<M::EventKind, Rule<M>>,
    pub(crate) failures: BTreeMap<Class, Rule<M>>,
    pub(crate) retry: RetryPolicy,
    pub(crate) states: BTreeMap<M::State, StateSpec<M>>,
    pub(crate) ended: Rule<M>,
    pub(crate) ended_control: Rule<M>,
    /// Event kinds and classes that were given two rules in one place, as text.
    pub(crate) twice: Vec<(Option<M::State>, String)>,
}

/// Budget of the engine's defaults for panics and time-outs.
pub(crate) const ENGINE_BUDGET: u32 = 3;

impl<M: Machine> PlannerMap<M> {
    /// Begins a map whose machines are created in `initial`.
    pub fn builder(initial: M::State) -> MapBuilder<M> {
        MapBuilder::new(initial)
    }

    /// The state of new machines.
    pub fn initial(&self) -> M::State {
        self.initial
    }

    /// What kind of place a state is; [`Role::Active`] for one the map does not name.
    pub fn role(&self, state: M::State) -> Role {
        self.states.get(&state).map_or(Role::Active, |spec| spec.role)
    }

    /// Whether a state has a step.
    pub fn has_step(&self, state: M::State) -> bool {
        self.states.get(&state).is_some_and(|spec| spec.step)
    }

    /// What a state's runs must hold: named counted resources.
    pub fn needs(&self, state: M::State) -> &[(String, u32)] {
        self.states.get(&state).map_or(&[], |spec| &spec.needs)
    }

    /// Whether the kind is a control event: planned before queued ordinary ones, and cancelling the run.
    pub fn is_control(&self, kind: M::EventKind) -> bool {
        self.controls.contains_key(&kind)
    }

    /// Who sends a kind; [`Sender::Outside`] for one the map does not declare.
    pub fn sender(&self, kind: M::EventKind) -> Sender {
        self.senders.get(&kind).copied().unwrap_or(Sender::Outside)
    }

    /// The one rule for a pair: the state's own, else the control rule, else the state's default. `None` only in a map
    /// with findings.
    pub(crate) fn rule(&self, state: M::State, kind: M::EventKind) -> Option<(&Rule<M>, Origin)> {
        let spec = self.states.get(&state)?;
        if let Some(rule) = spec.rules.get(&kind) {
            return Some((rule, Origin::Explicit));
        }
        if let Some(control) = self.controls.get(&kind) {
            return Some(match spec.role {
                Role::Final => (&self.ended_control, Origin::Default),
                _ => (control, Origin::Control),
            });
        }
        let default = spec.otherwise.as_ref().or((spec.role == Role::Final).then_some(&self.ended));
        default.map(|rule| (rule, Origin::Default))
    }

    /// The rule for a failure of a state's step: the state's own, the map's, the engine's.
    pub(crate) fn failure_rule(&self, state: M::State, class: Class) -> Option<Rule<M>> {
        let own = self.states.get(&state).and_then(|spec| spec.failures.get(&class));
        own.or_else(|| self.failures.get(&class)).cloned().or_else(|| engine_rule(class))
    }

    /// The retry policy for a state and class.
    pub fn retry_policy(&self, state: M::State, class: Class) -> RetryPolicy {
        let spec = self.states.get(&state);
        let own = spec.and_then(|spec| spec.retry_by_class.get(&class).copied().or(spec.retry));
        let mut policy = own.unwrap_or(self.retry);
        // A step that panics or hangs each time is not waited for without end, unless the map says so for the class.
        let engine_made = matches!(class, Class::Panic | Class::Timeout)
            && !spec.is_some_and(|spec| spec.retry_by_class.contains_key(&class));
        if engine_made && policy.budget.is_none() {
            policy.budget = Some(ENGINE_BUDGET);
        }
        policy
    }

    /// What happens when the budget is spent.
    pub(crate) fn spent_rule(&self, state: M::State) -> Rule<M> {
        self.states.get(&state).and_then(|spec| spec.spent.clone()).unwrap_or_else(|| {
            Rule::new(Action::Park("find the cause of the last failure, then retry now".into()))
        })
    }

    /// Soft and hard time limit of a state's runs, in milliseconds.
    pub(crate) fn limits_ms(&self, state: M::State) -> (Option<u64>, Option<u64>) {
        let spec = self.states.get(&state);
        let soft = spec.and_then(|spec| spec.soft_limit).map(crate::retry::millis);
        (soft, spec.and_then(|spec| spec.hard_limit).map(crate::retry::millis))
    }

    /// The kinds that would do something in a state: its legal next events.
    pub fn legal_events(&self, state: M::State) -> Vec<M::EventKind> {
        let does = |kind: &M::EventKind| {
            self.rule(state, *kind).is_some_and(|(rule, _)| {
                matches!(rule.action, Action::To(_) | Action::OneOf(..) | Action::Stay | Action::Defer)
            })
        };
        M::EventKind::ALL.iter().copied().filter(does).collect()
    }
}

/// What the engine does with a class that neither state nor map names. `None`: the map must say.
fn engine_rule<M: Machine>(class: Class) -> Option<Rule<M>> {
    match class {
        Class::Transient
        | Class::Capacity
        | Class::WorkerLost
        | Class::Panic
        | Class::Timeout
        | Class::Cancelled => Some(Rule::new(Action::Retry)),
        Class::NeedsPerson => {
            Some(Rule::new(Action::Park("see the failure's message, then retry now".into())))
        }
        Class::CorruptInput | Class::InvalidOutput | Class::Rejected | Class::Expired | Class::Permanent => {
            None
        }
    }
}
