//! What a user or a script sees: help, exit codes, JSON alone, closed pipes.

use crate::*;
use std::io::Read;

#[test]
fn help_lists_the_exit_codes_and_an_example() {
    let bench = Bench::new();
    for tool in
        ["commp", "seal", "add-piece", "precommit1", "precommit2", "commit1", "verify-vanilla", "unseal"]
    {
        let output = bench.run(&format!("{tool} --help"));
        assert_eq!(output.status.code(), Some(0), "{tool}");
        let help = String::from_utf8(output.stdout).expect("text");
        for word in
            ["Exit codes:", "  0  done", "  3  verification failed", "130  interrupted", "sealrig tool "]
        {
            assert!(help.contains(word), "{tool}: {word:?} is not in\n{help}");
        }
    }
    assert_eq!(bench.run("").status.code(), Some(2));
    assert_eq!(bench.run("no-such-tool").status.code(), Some(2));
}

#[test]
fn without_a_terminal_there_is_no_bar_and_no_colour() {
    let bench = Bench::new();
    bench.file("data", &pattern(2032));
    for args in [seal(5, "--dir d data"), seal(5, "--dir d data --json"), "commp data".to_owned()] {
        let output = bench.run(&args);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(stderr(&output), "", "{args}");
        assert!(!output.stdout.contains(&0x1b), "{args}");
    }
}

#[test]
fn a_closed_pipe_is_success() {
    let bench = Bench::new();
    bench.file("data", &pattern(8_323_072));
    bench.json(&seal(6, "--dir d data"));
    for args in ["unseal --dir d --out -", "commp data", "--help", "seal --help"] {
        let args: Vec<&str> = args.split_whitespace().collect();
        let mut child = bench
            .command(&args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("sealrig starts");
        // Closed before it writes, or after the first bytes.
        let mut stdout = child.stdout.take().expect("a pipe");
        if args.contains(&"-") {
            let mut first = [0; 16];
            stdout.read_exact(&mut first).expect("the first bytes");
            assert_eq!(first[..], pattern(16)[..]);
        }
        drop(stdout);
        let output = child.wait_with_output().expect("a child");
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn json_and_data_do_not_share_stdout() {
    let bench = Bench::new();
    bench.file("data", b"x");
    bench.json(&seal(5, "--dir d data"));
    bench.refused("unseal --dir d --out - --json", 2, &["--json", "stdout"]);
}

/// The folder of the parents file is the one the variable names; one that cannot be used is no reason to fail.
#[test]
fn the_parents_cache_is_where_the_variable_says() {
    let bench = Bench::new();
    let report = bench.json(&seal(5, "--dir d"));
    let names: Vec<String> = fs::read_dir(bench.path("parents"))
        .expect("the folder is made")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".cache"))
        .collect();
    assert!(matches!(&names[..], [name] if name.starts_with("v28-sdr-parent-")), "{names:?}");
    let args = seal(5, "--dir e");
    let args: Vec<&str> = args.split_whitespace().collect();
    let output =
        bench.command(&args).env("FIL_PROOFS_PARENT_CACHE", "/dev/null/x").output().expect("sealrig starts");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("without a cache file"), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains(report["comm_r"].as_str().expect("comm_r")));
}
