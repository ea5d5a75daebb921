//! The stages one by one, and what they give back.

use crate::*;

/// A file of 300 bytes, one of 127 and one of 600: pieces of 508, 127 and 1016 bytes, with zeros between.
fn pieces(bench: &Bench) -> Vec<Vec<u8>> {
    let data = vec![pattern(300), pattern(127), pattern(600)];
    for (name, bytes) in ["a", "b", "c"].iter().zip(&data) {
        bench.file(name, bytes);
    }
    data
}

#[test]
fn one_by_one_they_make_what_seal_makes() {
    let bench = Bench::new();
    pieces(&bench);
    let all = bench.json(&seal(5, "--dir all a b c"));

    bench.json("add-piece --dir one --seal-proof 5 --miner-id f01000 --sector 1 a b");
    let added = bench.json("add-piece --dir one c");
    assert_eq!(added["pieces"], all["pieces"]);
    let pc1 = bench.json(&format!("precommit1 --dir one --ticket {TICKET}"));
    let pc2 = bench.json("precommit2 --dir one");
    bench.json(&format!("commit1 --dir one --seed {SEED}"));
    assert_eq!(bench.json("verify-vanilla --dir one")["verified"], true);
    for key in ["comm_d", "replica_id"] {
        assert_eq!(pc1[key], all[key], "{key}");
    }
    for key in ["comm_d", "comm_r", "comm_c", "comm_r_last", "comm_d_cid", "comm_r_cid"] {
        assert_eq!(pc2[key], all[key], "{key}");
    }
    let (mut one, mut all) = (contents(&bench.path("one")), contents(&bench.path("all")));
    // The folder's name is in these two.
    for name in ["cache/t_aux", "pc1.json"] {
        assert!(one.remove(Path::new(name)).is_some() && all.remove(Path::new(name)).is_some(), "{name}");
    }
    assert_eq!(one.keys().collect::<Vec<_>>(), all.keys().collect::<Vec<_>>());
    for (name, bytes) in &all {
        assert!(one[name] == *bytes, "{} differs", name.display());
    }
}

#[test]
fn ranges_come_back_as_they_went_in() {
    let bench = Bench::new();
    let data = pieces(&bench);
    let report = bench.json(&seal(5, "--dir d a b c"));
    let mut sector = vec![0; 2032];
    for (i, bytes) in data.iter().enumerate() {
        let offset = report["pieces"][i]["offset"].as_u64().expect("an offset") as usize;
        sector[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
    let whole = bench.json("unseal --dir d --out whole");
    assert_eq!((&whole["bytes"], &whole["verified"]), (&2032.into(), &true.into()));
    assert!(fs::read(bench.path("whole")).expect("the output") == sector);
    for (offset, bytes) in [(0, 1), (1, 126), (126, 3), (127, 127), (500, 1100), (2031, 1), (5, 2027)] {
        let output = bench.run(&format!("unseal --dir d --offset {offset} --bytes {bytes} --out -"));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(output.stdout == sector[offset..offset + bytes], "{bytes} bytes from {offset}");
        let part = bench.json(&format!("unseal --dir d --offset {offset} --bytes {bytes} --out part"));
        let expected = if bytes == 2032 { "comm_d" } else { "manifest" };
        assert_eq!(part["checked"], expected);
        assert!(fs::read(bench.path("part")).expect("the output") == sector[offset..offset + bytes]);
    }
    for range in [
        "--offset 2032",
        "--offset 2033",
        "--bytes 0",
        "--bytes 2033",
        "--offset 18446744073709551615 --bytes 2",
    ] {
        bench.refused(&format!("unseal --dir d {range} --out x"), 2, &["byte"]);
        assert!(!bench.path("x").exists());
    }
}

#[test]
fn a_damaged_replica_is_never_given_out_as_the_whole_sector() {
    let bench = Bench::new();
    bench.file("data", &pattern(2032));
    bench.json(&seal(5, "--dir d data"));
    bench.file("out", b"precious");
    flip(&bench.path("d/sealed"), 700);
    bench.refused("unseal --dir d --out out", 3, &["CommD", "next:"]);
    assert_eq!(fs::read(bench.path("out")).expect("out"), b"precious");
    assert!(!bench.path("out.tmp").exists());
    // A part of it neither, as long as PC2's record of the sealed file is there.
    for out in ["out", "-"] {
        bench.refused(
            &format!("unseal --dir d --offset 690 --bytes 20 --out {out}"),
            3,
            &["d/sealed", "next:"],
        );
    }
    assert_eq!(fs::read(bench.path("out")).expect("out"), b"precious");
    fs::remove_file(bench.path("d/cache/sealrig-manifest.json")).expect("the manifest");
    let blind = bench.run("unseal --dir d --offset 690 --bytes 20 --out out");
    assert_eq!(blind.status.code(), Some(0), "{}", stderr(&blind));
    assert!(stderr(&blind).contains("not checked against CommD"), "{}", stderr(&blind));
    assert!(bench.json("unseal --dir d --offset 690 --bytes 20 --out out")["checked"].is_null());
    flip(&bench.path("d/sealed"), 700);
    assert_eq!(bench.json("unseal --dir d --out out")["checked"], "comm_d");
}

#[test]
fn verify_vanilla_takes_the_word_of_nobody_but_the_caller() {
    let bench = Bench::new();
    bench.file("data", &pattern(2032));
    let report = bench.json(&seal(5, "--dir d data"));
    let text = |key: &str| report[key].as_str().expect(key).to_owned();
    let (comm_d, comm_r) = (text("comm_d"), text("comm_r"));
    let verify = |file: &str, proof: u64, sector: u64, ticket: &str, seed: &str, comm_r: &str| {
        format!(
            "verify-vanilla {file} --seal-proof {proof} --miner-id 1000 --sector {sector} --ticket {ticket} \
             --seed {seed} --comm-d {comm_d} --comm-r {comm_r}"
        )
    };
    assert_eq!(bench.json(&verify("d/c1.json", 5, 1, TICKET, SEED, &comm_r))["verified"], true);
    for (what, wrong) in [
        ("replica id", verify("d/c1.json", 5, 2, TICKET, SEED, &comm_r)),
        ("seed", verify("d/c1.json", 5, 1, TICKET, TICKET, &comm_r)),
        ("CommR", verify("d/c1.json", 5, 1, TICKET, SEED, &comm_d)),
        ("expected StackedDrg2KiBV1 (0)", verify("d/c1.json", 0, 1, TICKET, SEED, &comm_r)),
    ] {
        bench.refused(&wrong, 3, &[what]);
    }
    // Another tool's file has keys we do not know; a changed proof does not hold.
    let c1 = fs::read_to_string(bench.path("d/c1.json")).expect("c1.json");
    let mut value: Value = serde_json::from_str(&c1).expect("JSON");
    value["of_another_tool"] = 1.into();
    bench.file("more.json", value.to_string().as_bytes());
    bench.json(&verify("more.json", 5, 1, TICKET, SEED, &comm_r));
    let label = &mut value["vanilla_proofs"]["StackedDrg2KiBV1"][0][1]["labeling_proofs"][0]["parents"][3][0];
    *label = (label.as_u64().expect("a byte") ^ 1).into();
    bench.file("wrong.json", value.to_string().as_bytes());
    bench.refused(&verify("wrong.json", 5, 1, TICKET, SEED, &comm_r), 3, &["challenge 1"]);
    bench.file("cut.json", &c1.as_bytes()[..c1.len() / 2]);
    bench.refused(&verify("cut.json", 5, 1, TICKET, SEED, &comm_r), 3, &["cut.json"]);
    bench.refused(&verify("none.json", 5, 1, TICKET, SEED, &comm_r), 1, &["none.json"]);
    bench.refused("verify-vanilla d/c1.json --seal-proof 5", 2, &["--miner-id is missing"]);
    bench.refused("verify-vanilla", 2, &["next:"]);
}

/// Flips one bit of a file.
pub(crate) fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("a file");
}
