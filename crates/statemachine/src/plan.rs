//! The pure core: a machine's row and an input give the next row and what to write beside it (SM-3). No I/O, no clock;
//! the journal keeps the inputs, so that folding them again gives the same rows, byte for byte.

mod moves;

use crate::effects::{EFFECTS_MAX, Effects, NewIntent, TimerChange};
use crate::failure::{clip, panic_text};
use crate::group::Verdict;
use crate::map::{PlannerMap, Sender};
use crate::rule::{Action, Rule};
use crate::stored::{
    Entry, Failures, Guard, Input, InputOf, LastFailure, Outcome, RETRY_TIMER, Ruling, SCHEMA, Stored,
    StoredOf, Trouble,
};
use crate::{Class, Failure, Kind, Machine, MachineId};
use statestore::{VALUE_BYTES_MAX, codec};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What an application may use of a row; the rest is for the engine's own bounded fields, so that a refusal always fits.
pub(crate) const ROW_BYTES_MAX: usize = VALUE_BYTES_MAX - 16 * 1024;
/// The largest event, payload or timer event. What surrounds it in a row or entry fits in the rest.
pub(crate) const EVENT_BYTES_MAX: usize = VALUE_BYTES_MAX - 8 * 1024;
/// A state entered so often without a new fact parks the machine (SM-12).
const CYCLES_MAX: u32 = 8;
/// The longest reason kept in a row.
const REASON_BYTES_MAX: usize = 1024;

/// What an input leads to.
pub(crate) enum Planned<M: Machine> {
    /// A commit.
    Commit(Box<Plan<M>>),
    /// The rule says to wait until the state changes: nothing is written.
    Defer,
    /// The input belongs to a run that was fenced off.
    Fenced,
    /// A run sent an event whose rule is not `stay`: its own mistake, nothing is written.
    Misuse(String),
}

/// One commit.
pub(crate) struct Plan<M: Machine> {
    pub(crate) next: StoredOf<M>,
    /// The encoded row.
    pub(crate) bytes: Vec<u8>,
    /// The encoded journal entry.
    pub(crate) entry: Vec<u8>,
    pub(crate) reply: Reply<M::State>,
    pub(crate) timers: Vec<TimerChange<M::Event>>,
    pub(crate) intents: Vec<NewIntent>,
    pub(crate) withdrawn: Vec<String>,
}

/// What the sender is told.
#[derive(Debug, Clone)]
pub(crate) enum Reply<S> {
    Done(Verdict<S>),
    Rejected(String),
    Refused(String),
}

/// Plans one input. Never panics and always has an answer: errors of `apply` functions, panics among them, become a
/// refusal that is itself planned and journalled (SM-13).
pub(crate) fn plan<M: Machine>(
    map: &PlannerMap<M>,
    id: &MachineId,
    current: Option<&StoredOf<M>>,
    input: &InputOf<M>,
    at_ms: u64,
) -> Planned<M> {
    let tried = catch_unwind(AssertUnwindSafe(|| Planner::new(map, id, current, input, at_ms)?.run(input)));
    let reason = match tried {
        Ok(Ok(planned)) => return planned,
        Ok(Err(reason)) => reason,
        Err(panic) => format!("planning panicked: {}", panic_text(panic.as_ref())),
    };
    let refused = refusal::<M>(input, &reason);
    let second = catch_unwind(AssertUnwindSafe(|| {
        let mut planner = Planner::new(map, id, current, &refused, at_ms)?;
        planner.row_limit = VALUE_BYTES_MAX;
        planner.run(&refused)
    }));
    match second {
        Ok(Ok(planned)) => planned,
        // Only a machine that does not exist yet comes here: nothing to write, only to answer.
        _ => Planned::Misuse(reason),
    }
}

/// The refusal of an input, as an input.
fn refusal<M: Machine>(input: &InputOf<M>, reason: &str) -> InputOf<M> {
    let (what, run, from_engine) = match input {
        Input::Event { event, source, .. } => {
            (M::kind(event).name(), None, !matches!(source, Sender::Outside | Sender::Subscription))
        }
        Input::RunEnded { run, outcome: Outcome::Event(event) } => (M::kind(event).name(), Some(*run), true),
        Input::RunEnded { run, outcome: Outcome::Failure(failure) } => {
            (failure.class.name(), Some(*run), true)
        }
        Input::Created { .. } => ("the creation", None, false),
        Input::RunStarted { run } => ("the start of a run", Some(*run), true),
        Input::Interrupted { run, .. } => ("the interruption of a run", Some(*run), true),
        Input::RetryDue | Input::RetryNow => ("the next attempt", None, true),
        Input::Abort { .. } => ("abort", None, false),
        Input::Force { .. } => ("force", None, false),
        Input::Stuck { .. } => ("the check at open", None, false),
        Input::Refused { .. } => ("a refusal", None, false),
    };
    Input::Refused { what: what.to_owned(), reason: short(reason.to_owned()), run, from_engine }
}

struct Planner<'a, M: Machine> {
    map: &'a PlannerMap<M>,
    id: &'a MachineId,
    from: Option<M::State>,
    next: StoredOf<M>,
    fx: Effects<M>,
    at_ms: u64,
    note: Option<String>,
    ended_run: Option<u64>,
    /// Whether the input itself is a new fact (SM-12).
    news: bool,
    row_limit: usize,
}

type Step<T> = Result<T, String>;

impl<'a, M: Machine> Planner<'a, M> {
    fn new(
        map: &'a PlannerMap<M>,
        id: &'a MachineId,
        current: Option<&StoredOf<M>>,
        input: &InputOf<M>,
        at_ms: u64,
    ) -> Step<Self> {
        let from = current.map(|row| row.state);
        let mut next = match (current, input) {
            (Some(row), _) => row.clone(),
            (None, Input::Created { record }) => new_row(map.initial, record.clone(), at_ms),
            (None, _) => return Err("there is no such machine".to_owned()),
        };
        next.version += 1;
        // Time never runs backwards within a machine, whatever the clock does.
        let at_ms = at_ms.max(next.changed_at_ms);
        next.changed_at_ms = at_ms;
        let fx = Effects::new(id.clone(), next.version, at_ms);
        Ok(Self {
            map,
            id,
            from,
            next,
            fx,
            at_ms,
            note: None,
            ended_run: None,
            news: false,
            row_limit: ROW_BYTES_MAX,
        })
    }

    fn run(mut self, input: &InputOf<M>) -> Step<Planned<M>> {
        let reply = match input {
            Input::Created { .. } => {
                self.enter(self.map.initial);
                Reply::Done(Verdict::Stayed)
            }
            Input::Event { event, source, run } => match self.event(event, *source, *run)? {
                Ok(reply) => reply,
                Err(planned) => return Ok(planned),
            },
            Input::RunStarted { run } => {
                let (at_ms, wanted) = (self.at_ms, self.next.run.as_mut());
                match wanted.filter(|wanted| wanted.version == *run && wanted.started_at_ms.is_none()) {
                    Some(wanted) => wanted.started_at_ms = Some(at_ms),
                    None => return Ok(Planned::Fenced),
                }
                Reply::Done(Verdict::Stayed)
            }
            Input::RunEnded { run, outcome } => {
                if self.next.run.as_ref().map(|wanted| wanted.version) != Some(*run) {
                    return Ok(Planned::Fenced);
                }
                let started = self.next.run.take().and_then(|run| run.started_at_ms);
                self.ended_run = Some(*run);
                match outcome {
                    Outcome::Event(event) => self.outcome(event)?,
                    Outcome::Failure(failure) => {
                        self.failed(failure, self.at_ms.saturating_sub(started.unwrap_or(self.at_ms)))?
                    }
                }
            }
            Input::Interrupted { run, .. } => {
                if self.next.run.as_ref().map(|wanted| wanted.version) != Some(*run) {
                    return Ok(Planned::Fenced);
                }
                self.ended_run = Some(*run);
                self.want_run();
                Reply::Done(Verdict::Stayed)
            }
            Input::RetryDue => self.retry_due(),
            Input::RetryNow => self.retry_now(),
            Input::Abort { reason } => self.abort(reason),
            Input::Force { state, reason } => {
                let state = M::State::parse(state).ok_or_else(|| format!("there is no state {state:?}"))?;
                self.news = true;
                self.note = Some(short(format!("forced: {reason}")));
                self.go(state)
            }
            Input::Stuck { version, reason } => {
                if self.next.version != version + 1 {
                    return Ok(Planned::Fenced);
                }
                self.park(None, reason.clone(), "force a state, or send an event".to_owned());
                Reply::Done(Verdict::Stayed)
            }
            Input::Refused { what, reason, run, from_engine } => {
                self.refused(what, reason, *run, *from_engine)
            }
        };
        self.finish(input, reply).map(|plan| Planned::Commit(Box::new(plan)))
    }

    /// An event from the inbox, a timer, the outbox or the run.
    fn event(
        &mut self,
        event: &M::Event,
        source: Sender,
        run: Option<u64>,
    ) -> Step<Result<Reply<M::State>, Planned<M>>> {
        let kind = M::kind(event);
        let state = self.next.state;
        let map = self.map;
        let Some((rule, _)) = map.rule(state, kind) else {
            return Ok(Ok(Reply::Rejected(format!("no rule for {} in {}", kind.name(), state.name()))));
        };
        if let Some(run) = run {
            if self.next.run.as_ref().map(|wanted| wanted.version) != Some(run) {
                return Ok(Err(Planned::Fenced));
            }
            if !matches!(rule.action, Action::Stay) {
                let (event, word) = (kind.name(), rule.word());
                return Ok(Err(Planned::Misuse(format!(
                    "the rule of {event} in {} is {word}",
                    state.name()
                ))));
            }
        }
        self.news = matches!(source, Sender::Outside | Sender::Subscription);
        let control = map.is_control(kind);
        Ok(Ok(match &rule.action {
            Action::Ignore(reason) => {
                self.note = Some(reason.to_string());
                Reply::Done(Verdict::Ignored { reason: reason.to_string() })
            }
            Action::Reject(reason) => {
                self.note = Some(reason.to_string());
                Reply::Rejected(reason.to_string())
            }
            Action::Defer => return Ok(Err(Planned::Defer)),
            Action::Stay => {
                self.apply(rule, event)?;
                if control && map.has_step(state) {
                    self.ended_run = self.next.run.as_ref().map(|run| run.version);
                    self.unpark();
                    self.want_run();
                }
                Reply::Done(Verdict::Stayed)
            }
            Action::To(_) | Action::OneOf(..) => {
                let target = self.apply_and_choose(rule, event)?;
                self.go(target)
            }
            Action::OneOfFailure(..) | Action::Retry | Action::Park(_) => {
                return Err(format!("{} is a rule for failures", rule.word()));
            }
        }))
    }

    /// A run ended with an event.
    fn outcome(&mut self, event: &M::Event) -> Step<Reply<M::State>> {
        let state = self.next.state;
        let kind = M::kind(event);
        let map = self.map;
        match map.rule(state, kind) {
            Some((rule, _)) if rule.moves() => {
                let target = self.apply_and_choose(rule, event)?;
                self.next.failures.remove(state.name());
                Ok(self.go(target))
            }
            // The step has nothing more to do, yet its state goes on: it is asked again, with the delays of a retry, so
            // that the machine is neither stuck nor spinning.
            Some((rule, _)) if matches!(rule.action, Action::Stay) => {
                self.apply(rule, event)?;
                let text =
                    format!("the step ended with {}, which does not leave {}", kind.name(), state.name());
                self.failed(&Failure::transient(text), 0)
            }
            _ => Err(format!("the step ended with {}, which {} does not take", kind.name(), state.name())),
        }
    }

    fn failed(&mut self, failure: &Failure, lived_ms: u64) -> Step<Reply<M::State>> {
        let state = self.next.state;
        let policy = self.map.retry_policy(state, failure.class);
        let at_ms = self.at_ms;
        self.next.last_failure = Some(LastFailure {
            class: failure.class,
            message: short(failure.message.clone()),
            state: state.name().to_owned(),
            made_by: failure.made_by.clone().map(short),
            at_ms,
        });
        let classes = self.next.failures.entry(state.name().to_owned()).or_default();
        if lived_ms >= crate::retry::millis(policy.healthy) {
            classes.clear();
        }
        let count = classes.entry(failure.class).or_insert(Failures {
            count: 0,
            first_at_ms: at_ms,
            last_at_ms: at_ms,
        });
        count.count = count.count.saturating_add(1);
        count.last_at_ms = at_ms;
        let count = count.count;
        let rule = self.map.failure_rule(state, failure.class);
        let rule = rule.ok_or_else(|| format!("no rule for {} in {}", failure.class, state.name()))?;
        self.apply_failure(&rule, failure)?;
        match &rule.action {
            Action::Retry if policy.budget.is_some_and(|budget| count > budget) => {
                let spent = self.map.spent_rule(state);
                self.apply_failure(&spent, failure)?;
                let reason = format!("{count} failures, the budget is spent; the last: {failure}");
                self.note = Some(short(reason.clone()));
                self.by_failure(&spent, failure, reason)
            }
            Action::Retry => {
                let next_try_ms =
                    at_ms.saturating_add(policy.delay_ms(self.id.as_str(), state.name(), count));
                self.next.next_try_ms = Some(next_try_ms);
                let name = RETRY_TIMER.to_owned();
                self.fx.timers.push(TimerChange::Set { name, at_ms: next_try_ms, event: None });
                Ok(Reply::Done(Verdict::Stayed))
            }
            _ => self.by_failure(&rule, failure, failure.to_string()),
        }
    }

    /// Goes or parks as a failure's rule says.
    fn by_failure(&mut self, rule: &Rule<M>, failure: &Failure, reason: String) -> Step<Reply<M::State>> {
        match &rule.action {
            Action::To(state) => Ok(self.go(*state)),
            Action::OneOfFailure(states, choose) => {
                let target = choose(&self.next.record, failure);
                listed::<M>(states, target)?;
                Ok(self.go(target))
            }
            Action::Park(next_action) => {
                self.park(Some(failure.class), reason, next_action.to_string());
                Ok(Reply::Done(Verdict::Stayed))
            }
            _ => Err(format!("{} is no rule for a failure", rule.word())),
        }
    }

    fn retry_due(&mut self) -> Reply<M::State> {
        self.clear_retry();
        if self.next.run.is_none() && self.next.parked.is_none() && self.map.has_step(self.next.state) {
            self.want_run();
            Reply::Done(Verdict::Stayed)
        } else {
            ignored(&mut self.note, "nothing to retry")
        }
    }

    fn retry_now(&mut self) -> Reply<M::State> {
        if let Some(run) = &self.next.run {
            let what = if run.started_at_ms.is_some() { "in progress" } else { "waiting for its resources" };
            return ignored(&mut self.note, &format!("the run is {what}"));
        }
        let waits = self.next.parked.is_some() || self.next.next_try_ms.is_some();
        if !waits && !self.map.has_step(self.next.state) {
            return ignored(&mut self.note, "nothing to retry");
        }
        self.unpark();
        self.next.guard = Guard::default();
        self.next.failures.remove(self.next.state.name());
        if self.map.has_step(self.next.state) {
            self.want_run();
        }
        Reply::Done(Verdict::Stayed)
    }

    fn abort(&mut self, reason: &str) -> Reply<M::State> {
        if self.next.run.is_none() && self.next.next_try_ms.is_none() {
            return ignored(&mut self.note, "no run to abort");
        }
        let why = if reason.is_empty() { "aborted by hand".to_owned() } else { format!("aborted: {reason}") };
        self.park(Some(Class::Cancelled), why, "retry now".to_owned());
        Reply::Done(Verdict::Stayed)
    }

    fn refused(&mut self, what: &str, reason: &str, run: Option<u64>, from_engine: bool) -> Reply<M::State> {
        let trouble = Trouble { what: what.to_owned(), reason: reason.to_owned(), at_ms: self.at_ms };
        self.next.trouble = Some(trouble);
        if run.is_some() && self.next.run.as_ref().map(|run| run.version) == run {
            self.ended_run = run;
            self.next.run = None;
        }
        // Without its outcome, timer or outbox result the machine would stand still and not say so.
        if from_engine && self.next.run.is_none() && self.next.parked.is_none() {
            let why = format!("planning {what} failed: {reason}");
            self.park(None, why, "find the cause, then retry now or force a state".to_owned());
        }
        Reply::Refused(reason.to_owned())
    }

    fn apply(&mut self, rule: &Rule<M>, event: &M::Event) -> Step<()> {
        if let Some(apply) = rule.apply {
            apply(&mut self.next.record, event, &mut self.fx);
        }
        self.check_effects()
    }

    fn apply_failure(&mut self, rule: &Rule<M>, failure: &Failure) -> Step<()> {
        if let Some(apply) = rule.apply_failure {
            apply(&mut self.next.record, failure, &mut self.fx);
        }
        self.check_effects()
    }

    fn apply_and_choose(&mut self, rule: &Rule<M>, event: &M::Event) -> Step<M::State> {
        self.apply(rule, event)?;
        match &rule.action {
            Action::To(state) => Ok(*state),
            Action::OneOf(states, choose) => {
                let target = choose(&self.next.record, event);
                listed::<M>(states, target)?;
                Ok(target)
            }
            _ => Err(format!("{} goes nowhere", rule.word())),
        }
    }

    fn check_effects(&self) -> Step<()> {
        if let Some(error) = &self.fx.error {
            return Err(format!("an intent's payload: {error}"));
        }
        if self.fx.len() > EFFECTS_MAX {
            return Err(format!("{} effects, at most {EFFECTS_MAX} of one transition", self.fx.len()));
        }
        for intent in &self.fx.intents {
            if intent.payload.len() > EVENT_BYTES_MAX {
                let (kind, bytes) = (&intent.kind, intent.payload.len());
                return Err(format!("the intent {kind} has {bytes} bytes, at most {EVENT_BYTES_MAX}"));
            }
        }
        for timer in &self.fx.timers {
            let (TimerChange::Set { name, .. } | TimerChange::Clear { name }) = timer;
            let engine = name == RETRY_TIMER && matches!(timer, TimerChange::Set { event: Some(_), .. });
            if name.is_empty() || name.len() > 128 || name.chars().any(char::is_control) || engine {
                return Err(format!("{name:?} is no name of a timer"));
            }
            if let TimerChange::Set { event: Some(event), .. } = timer {
                let bytes =
                    codec::encode_bare(event).map_err(|error| format!("the timer {name}: {error}"))?;
                if bytes.len() > EVENT_BYTES_MAX {
                    return Err(format!(
                        "the timer {name} has {} bytes, at most {EVENT_BYTES_MAX}",
                        bytes.len()
                    ));
                }
            }
        }
        Ok(())
    }

    fn finish(self, input: &InputOf<M>, reply: Reply<M::State>) -> Step<Plan<M>> {
        let ruling = match &reply {
            Reply::Done(Verdict::Moved { .. }) => Ruling::Moved,
            Reply::Done(Verdict::Stayed | Verdict::Deferred) => Ruling::Stayed,
            Reply::Done(Verdict::Ignored { .. }) => Ruling::Ignored,
            Reply::Rejected(_) => Ruling::Rejected,
            Reply::Refused(_) => Ruling::Refused,
        };
        let bytes = codec::encode(SCHEMA, &self.next).map_err(|error| error.to_string())?;
        if bytes.len() > self.row_limit {
            return Err(format!(
                "the record of {} {} would have {} bytes, at most {} are stored; move large data into a file",
                M::NAME,
                self.id,
                bytes.len(),
                self.row_limit
            ));
        }
        let entry = Entry::Step {
            at_ms: self.at_ms,
            version: self.next.version,
            from: self.from.map(|state| state.name().to_owned()),
            to: self.next.state.name().to_owned(),
            ruling,
            note: self.note.map(clip),
            ended_run: self.ended_run,
            input: input.clone(),
        };
        let entry = codec::encode(SCHEMA, &entry).map_err(|error| error.to_string())?;
        if entry.len() > VALUE_BYTES_MAX {
            return Err(format!(
                "the journal entry of {} {} would have {} bytes, at most {VALUE_BYTES_MAX}",
                M::NAME,
                self.id,
                entry.len()
            ));
        }
        let Effects { intents, timers, withdrawn, .. } = self.fx;
        Ok(Plan { next: self.next, bytes, entry, reply, timers, intents, withdrawn })
    }
}

fn new_row<S: Kind, R>(state: S, record: R, at_ms: u64) -> Stored<S, R> {
    Stored {
        state,
        version: 0,
        created_at_ms: at_ms,
        changed_at_ms: at_ms,
        entered_at_ms: at_ms,
        entered_version: 1,
        run: None,
        failures: BTreeMap::new(),
        next_try_ms: None,
        last_failure: None,
        parked: None,
        guard: Guard::default(),
        trouble: None,
        record,
    }
}

fn ignored<S>(note: &mut Option<String>, reason: &str) -> Reply<S> {
    *note = Some(reason.to_owned());
    Reply::Done(Verdict::Ignored { reason: reason.to_owned() })
}

fn listed<M: Machine>(states: &[M::State], target: M::State) -> Step<()> {
    if states.contains(&target) {
        return Ok(());
    }
    Err(format!("the rule chose {}, which it does not list", target.name()))
}

/// A text within the bounds of a row.
pub(crate) fn short(mut text: String) -> String {
    if text.len() > REASON_BYTES_MAX {
        let mut end = REASON_BYTES_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    text
}
