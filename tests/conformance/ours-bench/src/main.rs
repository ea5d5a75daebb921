//! Our side of `scripts/bench-vs-reference`, stage by stage: prints one JSON line of seconds.
//!
//! `ours-bench DIR` seals one 8 MiB sector (proof 6) in DIR with the inputs of the reference's side, `rival.rs`. Files
//! are written as in production: synced and renamed. `ours-bench report OURS RIVAL [--json]` compares two files of such
//! lines.

#[path = "../../src/bench.rs"]
mod bench;
mod report;

use anyhow::{Result, bail, ensure};
use bench::{Meter, Stages};
use primitives::{ProverId, RegisteredSealProof, SectorNumber, Seed, Ticket, UnpaddedSize};
use proofs::control::Control;
use proofs::params::PoRepConfig;
use proofs::piece::{self, Fill};
use proofs::porep::{Commit1Input, SectorInput, commit1, precommit1, precommit2};
use proofs::vanilla::verify::PublicSector;
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<()> {
    const USAGE: &str = "usage: ours-bench DIR, or ours-bench report OURS RIVAL [--json]";
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["report", ours, rival] => report::print(ours, rival, false),
        ["report", ours, rival, "--json"] => report::print(ours, rival, true),
        [dir] => seal(&PathBuf::from(dir)),
        _ => bail!(USAGE),
    }
}

fn seal(dir: &Path) -> Result<()> {
    let data = bench::data();
    let cache = dir.join("cache");
    let (unsealed, sealed) = (dir.join("unsealed"), dir.join("sealed"));
    fs::create_dir_all(&cache)?;
    let config = PoRepConfig::registered(RegisteredSealProof::new(6)?);
    let control = Control::none();
    let (prover_id, sector_number) = (ProverId([9; 32]), SectorNumber(7));
    let (ticket, seed) = (Ticket([1; 32]), Seed([2; 32]));
    let mut stages = Stages::default();

    let meter = Meter::start();
    let mut staged = fs::File::create(&unsealed)?;
    let size = UnpaddedSize::new(data.len() as u64)?;
    let added = piece::add_piece(&data[..], size, Fill::Exact, &mut staged, 0, &control)?;
    drop(staged);
    stages.commp_8mib = meter.stop();

    let pieces = [added.piece];
    let input =
        SectorInput { unsealed: &unsealed, cache: &cache, prover_id, sector_number, ticket, pieces: &pieces };
    let meter = Meter::start();
    let pc1 = precommit1(&config, &input, &control)?;
    stages.pc1_8mib = meter.stop();

    let meter = Meter::start();
    let pc2 = precommit2(&config, &pc1, &cache, &unsealed, &sealed, &control)?;
    stages.pc2_8mib = meter.stop();
    stages.comm_r = hex::encode(pc2.comm_r.0);

    let public =
        PublicSector { prover_id, sector_number, ticket, seed, comm_d: pc2.comm_d, comm_r: pc2.comm_r };
    let meter = Meter::start();
    let c1 = commit1(
        &config,
        &Commit1Input { cache: &cache, sealed: &sealed, public, pieces: &pieces },
        &control,
    )?;
    stages.c1_8mib = meter.stop();
    ensure!(!c1.vanilla_proofs.is_empty(), "no proofs");

    println!("{}", serde_json::to_string(&stages)?);
    Ok(())
}
