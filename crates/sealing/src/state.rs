//! The states of a sector's life (pipeline.md §1). The names are Lotus's, because operators and dashboards know them.

use statemachine::kinds;

kinds! {
    /// Where a sector is in its life.
    pub enum State {
        /// Just created: nothing decided, nothing on disk.
        Empty,
        /// Open for pieces.
        WaitDeals,
        /// A piece is being written into the unsealed file.
        AddPiece,
        /// The rest of the sector is filled with zero pieces.
        Packing,
        /// Seal randomness is drawn from the chain.
        GetTicket,
        /// PC1: labels are computed, layer by layer.
        PreCommit1,
        /// PC2: tree-C, encoding, tree-R-last, CommR.
        PreCommit2,
        /// The pre-commit is checked against the chain and handed to the outbox.
        SubmitPreCommitBatch,
        /// The pre-commit message is on its way.
        PreCommitBatchWait,
        /// The challenge delay runs; the seed is not yet drawn.
        WaitSeed,
        /// C1 and C2: the proof for the seed is computed and verified.
        Committing,
        /// The prove-commit is checked against the chain and handed to the outbox.
        SubmitCommitAggregate,
        /// The prove-commit message is on its way.
        CommitAggregateWait,
        /// Layers and trees that proving does not need are dropped.
        FinalizeSector,
        /// The sector is on chain and at rest.
        Proving,
        /// A piece could not be written or was not what it should be; it is left out.
        AddPieceFailed,
        /// The sector could not be filled.
        PackingFailed,
        /// The labels, or what they were made from, are no good.
        SealPreCommit1Failed,
        /// Trees, replica or commitment are no good.
        SealPreCommit2Failed,
        /// The pre-commit was refused by the chain or by its check.
        PreCommitFailed,
        /// The proof could not be computed or did not verify.
        ComputeProofFailed,
        /// The prove-commit was refused by the chain or by its check.
        CommitFailed,
        /// The sector could not be finalized.
        FinalizeFailed,
        /// Nothing can bring this sector to the chain; its data stays until somebody removes it.
        FailedUnrecoverable,
        /// The sector's files are being deleted.
        Removing,
        /// Files could not be deleted.
        RemoveFailed,
        /// The sector is gone. Its number is never used again.
        Removed,
    }
}

impl State {
    /// The state an operator means by `name`: one of ours, or an older name of one.
    pub fn from_operator(name: &str) -> Option<Self> {
        use statemachine::Kind as _;
        let current = match name {
            "" => "Empty",
            "PreCommitting" => "SubmitPreCommitBatch",
            "PreCommitWait" => "PreCommitBatchWait",
            "SubmitCommit" => "SubmitCommitAggregate",
            "CommitWait" => "CommitAggregateWait",
            "SealFailed" => "SealPreCommit1Failed",
            other => other,
        };
        Self::ALL.iter().copied().find(|s| s.name().eq_ignore_ascii_case(current))
    }

    /// Whether the sector is neither finished nor removed: it holds, or will hold, space for sealing.
    pub fn is_sealing(self) -> bool {
        !matches!(self, State::Proving | State::Removed)
    }
}
