//! The vectors of proofs.md §14.3, and what belongs to a sector beyond them.

use super::*;
use crate::vanilla::verify::challenges_of;
use primitives::{RegisteredSealProof, ReplicaId};

/// One block of §14.3; an empty text is a value the block does not give.
struct Block {
    size: SectorSize,
    proof: u8,
    zero: bool,
    comm_d: &'static str,
    replica_id: &'static str,
    first_labels: [&'static str; 2],
    last_label: &'static str,
    layers: [&'static str; 2],
    comm_c: &'static str,
    comm_r_last: &'static str,
    comm_r: &'static str,
    replica: &'static str,
    roots: [&'static str; 2],
    challenges: [u64; 2],
}

const BLOCKS: [Block; 6] = [
    Block {
        size: SectorSize::KiB2,
        proof: 0,
        zero: true,
        comm_d: "fc7e928296e516faade986b28f92d44a4f24b935485223376a799027bc18f833",
        replica_id: "833e3d0ec6313d5110118382a53eadc8851b3bdc3c64d9d0a9515f36d630ee22",
        first_labels: [
            "592e0f96b3242885449512d2b7e8342550bbad360f88dc67a7ac63b07835e220",
            "1b9ffd5e9d421ac336b7ce7e3af6157aaa6a0987b034d9e8b7fe8ecb3dbce52e",
        ],
        last_label: "32b127789449c1b949ea94d1615e9d689752683164b37b8c4998167e9a846f03",
        layers: [
            "6a24d07efaf9e03dd7514022562a43ac7709544d4f4444b933b7dd156b994e18",
            "9f91f3f65de37e65b6652f935a816e800d6a9a9d4a0c7530396c1670bd98f43c",
        ],
        comm_c: "24be9b50220033e6acd54502188361b9403d4fbc31e2fdc49d26d8287ef6cd6a",
        comm_r_last: "aa4a63d84fea96db3afb03c5986c2655a65f779006e666f1196c6da0a4e0ee02",
        comm_r: "5b25c87c9893927d5e7fe75707fc77fd700b9c0c732851dea4da8a7822fca340",
        replica: "9f91f3f65de37e65b6652f935a816e800d6a9a9d4a0c7530396c1670bd98f43c",
        roots: ["", ""],
        challenges: [41, 50],
    },
    Block {
        size: SectorSize::KiB2,
        proof: 5,
        zero: true,
        comm_d: "fc7e928296e516faade986b28f92d44a4f24b935485223376a799027bc18f833",
        replica_id: "3e75e87332cd5d60132c1f9f9a8362e2e4cf190b46f4fd636fd8864b842d170b",
        first_labels: [
            "a7cc1fe75634063bb01dba191aeb0256505eb56d24b67027b44989c8c0d2680e",
            "814c7f0921580b8b1ea6792e947beb21437c84d03aa972109456cfb20e88142b",
        ],
        last_label: "f403883c85fbf18f7bdd78a5dbd27fbc1cb985e24b0e691290376f5f4cbab33e",
        layers: [
            "15a4a233f44c593466911846dfa69b7bdd7d241cdefe743452bfd77c78eee385",
            "187696ab8c544edce720fb7e79f948abda4747a8cb4629ac11be0bcfcd2d3cf0",
        ],
        comm_c: "341fe7b18303170f67577d8e825f09e2cf6cf4c2b65d4fa2eaf4e2b70eeeb365",
        comm_r_last: "90e693754e3cd7d23b1cbb26a69183485d04d7a96e8b0c2fef039a0f09bfef05",
        comm_r: "77424390b36f74acd595c40d0e341f4fbff18623feaf8ad72fe73d7490d0d65c",
        replica: "187696ab8c544edce720fb7e79f948abda4747a8cb4629ac11be0bcfcd2d3cf0",
        roots: ["", ""],
        challenges: [28, 27],
    },
    Block {
        size: SectorSize::KiB2,
        proof: 5,
        zero: false,
        comm_d: "692fbdbc72e1aa6468e86a183ed3dfc2d43b8ad6fb6639110966b2d6371f5419",
        replica_id: "71b3b9d0eb15ebb9bd1173744c6ec39316d185acc7185f85b791771871698d15",
        first_labels: [
            "14da43caedc82b9d471738a15d967d5e915703097ecabab14858aae1d2715e36",
            "bb0ce370228ee858e9401c4d8740fa06ec3adc454fe284124fad5a94805f4c28",
        ],
        last_label: "19a59cccc968b23e625076cc58862f43da832d14e54897e043ff86e4e903ed39",
        layers: [
            "380eb0b0651de05bcbc56c36fc98625365364193a4570f876c64db9fa7460409",
            "c05ca479205125870deec423f1a846d88157149354a14adef015f22ab10dd885",
        ],
        comm_c: "4e7d7dd5cd38bacdc515c83656a35a87e19064813c14e18934a2829c4af14012",
        comm_r_last: "1079c74bc01dfb37cf6043b8717ea752289bb2c5c187efc4ebffde2e03953910",
        comm_r: "7777d59842a6fc61a8476774ceef63700462235c27a7952652e915fa8207d032",
        replica: "aac3fce662b8e913c6b148803628c0ae58802984fd6ccf5941adbc6dc1f64908",
        roots: ["", ""],
        challenges: [6, 33],
    },
    Block {
        size: SectorSize::KiB4,
        proof: 5,
        zero: false,
        comm_d: "66af3bb154aa2ac35f872bc7d372ca02ff84d669416875e9208b07ed3517b313",
        replica_id: "a19059ad39d5d606728463ae44097392ea80a528405f2243def83ba078bd3934",
        first_labels: [
            "146c0bbd9edc71d845c5b8e9aa6f413e268f7262d8c242b45006f11ac2845531",
            "33282605c6d3c017ba1f9f9717460bcee082b6f2f29fd08de0243814da5f480e",
        ],
        last_label: "42d66e3163c671ef1c3dd3a57c52771748cac18591591d5d58340568991cd319",
        layers: [
            "2c1703e244f75d1fced4776ebbcc10340ddba39cff51b9e5d729930da4ef8061",
            "a038b945c6cb97acf7d4d7ed6fff2a92f455e9220c339a2a29a20f7e36eb5434",
        ],
        comm_c: "0f5a883ef01cdcb10102c54f74e5c4de01fddfbe47112e91ff5328feb914ee6d",
        comm_r_last: "822279bc79822db58bc67b3844d9bdb7864f4823d533d9893acfa9573565650b",
        comm_r: "3404db924e553daad20d3fbeac2c943cc32cc069eefc6fc5b68eac835b436415",
        replica: "9e1e4f90d76d61516947de4ccc8bf21af7264bd2030b016fc94e99707d1ec203",
        roots: [
            "93b3c32e764edff00ac1ce76a733cbf9ae180f219f248c6b7f8b34c3999bf469",
            "9031677868708ae09b0266012f90ea9c1f7a1d026800e5f159168bddd8fbb214",
        ],
        challenges: [66, 118],
    },
    Block {
        size: SectorSize::KiB16,
        proof: 5,
        zero: false,
        comm_d: "788d599a794c07c147da19529cfda19c06ef8f673beaf4cc61f0ff27907b141a",
        replica_id: "f760536277b9baf3569561f1eb6c9f7f307b111c752b2f5e6d5bdc055cf0860d",
        first_labels: ["", ""],
        last_label: "",
        layers: [
            "f37486df8f0d6e66d19e0e35d41db00642d3a6c691d714c2275ef4c1371d51f6",
            "c973d91a64f2733b4107be31962ff45bd065edde34a80cb43d5b194f0aa20f70",
        ],
        comm_c: "50b8b9a132ccbc35416cb44910a2e85d24504750b5ae5703868061efb459e91b",
        comm_r_last: "959c9a82250ce9dbe9506406fc6f49f0cb38bf90cac7a5da5d734320561fef6b",
        comm_r: "617a6a17b9ec115995bf5000051beecd93d59cba6851c0992a2c539156ca8f0d",
        replica: "",
        roots: [
            "c3f01d552dba4e992eb003afdde5c625d3f47627c36bc2403e40fc99ceec3166",
            "c06f9686b1609acc9066b183ec61354fa8fe125d7e9457f4823a661feaba6853",
        ],
        challenges: [426, 264],
    },
    Block {
        size: SectorSize::KiB32,
        proof: 5,
        zero: false,
        comm_d: "c88f94f32ebb7c8bf2fc62b45aa6c19fdabd9d20f3113b86f98d6d1a0554b028",
        replica_id: "7998372300d6a0a4ff6a1dd36fced4baab612153bfd862900727558416bef13f",
        first_labels: ["", ""],
        last_label: "",
        layers: [
            "fdc5d7c44b7dcaba9577d6ff28cbd011cb790b4c308882f108167c91e9806aeb",
            "230e5a021b05119e74943ab1efc07d4ccd009f47dccce2e234276fe7b4f8d202",
        ],
        comm_c: "4ba7e2ca2a583fb2dfec6c71ef9cd76196b6655b2a9135bd4aa931065a712c68",
        comm_r_last: "18fac57cc25b1e7600dda1667d60411dcc8bfaea653942bc3260e83932fbeb3b",
        comm_r: "0d90ec1fef43ccc527e3d9068d02b6e1d3b1de4c4b06bf59bbf82f63fdad4c26",
        replica: "",
        roots: [
            "845f91a46edae8e086213548e0e3b83be4f689582f20a1a92a039a910d078a0a",
            "9d4bab52613b65a53611bac0fa765370b90dbb2cc0d6323abaaa2b7e050e1952",
        ],
        challenges: [644, 296],
    },
];

#[track_caller]
fn expect(what: &str, expected: &str, got: &[u8]) {
    if !expected.is_empty() {
        assert_eq!(hex::encode(got), expected, "{what}");
    }
}

#[test]
fn sectors_of_the_specification() {
    for block in BLOCKS {
        let version = if block.proof == 0 { ApiVersion::V1_0_0 } else { ApiVersion::V1_1_0 };
        let data = if block.zero { vec![0; block.size.bytes() as usize] } else { pattern(block.size) };
        let sector = Sector::new(config(block.size, block.proof, version), &data);
        let (pc1, pc2) = sector.seal();
        expect("comm_d", block.comm_d, &pc1.comm_d.0);
        expect("replica_id", block.replica_id, &pc1.replica_id.0);
        let layers: Vec<Vec<u8>> = (1..=2).map(|l| fs::read(sector.store(&layer_id(l))).unwrap()).collect();
        expect("label 0 of layer 1", block.first_labels[0], &layers[0][..32]);
        expect("label 1 of layer 1", block.first_labels[1], &layers[0][32..64]);
        expect("last label", block.last_label, &layers[1][layers[1].len() - 32..]);
        for (expected, layer) in block.layers.iter().zip(&layers) {
            expect("layer", expected, &sha256::digest(layer));
        }
        expect("comm_c", block.comm_c, &pc2.comm_c.0);
        expect("comm_r_last", block.comm_r_last, &pc2.comm_r_last.0);
        expect("comm_r", block.comm_r, &pc2.comm_r.0);
        expect("replica", block.replica, &sha256::digest(&fs::read(sector.path("sealed")).unwrap()));
        for (stem, expected) in ["tree-c-0", "tree-r-last-0"].iter().zip(block.roots) {
            if !expected.is_empty() {
                let tree = fs::read(sector.store(stem)).unwrap();
                expect(stem, expected, &tree[tree.len() - 32..]);
            }
        }
        assert_eq!(fs::read(sector.path("unsealed")).unwrap(), data, "the data is not touched");
        let nodes = challenges_of(&sector.config, &pc1.replica_id, &pc2.comm_r, &SEED, 0);
        assert_eq!(nodes, block.challenges);

        let public = sector.public(&pc2);
        let output = sector.c1(public, &Control::none()).unwrap();
        assert_eq!(output.vanilla_proofs.len(), 1);
        verify_vanilla(&sector.config, &public, &output).unwrap();
        check_sealed(&sector.config, &public, &sector.cache(), &sector.path("sealed"), 20, &Control::none())
            .unwrap();
    }
}

#[test]
fn files_have_the_names_and_lengths_of_the_reference() {
    for (size, trees) in
        [(SectorSize::KiB2, 1), (SectorSize::KiB4, 2), (SectorSize::KiB16, 8), (SectorSize::KiB32, 16)]
    {
        let sector = Sector::sample(size);
        let (_, pc2) = sector.seal();
        let mut expected = vec![
            ("p_aux".to_owned(), 64),
            (store("layer-1"), size.bytes()),
            (store("layer-2"), size.bytes()),
            (store("tree-d"), 2 * size.bytes() - 32),
        ];
        for i in 0..trees {
            let number = if trees == 1 { String::new() } else { format!("-{i}") };
            expected.push((store(&format!("tree-c{number}")), 2336));
            expected.push((store(&format!("tree-r-last{number}")), 32));
        }
        expected.sort();
        let mut got: Vec<(String, u64)> = fs::read_dir(sector.cache())
            .unwrap()
            .map(|f| f.unwrap())
            .map(|f| (f.file_name().into_string().unwrap(), f.metadata().unwrap().len()))
            .filter(|(name, _)| name != "t_aux")
            .collect();
        got.sort();
        assert_eq!(got, expected);
        assert_eq!(fs::read(sector.path("cache/p_aux")).unwrap(), [pc2.comm_c.0, pc2.comm_r_last.0].concat());
        let aux = crate::files::config::TAux::load(&sector.cache()).unwrap();
        assert_eq!(aux.tree_d.size, Some(size.nodes() * 2 - 1));
        assert_eq!((aux.tree_r_last.size, aux.tree_r_last.rows_to_discard), (Some(73), 1));
        assert_eq!((aux.tree_c.size, aux.tree_c.id.as_str()), (Some(73), "tree-c"));
        assert_eq!(aux.labels.len(), 2);
    }
}

/// Two rows that tree-R-last does not keep, chunks that are not the whole tree, a key and data of many blocks.
#[test]
fn a_sector_of_8_mib_proves_and_unseals() {
    let proof = RegisteredSealProof::new(6).unwrap();
    let data = pattern(SectorSize::MiB8);
    let sector = Sector::new(PoRepConfig::registered(proof), &data);
    let pc2 = sector.seal_with_manifest().unwrap();
    let public = sector.public(&pc2);
    let output = sector.c1(public, &Control::none()).unwrap();
    verify_vanilla(&sector.config, &public, &output).unwrap();
    let sealed = sector.path("sealed");
    check_sealed(&sector.config, &public, &sector.cache(), &sealed, 30, &Control::none()).unwrap();
    for (id, len) in [("tree-d", 16_777_184), ("tree-c", 9_586_976), ("tree-r-last", 18_720)] {
        assert_eq!(fs::metadata(sector.store(id)).unwrap().len(), len, "{id}");
    }
    let input = crate::unseal::UnsealInput {
        sealed: &sealed,
        prover_id: public.prover_id,
        sector_number: public.sector_number,
        ticket: public.ticket,
        comm_d: public.comm_d,
    };
    let unsealer =
        crate::unseal::Unsealer::with(&sector.config, &sector.parents, &input, &Control::none()).unwrap();
    unsealer.verify(&Control::none()).unwrap();
    let mut out = Vec::new();
    unsealer.read(1_000_003..5_000_021, &mut out, &Control::none()).unwrap();
    let expected: Vec<u8> = (1_000_003..5_000_021u64).map(|k| (7 * k + 3) as u8).collect();
    assert!(out == expected);
}

fn store(id: &str) -> String {
    format!("sc-02-data-{id}.dat")
}

#[test]
fn eleven_layers_and_other_features_prove_and_verify() {
    let base = config(SectorSize::KiB2, 5, ApiVersion::V1_1_0);
    let eleven = base.with_layers(11).unwrap().with_challenges(10, 18).unwrap();
    let registered = |n| PoRepConfig::registered(RegisteredSealProof::new(n).unwrap());
    let synthetic_32 =
        PoRepConfig::custom(SectorSize::KiB32, [7; 32], ApiVersion::V1_2_0, ProofFeature::Synthetic).unwrap();
    for config in [eleven, registered(0), registered(10), registered(15), synthetic_32] {
        let data = pattern(config.sector_size);
        let sector = Sector::new(config, &data);
        let (_, pc2) = sector.seal();
        let public = sector.public(&pc2);
        let output = sector.c1(public, &Control::none()).unwrap();
        assert_eq!(output.vanilla_proofs.len(), sector.config.partitions);
        verify_vanilla(&sector.config, &public, &output).unwrap();
    }
}

#[test]
fn large_synthetic_and_non_interactive_proofs_are_refused_before_any_work() {
    for proof in RegisteredSealProof::all() {
        let config = PoRepConfig::registered(proof);
        let expected = proof.number() % 5 == 0 || proof.number() < 10;
        assert_eq!(commit1_supported(&config).is_ok(), expected, "{proof}");
    }
    let sector = Sector::sample(SectorSize::KiB2);
    let (_, pc2) = sector.seal();
    let config = PoRepConfig::registered(RegisteredSealProof::new(13).unwrap());
    let cache = sector.cache();
    let input = Commit1Input { cache: &cache, sealed: &cache, public: sector.public(&pc2), pieces: &[] };
    assert!(matches!(commit1(&config, &input, &Control::none()), Err(PoRepError::Unsupported(_))));
}

#[test]
fn outputs_round_trip_through_json_and_bytes() {
    let proof = RegisteredSealProof::new(5).unwrap();
    let sector = Sector::sample(SectorSize::KiB2);
    let (pc1, pc2) = sector.seal();

    let json = pc1.to_json(proof);
    let head = format!(
        r#"{{"registered_proof":"StackedDrg2KiBV1_1","labels":{{"StackedDrg2KiBV1":{{"labels":[{{"path":"{}","id":"layer-1","size":64,"rows_to_discard":0}},"#,
        sector.cache().display()
    );
    assert!(json.starts_with(&head), "{json}");
    assert!(json.contains(r#"],"_h":null}},"config":{"path":"#));
    let with_key = json.replacen('{', r#"{"_lotus_SealRandomness":"AQE=","#, 1);
    for text in [&json, &with_key] {
        assert_eq!(PreCommit1Output::from_json(text, pc1.replica_id).unwrap(), (proof, pc1.clone()));
    }
    let other = json.replace("\"StackedDrg2KiBV1\"", "\"StackedDrg8MiBV1\"");
    assert!(PreCommit1Output::from_json(&other, ReplicaId::default()).is_err());

    let json = pc2.to_json(proof);
    assert!(json.starts_with(r#"{"registered_proof":"StackedDrg2KiBV1_1","comm_r":[119,119,"#), "{json}");
    assert_eq!(PreCommit2Output::commitments_from_json(&json).unwrap(), (proof, pc2.comm_r, pc2.comm_d));

    for size in [SectorSize::KiB2, SectorSize::KiB4, SectorSize::KiB32] {
        let sector = Sector::sample(size);
        let (_, pc2) = sector.seal();
        let output = sector.c1(sector.public(&pc2), &Control::none()).unwrap();
        let json = output.to_json(proof);
        assert!(json.starts_with(
            r#"{"registered_proof":"StackedDrg2KiBV1_1","vanilla_proofs":{"StackedDrg2KiBV1":[[{"comm_d_proofs":{"data":{"Single":{"root":["#
        ));
        assert!(json.contains(r#""_h":null},"inclusion_proof":{"data":"#));
        assert_eq!(Commit1Output::from_json(&json).unwrap(), (proof, output.clone()));
        let bytes = output.to_bytes(proof);
        assert_eq!(Commit1Output::from_bytes(&bytes).unwrap(), (proof, output));
        for cut in (0..bytes.len()).step_by(97) {
            assert!(Commit1Output::from_bytes(&bytes[..cut]).is_err());
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(Commit1Output::from_bytes(&longer).is_err());
        // Counts that lie must neither panic nor allocate: put a huge number at every eighth place.
        for at in (0..bytes.len() - 8).step_by(8) {
            let mut hostile = bytes.clone();
            hostile[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
            let _ = Commit1Output::from_bytes(&hostile);
        }
    }
}

#[test]
fn thread_counts_make_no_difference() {
    let seal = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| Sector::sample(SectorSize::KiB16).seal().1)
    };
    let one = seal(1);
    for threads in [2, 3, 7] {
        assert_eq!(seal(threads), one);
    }
}
