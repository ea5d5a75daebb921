//! What is stored stays readable: golden files of schema 1, and the size of the largest record.
//!
//! A golden file is never rewritten. A change that breaks reading one is a new schema with a migration; a field that is
//! added has a default and a new golden file beside the old one.

use cid::Cid;
use primitives::{
    ActorId, Commitment, PieceInfo, RegisteredSealProof, ReplicaId, SectorId, SectorNumber, Seed, Ticket,
};
use primitives::{UnpaddedSize, cids};
use sealing::record::{
    CidText, Faults, PIECES_MAX, Payload, PieceAssignment, PieceRecord, ProofRef, SectorRecord, SeedDraw,
    TicketDraw,
};
use sealing::{Event, EventKind};
use statemachine::Kind as _;
use statestore::{VALUE_BYTES_MAX, codec};
use std::path::{Path, PathBuf};

fn cid() -> Cid {
    cids::comm_d_to_cid(&Commitment([9; 32]))
}

fn payload(name: &str) -> Payload {
    Payload { name: name.to_owned(), input_offset: 2032, bytes: 1000 }
}

fn piece() -> PieceRecord {
    let info = PieceInfo { comm_p: Commitment([1; 32]), size: UnpaddedSize::new(1016).unwrap() };
    PieceRecord { info, offset: 1024, payload: Some(payload("a file")) }
}

fn assignment() -> PieceAssignment {
    PieceAssignment {
        staged: "18a-7-0".to_owned(),
        size: UnpaddedSize::new(127).unwrap(),
        offset: 0,
        digest: Commitment([11; 32]),
        expected: Some(Commitment([2; 32])),
        payload: payload("another"),
    }
}

fn proof_ref() -> ProofRef {
    ProofRef {
        system: "vanilla".to_owned(),
        digest: Commitment([3; 32]),
        bytes: 52_000,
        on_chain: vec![4; 32],
    }
}

fn record() -> SectorRecord {
    let id = SectorId { miner: ActorId(1000), number: SectorNumber(7) };
    let mut r = SectorRecord::new(id, RegisteredSealProof::new(5).unwrap(), 1_790_000_000_000);
    r.cc = true;
    r.pieces = vec![piece(), PieceRecord { payload: None, ..piece() }];
    r.assigned = vec![assignment()];
    r.left_out = vec![(payload("bad"), "it was not what it should be".to_owned())];
    r.pack_requested = true;
    r.ticket = Some(TicketDraw { value: Ticket([5; 32]), epoch: -890 });
    r.comm_d = Some(Commitment([6; 32]));
    r.comm_r = Some(Commitment([7; 32]));
    r.replica_id = Some(ReplicaId([8; 32]));
    r.expiration = Some(3_679_750);
    r.precommit_message = Some(CidText::from(&cid()));
    r.precommit_epoch = Some(12);
    r.seed = Some(SeedDraw { value: Seed([10; 32]), epoch: 22 });
    r.seed_epoch = Some(22);
    r.commit_proof = Some(proof_ref());
    r.commit_message = Some(CidText::from(&cid()));
    r.activation = Some(25);
    r.last_fault = Some("a reason".to_owned());
    r.faults =
        Faults { precommit1: 1, precommit2: 2, invalid_proofs: 3, precommits_refused: 4, commits_refused: 5 };
    r.kept_checked = true;
    r.remake = true;
    r.remove_requested = true;
    r
}

fn events() -> Vec<Event> {
    let message = Some(CidText::from(&cid()));
    let (stage, unit) = ("precommit1".to_owned(), "layer-1".to_owned());
    let reason = "a reason".to_owned();
    vec![
        Event::Start { pack_at_ms: Some(5) },
        Event::StartCc,
        Event::AddPiece { piece: assignment() },
        Event::NextPiece,
        Event::PieceAdded { piece: piece() },
        Event::RetryWaitDeals,
        Event::StartPacking,
        Event::PackingDue,
        Event::Packed { fillers: vec![piece()] },
        Event::RetryPacking,
        Event::Ticket { ticket: TicketDraw { value: Ticket([5; 32]), epoch: -1 } },
        Event::PreCommit1 { comm_d: Commitment([6; 32]), replica_id: ReplicaId([8; 32]) },
        Event::RetrySealPreCommit1,
        Event::PreCommit2 { comm_r: Commitment([7; 32]) },
        Event::RetrySealPreCommit2,
        Event::PreCommitBatchSent { expiration: 9 },
        Event::PreCommitLanded { message: message.clone(), epoch: 12, seed_epoch: 22 },
        Event::PreCommitFound { epoch: 12, seed_epoch: 22 },
        Event::ResendPreCommit,
        Event::ChainPreCommitFailed { message: message.clone(), reason: reason.clone() },
        Event::RetryPreCommit,
        Event::OldTicket { reason: reason.clone() },
        Event::SeedReady { seed: SeedDraw { value: Seed([10; 32]), epoch: 22 } },
        Event::Committed { proof: proof_ref() },
        Event::RetryComputeProof,
        Event::RetryWaitSeed { epoch: 12, seed_epoch: 22 },
        Event::SealAgain { reason: reason.clone() },
        Event::CommitAggregateSent,
        Event::KeptChecked,
        Event::CommitLanded { message: message.clone(), activation: 25 },
        Event::CommitFound { activation: 25 },
        Event::ResendCommit,
        Event::ChainCommitFailed { message, reason: reason.clone() },
        Event::RetrySubmitCommit,
        Event::Finalized,
        Event::RetryFinalize,
        Event::Remove,
        Event::RemoveConfirmed,
        Event::Removed,
        Event::RetryRemove,
        Event::ForgetFaults,
        Event::UnitStarted { stage: stage.clone(), unit: unit.clone() },
        Event::UnitFinished { stage: stage.clone(), unit: unit.clone(), bytes: 2048 },
        Event::UnitRefused { stage, unit, reason },
        Event::UnitsForgotten,
    ]
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// The bytes of a golden file. `NEW_GOLDEN=1` writes one that is not there; one that is there is never touched.
fn golden(name: &str, now: &[u8]) -> Vec<u8> {
    let path = fixture(name);
    if !path.exists() && std::env::var_os("NEW_GOLDEN").is_some() {
        std::fs::write(&path, hex::encode(now) + "\n").unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    hex::decode(text.trim()).unwrap()
}

#[test]
fn records_of_schema_1_are_read_and_written_as_ever() {
    let bytes = codec::encode_bare(&record()).unwrap();
    let there = golden("sector-record-v1.cbor.hex", &bytes);
    assert_eq!(codec::decode_bare::<SectorRecord>(&there).unwrap(), record());
    assert_eq!(bytes, there, "the stored form of a record changed: that needs a new schema");
}

#[test]
fn events_of_schema_1_are_read_and_written_as_ever() {
    let all = events();
    let kinds: std::collections::BTreeSet<EventKind> = all.iter().map(Event::kind).collect();
    assert_eq!(kinds.len(), EventKind::ALL.len(), "an event of every kind");
    let bytes = codec::encode_bare(&all).unwrap();
    let there = golden("sector-events-v1.cbor.hex", &bytes);
    assert_eq!(codec::decode_bare::<Vec<Event>>(&there).unwrap(), all);
    assert_eq!(bytes, there, "the stored form of an event changed: that needs a new schema");
}

#[test]
fn the_largest_record_fits_the_store_with_room_for_the_engine() {
    let mut r = record();
    let name = "n".repeat(255);
    let full =
        |n: usize| PieceRecord { offset: u64::MAX / 2 - n as u64, payload: Some(payload(&name)), ..piece() };
    r.pieces = (0..PIECES_MAX).map(full).collect();
    assert!(r.is_full_of_pieces());
    // Between and behind pieces there are at most as many fillers as sizes for each gap; nobody gets near this.
    r.pieces.extend((0..2 * PIECES_MAX).map(|_| PieceRecord { payload: None, ..piece() }));
    let bytes = codec::encode_bare(&r).unwrap().len();
    assert!(bytes + 8 * 1024 < VALUE_BYTES_MAX, "{bytes} bytes");
}
