//! Our outputs against answers of the reference implementation, recorded in `known_answers.json`.

// Shared with tests/conformance, which needs all of it and from outside.
#[allow(unreachable_pub, dead_code)]
mod case;

use case::{Artifacts, Inputs, Part, digest};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::process::Command;

#[derive(Deserialize)]
struct Known {
    schema: u32,
    sectors: Vec<Sector>,
    parts: Vec<Named>,
}

#[derive(Deserialize)]
struct Sector {
    inputs: Inputs,
    outputs: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    #[serde(flatten)]
    part: Part,
    outputs: BTreeMap<String, String>,
}

fn known() -> Known {
    let known: Known = serde_json::from_str(include_str!("known_answers.json")).unwrap();
    assert_eq!(known.schema, 1);
    known
}

/// One line for each output that is not the recorded one, is missing, or is not recorded.
fn faults(name: &str, outputs: &Artifacts, expected: &BTreeMap<String, String>) -> Vec<String> {
    let mut out = Vec::new();
    for (what, want) in expected {
        let got = outputs.get(what).map(|bytes| digest(bytes));
        if got.as_ref() != Some(want) {
            out.push(format!("{name}: {what}: expected {want}, got {}", got.as_deref().unwrap_or("nothing")));
        }
    }
    out.extend(
        outputs.keys().filter(|k| !expected.contains_key(*k)).map(|k| format!("{name}: {k} is not recorded")),
    );
    out
}

/// Runs `body` in a process of its own whose parents files are in a folder that goes away with it: a test must not fill
/// the machine's shared folder, and the environment of the test process is not ours to change.
fn with_own_parents_folder(test: &str, body: impl FnOnce()) {
    const CHILD: &str = "SEALRIG_KNOWN_ANSWERS_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .env(proofs::graph::CACHE_DIR_VARIABLE, folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "the test {test} did not run: {text}");
}

fn check_sectors(wanted: impl Fn(&Inputs) -> bool, at_least: usize) {
    let (mut all, mut count) = (Vec::new(), 0);
    for Sector { inputs, outputs } in known().sectors.iter().filter(|s| wanted(&s.inputs)) {
        let dir = tempfile::tempdir().unwrap();
        let ours = case::run::seal(inputs, dir.path()).unwrap_or_else(|e| panic!("{}: {e}", inputs.name));
        all.extend(faults(&inputs.name, &ours, outputs));
        count += 1;
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
    assert!(count >= at_least, "only {count} sectors in the file");
}

#[test]
fn functions_alone() {
    let (mut all, mut count) = (Vec::new(), 0);
    for Named { name, part, outputs } in &known().parts {
        let ours = case::run::part(part).unwrap_or_else(|e| panic!("{name}: {e}"));
        all.extend(faults(name, &ours, outputs));
        count += 1;
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
    assert!(count >= 80, "only {count} cases in the file");
}

#[test]
fn sectors_of_kibibytes() {
    with_own_parents_folder("sectors_of_kibibytes", || check_sectors(|i| i.sector_size <= 32 << 10, 15));
}

#[test]
fn a_sector_of_8_mib() {
    with_own_parents_folder("a_sector_of_8_mib", || check_sectors(|i| i.sector_size == 8 << 20, 1));
}

#[test]
fn a_wrong_answer_is_noticed() {
    let outputs = Artifacts::from([("a".to_owned(), vec![1]), ("b".to_owned(), vec![2; 40])]);
    let right = BTreeMap::from([("a".to_owned(), digest(&[1])), ("b".to_owned(), digest(&[2; 40]))]);
    assert!(faults("x", &outputs, &right).is_empty());
    let wrong = BTreeMap::from([("a".to_owned(), "02".to_owned()), ("c".to_owned(), String::new())]);
    assert_eq!(faults("x", &outputs, &wrong).len(), 3);
}
