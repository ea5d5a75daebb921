//! The answers of proofs.md §14.3 and §1.6 through the binary.

use crate::*;

#[test]
fn sectors_of_the_specification() {
    let zero = "fc7e928296e516faade986b28f92d44a4f24b935485223376a799027bc18f833";
    let data = "692fbdbc72e1aa6468e86a183ed3dfc2d43b8ad6fb6639110966b2d6371f5419";
    for (proof, file, expected) in [
        (
            0,
            "",
            [
                ("comm_d", zero),
                ("replica_id", "833e3d0ec6313d5110118382a53eadc8851b3bdc3c64d9d0a9515f36d630ee22"),
                ("comm_c", "24be9b50220033e6acd54502188361b9403d4fbc31e2fdc49d26d8287ef6cd6a"),
                ("comm_r_last", "aa4a63d84fea96db3afb03c5986c2655a65f779006e666f1196c6da0a4e0ee02"),
                ("comm_r", "5b25c87c9893927d5e7fe75707fc77fd700b9c0c732851dea4da8a7822fca340"),
                ("comm_d_cid", "baga6ea4seaqpy7usqklokfx2vxuynmupslkeutzexe2uqurdg5vhtebhxqmpqmy"),
            ],
        ),
        (
            5,
            "",
            [
                ("comm_d", zero),
                ("replica_id", "3e75e87332cd5d60132c1f9f9a8362e2e4cf190b46f4fd636fd8864b842d170b"),
                ("comm_c", "341fe7b18303170f67577d8e825f09e2cf6cf4c2b65d4fa2eaf4e2b70eeeb365"),
                ("comm_r_last", "90e693754e3cd7d23b1cbb26a69183485d04d7a96e8b0c2fef039a0f09bfef05"),
                ("comm_r", "77424390b36f74acd595c40d0e341f4fbff18623feaf8ad72fe73d7490d0d65c"),
                ("comm_d_cid", "baga6ea4seaqpy7usqklokfx2vxuynmupslkeutzexe2uqurdg5vhtebhxqmpqmy"),
            ],
        ),
        (
            5,
            "pattern",
            [
                ("comm_d", data),
                ("replica_id", "71b3b9d0eb15ebb9bd1173744c6ec39316d185acc7185f85b791771871698d15"),
                ("comm_c", "4e7d7dd5cd38bacdc515c83656a35a87e19064813c14e18934a2829c4af14012"),
                ("comm_r_last", "1079c74bc01dfb37cf6043b8717ea752289bb2c5c187efc4ebffde2e03953910"),
                ("comm_r", PATTERN_COMM_R),
                ("comm_d_cid", "baga6ea4seaqgsl55xrzodktendugugb62pp4fvb3rllpwzrzceewnmwwg4pvigi"),
            ],
        ),
    ] {
        let bench = Bench::new();
        bench.file("pattern", &pattern(2032));
        let report = bench.json(&seal(proof, &format!("--dir d {file}")));
        for (key, value) in expected {
            assert_eq!(report[key], value, "proof {proof}, {file:?}: {key}");
        }
        assert_eq!(report["verified"], true);
        assert_eq!(report["reused"], Value::Array(vec![]), "a first run reuses nothing");
        for stage in ["add_piece", "precommit1", "precommit2", "commit1", "verify_vanilla"] {
            assert!(report["stages_ms"][stage].is_u64(), "{stage}: {report}");
        }
        if file.is_empty() {
            assert_eq!(report["pieces"], Value::Array(vec![]));
        } else {
            assert_eq!(report["pieces"][0]["comm_p"], data);
            assert_eq!(report["pieces"][0]["unpadded"], 2032);
        }
        for name in ["d/unsealed", "d/sealed"] {
            assert_eq!(fs::metadata(bench.path(name)).expect(name).len(), 2048, "{name}");
        }
        let c1: Value =
            serde_json::from_slice(&fs::read(bench.path("d/c1.json")).expect("c1.json")).expect("JSON");
        let name = if proof == 0 { "StackedDrg2KiBV1" } else { "StackedDrg2KiBV1_1" };
        assert_eq!(c1["registered_proof"], name);
        assert_eq!(c1["vanilla_proofs"]["StackedDrg2KiBV1"][0].as_array().map(Vec::len), Some(2));
    }
}

/// All four kinds of 2 KiB proofs go through C1.
#[test]
fn synthetic_and_non_interactive_proofs_of_two_kib_are_made_and_verified() {
    let bench = Bench::new();
    bench.file("data", b"some data");
    for proof in [10, 15] {
        let report = bench.json(&seal(proof, &format!("--dir d{proof} data")));
        assert_eq!(report["verified"], true, "proof {proof}");
        bench.json(&format!("verify-vanilla --dir d{proof}"));
    }
}

#[test]
fn large_sectors_of_these_kinds_stop_before_c1_with_their_commitments() {
    let bench = Bench::new();
    let output = bench.run(&seal(11, "--dir d --json"));
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).contains("8MiB"), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON alone on stdout");
    // proofs.md §1.6.
    let zero = "65f29e5d98d246c38b388cfc06db1f6b021303c5a289000bdce832a9c3ec421c";
    assert_eq!(report["comm_d"], zero);
    assert_eq!((&report["c1"], &report["verified"]), (&Value::Null, &Value::Bool(false)));
    assert!(bench.path("d/sealed").exists() && !bench.path("d/c1.json").exists());
}

#[test]
fn comm_p_fills_a_file_up_with_zeros() {
    let bench = Bench::new();
    bench.file("full", &pattern(2032));
    let report = bench.json("commp full");
    assert_eq!(report["comm_p"], "692fbdbc72e1aa6468e86a183ed3dfc2d43b8ad6fb6639110966b2d6371f5419");
    assert_eq!((&report["unpadded"], &report["padded"]), (&2032.into(), &2048.into()));

    // 128 bytes of padded zeros (proofs.md §1.6), from a file of one byte.
    bench.file("one", &[0]);
    let report = bench.json("commp one");
    assert_eq!(report["comm_p"], "3731bb99ac689f66eef5973e4a94da188f4ddcae580724fc6f3fd60dfd488333");
    assert_eq!((&report["unpadded"], &report["file_bytes"]), (&127.into(), &1.into()));

    let short = [pattern(300), vec![0; 208]].concat();
    bench.file("padded", &short);
    bench.file("ragged", &short[..300]);
    assert_eq!(bench.json("commp ragged")["comm_p"], bench.json("commp padded")["comm_p"]);
}
