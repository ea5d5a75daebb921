//! Medians and ratios of the rounds of both sides.

use crate::bench::{Seconds, Stages};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;

/// One stage: medians of CPU-seconds and of the time that passed.
#[derive(Debug, Serialize)]
struct Figures {
    ours: f64,
    rival: f64,
    ratio: f64,
    ours_wall: f64,
    rival_wall: f64,
}

fn rounds(file: &str) -> Result<Vec<Stages>> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {file}"))?;
    text.lines().map(|line| serde_json::from_str(line).with_context(|| format!("a line of {file}"))).collect()
}

fn median(rounds: &[Stages], of: impl Fn(&Stages) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (values[(n - 1) / 2] + values[n / 2]) / 2.0
}

fn figures(ours: &[Stages], rival: &[Stages], of: impl Fn(&Stages) -> Seconds) -> Figures {
    let round = |x: f64, digits: i32| (x * 10f64.powi(digits)).round() / 10f64.powi(digits);
    let (a, b) = (median(ours, |s| of(s).cpu), median(rival, |s| of(s).cpu));
    Figures {
        ours: round(a, 4),
        rival: round(b, 4),
        ratio: round(b / a, 2),
        ours_wall: round(median(ours, |s| of(s).wall), 4),
        rival_wall: round(median(rival, |s| of(s).wall), 4),
    }
}

/// Prints the comparison of two files of rounds.
///
/// # Errors
/// If a file cannot be read, or the sides did not seal the same sector.
pub(crate) fn print(ours: &str, rival: &str, json: bool) -> Result<()> {
    let (ours, rival) = (rounds(ours)?, rounds(rival)?);
    ensure!(!ours.is_empty() && !rival.is_empty(), "no rounds");
    let sector = &ours[0].comm_r;
    ensure!(ours.iter().chain(&rival).all(|s| &s.comm_r == sector), "the two sides sealed different sectors");
    let table = BTreeMap::from([
        ("pc1_8mib", figures(&ours, &rival, |s| s.pc1_8mib)),
        ("pc2_8mib", figures(&ours, &rival, |s| s.pc2_8mib)),
        ("c1_8mib", figures(&ours, &rival, |s| s.c1_8mib)),
        ("commp_8mib", figures(&ours, &rival, |s| s.commp_8mib)),
    ]);
    if json {
        println!("{}", serde_json::to_string(&table)?);
        return Ok(());
    }
    println!("CPU-seconds, medians of {} rounds; time that passed in brackets", ours.len());
    println!("{:12} {:>18} {:>18} {:>6}", "", "sealrig", "reference", "ratio");
    for (name, f) in table {
        let cell = |cpu: f64, wall: f64| format!("{cpu:.4} ({wall:.4})");
        println!(
            "{name:12} {:>18} {:>18} {:6.2}",
            cell(f.ours, f.ours_wall),
            cell(f.rival, f.rival_wall),
            f.ratio
        );
    }
    Ok(())
}
