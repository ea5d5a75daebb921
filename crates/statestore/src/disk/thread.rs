//! The store thread: drains the queue, one group after the other, and recovers after write errors.

use super::Health;
use super::core::{Core, Failure};
use super::lock::Lock;
use crate::{Batch, Committed, StoreError, Write};
use futures_channel::oneshot;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How many batches share a sync at most.
const GROUP_BATCHES: usize = 1024;
/// A group is not extended beyond this.
const GROUP_BYTES: usize = 4 * 1024 * 1024;
/// How long a group waits at most for those who were answered together just before and are about to come back.
const GATHER_MAX: Duration = Duration::from_micros(500);
/// How often an idle thread looks for files that sled made by itself.
const IDLE: Duration = Duration::from_millis(500);
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(10);

/// A batch and who waits for it.
pub(crate) struct Job {
    pub(crate) batch: Batch,
    pub(crate) answer: oneshot::Sender<Result<Committed, StoreError>>,
}

pub(crate) struct StoreThread {
    pub(crate) core: Core,
    pub(crate) queue: Receiver<Job>,
    /// Released when the store is closed.
    pub(crate) lock: Arc<Lock>,
    /// Why nothing is committed at present, and when to try again (never after a fatal failure).
    trouble: Option<(StoreError, Option<Instant>)>,
    /// Failures since the last commit that went well.
    tries: u32,
    /// How many batches the last group had, and how long it took.
    last_group: (usize, Duration),
}

impl StoreThread {
    pub(crate) fn new(core: Core, queue: Receiver<Job>, lock: Arc<Lock>) -> Self {
        Self { core, queue, lock, trouble: None, tries: 0, last_group: (0, Duration::ZERO) }
    }

    /// Runs until all senders are gone, then closes the store.
    pub(crate) fn run(mut self) {
        loop {
            let pause = match &self.trouble {
                Some((_, Some(next))) => next.saturating_duration_since(Instant::now()).min(IDLE),
                _ => IDLE,
            };
            match self.queue.recv_timeout(pause) {
                Ok(job) => {
                    let group = self.collect(job);
                    self.serve(group);
                }
                Err(RecvTimeoutError::Timeout) => self.idle(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.recover_when_due();
        }
        let Self { core, lock, .. } = self;
        core.close();
        drop(lock);
    }

    /// Everything that is already waiting, within limits. Callers that were answered together tend to come back
    /// together; without a moment's patience the first of them would get a sync of its own, and the others the next.
    fn collect(&self, first: Job) -> Vec<Job> {
        let (expected, took) = self.last_group;
        let patience = Instant::now() + (took / 8).min(GATHER_MAX);
        let mut bytes = size(&first.batch);
        let mut group = vec![first];
        while group.len() < GROUP_BATCHES && bytes < GROUP_BYTES {
            let next = match self.queue.try_recv() {
                Ok(job) => Some(job),
                Err(_) if group.len() >= expected => None,
                Err(_) => self.queue.recv_timeout(patience.saturating_duration_since(Instant::now())).ok(),
            };
            let Some(job) = next else { break };
            bytes += size(&job.batch);
            group.push(job);
        }
        group
    }

    fn serve(&mut self, group: Vec<Job>) {
        let (batches, waiters): (Vec<_>, Vec<_>) =
            group.into_iter().map(|job| (job.batch, job.answer)).unzip();
        let (count, started) = (waiters.len(), Instant::now());
        let answers = match &self.trouble {
            Some((error, _)) => Err(error.clone()),
            None => match self.guarded(|core| core.commit(batches)) {
                Ok(answers) => {
                    self.tries = 0;
                    self.last_group = (count, started.elapsed());
                    Ok(answers)
                }
                Err(failure) => {
                    self.failed(&failure);
                    Err(failure.error().clone())
                }
            },
        };
        // A waiter that is gone needs no answer; its batch counts all the same.
        match answers {
            Ok(answers) => {
                waiters.into_iter().zip(answers).for_each(|(waiter, answer)| drop(waiter.send(answer)))
            }
            Err(error) => waiters.into_iter().for_each(|waiter| drop(waiter.send(Err(error.clone())))),
        }
    }

    fn idle(&mut self) {
        if self.trouble.is_none()
            && let Err(failure) = self.guarded(|core| core.sync_idle().map_err(Failure::from_sync))
        {
            self.failed(&failure);
        }
    }

    fn failed(&mut self, failure: &Failure) {
        let error = failure.error().clone();
        self.core.abandon(failure);
        match failure {
            Failure::Fatal(_) => self.trouble = Some((error, None)),
            Failure::Journal(_) | Failure::Records(_) => self.wait(error),
        }
    }

    fn wait(&mut self, error: StoreError) {
        let pause = RETRY_MIN.saturating_mul(1 << self.tries.min(10)).min(RETRY_MAX);
        self.tries = self.tries.saturating_add(1);
        *self.core.shared.health() = Health::Recovering { error: error.clone(), tries: self.tries };
        self.trouble = Some((error, Some(Instant::now() + pause)));
    }

    fn recover_when_due(&mut self) {
        if !matches!(&self.trouble, Some((_, Some(next))) if *next <= Instant::now()) {
            return;
        }
        match self.guarded(Core::recover) {
            Ok(()) => {
                self.trouble = None;
                *self.core.shared.health() = Health::Serving;
            }
            Err(failure) => self.failed(&failure),
        }
    }

    /// A panic of the database leaves it in an unknown state, like a failed sync.
    fn guarded<T>(&mut self, work: impl FnOnce(&mut Core) -> Result<T, Failure>) -> Result<T, Failure> {
        let core = &mut self.core;
        catch_unwind(AssertUnwindSafe(|| work(core))).unwrap_or_else(|panic| {
            let reason = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("the database panicked");
            Err(Failure::Fatal(StoreError::fatal("use the store in", &self.core.shared.dir, &reason)))
        })
    }
}

impl Failure {
    fn from_sync(error: StoreError) -> Self {
        match error {
            StoreError::Fatal { .. } => Self::Fatal(error),
            error => Self::Records(error),
        }
    }

    /// Reopening may have to wait, for room most of all; what it finds damaged stays so.
    pub(super) fn from_reopening(error: StoreError) -> Self {
        match error {
            StoreError::Full { .. } | StoreError::Io { .. } | StoreError::Locked { .. } => {
                Self::Records(error)
            }
            error @ StoreError::Fatal { .. } => Self::Fatal(error),
            error => Self::Fatal(StoreError::Fatal {
                action: "reopen the store after a write error".to_owned(),
                path: std::path::PathBuf::new(),
                reason: error.to_string(),
            }),
        }
    }
}

fn size(batch: &Batch) -> usize {
    let writes = batch.writes.iter().map(|write| match write {
        Write::Put { key, value } => key.len() + value.len(),
        Write::Delete { key } => key.len(),
    });
    let entries = batch.journal.iter().map(|entry| entry.stream.len() + entry.payload.len());
    writes.chain(entries).sum()
}
