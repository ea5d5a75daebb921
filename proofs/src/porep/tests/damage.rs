//! Runs that end early, files that are damaged or foreign: never a panic, never another CommR, always a named file.

use super::*;
use crate::control::{CancelFlag, Progress};
use crate::files::{P_AUX, T_AUX};
use primitives::RegisteredSealProof;
use std::collections::BTreeMap;

/// Every file of the sector that a unit makes, with the unit's name.
fn unit_files(sector: &Sector) -> Vec<(String, PathBuf)> {
    let manifest = sector.manifest();
    let path = |file: &str| if file == "sealed" { sector.path(file) } else { sector.cache().join(file) };
    manifest.entries().iter().map(|e| (format!("{} {}", e.stage, e.name), path(&e.file))).collect()
}

/// Content of every file of the sector but the manifest, whose units stand in the order they were last made.
fn contents(sector: &Sector) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::from([(sector.path("sealed"), fs::read(sector.path("sealed")).unwrap())]);
    for file in fs::read_dir(sector.cache()).unwrap() {
        let path = file.unwrap().path();
        if !path.ends_with(crate::manifest::FILE_NAME) {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    all
}

/// A way to spoil a file.
type Spoiler = (&'static str, fn(&Path));

const SPOILERS: [Spoiler; 5] = [
    ("deleted", |p| fs::remove_file(p).unwrap()),
    ("flipped", |p| rewrite(p, |bytes| bytes[0] ^= 1)),
    ("truncated", |p| rewrite(p, |bytes| bytes.truncate(bytes.len() - 1))),
    ("zeroed", |p| rewrite(p, |bytes| bytes.fill(0))),
    ("emptied", |p| rewrite(p, Vec::clear)),
];

fn rewrite(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Every node of the file gets another low byte; what it holds stays possible.
fn disturb(path: &Path) {
    rewrite(path, |bytes| bytes.as_chunks_mut::<32>().0.iter_mut().for_each(|node| node[0] ^= 1));
}

#[test]
fn a_spoiled_file_is_made_again_alone_and_equal() {
    for size in [SectorSize::KiB2, SectorSize::KiB4] {
        let sector = Sector::sample(size);
        let sealed = sector.seal_with_manifest().unwrap();
        assert_eq!(sealed.comm_r, Sector::sample(size).seal().1.comm_r);
        let good = contents(&sector);
        for (unit, file) in unit_files(&sector) {
            for (how, spoil) in SPOILERS {
                spoil(&file);
                let manifest = sector.manifest();
                let sink = Started { inner: Some(&manifest), ..Started::default() };
                let control = Control { units: &sink, ..Control::none() };
                let pc1 = sector.pc1(&control).unwrap();
                assert_eq!(sector.pc2(&pc1, &control).unwrap(), sealed, "{unit} {how}");
                assert_eq!(*sink.names.lock().unwrap(), std::slice::from_ref(&unit), "{how}");
                assert_eq!(contents(&sector), good, "{unit} {how}");
            }
        }
    }
}

#[test]
fn without_memory_everything_is_made_again() {
    let sector = Sector::sample(SectorSize::KiB4);
    let sealed = sector.seal_with_manifest().unwrap();
    for (_, file) in unit_files(&sector) {
        rewrite(&file, |bytes| bytes[0] ^= 1);
    }
    fs::remove_file(sector.cache().join(crate::manifest::FILE_NAME)).unwrap();
    let sink = Started::default();
    let control = Control { units: &sink, ..Control::none() };
    let pc1 = sector.pc1(&control).unwrap();
    assert_eq!(sector.pc2(&pc1, &control).unwrap(), sealed);
    let expected = [
        "precommit1 tree-d",
        "precommit1 layer-1",
        "precommit1 layer-2",
        "precommit2 tree-c-0",
        "precommit2 tree-c-1",
        "precommit2 sealed",
        "precommit2 tree-r-last-0",
        "precommit2 tree-r-last-1",
    ];
    assert_eq!(*sink.names.lock().unwrap(), expected);
}

#[test]
fn files_of_another_ticket_are_never_taken() {
    let mut sector = Sector::sample(SectorSize::KiB4);
    let first = sector.seal_with_manifest().unwrap();
    let earlier = sector.manifest().replica_id().to_string();
    let units: Vec<String> = unit_files(&sector).into_iter().map(|(unit, _)| unit).collect();
    assert_eq!(units.len(), 8, "{units:?}");

    sector.ticket = Ticket([9; 32]);
    let run = |work: &mut dyn FnMut(&Control<'_>)| {
        // Opened anew for each stage, as after a restart.
        let manifest = sector.manifest();
        let sink = Started { inner: Some(&manifest), ..Started::default() };
        work(&Control { units: &sink, ..Control::none() });
        sink.refused.into_inner().unwrap()
    };
    let (mut pc1, mut pc2) = (None, None);
    let mut refused = run(&mut |control| pc1 = Some(sector.pc1(control).unwrap()));
    let pc1 = pc1.unwrap();
    refused.extend(run(&mut |control| pc2 = Some(sector.pc2(&pc1, control).unwrap())));
    let second = pc2.unwrap();

    assert_eq!(refused.iter().map(|(unit, _)| unit).collect::<Vec<_>>(), units.iter().collect::<Vec<_>>());
    for (unit, reason) in &refused {
        assert!(reason.contains(&earlier), "{unit}: {reason}");
    }
    assert_ne!(first.comm_r, second.comm_r);
    let mut fresh = Sector::sample(SectorSize::KiB4);
    fresh.ticket = sector.ticket;
    assert_eq!(fresh.seal().1, second);
    // All are made anew: nothing is refused any more.
    let mut again = None;
    let refused =
        run(&mut |control| again = Some(sector.pc2(&sector.pc1(control).unwrap(), control).unwrap()));
    assert_eq!((again, refused), (Some(second), Vec::new()));
}

#[test]
fn a_stage_can_be_cancelled_anywhere_and_goes_on() {
    let expected = Sector::sample(SectorSize::KiB4).seal().1;
    let sector = Sector::sample(SectorSize::KiB4);
    let manifest = sector.manifest();
    let mut cancelled = 0;
    for reports in 0.. {
        let flag = CancelFlag::new();
        let seen = std::sync::atomic::AtomicU64::new(0);
        let progress = |p: Progress<'_>| {
            assert!(p.done <= p.total, "{p:?}");
            if seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == reports {
                flag.cancel();
            }
        };
        let control = Control { cancel: &flag, progress: &progress, units: &manifest };
        let outcome = sector.pc1(&control).and_then(|pc1| sector.pc2(&pc1, &control));
        for file in fs::read_dir(sector.cache()).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            assert!(!name.ends_with("tmp"), "{name} was left");
        }
        match outcome {
            Ok(output) => {
                assert_eq!(output, expected);
                break;
            }
            Err(e) => assert!(e.is_cancelled(), "{e}"),
        }
        cancelled += 1;
    }
    assert!(cancelled > 3, "{cancelled} cancellations");
}

#[test]
fn pc2_names_a_bad_input() {
    let sector = Sector::sample(SectorSize::KiB2);
    sector.seal_with_manifest().unwrap();
    let pc1 = sector.pc1(&Control::none()).unwrap();
    let manifest = sector.manifest();
    let known = Control { units: &manifest, ..Control::none() };
    for id in ["tree-d", "layer-1", "layer-2"] {
        let file = sector.store(id);
        let good = fs::read(&file).unwrap();
        disturb(&file);
        let e = sector.pc2(&pc1, &known).unwrap_err();
        assert!(e.to_string().contains(&file.display().to_string()), "{e}");
        fs::write(&file, &good[1..]).unwrap();
        let e = sector.pc2(&pc1, &Control::none()).unwrap_err();
        assert_eq!(
            e.to_string(),
            format!("{} has {} bytes, expected {}", file.display(), good.len() - 1, good.len())
        );
        fs::write(&file, &good).unwrap();
    }
    let file = sector.store("layer-1");
    rewrite(&file, |bytes| bytes[64..96].fill(0xff));
    let e = sector.pc2(&pc1, &Control::none()).unwrap_err();
    assert_eq!(
        e.to_string(),
        format!("{}: node 2 is {}, expected a field element", file.display(), "ff".repeat(32))
    );
}

#[test]
fn data_that_changed_since_pc1_or_is_sealed_already_is_refused() {
    let sector = Sector::sample(SectorSize::KiB2);
    let (pc1, _) = sector.seal();
    let unsealed = sector.path("unsealed");
    fs::copy(sector.path("sealed"), &unsealed).unwrap();
    let e = sector.pc2(&pc1, &Control::none()).unwrap_err();
    assert!(matches!(&e, PoRepError::Mismatch { file, .. } if *file == unsealed), "{e}");
    assert!(e.to_string().contains("node 0, compared with tree-D"), "{e}");
    let link = sector.path("link");
    std::os::unix::fs::symlink(&unsealed, &link).unwrap();
    for same in [&unsealed, &link] {
        let e =
            precommit2(&sector.config, &pc1, &sector.cache(), &unsealed, same, &Control::none()).unwrap_err();
        assert!(matches!(&e, PoRepError::InPlace(file) if file == same), "{e}");
    }
}

#[test]
fn pc1_refuses_data_that_is_not_its_pieces() {
    let mut sector = Sector::sample(SectorSize::KiB2);
    let unsealed = sector.path("unsealed");
    let good = fs::read(&unsealed).unwrap();

    for wrong in [&good[1..], &[], &[&good[..], &[0]].concat()] {
        fs::write(&unsealed, wrong).unwrap();
        let e = sector.pc1(&Control::none()).unwrap_err();
        let got = wrong.len();
        assert_eq!(e.to_string(), format!("{} has {got} bytes, expected 2048", unsealed.display()));
    }
    let mut other = good.clone();
    other[31] = 0xff;
    fs::write(&unsealed, &other).unwrap();
    let e = sector.pc1(&Control::none()).unwrap_err();
    assert!(matches!(&e, PoRepError::Tree(TreeError::NotCanonical { node: 0, .. })), "{e}");
    other[31] = 0;
    fs::write(&unsealed, &other).unwrap();
    let manifest = sector.manifest();
    let known = Control { units: &manifest, ..Control::none() };
    let e = sector.pc1(&known).unwrap_err();
    assert!(e.to_string().contains("its pieces say otherwise"), "{e}");
    // The wrong tree was not recorded: with the right data it goes on.
    fs::write(&unsealed, &good).unwrap();
    sector.pc1(&known).unwrap();

    // A piece of half the sector is not the sector (proofs.md §13, trap 15).
    fs::write(&unsealed, &good).unwrap();
    let half = root(&good[..1024]);
    sector.pieces = vec![PieceInfo { comm_p: Commitment(half), size: UnpaddedSize::new(1016).unwrap() }];
    assert!(matches!(sector.pc1(&Control::none()), Err(PoRepError::Mismatch { .. })));
    sector.pieces[0].size = UnpaddedSize::new(4064).unwrap();
    assert!(matches!(sector.pc1(&Control::none()), Err(PoRepError::Proofs(crate::Error::Pieces(_)))));
    fs::remove_file(&unsealed).unwrap();
    sector.pieces.clear();
    let e = sector.pc1(&Control::none()).unwrap_err();
    assert!(e.to_string().contains(&unsealed.display().to_string()), "{e}");
}

#[test]
fn c1_and_the_sample_check_name_the_damaged_file() {
    let sector = Sector::sample(SectorSize::KiB4);
    let pc2 = sector.seal_with_manifest().unwrap();
    let public = sector.public(&pc2);
    let manifest = sector.manifest();
    let known = Control { units: &manifest, ..Control::none() };
    let sealed = sector.path("sealed");
    let check = |control: &Control<'_>| {
        check_sealed(&sector.config, &public, &sector.cache(), &sealed, 8, control).unwrap_err().to_string()
    };
    let c1 = |control: &Control<'_>| sector.c1(public, control).unwrap_err().to_string();
    let mut files: Vec<PathBuf> = unit_files(&sector).into_iter().map(|(_, file)| file).collect();
    files.push(sector.cache().join(P_AUX));
    for file in files {
        let good = fs::read(&file).unwrap();
        let name = file.display().to_string();
        disturb(&file);
        for text in [c1(&Control::none()), c1(&known), check(&Control::none()), check(&known)] {
            assert!(text.contains(&name), "{name}: {text}");
        }
        fs::write(&file, &good[..good.len() - 32]).unwrap();
        for text in [c1(&Control::none()), check(&Control::none())] {
            assert!(text.contains(&name) && text.contains("expected"), "{text}");
        }
        fs::remove_file(&file).unwrap();
        assert!(c1(&known).contains(&name));
        fs::write(&file, &good).unwrap();
    }
    sector.c1(public, &known).unwrap();
}

#[test]
fn a_wrong_base_tree_is_named_alone_if_that_can_be_told() {
    let sector = Sector::sample(SectorSize::KiB16);
    let public = sector.public(&sector.seal().1);
    let c1 = || sector.c1(public, &Control::none()).unwrap_err().to_string();
    for stem in ["tree-c", "tree-r-last"] {
        let tree = |i: usize| sector.store(&format!("{stem}-{i}"));
        let (wrong, good) = (tree(3), fs::read(tree(3)).unwrap());
        // The root alone.
        rewrite(&wrong, |bytes| *bytes.iter_mut().nth_back(31).unwrap() ^= 1);
        let text = c1();
        assert!(text.starts_with(&wrong.display().to_string()), "{text}");
        assert!([0, 1, 2, 4].iter().all(|&i| !text.contains(&tree(i).display().to_string())), "{text}");
        // A whole tree of other leaves: tree-C does not say which one, tree-R-last is compared with the replica.
        fs::copy(tree(0), &wrong).unwrap();
        let text = c1();
        let named = (0..8).filter(|&i| text.contains(&tree(i).display().to_string())).count();
        assert!(text.contains(&wrong.display().to_string()), "{text}");
        assert_eq!(named, if stem == "tree-c" { 8 } else { 1 }, "{text}");
        fs::write(&wrong, good).unwrap();
    }
    sector.c1(public, &Control::none()).unwrap();
}

#[test]
fn t_aux_may_be_missing_but_not_wrong() {
    let sector = Sector::sample(SectorSize::KiB2);
    let pc2 = sector.seal().1;
    let (public, file) = (sector.public(&pc2), sector.cache().join(T_AUX));
    let mut aux = crate::files::config::TAux::load(&sector.cache()).unwrap();
    for discard in [2, u64::MAX] {
        aux.tree_r_last.rows_to_discard = discard;
        aux.store(&sector.cache()).unwrap();
        let e = sector.c1(public, &Control::none()).unwrap_err();
        assert!(matches!(&e, PoRepError::Mismatch { file: f, .. } if *f == file), "{e}");
    }
    // Another number than the usual is honoured: the file then has other rows.
    aux.tree_r_last.rows_to_discard = 0;
    aux.store(&sector.cache()).unwrap();
    let e = sector.c1(public, &Control::none()).unwrap_err();
    assert!(e.to_string().ends_with("has 32 bytes, expected 288"), "{e}");
    fs::write(&file, b"nonsense").unwrap();
    assert!(matches!(sector.c1(public, &Control::none()), Err(PoRepError::Aux(_))));
    fs::remove_file(&file).unwrap();
    sector.c1(public, &Control::none()).unwrap();
}

#[test]
fn values_that_cannot_be_are_refused() {
    let sector = Sector::sample(SectorSize::KiB2);
    let pc2 = sector.seal().1;
    let good = sector.public(&pc2);
    let refused = |public| match sector.c1(public, &Control::none()).unwrap_err() {
        PoRepError::Public(e) => e.to_string(),
        e => panic!("{e}"),
    };
    for wrong in [[0; 32], [0xff; 32]] {
        assert!(refused(PublicSector { comm_d: Commitment(wrong), ..good }).starts_with("the CommD is "));
        assert!(refused(PublicSector { comm_r: Commitment(wrong), ..good }).starts_with("the CommR is "));
    }
    assert!(refused(PublicSector { seed: Seed([0; 32]), ..good }).starts_with("the seed is all zero"));
    let other = Commitment([1; 32]);
    assert!(refused(PublicSector { comm_d: other, ..good }).contains("by the pieces"));
    let e = sector.c1(PublicSector { comm_r: other, ..good }, &Control::none()).unwrap_err();
    assert!(matches!(&e, PoRepError::Mismatch { file, .. } if file.ends_with(P_AUX)), "{e}");
    // Another sector's number gives another replica id: the labels do not hold.
    let e = sector.c1(PublicSector { sector_number: SectorNumber(2), ..good }, &Control::none()).unwrap_err();
    assert!(matches!(&e, PoRepError::SelfCheck { suspects, .. } if suspects.len() == 2), "{e}");
}

/// Stage times at 8 MiB, for `docs/performance.md`: `cargo test --release -p proofs stage_times -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn stage_times() {
    let cpu = || {
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap()..].split(' ').collect();
        (fields[12].parse::<f64>().unwrap() + fields[13].parse::<f64>().unwrap()) / 100.0
    };
    let mut sector = Sector::new(
        PoRepConfig::registered(RegisteredSealProof::new(6).unwrap()),
        &pattern(SectorSize::MiB8),
    );
    sector.ticket = Ticket([3; 32]);
    let manifest = sector.manifest();
    let control = Control { units: &manifest, ..Control::none() };
    let started = cpu();
    let pc1 = sector.pc1(&control).unwrap();
    let (pc1_done, wall) = (cpu(), std::time::Instant::now());
    let pc2 = sector.pc2(&pc1, &control).unwrap();
    let (pc2_done, pc2_wall) = (cpu(), wall.elapsed());
    let public = sector.public(&pc2);
    let wall = std::time::Instant::now();
    for _ in 0..20 {
        sector.c1(public, &control).unwrap();
    }
    let (c1_done, c1_wall) = (cpu(), wall.elapsed() / 20);
    let output = sector.c1(public, &control).unwrap();
    let wall = std::time::Instant::now();
    verify_vanilla(&sector.config, &public, &output).unwrap();
    println!(
        "8 MiB: PC1 {:.2} CPU-s; PC2 {:.2} CPU-s, {pc2_wall:?}; C1 {:.1} CPU-ms, {c1_wall:?}; verification {:?}",
        pc1_done - started,
        pc2_done - pc1_done,
        (c1_done - pc2_done) * 50.0,
        wall.elapsed()
    );
    let peak = fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", peak.lines().find(|l| l.starts_with("VmHWM")).unwrap());
}
