use super::*;
use crate::Error;
use crate::control::{CancelFlag, Control, Reuse, Unit, UnitError, UnitSink};
use crate::files::store_path;
use crate::graph::{Graph, Parents};
use crate::params::PoRepConfig;
use primitives::{ActorId, ApiVersion, ProofFeature, RegisteredSealProof, SectorSize};
use std::fs;
use std::path::Path;
use std::sync::Mutex;

fn parents_of(config: &PoRepConfig) -> Parents {
    Parents::generated(Graph::of(config), &Control::none()).unwrap()
}

fn config(number: u64) -> PoRepConfig {
    PoRepConfig::registered(RegisteredSealProof::new(number).unwrap())
}

/// A library size with the porep id of proof 5.
fn sized(size: SectorSize) -> PoRepConfig {
    let proof = RegisteredSealProof::new(5).unwrap();
    PoRepConfig::custom(size, proof.porep_id(), ApiVersion::V1_1_0, ProofFeature::Interactive).unwrap()
}

fn commitment(hex: &str) -> Commitment {
    hex.parse().unwrap()
}

fn id_of(config: &PoRepConfig, comm_d: &str) -> ReplicaId {
    replica_id(
        &ProverId::from_actor(ActorId(1000)),
        SectorNumber(1),
        &Ticket([1; 32]),
        &commitment(comm_d),
        &config.porep_id,
    )
}

/// proofs.md §14.2.
#[test]
fn last_label_of_eleven_layers() {
    use ApiVersion::{V1_0_0, V1_1_0, V1_2_0};
    for (size, id, version, label) in [
        (SectorSize::KiB2, 0, V1_0_0, "04ba0f9a6ba9fad35e4806d183a281eab3c25afa9a1bd5e3378da6f1f4f46204"),
        (SectorSize::KiB4, 0, V1_0_0, "86daa8c4521e197e48c1fae6c9a1e85ab894a8883b9f23cebe531ddcd1004c23"),
        (SectorSize::KiB2, 0x7b, V1_1_0, "cfef0db78bf3b3ab9f1169774d2e7a77bc9054499d954834b51ca7c788110206"),
        (SectorSize::KiB2, 0x7b, V1_2_0, "cfef0db78bf3b3ab9f1169774d2e7a77bc9054499d954834b51ca7c788110206"),
        (SectorSize::KiB4, 0x7b, V1_1_0, "6d67c468cf81ab2289c1c9c72fa8777a232de4c1323dc0c6bd552ccc187c770f"),
        (SectorSize::KiB4, 0x7b, V1_2_0, "6d67c468cf81ab2289c1c9c72fa8777a232de4c1323dc0c6bd552ccc187c770f"),
    ] {
        let config = PoRepConfig::custom(size, [id; 32], version, ProofFeature::Interactive)
            .and_then(|c| c.with_layers(11))
            .unwrap();
        let key = last_layer(&config, &parents_of(&config), &ReplicaId([9; 32]), &Control::none()).unwrap();
        assert_eq!(hex::encode(key.nodes().last().unwrap()), label, "{size} {id} {version:?}");
    }
}

/// proofs.md §14.3: comm_d, replica_id, label1[0], label1[1], label2[last], sha256 of both layer files.
#[test]
fn layers_of_small_sectors() {
    let zero = "fc7e928296e516faade986b28f92d44a4f24b935485223376a799027bc18f833";
    let cases: [(PoRepConfig, [&str; 7]); 6] = [
        (
            config(0),
            [
                zero,
                "833e3d0ec6313d5110118382a53eadc8851b3bdc3c64d9d0a9515f36d630ee22",
                "592e0f96b3242885449512d2b7e8342550bbad360f88dc67a7ac63b07835e220",
                "1b9ffd5e9d421ac336b7ce7e3af6157aaa6a0987b034d9e8b7fe8ecb3dbce52e",
                "32b127789449c1b949ea94d1615e9d689752683164b37b8c4998167e9a846f03",
                "6a24d07efaf9e03dd7514022562a43ac7709544d4f4444b933b7dd156b994e18",
                "9f91f3f65de37e65b6652f935a816e800d6a9a9d4a0c7530396c1670bd98f43c",
            ],
        ),
        (
            config(5),
            [
                zero,
                "3e75e87332cd5d60132c1f9f9a8362e2e4cf190b46f4fd636fd8864b842d170b",
                "a7cc1fe75634063bb01dba191aeb0256505eb56d24b67027b44989c8c0d2680e",
                "814c7f0921580b8b1ea6792e947beb21437c84d03aa972109456cfb20e88142b",
                "f403883c85fbf18f7bdd78a5dbd27fbc1cb985e24b0e691290376f5f4cbab33e",
                "15a4a233f44c593466911846dfa69b7bdd7d241cdefe743452bfd77c78eee385",
                "187696ab8c544edce720fb7e79f948abda4747a8cb4629ac11be0bcfcd2d3cf0",
            ],
        ),
        (
            config(5),
            [
                "692fbdbc72e1aa6468e86a183ed3dfc2d43b8ad6fb6639110966b2d6371f5419",
                "71b3b9d0eb15ebb9bd1173744c6ec39316d185acc7185f85b791771871698d15",
                "14da43caedc82b9d471738a15d967d5e915703097ecabab14858aae1d2715e36",
                "bb0ce370228ee858e9401c4d8740fa06ec3adc454fe284124fad5a94805f4c28",
                "19a59cccc968b23e625076cc58862f43da832d14e54897e043ff86e4e903ed39",
                "380eb0b0651de05bcbc56c36fc98625365364193a4570f876c64db9fa7460409",
                "c05ca479205125870deec423f1a846d88157149354a14adef015f22ab10dd885",
            ],
        ),
        (
            sized(SectorSize::KiB4),
            [
                "66af3bb154aa2ac35f872bc7d372ca02ff84d669416875e9208b07ed3517b313",
                "a19059ad39d5d606728463ae44097392ea80a528405f2243def83ba078bd3934",
                "146c0bbd9edc71d845c5b8e9aa6f413e268f7262d8c242b45006f11ac2845531",
                "33282605c6d3c017ba1f9f9717460bcee082b6f2f29fd08de0243814da5f480e",
                "42d66e3163c671ef1c3dd3a57c52771748cac18591591d5d58340568991cd319",
                "2c1703e244f75d1fced4776ebbcc10340ddba39cff51b9e5d729930da4ef8061",
                "a038b945c6cb97acf7d4d7ed6fff2a92f455e9220c339a2a29a20f7e36eb5434",
            ],
        ),
        (
            sized(SectorSize::KiB16),
            [
                "788d599a794c07c147da19529cfda19c06ef8f673beaf4cc61f0ff27907b141a",
                "f760536277b9baf3569561f1eb6c9f7f307b111c752b2f5e6d5bdc055cf0860d",
                "",
                "",
                "",
                "f37486df8f0d6e66d19e0e35d41db00642d3a6c691d714c2275ef4c1371d51f6",
                "c973d91a64f2733b4107be31962ff45bd065edde34a80cb43d5b194f0aa20f70",
            ],
        ),
        (
            sized(SectorSize::KiB32),
            [
                "c88f94f32ebb7c8bf2fc62b45aa6c19fdabd9d20f3113b86f98d6d1a0554b028",
                "7998372300d6a0a4ff6a1dd36fced4baab612153bfd862900727558416bef13f",
                "",
                "",
                "",
                "fdc5d7c44b7dcaba9577d6ff28cbd011cb790b4c308882f108167c91e9806aeb",
                "230e5a021b05119e74943ab1efc07d4ccd009f47dccce2e234276fe7b4f8d202",
            ],
        ),
    ];
    for (config, [comm_d, id, first, second, last, layer_1, layer_2]) in cases {
        let dir = tempfile::tempdir().unwrap();
        let replica_id = id_of(&config, comm_d);
        assert_eq!(replica_id.to_string(), id);
        let parents = parents_of(&config);
        let files = generate_layers(&config, &parents, &replica_id, dir.path(), &Control::none()).unwrap();
        let layers: Vec<Vec<u8>> = files.iter().map(|f| fs::read(f).unwrap()).collect();
        assert_eq!(hex::encode(sha256::digest(&layers[0])), layer_1);
        assert_eq!(hex::encode(sha256::digest(&layers[1])), layer_2);
        if !first.is_empty() {
            assert_eq!(hex::encode(&layers[0][..32]), first);
            assert_eq!(hex::encode(&layers[0][32..64]), second);
            assert_eq!(hex::encode(&layers[1][layers[1].len() - 32..]), last);
        }
        let key = last_layer(&config, &parents, &replica_id, &Control::none()).unwrap();
        assert_eq!(key.nodes().as_flattened(), layers[1]);
        // Only the two layer files are left.
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}

#[test]
fn single_labels_agree_with_layers() {
    for config in [config(0), config(5), sized(SectorSize::KiB4)] {
        let replica_id = ReplicaId([3; 32]);
        let dir = tempfile::tempdir().unwrap();
        let parents = parents_of(&config);
        let files = generate_layers(&config, &parents, &replica_id, dir.path(), &Control::none()).unwrap();
        let layers: Vec<Vec<u8>> = files.iter().map(|f| fs::read(f).unwrap()).collect();
        let label = |layer: usize, v: u32| -> Node { layers[layer - 1].as_chunks::<32>().0[v as usize] };
        for layer in 1..=2 {
            for v in 0..config.nodes() as u32 {
                let list = parents.get(v);
                let mut of: Vec<Node> = list[..6].iter().map(|&p| label(layer, p)).collect();
                if layer == 2 {
                    of.extend(list[6..].iter().map(|&p| label(1, p)));
                }
                of.truncate(parent_count(layer as u32, v.into()));
                let got = label_of(&replica_id, layer as u32, v.into(), &of).unwrap();
                assert_eq!(got, label(layer, v), "layer {layer} node {v}");
            }
        }
    }
    assert!(label_of(&ReplicaId([0; 32]), 2, 1, &[[0; 32]; 6]).is_err());
    assert!(label_of(&ReplicaId([0; 32]), 1, 0, &[[0; 32]; 6]).is_err());
}

/// Remembers finished units and proves them; may fail or cancel at a given call.
#[derive(Default)]
struct Book {
    finished: Mutex<Vec<(Unit, u64, [u8; 32])>>,
    started: Mutex<Vec<Unit>>,
    cancel_at: Option<(&'static str, CancelFlag)>,
}

impl UnitSink for Book {
    fn reuse(&self, unit: &Unit, file: &Path) -> Reuse {
        match self.finished.lock().unwrap().iter().find(|(u, ..)| u == unit) {
            Some((_, len, digest)) => {
                let bytes = fs::read(file).unwrap();
                assert_eq!(bytes.len() as u64, *len);
                let hash = blake2b_simd::Params::new().hash_length(32).hash(&bytes);
                assert_eq!(hash.as_bytes(), digest);
                Reuse::Proven
            }
            None if file.exists() => Reuse::Refused("not in the book".into()),
            None => Reuse::Absent,
        }
    }

    fn started(&self, unit: &Unit) -> Result<(), UnitError> {
        self.started.lock().unwrap().push(unit.clone());
        if let Some((name, flag)) = &self.cancel_at
            && unit.name == *name
        {
            flag.cancel();
        }
        Ok(())
    }

    fn finished(&self, unit: &Unit, file: &Path, len: u64, digest: &[u8; 32]) -> Result<(), UnitError> {
        assert!(file.exists());
        self.finished.lock().unwrap().push((unit.clone(), len, *digest));
        Ok(())
    }
}

#[test]
fn finished_layers_are_reused_and_only_they() {
    let config = config(5).with_layers(11).unwrap();
    let parents = parents_of(&config);
    let id = ReplicaId([3; 32]);
    let (dir, fresh) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Layer 4 is announced, then the flag is set: the first three stay.
    let book = Book { cancel_at: Some(("layer-4", CancelFlag::new())), ..Book::default() };
    let cancel = &book.cancel_at.as_ref().unwrap().1;
    let control = Control { cancel, progress: &(), units: &book };
    let stopped = generate_layers(&config, &parents, &id, dir.path(), &control);
    assert!(matches!(stopped, Err(Error::Cancelled(_))), "{stopped:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    // A foreign file under the name of layer 4 must not be taken, nor a left-over temporary one.
    fs::write(store_path(dir.path(), "layer-4"), [0; 2048]).unwrap();
    fs::write(dir.path().join("sc-02-data-layer-4..tmp"), [0; 9999]).unwrap();
    let book = Book { finished: book.finished, ..Book::default() };
    let control = Control { units: &book, ..Control::none() };
    let resumed = generate_layers(&config, &parents, &id, dir.path(), &control).unwrap();
    assert_eq!(book.started.lock().unwrap().len(), 8);
    let whole = generate_layers(&config, &parents, &id, fresh.path(), &Control::none()).unwrap();
    for (a, b) in resumed.iter().zip(&whole) {
        assert_eq!(fs::read(a).unwrap(), fs::read(b).unwrap(), "{}", a.display());
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 11);
}

#[test]
fn errors_name_the_file() {
    let config = config(5);
    let parents = parents_of(&config);
    let missing = Path::new("/nonexistent/cache");
    let error = generate_layers(&config, &parents, &ReplicaId([0; 32]), missing, &Control::none())
        .unwrap_err()
        .to_string();
    assert!(error.contains("/nonexistent/cache/sc-02-data-layer-1"), "{error}");
    let other = sized(SectorSize::KiB4);
    let error = last_layer(&other, &parents, &ReplicaId([0; 32]), &Control::none()).unwrap_err();
    assert!(matches!(error, Error::WrongGraph { .. }), "{error}");
}

#[test]
fn progress_reaches_the_end_of_each_layer() {
    let config = config(5);
    let seen = Mutex::new(Vec::new());
    let sink = |p: crate::control::Progress<'_>| {
        seen.lock().unwrap().push((p.phase.to_owned(), p.done, p.total, p.unit));
    };
    let control = Control { progress: &sink, ..Control::none() };
    last_layer(&config, &parents_of(&config), &ReplicaId([0; 32]), &control).unwrap();
    let seen = seen.into_inner().unwrap();
    for layer in ["layer 1 of 2", "layer 2 of 2"] {
        let of: Vec<_> = seen.iter().filter(|(phase, ..)| phase == layer).collect();
        assert_eq!(of.last().unwrap().1, 64);
        assert!(of.is_sorted_by_key(|(_, done, ..)| *done));
        assert!(of.iter().all(|(_, _, total, unit)| *total == 64 && *unit == "nodes"));
    }
}
