//! The rules a planner map is made of (SM-2).

use crate::effects::Effects;
use crate::{Failure, Machine};
use std::borrow::Cow;

/// A pure change of the record by an event.
pub type ApplyFn<M> = fn(&mut <M as Machine>::Record, &<M as Machine>::Event, &mut Effects<M>);
/// A pure change of the record by a failure.
pub type ApplyFailureFn<M> = fn(&mut <M as Machine>::Record, &Failure, &mut Effects<M>);
/// Chooses among listed targets, seeing the record after `apply`.
pub type ChooseFn<M> = fn(&<M as Machine>::Record, &<M as Machine>::Event) -> <M as Machine>::State;
/// Chooses among listed targets for a failure, seeing the record after `apply_failure`.
pub type ChooseFailureFn<M> = fn(&<M as Machine>::Record, &Failure) -> <M as Machine>::State;

/// What happens for one (state, event kind) or (state, failure class). Made by [`to`], [`one_of`], [`stay`], [`defer`],
/// [`ignore`], [`reject`], and for failures [`to`], [`one_of_failure`], [`retry`], [`park`].
pub struct Rule<M: Machine> {
    pub(crate) action: Action<M>,
    pub(crate) apply: Option<ApplyFn<M>>,
    pub(crate) apply_failure: Option<ApplyFailureFn<M>>,
}

/// What a rule does, apart from changing the record.
pub(crate) enum Action<M: Machine> {
    To(M::State),
    OneOf(Vec<M::State>, ChooseFn<M>),
    OneOfFailure(Vec<M::State>, ChooseFailureFn<M>),
    Stay,
    Defer,
    Ignore(Cow<'static, str>),
    Reject(Cow<'static, str>),
    Retry,
    Park(Cow<'static, str>),
}

impl<M: Machine> Clone for Action<M> {
    fn clone(&self) -> Self {
        match self {
            Action::To(state) => Action::To(*state),
            Action::OneOf(states, choose) => Action::OneOf(states.clone(), *choose),
            Action::OneOfFailure(states, choose) => Action::OneOfFailure(states.clone(), *choose),
            Action::Stay => Action::Stay,
            Action::Defer => Action::Defer,
            Action::Ignore(reason) => Action::Ignore(reason.clone()),
            Action::Reject(reason) => Action::Reject(reason.clone()),
            Action::Retry => Action::Retry,
            Action::Park(next) => Action::Park(next.clone()),
        }
    }
}

impl<M: Machine> Clone for Rule<M> {
    fn clone(&self) -> Self {
        Self { action: self.action.clone(), apply: self.apply, apply_failure: self.apply_failure }
    }
}

impl<M: Machine> Rule<M> {
    pub(crate) fn new(action: Action<M>) -> Self {
        Self { action, apply: None, apply_failure: None }
    }

    /// Changes the record by the event. Pure: reads nothing but record and event, causes nothing but effects (SM-3).
    #[must_use]
    pub fn apply(mut self, apply: ApplyFn<M>) -> Self {
        self.apply = Some(apply);
        self
    }

    /// Changes the record by the failure; for rules of failures.
    #[must_use]
    pub fn apply_failure(mut self, apply: ApplyFailureFn<M>) -> Self {
        self.apply_failure = Some(apply);
        self
    }

    /// The states it may lead to.
    pub(crate) fn targets(&self) -> &[M::State] {
        match &self.action {
            Action::To(state) => std::slice::from_ref(state),
            Action::OneOf(states, _) | Action::OneOfFailure(states, _) => states,
            _ => &[],
        }
    }

    pub(crate) fn moves(&self) -> bool {
        !self.targets().is_empty()
    }

    /// The word for the table and the diagram.
    pub(crate) fn word(&self) -> &'static str {
        match &self.action {
            Action::To(_) => "to",
            Action::OneOf(..) | Action::OneOfFailure(..) => "one of",
            Action::Stay => "stay",
            Action::Defer => "defer",
            Action::Ignore(_) => "ignore",
            Action::Reject(_) => "reject",
            Action::Retry => "retry",
            Action::Park(_) => "park",
        }
    }

    /// The reason or next action it names.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.action {
            Action::Ignore(text) | Action::Reject(text) | Action::Park(text) => Some(text),
            _ => None,
        }
    }
}

/// Goes to a state; entering it again counts (its run is started anew).
pub fn to<M: Machine>(state: M::State) -> Rule<M> {
    Rule::new(Action::To(state))
}

/// Goes to one of the listed states; `choose` sees the record after `apply`. Another than a listed one is a planner error.
pub fn one_of<M: Machine>(states: &[M::State], choose: ChooseFn<M>) -> Rule<M> {
    Rule::new(Action::OneOf(states.to_vec(), choose))
}

/// [`one_of`] for a failure.
pub fn one_of_failure<M: Machine>(states: &[M::State], choose: ChooseFailureFn<M>) -> Rule<M> {
    Rule::new(Action::OneOfFailure(states.to_vec(), choose))
}

/// Changes the record only; a run in progress goes on. As the rule of a control event it starts the run again.
pub fn stay<M: Machine>() -> Rule<M> {
    Rule::new(Action::Stay)
}

/// Keeps the event queued until the state changes.
pub fn defer<M: Machine>() -> Rule<M> {
    Rule::new(Action::Defer)
}

/// Journals the event with the reason, and nothing else.
pub fn ignore<M: Machine>(reason: impl Into<Cow<'static, str>>) -> Rule<M> {
    Rule::new(Action::Ignore(reason.into()))
}

/// Tells the sender why not, and journals it.
pub fn reject<M: Machine>(reason: impl Into<Cow<'static, str>>) -> Rule<M> {
    Rule::new(Action::Reject(reason.into()))
}

/// For failures: again after the state's delay; when the budget is spent, the state's `spent` rule.
pub fn retry<M: Machine>() -> Rule<M> {
    Rule::new(Action::Retry)
}

/// For failures: stops here until [`retry_now`](crate::Group::retry_now) or a control event; `next_action` says what a
/// person can do.
pub fn park<M: Machine>(next_action: impl Into<Cow<'static, str>>) -> Rule<M> {
    Rule::new(Action::Park(next_action.into()))
}
