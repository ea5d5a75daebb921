//! The folder of a sector: its files, and `tool.json`, which remembers between stages what sector it is.

use super::failure;
use super::source::cannot;
use crate::exit::{Exit, Failure, Result};
use clap::Args;
use primitives::{
    ActorId, Commitment, PieceInfo, RegisteredSealProof, ReplicaId, SectorId, SectorNumber, Seed, Ticket,
    UnpaddedSize,
};
use proofs::files::{read_small, write_atomic};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// The form of `tool.json`; a newer one is refused.
const SCHEMA: u32 = 1;
/// Name of the record.
const RECORD: &str = "tool.json";
/// More bytes than the record of a sector full of the smallest pieces of interest has.
const RECORD_LIMIT: u64 = 64 << 20;

/// A piece in the sector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Piece {
    /// CommP.
    pub(super) comm_p: Commitment,
    /// Unpadded size.
    pub(super) unpadded: UnpaddedSize,
    /// Where it begins, in unpadded bytes.
    pub(super) offset: u64,
    /// Bytes of the user's file; the rest of the piece is zeros.
    pub(super) file_bytes: u64,
}

impl Piece {
    pub(super) fn info(&self) -> PieceInfo {
        PieceInfo { comm_p: self.comm_p, size: self.unpadded }
    }
}

/// What PC2 found, and of which replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sealed {
    pub(super) replica_id: ReplicaId,
    pub(super) comm_d: Commitment,
    pub(super) comm_r: Commitment,
    pub(super) comm_c: Commitment,
    pub(super) comm_r_last: Commitment,
}

/// The content of `tool.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    schema: u32,
    pub(super) seal_proof: RegisteredSealProof,
    pub(super) miner_id: ActorId,
    pub(super) sector: SectorNumber,
    /// Fixed when sealing begins.
    pub(super) ticket: Option<Ticket>,
    pub(super) pieces: Vec<Piece>,
    /// After PC2.
    pub(super) sealed: Option<Sealed>,
    /// After C1.
    pub(super) seed: Option<Seed>,
}

impl Record {
    pub(super) fn new(seal_proof: RegisteredSealProof, miner_id: ActorId, sector: SectorNumber) -> Self {
        Self {
            schema: SCHEMA,
            seal_proof,
            miner_id,
            sector,
            ticket: None,
            pieces: vec![],
            sealed: None,
            seed: None,
        }
    }

    /// Unpadded bytes up to the end of the last piece.
    pub(super) fn written(&self) -> u64 {
        self.pieces.last().map_or(0, |p| p.offset + p.unpadded.bytes())
    }

    /// The sector's name.
    pub(super) fn id(&self) -> SectorId {
        SectorId { miner: self.miner_id, number: self.sector }
    }
}

/// Which sector, on the command line of the later stages; what is not given comes from `tool.json`.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Sector (only what DIR/tool.json does not say)")]
pub(super) struct SectorFlags {
    /// Number of the registered seal proof, 0 to 19
    #[arg(long, value_name = "N", value_parser = super::values::seal_proof)]
    pub(super) seal_proof: Option<RegisteredSealProof>,
    /// The miner, such as 1000 or f01000
    #[arg(long, value_name = "N", value_parser = super::values::miner_id)]
    pub(super) miner_id: Option<ActorId>,
    /// The sector's number
    #[arg(long, value_name = "N", value_parser = super::values::sector)]
    pub(super) sector: Option<SectorNumber>,
    /// Seal randomness, 64 hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = super::values::hex32::<Ticket>)]
    pub(super) ticket: Option<Ticket>,
}

/// The value of a flag, of the record, or of both if they agree.
///
/// # Errors
/// If they do not agree, or neither is there.
pub(super) fn pick<T: PartialEq + Display>(flag: &str, given: Option<T>, recorded: Option<T>) -> Result<T> {
    match (given, recorded) {
        (Some(given), Some(recorded)) if given != recorded => {
            Err(Failure::usage(format!("--{flag} {given} contradicts {RECORD}, which says {recorded}"))
                .next(format!("leave --{flag} out, or give the --dir of that sector")))
        }
        (Some(value), _) | (None, Some(value)) => Ok(value),
        (None, None) => Err(missing(flag)),
    }
}

/// The value of a flag that nothing else can say.
///
/// # Errors
/// If it is not there.
pub(super) fn need<T>(flag: &str, given: Option<T>) -> Result<T> {
    given.ok_or_else(|| missing(flag))
}

fn missing(flag: &str) -> Failure {
    let failure = Failure::usage(format!("--{flag} is missing and no {RECORD} says it"));
    match flag {
        "ticket" | "seed" => failure.next(format!(
            "give --{flag} with 64 hexadecimal digits, such as --{flag} $(openssl rand -hex 32)"
        )),
        _ => failure.next(format!("give --{flag}, or the --dir of a sector that was made with this tool")),
    }
}

/// Compares given flags with the record.
///
/// # Errors
/// The first that contradicts.
pub(super) fn agree(flags: &SectorFlags, record: &Record) -> Result {
    pick("seal-proof", flags.seal_proof.map(|p| p.number()), Some(record.seal_proof.number()))?;
    pick("miner-id", flags.miner_id.map(|m| m.0), Some(record.miner_id.0))?;
    pick("sector", flags.sector, Some(record.sector))?;
    if record.ticket.is_some() {
        pick("ticket", flags.ticket, record.ticket)?;
    }
    Ok(())
}

/// What a command is going to do in the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Only look.
    Read,
    /// Change files; nobody else may be there.
    Write,
}

/// The folder of one sector, locked while this lives.
#[derive(Debug)]
pub(super) struct SealDir {
    root: PathBuf,
    _lock: File,
}

impl SealDir {
    /// Opens the folder.
    ///
    /// # Errors
    /// If there is none, or another process works in it.
    pub(super) fn open(root: &Path, access: Access) -> Result<Self> {
        let handle = File::open(root).map_err(|e| {
            let failure = cannot("open the folder", root, &e);
            match e.kind() {
                std::io::ErrorKind::NotFound => {
                    failure.next("check its name; a new sector begins with `sealrig tool add-piece` or `sealrig tool seal`")
                }
                _ => failure,
            }
        })?;
        if !handle.metadata().map_err(|e| cannot("examine", root, &e))?.is_dir() {
            return Err(
                Failure::failed(format!("{} is not a folder", root.display())).next("give another --dir")
            );
        }
        let locked = match access {
            Access::Read => handle.try_lock_shared(),
            Access::Write => handle.try_lock(),
        };
        // A file system that knows no locks is no reason not to work.
        if let Err(TryLockError::WouldBlock) = locked {
            return Err(Failure::failed(format!("another process is working in {}", root.display()))
                .next("wait for it, or give another --dir"));
        }
        Ok(Self { root: root.to_owned(), _lock: handle })
    }

    /// Opens the folder or makes it, with its cache folder in it.
    ///
    /// # Errors
    /// As [`SealDir::open`], if it cannot be made, or if it holds a sector that this tool knows nothing of.
    pub(super) fn create(root: &Path) -> Result<Self> {
        fs::create_dir_all(root).map_err(|e| cannot("create the folder", root, &e))?;
        let dir = Self::open(root, Access::Write)?;
        if !dir.path(RECORD).exists() {
            let foreign = [dir.unsealed(), dir.sealed()].into_iter().find(|p| p.exists());
            let in_cache = fs::read_dir(dir.cache()).ok().and_then(|mut files| files.next()?.ok());
            if let Some(foreign) = foreign.or(in_cache.map(|file| file.path())) {
                return Err(Failure::usage(format!(
                    "{} was not made by this tool (there is no {RECORD} beside it) and is not overwritten",
                    foreign.display()
                ))
                .next("give another --dir"));
            }
        }
        let cache = dir.cache();
        fs::create_dir_all(&cache).map_err(|e| cannot("create the folder", &cache, &e))?;
        Ok(dir)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(super) fn unsealed(&self) -> PathBuf {
        self.path("unsealed")
    }

    pub(super) fn sealed(&self) -> PathBuf {
        self.path("sealed")
    }

    pub(super) fn cache(&self) -> PathBuf {
        self.path("cache")
    }

    /// PC1's output in the form of other tools.
    pub(super) fn pc1(&self) -> PathBuf {
        self.path("pc1.json")
    }

    /// PC2's output in the form of other tools.
    pub(super) fn pc2(&self) -> PathBuf {
        self.path("pc2.json")
    }

    /// C1's output in the form of other tools.
    pub(super) fn c1(&self) -> PathBuf {
        self.path("c1.json")
    }

    /// Removes the outputs of earlier runs of a stage and of those after it, which would be those of another sector.
    ///
    /// # Errors
    /// If one is there and cannot be removed.
    pub(super) fn forget(&self, outputs: &[PathBuf]) -> Result {
        for file in outputs {
            match fs::remove_file(file) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(cannot("remove", file, &e)),
                _ => {}
            }
        }
        Ok(())
    }

    /// What is remembered of the sector; `None` if nothing is.
    ///
    /// # Errors
    /// If the record cannot be read, is damaged or of a newer form.
    pub(super) fn load(&self) -> Result<Option<Record>> {
        #[derive(Deserialize)]
        struct SchemaOnly {
            schema: u32,
        }
        let path = self.path(RECORD);
        let bytes = match read_small(&path, RECORD_LIMIT) {
            Ok(bytes) => bytes,
            Err(e) if e.is_not_found() => return Ok(None),
            Err(e) => return Err(failure::of_file(e)),
        };
        if let Ok(SchemaOnly { schema }) = serde_json::from_slice(&bytes)
            && schema > SCHEMA
        {
            return Err(Failure::failed(format!(
                "{} has schema {schema}; this version knows up to {SCHEMA}",
                path.display()
            ))
            .next("use the newer sealrig that made this folder, or another folder"));
        }
        serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            Failure::new(Exit::Verification, format!("{} is damaged: {e}", path.display()))
                .next("give another --dir and seal again")
        })
    }

    /// What is remembered of the sector, which must be something.
    ///
    /// # Errors
    /// As [`SealDir::load`], and if nothing is remembered.
    pub(super) fn record(&self) -> Result<Record> {
        self.load()?.ok_or_else(|| {
            Failure::failed(format!("{} holds no sector: there is no {RECORD}", self.root.display())).next(
                "begin with `sealrig tool add-piece --dir DIR ...`, or do it all with `sealrig tool seal`",
            )
        })
    }

    /// Remembers.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub(super) fn store(&self, record: &Record) -> Result {
        let mut json = serde_json::to_vec_pretty(record)
            .map_err(|e| Failure::failed(format!("cannot make JSON of {RECORD}: {e}")))?;
        json.push(b'\n');
        write_atomic(&self.path(RECORD), &json).map_err(failure::of_file)
    }
}
