//! The planner map: every state of a sector, every event it takes, and where that leads.
//!
//! Read it as a table. `on(E::X, to(S::Y))` moves the sector, `stay()` changes the record only, and what a state does not
//! list falls to its `otherwise`. A step's failure is classified where it arises and finds its row by class. The classes
//! that say nothing about the sector (transient, capacity, worker lost, and the engine's own: panic, time-out,
//! cancelled) are retried in place in every state (PL-9). No rule deletes anything but `Remove`, which only a person sends.

use crate::apply::{
    self as a, failed, input_damaged, precommit1_failed, precommit2_failed, proof_failed, remove_requested,
};
use crate::{EventKind as E, Sector, State as S};
use statemachine::{
    Class as C, PlannerMap, RetryPolicy, Rule, Sender, StateBuilder, ignore, one_of, one_of_failure, park,
    reject, retry, stay, to,
};
use std::time::Duration;

const SEALED: &str = "the sector no longer takes pieces or orders to seal; it is being sealed or past that";
const ON_CHAIN: &str =
    "the sector is on chain, and without its files it becomes faulty; its removal has to be confirmed";
const LATE: &str = "answers a question that is no longer open";
const BACK: &str = "the sector is not in a failed state that this would leave";

const LOOK: &str =
    "look at the reason, mend it, then `sealrig sectors retry N`, or give up with `sealrig sectors remove N`";

/// A minute between looks at what somebody has to mend anyway.
const PATIENT: RetryPolicy = RetryPolicy { first: Duration::from_secs(60), ..RetryPolicy::DEFAULT };

/// The classes that are a verdict about the sector, its data or its place on the chain.
const VERDICTS: [C; 5] = [C::CorruptInput, C::InvalidOutput, C::Rejected, C::Expired, C::Permanent];

/// Rows that many states share.
trait SharedRows {
    /// One rule for these failure classes.
    fn fail_each(self, classes: &[C], rule: Rule<Sector>) -> Self;
    /// The step works with units of the prover, and says what happens to them.
    fn units(self) -> Self;
    /// The sector takes no more pieces; everything else that is not listed answers a question no longer open.
    fn sealed(self) -> Self;
    /// The way out of a failed state is looked for by its step; what is found hopeless ends, what is not understood is
    /// parked, and a person can have the faults counted anew.
    fn looked_after(self) -> Self;
}

impl SharedRows for StateBuilder<Sector> {
    fn fail_each(self, classes: &[C], rule: Rule<Sector>) -> Self {
        classes.iter().fold(self, |row, class| row.fail(*class, rule.clone()))
    }

    fn units(self) -> Self {
        self.on_each(&[E::UnitStarted, E::UnitFinished, E::UnitRefused], &stay())
    }

    fn sealed(self) -> Self {
        self.on(E::AddPiece, reject(SEALED)).otherwise(ignore(LATE))
    }

    fn looked_after(self) -> Self {
        self.on(E::ForgetFaults, stay().apply(a::forget_faults))
            .fail(C::Permanent, to(S::FailedUnrecoverable).apply_failure(failed))
            .fail_each(&VERDICTS[..4], park(LOOK))
            .sealed()
    }
}

#[cfg(test)]
mod tests;

/// The map of a sector.
pub fn planner_map() -> PlannerMap<Sector> {
    use Sender::{Outbox, Outside, Step, Timer};

    PlannerMap::builder(S::Empty)
        // Who sends what.
        .events(Outside, &[E::Start, E::StartCc, E::AddPiece, E::StartPacking, E::ForgetFaults])
        .events(Timer, &[E::NextPiece, E::RetryWaitDeals, E::PackingDue])
        .events(
            Step,
            &[E::PieceAdded, E::Packed, E::Ticket, E::PreCommit1, E::PreCommit2, E::PreCommitBatchSent],
        )
        .events(Step, &[E::PreCommitFound, E::CommitFound])
        .events(
            Step,
            &[
                E::Committed,
                E::CommitAggregateSent,
                E::KeptChecked,
                E::Finalized,
                E::Removed,
                E::OldTicket,
                E::SealAgain,
            ],
        )
        .events(Step, &[E::RetryPacking, E::RetrySealPreCommit1, E::RetrySealPreCommit2, E::RetryPreCommit])
        .events(
            Step,
            &[E::RetryComputeProof, E::RetryWaitSeed, E::RetrySubmitCommit, E::RetryFinalize, E::RetryRemove],
        )
        .events(Step, &[E::UnitStarted, E::UnitFinished, E::UnitRefused, E::UnitsForgotten])
        .events(Outbox, &[E::PreCommitLanded, E::ResendPreCommit, E::ChainPreCommitFailed, E::SeedReady])
        .events(Outbox, &[E::CommitLanded, E::ResendCommit, E::ChainCommitFailed])
        // For all states.
        .control(E::Remove, to(S::Removing).apply(remove_requested))
        .control(E::RemoveConfirmed, to(S::Removing).apply(remove_requested))
        .failures(&[
            (C::Transient, retry()),
            (C::Capacity, retry()),
            (C::WorkerLost, retry()),
            (C::Panic, retry()),
            (C::Timeout, retry()),
            (C::Cancelled, retry()),
            (C::NeedsPerson, park(LOOK)),
        ])
        // ---- input ----
        .state(S::Empty, |s| {
            s.resting()
                .on(E::Start, to(S::WaitDeals).apply(a::start))
                .on(E::StartCc, to(S::Packing).apply(a::start_cc))
                .otherwise(reject("the sector is not started yet"))
        })
        .state(S::WaitDeals, |s| {
            s.resting()
                .on(E::AddPiece, to(S::AddPiece).apply(a::add_piece))
                .on(E::NextPiece, to(S::AddPiece))
                .on_each(
                    &[E::StartPacking, E::PackingDue],
                    &one_of(&[S::Packing, S::AddPiece], a::pieces_before_packing).apply(a::pack_requested),
                )
                .otherwise(ignore(LATE))
        })
        .state(S::AddPiece, |s| {
            s.step()
                .needs("add-piece", 1)
                .on(E::AddPiece, stay().apply(a::add_piece))
                .on_each(&[E::StartPacking, E::PackingDue], &stay().apply(a::pack_requested))
                .on(E::PieceAdded, to(S::WaitDeals).apply(a::piece_added))
                .units()
                .fail_each(&VERDICTS, to(S::AddPieceFailed).apply_failure(a::piece_left_out))
                .otherwise(ignore(LATE))
        })
        .state(S::AddPieceFailed, |s| {
            s.on(E::AddPiece, stay().apply(a::add_piece))
                .on_each(&[E::StartPacking, E::PackingDue], &stay().apply(a::pack_requested))
                .on(E::RetryWaitDeals, to(S::WaitDeals).apply(a::back_to_input))
                .otherwise(ignore(LATE))
        })
        .state(S::Packing, |s| {
            s.step()
                .needs("add-piece", 1)
                .on(E::Packed, to(S::GetTicket).apply(a::packed))
                .fail_each(&VERDICTS, to(S::PackingFailed).apply_failure(failed))
                .sealed()
        })
        .state(S::PackingFailed, |s| {
            s.step()
                .retry(PATIENT)
                .on(E::RetryPacking, to(S::Packing))
                .on(E::ForgetFaults, stay().apply(a::forget_faults))
                .fail_each(&VERDICTS, park(LOOK))
                .sealed()
        })
        // ---- sealing ----
        .state(S::GetTicket, |s| {
            s.step()
                .on(E::Ticket, to(S::PreCommit1).apply(a::ticket))
                .on(E::PreCommitFound, to(S::WaitSeed).apply(a::precommit_landed))
                .fail(C::Permanent, to(S::FailedUnrecoverable).apply_failure(failed))
                .fail_each(&VERDICTS[..4], park(LOOK))
                .sealed()
        })
        .state(S::PreCommit1, |s| {
            s.step()
                .needs("precommit1", 1)
                .units()
                .on(E::UnitsForgotten, stay().apply(a::units_forgotten))
                .on(E::PreCommit1, to(S::PreCommit2).apply(a::precommit1))
                .on(E::OldTicket, to(S::GetTicket).apply(a::old_ticket))
                .fail(C::CorruptInput, to(S::SealPreCommit1Failed).apply_failure(precommit1_failed))
                .fail(C::InvalidOutput, to(S::SealPreCommit1Failed).apply_failure(precommit1_failed))
                .fail(C::Rejected, to(S::SealPreCommit1Failed).apply_failure(precommit1_failed))
                .fail(C::Expired, to(S::GetTicket).apply_failure(a::expired))
                .fail(C::Permanent, to(S::FailedUnrecoverable).apply_failure(failed))
                .sealed()
        })
        .state(S::SealPreCommit1Failed, |s| {
            s.step()
                .on(E::RetrySealPreCommit1, to(S::PreCommit1))
                .on(E::PreCommitFound, to(S::WaitSeed).apply(a::precommit_landed))
                .on(E::OldTicket, to(S::GetTicket).apply(a::old_ticket))
                .on(E::CommitFound, to(S::FinalizeSector).apply(a::commit_landed))
                .looked_after()
        })
        .state(S::PreCommit2, |s| {
            s.step()
                .needs("precommit2", 1)
                .units()
                .on(E::PreCommit2, to(S::SubmitPreCommitBatch).apply(a::precommit2))
                .fail(
                    C::CorruptInput,
                    one_of_failure(&[S::SealPreCommit1Failed, S::SealPreCommit2Failed], a::maker)
                        .apply_failure(input_damaged),
                )
                .fail(C::InvalidOutput, to(S::SealPreCommit2Failed).apply_failure(precommit2_failed))
                .fail(C::Rejected, to(S::SealPreCommit2Failed).apply_failure(precommit2_failed))
                .fail(C::Expired, to(S::SealPreCommit2Failed).apply_failure(precommit2_failed))
                .fail(C::Permanent, to(S::FailedUnrecoverable).apply_failure(failed))
                .sealed()
        })
        .state(S::SealPreCommit2Failed, |s| {
            s.step()
                .on(E::RetrySealPreCommit2, to(S::PreCommit2))
                .on(E::RetrySealPreCommit1, to(S::PreCommit1))
                .on(E::PreCommitFound, to(S::WaitSeed).apply(a::precommit_landed))
                .on(E::CommitFound, to(S::FinalizeSector).apply(a::commit_landed))
                .looked_after()
        })
        // ---- pre-commit ----
        .state(S::SubmitPreCommitBatch, |s| {
            s.step()
                .on(E::PreCommitBatchSent, to(S::PreCommitBatchWait).apply(a::precommit_sent))
                .on(E::PreCommitFound, to(S::WaitSeed).apply(a::precommit_landed))
                .on(E::OldTicket, to(S::GetTicket).apply(a::old_ticket))
                .on(E::CommitFound, to(S::FinalizeSector).apply(a::commit_landed))
                .fail(C::CorruptInput, to(S::SealPreCommit1Failed).apply_failure(precommit1_failed))
                .fail(C::InvalidOutput, to(S::SealPreCommit2Failed).apply_failure(precommit2_failed))
                .fail(C::Rejected, to(S::PreCommitFailed).apply_failure(failed))
                .fail(C::Expired, to(S::PreCommitFailed).apply_failure(failed))
                .fail(C::Permanent, to(S::FailedUnrecoverable).apply_failure(failed))
                .sealed()
        })
        .state(S::PreCommitBatchWait, |s| {
            s.on(E::PreCommitLanded, to(S::WaitSeed).apply(a::precommit_landed))
                .on(E::ChainPreCommitFailed, to(S::PreCommitFailed).apply(a::precommit_refused))
                .on(E::ResendPreCommit, to(S::SubmitPreCommitBatch))
                .sealed()
        })
        .state(S::PreCommitFailed, |s| {
            s.step()
                .on(E::RetryPreCommit, to(S::SubmitPreCommitBatch))
                .on(E::PreCommitFound, to(S::WaitSeed).apply(a::precommit_landed))
                .on(E::OldTicket, to(S::GetTicket).apply(a::old_ticket))
                .on(E::CommitFound, to(S::FinalizeSector).apply(a::commit_landed))
                .looked_after()
        })
        .state(S::WaitSeed, |s| {
            s.on(E::SeedReady, to(S::Committing).apply(a::seed))
                // A reorg moved the pre-commit, and with it the seed.
                .on(E::PreCommitLanded, to(S::WaitSeed).apply(a::precommit_landed))
                .on(E::ChainPreCommitFailed, to(S::PreCommitFailed).apply(a::precommit_refused))
                .sealed()
        })
        // ---- commit ----
        .state(S::Committing, |s| {
            s.step()
                .needs("commit", 1)
                .units()
                .on(E::Committed, to(S::SubmitCommitAggregate).apply(a::committed))
                .on(E::RetryWaitSeed, to(S::WaitSeed).apply(a::wait_seed_again))
                .on(E::CommitFound, to(S::FinalizeSector).apply(a::commit_landed))
                .fail(
                    C::CorruptInput,
                    one_of_failure(&[S::SealPreCommit1Failed, S::SealPreCommit2Failed], a::maker)
                        .apply_failure(input_damaged),
                )
                .fail(C::InvalidOutput, to(S::ComputeProofFailed).apply_failure(proof_failed))
                .fail(C::Rejected, to(S::CommitFailed).apply_failure(failed))
                .fail(C::Expired, to(S::CommitFailed).apply_failure(failed))
                .fail(C::Permanent, to(S::FailedUnrecoverable).apply_failure(failed))
                .sealed()
        })
        .state(S::ComputeProofFailed, |s| {
            s.step()
                .on(E::RetryComputeProof, to(S::Committing))
                .on(E::SealAgain, to(S::SealPreCommit1Failed).apply(a::seal_again))
                .on(E::CommitFound, to(S::FinalizeSector).apply(a::commit_landed))
                .looked_after()
        })
        .state(S::SubmitCommitAggregate, |s| {
            s.step()
                .on(E::CommitAggregateSent, to(S::CommitAggregateWait).apply(a::commit_sent))
                .on(E::CommitFound, to(S::FinalizeSector).apply(a::commit_landed))
                .on(E::RetryWaitSeed, to(S::WaitSeed).apply(a::wait_seed_again))
                .on(E::RetryComputeProof, to(S::Committing))
                .fail(C::CorruptInput, to(S::ComputeProofFailed).apply_failure(proof_failed))
                .fail(C::InvalidOutput, to(S::ComputeProofFailed).apply_failure(proof_failed))
                .fail(C::Rejected, to(S::CommitFailed).apply_failure(failed))
                .fail(C::Expired, to(S::CommitFailed).apply_failure(failed))
                .fail(C::Permanent, to(S::FailedUnrecoverable).apply_failure(failed))
                .sealed()
        })
        .state(S::CommitAggregateWait, |s| {
            s.on(E::CommitLanded, to(S::FinalizeSector).apply(a::commit_landed))
                .on(E::ChainCommitFailed, to(S::CommitFailed).apply(a::commit_refused))
                .on(E::ResendCommit, to(S::SubmitCommitAggregate))
                .sealed()
        })
        .state(S::CommitFailed, |s| {
            s.step()
                .on(E::RetrySubmitCommit, to(S::SubmitCommitAggregate))
                .on(E::RetryWaitSeed, to(S::WaitSeed).apply(a::wait_seed_again))
                .on(E::RetryComputeProof, to(S::Committing))
                .on(E::SealAgain, to(S::SealPreCommit1Failed).apply(a::seal_again))
                .on(E::RetryPreCommit, to(S::SubmitPreCommitBatch))
                .on(E::CommitFound, to(S::FinalizeSector).apply(a::commit_landed))
                .looked_after()
        })
        // ---- on chain ----
        .state(S::FinalizeSector, |s| {
            s.step()
                .needs("finalize", 1)
                .on(E::Remove, reject(ON_CHAIN))
                .units()
                .on(E::KeptChecked, stay().apply(a::kept_checked))
                .on(E::Finalized, to(S::Proving))
                // The files that stay are looked at once more, while they can still be made anew.
                .fail(
                    C::CorruptInput,
                    one_of_failure(&[S::SealPreCommit1Failed, S::SealPreCommit2Failed], a::maker)
                        .apply_failure(input_damaged),
                )
                .fail_each(&VERDICTS[1..], to(S::FinalizeFailed).apply_failure(failed))
                .sealed()
        })
        .state(S::FinalizeFailed, |s| {
            s.step()
                .retry(PATIENT)
                .on(E::Remove, reject(ON_CHAIN))
                .on(E::RetryFinalize, to(S::FinalizeSector))
                .on(E::ForgetFaults, stay().apply(a::forget_faults))
                .fail_each(&VERDICTS, park(LOOK))
                .sealed()
        })
        .state(S::Proving, |s| s.resting().on(E::Remove, reject(ON_CHAIN)).sealed())
        // ---- the end ----
        .state(S::FailedUnrecoverable, |s| {
            s.resting().on(E::AddPiece, reject(SEALED)).otherwise(ignore(BACK))
        })
        .state(S::Removing, |s| {
            s.step()
                .on_each(&[E::Remove, E::RemoveConfirmed], &ignore("the sector is being removed already"))
                .on(E::Removed, to(S::Removed))
                .fail_each(&VERDICTS, to(S::RemoveFailed).apply_failure(failed))
                .sealed()
        })
        .state(S::RemoveFailed, |s| {
            s.step()
                .retry(PATIENT)
                .on(E::RetryRemove, to(S::Removing))
                .on(E::ForgetFaults, stay().apply(a::forget_faults))
                .fail_each(&VERDICTS, park(LOOK))
                .sealed()
        })
        .state(S::Removed, |s| {
            s.final_()
                .on_each(&[E::Remove, E::RemoveConfirmed], &ignore("the sector is removed already"))
                .on(E::AddPiece, reject("the sector is removed"))
                .otherwise(ignore(LATE))
        })
        .build()
}
