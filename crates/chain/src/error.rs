//! What can go wrong with a chain, and what may be done about it (`chain.md` §5.4, §6.2).

use crate::{Address, TipsetKey};
use cid::Cid;
use primitives::Epoch;

/// The result of a chain call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a failure allows (`chain.md` §5.4; failures *on* the chain are classified by [`crate::ExitCode::class`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The way to the chain is disturbed; nothing is known about the request. Try again, without limit, with back-off.
    Transient,
    /// The chain said no and its state is unchanged. Try again only after the matching correction.
    Refused,
    /// Trying again cannot help: a programming fault, a foreign network, damaged data. Stop and alarm.
    Permanent,
}

/// What is wrong with a message's nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NonceProblem {
    /// Another message with this nonce is on the chain already.
    #[error("nonce {got} is used up, the next one is {expected}")]
    TooLow {
        /// The message's nonce.
        got: u64,
        /// The sender's next nonce.
        expected: u64,
    },
    /// Another message with this nonce waits in the pool, and it may not be replaced.
    #[error("another message with nonce {got} waits in the pool")]
    Taken {
        /// The message's nonce.
        got: u64,
    },
    /// The nonce lies too far ahead of the sender's next one.
    #[error("nonce {got} is too far ahead of the next one, {expected}")]
    TooFar {
        /// The message's nonce.
        got: u64,
        /// The sender's next nonce.
        expected: u64,
    },
}

/// Why a chain call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The chain could not be asked, or did not answer.
    #[error("{doing}: {reason}")]
    Transport {
        /// What was being done.
        doing: String,
        /// What happened.
        reason: String,
    },
    /// The token was refused.
    #[error("{doing}: the node refuses the token")]
    Unauthorized {
        /// What was being done.
        doing: String,
    },
    /// The node's head is too old for irreversible decisions.
    #[error("the node lags {behind} epochs behind")]
    Lagging {
        /// How many epochs.
        behind: Epoch,
    },
    /// The epoch has no tipset and none was allowed to stand in for it.
    #[error("epoch {0} has no tipset")]
    NullRound(Epoch),
    /// The epoch lies after the tipset which was asked about.
    #[error("epoch {epoch} lies after the tipset asked about, which is at {height}")]
    FutureEpoch {
        /// The epoch asked for.
        epoch: Epoch,
        /// The height of the tipset.
        height: Epoch,
    },
    /// The tipset is not (or not any more) known.
    #[error("tipset {0} is not known to this chain")]
    UnknownTipset(TipsetKey),
    /// The epoch lies too far back to be asked about.
    #[error("epoch {epoch} is not kept any more, the oldest is {oldest}")]
    TooOld {
        /// The epoch asked for.
        epoch: Epoch,
        /// The oldest that is kept.
        oldest: Epoch,
    },
    /// There is no such actor.
    #[error("actor {0} does not exist")]
    ActorNotFound(Address),
    /// The call needs more gas than a block has.
    #[error("{doing}: out of gas")]
    OutOfGas {
        /// What was being done.
        doing: String,
    },
    /// The message's nonce does not fit.
    #[error("message {cid} from {from}: {problem}")]
    Nonce {
        /// The message.
        cid: Box<Cid>,
        /// Its sender.
        from: Address,
        /// What is wrong.
        problem: NonceProblem,
    },
    /// The message was replaced by another one with the same nonce.
    #[error("message {cid} was replaced by {by}")]
    Replaced {
        /// The message asked about.
        cid: Box<Cid>,
        /// The one that took its nonce.
        by: Box<Cid>,
    },
    /// The fee is below what the node takes.
    #[error("message {cid}: fee cap {got} attoFIL is below {least}")]
    FeeTooLow {
        /// The message.
        cid: Box<Cid>,
        /// Its fee cap.
        got: crate::TokenAmount,
        /// The least one.
        least: crate::TokenAmount,
    },
    /// The sender cannot pay.
    #[error("{from} has too little: {reason}")]
    Funds {
        /// The sender.
        from: Address,
        /// What it lacks.
        reason: String,
    },
    /// The message is not acceptable for another reason.
    #[error("message {cid}: {reason}")]
    Message {
        /// The message.
        cid: Box<Cid>,
        /// What is wrong with it.
        reason: String,
    },
    /// The pool takes no more messages now.
    #[error("the message pool is full ({limit} messages)")]
    PoolFull {
        /// Its limit.
        limit: usize,
    },
    /// A proof is larger than the chain takes.
    #[error("a proof of {got} bytes is larger than the {limit} bytes this chain takes")]
    ProofTooLarge {
        /// Its size in bytes.
        got: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The chain is another one than expected.
    #[error("this is another chain: expected {expected}, got {got}")]
    WrongNetwork {
        /// What was expected, such as `genesis bafy...`.
        expected: String,
        /// What was found.
        got: String,
    },
    /// The node answered with an error not classified further.
    #[error("the node answers {code}: {message}")]
    Rpc {
        /// The JSON-RPC error code.
        code: i64,
        /// Its text.
        message: String,
    },
    /// An answer or a stored thing could not be decoded.
    #[error("{what} cannot be decoded: {reason}")]
    Decode {
        /// What it should be.
        what: String,
        /// Why it is not.
        reason: String,
    },
    /// The embedded chain cannot write or read its files.
    #[error("{doing} {path}: {reason}")]
    Storage {
        /// What was being done.
        doing: &'static str,
        /// The file or folder.
        path: String,
        /// The system's answer.
        reason: String,
    },
    /// The embedded chain's files are damaged where no crash can damage them.
    #[error("{path} is damaged: {reason}")]
    Damaged {
        /// The file.
        path: String,
        /// What was expected and found.
        reason: String,
    },
    /// Another process has the embedded chain open.
    #[error("{path} is in use by another process")]
    InUse {
        /// The chain's folder.
        path: String,
    },
    /// A chain cannot be made or opened with this configuration.
    #[error("{0}")]
    Config(String),
    /// The embedded chain was closed.
    #[error("the chain is closed")]
    Closed,
}

impl Error {
    /// What this failure allows.
    pub fn class(&self) -> Class {
        match self {
            Error::Transport { .. }
            | Error::Lagging { .. }
            | Error::PoolFull { .. }
            | Error::Storage { .. } => Class::Transient,
            // A node that just restarted or follows another fork does not know a tipset, and epochs come with time.
            Error::UnknownTipset(_) | Error::FutureEpoch { .. } | Error::InUse { .. } => Class::Transient,
            // chain.md §4.1: -32002 is "the call is too expensive right now".
            Error::Rpc { code: -32002, .. } => Class::Transient,
            Error::Rpc { code: -32602, .. } => Class::Permanent,
            Error::Rpc { .. }
            | Error::NullRound(_)
            | Error::TooOld { .. }
            | Error::ActorNotFound(_)
            | Error::OutOfGas { .. }
            | Error::Nonce { .. }
            | Error::Replaced { .. }
            | Error::FeeTooLow { .. }
            | Error::Funds { .. }
            | Error::Message { .. } => Class::Refused,
            Error::Unauthorized { .. }
            | Error::ProofTooLarge { .. }
            | Error::WrongNetwork { .. }
            | Error::Decode { .. }
            | Error::Damaged { .. }
            | Error::Config(_)
            | Error::Closed => Class::Permanent,
        }
    }

    pub(crate) fn storage(doing: &'static str, path: &std::path::Path, error: &std::io::Error) -> Self {
        Error::Storage { doing, path: path.display().to_string(), reason: error.to_string() }
    }
}
