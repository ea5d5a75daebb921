//! `tool verify-vanilla`: checks a C1 output, ours or another tool's, against the public values.

use super::Terminal;
use super::dir::{Access, SealDir, SectorFlags, pick};
use super::report;
use super::{stages, values};
use crate::exit::{Failure, Result};
use clap::Args;
use primitives::{ActorId, Commitment, ProverId, RegisteredSealProof, Seed};
use proofs::params::PoRepConfig;
use proofs::vanilla::verify::PublicSector;
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `tool verify-vanilla`.
#[derive(Debug, Args)]
#[command(
    after_help = "Checks every proof in the file, and that the file states the public values: those on the \
                        command line or of DIR/tool.json, never those of the file itself. Unknown keys in the file \
                        are ignored.\n\nExamples:\n  sealrig tool verify-vanilla --dir /tmp/sector\n  sealrig tool \
                        verify-vanilla c1.json --seal-proof 5 --miner-id 1000 --sector 1 --ticket HEX --seed HEX \
                        --comm-d HEX --comm-r HEX"
)]
pub(crate) struct VerifyVanilla {
    /// The C1 output [default: DIR/c1.json]
    #[arg(value_name = "C1.JSON")]
    c1: Option<PathBuf>,
    /// The sector's folder, for the public values that are not given
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Interactive randomness, 64 hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = values::hex32::<Seed>)]
    seed: Option<Seed>,
    /// CommD, 64 hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = values::hex32::<Commitment>)]
    comm_d: Option<Commitment>,
    /// CommR, 64 hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = values::hex32::<Commitment>)]
    comm_r: Option<Commitment>,
    #[command(flatten)]
    sector: SectorFlags,
}

#[derive(Serialize)]
struct Report {
    verified: bool,
    comm_d: String,
    comm_r: String,
    replica_id: String,
    partitions: usize,
    challenges: usize,
}

pub(super) fn run(args: &VerifyVanilla, terminal: &Terminal) -> Result {
    let dir = args.dir.as_deref().map(|dir| SealDir::open(dir, Access::Read)).transpose()?;
    let record = dir.as_ref().map(SealDir::record).transpose()?;
    let file = match (&args.c1, &dir) {
        (Some(file), _) => file.clone(),
        (None, Some(dir)) => dir.c1(),
        (None, None) => {
            return Err(Failure::usage("neither a C1 output nor a folder was given")
                .next("name the file, or give --dir DIR"));
        }
    };
    let known = record.as_ref();
    let sealed = known.and_then(|r| r.sealed);
    let flags = &args.sector;
    let number = |proof: RegisteredSealProof| proof.number();
    let proof = pick("seal-proof", flags.seal_proof.map(number), known.map(|r| number(r.seal_proof)))?;
    let proof = RegisteredSealProof::new(proof).map_err(|e| Failure::usage(e.to_string()))?;
    let miner = pick("miner-id", flags.miner_id.map(|m| m.0), known.map(|r| r.miner_id.0))?;
    let public = PublicSector {
        prover_id: ProverId::from_actor(ActorId(miner)),
        sector_number: pick("sector", flags.sector, known.map(|r| r.sector))?,
        ticket: pick("ticket", flags.ticket, known.and_then(|r| r.ticket))?,
        seed: pick("seed", args.seed, known.and_then(|r| r.seed))?,
        comm_d: pick("comm-d", args.comm_d, sealed.map(|s| s.comm_d))?,
        comm_r: pick("comm-r", args.comm_r, sealed.map(|s| s.comm_r))?,
    };
    let config = PoRepConfig::registered(proof);
    stages::verify_file(&file, proof, &config, &public)?;
    let report = Report {
        verified: true,
        comm_d: public.comm_d.to_string(),
        comm_r: public.comm_r.to_string(),
        replica_id: public.replica_id(&config).to_string(),
        partitions: config.partitions,
        challenges: config.partitions * config.challenges_per_partition,
    };
    let text = report::line(
        "verified",
        format!(
            "{} in {} hold for comm_r {}",
            report::count(report.challenges, "challenge"),
            report::count(report.partitions, "partition"),
            report.comm_r
        ),
    );
    report::print(terminal, &report, &text)
}
