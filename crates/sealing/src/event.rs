//! What can happen to a sector.
//!
//! An event carries everything its transition needs, decided where the world was looked at: planners neither read the
//! chain, nor the disk, nor a clock.

use crate::record::{CidText, PieceAssignment, PieceRecord, ProofRef, SeedDraw, TicketDraw};
use primitives::{Commitment, Epoch, ReplicaId};
use serde::{Deserialize, Serialize};
use statemachine::kinds;

kinds! {
    /// The kinds of [`Event`].
    pub enum EventKind {
        /// Opens the sector for pieces.
        Start,
        /// Makes it a committed-capacity sector.
        StartCc,
        /// Assigns a staged piece.
        AddPiece,
        /// The next assigned piece may be written.
        NextPiece,
        /// A piece is in the unsealed file.
        PieceAdded,
        /// Back to waiting after a piece was left out.
        RetryWaitDeals,
        /// No more pieces: fill up and seal.
        StartPacking,
        /// The sector waited long enough, is full, or has all that was asked for.
        PackingDue,
        /// The sector is full.
        Packed,
        /// Try to fill again.
        RetryPacking,
        /// The ticket is drawn.
        Ticket,
        /// PC1 is done.
        PreCommit1,
        /// Back to PC1.
        RetrySealPreCommit1,
        /// PC2 is done.
        PreCommit2,
        /// Back to PC2.
        RetrySealPreCommit2,
        /// The pre-commit passed its checks and is handed to the outbox.
        PreCommitBatchSent,
        /// The pre-commit is on chain.
        PreCommitLanded,
        /// The pre-commit was found on chain when somebody looked.
        PreCommitFound,
        /// The message had no effect (gas, funds): check and send the pre-commit again.
        ResendPreCommit,
        /// The chain refused the pre-commit, or lost it for good.
        ChainPreCommitFailed,
        /// Check and send the pre-commit again.
        RetryPreCommit,
        /// A new ticket is needed.
        OldTicket,
        /// The seed is drawn.
        SeedReady,
        /// The proof is computed, verified and stored.
        Committed,
        /// Compute the proof again.
        RetryComputeProof,
        /// Draw the seed again.
        RetryWaitSeed,
        /// The labels behind the proof are in doubt: seal again.
        SealAgain,
        /// The prove-commit passed its checks and is handed to the outbox.
        CommitAggregateSent,
        /// The sector is on chain.
        CommitLanded,
        /// The sector was found on chain when somebody looked.
        CommitFound,
        /// The message had no effect (gas, funds): check and send the prove-commit again.
        ResendCommit,
        /// The chain refused the prove-commit.
        ChainCommitFailed,
        /// Check and send the prove-commit again.
        RetrySubmitCommit,
        /// The files that stay are what they should be.
        KeptChecked,
        /// Only what proving needs is left on disk.
        Finalized,
        /// Finalize again.
        RetryFinalize,
        /// Delete the sector's files. Rejected for a sector on chain (PL-11).
        Remove,
        /// Delete the sector's files, on chain or not: somebody named it in a confirmation (PL-11).
        RemoveConfirmed,
        /// The files are gone.
        Removed,
        /// Try to delete again.
        RetryRemove,
        /// Somebody looked at the faults: count anew.
        ForgetFaults,
        /// A unit of work begins (PL-4).
        UnitStarted,
        /// A unit of work is on disk (PL-4).
        UnitFinished,
        /// A file from an earlier run was refused, and why (PL-4).
        UnitRefused,
        /// Nothing an earlier run made counts any more: its results were wrong, not its files.
        UnitsForgotten,
    }
}

/// An event with what it carries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // each variant is documented at its kind
pub enum Event {
    Start { pack_at_ms: Option<u64> },
    StartCc,
    AddPiece { piece: PieceAssignment },
    NextPiece,
    PieceAdded { piece: PieceRecord },
    RetryWaitDeals,
    StartPacking,
    PackingDue,
    Packed { fillers: Vec<PieceRecord> },
    RetryPacking,
    Ticket { ticket: TicketDraw },
    PreCommit1 { comm_d: Commitment, replica_id: ReplicaId },
    RetrySealPreCommit1,
    PreCommit2 { comm_r: Commitment },
    RetrySealPreCommit2,
    PreCommitBatchSent { expiration: Epoch },
    PreCommitLanded { message: Option<CidText>, epoch: Epoch, seed_epoch: Epoch },
    PreCommitFound { epoch: Epoch, seed_epoch: Epoch },
    ResendPreCommit,
    ChainPreCommitFailed { message: Option<CidText>, reason: String },
    RetryPreCommit,
    OldTicket { reason: String },
    SeedReady { seed: SeedDraw },
    Committed { proof: ProofRef },
    RetryComputeProof,
    RetryWaitSeed { epoch: Epoch, seed_epoch: Epoch },
    SealAgain { reason: String },
    CommitAggregateSent,
    KeptChecked,
    CommitLanded { message: Option<CidText>, activation: Epoch },
    CommitFound { activation: Epoch },
    ResendCommit,
    ChainCommitFailed { message: Option<CidText>, reason: String },
    RetrySubmitCommit,
    Finalized,
    RetryFinalize,
    Remove,
    RemoveConfirmed,
    Removed,
    RetryRemove,
    ForgetFaults,
    UnitStarted { stage: String, unit: String },
    UnitFinished { stage: String, unit: String, bytes: u64 },
    UnitRefused { stage: String, unit: String, reason: String },
    UnitsForgotten,
}

impl Event {
    /// Which kind of event this is.
    pub fn kind(&self) -> EventKind {
        macro_rules! kinds_of {
            ($($unit:ident)*; $($data:ident)*) => {
                match self {
                    $(Event::$unit => EventKind::$unit,)*
                    $(Event::$data { .. } => EventKind::$data,)*
                }
            };
        }
        kinds_of!(
            StartCc NextPiece RetryWaitDeals StartPacking PackingDue RetryPacking RetrySealPreCommit1 RetrySealPreCommit2
            RetryPreCommit RetryComputeProof CommitAggregateSent RetrySubmitCommit KeptChecked Finalized RetryFinalize Removed RetryRemove
            Remove RemoveConfirmed ForgetFaults ResendPreCommit ResendCommit UnitsForgotten;
            Start AddPiece PieceAdded Packed Ticket PreCommit1 PreCommit2 PreCommitBatchSent PreCommitLanded
            PreCommitFound CommitFound
            ChainPreCommitFailed OldTicket SeedReady Committed RetryWaitSeed SealAgain CommitLanded ChainCommitFailed
            UnitStarted UnitFinished UnitRefused
        )
    }
}
