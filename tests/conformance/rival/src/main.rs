//! The reference alone, stage by stage, for `scripts/bench-vs-reference`: prints one JSON line of seconds.
//!
//! Only the reference is called here. `rival DIR` seals one 8 MiB sector (proof 6) in DIR, with the parents cache of
//! `FIL_PROOFS_PARENT_CACHE`. The first run in a folder makes that cache, so a round that counts is a later one.

#[path = "../../src/bench.rs"]
mod bench;

use anyhow::{Context, Result};
use bench::{Meter, Stages};
use filecoin_proofs::constants::SectorShape8MiB as Tree;
use filecoin_proofs::types::{PoRepConfig, UnpaddedBytesAmount};
use std::fs;
use std::path::PathBuf;
use storage_proofs_core::api_version::ApiVersion;
use storage_proofs_core::sector::SectorId;

fn main() -> Result<()> {
    let dir = PathBuf::from(std::env::args_os().nth(1).context("usage: rival DIR")?);
    let data = bench::data();
    let cache = dir.join("cache");
    let (unsealed, sealed) = (dir.join("unsealed"), dir.join("sealed"));
    fs::create_dir_all(&cache)?;
    // LE64(6) and zeros (proofs.md §2.5).
    let mut porep_id = [0; 32];
    porep_id[0] = 6;
    let config = PoRepConfig::new_groth16(8 << 20, porep_id, ApiVersion::V1_1_0);
    let (prover, sector, ticket, seed) = ([9; 32], SectorId::from(7), [1; 32], [2; 32]);
    let mut stages = Stages::default();

    let meter = Meter::start();
    let mut staged = fs::File::create(&unsealed)?;
    let (info, _) =
        filecoin_proofs::add_piece(&data[..], &mut staged, UnpaddedBytesAmount(data.len() as u64), &[])?;
    drop(staged);
    stages.commp_8mib = meter.stop();

    let infos = [info];
    fs::write(&sealed, [])?;
    let meter = Meter::start();
    let pc1 = filecoin_proofs::seal_pre_commit_phase1::<_, _, _, Tree>(
        &config, &cache, &unsealed, &sealed, prover, sector, ticket, &infos,
    )?;
    stages.pc1_8mib = meter.stop();

    let meter = Meter::start();
    let pc2 = filecoin_proofs::seal_pre_commit_phase2(&config, pc1, &cache, &sealed)?;
    stages.pc2_8mib = meter.stop();
    stages.comm_r = hex::encode(pc2.comm_r);

    let meter = Meter::start();
    let c1 = filecoin_proofs::seal_commit_phase1::<_, Tree>(
        &config, &cache, &sealed, prover, sector, ticket, seed, pc2, &infos,
    )?;
    stages.c1_8mib = meter.stop();
    anyhow::ensure!(!c1.vanilla_proofs.is_empty(), "no proofs");

    println!("{}", serde_json::to_string(&stages)?);
    Ok(())
}
