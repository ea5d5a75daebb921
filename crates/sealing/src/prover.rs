//! Who computes: the trait the steps know, and what it is given.
//!
//! Work of minutes to hours runs on threads of its own, in rayon pools of its own, never on the threads that answer the API
//! (PL-8). [`LocalProver`] does it in this process.

use crate::record::SectorRecord;
use crate::storage::SectorPaths;
use async_trait::async_trait;
use primitives::{
    Commitment, PieceInfo, RegisteredSealProof, ReplicaId, SectorId, Seed, Ticket, UnpaddedSize,
};
use statemachine::{Cancel, Class, Failure, Progress};
use std::path::PathBuf;
use std::sync::Arc;

mod local;
mod units;

pub use local::{LocalProver, Pools};
pub use units::{UnitEvent, UnitNote};

/// What a stage reports to and obeys while it works elsewhere.
#[derive(Clone)]
pub struct Watch {
    /// Ends the stage.
    pub cancel: Cancel,
    /// Takes progress.
    pub progress: Arc<dyn Fn(Progress) + Send + Sync>,
    /// Takes units: each is answered once it is on record (PL-4).
    pub units: tokio::sync::mpsc::UnboundedSender<UnitNote>,
}

/// A sector as a stage needs it.
#[derive(Debug, Clone)]
pub struct SealJob {
    /// Miner and number.
    pub sector: SectorId,
    /// The seal proof.
    pub proof: RegisteredSealProof,
    /// Its files.
    pub paths: SectorPaths,
    /// Its pieces, fillers included.
    pub pieces: Vec<PieceInfo>,
    /// The ticket.
    pub ticket: Ticket,
}

impl SealJob {
    /// The job of a record; a sector without a ticket has none.
    pub fn of(r: &SectorRecord, paths: SectorPaths) -> Result<Self, Failure> {
        let ticket = r.ticket.ok_or_else(|| Failure::expired("the sector has no ticket"))?;
        let pieces = r.piece_infos();
        Ok(Self { sector: r.id(), proof: r.proof, paths, pieces, ticket: ticket.value })
    }
}

/// A piece to write into a sector.
#[derive(Debug, Clone)]
pub struct PieceJob {
    /// The sector.
    pub sector: SectorId,
    /// The staged data: as many bytes as the payload has; the rest of the piece is zeros.
    pub source: PathBuf,
    /// Bytes of the payload.
    pub payload_bytes: u64,
    /// BLAKE2b-256 of the payload as it was accepted.
    pub digest: Commitment,
    /// The unsealed file.
    pub unsealed: PathBuf,
    /// Where in it, in padded bytes. What lies before is kept, what lies behind is cut.
    pub offset: u64,
    /// Size of the piece.
    pub size: UnpaddedSize,
    /// What it must turn out to be.
    pub expected: Option<Commitment>,
}

/// What PC1 found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Labelled {
    /// CommD.
    pub comm_d: Commitment,
    /// The replica id.
    pub replica_id: ReplicaId,
}

/// Why a stage failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ProverError {
    /// The class, as for steps.
    pub class: Class,
    /// What was being done to which sector, expected and got.
    pub message: String,
    /// For a damaged input, the state that can make it anew.
    pub made_by: Option<&'static str>,
}

impl ProverError {
    /// An error of a class.
    pub fn new(class: Class, message: impl std::fmt::Display) -> Self {
        Self { class, message: message.to_string(), made_by: None }
    }
}

impl From<ProverError> for Failure {
    fn from(e: ProverError) -> Self {
        Failure { made_by: e.made_by.map(str::to_owned), ..Failure::new(e.class, e.message) }
    }
}

/// Computes the stages of sealing.
///
/// Each method returns when the work is done and everything it made is on disk. Dropping the future does not stop the
/// work, `watch.cancel` does, within seconds; work on one sector is serialised by the prover, so that a new run never
/// meets the tail of an old one.
#[async_trait]
pub trait Prover: Send + Sync + 'static {
    /// The proof system of [`commit`](Self::commit): `vanilla` or `groth16`.
    fn system(&self) -> &'static str;

    /// Writes a piece into the unsealed file and computes its CommP.
    async fn add_piece(&self, job: PieceJob, watch: Watch) -> Result<PieceInfo, ProverError>;

    /// PC1: tree-D, CommD and the labels.
    async fn precommit1(&self, job: SealJob, watch: Watch) -> Result<Labelled, ProverError>;

    /// PC2: tree-C, replica, tree-R-last; checked with sample challenges (PL-7). Returns CommR.
    async fn precommit2(&self, job: SealJob, watch: Watch) -> Result<Commitment, ProverError>;

    /// C1 and C2: the proof for a seed, verified before it is returned.
    async fn commit(
        &self,
        job: SealJob,
        comm_d: Commitment,
        comm_r: Commitment,
        seed: Seed,
        watch: Watch,
    ) -> Result<Vec<u8>, ProverError>;

    /// Looks at the files that stay after finalizing: they are what PC2 made, byte for byte, and prove. A damaged one is a
    /// corrupt input that names its maker.
    async fn check_kept(
        &self,
        job: SealJob,
        comm_d: Commitment,
        comm_r: Commitment,
        watch: Watch,
    ) -> Result<(), ProverError>;

    /// Computes a range of the data back from the replica, in unpadded bytes, and writes it to `out`. Returns how many bytes
    /// it wrote.
    async fn unseal(
        &self,
        job: SealJob,
        comm_d: Commitment,
        offset: u64,
        bytes: u64,
        out: Box<dyn std::io::Write + Send>,
        cancel: Cancel,
    ) -> Result<u64, ProverError>;

    /// Waits until nothing works on the sector any more.
    async fn idle(&self, sector: SectorId);
}
