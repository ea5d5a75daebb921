//! `sealrig demo`: files to Proving and back, with the real binary.

use integration_tests::{sealrig_bin, sector_status_bin};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The command, without anything of the user's own surroundings.
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_remove("SEALRIG_REPO").env_remove("RUST_LOG").env("HOME", "/nonexistent");
    command
}

fn demo(args: &[&str], paths: &[&Path]) -> Output {
    let mut command = command(sealrig_bin());
    command.arg("demo").args(args).args(paths);
    command.output().expect("sealrig starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// A failure with this code, nothing on stdout, and a sentence that has these words.
fn refused(output: &Output, code: i32, words: &[&str]) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert_eq!(text(&output.stdout), "", "stdout is for results");
    assert!(stderr.contains("error: "), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "{word:?} is missing in {stderr}");
    }
    for noise in ["panicked", "RUST_BACKTRACE", "Os {", "Some("] {
        assert!(!stderr.contains(noise), "{stderr}");
    }
}

fn result(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON alone on stdout");
    assert_eq!(json["schema"], 1);
    assert_eq!(json["proof_system"], "vanilla");
    assert_eq!(json["unsealed_equal"], true, "{json}");
    for sector in json["sectors"].as_array().expect("sectors") {
        assert_eq!(sector["state"], "Proving");
        for key in ["comm_d", "comm_r", "replica_id"] {
            assert_eq!(sector[key].as_str().map(str::len), Some(64), "{key}: {sector}");
        }
        for stage in ["AddPiece", "PreCommit1", "PreCommit2", "WaitSeed", "Committing"] {
            assert!(sector["stages_ms"][stage].is_u64(), "{stage}: {sector}");
        }
    }
    json
}

/// A file of pseudo-random bytes, different for each seed.
fn file(dir: &Path, name: &str, bytes: usize, seed: u64) -> PathBuf {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let data: Vec<u8> = (0..bytes)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect();
    let path = dir.join(name);
    fs::write(&path, data).expect("a file is written");
    path
}

fn numbers(json: &Value) -> Vec<u64> {
    json["sectors"].as_array().unwrap().iter().map(|s| s["number"].as_u64().unwrap()).collect()
}

#[test]
fn files_of_odd_sizes_come_back_and_a_second_run_adds_only_what_is_new() {
    let dir = tempfile::tempdir().unwrap();
    let repo = dir.path().join("demo");
    let sizes = [1, 127, 128, 1016, 1017, 2031, 2032, 2033, 5000];
    let files: Vec<PathBuf> = sizes
        .iter()
        .enumerate()
        .map(|(i, &n)| file(dir.path(), &format!("file {n}.bin"), n, i as u64 + 1))
        .collect();
    let paths: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let args = ["--json", "--sector-size", "2KiB", "--dir", repo.to_str().unwrap()];
    let first = result(&demo(&args, &paths));
    assert_eq!(first["sector_size"], 2048);
    for path in &files {
        let back = repo.join("unsealed-output").join(path.file_name().unwrap());
        assert_eq!(fs::read(back).unwrap(), fs::read(path).unwrap(), "{}", path.display());
    }

    let again = result(&demo(&args, &paths));
    assert_eq!(numbers(&again), numbers(&first), "nothing is added twice");
    for (a, b) in first["sectors"].as_array().unwrap().iter().zip(again["sectors"].as_array().unwrap()) {
        assert_eq!((&a["comm_r"], &a["replica_id"]), (&b["comm_r"], &b["replica_id"]));
    }

    // A new file, and an old name with another content.
    fs::create_dir(dir.path().join("other")).unwrap();
    let more = file(dir.path(), "more", 700, 77);
    let namesake = file(&dir.path().join("other"), "file 1.bin", 1, 78);
    let third = result(&demo(&args, &[&more, &namesake, &files[0]]));
    let fresh: Vec<u64> = numbers(&third).into_iter().filter(|n| !numbers(&first).contains(n)).collect();
    assert_eq!(fresh.len(), 1, "both new files fit in one new sector: {third}");
    assert_eq!(third["files"][1]["name"], "file 1.bin (2)");
    assert_eq!(fs::read(repo.join("unsealed-output/file 1.bin (2)")).unwrap(), fs::read(&namesake).unwrap());

    // Another sector size on the same folder.
    let other = demo(&["--sector-size", "8MiB", "--dir", repo.to_str().unwrap()], &[&more]);
    refused(&other, 2, &["2KiB", "8MiB", "one sector size"]);

    // The folder is a repo for the inspection tool.
    let status = command(sector_status_bin()).args(["--json", "--repo"]).arg(&repo).output().unwrap();
    assert!(status.status.success(), "{}", text(&status.stderr));
    assert!(text(&status.stderr).contains("no node runs"), "{}", text(&status.stderr));
    let list: Value = serde_json::from_slice(&status.stdout).unwrap();
    let listed: Vec<u64> =
        list["sectors"].as_array().unwrap().iter().map(|s| s["number"].as_u64().unwrap()).collect();
    assert_eq!(listed, (1..=listed.len() as u64).collect::<Vec<_>>());
    assert!(fresh.iter().all(|n| listed.contains(n)));
}

#[test]
fn the_smallest_size_is_taken_and_the_result_is_told_to_people() {
    let dir = tempfile::tempdir().unwrap();
    let small = file(dir.path(), "small", 2032, 1);
    let mut command = command(sealrig_bin());
    let output = command.current_dir(dir.path()).arg("demo").arg(&small).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let made = dir.path().join("sealrig-demo-1");
    let stdout = text(&output.stdout);
    for word in [
        "Sector 1: Proving, on chain",
        "PreCommit1",
        "equal byte for byte",
        "sector-status --repo",
        made.to_str().unwrap(),
    ] {
        assert!(stdout.contains(word), "{word:?} is missing in {stdout}");
    }
    assert!(text(&output.stderr).contains("new sector of 2KiB"), "{}", text(&output.stderr));
    assert!(made.join("repo.json").is_file());
}

#[test]
fn eight_mebibytes_and_an_interruption() {
    let dir = tempfile::tempdir().unwrap();
    let repo = dir.path().join("demo");
    let path = file(dir.path(), "large.bin", 8_323_072, 5);
    let args = ["--dir", repo.to_str().unwrap()];
    // Interrupted while it seals ...
    let mut child = command(sealrig_bin())
        .arg("demo")
        .args(args)
        .arg(&path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    while !said.contains("PreCommit1") {
        assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "it ended before PC1: {said}");
    }
    let killed = Command::new("sh").arg("-c").arg(format!("kill -INT {}", child.id())).status().unwrap();
    assert!(killed.success());
    while stderr.read_line(&mut said).unwrap() > 0 {}
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    assert!(said.contains("to go on"), "{said}");
    assert!(!repo.join("token").exists() && !repo.join("api").exists());
    // ... it goes on with the same command.
    let output = demo(&["--json", "--dir", repo.to_str().unwrap()], &[&path]);
    let json = result(&output);
    assert_eq!((&json["sector_size"], numbers(&json)), (&(8 << 20).into(), vec![1]));
    let status =
        command(sector_status_bin()).args(["1", "--log", "--json", "--repo"]).arg(&repo).output().unwrap();
    let sector: Value = serde_json::from_slice(&status.stdout).unwrap();
    let log = sector["log"].as_array().unwrap();
    assert!(log.iter().any(|l| l["kind"] == "Interrupted"), "the journal tells of the interruption");
    // Finished layers are not computed again: at most the one that was cut is started twice.
    let mut started = std::collections::BTreeMap::new();
    for line in log.iter().filter(|l| l["event"] == "UnitStarted") {
        *started.entry(line["data"]["UnitStarted"].to_string()).or_insert(0) += 1;
    }
    assert!(started.values().filter(|n| **n > 1).count() <= 1, "{started:?}");
}

#[test]
fn bad_inputs_get_a_sentence_and_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let repo = dir.path().join("demo");
    let target = ["--dir", repo.to_str().unwrap()];
    let good = file(dir.path(), "good", 100, 1);
    let empty = file(dir.path(), "empty", 0, 1);
    let missing = dir.path().join("missing");
    let dangling = dir.path().join("dangling");
    std::os::unix::fs::symlink(&missing, &dangling).unwrap();
    let large = file(dir.path(), "large", 65 * 2032, 2);

    refused(&demo(&target, &[&good, &missing]), 1, &["cannot read", "missing", "No such file"]);
    refused(&demo(&target, &[&dangling]), 1, &["cannot read", "dangling"]);
    refused(&demo(&target, &[&good, &empty]), 2, &["empty", "at least one byte"]);
    refused(&demo(&target, &[dir.path()]), 2, &["not a regular file", "tar"]);
    refused(&demo(&["--proofs", "groth16"], &[&good]), 4, &["groth16", "vanilla"]);
    refused(&demo(&["--proofs", "magic"], &[&good]), 2, &["magic", "vanilla"]);
    let many = demo(&["--sector-size", "2KiB", target[0], target[1]], &[&large]);
    refused(&many, 2, &["65 sectors of 2KiB", "--yes", "of disk", "roughly"]);
    for args in [vec!["--sector-size", "3KiB"], vec!["--sector-size", "32GiB"], vec!["--nonsense"]] {
        let output = demo(&args, &[&good]);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
    }
    let none = demo(&[], &[]);
    assert_eq!(none.status.code(), Some(2));
    assert!(!repo.exists(), "nothing was made");

    // Folders that are something else.
    let thesis = dir.path().join("thesis");
    fs::create_dir(&thesis).unwrap();
    fs::write(thesis.join("chapter-1.txt"), "years of work").unwrap();
    refused(&demo(&["--dir", thesis.to_str().unwrap()], &[&good]), 1, &["not empty", "no sealrig repo"]);
    assert_eq!(fs::read_dir(&thesis).unwrap().count(), 1);
    refused(&demo(&["--dir", good.to_str().unwrap()], &[&good]), 1, &["good"]);
    // A new folder that was made for nothing goes away again.
    let here = dir.path().join("here");
    fs::create_dir(&here).unwrap();
    let output = command(sealrig_bin()).current_dir(&here).arg("demo").arg(&empty).output().unwrap();
    refused(&output, 2, &["empty"]);
    assert!(!text(&output.stderr).contains("works in"), "{}", text(&output.stderr));
    assert_eq!(fs::read_dir(&here).unwrap().count(), 0);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "x", 50, 3);
    let mut child = command(sealrig_bin())
        .args(["demo", "--json", "--dir"])
        .arg(dir.path().join("demo"))
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}
