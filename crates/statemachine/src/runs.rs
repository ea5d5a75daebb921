//! Runs: admission, start, limits, cancellation, and exactly one recorded outcome (SM-10, SM-11).

use crate::cancel::Cancel;
use crate::cell::{Answer, Cell, Item, Lane, LiveRun, Nack, Work};
use crate::env::BoxFuture;
use crate::error::SendError;
use crate::failure::panic_text;
use crate::inner::Inner;
use crate::resources::Permit;
use crate::retry::millis;
use crate::step::{RunSender, Step, StepContext};
use crate::stored::{Fact, Input, Instance, Outcome};
use crate::{Class, Failure, Machine, MachineId, RunId, lock};
use futures_channel::oneshot;
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

impl<M: Machine> Inner<M> {
    /// Asks for the resources of the run that a machine wants, unless it did or an older run has not ended yet.
    pub(crate) fn request_run(self: &Arc<Self>, cell: &Arc<Cell<M>>) {
        if self.is_stopping() {
            return;
        }
        let (version, needs) = {
            let mut state = cell.lock();
            let Some(row) = &state.row else { return };
            let Some(run) = row.stored.run.as_ref().filter(|run| run.started_at_ms.is_none()) else { return };
            let (version, place) = (run.version, row.stored.state);
            if state.requested == Some(version) || !state.ending.is_empty() || state.live.is_some() {
                return;
            }
            state.requested = Some(version);
            (version, self.config.map.needs(place).to_vec())
        };
        let inner = Arc::downgrade(self);
        let id = cell.id.clone();
        self.resources.request(RunId { machine: id.clone(), version }, &needs, move |permit| {
            if let Some(inner) = inner.upgrade() {
                inner.push(&id, Item::new(Lane::Run, Work::Start { run: version, permit }));
            }
        });
    }

    /// Starts a run whose start is committed.
    pub(crate) fn start_run(self: &Arc<Self>, cell: &Arc<Cell<M>>, version: u64, permit: Permit) {
        let cancel = Cancel::new();
        let progress = Arc::new(Mutex::new(None));
        let slow = Arc::new(AtomicBool::new(false));
        let (snapshot, attempt) = {
            let mut state = cell.lock();
            state.requested = None;
            let Some(row) = &state.row else { return };
            let attempt = row.stored.run.as_ref().map_or(1, |run| run.attempt);
            let snapshot = Arc::new(Instance::of(&cell.id, &row.stored));
            state.live = Some(LiveRun {
                version,
                cancel: cancel.clone(),
                progress: Arc::clone(&progress),
                slow: Arc::clone(&slow),
            });
            (snapshot, attempt)
        };
        // The configuration was checked at open: a state with a step has one.
        let Some(step) = self.config.steps.0.get(&snapshot.state).cloned() else { return };
        let sender = Sends { inner: Arc::downgrade(self), id: cell.id.clone(), run: version };
        let cx = StepContext {
            run: RunId { machine: cell.id.clone(), version },
            attempt,
            snapshot,
            cancel,
            clock: Arc::clone(&self.env.clock),
            progress,
            sender: Arc::new(sender),
        };
        self.enter();
        let task = run(Arc::clone(self), Arc::clone(cell), step, cx, slow, permit);
        self.env.spawner.spawn(Box::pin(task));
    }
}

/// One run from its start to its recorded outcome.
async fn run<M: Machine>(
    inner: Arc<Inner<M>>,
    cell: Arc<Cell<M>>,
    step: Arc<dyn Step<M>>,
    cx: StepContext<M>,
    slow: Arc<AtomicBool>,
    permit: Permit,
) {
    let version = cx.run.version;
    let cancel = cx.cancel.clone();
    let limits = inner.config.map.limits_ms(cx.snapshot.state);
    let outcome = {
        let work = AssertUnwindSafe(async { step.run(cx).await }).catch_unwind();
        let mut work = Box::pin(work.map(|ended| match ended {
            Ok(outcome) => outcome,
            Err(panic) => Err(Failure::new(
                Class::Panic,
                format_args!("the step panicked: {}", panic_text(panic.as_ref())),
            )),
        }));
        guard(&inner, &cell, version, &cancel, limits, &slow, &mut work).await
        // The future is dropped here, whether it ended or not.
    };
    drop(permit);
    let stopped = inner.is_stopping() && cancel.is_cancelled();
    {
        let mut state = cell.lock();
        if state.live.as_ref().is_some_and(|live| live.version == version) {
            state.live = None;
        }
        state.ending.retain(|run| run.version != version);
    }
    let input = match outcome {
        // The group ended: the run is interrupted at the next open. Work on other threads is told.
        None => {
            cancel.cancel();
            None
        }
        Some(Ok(event)) => Some(Input::RunEnded { run: version, outcome: Outcome::Event(event) }),
        Some(Err(_)) if stopped => {
            Some(Input::Interrupted { run: version, reason: "the group stopped".to_owned() })
        }
        Some(Err(failure)) => {
            Some(Input::RunEnded { run: version, outcome: Outcome::Failure(failure.clipped()) })
        }
    };
    if let Some(input) = input {
        inner.push(&cell.id, Item::new(Lane::Engine, Work::Input(input)));
    }
    inner.leave();
}

/// Waits for the work, its limits and its cancellation. `None`: the group ended before it did.
async fn guard<M: Machine>(
    inner: &Arc<Inner<M>>,
    cell: &Arc<Cell<M>>,
    version: u64,
    cancel: &Cancel,
    (soft_ms, hard_ms): (Option<u64>, Option<u64>),
    slow: &AtomicBool,
    work: &mut (impl Future<Output = Result<M::Event, Failure>> + Unpin + Send),
) -> Option<Result<M::Event, Failure>> {
    let clock = &inner.env.clock;
    let started_ms = inner.now_ms();
    let mut soft_ms = soft_ms.filter(|soft| hard_ms.is_none_or(|hard| *soft < hard));
    let mut timed_out = None;
    while !cancel.is_cancelled() {
        let limit = soft_ms.or(hard_ms);
        let sleep = match limit {
            Some(limit) => Either::Left(clock.sleep_until(started_ms.saturating_add(limit))),
            None => Either::Right(std::future::pending()),
        };
        let stop = select(inner.ended.cancelled(), cancel.cancelled());
        match select(&mut *work, select(sleep, stop)).await {
            Either::Left((outcome, _)) => return Some(outcome),
            Either::Right((Either::Right(_), _)) if inner.ended.is_cancelled() => return None,
            Either::Right((Either::Right(_), _)) => {}
            Either::Right((Either::Left(_), _)) => match soft_ms.take() {
                Some(limit_ms) => {
                    slow.store(true, Ordering::Release);
                    tracing::warn!(machine = %cell.id, run = version, limit_ms, "a run is over its soft limit");
                    // A remark in the journal; the run does not depend on it.
                    if let Err(error) =
                        inner.write_fact(&cell.id, version, Fact::Slow { run: version, limit_ms }).await
                    {
                        inner.note_commit(Err(&error));
                    }
                }
                None => {
                    timed_out = hard_ms;
                    cancel.cancel();
                }
            },
        }
    }
    let grace = clock.sleep_until(inner.now_ms().saturating_add(millis(inner.config.grace)));
    let ended = match select(&mut *work, select(grace, inner.ended.cancelled())).await {
        Either::Left((outcome, _)) => Some(outcome),
        Either::Right(_) if inner.ended.is_cancelled() => return None,
        Either::Right(_) => None,
    };
    if ended.is_none() {
        tracing::error!(machine = %cell.id, run = version, "a cancelled run did not end within its grace");
        if let Err(error) = inner.write_fact(&cell.id, version, Fact::Abandoned { run: version }).await {
            inner.note_commit(Err(&error));
        }
    }
    Some(match (ended, timed_out) {
        (Some(Ok(event)), _) => Ok(event),
        (_, Some(limit_ms)) => Err(Failure::new(
            Class::Timeout,
            format_args!("the run was over its hard limit of {limit_ms} ms"),
        )),
        (Some(Err(failure)), None) => Err(failure),
        (None, None) => Err(Failure::cancelled("the cancelled run did not end within its grace")),
    })
}

/// Takes events of a run to the pump.
struct Sends<M: Machine> {
    inner: Weak<Inner<M>>,
    id: MachineId,
    run: u64,
}

impl<M: Machine> RunSender<M> for Sends<M> {
    fn send(&self, event: M::Event) -> BoxFuture<Result<(), Failure>> {
        let gone = format!("run {}@{} was cancelled", self.id, self.run);
        let Some(inner) = self.inner.upgrade() else {
            return Box::pin(std::future::ready(Err(Failure::cancelled(gone))));
        };
        let (waiter, answer) = oneshot::channel::<Answer<M>>();
        let mut item = Item::new(Lane::Run, Work::RunEvent { run: self.run, event });
        item.waiter = Some(waiter);
        inner.push(&self.id, item);
        Box::pin(async move {
            match answer.await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(Nack::Misuse(reason))) => Err(Failure::permanent(reason)),
                Ok(Err(Nack::Send(SendError::Refused { reason, .. }))) => Err(Failure::permanent(reason)),
                Ok(Err(Nack::Send(error))) => Err(Failure::transient(error)),
                Ok(Err(Nack::Fenced)) | Err(oneshot::Canceled) => Err(Failure::cancelled(gone)),
            }
        })
    }
}

/// How far a machine's run is and whether it is slow.
pub(crate) fn look(live: &LiveRun) -> (Option<crate::Progress>, bool) {
    (lock(&live.progress).clone(), live.slow.load(Ordering::Acquire))
}
