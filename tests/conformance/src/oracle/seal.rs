//! AddPiece, PC1, PC2, C1 and unseal by the reference.

use crate::shared::{Artifacts, Feature, Inputs, Version, add_cache, without_path};
use anyhow::{Context, Result, anyhow, ensure};
use filecoin_hashers::poseidon::PoseidonHasher;
use filecoin_hashers::sha256::Sha256Hasher;
use filecoin_hashers::{Domain, Hasher};
use filecoin_proofs::constants::{DefaultPieceHasher, LAYERS};
use filecoin_proofs::parameters::public_params;
use filecoin_proofs::types::{
    MerkleTreeTrait, PieceInfo, PoRepConfig, SealCommitPhase1Output, SealPreCommitOutput, SectorSize,
    UnpaddedByteIndex, UnpaddedBytesAmount,
};
use filecoin_proofs::with_shape;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use storage_proofs_core::api_version::{ApiFeature, ApiVersion};
use storage_proofs_core::proof::ProofScheme;
use storage_proofs_core::sector::SectorId;
use storage_proofs_porep::stacked::{PublicInputs, StackedDrg, Tau};

/// The reference looks the number of layers up by sector size in a global table; cases with another number change it
/// under this lock.
static LAYER_TABLE: Mutex<()> = Mutex::new(());

/// Runs `f` while the reference believes that sectors of `sector_size` have `layers` layers.
pub fn with_layers<T>(sector_size: u64, layers: usize, f: impl FnOnce() -> T) -> T {
    let _guard = LAYER_TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = LAYERS.write().expect("layer table").insert(sector_size, layers).expect("a supported size");
    let out = f();
    LAYERS.write().expect("layer table").insert(sector_size, before);
    out
}

/// The reference's configuration of a case.
pub fn config(inputs: &Inputs) -> Result<PoRepConfig> {
    let version = match inputs.version {
        Version::V1 => ApiVersion::V1_0_0,
        Version::V1_1 => ApiVersion::V1_1_0,
        Version::V1_2 => ApiVersion::V1_2_0,
    };
    let features = match inputs.feature {
        Feature::Interactive => vec![],
        Feature::Synthetic => vec![ApiFeature::SyntheticPoRep],
        Feature::NonInteractive => vec![ApiFeature::NonInteractivePoRep],
    };
    PoRepConfig::new_groth16_with_features(inputs.sector_size, inputs.porep_id.0, version, features)
}

/// Seals and unseals a case in `dir` (created); every file and output is an artifact.
pub fn seal(inputs: &Inputs, dir: &Path) -> Result<Artifacts> {
    fs::create_dir_all(dir)?;
    clear_parents_cache()?;
    with_layers(inputs.sector_size, inputs.layers, || {
        with_shape!(inputs.sector_size, seal_shape, inputs, dir)
    })
}

fn seal_shape<Tree: 'static + MerkleTreeTrait>(inputs: &Inputs, dir: &Path) -> Result<Artifacts> {
    let mut out = Artifacts::new();
    let config = config(inputs)?;
    let cache = dir.join("cache");
    let unsealed = dir.join("unsealed");
    let sealed = dir.join("sealed");
    fs::create_dir_all(&cache)?;

    let infos = add_pieces(inputs, &unsealed, &mut out)?;
    let comm_d = filecoin_proofs::compute_comm_d(SectorSize(inputs.sector_size), &infos)?;
    out.insert("comm_d/from-pieces".into(), comm_d.to_vec());

    fs::write(&sealed, [])?;
    let (prover, sector) = (inputs.prover_id.0, SectorId::from(inputs.sector_id));
    let pc1 = filecoin_proofs::seal_pre_commit_phase1::<_, _, _, Tree>(
        &config,
        &cache,
        &unsealed,
        &sealed,
        prover,
        sector,
        inputs.ticket.0,
        &infos,
    )
    .context("the oracle's PC1")?;
    out.insert("comm_d".into(), pc1.comm_d.to_vec());
    let pc1_text = serde_json::to_value(&pc1)?;
    let pc2 =
        filecoin_proofs::seal_pre_commit_phase2(&config, pc1, &cache, &sealed).context("the oracle's PC2")?;
    out.insert("comm_r".into(), pc2.comm_r.to_vec());
    out.insert("sealed".into(), fs::read(&sealed)?);
    out.insert("unsealed".into(), fs::read(&unsealed)?);
    add_cache(&mut out, &cache).map_err(|e| anyhow!(e))?;

    if let Some(number) = inputs.registered {
        add_precommits(number, &pc1_text, &pc2, &cache, &mut out)?;
    }

    if inputs.feature == Feature::Synthetic {
        filecoin_proofs::generate_synth_proofs::<_, Tree>(
            &config,
            &cache,
            &sealed,
            prover,
            sector,
            inputs.ticket.0,
            pc2.clone(),
            &infos,
        )
        .context("the oracle's synthetic proofs")?;
    }
    let c1 = filecoin_proofs::seal_commit_phase1::<_, Tree>(
        &config,
        &cache,
        &sealed,
        prover,
        sector,
        inputs.ticket.0,
        inputs.seed.0,
        pc2,
        &infos,
    )
    .context("the oracle's C1")?;
    add_c1(inputs, &c1, &mut out)?;

    for (i, &(offset, len)) in inputs.unseal.iter().enumerate() {
        let to = dir.join(format!("range-{i}"));
        // The reference overwrites tree-d in the cache it is given while it unseals.
        let scratch = dir.join("unseal-cache");
        fs::create_dir_all(&scratch)?;
        let n = filecoin_proofs::get_unsealed_range::<&Path, Tree>(
            &config,
            scratch.as_path(),
            sealed.as_path(),
            to.as_path(),
            prover,
            sector,
            comm_d,
            inputs.ticket.0,
            UnpaddedByteIndex(offset),
            UnpaddedBytesAmount(len),
        )
        .context("the oracle's unseal")?;
        ensure!(n.0 == len, "the oracle unsealed {} bytes of {len}", n.0);
        out.insert(format!("unseal/{offset}+{len}"), fs::read(&to)?);
    }
    out.insert("parents".into(), parents_cache()?);
    Ok(out)
}

fn add_pieces(inputs: &Inputs, unsealed: &Path, out: &mut Artifacts) -> Result<Vec<PieceInfo>> {
    let mut staged = fs::File::create(unsealed)?;
    let mut infos = Vec::new();
    let mut lengths = Vec::new();
    for (i, piece) in inputs.pieces.iter().enumerate() {
        let bytes = piece.bytes();
        let size = UnpaddedBytesAmount(piece.size);
        let (info, written) = filecoin_proofs::add_piece(&bytes[..], &mut staged, size, &lengths)?;
        let alone = filecoin_proofs::generate_piece_commitment(&bytes[..], size)?;
        ensure!(alone == info, "the oracle's two piece commitments differ");
        out.insert(format!("comm_p/{i}"), info.commitment.to_vec());
        out.insert(format!("written/{i}"), written.0.to_le_bytes().to_vec());
        infos.push(info);
        lengths.push(size);
    }
    if inputs.pieces.is_empty() {
        staged.set_len(inputs.sector_size)?;
    }
    Ok(infos)
}

/// The outputs of PC1 and PC2 in the JSON of the API's own types.
fn add_precommits(
    number: u64,
    pc1: &serde_json::Value,
    pc2: &SealPreCommitOutput,
    cache: &Path,
    out: &mut Artifacts,
) -> Result<()> {
    // These texts are only a way into the API's own types; what counts is what those write.
    let mut labels = serde_json::Map::new();
    labels.insert(name_of(number % 5)?, pc1["labels"].clone());
    let text = serde_json::json!({
        "registered_proof": name_of(number)?, "labels": labels, "config": pc1["config"], "comm_d": pc1["comm_d"],
    });
    let api: filecoin_proofs_api::seal::SealPreCommitPhase1Output = serde_json::from_value(text)?;
    out.insert("pc1.json".into(), without_path(&serde_json::to_string(&api)?, cache));
    let text = serde_json::json!({
        "registered_proof": name_of(number)?, "comm_r": pc2.comm_r, "comm_d": pc2.comm_d,
    });
    let api: filecoin_proofs_api::seal::SealPreCommitPhase2Output = serde_json::from_value(text)?;
    out.insert("pc2.json".into(), serde_json::to_vec(&api)?);
    Ok(())
}

/// The API's name of a registered proof.
fn name_of(number: u64) -> Result<String> {
    let name = serde_json::to_value(registered(number))?;
    Ok(name.as_str().context("a proof's name is text")?.to_owned())
}

/// The C1 output in JSON and bincode: the list of proofs alone for every size, the API's whole output where the case is
/// a registered proof.
fn add_c1<Tree: 'static + MerkleTreeTrait>(
    inputs: &Inputs,
    c1: &SealCommitPhase1Output<Tree>,
    out: &mut Artifacts,
) -> Result<()> {
    let proofs = serde_json::to_string(&c1.vanilla_proofs)?;
    out.insert("c1/replica_id".into(), c1.replica_id.into_bytes());
    out.insert("c1/seed".into(), c1.seed.to_vec());
    out.insert("c1/ticket".into(), c1.ticket.to_vec());
    out.insert("c1/vanilla_proofs.bincode".into(), bincode::serialize(&c1.vanilla_proofs)?);
    out.insert("challenges".into(), serde_json::to_vec(&nodes(&proofs)?)?);
    if let Some(number) = inputs.registered {
        let (name, variant) = (name_of(number)?, name_of(number % 5)?);
        let list = |b: &[u8]| serde_json::to_string(b);
        let text = format!(
            r#"{{"registered_proof":"{name}","vanilla_proofs":{{"{variant}":{proofs}}},"comm_r":{},"comm_d":{},"replica_id":{},"seed":{},"ticket":{}}}"#,
            list(&c1.comm_r)?,
            list(&c1.comm_d)?,
            list(&c1.replica_id.into_bytes())?,
            list(&c1.seed)?,
            list(&c1.ticket)?
        );
        // The text above is only a way into the API's own type; what counts is what that type writes.
        let api: filecoin_proofs_api::seal::SealCommitPhase1Output = serde_json::from_str(&text)?;
        out.insert("c1.json".into(), serde_json::to_vec(&api)?);
        out.insert("c1.bincode".into(), bincode::serialize(&api)?);
    }
    out.insert("c1/vanilla_proofs.json".into(), proofs.into_bytes());
    Ok(())
}

/// The challenged nodes named in a C1 proof list.
fn nodes(vanilla_proofs: &str) -> Result<Vec<u64>> {
    let list: Vec<Vec<serde_json::Value>> = serde_json::from_str(vanilla_proofs)?;
    list.iter()
        .flatten()
        .map(|p| p["labeling_proofs"][0]["node"].as_u64().context("a labelling proof without a node"))
        .collect()
}

fn registered(number: u64) -> filecoin_proofs_api::RegisteredSealProof {
    use filecoin_proofs_api::RegisteredSealProof as P;
    match number {
        0 => P::StackedDrg2KiBV1,
        1 => P::StackedDrg8MiBV1,
        5 => P::StackedDrg2KiBV1_1,
        6 => P::StackedDrg8MiBV1_1,
        10 => P::StackedDrg2KiBV1_1_Feat_SyntheticPoRep,
        15 => P::StackedDrg2KiBV1_2_Feat_NonInteractivePoRep,
        other => unreachable!("no case is registered proof {other}"),
    }
}

/// Whether the reference's vanilla verifier accepts C1 proofs given in JSON (a list per partition of a list per
/// challenge).
pub fn accepts(inputs: &Inputs, vanilla_proofs: &[u8], comm_r: [u8; 32], comm_d: [u8; 32]) -> Result<bool> {
    with_layers(inputs.sector_size, inputs.layers, || {
        with_shape!(inputs.sector_size, accepts_shape, inputs, vanilla_proofs, comm_r, comm_d)
    })
}

fn accepts_shape<Tree: 'static + MerkleTreeTrait>(
    inputs: &Inputs,
    vanilla_proofs: &[u8],
    comm_r: [u8; 32],
    comm_d: [u8; 32],
) -> Result<bool> {
    let proofs: Vec<Vec<_>> =
        serde_json::from_slice(vanilla_proofs).context("the oracle's types read our C1")?;
    let params = public_params::<Tree>(&config(inputs)?)?;
    let comm_d = <DefaultPieceHasher as Hasher>::Domain::try_from_bytes(&comm_d)?;
    let replica_id = storage_proofs_porep::stacked::generate_replica_id::<Tree::Hasher, _>(
        &inputs.prover_id.0,
        inputs.sector_id,
        &inputs.ticket.0,
        comm_d,
        &inputs.porep_id.0,
    );
    let public = PublicInputs {
        replica_id,
        seed: Some(inputs.seed.0),
        tau: Some(Tau { comm_d, comm_r: <Tree::Hasher as Hasher>::Domain::try_from_bytes(&comm_r)? }),
        k: None,
    };
    StackedDrg::<Tree, Sha256Hasher>::verify_all_partitions(&params, &public, &proofs)
}

/// Reads the parents cache file the reference has written into the folder, which was empty before the case.
fn parents_cache() -> Result<Vec<u8>> {
    let dir = std::env::var_os("FIL_PROOFS_PARENT_CACHE").context("FIL_PROOFS_PARENT_CACHE is not set")?;
    let files: Vec<_> = fs::read_dir(&dir)?.collect::<std::io::Result<_>>()?;
    let caches: Vec<_> =
        files.iter().filter(|f| f.file_name().to_string_lossy().ends_with(".cache")).collect();
    ensure!(caches.len() == 1, "{} parents caches in {}", caches.len(), Path::new(&dir).display());
    let mut named = caches[0].file_name().to_string_lossy().into_owned().into_bytes();
    named.push(b'\n');
    named.extend(fs::read(caches[0].path())?);
    Ok(named)
}

/// Empties the folder of parents caches: neither side may live on the other's file.
pub fn clear_parents_cache() -> Result<()> {
    let dir = std::env::var_os("FIL_PROOFS_PARENT_CACHE").context("FIL_PROOFS_PARENT_CACHE is not set")?;
    for file in fs::read_dir(&dir)? {
        let path = file?.path();
        let ours = path.file_name().is_some_and(|n| n.to_string_lossy().contains("sdr-parent-"));
        ensure!(ours, "{} is no parents cache: the folder must be empty at the start", path.display());
        fs::remove_file(path)?;
    }
    Ok(())
}

// The tree hasher of every shape.
const _: fn() = || {
    fn same<T: MerkleTreeTrait<Hasher = PoseidonHasher>>() {}
    same::<filecoin_proofs::constants::SectorShape2KiB>();
};
