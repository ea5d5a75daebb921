//! Crash sweeps (SM-25): the same life again and again, dying at every commit, before and after; each time the end must
//! be that of the undisturbed life.

use super::path::facts;
use super::sim::Sim;
use crate::env::BoxFuture;
use crate::{Group, GroupConfig, Kind, Machine, MachineId, Reader, Replay, replay};
use statestore::testkit::{Fault, FaultStore};
use statestore::{MemoryStore, Store};
use std::sync::Arc;
use std::time::Duration;

/// What a sweep found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepReport {
    /// Commits of the undisturbed life.
    pub commits: u64,
    /// Lives that were disturbed and compared.
    pub lives: u64,
}

/// A scripted life to be swept. `W` is the outside world, which survives crashes.
pub struct Sweep<M: Machine, W> {
    /// The scheduler's seed.
    pub seed: u64,
    /// The machines whose ends are compared.
    pub ids: Vec<MachineId>,
    /// Makes a fresh outside world.
    pub world: fn() -> Arc<W>,
    /// Builds the group in a world.
    pub config: fn(&Arc<W>) -> GroupConfig<M>,
    /// Drives the machines to their end. Called again after a crash: what it did already must be harmless to do again.
    pub life: fn(Arc<Group<M>>) -> BoxFuture<()>,
    /// What the outside world saw.
    pub outside: fn(&W) -> Vec<String>,
}

/// How long one life may take, in virtual time.
const LIFE_LIMIT: Duration = Duration::from_secs(24 * 3600);

impl<M: Machine, W> Sweep<M, W> {
    /// Sweeps over all commits with the given faults. After a fault that is not deadly the life must go on by itself.
    ///
    /// # Panics
    /// When a disturbed life ends otherwise than the undisturbed one; the message says how to run that one alone.
    pub fn run(&self, faults: &[Fault]) -> SweepReport {
        let (expected, commits) = self.live(None);
        let mut lives = 0;
        for fault in faults {
            for commit in 1..=commits {
                let (found, _) = self.live(Some((commit, *fault)));
                lives += 1;
                assert_eq!(
                    found,
                    expected,
                    "seed {}: {} at commit {commit}; alone: sweep.live(Some(({commit}, Fault::{fault:?})))",
                    self.seed,
                    fault.name(),
                );
            }
        }
        SweepReport { commits, lives }
    }

    /// One life: what it came to, and how many commits its first process asked for.
    ///
    /// # Panics
    /// When it does not end, or its journal does not give its rows.
    pub fn live(&self, fault: Option<(u64, Fault)>) -> (Vec<String>, u64) {
        let memory = MemoryStore::new();
        let store = Arc::new(FaultStore::new(Arc::new(memory.clone())));
        if let Some((commit, fault)) = fault {
            store.at(commit, fault);
        }
        let sim = Sim::new(self.seed);
        let world = (self.world)();
        let first: Arc<dyn Store> = store.clone();
        let hangs = fault.is_some_and(|(_, fault)| matches!(fault, Fault::HangBefore | Fault::HangAfter));
        let done = sim.run_while(self.process(&sim, first, &world), || !store.is_dead());
        let commits = store.commits();
        sim.kill();
        if done != Some(true) {
            assert!(store.is_dead() || hangs, "seed {}: the life stood still with {fault:?}", self.seed);
            let again: Arc<dyn Store> = Arc::new(memory.clone());
            let done = sim.run_while(self.process(&sim, again, &world), || true);
            assert_eq!(done, Some(true), "seed {}: after {fault:?} the life did not end", self.seed);
            sim.kill();
        }
        (sim.run_until(self.end(&memory, &world)), commits)
    }

    /// One process; `false` when it did not reach its end in time.
    async fn process(&self, sim: &Sim, store: Arc<dyn Store>, world: &Arc<W>) -> bool {
        let Ok(group) = Group::open(store, sim.env(), (self.config)(world)).await else { return false };
        let limit = sim.env().clock.sleep_until(sim.env().clock.now_ms() + crate::retry::millis(LIFE_LIMIT));
        let life = (self.life)(Arc::clone(&group));
        let in_time =
            matches!(futures_util::future::select(life, limit).await, futures_util::future::Either::Left(_));
        if in_time {
            group.stop(Duration::from_secs(60)).await;
        }
        in_time
    }

    async fn end(&self, store: &MemoryStore, world: &Arc<W>) -> Vec<String> {
        let reader = Reader::<M>::new(Arc::new(store.clone()));
        let config = (self.config)(world);
        let mut end = Vec::new();
        for id in &self.ids {
            let replayed = replay(store, &config.map, id).await;
            assert!(matches!(replayed, Ok(Replay::Same { .. })), "seed {}: {id}: {replayed:?}", self.seed);
            match reader.get(id).await {
                Ok(Some(machine)) => {
                    end.push(format!("{id}: {} {:?}", machine.state.name(), machine.record));
                    end.push(format!("{id}: parked {:?}", machine.parked.map(|parked| parked.reason)));
                }
                other => end.push(format!("{id}: {other:?}")),
            }
            match reader.journal(id, 0, usize::MAX).await {
                Ok(lines) => end.extend(facts(&lines).into_iter().map(|fact| format!("{id}: {fact}"))),
                Err(error) => end.push(format!("{id}: {error}")),
            }
            match reader.outbox(id).await {
                Ok(effects) => end.extend(effects.iter().map(|e| format!("{id}: open {}", e.effect.kind))),
                Err(error) => end.push(format!("{id}: {error}")),
            }
        }
        end.extend((self.outside)(world));
        end
    }
}
