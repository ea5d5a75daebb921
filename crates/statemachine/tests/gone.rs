//! Callers that stop waiting, as an HTTP client that goes away does: what they began goes on (SM-8).

mod job;

use async_trait::async_trait;
use job::*;
use statemachine::*;
use statestore::{Batch, Committed, Entry, MemoryStore, Pair, Store, StoreError};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// Answers nothing until it is released; a commit is applied before its answer.
struct Held {
    inner: MemoryStore,
    held: Arc<AtomicBool>,
}

impl Held {
    /// Pending while held, checked at each poll.
    async fn wait(&self) {
        poll_fn(|cx| match self.held.load(Ordering::SeqCst) {
            true => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            false => Poll::Ready(()),
        })
        .await;
    }
}

#[async_trait]
impl Store for Held {
    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.wait().await;
        self.inner.get(key).await
    }
    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Pair>, StoreError> {
        self.inner.scan(prefix, after, limit).await
    }
    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        let done = self.inner.commit(batch).await;
        self.wait().await;
        done
    }
    async fn journal(
        &self,
        stream: Option<&[u8]>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.inner.journal(stream, after, limit).await
    }
}

/// A bench whose group works over a store that can be held.
fn held() -> (Bench, Arc<Group<Job>>, Arc<AtomicBool>) {
    let bench = Bench::new(Scripts::default());
    let held = Arc::new(AtomicBool::new(false));
    let store = Held { inner: bench.store.clone(), held: Arc::clone(&held) };
    let config = config(&bench.scripts, &bench.ledger);
    let group = bench.sim.run_until(Group::open(Arc::new(store), bench.sim.env(), config)).unwrap();
    (bench, group, held)
}

/// Polls a call `polls` times while the store is held, the tasks of the group some steps after each poll, then drops
/// it and releases the store. Whether the call was over before that.
fn leave<F: Future>(bench: &Bench, held: &AtomicBool, polls: u32, call: F) -> bool {
    held.store(true, Ordering::SeqCst);
    let over = {
        let mut call = pin!(call);
        let mut over = false;
        for _ in 0..polls {
            over |= bench.sim.run_until(poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready())));
            if over {
                break;
            }
            let mut steps = 0;
            bench.sim.run_until(poll_fn(|cx| {
                steps += 1;
                cx.waker().wake_by_ref();
                if steps > 20 { Poll::Ready(()) } else { Poll::Pending }
            }));
        }
        over
    };
    held.store(false, Ordering::SeqCst);
    over
}

#[test]
fn a_machine_whose_creator_went_away_moves() {
    for polls in 1..=4 {
        let (bench, group, held) = held();
        let mut changes = group.watch();
        let over = leave(&bench, &held, polls, group.create_with(&"a".into(), R::default(), E::Start));
        assert!(!over, "the store was held");
        bench.secs(60);
        assert_eq!(bench.get("a").state, S::Done, "after {polls} polls");
        let first = changes.try_recv().unwrap();
        assert_eq!((first.id.as_str(), first.version), ("a", 1), "the creation is announced");
        bench.check_replay("a");
    }
}

#[test]
fn an_event_whose_sender_went_away_is_planned_and_frees_its_place() {
    for polls in 1..=4 {
        for loaded in [false, true] {
            let (bench, group, held) = held();
            bench.sim.run_until(group.create(&"a".into(), R::default())).unwrap();
            if loaded {
                bench.secs(1);
            }
            assert!(!leave(&bench, &held, polls, group.send(&"a".into(), E::Add(7))));
            bench.secs(60);
            assert_eq!(bench.get("a").record.numbers, [7], "after {polls} polls");
            let queued = bench.sim.run_until(group.send(&"a".into(), E::Add(8))).unwrap();
            assert_eq!(queued.waiting, 1, "no place is taken for good");
            bench.check_replay("a");
        }
    }
}

#[test]
fn what_was_asked_with_an_answer_is_done_without_the_asker() {
    for polls in 1..=4 {
        let (bench, group, held) = held();
        bench.sim.run_until(group.create(&"a".into(), R::default())).unwrap();
        assert!(!leave(&bench, &held, polls, group.send_and_wait(&"a".into(), E::Add(7))));
        bench.secs(1);
        assert_eq!(bench.get("a").record.numbers, [7], "after {polls} polls");
        assert!(!leave(&bench, &held, polls, group.force(&"a".into(), S::Failed, "by hand")));
        bench.secs(1);
        assert_eq!(bench.get("a").state, S::Failed);
        assert_eq!(bench.sim.run_until(group.send(&"a".into(), E::Add(8))).unwrap().waiting, 1);
    }
}

#[test]
fn a_creation_of_unknown_outcome_moves_once_the_store_writes_again() {
    use statestore::testkit::{Fault, FaultStore};
    let bench = Bench::new(Scripts::default());
    let faults = Arc::new(FaultStore::new(Arc::new(bench.store.clone())));
    /// Reads fail like the commits of an outage do, the first time.
    struct Blind(Arc<FaultStore>, AtomicBool);
    #[async_trait]
    impl Store for Blind {
        async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            if self.0.commits() == 1 && self.1.swap(false, Ordering::SeqCst) {
                return Err(StoreError::Full { action: "read".to_owned(), path: "injected".into() });
            }
            self.0.get(key).await
        }
        async fn scan(
            &self,
            prefix: &[u8],
            after: Option<&[u8]>,
            limit: usize,
        ) -> Result<Vec<Pair>, StoreError> {
            self.0.scan(prefix, after, limit).await
        }
        async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
            self.0.commit(batch).await
        }
        async fn journal(
            &self,
            stream: Option<&[u8]>,
            after: u64,
            limit: usize,
        ) -> Result<Vec<Entry>, StoreError> {
            self.0.journal(stream, after, limit).await
        }
    }
    faults.at(1, Fault::FailAfter);
    faults.at(2, Fault::DiskFull);
    let store = Arc::new(Blind(faults, AtomicBool::new(true)));
    let config = config(&bench.scripts, &bench.ledger);
    let group = bench.sim.run_until(Group::open(store, bench.sim.env(), config)).unwrap();
    let answer = bench.sim.run_until(group.create_with(&"a".into(), R::default(), E::Start));
    assert!(matches!(answer, Err(CreateError::Store { .. })), "{answer:?}");
    bench.secs(60);
    assert_eq!(bench.get("a").state, S::Done);
}
