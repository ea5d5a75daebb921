//! A machine with every kind of rule, an outside world with a ledger, and the small things tests share.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use statemachine::testkit::{Act, Script, Sim};
use statemachine::*;
use statestore::{MemoryStore, Store};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

kinds! {
    /// States.
    pub enum S {
        /// Created.
        New,
        /// A step with a resource.
        Packing,
        /// Waits for an effect.
        Waiting,
        /// A step with limits.
        Working,
        /// Rests.
        Done,
        /// Waits for a timer, then tries again.
        Failed,
        /// A step.
        Removing,
        /// The end.
        Removed,
    }
}

kinds! {
    /// Kinds of events.
    pub enum K {
        /// Begins.
        Start,
        /// Packing is done.
        Packed,
        /// A unit of work.
        Unit,
        /// The effect is there.
        Landed,
        /// The effect failed for good.
        Lost,
        /// Work is done.
        Worked,
        /// Time passed.
        Tick,
        /// Adds a number.
        Add,
        /// Asks for a state by a choice.
        Again,
        /// Makes planning panic.
        Boom,
        /// Removes.
        Remove,
        /// Removing is done.
        Gone,
        /// Starts the run again.
        Restart,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum E {
    Start,
    Packed(u32),
    Unit(u32),
    Landed(String),
    Lost,
    Worked,
    Tick,
    Add(u64),
    Again(bool),
    Boom(String),
    Remove,
    Gone,
    Restart,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct R {
    pub numbers: Vec<u64>,
    pub units: Vec<u32>,
    pub receipt: Option<String>,
    pub failures: u32,
    pub text: String,
}

pub struct Job;

impl Machine for Job {
    const NAME: &'static str = "job";
    type State = S;
    type EventKind = K;
    type Event = E;
    type Record = R;
    fn kind(event: &E) -> K {
        match event {
            E::Start => K::Start,
            E::Packed(_) => K::Packed,
            E::Unit(_) => K::Unit,
            E::Landed(_) => K::Landed,
            E::Lost => K::Lost,
            E::Worked => K::Worked,
            E::Tick => K::Tick,
            E::Add(_) => K::Add,
            E::Again(_) => K::Again,
            E::Boom(_) => K::Boom,
            E::Remove => K::Remove,
            E::Gone => K::Gone,
            E::Restart => K::Restart,
        }
    }
    fn facts(record: &R) -> u64 {
        record.numbers.iter().sum::<u64>() + record.receipt.iter().count() as u64 * 1000
    }
}

pub type Fx = Effects<Job>;

fn add(record: &mut R, event: &E, _: &mut Fx) {
    if let E::Add(number) = event {
        record.numbers.push(*number);
    }
}

fn unit(record: &mut R, event: &E, _: &mut Fx) {
    if let E::Unit(number) = event {
        record.units.push(*number);
    }
}

fn boom(record: &mut R, event: &E, _: &mut Fx) {
    if let E::Boom(text) = event {
        match text.as_str() {
            "panic" => panic!("boom"),
            large => record.text = large.to_owned(),
        }
    }
}

fn publish(_: &mut R, _: &E, fx: &mut Fx) {
    fx.intent("post", &"hello");
}

fn landed(record: &mut R, event: &E, _: &mut Fx) {
    if let E::Landed(receipt) = event {
        record.receipt = Some(receipt.clone());
    }
}

fn remove(_: &mut R, _: &E, fx: &mut Fx) {
    fx.withdraw_intents("post");
    fx.clear_timer("again");
}

fn failed(record: &mut R, _: &Failure, fx: &mut Fx) {
    record.failures += 1;
    fx.timer("again", fx.at_ms() + 10_000, E::Tick);
}

pub fn builder() -> MapBuilder<Job> {
    PlannerMap::<Job>::builder(S::New)
        .events(Sender::Outside, &[K::Start, K::Add, K::Again, K::Boom])
        .events(Sender::Step, &[K::Packed, K::Unit, K::Worked, K::Gone])
        .events(Sender::Outbox, &[K::Landed, K::Lost])
        .event(K::Tick, Sender::Timer)
        .control(K::Remove, to(S::Removing).apply(remove))
        .control(K::Restart, stay())
        .failures(&[
            (Class::CorruptInput, to(S::Failed).apply_failure(failed)),
            (Class::InvalidOutput, to(S::Failed).apply_failure(failed)),
            (Class::Rejected, to(S::Failed).apply_failure(failed)),
            (Class::Expired, to(S::Failed).apply_failure(failed)),
            (Class::Permanent, park("remove it")),
        ])
        .state(S::New, |s| {
            s.resting()
                .on(K::Start, to(S::Packing))
                .on(K::Add, stay().apply(add))
                .on(K::Boom, stay().apply(boom))
                .on(K::Again, ignore("nothing began"))
                .otherwise(reject("not started"))
        })
        .state(S::Packing, |s| {
            s.step()
                .needs("packer", 1)
                .on(K::Packed, to(S::Waiting).apply(publish))
                .on(K::Unit, stay().apply(unit))
                .on(K::Add, stay().apply(add))
                .on(K::Boom, stay().apply(boom))
                .on(K::Again, defer())
                .otherwise(reject("busy packing"))
        })
        .state(S::Waiting, |s| {
            s.on(K::Landed, to(S::Working).apply(landed))
                .on(K::Lost, to(S::Failed))
                .on(K::Again, defer())
                .otherwise(reject("waits"))
        })
        .state(S::Working, |s| {
            s.step()
                .limits(Some(Duration::from_secs(60)), Some(Duration::from_secs(600)))
                .retry(RetryPolicy { budget: Some(4), ..RetryPolicy::DEFAULT })
                .spent(park("look at the worker"))
                .on(K::Worked, to(S::Done))
                .on(K::Unit, stay().apply(unit))
                .on(K::Add, stay().apply(add))
                .on(K::Again, defer())
                .otherwise(reject("works"))
        })
        .state(S::Done, |s| {
            s.resting()
                .on(
                    K::Again,
                    one_of(&[S::New, S::Packing], |_, event| match event {
                        E::Again(true) => S::Packing,
                        E::Again(false) => S::New,
                        _ => S::Removed,
                    }),
                )
                .on(K::Boom, one_of(&[S::New], |_, _| S::Removed))
                .otherwise(ignore("done"))
        })
        .state(S::Failed, |s| s.on(K::Tick, to(S::Packing)).otherwise(reject("failed")))
        .state(S::Removing, |s| {
            s.step()
                .on(K::Gone, to(S::Removed))
                .on(K::Remove, ignore("being removed"))
                .on(K::Tick, ignore("being removed"))
                .on(K::Landed, ignore("being removed"))
                .otherwise(reject("being removed"))
        })
        .state(S::Removed, |s| s.final_())
}

pub fn map() -> Arc<PlannerMap<Job>> {
    Arc::new(builder().build())
}

/// Scripts of the three steps.
#[derive(Clone)]
pub struct Scripts {
    pub packing: Arc<Script<E>>,
    pub working: Arc<Script<E>>,
    pub removing: Arc<Script<E>>,
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            packing: Script::always([Act::Event(E::Packed(1))]),
            working: Script::always([Act::Event(E::Worked)]),
            removing: Script::always([Act::Event(E::Gone)]),
        }
    }
}

pub fn config(scripts: &Scripts, ledger: &Arc<Ledger>) -> GroupConfig<Job> {
    GroupConfig::new(map())
        .step(S::Packing, scripts.packing.clone())
        .step(S::Working, scripts.working.clone())
        .step(S::Removing, scripts.removing.clone())
        .effect("post", ledger.clone())
        .resource("packer", 1)
}

/// The outside: posts with numbers. It accepts the same bytes again, and refuses another post with a number that is
/// taken, as a chain does with nonces.
#[derive(Default)]
pub struct Ledger(Mutex<Book>);

#[derive(Default)]
pub struct Book {
    pub posts: Vec<Vec<u8>>,
    pub prepared: Vec<(IntentId, u32)>,
    pub sends: Vec<Vec<u8>>,
    /// Answers of the next calls of `send`; then all work.
    pub send_failures: u32,
    pub poll_script: Vec<Outcome<E>>,
    pub refuse: bool,
    pub slow: bool,
}

impl Ledger {
    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap()
    }
}

#[async_trait]
impl EffectHandler<Job> for Ledger {
    async fn prepare(&self, intent: &Intent, open: &[Prepared]) -> Result<Vec<u8>, Failure> {
        assert_eq!(intent.decode::<String>().unwrap(), "hello");
        if self.book().refuse {
            return Err(Failure::rejected("no"));
        }
        let mut book = self.book();
        let taken = open.iter().map(|p| number(&p.bytes));
        let next = taken.chain(book.posts.iter().map(|post| number(post))).max().map_or(0, |n| n + 1);
        book.prepared.push((intent.id.clone(), next));
        Ok(format!("{next}:{}:hello", intent.id).into_bytes())
    }

    async fn send(&self, _: &Intent, prepared: &[u8]) -> Result<(), Failure> {
        let mut book = self.book();
        book.sends.push(prepared.to_vec());
        if book.send_failures > 0 {
            book.send_failures -= 1;
            return Err(Failure::transient("line down"));
        }
        if book.posts.iter().any(|post| post == prepared) {
            return Ok(());
        }
        assert!(
            book.posts.iter().all(|post| number(post) != number(prepared)),
            "the number {} is used twice",
            number(prepared)
        );
        book.posts.push(prepared.to_vec());
        Ok(())
    }

    async fn poll(&self, intent: &Intent, prepared: &[u8]) -> Result<Outcome<E>, Failure> {
        let mut book = self.book();
        if !book.poll_script.is_empty() {
            return Ok(book.poll_script.remove(0));
        }
        if book.slow {
            return Ok(Outcome::Pending);
        }
        match book.posts.iter().any(|post| post == prepared) {
            true => Ok(Outcome::Settled(E::Landed(format!("receipt of {}", intent.machine())))),
            false => Ok(Outcome::SendAgain),
        }
    }

    fn refused(&self, _: &Intent, _: &Failure) -> Option<E> {
        Some(E::Lost)
    }
}

fn number(post: &[u8]) -> u32 {
    std::str::from_utf8(post).unwrap().split(':').next().unwrap().parse().unwrap()
}

/// A simulation with a store, a ledger, and a group when one is open.
pub struct Bench {
    pub sim: Sim,
    pub store: MemoryStore,
    pub ledger: Arc<Ledger>,
    pub scripts: Scripts,
}

impl Bench {
    pub fn new(scripts: Scripts) -> Self {
        Self { sim: Sim::new(1), store: MemoryStore::new(), ledger: Arc::default(), scripts }
    }

    pub fn open(&self) -> Arc<Group<Job>> {
        self.open_with(config(&self.scripts, &self.ledger))
    }

    pub fn open_with(&self, config: GroupConfig<Job>) -> Arc<Group<Job>> {
        let store: Arc<dyn Store> = Arc::new(self.store.clone());
        self.sim.run_until(Group::open(store, self.sim.env(), config)).unwrap()
    }

    pub fn secs(&self, secs: u64) {
        self.sim.run_for(Duration::from_secs(secs));
    }

    pub fn lines(&self, id: &str) -> Vec<JournalLine> {
        let reader = Reader::<Job>::new(Arc::new(self.store.clone()));
        self.sim.run_until(reader.journal(&id.into(), 0, usize::MAX)).unwrap()
    }

    pub fn get(&self, id: &str) -> Instance<Job> {
        let reader = Reader::<Job>::new(Arc::new(self.store.clone()));
        self.sim.run_until(reader.get(&id.into())).unwrap().unwrap()
    }

    pub fn send(&self, group: &Group<Job>, id: &str, event: E) -> Result<Applied<S>, SendError> {
        self.sim.run_until(group.send_and_wait(&id.into(), event))
    }

    /// Creates a machine and starts it.
    pub fn start(&self, group: &Group<Job>, id: &str) {
        self.sim.run_until(group.create_with(&id.into(), R::default(), E::Start)).unwrap();
    }

    /// The journal gives the row, byte for byte.
    pub fn check_replay(&self, id: &str) {
        let replayed = self.sim.run_until(replay(&self.store, &map(), &id.into())).unwrap();
        assert!(matches!(replayed, Replay::Same { .. }), "{id}: {replayed:?}");
    }

    pub fn count(&self, id: &str, kind: LineKind) -> usize {
        self.lines(id).iter().filter(|line| line.kind == kind).count()
    }
}
