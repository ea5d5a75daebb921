//! The known answers that the ordinary tests of `proofs` check without the reference.

use crate::case::GROUPS;
use crate::oracle;
use crate::parts::{self, FAMILIES};
use crate::shared::{Artifacts, Inputs, Part, digest};
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;

/// The seed of every known answer.
pub const SEED: &str = "sealrig known answers 1";

/// How many cases of each family are kept.
const SECTORS: &[(&str, u64)] = &[
    ("2KiB", 8),
    ("4KiB", 2),
    ("16KiB", 2),
    ("32KiB", 2),
    ("2KiB-eleven-layers", 2),
    ("2KiB-synthetic", 1),
    ("2KiB-non-interactive", 1),
];
const PARTS: &[(&str, u64)] = &[
    ("poseidon", 24),
    ("fr32", 0),
    ("comm-p", 8),
    ("comm-d", 20),
    ("replica-id", 2),
    ("parents", 20),
    ("challenges", 12),
];

const ABOUT: &[&str] = &[
    "Answers of the published crates filecoin-proofs 19.1.0 (no default features) to fixed inputs.",
    "Written by `scripts/conformance known-answers --write`; checked by known_answers.rs beside this file.",
    "The stream of a label is SHA256(label || LE64(0)) || SHA256(label || LE64(1)) || ...",
    "A value is hexadecimal, or sha256: of the bytes where there are more than 32 of them.",
    "t_aux: every path and its length replaced by the five letters CACHE. parents: file name, newline, file.",
];

#[derive(Serialize)]
struct Sector {
    inputs: Inputs,
    outputs: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Named {
    name: String,
    #[serde(flatten)]
    part: Part,
    outputs: BTreeMap<String, String>,
}

fn digests(artifacts: &Artifacts) -> BTreeMap<String, String> {
    artifacts.iter().map(|(name, bytes)| (name.clone(), digest(bytes))).collect()
}

/// The file's text.
pub fn file() -> Result<String> {
    let mut sectors = Vec::new();
    let mut cases: Vec<Inputs> = Vec::new();
    for &(name, count) in SECTORS {
        let group = GROUPS.iter().find(|g| g.name == name).expect("a family of cases");
        cases.extend((0..count).map(|i| group.case(SEED, i)));
    }
    // One of 8 MiB, the V1_1 one.
    cases.push(crate::case::named(SEED, "8MiB-1")?);
    for inputs in cases {
        let dir = tempfile::tempdir()?;
        let outputs = digests(&oracle::seal(&inputs, dir.path())?);
        sectors.push(Sector { inputs, outputs });
    }
    let mut single = Vec::new();
    for &(name, count) in PARTS {
        let family = FAMILIES.iter().find(|f| f.name == name).expect("a family of cases");
        for index in 0..count {
            let part = shortened(family.case(SEED, index));
            let outputs = digests(&parts::oracle(&part)?);
            single.push(Named { name: format!("{name}-{index}"), part, outputs });
        }
    }
    // Padding: around the edges of elements and quads, and something long.
    for len in [1, 31, 32, 63, 64, 95, 96, 126, 127, 128, 254, 1016, 4064, 10_001] {
        let part = Part::Fr32 { len, label: format!("{SEED}/fr32/{len}") };
        let outputs = digests(&parts::oracle(&part)?);
        single.push(Named { name: format!("fr32-of-{len}"), part, outputs });
    }
    let mut out = String::from("{\n\"schema\": 1,\n\"about\": ");
    out += &serde_json::to_string_pretty(ABOUT)?;
    out += &format!(",\n\"sectors\": [\n{}\n],\n", lines(&sectors)?);
    out += &format!("\"parts\": [\n{}\n]\n}}\n", lines(&single)?);
    Ok(out)
}

/// One record on each line: a changed answer is one changed line.
fn lines<T: Serialize>(records: &[T]) -> Result<String> {
    Ok(records.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?.join(",\n"))
}

/// The same case with fewer nodes or partitions: the file is to stay small.
fn shortened(mut part: Part) -> Part {
    match &mut part {
        Part::Parents { wanted, .. } => wanted.truncate(12),
        Part::Challenges { partitions, .. } => partitions.retain(|k| [0, 1, 9, 12, 125].contains(k)),
        _ => {}
    }
    part
}
