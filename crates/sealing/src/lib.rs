//! The life of a sector: from pieces to a proof on the chain.
//!
//! - [`State`], [`Event`], [`SectorRecord`]: what is stored and what can happen;
//! - [`planner_map`]: every state, event and failure class, as one table;
//! - `steps`: the work of each state, and of each failed state the way out of it;
//! - `effects`: messages, the seed, and files to delete: the outbox;
//! - [`Prover`], [`SectorStorage`] and [`chain::Chain`]: the traits the logic knows, with adapters for this computer;
//! - [`Pipeline`]: what a node calls.
//!
//! Data flows one way: a call or a timer is an event, the planner map decides, the record and the outbox are stored, the
//! step works, its result is an event. Steps never write records, planners never touch the world.

#![forbid(unsafe_code)]

mod apply;
mod effects;
pub mod event;
mod fsm;
pub mod intent;
mod pipeline;
pub mod prover;
pub mod record;
mod staging;
mod standing;
mod state;
mod steps;
pub mod storage;
mod tokio_env;

pub use event::{Event, EventKind};
pub use fsm::planner_map;
pub use pipeline::{Parallel, Pipeline, PipelineConfig, PipelineError, Placed, SectorInstance, machine_id};
pub use prover::{LocalProver, Prover};
pub use record::SectorRecord;
pub use staging::{StagedPart, StagingError, stage};
pub use state::State;
pub use storage::{LocalStorage, SectorStorage, StorageError};
pub use tokio_env::{SystemClock, TokioSpawner, tokio_env};

use statemachine::{Fnv, Machine};
use std::hash::Hasher as _;

/// The sector as a machine.
#[derive(Debug, Clone, Copy)]
pub enum Sector {}

impl Machine for Sector {
    const NAME: &'static str = "sector";
    type State = State;
    type EventKind = EventKind;
    type Event = Event;
    type Record = SectorRecord;

    fn kind(event: &Event) -> EventKind {
        event.kind()
    }

    /// What a round of states must change to be more than a loop: not counters, not times, not texts.
    fn facts(r: &SectorRecord) -> u64 {
        let mut hash = Fnv::default();
        let facts =
            (&r.pieces, r.assigned.len(), r.ticket, r.comm_r, r.precommit_epoch, r.seed, r.activation);
        hash.write(format!("{facts:?}").as_bytes());
        hash.finish()
    }
}
