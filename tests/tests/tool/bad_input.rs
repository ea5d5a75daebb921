//! Bad input: a clear sentence, the right exit code, nothing lost.

use crate::*;
use std::os::unix::fs::PermissionsExt;

#[test]
fn files_that_are_no_data() {
    let bench = Bench::new();
    bench.file("empty", b"");
    bench.file("good", b"x");
    fs::create_dir(bench.path("folder")).expect("a folder");
    for (name, code, words) in [
        ("empty", 2, ["empty is empty", "next:"]),
        ("missing", 1, ["cannot read missing", "next:"]),
        ("folder", 2, ["folder is a folder", "next:"]),
        ("/dev/null", 2, ["not a regular file", "next:"]),
    ] {
        bench.refused(&format!("commp {name}"), code, &words);
        bench.refused(&seal(5, &format!("--dir d good {name}")), code, &words);
        bench.refused(
            &format!("add-piece --dir d --seal-proof 5 --miner-id 1 --sector 1 {name}"),
            code,
            &words,
        );
        assert!(!bench.path("d").exists(), "nothing is made before the files are looked at");
    }
    // A superuser reads everything.
    let secret = bench.file("secret", b"x");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).expect("chmod");
    if fs::File::open(&secret).is_err() {
        bench.refused("commp secret", 1, &["secret", "denied"]);
    } else {
        integration_tests::skipped("an unreadable file as FILE", "this user reads every file");
    }
}

#[test]
fn values_that_are_none() {
    let bench = Bench::new();
    let good = seal(5, "--dir d");
    for (from, to, words) in [
        ("--seal-proof 5", "--seal-proof 20", ["20 is not a registered seal proof", "0 to 19"]),
        ("--seal-proof 5", "--seal-proof five", ["--seal-proof", "0 to 19"]),
        (TICKET, "0101", ["64 hexadecimal digits", "got 4"]),
        (TICKET, "", ["--ticket", "--seed"]),
        (SEED, &SEED.replacen('2', "g", 1), ["character 2 is 'g'", "--seed"]),
        (SEED, &"0".repeat(64), ["--seed", "zero"]),
        ("--miner-id 1000", "--miner-id f1xyz", ["--miner-id", "f01000"]),
        ("--sector 1", "--sector 9223372036854775808", ["--sector", "9223372036854775807"]),
        ("--sector 1", "", ["--sector", "required"]),
    ] {
        let words: Vec<&str> =
            if to.is_empty() && from == TICKET { vec!["--ticket"] } else { words.to_vec() };
        bench.refused(&good.replace(from, to), 2, &words);
        assert!(!bench.path("d").exists());
    }
}

#[test]
fn pieces_that_do_not_fit() {
    let bench = Bench::new();
    bench.file("half", &pattern(1016));
    bench.file("small", b"x");
    bench.file("large", &pattern(2033));
    bench.refused(&seal(5, "--dir d large"), 2, &["large does not fit", "4064", "2032", "2KiB"]);
    // The second half would begin at its own multiple: nothing is left for it.
    bench.refused(
        &seal(5, "--dir d half small half"),
        2,
        &["half does not fit", "2 pieces are before it", "508 bytes fits"],
    );
    bench.refused(&seal(5, "--dir d half half small"), 2, &["small does not fit", "the sector is full"]);
    assert!(!bench.path("d").exists());
    bench.json("add-piece --dir d --seal-proof 5 --miner-id 1 --sector 1 half small");
    let before = contents(&bench.path("d"));
    bench.refused("add-piece --dir d half", 2, &["half does not fit", "508 bytes fits"]);
    assert!(contents(&bench.path("d")) == before);
}

#[test]
fn folders_of_another_sector() {
    let bench = Bench::new();
    bench.file("data", &pattern(2032));
    bench.file("other", &pattern(2000));
    bench.json(&seal(5, "--dir d data"));
    let before = contents(&bench.path("d"));
    for (args, words) in [
        (seal(5, "--dir d data").replace("--sector 1", "--sector 2"), ["s-t01000-1", "s-t01000-2"]),
        (seal(5, "--dir d data").replace("--miner-id 1000", "--miner-id 7"), ["s-t01000-1", "s-t07-1"]),
        (seal(0, "--dir d data"), ["StackedDrg2KiBV1_1", "not"]),
        (seal(5, "--dir d other"), ["other data", "2000"]),
        (seal(5, "--dir d"), ["1 piece", "0 files"]),
        ("precommit1 --dir d --sector 2".to_owned(), ["--sector 2 contradicts", "says 1"]),
        (format!("precommit1 --dir d --ticket {SEED}"), ["--ticket", "contradicts"]),
        ("precommit2 --dir d --seal-proof 6".to_owned(), ["--seal-proof 6 contradicts", "says 5"]),
        ("commit1 --dir d --miner-id 1".to_owned(), ["--miner-id 1 contradicts", "says 1000"]),
        (format!("unseal --dir d --out x --comm-d {SEED}"), ["--comm-d", "contradicts"]),
        ("add-piece --dir d data".to_owned(), ["does not fit", "next:"]),
    ] {
        bench.refused(&args, 2, &words);
        assert!(contents(&bench.path("d")) == before, "{args}");
    }
    // Files of nobody we know are not overwritten.
    fs::create_dir(bench.path("foreign")).expect("a folder");
    bench.file("foreign/unsealed", b"precious");
    bench.refused(&seal(5, "--dir foreign data"), 2, &["foreign/unsealed", "not overwritten"]);
    assert_eq!(fs::read(bench.path("foreign/unsealed")).expect("the file"), b"precious");
    // The stages by themselves need a sector.
    fs::create_dir(bench.path("none")).expect("a folder");
    for stage in ["precommit1", "precommit2", "commit1"] {
        bench.refused(&format!("{stage} --dir none"), 1, &["no sector", "next:"]);
        bench.refused(&format!("{stage} --dir missing"), 1, &["missing", "add-piece"]);
    }
}

#[test]
fn stages_out_of_order() {
    let bench = Bench::new();
    bench.file("data", b"x");
    bench.json("add-piece --dir d --seal-proof 5 --miner-id 1 --sector 1 data");
    bench.refused("precommit2 --dir d", 1, &["no ticket", "precommit1"]);
    bench.refused("precommit1 --dir d", 2, &["--ticket is missing", "give --ticket"]);
    bench.json(&format!("precommit1 --dir d --ticket {TICKET}"));
    bench.refused("add-piece --dir d data", 2, &["sealing", "has begun"]);
    bench.refused(&format!("commit1 --dir d --seed {SEED}"), 1, &["not sealed yet", "precommit2"]);
    bench.json("precommit2 --dir d");
    bench.refused("commit1 --dir d", 2, &["--seed is missing", "give --seed"]);
    bench.refused("verify-vanilla --dir d", 2, &["--seed is missing"]);
    bench.refused(&format!("verify-vanilla --dir d --seed {SEED}"), 1, &["c1.json", "commit1"]);
}

#[test]
fn disks_that_are_full_or_read_only() {
    let bench = Bench::new();
    bench.file("data", &pattern(2032));
    bench.json(&seal(5, "--dir good data"));
    // A limit on the size of files (in 512 bytes) stands for the disk: it fails the same writes. With 7 tree-D does not
    // fit, with 8 only the proofs do not.
    for (limit, file) in [(7, "tree-d"), (8, "c1.json")] {
        let sealing = seal(5, &format!("--dir limit-{limit} data"));
        let output = Command::new("sh")
            .args(["-c", &format!("trap '' XFSZ; ulimit -f {limit}; exec \"$0\" tool {sealing}")])
            .arg(sealrig_bin())
            .current_dir(bench.dir.path())
            .env("FIL_PROOFS_PARENT_CACHE", bench.path("parents"))
            .output()
            .expect("sh starts");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{limit}: {said}");
        assert!(said.contains(file) && said.contains("File too large") && said.contains("next: "), "{said}");
        let report = bench.json(&sealing);
        assert_eq!(report["comm_r"], PATTERN_COMM_R);
        assert!(report["reused"].as_array().is_some_and(|reused| !reused.is_empty()), "{report}");
    }
    bench.refused("unseal --dir good --out /dev/full", 1, &["/dev/full", "No space left"]);

    // Nobody, not even the superuser, can make folders there.
    bench.refused(&seal(5, "--dir /sys/sealrig data"), 1, &["cannot create the folder /sys/sealrig"]);
    bench.refused(&seal(5, "--dir data/inside data"), 1, &["cannot create the folder data/inside"]);
    bench.refused("unseal --dir good --out nowhere/out", 1, &["nowhere/out"]);
    let folder = bench.path("readonly");
    fs::create_dir(&folder).expect("a folder");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).expect("chmod");
    if fs::write(folder.join("probe"), b"").is_err() {
        bench.refused(&seal(5, "--dir readonly data"), 1, &["denied", "next:"]);
    } else {
        integration_tests::skipped("a read-only folder as DIR", "this user writes into every folder");
    }
}

#[test]
fn records_that_cannot_be_used() {
    let bench = Bench::new();
    bench.file("data", b"x");
    bench.json(&seal(5, "--dir d data"));
    let record = fs::read_to_string(bench.path("d/tool.json")).expect("tool.json");
    bench.file("d/tool.json", record.replacen("\"schema\": 1", "\"schema\": 2", 1).as_bytes());
    bench.refused(&seal(5, "--dir d data"), 1, &["schema 2", "next:"]);
    bench.file("d/tool.json", &record.as_bytes()[..record.len() / 2]);
    bench.refused(&seal(5, "--dir d data"), 3, &["tool.json is damaged", "next:"]);
    bench.file("d/tool.json", record.as_bytes());
    let path = bench.path("d/cache/sealrig-manifest.json");
    let manifest = fs::read_to_string(&path).expect("the manifest");
    fs::write(&path, manifest.replacen("\"schema\": 1", "\"schema\": 2", 1)).expect("the manifest");
    bench.refused(&seal(5, "--dir d data"), 1, &["schema 2", "next:"]);
}

#[test]
fn a_folder_somebody_works_in() {
    let bench = Bench::new();
    bench.file("data", b"x");
    bench.json(&seal(5, "--dir d data"));
    let folder = fs::File::open(bench.path("d")).expect("the folder");
    folder.lock().expect("the lock");
    bench.refused(&seal(5, "--dir d data"), 1, &["another process", "next:"]);
    bench.refused("unseal --dir d --out x", 1, &["another process"]);
    drop(folder);
    bench.json(&seal(5, "--dir d data"));
}
