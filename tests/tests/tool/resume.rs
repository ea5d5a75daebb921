//! Runs that were stopped, files that were damaged, and files of another run.

use crate::stages::flip;
use crate::*;
use std::collections::BTreeMap;
use std::fs::File;

const UNITS: &[(&str, &str)] = &[
    ("unsealed", "add-piece unsealed"),
    ("cache/sc-02-data-tree-d.dat", "precommit1 tree-d"),
    ("cache/sc-02-data-layer-1.dat", "precommit1 layer-1"),
    ("cache/sc-02-data-layer-2.dat", "precommit1 layer-2"),
    ("cache/sc-02-data-tree-c.dat", "precommit2 tree-c"),
    ("sealed", "precommit2 sealed"),
    ("cache/sc-02-data-tree-r-last.dat", "precommit2 tree-r-last"),
];

fn names(value: &Value) -> Vec<String> {
    let list = value.as_array().expect("a list");
    list.iter().map(|v| v.as_str().or(v["unit"].as_str()).expect("a unit").to_owned()).collect()
}

fn all_units() -> Vec<String> {
    UNITS.iter().map(|(_, unit)| (*unit).to_owned()).collect()
}

#[test]
fn what_is_finished_is_reused_and_what_is_damaged_is_made_again() {
    let bench = Bench::new();
    bench.file("data", &pattern(2032));
    let args = seal(5, "--dir d data");
    let first = bench.json(&args);
    let expected = contents(&bench.path("d"));
    let again = bench.json(&args);
    assert_eq!(names(&again["reused"]), all_units());
    assert_eq!(again["comm_r"], first["comm_r"]);
    assert!(contents(&bench.path("d")) == expected);

    for (file, unit) in UNITS {
        let path = bench.path("d").join(file);
        let length = fs::metadata(&path).expect(file).len();
        for damage in ["missing", "short", "long", "flipped", "zeroed"] {
            match damage {
                "missing" => fs::remove_file(&path).expect(file),
                "short" => {
                    File::options().write(true).open(&path).and_then(|f| f.set_len(length - 1)).expect(file)
                }
                "long" => {
                    File::options().write(true).open(&path).and_then(|f| f.set_len(length + 32)).expect(file)
                }
                "flipped" => flip(&path, length as usize / 2),
                _ => fs::write(&path, vec![0; length as usize]).expect(file),
            }
            let report = bench.json(&args);
            assert_eq!(report["comm_r"], PATTERN_COMM_R, "{file} {damage}");
            let reused = names(&report["reused"]);
            assert!(!reused.contains(&(*unit).to_owned()), "{file} {damage}: {reused:?}");
            assert!(reused.len() >= UNITS.len() - 2, "{file} {damage}: the others are kept: {reused:?}");
            let refused = names(&report["refused"]);
            let wanted: Vec<String> = if damage == "missing" { vec![] } else { vec![(*unit).to_owned()] };
            assert_eq!(refused, wanted, "{file} {damage}");
            assert!(contents(&bench.path("d")).get(Path::new(file)) == expected.get(Path::new(file)));
        }
    }
    // A manifest that says nothing proves nothing, a damaged one neither.
    for manifest in [None, Some("{")] {
        let path = bench.path("d/cache/sealrig-manifest.json");
        match manifest {
            None => fs::remove_file(&path).expect("the manifest"),
            Some(text) => fs::write(&path, text).expect("the manifest"),
        }
        let report = bench.json(&args);
        assert_eq!(names(&report["reused"]), Vec::<String>::new());
        assert_eq!(report["comm_r"], PATTERN_COMM_R);
        assert!(made(&bench.path("d")) == made_of(&expected));
    }
}

/// A folder's files without the manifest, which also remembers what it refused.
fn made(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    made_of(&contents(dir))
}

fn made_of(contents: &BTreeMap<PathBuf, Vec<u8>>) -> BTreeMap<PathBuf, Vec<u8>> {
    let manifest = Path::new("cache/sealrig-manifest.json");
    contents
        .iter()
        .filter(|(path, _)| *path != manifest)
        .map(|(path, bytes)| (path.clone(), bytes.clone()))
        .collect()
}

#[test]
fn nothing_of_another_ticket_is_used() {
    let bench = Bench::new();
    bench.file("data", &pattern(2032));
    let other = seal(5, "--dir d data").replace(TICKET, SEED);
    let first = bench.json(&other);
    assert_ne!(first["comm_r"], PATTERN_COMM_R);
    let report = bench.json(&seal(5, "--dir d data"));
    assert_eq!(report["comm_r"], PATTERN_COMM_R);
    assert_eq!(names(&report["reused"]), Vec::<String>::new());
    // Every file of the other replica is refused by name; tree-D is rebuilt with the data, unasked.
    let refused: Vec<String> = all_units().into_iter().filter(|unit| unit != "precommit1 tree-d").collect();
    assert_eq!(names(&report["refused"]), refused);
    // And it is the folder of a fresh seal.
    bench.json(&seal(5, "--dir fresh data"));
    let (mut used, mut fresh) = (made(&bench.path("d")), made(&bench.path("fresh")));
    for name in ["cache/t_aux", "pc1.json"] {
        assert!(used.remove(Path::new(name)).is_some() && fresh.remove(Path::new(name)).is_some());
    }
    assert!(used == fresh);
}

/// A later stage does not make what it reads: it refuses, and says which stage to run.
#[test]
fn stages_refuse_damaged_and_foreign_files() {
    let bench = Bench::new();
    bench.file("data", &pattern(2032));
    bench.json(&seal(5, "--dir d data"));
    bench.json(&seal(5, "--dir other data").replace(TICKET, SEED));
    let layer = "cache/sc-02-data-layer-1.dat";
    let good = fs::read(bench.path("d").join(layer)).expect(layer);
    let foreign = fs::read(bench.path("other").join(layer)).expect(layer);
    for bad in [foreign, good[..100].to_vec(), vec![0; 2048], vec![]] {
        fs::write(bench.path("d").join(layer), &bad).expect(layer);
        bench.refused("precommit2 --dir d", 3, &["layer-1", "precommit1", "next:"]);
        assert!(fs::read(bench.path("d").join(layer)).expect(layer) == bad, "nothing is touched");
    }
    fs::remove_file(bench.path("d").join(layer)).expect(layer);
    bench.refused("precommit2 --dir d", 1, &["layer-1", "next:"]);
    bench.json("precommit1 --dir d");
    assert_eq!(bench.json("precommit2 --dir d")["comm_r"], PATTERN_COMM_R);

    flip(&bench.path("d/unsealed"), 1000);
    bench.refused("precommit1 --dir d", 3, &["unsealed", "next:"]);
    bench.json(&seal(5, "--dir d data"));
    flip(&bench.path("d/cache/p_aux"), 3);
    bench.refused("commit1 --dir d", 3, &["p_aux"]);
}

/// A signal in the middle: exit code 130, and the next run goes on with what was finished.
#[test]
fn an_interrupted_seal_goes_on() {
    let bench = Bench::new();
    bench.file("data", &pattern(8_323_072));
    let args = seal(6, "--dir d data --json");
    let args: Vec<&str> = args.split_whitespace().collect();
    let mut child =
        bench.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sealrig starts");
    let first_layer = bench.path("d/cache/sc-02-data-layer-1.dat");
    while !first_layer.exists() {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before the first layer was there");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(kill.success());
    let output = child.wait_with_output().expect("a child");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(
        output.stdout.is_empty() && stderr(&output).contains("finished work is kept"),
        "{}",
        stderr(&output)
    );
    assert!(!bench.path("d/c1.json").exists());
    let report = bench.json(&seal(6, "--dir d data"));
    let reused = names(&report["reused"]);
    assert!(reused.starts_with(&all_units()[..2]), "{reused:?}");
    let fresh = bench.json(&seal(6, "--dir fresh data"));
    assert_eq!(report["comm_r"], fresh["comm_r"]);
}
