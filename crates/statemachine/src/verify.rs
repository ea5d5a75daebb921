//! What is wrong with a planner map (SM-5). A map with findings is refused at open; a test of each map asserts that there
//! are none.

use crate::map::{Origin, PlannerMap, Role, Sender, StateSpec};
use crate::restart::moved_by;
use crate::rule::{Action, Rule};
use crate::{Class, Kind, Machine};
use std::collections::BTreeSet;
use std::fmt;

/// One thing that is wrong with a map.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// A state that the map does not name.
    MissingState {
        /// The state.
        state: &'static str,
    },
    /// An event kind without a declared sender.
    UndeclaredEvent {
        /// The kind.
        event: &'static str,
    },
    /// A pair without a rule.
    MissingRule {
        /// The state.
        state: &'static str,
        /// The kind.
        event: &'static str,
    },
    /// A failure class of a step without a rule.
    MissingFailureRule {
        /// The state.
        state: &'static str,
        /// The class.
        class: Class,
    },
    /// A step may send or end with an event that its state does not accept.
    NotAccepted {
        /// The state.
        state: &'static str,
        /// The kind.
        event: &'static str,
        /// What the rule does instead.
        rule: &'static str,
    },
    /// A state that nothing leads to (force does not count).
    Unreachable {
        /// The state.
        state: &'static str,
    },
    /// A state from which no final or resting state can be reached (force and control events do not count).
    NoWayOut {
        /// The state.
        state: &'static str,
    },
    /// A state that neither rests nor ends and has neither a step nor a timer, outbox row or subscription to wait for.
    Idle {
        /// The state.
        state: &'static str,
    },
    /// A rule that can never be used.
    NeverFires {
        /// The state.
        state: &'static str,
        /// The rule and why.
        what: String,
    },
    /// A rule of a kind that has no meaning in its place.
    Misplaced {
        /// The state, or nothing for a rule of all states.
        state: Option<&'static str>,
        /// The rule and why.
        what: String,
    },
    /// Something was said twice.
    Twice {
        /// The state, or nothing for the whole map.
        state: Option<&'static str>,
        /// What.
        what: String,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |state: &Option<&'static str>| state.unwrap_or("all states");
        match self {
            Finding::MissingState { state } => write!(f, "the state {state} is not in the map"),
            Finding::UndeclaredEvent { event } => write!(f, "who sends {event} is not declared"),
            Finding::MissingRule { state, event } => {
                write!(f, "{state} has no rule for {event} and no default")
            }
            Finding::MissingFailureRule { state, class } => {
                write!(f, "{state} has a step and no rule for failures of the class {class}")
            }
            Finding::NotAccepted { state, event, rule } => {
                write!(f, "the step of {state} may send {event}, whose rule there is {rule}")
            }
            Finding::Unreachable { state } => write!(f, "nothing leads to {state}"),
            Finding::NoWayOut { state } => write!(f, "no way leads from {state} to a final or resting state"),
            Finding::Idle { state } => write!(
                f,
                "{state} neither rests nor ends, and has neither a step nor a timer, outbox row or subscription to \
                 wait for"
            ),
            Finding::NeverFires { state, what } => write!(f, "in {state} {what}"),
            Finding::Misplaced { state, what } => write!(f, "in {} {what}", place(state)),
            Finding::Twice { state, what } => write!(f, "in {} {what} is there twice", place(state)),
        }
    }
}

impl<M: Machine> PlannerMap<M> {
    /// Everything that is wrong with the map, sorted; empty for a map that may run.
    pub fn verify(&self) -> Vec<Finding> {
        let mut findings = BTreeSet::new();
        self.check_names(&mut findings);
        self.check_rules(&mut findings);
        self.check_steps(&mut findings);
        self.check_ways(&mut findings);
        findings.into_iter().collect()
    }

    /// The pairs that fell to a state's default, for review: state, kind, what the default does.
    pub fn defaulted(&self) -> Vec<(M::State, M::EventKind, &'static str)> {
        let mut pairs = Vec::new();
        for state in M::State::ALL {
            for kind in M::EventKind::ALL {
                if let Some((rule, Origin::Default)) = self.rule(*state, *kind) {
                    pairs.push((*state, *kind, rule.word()));
                }
            }
        }
        pairs
    }

    fn check_names(&self, findings: &mut BTreeSet<Finding>) {
        for state in M::State::ALL {
            match self.states.get(state) {
                None => {
                    findings.insert(Finding::MissingState { state: state.name() });
                }
                Some(spec) if spec.named > 1 => {
                    let what = "the state's row".to_owned();
                    findings.insert(Finding::Twice { state: Some(state.name()), what });
                }
                Some(_) => {}
            }
        }
        for kind in M::EventKind::ALL {
            if !self.senders.contains_key(kind) {
                findings.insert(Finding::UndeclaredEvent { event: kind.name() });
            }
        }
        for (state, what) in &self.twice {
            findings.insert(Finding::Twice { state: state.map(Kind::name), what: what.clone() });
        }
    }

    fn check_rules(&self, findings: &mut BTreeSet<Finding>) {
        for (kind, rule) in &self.controls {
            if let Some(wrong) = wrong_for_event(rule) {
                let what = format!("the control event {} {wrong}", kind.name());
                findings.insert(Finding::Misplaced { state: None, what });
            }
            if matches!(rule.action, Action::Defer) {
                let what = format!("the control event {} is deferred", kind.name());
                findings.insert(Finding::Misplaced { state: None, what });
            }
            if !matches!(self.sender(*kind), Sender::Outside | Sender::Subscription) {
                let (event, sender) = (kind.name(), self.sender(*kind).name());
                let what = format!("the control event {event} is sent by a {sender}");
                findings.insert(Finding::Misplaced { state: None, what });
            }
        }
        for (class, rule) in &self.failures {
            if let Some(wrong) = wrong_for_failure(rule) {
                let what = format!("the failure class {class} {wrong}");
                findings.insert(Finding::Misplaced { state: None, what });
            }
        }
        for (state, spec) in &self.states {
            let name = state.name();
            for kind in M::EventKind::ALL {
                if self.rule(*state, *kind).is_none() {
                    findings.insert(Finding::MissingRule { state: name, event: kind.name() });
                }
            }
            self.check_state_rules(*state, spec, findings);
        }
    }

    fn check_state_rules(&self, state: M::State, spec: &StateSpec<M>, findings: &mut BTreeSet<Finding>) {
        let name = state.name();
        let mut misplaced = |what: String| findings.insert(Finding::Misplaced { state: Some(name), what });
        for (kind, rule) in &spec.rules {
            if let Some(wrong) = wrong_for_event(rule) {
                misplaced(format!("the rule of {} {wrong}", kind.name()));
            }
            if spec.role == Role::Final && rule.moves() {
                misplaced(format!("{} leads out of a final state", kind.name()));
            }
        }
        if let Some(rule) = &spec.otherwise {
            if let Some(wrong) = wrong_for_event(rule) {
                misplaced(format!("the default {wrong}"));
            }
            if !matches!(rule.action, Action::Ignore(_) | Action::Reject(_) | Action::Defer) {
                misplaced(format!("the default is {}, not reject, ignore or defer", rule.word()));
            }
        }
        for (class, rule) in &spec.failures {
            if let Some(wrong) = wrong_for_failure(rule) {
                misplaced(format!("the failure class {class} {wrong}"));
            }
        }
        if let Some(rule) = &spec.spent {
            let wrong = wrong_for_failure(rule);
            if wrong.is_some() || matches!(rule.action, Action::Retry) {
                misplaced(format!("the rule for a spent budget {}", wrong.unwrap_or("is retry".to_owned())));
            }
        }
        if spec.step && spec.role != Role::Active {
            misplaced("a step works in a state that rests or ends".to_owned());
        }
        if !spec.step {
            let mut never = |what: &str| {
                findings.insert(Finding::NeverFires { state: name, what: format!("{what}, without a step") });
            };
            for class in spec.failures.keys() {
                never(&format!("failures of the class {class} have a rule"));
            }
            if spec.spent.is_some() {
                never("a spent budget has a rule");
            }
            if !spec.needs.is_empty() {
                never("resources are needed");
            }
            if spec.soft_limit.is_some() || spec.hard_limit.is_some() {
                never("a time limit is set");
            }
            for (kind, rule) in &spec.rules {
                let does = !matches!(rule.action, Action::Ignore(_) | Action::Reject(_));
                if does && self.sender(*kind) == Sender::Step {
                    never(&format!("{}, sent by steps, has the rule {}", kind.name(), rule.word()));
                }
            }
        }
    }

    fn check_steps(&self, findings: &mut BTreeSet<Finding>) {
        for (state, spec) in &self.states {
            let name = state.name();
            if spec.step {
                for class in Class::ALL {
                    if self.failure_rule(*state, *class).is_none() {
                        findings.insert(Finding::MissingFailureRule { state: name, class: *class });
                    }
                }
                for kind in spec.yields.iter().flatten() {
                    let rule = self.rule(*state, *kind).map(|(rule, _)| rule);
                    let takes = rule.is_some_and(|rule| rule.moves() || matches!(rule.action, Action::Stay));
                    if !takes || self.sender(*kind) != Sender::Step {
                        let rule = rule.map_or("missing", Rule::word);
                        findings.insert(Finding::NotAccepted { state: name, event: kind.name(), rule });
                    }
                }
                if let Some(yields) = &spec.yields {
                    for (kind, rule) in &spec.rules {
                        let does = !matches!(rule.action, Action::Ignore(_) | Action::Reject(_));
                        if does && self.sender(*kind) == Sender::Step && !yields.contains(kind) {
                            let what = format!("{} is never sent by the step", kind.name());
                            findings.insert(Finding::NeverFires { state: name, what });
                        }
                    }
                }
            } else if spec.role == Role::Active {
                let moved = moved_by(self, *state);
                let waits = [Sender::Timer, Sender::Outbox, Sender::Subscription];
                if !waits.iter().any(|sender| moved.contains(sender)) {
                    findings.insert(Finding::Idle { state: name });
                }
            }
        }
    }

    fn check_ways(&self, findings: &mut BTreeSet<Finding>) {
        let mut reached = BTreeSet::from([self.initial]);
        loop {
            let next: BTreeSet<_> = reached
                .iter()
                .flat_map(|state| self.ways(*state, true))
                .chain(reached.iter().copied())
                .collect();
            if next.len() == reached.len() {
                break;
            }
            reached = next;
        }
        let mut ends: BTreeSet<_> = self
            .states
            .iter()
            .filter(|(_, spec)| spec.role != Role::Active)
            .map(|(state, _)| *state)
            .collect();
        loop {
            let before = ends.len();
            for state in self.states.keys() {
                if self.ways(*state, false).iter().any(|target| ends.contains(target)) {
                    ends.insert(*state);
                }
            }
            if ends.len() == before {
                break;
            }
        }
        for state in self.states.keys() {
            if !reached.contains(state) {
                findings.insert(Finding::Unreachable { state: state.name() });
            }
            if !ends.contains(state) {
                findings.insert(Finding::NoWayOut { state: state.name() });
            }
        }
    }

    /// The states that one event or failure may lead to.
    fn ways(&self, state: M::State, with_control: bool) -> BTreeSet<M::State> {
        let mut ways = BTreeSet::new();
        let step = self.has_step(state);
        for kind in M::EventKind::ALL {
            if let Some((rule, origin)) = self.rule(state, *kind)
                && (with_control || origin != Origin::Control)
                && (step || self.sender(*kind) != Sender::Step)
            {
                ways.extend(rule.targets());
            }
        }
        if step {
            for class in Class::ALL {
                let Some(rule) = self.failure_rule(state, *class) else { continue };
                ways.extend(rule.targets());
                let budget = self.retry_policy(state, *class).budget;
                if matches!(rule.action, Action::Retry) && budget.is_some() {
                    ways.extend(self.spent_rule(state).targets());
                }
            }
        }
        ways
    }
}

/// Why a rule cannot be one for an event.
fn wrong_for_event<M: Machine>(rule: &Rule<M>) -> Option<String> {
    match &rule.action {
        Action::OneOfFailure(..) | Action::Retry | Action::Park(_) => {
            Some(format!("is {}, a rule for failures", rule.word()))
        }
        _ if rule.apply_failure.is_some() => Some("has an apply_failure".to_owned()),
        Action::Defer | Action::Ignore(_) | Action::Reject(_) if rule.apply.is_some() => {
            Some(format!("is {} and has an apply, which is never called", rule.word()))
        }
        Action::OneOf(states, _) if states.is_empty() => Some("lists no state".to_owned()),
        _ => None,
    }
}

/// Why a rule cannot be one for a failure.
fn wrong_for_failure<M: Machine>(rule: &Rule<M>) -> Option<String> {
    match &rule.action {
        Action::To(_) | Action::Retry | Action::Park(_) => {
            rule.apply.is_some().then(|| "has an apply, which is for events".to_owned())
        }
        Action::OneOfFailure(states, _) if states.is_empty() => Some("lists no state".to_owned()),
        Action::OneOfFailure(..) => None,
        _ => Some(format!("is {}, a rule for events", rule.word())),
    }
}
