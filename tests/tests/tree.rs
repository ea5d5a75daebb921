//! Rules of the tree, as tests: who may depend on whom, where each heavy dependency lives, what every file keeps to.
//!
//! The lists are explicit. A new edge is a decision: add it here and say why in ARCHITECTURE.md.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Normal dependencies between our packages.
const EDGES: &[(&str, &[&str])] = &[
    ("primitives", &[]),
    ("statestore", &[]),
    ("statemachine", &["statestore"]),
    ("proofs", &["primitives"]),
    ("chain", &["primitives"]),
    ("sealing", &["chain", "primitives", "proofs", "statemachine", "statestore"]),
    ("node", &["chain", "primitives", "proofs", "sealing", "statemachine", "statestore"]),
    ("sealrig", &["node", "primitives", "proofs"]),
    ("sector-status", &["node"]),
    ("integration-tests", &[]),
];

/// Dependencies that have exactly these homes (normal dependencies).
const HOMES: &[(&str, &[&str])] = &[
    ("sled", &["statestore"]),
    ("serde_cbor", &["statestore"]),
    ("axum", &["node"]),
    ("ureq", &["node"]),
    ("fvm_ipld_encoding", &["chain"]),
    ("rayon", &["proofs", "sealing"]),
    // The chain computes CommD from declared pieces by itself: it must not know the proofs.
    ("sha2", &["chain", "proofs"]),
    ("clap", &["sealrig", "sector-status"]),
    ("anyhow", &["sealrig", "sector-status"]),
    ("indicatif", &["sealrig"]),
    ("comfy-table", &["sector-status"]),
];

/// Crates that must not know a runtime, a database or a network.
const NEVER: &[(&str, &[&str])] = &[
    ("proofs", &["tokio", "sled", "axum", "serde_cbor", "async-trait"]),
    ("statemachine", &["tokio", "tokio-util", "sled", "serde_cbor"]),
    ("primitives", &["tokio", "sled", "rayon", "blake2b_simd", "sha2"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the root").to_owned()
}

/// Package name -> names of its normal dependencies.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    packages
        .iter()
        .map(|package| {
            let normal = package["dependencies"]
                .as_array()
                .expect("dependencies")
                .iter()
                .filter(|d| d["kind"].is_null() || d["kind"] == "build")
                .map(|d| d["name"].as_str().expect("a name").to_owned());
            (package["name"].as_str().expect("a name").to_owned(), normal.collect())
        })
        .collect()
}

#[test]
fn edges_between_our_crates_are_the_declared_ones() {
    let packages = dependencies();
    let ours: BTreeSet<&str> = packages.keys().map(String::as_str).collect();
    assert_eq!(ours, EDGES.iter().map(|(name, _)| *name).collect(), "every package has its line in EDGES");
    for (name, allowed) in EDGES {
        for dependency in &packages[*name] {
            if ours.contains(dependency.as_str()) {
                assert!(allowed.contains(&dependency.as_str()), "{name} must not depend on {dependency}");
            }
        }
    }
}

#[test]
fn heavy_dependencies_live_in_their_homes_only() {
    let packages = dependencies();
    for (dependency, homes) in HOMES {
        for (name, its) in &packages {
            if its.contains(*dependency) {
                assert!(homes.contains(&name.as_str()), "{dependency} belongs to {homes:?}, not to {name}");
            }
        }
    }
    for (name, never) in NEVER {
        for dependency in *never {
            assert!(!packages[*name].contains(*dependency), "{name} must not know {dependency}");
        }
    }
    for (name, its) in &packages {
        let reference = |d: &&String| d.starts_with("filecoin-") || d.starts_with("storage-proofs");
        assert!(!its.iter().any(|d| reference(&d)), "{name}: the reference lives in tests/conformance only");
    }
}

/// Every Rust source file below the product's folders.
fn sources() -> Vec<PathBuf> {
    fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
        let Ok(entries) = std::fs::read_dir(dir) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                if path.file_name().is_some_and(|n| n != "target") {
                    walk(&path, out);
                }
            } else if path.extension().is_some_and(|e| e == "rs") {
                out.push(path);
            }
        }
    }
    let mut out = Vec::new();
    for dir in ["crates", "proofs", "tests"] {
        walk(&root().join(dir), &mut out);
    }
    out.sort();
    assert!(out.len() > 20, "the walk found only {} files", out.len());
    out
}

#[test]
fn unsafe_code_is_forbidden_outside_proofs() {
    for (name, dir, file) in [
        ("primitives", "crates/primitives", "lib.rs"),
        ("statestore", "crates/statestore", "lib.rs"),
        ("statemachine", "crates/statemachine", "lib.rs"),
        ("chain", "crates/chain", "lib.rs"),
        ("sealing", "crates/sealing", "lib.rs"),
        ("node", "crates/node", "lib.rs"),
        ("sealrig", "crates/sealrig", "main.rs"),
        ("sector-status", "crates/sector-status", "main.rs"),
    ] {
        let text = std::fs::read_to_string(root().join(dir).join("src").join(file)).expect("a crate root");
        assert!(text.contains("#![forbid(unsafe_code)]"), "{name} must forbid unsafe code");
    }
    let text = std::fs::read_to_string(root().join("proofs/src/lib.rs")).expect("a crate root");
    assert!(text.contains("#![deny(unsafe_code)]"), "proofs must deny unsafe code outside its leaf modules");
}

#[test]
fn files_stay_readable() {
    let mut long = Vec::new();
    for path in sources() {
        let lines = std::fs::read_to_string(&path).expect("a source file").lines().count();
        if lines > 700 {
            long.push(format!("{} has {lines} lines", path.display()));
        }
    }
    assert!(long.is_empty(), "split these files:\n{}", long.join("\n"));
}

#[test]
fn nothing_is_left_half_said() {
    // Spelled in halves so that this file does not find itself.
    let words = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("dbg", "!("),
    ];
    for path in sources() {
        let text = std::fs::read_to_string(&path).expect("a source file");
        for word in words {
            assert!(!text.contains(word), "{} contains {word}", path.display());
        }
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        let text = std::fs::read_to_string(root().join(name)).expect("a document");
        for (_, rest) in text.match_indices("](").map(|(at, _)| text.split_at(at + 2)) {
            let target = rest.split(')').next().expect("a link ends");
            if !target.contains("://") && !target.starts_with('#') {
                assert!(root().join(target).exists(), "{name} links to {target}, which is not there");
            }
        }
    }
}
