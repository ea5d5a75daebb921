//! What can go wrong in a stage.

use crate::control::{Cancelled, UnitError};
use crate::files::FileError;
use crate::params::ConfigError;
use std::io;

/// Why a stage or a tool of this crate failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The stage was asked to end.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// The unit sink refused a unit.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// The parameters make no sense together.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file or folder cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A caller's reader or writer failed.
    #[error("cannot {action}: {source}")]
    Stream {
        /// What was being done: `read the piece`, `write the padded piece`, ...
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A source of piece data did not deliver what was announced.
    #[error("the piece data ended after {got} bytes, expected {expected}")]
    PieceTooShort {
        /// Bytes announced.
        expected: u64,
        /// Bytes delivered.
        got: u64,
    },
    /// A source of piece data has more bytes than were announced.
    #[error("the piece data goes on after the expected {expected} bytes")]
    PieceTooLong {
        /// Bytes announced.
        expected: u64,
    },
    /// The system has not enough memory.
    #[error("cannot get {bytes} bytes of memory for {what}: {source}")]
    Memory {
        /// What the memory is for.
        what: &'static str,
        /// How much.
        bytes: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// The parents are of another graph than the configuration's.
    #[error(
        "the parents are of another graph: {got} nodes, the configuration has {expected}; or another porep id or version"
    )]
    WrongGraph {
        /// Nodes of the configuration.
        expected: u64,
        /// Nodes of the graph given.
        got: u64,
    },
    /// A parents file that seemed good holds a list no graph can have.
    #[error("the parents of node {node} are impossible: the parents cache file is damaged, remove it")]
    ImpossibleParents {
        /// The node.
        node: u64,
    },
    /// Pieces do not make up a sector.
    #[error(transparent)]
    Pieces(#[from] crate::piece::PiecesError),
    /// 32 bytes that must be a field element are not below the modulus (proofs.md §1.1).
    #[error("{what} is not a field element: {value} is not below the modulus")]
    NotCanonical {
        /// What the bytes are: `comm_d`, `node 7 of the data`, ...
        what: String,
        /// The bytes in hex.
        value: String,
    },
}

impl Error {
    /// For `map_err` on a caller's streams.
    pub(crate) fn stream(action: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Stream { action, source }
    }
}
