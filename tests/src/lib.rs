//! Rules and end-to-end tests of the tree. Here: what the end-to-end tests share.

#![forbid(unsafe_code)]

mod random;

pub use random::{Random, seed};

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Names a `sealrig` to test instead of the one of this tree, such as an installed one.
pub const BINARY_VARIABLE: &str = "SEALRIG_BIN";

/// The `sealrig` binary of this tree and of the profile this test was built with, brought up to date once per process.
///
/// # Panics
/// If it cannot be built.
pub fn sealrig_bin() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os(BINARY_VARIABLE) {
        Some(binary) => binary.into(),
        None => build("sealrig"),
    })
}

/// Builds a binary with the profile and into the target folder of the running test, which is `<target>/<profile>/deps/x`.
fn build(package: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let profile_dir = test.parent().and_then(Path::parent).expect("a test lies in <target>/<profile>/deps");
    let target_dir = profile_dir.parent().expect("the profile's folder lies in the target folder");
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => panic!("{} has no profile's name", profile_dir.display()),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the root");
    // cargo decides whether anything is stale; if nothing is, this takes a moment.
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--package", package, "--profile", profile, "--target-dir"])
        .arg(target_dir)
        .current_dir(root)
        .status()
        .expect("cargo runs");
    assert!(status.success(), "cargo build -p {package}: {status}");
    profile_dir.join(package)
}

/// The `sector-status` binary of this tree, as [`sealrig_bin`].
///
/// # Panics
/// If it cannot be built.
pub fn sector_status_bin() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| build("sector-status"))
}

/// Runs `sealrig`, wants success, and parses its stdout as one JSON document.
///
/// # Panics
/// If it fails or prints anything else.
pub fn run_tool(args: &[&str]) -> serde_json::Value {
    let output = Command::new(sealrig_bin()).args(args).output().expect("sealrig runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "sealrig {args:?}: {}\n{stderr}", output.status);
    let parsed = serde_json::from_slice(&output.stdout);
    parsed.unwrap_or_else(|e| panic!("sealrig {args:?}: stdout is no JSON: {e}\n{stderr}"))
}

/// Writes down that a test could not do its work here, and why. `.ci/run` prints the list.
///
/// # Panics
/// If the file that `SEALRIG_SKIPS` names cannot be written.
pub fn skipped(test: &str, reason: &str) {
    println!("SKIPPED: {test}: {reason}");
    if let Some(path) = std::env::var_os("SEALRIG_SKIPS") {
        use std::io::Write as _;
        let file = std::fs::File::options().create(true).append(true).open(path);
        let written = file.and_then(|mut f| writeln!(f, "{test}: {reason}"));
        written.expect("the list of skipped tests can be written");
    }
}
