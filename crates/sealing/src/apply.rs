//! What events do to a record: pure functions, one per row of the planner map that changes more than the state.
//!
//! Nothing here reads a clock, the chain or a disk: the event carries what was found out, and [`Effects`] the event's
//! time. An event of another kind than the row's leaves the record alone.

use crate::event::Event;
use crate::intent::{self, CommitIntent, PreCommitIntent, SeedIntent, UnstageIntent};
use crate::record::SectorRecord;
use crate::{Sector, State};
use statemachine::{Class, Effects, Failure};

type Fx = Effects<Sector>;

pub(crate) fn start(r: &mut SectorRecord, e: &Event, fx: &mut Fx) {
    if let Event::Start { pack_at_ms: Some(at) } = e {
        fx.timer("pack", *at, Event::PackingDue);
    }
    r.cc = false;
}

pub(crate) fn start_cc(r: &mut SectorRecord, _: &Event, _: &mut Fx) {
    r.cc = true;
}

pub(crate) fn add_piece(r: &mut SectorRecord, e: &Event, _: &mut Fx) {
    if let Event::AddPiece { piece } = e {
        r.assigned.push(piece.clone());
    }
}

pub(crate) fn piece_added(r: &mut SectorRecord, e: &Event, fx: &mut Fx) {
    if let Event::PieceAdded { piece } = e {
        if let Some(at) = r.assigned.iter().position(|a| a.offset == piece.offset) {
            unstage(&r.assigned.remove(at).staged, fx);
        }
        r.pieces.push(piece.clone());
        go_on_with_input(r, fx);
    }
}

fn unstage(staged: &str, fx: &mut Fx) {
    fx.intent(intent::UNSTAGE, &UnstageIntent { staged: staged.to_owned() });
}

/// After a piece is in, or left out: the next assigned one, or packing when the sector is full or somebody asked.
fn go_on_with_input(r: &SectorRecord, fx: &mut Fx) {
    if !r.assigned.is_empty() {
        fx.timer("input", fx.at_ms(), Event::NextPiece);
    } else if r.pack_requested || r.taken() == r.proof.sector_size().bytes() || r.is_full_of_pieces() {
        fx.timer("input", fx.at_ms(), Event::PackingDue);
    }
}

pub(crate) fn piece_left_out(r: &mut SectorRecord, f: &Failure, fx: &mut Fx) {
    if !r.assigned.is_empty() {
        let piece = r.assigned.remove(0);
        unstage(&piece.staged, fx);
        r.left_out.push((piece.payload, f.message.clone()));
    }
    fault(r, f);
    fx.timer("input", fx.at_ms(), Event::RetryWaitDeals);
}

pub(crate) fn back_to_input(r: &mut SectorRecord, _: &Event, fx: &mut Fx) {
    go_on_with_input(r, fx);
}

pub(crate) fn pack_requested(r: &mut SectorRecord, _: &Event, fx: &mut Fx) {
    r.pack_requested = true;
    fx.clear_timer("pack");
}

/// StartPacking in WaitDeals: assigned pieces first.
pub(crate) fn pieces_before_packing(r: &SectorRecord, _: &Event) -> State {
    if r.assigned.is_empty() { State::Packing } else { State::AddPiece }
}

pub(crate) fn packed(r: &mut SectorRecord, e: &Event, _: &mut Fx) {
    if let Event::Packed { fillers } = e {
        r.pieces.extend(fillers.iter().cloned());
        r.pieces.sort_by_key(|p| p.offset);
    }
}

pub(crate) fn ticket(r: &mut SectorRecord, e: &Event, _: &mut Fx) {
    if let Event::Ticket { ticket } = e {
        r.ticket = Some(*ticket);
        // What was made with another ticket is void; the files are refused by their manifest.
        r.comm_r = None;
        r.replica_id = None;
    }
}

pub(crate) fn old_ticket(r: &mut SectorRecord, e: &Event, _: &mut Fx) {
    if let Event::OldTicket { reason } = e {
        r.last_fault = Some(reason.clone());
    }
    r.ticket = None;
    r.comm_r = None;
    r.replica_id = None;
}

pub(crate) fn expired(r: &mut SectorRecord, f: &Failure, _: &mut Fx) {
    fault(r, f);
    r.ticket = None;
    r.comm_r = None;
    r.replica_id = None;
}

pub(crate) fn precommit1(r: &mut SectorRecord, e: &Event, _: &mut Fx) {
    if let Event::PreCommit1 { comm_d, replica_id } = e {
        r.comm_d = Some(*comm_d);
        r.replica_id = Some(*replica_id);
    }
}

pub(crate) fn precommit2(r: &mut SectorRecord, e: &Event, _: &mut Fx) {
    if let Event::PreCommit2 { comm_r } = e {
        r.comm_r = Some(*comm_r);
        r.kept_checked = false;
        r.faults.precommit2 = 0;
    }
}

pub(crate) fn precommit_sent(r: &mut SectorRecord, e: &Event, fx: &mut Fx) {
    if let Event::PreCommitBatchSent { expiration } = e {
        r.expiration = Some(*expiration);
        // The step that sends this event has checked that the sector has all three.
        if let (Some(ticket), Some(comm_r), Some(comm_d)) = (r.ticket, r.comm_r, r.comm_d) {
            fx.intent(
                intent::PRECOMMIT,
                &PreCommitIntent {
                    miner: r.miner,
                    number: r.number,
                    proof: r.proof,
                    comm_r,
                    comm_d: (!r.cc).then_some(comm_d),
                    ticket_epoch: ticket.epoch,
                    expiration: *expiration,
                },
            );
        }
    }
}

pub(crate) fn precommit_landed(r: &mut SectorRecord, e: &Event, fx: &mut Fx) {
    if let Event::PreCommitLanded { epoch, seed_epoch, .. } | Event::PreCommitFound { epoch, seed_epoch } = e
    {
        if let Event::PreCommitLanded { message: Some(message), .. } = e {
            r.precommit_message = Some(message.clone());
        }
        r.precommit_epoch = Some(*epoch);
        r.faults.precommit1 = 0;
        r.faults.precommits_refused = 0;
        wait_for_seed(r, *seed_epoch, fx);
    }
}

pub(crate) fn wait_seed_again(r: &mut SectorRecord, e: &Event, fx: &mut Fx) {
    if let Event::RetryWaitSeed { epoch, seed_epoch } = e {
        r.precommit_epoch = Some(*epoch);
        wait_for_seed(r, *seed_epoch, fx);
    }
}

fn wait_for_seed(r: &mut SectorRecord, seed_epoch: i64, fx: &mut Fx) {
    r.seed_epoch = Some(seed_epoch);
    r.seed = None;
    r.commit_proof = None;
    fx.withdraw_intents(intent::SEED);
    fx.intent(intent::SEED, &SeedIntent { miner: r.miner, number: r.number, epoch: seed_epoch });
}

pub(crate) fn precommit_refused(r: &mut SectorRecord, e: &Event, _: &mut Fx) {
    if let Event::ChainPreCommitFailed { reason, .. } = e {
        r.faults.precommits_refused += 1;
        r.last_fault = Some(reason.clone());
    }
}

pub(crate) fn seed(r: &mut SectorRecord, e: &Event, _: &mut Fx) {
    if let Event::SeedReady { seed } = e {
        r.seed = Some(*seed);
        r.seed_epoch = Some(seed.epoch);
        r.commit_proof = None;
    }
}

pub(crate) fn committed(r: &mut SectorRecord, e: &Event, _: &mut Fx) {
    if let Event::Committed { proof } = e {
        r.commit_proof = Some(proof.clone());
    }
}

pub(crate) fn commit_sent(r: &mut SectorRecord, _: &Event, fx: &mut Fx) {
    // The step that sends this event has checked that the sector has a proof.
    if let Some(proof) = &r.commit_proof {
        let intent = CommitIntent {
            miner: r.miner,
            number: r.number,
            proof: r.proof,
            pieces: if r.cc { Vec::new() } else { r.piece_infos() },
            proof_bytes: proof.on_chain.clone(),
        };
        fx.intent(intent::COMMIT, &intent);
    }
}

pub(crate) fn commit_landed(r: &mut SectorRecord, e: &Event, _: &mut Fx) {
    if let Event::CommitLanded { activation, .. } | Event::CommitFound { activation } = e {
        if let Event::CommitLanded { message: Some(message), .. } = e {
            r.commit_message = Some(message.clone());
        }
        r.activation = Some(*activation);
        r.faults = Default::default();
        r.last_fault = None;
    }
}

pub(crate) fn commit_refused(r: &mut SectorRecord, e: &Event, _: &mut Fx) {
    if let Event::ChainCommitFailed { reason, .. } = e {
        r.faults.commits_refused += 1;
        r.last_fault = Some(reason.clone());
    }
}

pub(crate) fn seal_again(r: &mut SectorRecord, e: &Event, _: &mut Fx) {
    if let Event::SealAgain { reason } = e {
        r.faults.precommit1 += 1;
        r.faults.invalid_proofs = 0;
        r.remake = true;
        r.last_fault = Some(reason.clone());
    }
    r.commit_proof = None;
}

pub(crate) fn remove_requested(r: &mut SectorRecord, _: &Event, fx: &mut Fx) {
    r.remove_requested = true;
    fx.clear_timer("pack");
    fx.clear_timer("input");
    for piece in std::mem::take(&mut r.assigned) {
        unstage(&piece.staged, fx);
    }
    for kind in [intent::PRECOMMIT, intent::COMMIT, intent::SEED] {
        fx.withdraw_intents(kind);
    }
}

pub(crate) fn forget_faults(r: &mut SectorRecord, _: &Event, _: &mut Fx) {
    r.faults = Default::default();
}

/// Where the maker of a damaged input is mended: PC1 makes layers and tree-D anew, PC2 everything behind them.
pub(crate) fn maker(_: &SectorRecord, f: &Failure) -> State {
    match f.made_by.as_deref() {
        Some("PreCommit2") => State::SealPreCommit2Failed,
        _ => State::SealPreCommit1Failed,
    }
}

pub(crate) fn input_damaged(r: &mut SectorRecord, f: &Failure, _: &mut Fx) {
    match maker(r, f) {
        State::SealPreCommit2Failed => r.faults.precommit2 += 1,
        _ => r.faults.precommit1 += 1,
    }
    r.commit_proof = None;
    fault(r, f);
}

/// Keeps the reason of a failure for people.
pub(crate) fn fault(r: &mut SectorRecord, f: &Failure) {
    r.last_fault = Some(f.message.clone());
}

pub(crate) fn failed(r: &mut SectorRecord, f: &Failure, _: &mut Fx) {
    fault(r, f);
}

pub(crate) fn kept_checked(r: &mut SectorRecord, _: &Event, _: &mut Fx) {
    r.kept_checked = true;
}

pub(crate) fn units_forgotten(r: &mut SectorRecord, _: &Event, _: &mut Fx) {
    r.remake = false;
}

/// A wrong result from undamaged files: what was computed is wrong, so nothing of it may be used again.
fn note_wrong_result(r: &mut SectorRecord, f: &Failure) {
    r.remake |= f.class == Class::InvalidOutput;
}

pub(crate) fn precommit1_failed(r: &mut SectorRecord, f: &Failure, _: &mut Fx) {
    r.faults.precommit1 += 1;
    note_wrong_result(r, f);
    fault(r, f);
}

pub(crate) fn precommit2_failed(r: &mut SectorRecord, f: &Failure, _: &mut Fx) {
    r.faults.precommit2 += 1;
    note_wrong_result(r, f);
    fault(r, f);
}

pub(crate) fn proof_failed(r: &mut SectorRecord, f: &Failure, _: &mut Fx) {
    r.faults.invalid_proofs += 1;
    r.commit_proof = None;
    fault(r, f);
}
