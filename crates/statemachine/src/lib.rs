//! Persisted state machines: a planner map as data, a durable inbox, runs, timers, an outbox, a journal.
//!
//! A machine has a *record* in a [`Store`](statestore::Store), moved by *events*. What an event does is a table, the
//! [`PlannerMap`]: (state, event kind) -> rule. Planning is pure; one event is one commit that holds the new record, the
//! journal entry, timers and effects, or nothing. A state may have a [`Step`], asynchronous work whose *run* ends in
//! exactly one recorded outcome. Effects on the outside are rows of an outbox, carried out by an [`EffectHandler`] at
//! most once each. After a crash everything goes on from what is on disk.
//!
//! The crate knows no runtime and no database: [`Clock`] and [`Spawner`] come from outside, the store is a trait.
//! Numbers such as SM-4 refer to the contract of this crate.
//!
//! # A first machine
//! ```
//! use serde::{Deserialize, Serialize};
//! use statemachine::testkit::Sim;
//! use statemachine::*;
//! use std::sync::Arc;
//!
//! kinds! {
//!     /// What is lit.
//!     pub enum Light { /// Stop.
//!         Red, /// Go.
//!         Green, /// Out of order.
//!         Dark }
//! }
//! kinds! {
//!     /// What happens.
//!     pub enum Kind { /// The button of the crossing.
//!         Press, /// Time is up.
//!         TimeUp, /// A person turns it off for good.
//!         Off }
//! }
//! #[derive(Debug, Clone, Serialize, Deserialize)]
//! pub enum Event { Press, TimeUp, Off }
//! #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
//! pub struct Crossing { presses: u32 }
//!
//! pub struct Traffic;
//! impl Machine for Traffic {
//!     const NAME: &'static str = "traffic";
//!     type State = Light;
//!     type EventKind = Kind;
//!     type Event = Event;
//!     type Record = Crossing;
//!     fn kind(event: &Event) -> Kind {
//!         match event { Event::Press => Kind::Press, Event::TimeUp => Kind::TimeUp, Event::Off => Kind::Off }
//!     }
//! }
//!
//! let map = PlannerMap::<Traffic>::builder(Light::Red)
//!     .event(Kind::Press, Sender::Outside)
//!     .event(Kind::TimeUp, Sender::Timer)
//!     .control(Kind::Off, to(Light::Dark).apply(|_, _, fx| fx.clear_timer("green")))
//!     .state(Light::Red, |s| s.resting()
//!         .on(Kind::Press, to(Light::Green).apply(|crossing: &mut Crossing, _, fx| {
//!             crossing.presses += 1;
//!             fx.timer("green", fx.at_ms() + 30_000, Event::TimeUp);
//!         }))
//!         .otherwise(reject("it is red")))
//!     .state(Light::Green, |s| s
//!         .on(Kind::TimeUp, to(Light::Red))
//!         .on(Kind::Press, ignore("it is green")))
//!     .state(Light::Dark, |s| s.final_())
//!     .build();
//! assert!(map.verify().is_empty(), "{:?}", map.verify());
//! println!("{}", map.mermaid());
//!
//! // A simulated clock and scheduler; a program gives its runtime's.
//! let sim = Sim::new(1);
//! let store = Arc::new(statestore::MemoryStore::new());
//! sim.run_until(async {
//!     let group = Group::open(store, sim.env(), GroupConfig::new(map)).await.unwrap();
//!     let id = MachineId::from("main-street");
//!     group.create(&id, Crossing { presses: 0 }).await.unwrap();
//!     let applied = group.send_and_wait(&id, Event::Press).await.unwrap();
//!     assert_eq!(applied.verdict, Verdict::Moved { from: Light::Red, to: Light::Green });
//!     let clock = sim.env().clock;
//!     clock.sleep_until(clock.now_ms() + 31_000).await;
//!     assert_eq!(group.get(&id).await.unwrap().unwrap().state, Light::Red);
//! });
//! ```
//!
//! # Where things are
//! `plan` is the pure core. `pump` plans one machine's work, strictly in order; `commit` makes a plan one batch; `runs`,
//! `timers`, `dispatch` and `settle` carry out what was decided; `restart` picks up what a crash left. `verify` and
//! `diagram` read the map. The test kit is public, for every machine built here.

#![forbid(unsafe_code)]

mod builder;
mod cancel;
mod cell;
mod commit;
mod config;
mod create;
mod diagram;
mod dispatch;
mod effects;
mod env;
mod error;
mod explain;
mod failure;
mod group;
mod inner;
mod journal;
mod keys;
mod kinds;
mod machine;
mod map;
mod outbox;
mod plan;
mod pump;
mod reader;
mod replay;
mod resources;
mod restart;
mod retry;
mod rule;
mod runs;
mod send;
mod settle;
mod signal;
mod step;
mod stored;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
#[cfg(test)]
mod tests_support;
mod timers;
mod verify;

pub use cancel::{Cancel, Cancelled};
pub use config::{GroupConfig, Steps};
pub use effects::Effects;
pub use env::{BoxFuture, Clock, Env, Spawner};
pub use error::{CreateError, OpenError, Quarantined, ReadError, SendError};
pub use explain::{Blocker, Explanation, OpenEffect, WaitingEvent, WaitingTimer};
pub use failure::{Class, Failure, TEXT_BYTES_MAX};
pub use group::{Applied, Change, Group, Health, Queued, StopReport, Verdict};
pub use journal::{JournalLine, LineKind};
pub use kinds::Kind;
pub use machine::{Fnv, ID_BYTES_MAX, IntentId, Machine, MachineId, RunId};
pub use map::{MapBuilder, Origin, PlannerMap, Role, Sender, StateBuilder};
pub use outbox::{EffectHandler, Intent, Outcome, Prepared};
pub use reader::{Reader, StoredEffect};
pub use replay::{Replay, replay};
pub use retry::RetryPolicy;
pub use rule::{
    ApplyFailureFn, ApplyFn, ChooseFailureFn, ChooseFn, Rule, defer, ignore, one_of, one_of_failure, park,
    reject, retry, stay, to,
};
pub use statestore::CodecError;
pub use step::{Progress, Step, StepContext};
pub use stored::{Failures, Instance, LastFailure, Parked, RunInfo, Trouble};
pub use verify::Finding;

/// Locks a mutex. A panic while it was held cannot have left a half-made change: every holder replaces whole values.
pub(crate) fn lock<T: ?Sized>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
