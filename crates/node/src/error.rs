//! Why a node did not start or could not do what it was asked.

use crate::repo::RepoError;
use sealing::{PipelineError, StagingError, StorageError};
use statemachine::Class;
use statestore::StoreError;

/// Why a node did not start, or a demo did not get to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The repo cannot be used.
    #[error(transparent)]
    Repo(#[from] RepoError),
    /// A check before the start failed.
    #[error("{what}. {remedy}")]
    Check {
        /// What is wrong, as a sentence without its full stop.
        what: String,
        /// What to do about it, as whole sentences.
        remedy: String,
    },
    /// The store did not open, or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The chain did not open, or did not answer.
    #[error("cannot {doing}: {source}")]
    Chain {
        /// What was being done.
        doing: &'static str,
        /// What the chain said.
        source: chain::Error,
    },
    /// The storage path did not open.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The pipeline refused something.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// An input could not be taken.
    #[error(transparent)]
    Staging(#[from] StagingError),
    /// The system gave no threads for the proofs.
    #[error("cannot start {threads} threads for the proofs: {reason}; try fewer")]
    Threads {
        /// How many.
        threads: usize,
        /// What the system said.
        reason: String,
    },
    /// The API's address cannot be used.
    #[error(
        "cannot listen on {address}: {reason}; is another node using it? `--listen 127.0.0.1:0` takes a free port"
    )]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// What the system said.
        reason: String,
    },
    /// Work on another thread ended without an answer.
    #[error("{0} ended without an answer; this is a fault of the program, not of your data")]
    Lost(&'static str),
}

impl NodeError {
    /// Whether another process owns the repo.
    pub fn is_locked(&self) -> bool {
        matches!(self, NodeError::Store(StoreError::Locked { .. }))
    }

    /// Whether a file of a sector is damaged.
    pub fn is_damage(&self) -> bool {
        matches!(self, NodeError::Pipeline(PipelineError::Unseal(e)) if matches!(e.class, Class::CorruptInput | Class::InvalidOutput))
    }

    /// A chain error with what was being done.
    pub(crate) fn chain(doing: &'static str) -> impl FnOnce(chain::Error) -> Self {
        move |source| NodeError::Chain { doing, source }
    }
}
