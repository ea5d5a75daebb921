//! How fast events are planned: `cargo run --release -p statemachine --example rates`.
//!
//! Two rates on one core, with the store in memory and virtual time: `send_and_wait` one after another, and `send` with
//! a row per event and planning after it.

use serde::{Deserialize, Serialize};
use statemachine::testkit::Sim;
use statemachine::{
    Effects, Group, GroupConfig, Machine, MachineId, PlannerMap, Sender, kinds, reject, stay,
};
use statestore::MemoryStore;
use std::sync::Arc;
use std::time::Instant;

kinds! {
    /// The one state.
    pub enum State {
        /// Open.
        Open,
    }
}

kinds! {
    /// The one kind of event.
    pub enum EventKind {
        /// Adds.
        Add,
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Add(u64);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Sum {
    sum: u64,
    name: String,
}

struct Counter;

impl Machine for Counter {
    const NAME: &'static str = "counter";
    type State = State;
    type EventKind = EventKind;
    type Event = Add;
    type Record = Sum;
    fn kind(_: &Add) -> EventKind {
        EventKind::Add
    }
}

fn add(record: &mut Sum, event: &Add, _: &mut Effects<Counter>) {
    record.sum += event.0;
}

fn rate(name: &str, events: u64, started: Instant) {
    #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = events as f64 / started.elapsed().as_secs_f64();
    println!("{name:<40} {rate:>12.0} events/s");
}

fn main() {
    let events: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(200_000);
    let map = PlannerMap::<Counter>::builder(State::Open)
        .event(EventKind::Add, Sender::Outside)
        .state(State::Open, |s| s.resting().on(EventKind::Add, stay().apply(add)).otherwise(reject("no")))
        .build();
    let sim = Sim::new(1);
    let mut config = GroupConfig::new(map);
    config.events_per_minute = u32::MAX;
    config.inbox_limit = usize::MAX;
    let group = sim.run_until(Group::open(Arc::new(MemoryStore::new()), sim.env(), config));
    let Ok(group) = group else { return println!("the group did not open") };
    let ids: Vec<MachineId> = (0..64).map(|n| MachineId::from(format!("{n:06}"))).collect();
    for id in &ids {
        let record = Sum { sum: 0, name: "a record of ordinary size".to_owned() };
        if let Err(error) = sim.run_until(group.create(id, record)) {
            return println!("{error}");
        }
    }
    let started = Instant::now();
    for n in 0..events {
        if let Err(error) = sim.run_until(group.send_and_wait(&ids[0], Add(n))) {
            return println!("{error}");
        }
    }
    rate("send_and_wait, one machine", events, started);
    let started = Instant::now();
    for n in 0..events {
        if let Err(error) = sim.run_until(group.send(&ids[1], Add(n))) {
            return println!("{error}");
        }
    }
    sim.run_until(group.stop(std::time::Duration::from_secs(60)));
    rate("send with its row, then plan", events, started);
}
