//! Steps that do what a test says.

use crate::step::{Progress, Step, StepContext};
use crate::{Failure, Machine, RunId, lock};
use async_trait::async_trait;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One act of a scripted run. The run ends with the first act that has an outcome; a script without one hangs at its end.
#[derive(Debug, Clone)]
pub enum Act<E> {
    /// Ends with an event.
    Event(E),
    /// Ends with a failure.
    Fail(Failure),
    /// Panics.
    Panic(&'static str),
    /// Does nothing until it is cancelled.
    Hang,
    /// Does nothing, cancelled or not.
    HangDeaf,
    /// Sleeps; ends when it is cancelled meanwhile.
    Sleep(Duration),
    /// Sends an event of the run; ends when it is not taken.
    Send(E),
    /// Says how far it is.
    Progress(Progress),
}

/// A step whose runs follow a script: the first run the first list of acts, and so on; further runs repeat the last.
pub struct Script<E> {
    runs: Mutex<VecDeque<Vec<Act<E>>>>,
    seen: Mutex<Vec<RunId>>,
}

impl<E: Clone> Script<E> {
    /// A script for every run.
    pub fn always(acts: impl Into<Vec<Act<E>>>) -> Arc<Self> {
        Self::runs([acts.into()])
    }

    /// A script per run.
    pub fn runs(runs: impl IntoIterator<Item = Vec<Act<E>>>) -> Arc<Self> {
        Arc::new(Self { runs: Mutex::new(runs.into_iter().collect()), seen: Mutex::default() })
    }

    /// The runs that started, in their order.
    pub fn seen(&self) -> Vec<RunId> {
        lock(&self.seen).clone()
    }

    fn acts(&self) -> Vec<Act<E>> {
        let mut runs = lock(&self.runs);
        if runs.len() > 1 { runs.pop_front() } else { runs.front().cloned() }.unwrap_or_default()
    }
}

#[async_trait]
impl<M: Machine> Step<M> for Script<M::Event> {
    async fn run(&self, cx: StepContext<M>) -> Result<M::Event, Failure> {
        lock(&self.seen).push(cx.run_id().clone());
        for act in self.acts() {
            match act {
                Act::Event(event) => return Ok(event),
                Act::Fail(failure) => return Err(failure),
                Act::Panic(text) => panic!("{text}"),
                Act::Hang => {
                    cx.cancel().cancelled().await;
                    return Err(Failure::cancelled("scripted"));
                }
                Act::HangDeaf => std::future::pending().await,
                Act::Sleep(duration) => cx.sleep(duration).await?,
                Act::Send(event) => cx.send(event).await?,
                Act::Progress(progress) => cx.progress(progress),
            }
        }
        std::future::pending().await
    }
}
