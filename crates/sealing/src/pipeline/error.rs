//! Why the pipeline did not do what it was asked.

use crate::prover::ProverError;
use crate::storage::StorageError;
use primitives::SectorNumber;
use statemachine::{CreateError, OpenError, ReadError, SendError};

/// Why the pipeline did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The engine did not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is no such sector.
    #[error("there is no sector {0}")]
    Unknown(SectorNumber),
    /// The sector's rules say no.
    #[error("sector {number} is in state {state}: {reason}")]
    Refused {
        /// The sector.
        number: SectorNumber,
        /// Its state.
        state: String,
        /// The rule's reason.
        reason: String,
    },
    /// A sector on chain is only removed with its number named again.
    #[error("sector {number} is {state}: it is on chain, and without its files it becomes faulty")]
    Unconfirmed {
        /// The sector.
        number: SectorNumber,
        /// Its state.
        state: String,
    },
    /// Nothing to retry.
    #[error("sector {number} is {state} and waits for nothing that a retry could move")]
    NothingToRetry {
        /// The sector.
        number: SectorNumber,
        /// Its state.
        state: String,
    },
    /// The sector holds no data that could be given back.
    #[error("sector {number} cannot be unsealed in state {state}: {reason}")]
    NotSealed {
        /// The sector.
        number: SectorNumber,
        /// Its state.
        state: String,
        /// What is missing.
        reason: String,
    },
    /// An input of which the first parts are placed, and the rest is not.
    #[error(
        "{cause}; the first {bytes} bytes of the input are in sector {sectors} already and stay there: send the rest, from \
         byte {bytes} on"
    )]
    Partly {
        /// Bytes of the input that are placed.
        bytes: u64,
        /// The sectors they are in.
        sectors: String,
        /// Why the rest is not.
        cause: Box<PipelineError>,
    },
    /// Files or space.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The chain did not answer.
    #[error("cannot {doing}: {source}")]
    Chain {
        /// What was being done.
        doing: &'static str,
        /// What the chain said.
        source: chain::Error,
    },
    /// A sector's data could not be computed back; the class says whether a file is damaged.
    #[error(transparent)]
    Unseal(ProverError),
    /// A step-like action of the pipeline failed.
    #[error("{0}")]
    Failed(String),
    /// The engine could not read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The engine could not create.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The engine could not take an event.
    #[error(transparent)]
    Send(#[from] SendError),
}
