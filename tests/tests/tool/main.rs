//! `sealrig tool` through the real binary.

mod bad_input;
mod known_answers;
mod resume;
mod stages;
mod surface;

use integration_tests::sealrig_bin;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The ticket and seed of proofs.md §14.3.
const TICKET: &str = "0101010101010101010101010101010101010101010101010101010101010101";
const SEED: &str = "0202020202020202020202020202020202020202020202020202020202020202";
/// comm_r of the 2 KiB pattern sector with proof 5 (proofs.md §14.3).
const PATTERN_COMM_R: &str = "7777d59842a6fc61a8476774ceef63700462235c27a7952652e915fa8207d032";

/// A folder to work in, with a parents cache of its own.
struct Bench {
    dir: TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary folder") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).expect("a file in the temporary folder");
        path
    }

    /// `sealrig tool ARGS` in the folder, not started.
    fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(sealrig_bin());
        command
            .arg("tool")
            .args(args)
            .current_dir(self.dir.path())
            .env("FIL_PROOFS_PARENT_CACHE", self.path("parents"))
            .stdin(Stdio::null());
        command
    }

    fn run(&self, args: &str) -> Output {
        let args: Vec<&str> = args.split_whitespace().collect();
        self.command(&args).output().expect("sealrig starts")
    }

    /// Runs with `--json`; the exit code must be 0 and stdout one JSON object.
    #[track_caller]
    fn json(&self, args: &str) -> Value {
        let output = self.run(&format!("{args} --json"));
        assert_eq!(output.status.code(), Some(0), "{args}: {}", stderr(&output));
        let value: Value = serde_json::from_slice(&output.stdout).expect("JSON alone on stdout");
        assert_eq!(value["schema"], 1, "{args}");
        value
    }

    /// Runs; the exit code must be `code`, stdout empty, and stderr a sentence with all of `words`.
    #[track_caller]
    fn refused(&self, args: &str, code: i32, words: &[&str]) {
        let output = self.run(args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args}: {said}");
        assert!(output.stdout.is_empty(), "{args}: {}", String::from_utf8_lossy(&output.stdout));
        assert!(said.starts_with("error: ") || said.contains("\nerror: "), "{args}: {said}");
        for word in words {
            assert!(said.contains(word), "{args}: {word:?} is not in\n{said}");
        }
        for ugly in ["panicked", "RUST_BACKTRACE", "Error {", "Os {", "Some("] {
            assert!(!said.contains(ugly), "{args}: {said}");
        }
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The raw bytes of proofs.md §14.3: byte `k` is `(7k + 3) mod 256`.
fn pattern(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|k| (7 * k + 3) as u8).collect()
}

/// The arguments of `seal` for the sector of proofs.md §14.3.
fn seal(proof: u64, rest: &str) -> String {
    format!("seal --seal-proof {proof} --miner-id 1000 --sector 1 --ticket {TICKET} --seed {SEED} {rest}")
}

/// Every file below `dir` with its content, by relative path.
fn contents(dir: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    fn walk(root: &Path, dir: &Path, out: &mut std::collections::BTreeMap<PathBuf, Vec<u8>>) {
        for entry in fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if entry.is_dir() {
                walk(root, &entry, out);
            } else {
                let name = entry.strip_prefix(root).expect("below the root").to_owned();
                out.insert(name, fs::read(&entry).expect("a file"));
            }
        }
    }
    let mut out = Default::default();
    walk(dir, dir, &mut out);
    out
}
