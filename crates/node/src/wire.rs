//! What goes over the wire: the JSON of the HTTP API, of `sector-status --json` and of `sealrig demo --json`.
//!
//! These types are apart from the stored ones, with explicit conversions in [`view`](crate::view), so that either can change
//! without the other. Times are milliseconds since 1970, hashes and randomness are lower-case hexadecimal, CIDs are text.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of every JSON document here; it grows when a field changes its meaning or goes away.
pub const SCHEMA: u32 = 1;

/// The answer to every request that is not granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What kind of refusal it is, in one word. Clients must take one they do not know as `failed`.
    pub class: String,
    /// What went wrong, as a sentence.
    pub error: String,
    /// What to do next.
    pub next: Option<String>,
}

/// The classes of a refusal ([`ErrorBody::class`]).
pub mod refusal {
    /// There is no such sector.
    pub const UNKNOWN: &str = "unknown";
    /// The rules of the sector say no, in the state in which it is.
    pub const REFUSED: &str = "refused";
    /// The request cannot be followed.
    pub const USAGE: &str = "usage";
    /// A file of the sector is damaged or missing.
    pub const DAMAGED: &str = "damaged";
    /// Everything else: no room, a disk or a chain that fails, a node that is busy or stops.
    pub const FAILED: &str = "failed";
}

/// What a node is and how it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program's version.
    pub version: String,
    /// The process.
    pub pid: u32,
    /// Since when it runs.
    pub started_ms: u64,
    /// The repo's folder.
    pub repo: String,
    /// The miner's address.
    pub miner: String,
    /// The sector size in bytes.
    pub sector_size: u64,
    /// The seal proof's name.
    pub seal_proof: String,
    /// The proof system.
    pub proof_system: String,
    /// The chain's head.
    pub chain: ChainHead,
    /// Sectors by state; states without sectors are left out.
    pub sectors: BTreeMap<String, u64>,
    /// Sectors whose records cannot be read, with the reason.
    pub quarantined: BTreeMap<String, String>,
    /// Bytes promised to sectors that are being sealed.
    pub reserved_bytes: u64,
    /// Why the store takes no writes; `None` when it does.
    pub store_error: Option<String>,
}

/// The chain's head.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainHead {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The network's name.
    pub network: String,
    /// The epoch.
    pub height: i64,
    /// The block CIDs.
    pub blocks: Vec<String>,
    /// Milliseconds between two epochs; 0 when they come on demand.
    pub epoch_ms: u64,
}

/// A page of sectors, by number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectorList {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The sectors.
    pub sectors: Vec<SectorRow>,
    /// Ask for sectors after this number for the next page; `None` on the last one.
    pub next_after: Option<u64>,
}

/// A sector in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectorRow {
    /// Its number.
    pub number: u64,
    /// Its state.
    pub state: String,
    /// Since when it is in that state.
    pub since_ms: u64,
    /// When it was created.
    pub created_ms: u64,
    /// Whether it is committed capacity, without data.
    pub cc: bool,
    /// How many pieces of data it holds or will hold.
    pub pieces: u64,
    /// Bytes of data in them.
    pub data_bytes: u64,
    /// The run that is wanted or in progress.
    pub run: Option<Run>,
    /// What it waits for, as a sentence; `None` when it works or is at rest.
    pub waiting_for: Option<String>,
    /// When its step is tried again.
    pub next_try_ms: Option<u64>,
    /// Whether a person has to act.
    pub needs_attention: bool,
    /// The last failure, in one line.
    pub last_failure: Option<String>,
}

/// One execution of a state's work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The attempt; 1 for the first.
    pub attempt: u32,
    /// When it started; `None` while it waits for its turn.
    pub started_ms: Option<u64>,
    /// How far it is, if it says so.
    pub progress: Option<Progress>,
}

/// How far a run is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// What is being done.
    pub phase: String,
    /// Units done.
    pub done: u64,
    /// Units in all; 0 when unknown.
    pub total: u64,
    /// What is counted.
    pub unit: String,
}

/// Everything about one sector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectorDetail {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Its number.
    pub number: u64,
    /// The miner's address.
    pub miner: String,
    /// The seal proof's name.
    pub seal_proof: String,
    /// Its size in bytes.
    pub sector_size: u64,
    /// Its state.
    pub state: String,
    /// Since when it is in that state.
    pub since_ms: u64,
    /// When it was created.
    pub created_ms: u64,
    /// Whether it is committed capacity, without data.
    pub cc: bool,
    /// Seal randomness.
    pub ticket: Option<String>,
    /// The epoch it was drawn for.
    pub ticket_epoch: Option<i64>,
    /// Interactive randomness.
    pub seed: Option<String>,
    /// The epoch it is or will be drawn for.
    pub seed_epoch: Option<i64>,
    /// The pieces, in order of their place; fillers included once the sector is packed. A piece is called by its index here,
    /// from 0.
    pub pieces: Vec<Piece>,
    /// Pieces that were left out, with the reason.
    pub left_out: Vec<LeftOut>,
    /// CommD.
    pub comm_d: Option<String>,
    /// CommR.
    pub comm_r: Option<String>,
    /// CommD as a CID.
    pub comm_d_cid: Option<String>,
    /// CommR as a CID.
    pub comm_r_cid: Option<String>,
    /// The replica id.
    pub replica_id: Option<String>,
    /// The epoch of the pre-commit on chain.
    pub precommit_epoch: Option<i64>,
    /// The epoch at which the chain activated the sector.
    pub activation_epoch: Option<i64>,
    /// The expiration its pre-commit asked for.
    pub expiration_epoch: Option<i64>,
    /// Its messages, oldest first.
    pub messages: Vec<Message>,
    /// The states it went through, oldest first; the last one is where it is.
    pub timeline: Vec<Stay>,
    /// The run that is wanted or in progress.
    pub run: Option<Run>,
    /// What it waits for, as a sentence.
    pub waiting_for: Option<String>,
    /// The last failure.
    pub last_failure: Option<Failure>,
    /// Failures of this state since its last success, by class.
    pub failures: BTreeMap<String, u32>,
    /// When the step is tried again.
    pub next_try_ms: Option<u64>,
    /// Whether a person has to act.
    pub needs_attention: bool,
    /// What a person could do now.
    pub next_action: Option<String>,
    /// Why it is where it is, as sentences.
    pub explain: Vec<String>,
}

/// A piece of a sector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// CommP; `None` while the piece is not written yet.
    pub comm_p: Option<String>,
    /// CommP as a CID.
    pub piece_cid: Option<String>,
    /// The piece's size before padding, in bytes.
    pub unpadded: u64,
    /// Where it begins in the sector's data, in bytes before padding: what `sectors unseal --offset` takes.
    pub offset: u64,
    /// The same place after padding, 128 bytes for 127.
    pub padded_offset: u64,
    /// The input it comes from; `None` for a filler.
    pub name: Option<String>,
    /// Where in the input it begins, in bytes.
    pub input_offset: Option<u64>,
    /// Bytes of data in it; the rest is zeros.
    pub data_bytes: u64,
}

/// A piece that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The input it comes from.
    pub name: String,
    /// Bytes of data in it.
    pub data_bytes: u64,
    /// Why.
    pub reason: String,
}

/// A message to the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// `precommit` or `commit`.
    pub kind: String,
    /// Its CID; `None` while it is not made yet, or when its effect was found on chain without it.
    pub cid: Option<String>,
    /// The epoch of its effect on chain.
    pub epoch: Option<i64>,
    /// `decided`, `prepared`, `sent`, `landed` or `refused`.
    pub status: String,
    /// Since when.
    pub at_ms: u64,
    /// Why it was refused, or what stands in its way.
    pub note: Option<String>,
}

/// A time in one state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stay {
    /// The state.
    pub state: String,
    /// When it was entered.
    pub entered_ms: u64,
    /// When it was left; `None` for where the sector is.
    pub left_ms: Option<u64>,
    /// How long it took; `None` for where the sector is.
    pub duration_ms: Option<u64>,
    /// How many runs of its work were started.
    pub attempts: u32,
    /// What made it leave: an event's kind or a failure's class.
    pub by: Option<String>,
}

/// A failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The state whose work failed.
    pub state: String,
    /// Its class.
    pub class: String,
    /// What was being done to what.
    pub message: String,
    /// When.
    pub at_ms: u64,
}

/// A page of a sector's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The sector.
    pub number: u64,
    /// The lines, oldest first.
    pub lines: Vec<Line>,
    /// Ask for lines after this place for the next page; `None` on the last one.
    pub next_after: Option<u64>,
}

/// A line of a sector's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Its place in the store's one order.
    pub seq: u64,
    /// When.
    pub at_ms: u64,
    /// The version of the sector's record.
    pub version: u64,
    /// What it is about: `Event`, `RunStarted`, `Outbox`, ...
    pub kind: String,
    /// The event's kind.
    pub event: Option<String>,
    /// The event's data.
    pub data: Option<serde_json::Value>,
    /// Who sent the event.
    pub source: Option<String>,
    /// The run it is about.
    pub run: Option<u64>,
    /// The state before.
    pub from: Option<String>,
    /// The state after.
    pub to: Option<String>,
    /// What the rule said.
    pub ruling: Option<String>,
    /// A reason, remark or failure.
    pub note: Option<String>,
}

/// Where an input went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The input's name.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its pieces, in order.
    pub pieces: Vec<AddedPiece>,
}

/// A piece and its sector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedPiece {
    /// The sector.
    pub number: u64,
    /// Where in its data the piece begins, in bytes before padding: what `sectors unseal --offset` takes.
    pub offset: u64,
    /// The same place after padding, 128 bytes for 127.
    pub padded_offset: u64,
    /// The piece's size before padding, in bytes.
    pub unpadded: u64,
    /// Bytes of data in it.
    pub data_bytes: u64,
}

/// The sectors that were created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pledged {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Their numbers.
    pub numbers: Vec<u64>,
    /// Why fewer than asked for.
    pub stopped: Option<String>,
}

/// What an order to a sector led to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ordered {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The sector.
    pub number: u64,
    /// Its state after the order.
    pub state: String,
}

/// The node was asked to stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopping {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Always true.
    pub stopping: bool,
}

/// What a demo came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DemoResult {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The folder: a repo.
    pub dir: String,
    /// The proof system.
    pub proof_system: String,
    /// The sector size in bytes.
    pub sector_size: u64,
    /// The sectors that hold the inputs.
    pub sectors: Vec<DemoSector>,
    /// The inputs.
    pub files: Vec<DemoFile>,
    /// Whether every sector is on chain with its CommR, as the chain was asked at the end.
    pub verified_on_chain: bool,
    /// Whether every input came back byte for byte.
    pub unsealed_equal: bool,
    /// How long this run took.
    pub elapsed_ms: u64,
}

/// A sector of a demo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DemoSector {
    /// Its number.
    pub number: u64,
    /// Its state.
    pub state: String,
    /// CommD.
    pub comm_d: Option<String>,
    /// CommR.
    pub comm_r: Option<String>,
    /// The replica id.
    pub replica_id: Option<String>,
    /// Whether the chain has it with this CommR.
    pub on_chain: bool,
    /// Milliseconds in each state it went through.
    pub stages_ms: BTreeMap<String, u64>,
    /// The states it went through.
    pub timeline: Vec<Stay>,
}

/// An input of a demo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DemoFile {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// What was unsealed.
    pub output: String,
    /// Whether the two are equal byte for byte.
    pub equal: bool,
    /// The first byte that differs.
    pub first_difference: Option<u64>,
}
