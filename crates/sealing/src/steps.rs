//! The work of each state: look at the world, do the stage, say what happened. One file per group of states.

mod commit;
mod finish;
mod input;
mod precommit;
mod recover;
mod seal;

use crate::prover::{ProverError, Watch};
use crate::{Event, Prover, Sector, SectorRecord, SectorStorage, State, StorageError};
use async_trait::async_trait;
use chain::Chain;
use primitives::Epoch;
use statemachine::{Class, Failure, Step, StepContext, Steps};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// What the steps work with.
pub(crate) struct World {
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) prover: Arc<dyn Prover>,
    pub(crate) storage: Arc<dyn SectorStorage>,
    /// Epochs that must lie between a ticket's age and its limit when a pre-commit is sent.
    pub(crate) submit_margin: Epoch,
}

pub(crate) type Cx = StepContext<Sector>;
type Answer = Result<Event, Failure>;

/// A step is a function from context to event.
struct StepFn<F> {
    world: Arc<World>,
    work: F,
}

#[async_trait]
impl<F, R> Step<Sector> for StepFn<F>
where
    F: Fn(Arc<World>, Cx) -> R + Send + Sync + 'static,
    R: Future<Output = Answer> + Send + 'static,
{
    async fn run(&self, cx: Cx) -> Answer {
        (self.work)(Arc::clone(&self.world), cx).await
    }
}

/// The step of every state that has one.
pub(crate) fn steps(world: &Arc<World>) -> Steps<Sector> {
    macro_rules! table {
        ($($state:ident => $work:path,)*) => {
            Steps::new()$(.add(State::$state, Arc::new(StepFn { world: Arc::clone(world), work: $work })))*
        };
    }
    table! {
        AddPiece => input::add_piece,
        Packing => input::packing,
        GetTicket => precommit::get_ticket,
        PreCommit1 => seal::precommit1,
        PreCommit2 => seal::precommit2,
        SubmitPreCommitBatch => precommit::submit,
        Committing => commit::committing,
        SubmitCommitAggregate => commit::submit,
        FinalizeSector => finish::finalize,
        PackingFailed => recover::packing,
        SealPreCommit1Failed => recover::precommit1,
        SealPreCommit2Failed => recover::precommit2,
        PreCommitFailed => recover::precommit,
        ComputeProofFailed => recover::proof,
        CommitFailed => recover::commit,
        FinalizeFailed => recover::finalize,
        Removing => finish::removing,
        RemoveFailed => recover::remove,
    }
}

/// Runs a stage of the prover: its units become events of this run, its progress the run's.
pub(crate) async fn drive<T, R>(cx: &Cx, stage: impl FnOnce(Watch) -> R) -> Result<T, Failure>
where
    R: Future<Output = Result<T, ProverError>>,
{
    let (units, mut notes) = tokio::sync::mpsc::unbounded_channel();
    let reporter = cx.clone();
    let watch = Watch {
        cancel: cx.cancel().clone(),
        progress: Arc::new(move |progress| reporter.progress(progress)),
        units,
    };
    let stage = stage(watch);
    tokio::pin!(stage);
    loop {
        tokio::select! {
            result = &mut stage => return result.map_err(Failure::from),
            Some(note) = notes.recv() => {
                cx.send(note.event()).await?;
                // A stage that no longer waits has ended, and says how.
                let _ = note.done.send(());
            }
        }
    }
}

/// Runs blocking file work on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    doing: &'static str,
    work: impl FnOnce() -> Result<T, StorageError> + Send + 'static,
) -> Result<T, Failure> {
    let (answer, result) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name(doing.to_owned()).spawn(move || {
        // Nobody waits any more when the run was cancelled.
        let _ = answer.send(work());
    });
    thread.map_err(|e| Failure::capacity(format_args!("cannot start a thread to {doing}: {e}")))?;
    match result.await {
        Ok(done) => done.map_err(|e| storage_failure(&e)),
        Err(_) => Err(Failure::worker_lost(format_args!("the thread to {doing} ended without an answer"))),
    }
}

/// Trouble with files is never a verdict about the sector: it passes, or somebody makes it pass.
pub(crate) fn storage_failure(e: &StorageError) -> Failure {
    Failure::from_error(if e.is_capacity() { Class::Capacity } else { Class::Transient }, e)
}

/// The pause before going back into work that failed `times` times: 1 s, doubling, at most 5 min.
pub(crate) async fn pause(cx: &Cx, times: u32) -> Result<(), Failure> {
    let seconds = 1u64 << times.saturating_sub(1).min(9);
    cx.sleep(Duration::from_secs(seconds.min(300))).await
}

/// Something the record must hold in this state.
pub(crate) fn held<T: Clone>(value: &Option<T>, what: &str, r: &SectorRecord) -> Result<T, Failure> {
    let missing =
        || Failure::new(Class::Permanent, format_args!("sector {} has no {what} on record", r.number));
    value.clone().ok_or_else(missing)
}
