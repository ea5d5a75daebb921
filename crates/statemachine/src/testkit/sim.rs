//! A single-threaded executor with a virtual clock and a seeded scheduler.

use crate::env::{BoxFuture, Clock, Env, Spawner};
use crate::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// A small generator of pseudo-random numbers (SplitMix64): the same seed, the same numbers, on every platform.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        #[allow(clippy::cast_possible_truncation, reason = "the remainder is below a usize")]
        let number = (self.draw() % end as u64) as usize;
        number
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// The start of virtual time: 2023-11-14, in milliseconds since 1970.
const EPOCH_MS: u64 = 1_700_000_000_000;
/// More polls than any honest test needs: something spins.
const POLLS_MAX: u64 = 100_000_000;
/// The number of the future given to [`Sim::run_until`].
const MAIN: u64 = 0;

/// A simulated process and its surroundings. Clones are the same simulation.
#[derive(Clone)]
pub struct Sim(Arc<Shared>);

struct Shared {
    seed: u64,
    state: Mutex<State>,
    ready: Mutex<BTreeSet<u64>>,
}

struct State {
    now_ms: u64,
    rng: Rng,
    tasks: BTreeMap<u64, Option<BoxFuture<()>>>,
    next_task: u64,
    sleepers: BTreeMap<(u64, u64), Waker>,
    next_sleeper: u64,
    polls: u64,
}

impl Sim {
    /// A simulation whose scheduling follows from the seed.
    pub fn new(seed: u64) -> Self {
        let state = State {
            now_ms: EPOCH_MS,
            rng: Rng::new(seed),
            tasks: BTreeMap::new(),
            next_task: MAIN + 1,
            sleepers: BTreeMap::new(),
            next_sleeper: 0,
            polls: 0,
        };
        Self(Arc::new(Shared { seed, state: Mutex::new(state), ready: Mutex::default() }))
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.0.seed
    }

    /// The clock and spawner for a group.
    pub fn env(&self) -> Env {
        Env::new(Arc::new(self.clone()), Arc::new(self.clone()))
    }

    /// Runs until the future is done.
    ///
    /// # Panics
    /// When nothing can go on (a deadlock), or when something spins.
    pub fn run_until<F: Future>(&self, future: F) -> F::Output {
        match self.run_while(future, || true) {
            Some(output) => output,
            None => panic!("seed {}: nothing can go on and the future is not done", self.seed()),
        }
    }

    /// Runs until the future is done (`Some`), or `go_on` says no after some poll, or nothing can go on (`None`).
    ///
    /// # Panics
    /// When something spins.
    pub fn run_while<F: Future>(&self, future: F, go_on: impl Fn() -> bool) -> Option<F::Output> {
        let mut main = pin!(future);
        lock(&self.0.ready).insert(MAIN);
        let waker = self.waker(MAIN);
        loop {
            if !go_on() {
                return None;
            }
            let Some(id) = self.pick_ready() else {
                if !self.advance() {
                    return None;
                }
                continue;
            };
            if id == MAIN {
                if let Poll::Ready(output) = main.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return Some(output);
                }
            } else {
                self.poll_task(id);
            }
        }
    }

    /// Lets a span of virtual time pass.
    pub fn run_for(&self, duration: Duration) {
        let until_ms = self.now_ms() + crate::retry::millis(duration);
        self.run_until(self.sleep_until(until_ms));
    }

    /// The process dies: every task is dropped where it stands. Time and the outside go on.
    pub fn kill(&self) {
        let tasks = std::mem::take(&mut lock(&self.0.state).tasks);
        // Their destructors wake and remove sleepers: outside the lock, more than one round.
        drop(tasks);
        while let Some(task) = {
            let mut state = lock(&self.0.state);
            state.tasks.pop_first()
        } {
            drop(task);
        }
        lock(&self.0.ready).clear();
    }

    /// The clock jumps, forwards or backwards.
    pub fn set_now_ms(&self, now_ms: u64) {
        let back = {
            let mut state = lock(&self.0.state);
            let back = now_ms < state.now_ms;
            state.now_ms = now_ms;
            if back { std::mem::take(&mut state.sleepers) } else { BTreeMap::new() }
        };
        // Sleepers look at the clock again and sleep on.
        back.into_values().for_each(Waker::wake);
        self.wake_due();
    }

    /// How many tasks there are.
    pub fn tasks(&self) -> usize {
        lock(&self.0.state).tasks.len()
    }

    fn pick_ready(&self) -> Option<u64> {
        let mut ready = lock(&self.0.ready);
        if ready.is_empty() {
            return None;
        }
        let mut state = lock(&self.0.state);
        state.polls += 1;
        assert!(state.polls < POLLS_MAX, "seed {}: {POLLS_MAX} polls; something spins", self.seed());
        let index = state.rng.below(ready.len());
        let id = *ready.iter().nth(index)?;
        ready.remove(&id);
        Some(id)
    }

    fn poll_task(&self, id: u64) {
        let task = {
            let mut state = lock(&self.0.state);
            state.tasks.get_mut(&id).and_then(Option::take)
        };
        let Some(mut task) = task else { return };
        let waker = self.waker(id);
        let done = task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut state = lock(&self.0.state);
        if done {
            state.tasks.remove(&id);
        } else if let Some(place) = state.tasks.get_mut(&id) {
            *place = Some(task);
            return;
        }
        drop(state);
        drop(task);
    }

    /// Moves the clock to the next sleeper; `false` when nobody sleeps.
    fn advance(&self) -> bool {
        {
            let mut state = lock(&self.0.state);
            let Some(((at_ms, _), _)) = state.sleepers.first_key_value() else { return false };
            let at_ms = *at_ms;
            state.now_ms = state.now_ms.max(at_ms);
        }
        self.wake_due();
        true
    }

    fn wake_due(&self) {
        let mut woken = Vec::new();
        {
            let mut state = lock(&self.0.state);
            let now_ms = state.now_ms;
            while state.sleepers.first_key_value().is_some_and(|((at_ms, _), _)| *at_ms <= now_ms) {
                woken.extend(state.sleepers.pop_first());
            }
        }
        for (_, waker) in woken {
            waker.wake();
        }
    }

    fn waker(&self, id: u64) -> Waker {
        Waker::from(Arc::new(TaskWaker { shared: Arc::downgrade(&self.0), id }))
    }
}

struct TaskWaker {
    shared: Weak<Shared>,
    id: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if let Some(shared) = self.shared.upgrade() {
            lock(&shared.ready).insert(self.id);
        }
    }
}

impl Clock for Sim {
    fn now_ms(&self) -> u64 {
        lock(&self.0.state).now_ms
    }

    fn sleep_until(&self, at_ms: u64) -> BoxFuture<()> {
        Box::pin(Sleep { sim: self.clone(), at_ms, place: None })
    }
}

impl Spawner for Sim {
    fn spawn(&self, task: BoxFuture<()>) {
        let id = {
            let mut state = lock(&self.0.state);
            let id = state.next_task;
            state.next_task += 1;
            state.tasks.insert(id, Some(task));
            id
        };
        lock(&self.0.ready).insert(id);
    }
}

struct Sleep {
    sim: Sim,
    at_ms: u64,
    place: Option<u64>,
}

impl Future for Sleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let shared = Arc::clone(&self.sim.0);
        let mut state = lock(&shared.state);
        if state.now_ms >= self.at_ms {
            return Poll::Ready(());
        }
        let place = self.place.unwrap_or_else(|| {
            state.next_sleeper += 1;
            state.next_sleeper
        });
        state.sleepers.insert((self.at_ms, place), cx.waker().clone());
        self.place = Some(place);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let waker = lock(&self.sim.0.state).sleepers.remove(&(self.at_ms, place));
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(seed: u64) -> Vec<u32> {
        let sim = Sim::new(seed);
        let seen = Arc::new(Mutex::new(Vec::new()));
        for n in 0..20 {
            let (seen, clock) = (Arc::clone(&seen), sim.clone());
            sim.spawn(Box::pin(async move {
                clock.sleep_until(EPOCH_MS + 10).await;
                lock(&seen).push(n);
            }));
        }
        sim.run_for(Duration::from_millis(20));
        assert_eq!(sim.now_ms(), EPOCH_MS + 20);
        lock(&seen).clone()
    }

    #[test]
    fn a_seed_is_an_order() {
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn the_dead_do_nothing() {
        let sim = Sim::new(7);
        let seen = Arc::new(Mutex::new(0));
        let (count, clock) = (Arc::clone(&seen), sim.clone());
        sim.spawn(Box::pin(async move {
            loop {
                clock.sleep_until(clock.now_ms() + 10).await;
                *lock(&count) += 1;
            }
        }));
        sim.run_for(Duration::from_millis(55));
        sim.kill();
        sim.run_for(Duration::from_millis(55));
        assert_eq!((*lock(&seen), sim.tasks()), (5, 0));
    }

    #[test]
    fn a_deadlock_is_seen() {
        let sim = Sim::new(7);
        assert_eq!(sim.run_while(std::future::pending::<()>(), || true), None);
    }
}
