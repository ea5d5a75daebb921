//! `conformance run`: random cases through the reference and through sealrig, byte for byte.
//!
//! Use `scripts/conformance`, which builds this, gives it a parents-cache folder of its own and passes its arguments on.

use anyhow::{Context, Result, anyhow, bail};
use conformance::artifacts::differences;
use conformance::case::GROUPS;
use conformance::parts::FAMILIES;
use conformance::shared::{Artifacts, Fault, Inputs, Part, run as ours};
use conformance::{case, known, oracle, parts, spec_values};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

const USAGE: &str = "\
usage: scripts/conformance [--quick | --full] [--seed TEXT] [--case NAME]
       scripts/conformance known-answers [--write]

  --full        every case (the default): >= 300 sectors of 2 KiB, three of 8 MiB, ...
  --quick       a fraction of each family, nothing of 8 MiB
  --seed TEXT   the seed of all inputs; a fresh one is printed otherwise
  --case NAME   one case only, such as 16KiB-3 or poseidon-17
  known-answers prints proofs/tests/known_answers.json from the reference alone; --write writes it";

struct Options {
    quick: bool,
    seed: String,
    case: Option<String>,
}

fn main() -> ExitCode {
    match start() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn start() -> Result<bool> {
    let mut args = std::env::args().skip(1).peekable();
    if std::env::var_os("FIL_PROOFS_PARENT_CACHE").is_none() {
        bail!("FIL_PROOFS_PARENT_CACHE must name an empty folder; scripts/conformance sees to it");
    }
    if args.peek().is_some_and(|a| a == "known-answers") {
        args.next();
        return known_answers(args.next().as_deref());
    }
    let mut options = Options { quick: false, seed: fresh_seed(), case: None };
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} needs a value\n{USAGE}"));
        match arg.as_str() {
            "--full" => options.quick = false,
            "--quick" => options.quick = true,
            "--seed" => options.seed = value()?,
            "--case" => options.case = Some(value()?),
            "--help" | "-h" => {
                println!("{USAGE}");
                return Ok(true);
            }
            other => bail!("{other:?} is not an option\n{USAGE}"),
        }
    }
    run(&options)
}

fn fresh_seed() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}", now.as_nanos() & 0xffff_ffff_ffff)
}

fn known_answers(option: Option<&str>) -> Result<bool> {
    let text = known::file()?;
    match option {
        None => print!("{text}"),
        Some("--write") => {
            let path =
                PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../proofs/tests/known_answers.json");
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            println!("wrote {}", path.display());
        }
        Some(other) => bail!("{other:?} is not an option\n{USAGE}"),
    }
    Ok(true)
}

#[derive(Default)]
struct Totals {
    passed: u64,
    failed: u64,
}

impl Totals {
    fn add(&mut self, name: &str, seed: &str, outcome: Result<Vec<String>>) {
        let faults = match outcome {
            Ok(faults) => faults,
            Err(error) => vec![format!("{error:#}")],
        };
        if faults.is_empty() {
            self.passed += 1;
            return;
        }
        self.failed += 1;
        println!("FAILED {name}: scripts/conformance --seed {seed} --case {name}");
        for fault in &faults {
            println!("    {fault}");
        }
    }
}

fn run(options: &Options) -> Result<bool> {
    println!("seed {}", options.seed);
    let mut totals = Totals::default();
    if let Some(name) = &options.case {
        let outcome = match parts::named(&options.seed, name)? {
            Some(part) => {
                println!("{}", serde_json::to_string_pretty(&part)?);
                part_case(&part)
            }
            None => {
                let inputs = case::named(&options.seed, name)?;
                println!("{}", serde_json::to_string_pretty(&inputs)?);
                sector_case(&inputs)
            }
        };
        totals.add(name, &options.seed, outcome);
    } else {
        everything(options, &mut totals)?;
    }
    println!("{} passed, {} failed", totals.passed, totals.failed);
    Ok(totals.failed == 0)
}

fn everything(options: &Options, totals: &mut Totals) -> Result<()> {
    for check in spec_values::checks()? {
        let differs = format!("the specification says {}, the reference {}", check.spec, check.oracle);
        totals.add(&check.name, &options.seed, Ok(if check.passes() { vec![] } else { vec![differs] }));
    }
    for family in FAMILIES {
        let (start, failed) = (Instant::now(), totals.failed);
        let count = if options.quick { family.quick } else { family.full };
        for index in 0..count {
            let outcome = part_case(&family.case(&options.seed, index));
            totals.add(&format!("{}-{index}", family.name), &options.seed, outcome);
        }
        summary(family.name, count, totals.failed - failed, start);
    }
    for group in GROUPS {
        let (start, failed) = (Instant::now(), totals.failed);
        let count = if options.quick { group.quick } else { group.full };
        for index in 0..count {
            let inputs = group.case(&options.seed, index);
            totals.add(&inputs.name, &options.seed, sector_case(&inputs));
        }
        summary(group.name, count, totals.failed - failed, start);
    }
    Ok(())
}

fn summary(name: &str, count: u64, failed: u64, start: Instant) {
    println!("{name:22} {count:4} cases, {failed} failed, {:.1} s", start.elapsed().as_secs_f64());
}

/// Calls one side; a panic there is a fault of that side, not the end of the run.
fn guarded(side: &str, f: impl FnOnce() -> Result<Artifacts>) -> Result<Artifacts> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(outcome) => outcome.with_context(|| side.to_owned()),
        Err(_) => bail!("{side}: panicked"),
    }
}

fn ours_failed(fault: Fault) -> anyhow::Error {
    anyhow!(fault)
}

fn part_case(part: &Part) -> Result<Vec<String>> {
    let theirs = guarded("oracle", || parts::oracle(part))?;
    let mine = guarded("ours", || ours::part(part).map_err(ours_failed))?;
    Ok(differences(&theirs, &mine))
}

fn sector_case(inputs: &Inputs) -> Result<Vec<String>> {
    let dir = tempfile::tempdir()?;
    let theirs = guarded("oracle", || oracle::seal(inputs, &dir.path().join("oracle")))?;
    oracle::clear_parents_cache()?;
    let mine = guarded("ours", || ours::seal(inputs, &dir.path().join("ours")).map_err(ours_failed))?;
    let mut faults = differences(&theirs, &mine);
    faults.extend(cross_checks(inputs, &theirs, &mine)?);
    Ok(faults)
}

/// Each side's verifier on the other side's proof.
fn cross_checks(inputs: &Inputs, theirs: &Artifacts, mine: &Artifacts) -> Result<Vec<String>> {
    let commitment = |set: &Artifacts, name: &str| -> Result<[u8; 32]> {
        let bytes = set.get(name).with_context(|| format!("no {name}"))?;
        bytes.as_slice().try_into().with_context(|| format!("{name} has {} bytes", bytes.len()))
    };
    let mut faults = Vec::new();
    let proofs = mine.get("c1/vanilla_proofs.json").context("no C1 proofs on our side")?;
    let accepted = oracle::accepts(inputs, proofs, commitment(mine, "comm_r")?, commitment(mine, "comm_d")?);
    if !matches!(accepted, Ok(true)) {
        faults.push(format!("the oracle's verifier on our C1 proofs: {accepted:?}"));
    }
    let proofs = &theirs["c1/vanilla_proofs.bincode"];
    if let Err(error) =
        ours::verify(inputs, proofs, commitment(theirs, "comm_r")?, commitment(theirs, "comm_d")?)
    {
        faults.push(format!("our verifier on the oracle's C1 proofs: {error:#}"));
    }
    Ok(faults)
}
