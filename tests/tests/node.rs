//! `sealrig run`, `sealrig sectors` and `sector-status`: a node as its operator sees it, with the real binaries.

use integration_tests::{sealrig_bin, sector_status_bin};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

fn command(program: &Path, repo: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_remove("RUST_LOG").env("HOME", "/nonexistent").env("SEALRIG_REPO", repo);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// A node that runs; killed when the test fails.
struct Running {
    child: Child,
    started: Value,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(repo: &Path, args: &[&str]) -> Running {
    // Built before the node runs, or a first build would take the time that the test wants to look at.
    sector_status_bin();
    let mut child = command(sealrig_bin(), repo)
        .args(["run", "--json"])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sealrig starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut json = String::new();
    while !json.ends_with("}\n") {
        if stdout.read_line(&mut json).expect("text") == 0 {
            let mut why = String::new();
            child.stderr.take().expect("piped").read_to_string(&mut why).expect("text");
            panic!("the node did not start: {why}");
        }
    }
    // The log is read away, or a full pipe would hold the node.
    let mut stderr = child.stderr.take().expect("piped");
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    Running { child, started: serde_json::from_str(&json).expect("JSON") }
}

impl Running {
    fn signal(&self, name: &str) {
        let status = Command::new("sh")
            .arg("-c")
            .arg(format!("kill -{name} {}", self.child.id()))
            .status()
            .expect("sh runs");
        assert!(status.success());
    }

    /// Stops the node in order; how long it took.
    fn terminate(mut self) -> Duration {
        let asked = Instant::now();
        self.signal("TERM");
        let status = self.child.wait().expect("it ends");
        assert_eq!(status.code(), Some(0));
        asked.elapsed()
    }
}

fn sectors(repo: &Path, args: &[&str]) -> Output {
    command(sealrig_bin(), repo).arg("sectors").args(args).output().expect("sealrig starts")
}

fn ok(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON alone on stdout");
    assert_eq!(json["schema"], 1);
    json
}

fn refused(output: &Output, code: i32, words: &[&str]) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert_eq!(text(&output.stdout), "");
    for word in words {
        assert!(stderr.contains(word), "{word:?} is missing in {stderr}");
    }
}

fn status(repo: &Path, args: &[&str]) -> Output {
    command(sector_status_bin(), repo).args(args).output().expect("sector-status starts")
}

fn wait_for(repo: &Path, number: u64, state: &str) -> Value {
    let began = Instant::now();
    loop {
        let sector = ok(&status(repo, &[&number.to_string(), "--json"]));
        if sector["state"] == state {
            return sector;
        }
        assert_eq!(sector["needs_attention"], false, "{sector}");
        assert!(began.elapsed() < PATIENCE, "sector {number} is not {state}: {sector}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The sealed file of a sector, by the end of its name.
fn find(storage: &Path, end: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(storage.join("sealed")).expect("a folder of sealed files");
    entries.map(|entry| entry.expect("an entry").path()).find(|path| path.to_string_lossy().ends_with(end))
}

fn data(bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn file(dir: &Path, name: &str, bytes: usize) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, data(bytes)).expect("a file is written");
    path
}

#[test]
fn the_life_of_sectors_under_a_running_node() {
    let dir = tempfile::tempdir().unwrap();
    let repo = dir.path().join("repo");
    let none = status(&repo, &[]);
    refused(&none, 1, &["no sealrig repo", "sealrig run"]);
    refused(&sectors(&repo, &["pledge"]), 1, &["no sealrig repo"]);
    refused(&sectors(&repo, &["list"]), 2, &["run `sector-status`"]);
    refused(&sectors(&repo, &["status", "7", "--log"]), 2, &["run `sector-status 7 --log`"]);

    let no_folder = command(sealrig_bin(), &file(dir.path(), "plain", 1)).arg("run").output().unwrap();
    refused(&no_folder, 1, &["plain is not a folder"]);

    let node = start(&repo, &["--sector-size", "2KiB", "--epoch-ms", "20"]);
    assert_eq!(node.started["sector_size"], 2048);
    for (name, mode) in [("", 0o700), ("token", 0o600), ("api", 0o600)] {
        let found = fs::metadata(repo.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{name}");
    }
    let list = status(&repo, &[]);
    assert!(list.status.success() && text(&list.stdout).contains("no sectors yet"));
    assert_eq!(text(&list.stderr), "", "a running node needs no note");

    // A file, and stdin.
    let path = file(dir.path(), "a file.bin", 900);
    let added = ok(&sectors(&repo, &["add", path.to_str().unwrap(), "--json"]));
    assert_eq!((&added["name"], &added["pieces"][0]["number"]), (&"a file.bin".into(), &1.into()));
    let mut child = command(sealrig_bin(), &repo)
        .args(["sectors", "add", "-", "--name", "piped", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&data(2032)).unwrap();
    let added = ok(&child.wait_with_output().unwrap());
    assert_eq!(
        (&added["name"], &added["bytes"], &added["pieces"][0]["number"]),
        (&"piped".into(), &2032.into(), &2.into())
    );
    ok(&sectors(&repo, &["seal", "1", "--json"]));
    // The second is full and need not be told.
    let first = wait_for(&repo, 1, "Proving");
    let second = wait_for(&repo, 2, "Proving");
    assert_ne!(first["comm_r"], second["comm_r"]);
    for key in [
        "ticket",
        "ticket_epoch",
        "seed",
        "seed_epoch",
        "pieces",
        "comm_d",
        "comm_r",
        "replica_id",
        "messages",
        "timeline",
    ] {
        assert!(!first[key].is_null(), "{key}");
    }

    // The list, by state and by an older name of a state.
    let proving = ok(&status(&repo, &["--state", "Proving", "--json"]));
    assert_eq!(proving["sectors"].as_array().unwrap().len(), 2);
    let waiting = ok(&status(&repo, &["--state", "CommitWait,SealFailed", "--json"]));
    assert_eq!(waiting["sectors"].as_array().unwrap().len(), 0);
    let people = text(&status(&repo, &["1", "--log"]).stdout);
    for word in [
        "SectorID:",
        "CIDcommR:",
        "Ticket:",
        "Time line:",
        "Why it is there:",
        "Event Log:",
        "PreCommitLanded",
    ] {
        assert!(people.contains(word), "{word:?} is missing in {people}");
    }

    // The data comes back.
    let back = sectors(&repo, &["unseal", "2"]);
    assert!(back.status.success() && back.stdout == data(2032), "{}", text(&back.stderr));
    let out = dir.path().join("part");
    let part =
        sectors(&repo, &["unseal", "1", "--offset", "7", "--bytes", "100", "--out", out.to_str().unwrap()]);
    assert!(part.status.success(), "{}", text(&part.stderr));
    assert_eq!(fs::read(&out).unwrap(), data(900)[7..107]);

    // By piece and by name, with the offsets that people are shown.
    let small = file(dir.path(), "small", 100);
    let added = ok(&sectors(&repo, &["add", path.to_str().unwrap(), "--name", "twin", "--json"]));
    let number = added["pieces"][0]["number"].as_u64().unwrap().to_string();
    let added = ok(&sectors(&repo, &["add", small.to_str().unwrap(), "--json"]));
    assert_eq!(
        (&added["pieces"][0]["offset"], &added["pieces"][0]["padded_offset"]),
        (&1016.into(), &1024.into())
    );
    ok(&sectors(&repo, &["seal", &number, "--json"]));
    let third = wait_for(&repo, 3, "Proving");
    assert_eq!(number, "3");
    assert_eq!(
        (&third["pieces"][1]["offset"], &third["pieces"][1]["padded_offset"]),
        (&1016.into(), &1024.into())
    );
    for (choice, expected) in [
        (["--piece", "0"], data(900)),
        (["--piece", "1"], data(100)),
        (["--name", "twin"], data(900)),
        (["--name", "small"], data(100)),
    ] {
        let back = sectors(&repo, &[&["unseal", "3", "--out", "-"], &choice[..]].concat());
        assert!(back.status.success() && back.stdout == expected, "{choice:?}: {}", text(&back.stderr));
    }
    let by_offset = sectors(&repo, &["unseal", "3", "--offset", "1016", "--bytes", "100"]);
    assert_eq!(by_offset.stdout, data(100), "{}", text(&by_offset.stderr));
    let json =
        ok(&sectors(&repo, &["unseal", "3", "--piece", "1", "--json", "--out", out.to_str().unwrap()]));
    assert_eq!((&json["bytes"], fs::read(&out).unwrap()), (&100.into(), data(100)));
    refused(&sectors(&repo, &["unseal", "3", "--json"]), 2, &["--out FILE"]);
    refused(&sectors(&repo, &["unseal", "3", "--piece", "2"]), 2, &["filler"]);
    refused(&sectors(&repo, &["unseal", "3", "--piece", "99"]), 2, &["no piece 99", "sector-status 3"]);
    refused(&sectors(&repo, &["unseal", "3", "--name", "nobody"]), 2, &["nobody", "sector-status 3"]);
    refused(&sectors(&repo, &["unseal", "77"]), 5, &["no sector 77", "next:"]);
    for twice in [sectors(&repo, &["retry", "77"]), status(&repo, &["77"])] {
        assert_eq!(text(&twice.stderr).matches("lists the sectors").count(), 1, "{}", text(&twice.stderr));
    }
    let people = text(&status(&repo, &["3"]).stdout);
    assert!(
        people.contains("1016") && people.contains("fillers, ") && !people.contains("(filler)"),
        "{people}"
    );
    assert!(text(&status(&repo, &["3", "--log"]).stdout).contains("(filler)"));
    // An input over two sectors: each says where the rest is.
    let long = file(dir.path(), "long", 3000);
    let added = ok(&sectors(&repo, &["add", long.to_str().unwrap(), "--json"]));
    assert_eq!((&added["pieces"][0]["number"], &added["pieces"][1]["number"]), (&4.into(), &5.into()));
    ok(&sectors(&repo, &["seal", "5", "--json"]));
    for number in [4, 5] {
        wait_for(&repo, number, "Proving");
    }
    let mut whole = Vec::new();
    for number in ["4", "5"] {
        let back = sectors(&repo, &["unseal", number, "--name", "long"]);
        let told = text(&back.stderr);
        assert!(back.status.success(), "{told}");
        assert!(told.contains("bytes 0 to 2031 in sector 4, bytes 2032 to 2999 in sector 5"), "{told}");
        whole.extend(back.stdout);
    }
    assert!(whole == data(3000));
    // A damaged replica is told as such, and nothing is written.
    let damaged = find(&repo.join("storage"), "-5").expect("the replica of sector 5");
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[70] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let nothing = dir.path().join("nothing");
    let back = sectors(&repo, &["unseal", "5", "--name", "long", "--out", nothing.to_str().unwrap()]);
    refused(&back, 3, &["sector 5", "next:"]);
    assert!(!nothing.exists());

    // Orders that are refused say why and what to do.
    let no_folder = sectors(&repo, &["add", dir.path().to_str().unwrap()]);
    refused(&no_folder, 2, &["is a folder", "tar"]);
    refused(&sectors(&repo, &["add", "/nonexistent"]), 1, &["cannot read /nonexistent"]);
    let empty = file(dir.path(), "empty", 0);
    refused(&sectors(&repo, &["add", empty.to_str().unwrap()]), 2, &["empty", "at least one byte"]);
    refused(&sectors(&repo, &["seal", "1"]), 6, &["sector 1", "Proving"]);
    refused(&sectors(&repo, &["retry", "1"]), 6, &["nothing that a retry could move"]);
    refused(&sectors(&repo, &["seal", "77"]), 5, &["no sector 77"]);
    refused(&sectors(&repo, &["remove", "1"]), 6, &["--confirm 1"]);
    refused(&sectors(&repo, &["remove", "1", "--confirm", "2"]), 2, &["sector 2"]);
    refused(&sectors(&repo, &["seal", "one"]), 2, &["one"]);
    refused(&status(&repo, &["77"]), 5, &["no sector 77"]);
    refused(&status(&repo, &["--state", "Nonsense"]), 2, &["Nonsense", "Proving"]);
    let pledged = ok(&sectors(&repo, &["pledge", "2", "--json"]));
    assert_eq!(pledged["numbers"], serde_json::json!([6, 7]));
    assert_eq!(wait_for(&repo, 7, "Proving")["cc"], true);
    ok(&sectors(&repo, &["remove", "1", "--confirm", "1", "--json"]));
    wait_for(&repo, 1, "Removed");
    let list = text(&status(&repo, &[]).stdout);
    assert!(list.contains("1 removed sector is not shown"), "{list}");
    wait_for(&repo, 6, "Proving");

    // A second process is told of the first.
    let pid = node.child.id().to_string();
    let url = node.started["url"].as_str().unwrap().to_owned();
    refused(&command(sealrig_bin(), &repo).arg("run").output().unwrap(), 1, &["in use", &pid, &url, "next:"]);
    let small = command(sealrig_bin(), &repo).args(["demo", "--dir"]).arg(&repo).arg(&path).output().unwrap();
    refused(&small, 1, &["in use", &pid, &url, "next:"]);
    ok(&status(&repo, &["--json"]));

    assert!(node.terminate() < Duration::from_secs(30));
    assert!(!repo.join("token").exists() && !repo.join("api").exists());
    // The same from the store of the stopped node.
    let offline = status(&repo, &["2", "--json"]);
    assert!(text(&offline.stderr).contains("no node runs"));
    let offline = ok(&offline);
    for key in ["state", "comm_d", "comm_r", "ticket", "seed", "replica_id", "messages", "timeline", "pieces"]
    {
        assert_eq!(offline[key], second[key], "{key}");
    }
    refused(&status(&repo, &["77"]), 5, &["no sector 77"]);
    refused(&sectors(&repo, &["seal", "2"]), 1, &["no node runs", "sealrig run"]);
    let other = command(sealrig_bin(), &repo).args(["run", "--sector-size", "8MiB"]).output().unwrap();
    refused(&other, 2, &["2KiB", "8MiB"]);
    let groth16 = command(sealrig_bin(), &repo).args(["run", "--proofs", "groth16"]).output().unwrap();
    refused(&groth16, 4, &["groth16"]);
}

#[test]
fn a_signal_keeps_finished_work_and_a_crash_leaves_a_repo_that_opens() {
    let dir = tempfile::tempdir().unwrap();
    let repo = dir.path().join("repo");
    let path = file(dir.path(), "eight", 8_000_000);
    let node = start(&repo, &["--sector-size", "8MiB", "--epoch-ms", "50"]);
    // It fills the sector, which is sealed without being told.
    ok(&sectors(&repo, &["add", path.to_str().unwrap(), "--json"]));
    let began = Instant::now();
    let mut slowest = Duration::ZERO;
    loop {
        // The API answers under full load.
        let asked = Instant::now();
        let sector = ok(&status(&repo, &["1", "--json"]));
        slowest = slowest.max(asked.elapsed());
        if sector["state"] == "PreCommit2" {
            break;
        }
        assert!(began.elapsed() < PATIENCE && sector["state"] != "Proving", "{sector}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(slowest < Duration::from_secs(5), "an answer took {slowest:?}, the process's start included");
    assert!(node.terminate() < Duration::from_secs(30));
    let stopped = ok(&status(&repo, &["1", "--json"]));
    assert_ne!(stopped["state"], "Proving");
    assert_eq!(stopped["waiting_for"], "a node to start", "{stopped}");
    let list = text(&status(&repo, &[]).stdout);
    assert!(list.contains("a node") && !list.contains("working") && !list.contains("its turn"), "{list}");

    // Killed: the announcement is left behind, and nobody is fooled by it.
    let mut node = start(&repo, &["--epoch-ms", "50"]);
    node.child.kill().unwrap();
    node.child.wait().unwrap();
    assert!(repo.join("api").exists());
    refused(&sectors(&repo, &["seal", "1"]), 1, &["no node runs"]);
    assert!(text(&status(&repo, &[]).stderr).contains("no node runs"));

    let node = start(&repo, &["--epoch-ms", "50"]);
    let sector = wait_for(&repo, 1, "Proving");
    assert_eq!(sector["messages"].as_array().unwrap().len(), 2, "one pre-commit, one prove-commit: {sector}");
    let back = sectors(&repo, &["unseal", "1", "--bytes", "8000000"]);
    assert!(back.status.success() && back.stdout == data(8_000_000), "{}", text(&back.stderr));
    node.terminate();
}

#[test]
fn a_busy_address_and_a_damaged_repo_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let repo = dir.path().join("repo");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let run = |args: &[&str]| command(sealrig_bin(), &repo).arg("run").args(args).output().unwrap();
    refused(&run(&["--sector-size", "2KiB", "--listen", &address]), 1, &["cannot listen", &address]);
    refused(&run(&["--epoch-ms", "0"]), 2, &["--epoch-ms"]);
    refused(&run(&["--sector-size", "16KiB"]), 2, &["16KiB"]);
    // The refused starts left a repo that works, and no announcement.
    assert!(!repo.join("api").exists());
    start(&repo, &[]).terminate();
    let facts = repo.join("repo.json");
    let whole = fs::read_to_string(&facts).unwrap();
    fs::write(&facts, &whole[..40]).unwrap();
    refused(&run(&[]), 1, &["repo.json", "damaged"]);
    fs::write(&facts, whole.replace("\"schema\": 1", "\"schema\": 2")).unwrap();
    refused(&run(&[]), 1, &["schema 2", "newer"]);
    refused(&status(&repo, &[]), 1, &["schema 2"]);
    // A closed pipe is success.
    fs::write(&facts, whole).unwrap();
    let mut child = command(sector_status_bin(), &repo).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
