//! Named counted resources: what a run must hold before it starts (SM-18 in its simple form).
//!
//! All or nothing, first come first served per resource: a run that waits for two things holds neither, and those behind
//! it do not overtake it on either. Waiting costs no task.

use crate::lock;
use crate::machine::RunId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

/// Called with the permit once it is granted, outside every lock of this module.
type Granted = Box<dyn FnOnce(Permit) + Send>;

pub(crate) struct Resources(Mutex<Pool>);

struct Pool {
    free: BTreeMap<String, u32>,
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    run: RunId,
    needs: Vec<(String, u32)>,
    granted: Granted,
}

/// Units held; given back when dropped.
pub(crate) struct Permit {
    pool: Arc<Resources>,
    held: Vec<(String, u32)>,
}

impl Resources {
    pub(crate) fn new(resources: &[(String, u32)]) -> Arc<Self> {
        let free = resources.iter().cloned().collect();
        Arc::new(Self(Mutex::new(Pool { free, waiting: VecDeque::new() })))
    }

    /// Asks for units; `granted` is called now or later, unless [`forget`](Self::forget) comes first.
    pub(crate) fn request(
        self: &Arc<Self>,
        run: RunId,
        needs: &[(String, u32)],
        granted: impl FnOnce(Permit) + Send + 'static,
    ) {
        let waiter = Waiter { run, needs: needs.to_vec(), granted: Box::new(granted) };
        lock(&self.0).waiting.push_back(waiter);
        self.grant();
    }

    /// Takes back a request that was not granted.
    pub(crate) fn forget(self: &Arc<Self>, run: &RunId) {
        lock(&self.0).waiting.retain(|waiter| waiter.run != *run);
        // It may have been the one that the others waited behind.
        self.grant();
    }

    /// What a waiting run lacks: resource, units needed, units free, runs before it.
    pub(crate) fn lacks(&self, run: &RunId) -> Option<(String, u32, u32, usize)> {
        let pool = lock(&self.0);
        let place = pool.waiting.iter().position(|waiter| waiter.run == *run)?;
        let waiter = &pool.waiting[place];
        let free = |name: &str| pool.free.get(name).copied().unwrap_or(0);
        let short = waiter.needs.iter().find(|(name, units)| free(name) < *units).or(waiter.needs.first())?;
        let ahead = pool.waiting.iter().take(place);
        let ahead = ahead.filter(|other| other.needs.iter().any(|(name, _)| *name == short.0)).count();
        Some((short.0.clone(), short.1, free(&short.0), ahead))
    }

    fn grant(self: &Arc<Self>) {
        for (granted, held) in self.take_granted() {
            granted(Permit { pool: Arc::clone(self), held });
        }
    }

    fn take_granted(&self) -> Vec<(Granted, Vec<(String, u32)>)> {
        let mut pool = lock(&self.0);
        let mut claimed: BTreeSet<String> = BTreeSet::new();
        let mut still = VecDeque::new();
        let mut granted = Vec::new();
        for waiter in std::mem::take(&mut pool.waiting) {
            let fits = waiter.needs.iter().all(|(name, units)| {
                !claimed.contains(name) && pool.free.get(name).copied().unwrap_or(0) >= *units
            });
            if fits {
                for (name, units) in &waiter.needs {
                    if let Some(free) = pool.free.get_mut(name) {
                        *free -= units;
                    }
                }
                granted.push((waiter.granted, waiter.needs));
            } else {
                claimed.extend(waiter.needs.iter().map(|(name, _)| name.clone()));
                still.push_back(waiter);
            }
        }
        pool.waiting = still;
        granted
    }

    #[cfg(test)]
    fn free(&self, name: &str) -> u32 {
        lock(&self.0).free.get(name).copied().unwrap_or(0)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.held.is_empty() {
            return;
        }
        {
            let mut pool = lock(&self.pool.0);
            for (name, units) in &self.held {
                if let Some(free) = pool.free.get_mut(name) {
                    *free += units;
                }
            }
        }
        self.pool.grant();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Held = Arc<Mutex<Vec<(u64, Permit)>>>;

    fn ask(pool: &Arc<Resources>, held: &Held, version: u64, needs: &[(&str, u32)]) -> RunId {
        let run = RunId { machine: "m".into(), version };
        let needs: Vec<_> = needs.iter().map(|(name, units)| ((*name).to_owned(), *units)).collect();
        let held = Arc::clone(held);
        pool.request(run.clone(), &needs, move |permit| lock(&held).push((version, permit)));
        run
    }

    fn who(held: &Held) -> Vec<u64> {
        lock(held).iter().map(|(version, _)| *version).collect()
    }

    fn release(held: &Held, version: u64) {
        let permit = {
            let mut held = lock(held);
            let index = held.iter().position(|(v, _)| *v == version).unwrap();
            held.remove(index)
        };
        drop(permit);
    }

    #[test]
    fn all_or_nothing_and_nobody_is_overtaken() {
        let pool = Resources::new(&[("cpu".to_owned(), 2), ("gpu".to_owned(), 1)]);
        let held = Held::default();
        ask(&pool, &held, 1, &[("cpu", 1)]);
        ask(&pool, &held, 2, &[("gpu", 1)]);
        let both = ask(&pool, &held, 3, &[("cpu", 1), ("gpu", 1)]);
        ask(&pool, &held, 4, &[("cpu", 1)]);
        assert_eq!(who(&held), [1, 2], "3 waits for the gpu, 4 may not take the cpu before it");
        assert_eq!(pool.free("cpu"), 1, "3 holds nothing while it waits");
        assert_eq!(pool.lacks(&both), Some(("gpu".to_owned(), 1, 0, 0)));
        release(&held, 2);
        assert_eq!(who(&held), [1, 3]);
        release(&held, 1);
        assert_eq!(who(&held), [3, 4]);
        release(&held, 3);
        release(&held, 4);
        assert_eq!((pool.free("cpu"), pool.free("gpu")), (2, 1));
    }

    #[test]
    fn a_forgotten_request_frees_those_behind_it() {
        let pool = Resources::new(&[("cpu".to_owned(), 2)]);
        let held = Held::default();
        ask(&pool, &held, 1, &[("cpu", 1)]);
        let big = ask(&pool, &held, 2, &[("cpu", 2)]);
        ask(&pool, &held, 3, &[("cpu", 1)]);
        assert_eq!(who(&held), [1]);
        pool.forget(&big);
        assert_eq!(who(&held), [1, 3]);
        assert_eq!(pool.lacks(&big), None);
    }
}
