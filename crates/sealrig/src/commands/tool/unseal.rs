//! `tool unseal`: any range of the user's bytes out of a sealed sector.

use super::dir::{Access, SealDir, SectorFlags, pick};
use super::report;
use super::source::cannot;
use super::{Terminal, failure, values};
use crate::exit::{Exit, Failure, Result};
use clap::Args;
use primitives::{ActorId, Commitment, ProverId, RegisteredSealProof, ReplicaId};
use proofs::control::{Reuse, Unit, UnitSink as _};
use proofs::files::sync_folder_of;
use proofs::manifest::Manifest;
use proofs::params::PoRepConfig;
use proofs::unseal::{UnsealError, UnsealInput, unseal};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `tool unseal`.
#[derive(Debug, Args)]
#[command(
    after_help = "Makes the key again, which takes as long as precommit1, and takes it off DIR/sealed. Offsets \
                        and lengths are those of the data before fr32 padding; `pieces` in the JSON of seal say where \
                        each file begins. If the whole sector is asked for, it is checked against CommD before the \
                        first byte is written; for a part, the sealed file is compared with the digest that \
                        precommit2 recorded in DIR/cache.\n\nExamples:\n  sealrig tool unseal --dir /tmp/sector --out data.bin\n  \
                        sealrig tool unseal --dir /tmp/sector --offset 0 --bytes 1000 --out - | sha256sum"
)]
pub(crate) struct Unseal {
    /// The sector's folder
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// First byte
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
    /// Number of bytes [default: to the end of the sector]
    #[arg(long, value_name = "N")]
    bytes: Option<u64>,
    /// Where to write them, - for stdout; a file is replaced when all of them are there
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// CommD, 64 hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = values::hex32::<Commitment>)]
    comm_d: Option<Commitment>,
    #[command(flatten)]
    sector: SectorFlags,
}

#[derive(Serialize)]
struct Report {
    offset: u64,
    bytes: u64,
    out: PathBuf,
    /// Whether the whole data was compared with CommD.
    verified: bool,
    /// What the data was checked against: `comm_d`, `manifest` (the recorded digest of the sealed file), or nothing.
    checked: Option<&'static str>,
}

pub(super) fn run(args: &Unseal, terminal: &Terminal) -> Result {
    let to_stdout = args.out == Path::new("-");
    if to_stdout && terminal.json {
        return Err(Failure::usage("--json and --out - both want stdout").next("write the data to a file"));
    }
    let dir = SealDir::open(&args.dir, Access::Read)?;
    let record = dir.load()?;
    let known = record.as_ref();
    let flags = &args.sector;
    let number = |proof: RegisteredSealProof| proof.number();
    let proof = pick("seal-proof", flags.seal_proof.map(number), known.map(|r| number(r.seal_proof)))?;
    let proof = RegisteredSealProof::new(proof).map_err(|e| Failure::usage(e.to_string()))?;
    let miner = pick("miner-id", flags.miner_id.map(|m| m.0), known.map(|r| r.miner_id.0))?;
    let sealed = dir.sealed();
    let input = UnsealInput {
        sealed: &sealed,
        prover_id: ProverId::from_actor(ActorId(miner)),
        sector_number: pick("sector", flags.sector, known.map(|r| r.sector))?,
        ticket: pick("ticket", flags.ticket, known.and_then(|r| r.ticket))?,
        comm_d: pick("comm-d", args.comm_d, known.and_then(|r| r.sealed).map(|s| s.comm_d))?,
    };
    let config = PoRepConfig::registered(proof);
    let range = range(args, config.sector_size.unpadded_bytes())?;
    let whole = range == (0..config.sector_size.unpadded_bytes());
    let checked = match whole {
        true => Some("comm_d"),
        false => check_sealed(&dir, known.and_then(|r| r.sealed).map(|s| s.replica_id), terminal)?,
    };
    if checked.is_none() {
        terminal.note("not checked against CommD: no manifest knows the sealed file; unseal the whole sector to be sure");
    }
    let work =
        |out: &mut dyn Write| unseal(&config, &input, range.clone(), whole, out, &terminal.control(&()));
    if to_stdout {
        return stream(work);
    }
    write_file(&args.out, work)?;
    let report = Report {
        offset: range.start,
        bytes: range.end - range.start,
        out: args.out.clone(),
        verified: whole,
        checked,
    };
    let checked = match checked {
        Some("comm_d") => ", which have the sector's CommD",
        Some(_) => ", from the sealed file that the manifest knows",
        None => "",
    };
    let text = report::line(
        "unsealed",
        format!("bytes {} to {} into {}{checked}", range.start, range.end, args.out.display()),
    );
    report::print(terminal, &report, &text)
}

/// Compares the sealed file with the digest that PC2 recorded: a part of the data cannot be compared with CommD. `None` when
/// nothing is recorded.
fn check_sealed(
    dir: &SealDir,
    replica_id: Option<ReplicaId>,
    terminal: &Terminal,
) -> Result<Option<&'static str>> {
    let recorded = match replica_id {
        Some(id) => Some(id),
        None => Manifest::read(&dir.cache())
            .map_err(failure::of_manifest)?
            .and_then(std::result::Result::ok)
            .map(|content| content.replica_id),
    };
    let Some(replica_id) = recorded else { return Ok(None) };
    let sealed = dir.sealed();
    let manifest = Manifest::open(&dir.cache(), &replica_id).map_err(failure::of_manifest)?;
    let unit = Unit { stage: "precommit2", name: "sealed".to_owned() };
    match manifest.ended_by(Arc::clone(&terminal.cancel)).reuse(&unit, &sealed) {
        Reuse::Proven => Ok(Some("manifest")),
        Reuse::Absent => Ok(None),
        Reuse::Refused(reason) => Err(Failure::new(
            Exit::Verification,
            format!("{} is not the file that was sealed: {reason}", sealed.display()),
        )
        .next("bring it back from a copy, or run `sealrig tool precommit2` again if the cache is there")),
    }
}

fn range(args: &Unseal, capacity: u64) -> Result<Range<u64>> {
    let end = match args.bytes {
        Some(bytes) => args.offset.checked_add(bytes),
        None => Some(capacity.max(args.offset)),
    };
    match end {
        Some(end) if args.offset < end && end <= capacity => Ok(args.offset..end),
        Some(end) if args.offset == end && end <= capacity => {
            Err(Failure::usage("no bytes were asked for").next("give a smaller --offset or more --bytes"))
        }
        _ => Err(Failure::usage(format!(
            "the range from byte {} on is not within the sector's {capacity} bytes",
            args.offset
        ))
        .next("give a smaller --offset or fewer --bytes")),
    }
}

/// Stdout that remembers that its reader went away.
struct Pipe {
    out: io::StdoutLock<'static>,
    closed: bool,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.out.write(bytes);
        self.closed |= matches!(&result, Err(e) if e.kind() == io::ErrorKind::BrokenPipe);
        result
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.out.flush();
        self.closed |= matches!(&result, Err(e) if e.kind() == io::ErrorKind::BrokenPipe);
        result
    }
}

fn stream(work: impl FnOnce(&mut dyn Write) -> std::result::Result<u64, UnsealError>) -> Result {
    let mut pipe = Pipe { out: io::stdout().lock(), closed: false };
    let result = work(&mut pipe).map_err(failure::of_unseal);
    let flushed = pipe.flush();
    if pipe.closed {
        return Ok(());
    }
    result?;
    flushed.map_err(|e| Failure::failed(format!("cannot write to stdout: {e}")))
}

/// A regular file is replaced when it is complete; anything else (a pipe, a device) is written as it comes.
fn write_file(
    path: &Path,
    work: impl FnOnce(&mut dyn Write) -> std::result::Result<u64, UnsealError>,
) -> Result {
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        let mut out = File::options().write(true).open(path).map_err(|e| cannot("write", path, &e))?;
        work(&mut out).map_err(|e| in_file(failure::of_unseal(e), path))?;
        return Ok(());
    }
    let mut staged = path.as_os_str().to_owned();
    staged.push(".tmp");
    let staged = PathBuf::from(staged);
    let mut out = File::create(&staged).map_err(|e| cannot("write", &staged, &e))?;
    let written = work(&mut out)
        .map_err(|e| in_file(failure::of_unseal(e), path))
        .and_then(|_| out.sync_all().map_err(|e| cannot("sync", &staged, &e)))
        .and_then(|()| fs::rename(&staged, path).map_err(|e| cannot("write", path, &e)));
    if written.is_err() {
        // Best effort: the next run replaces it.
        let _ = fs::remove_file(&staged);
    }
    written?;
    sync_folder_of(path).map_err(failure::of_file)
}

fn in_file(mut failure: Failure, path: &Path) -> Failure {
    if failure.exit == Exit::Failure {
        failure.message = format!("unsealing into {}: {}", path.display(), failure.message);
    }
    failure
}
