//! Our side of a case.

use super::stream::Stream;
use super::{Artifacts, B32, Fault, Feature, Inputs, Part, Version, add_cache, list, without_path};
use primitives::{
    ApiVersion, Commitment, PieceInfo, ProofFeature, ProverId, RegisteredSealProof, ReplicaId, SectorNumber,
    SectorSize, Seed, Ticket, UnpaddedSize,
};
use proofs::challenges::{self, SyntheticSet};
use proofs::codec::{Reader, Writer};
use proofs::control::Control;
use proofs::field::Fr;
use proofs::graph::{self, Graph, Parents};
use proofs::params::PoRepConfig;
use proofs::piece::{self, Fill};
use proofs::porep::{
    Commit1Input, Commit1Output, SectorInput, commit1, precommit1, precommit2, verify_vanilla,
};
use proofs::unseal::{UnsealInput, Unsealer};
use proofs::vanilla::ChallengeProof;
use proofs::vanilla::verify::{PublicSector, challenges_of};
use proofs::{fr32, labels, poseidon};
use std::fs;
use std::path::Path;

fn version(v: Version) -> ApiVersion {
    match v {
        Version::V1 => ApiVersion::V1_0_0,
        Version::V1_1 => ApiVersion::V1_1_0,
        Version::V1_2 => ApiVersion::V1_2_0,
    }
}

fn feature(f: Feature) -> ProofFeature {
    match f {
        Feature::Interactive => ProofFeature::Interactive,
        Feature::Synthetic => ProofFeature::Synthetic,
        Feature::NonInteractive => ProofFeature::NonInteractive,
    }
}

/// Our configuration of a case. Where the case is a registered proof, the registered configuration must be the same.
pub fn config(inputs: &Inputs) -> Result<PoRepConfig, Fault> {
    let size = SectorSize::from_bytes(inputs.sector_size)?;
    let config =
        PoRepConfig::custom(size, inputs.porep_id.0, version(inputs.version), feature(inputs.feature))?
            .with_layers(inputs.layers)?;
    if let Some(number) = inputs.registered {
        let registered = PoRepConfig::registered(RegisteredSealProof::new(number)?);
        if registered != config {
            return Err(format!("registered proof {number} is {registered:?}, the case {config:?}").into());
        }
    }
    Ok(config)
}

/// Seals and unseals a case in `dir` (created); every file and output is an artifact.
pub fn seal(inputs: &Inputs, dir: &Path) -> Result<Artifacts, Fault> {
    let config = config(inputs)?;
    let control = Control::none();
    let mut out = Artifacts::new();
    let (cache, unsealed, sealed) = (dir.join("cache"), dir.join("unsealed"), dir.join("sealed"));
    fs::create_dir_all(&cache)?;
    let pieces = add_pieces(inputs, &unsealed, &mut out)?;

    let input = SectorInput {
        unsealed: &unsealed,
        cache: &cache,
        prover_id: ProverId(inputs.prover_id.0),
        sector_number: SectorNumber(inputs.sector_id),
        ticket: Ticket(inputs.ticket.0),
        pieces: &pieces,
    };
    out.insert("comm_d/from-pieces".into(), input.comm_d(&config)?.0.to_vec());
    let pc1 = precommit1(&config, &input, &control)?;
    out.insert("comm_d".into(), pc1.comm_d.0.to_vec());
    let pc2 = precommit2(&config, &pc1, &cache, &unsealed, &sealed, &control)?;
    out.insert("comm_r".into(), pc2.comm_r.0.to_vec());
    out.insert("sealed".into(), fs::read(&sealed)?);
    out.insert("unsealed".into(), fs::read(&unsealed)?);
    add_cache(&mut out, &cache)?;
    if let Some(number) = inputs.registered {
        let proof = RegisteredSealProof::new(number)?;
        out.insert("pc1.json".into(), without_path(&pc1.to_json(proof), &cache));
        out.insert("pc2.json".into(), pc2.to_json(proof).into_bytes());
    }

    let public = public_sector(inputs, pc2.comm_r, pc2.comm_d);
    let c1 = commit1(
        &config,
        &Commit1Input { cache: &cache, sealed: &sealed, public, pieces: &pieces },
        &control,
    )?;
    verify_vanilla(&config, &public, &c1)?;
    add_c1(inputs, &config, &c1, &mut out)?;

    unseal_ranges(&config, inputs, &sealed, pc2.comm_d, &mut out)?;
    out.insert("parents".into(), parents_file(&config)?);
    Ok(out)
}

fn public_sector(inputs: &Inputs, comm_r: Commitment, comm_d: Commitment) -> PublicSector {
    PublicSector {
        prover_id: ProverId(inputs.prover_id.0),
        sector_number: SectorNumber(inputs.sector_id),
        ticket: Ticket(inputs.ticket.0),
        seed: Seed(inputs.seed.0),
        comm_d,
        comm_r,
    }
}

fn add_pieces(inputs: &Inputs, unsealed: &Path, out: &mut Artifacts) -> Result<Vec<PieceInfo>, Fault> {
    let mut staged = fs::File::create(unsealed)?;
    let mut infos = Vec::new();
    let mut total = 0;
    for (i, piece) in inputs.pieces.iter().enumerate() {
        let bytes = piece.bytes();
        let size = UnpaddedSize::new(piece.size)?;
        let added = piece::add_piece(&bytes[..], size, Fill::Exact, &mut staged, total, &Control::none())?;
        let alone = piece::comm_p(&bytes[..], size, Fill::Exact, &Control::none())?;
        if alone != added.piece {
            return Err(format!("comm_p says {alone:?}, add_piece {:?}", added.piece).into());
        }
        total += added.written;
        out.insert(format!("comm_p/{i}"), added.piece.comm_p.0.to_vec());
        out.insert(format!("written/{i}"), added.written.to_le_bytes().to_vec());
        infos.push(added.piece);
    }
    if inputs.pieces.is_empty() {
        staged.set_len(inputs.sector_size)?;
    }
    Ok(infos)
}

fn add_c1(
    inputs: &Inputs,
    config: &PoRepConfig,
    c1: &Commit1Output,
    out: &mut Artifacts,
) -> Result<(), Fault> {
    out.insert("c1/replica_id".into(), c1.replica_id.0.to_vec());
    out.insert("c1/seed".into(), c1.seed.0.to_vec());
    out.insert("c1/ticket".into(), c1.ticket.0.to_vec());
    out.insert("c1/vanilla_proofs.json".into(), serde_json::to_vec(&c1.vanilla_proofs)?);
    let mut writer = Writer::new();
    writer.list(&c1.vanilla_proofs, |w, partition| w.list(partition, |w, proof| proof.encode(w)));
    out.insert("c1/vanilla_proofs.bincode".into(), writer.into_bytes());
    let mut numbers = Vec::new();
    for k in 0..config.partitions {
        numbers.extend(challenges_of(config, &c1.replica_id, &c1.comm_r, &c1.seed, k));
    }
    out.insert("challenges".into(), list(&numbers));
    if let Some(number) = inputs.registered {
        let proof = RegisteredSealProof::new(number)?;
        let (json, bytes) = (c1.to_json(proof), c1.to_bytes(proof));
        if Commit1Output::from_json(&json)? != (proof, c1.clone())
            || Commit1Output::from_bytes(&bytes)? != (proof, c1.clone())
        {
            return Err("a C1 output does not survive its own encoding".into());
        }
        out.insert("c1.json".into(), json.into_bytes());
        out.insert("c1.bincode".into(), bytes);
    }
    Ok(())
}

/// Whether our verifier accepts vanilla proofs in bincode, and if not why.
pub fn verify(
    inputs: &Inputs,
    vanilla_proofs: &[u8],
    comm_r: [u8; 32],
    comm_d: [u8; 32],
) -> Result<(), Fault> {
    let config = config(inputs)?;
    let public = public_sector(inputs, Commitment(comm_r), Commitment(comm_d));
    let mut input = Reader::new(vanilla_proofs);
    let vanilla_proofs = input.list("vanilla_proofs", |i| i.list("partition", ChallengeProof::decode))?;
    input.end()?;
    let output = Commit1Output {
        vanilla_proofs,
        comm_r: public.comm_r,
        comm_d: public.comm_d,
        replica_id: public.replica_id(&config),
        seed: public.seed,
        ticket: public.ticket,
    };
    Ok(verify_vanilla(&config, &public, &output)?)
}

/// Unseals the ranges of a case. Ours may begin anywhere, the reference's only at multiples of 127: a shifted range is
/// compared with the whole.
fn unseal_ranges(
    config: &PoRepConfig,
    inputs: &Inputs,
    sealed: &Path,
    comm_d: Commitment,
    out: &mut Artifacts,
) -> Result<(), Fault> {
    let control = Control::none();
    let input = UnsealInput {
        sealed,
        prover_id: ProverId(inputs.prover_id.0),
        sector_number: SectorNumber(inputs.sector_id),
        ticket: Ticket(inputs.ticket.0),
        comm_d,
    };
    let unsealer = Unsealer::new(config, &input, &control)?;
    unsealer.verify(&control)?;
    let mut whole = Vec::new();
    unsealer.read(0..config.sector_size.unpadded_bytes(), &mut whole, &control)?;
    for &(offset, len) in &inputs.unseal {
        let (mut bytes, mut shifted) = (Vec::new(), Vec::new());
        let written = unsealer.read(offset..offset + len, &mut bytes, &control)?;
        if written != len {
            return Err(format!("unsealed {written} bytes, expected {len}").into());
        }
        let (from, to) = (offset + len / 3, offset + len);
        unsealer.read(from..to, &mut shifted, &control)?;
        if shifted != whole[from as usize..to as usize] {
            return Err(format!("the range {from}..{to} is not that part of the whole").into());
        }
        out.insert(format!("unseal/{offset}+{len}"), bytes);
    }
    Ok(())
}

/// Name and contents of the parents file that the stages have made.
fn parents_file(config: &PoRepConfig) -> Result<Vec<u8>, Fault> {
    let name = Parents::file_name(&Graph::of(config));
    let mut out = format!("{name}\n").into_bytes();
    out.extend(fs::read(graph::cache_dir().join(name))?);
    Ok(out)
}

/// Our answer to the inputs of one function.
pub fn part(part: &Part) -> Result<Artifacts, Fault> {
    let mut out = Artifacts::new();
    match part {
        Part::Poseidon { inputs } => {
            let elements: Vec<Fr> = inputs
                .iter()
                .map(|b| Fr::from_bytes_le(&b.0))
                .collect::<Option<_>>()
                .ok_or("not canonical")?;
            out.insert("digest".into(), poseidon::merkle(&elements).to_bytes_le().to_vec());
            // The batch must say the same as the single hash, in every lane.
            let nodes: Vec<[u8; 32]> = inputs.iter().map(|b| b.0).collect();
            let mut batch = [[0; 32]; 9];
            poseidon::merkle_many_nodes(inputs.len(), &nodes.repeat(9), &mut batch)?;
            if batch.iter().any(|d| d.as_slice() != out["digest"]) {
                return Err("merkle_many_nodes differs from merkle".into());
            }
        }
        Part::Fr32 { len, label } => {
            let bytes = Stream::new(label.clone()).bytes(*len);
            let (mut padded, mut back) = (Vec::new(), Vec::new());
            fr32::pad(&bytes, &mut padded);
            fr32::unpad(&padded, &mut back);
            if !back.starts_with(&bytes) || back[bytes.len()..].iter().any(|&b| b != 0) {
                return Err("unpad does not undo pad".into());
            }
            out.insert("padded".into(), padded);
        }
        Part::CommP { len, label } => {
            let bytes = Stream::new(label.clone()).bytes(*len);
            let size = UnpaddedSize::new(*len as u64)?;
            let info = piece::comm_p(&bytes[..], size, Fill::Exact, &Control::none())?;
            out.insert("comm_p".into(), info.comm_p.0.to_vec());
        }
        Part::CommD { sector_size, pieces } => {
            let infos: Vec<PieceInfo> = pieces
                .iter()
                .map(|&(c, n)| Ok(PieceInfo { comm_p: Commitment(c.0), size: UnpaddedSize::new(n)? }))
                .collect::<Result<_, Fault>>()?;
            let comm_d = piece::comm_d(SectorSize::from_bytes(*sector_size)?, &infos)?;
            out.insert("comm_d".into(), comm_d.0.to_vec());
        }
        Part::ReplicaId { prover_id, sector_id, ticket, comm_d, porep_id } => {
            let id = labels::replica_id(
                &ProverId(prover_id.0),
                SectorNumber(*sector_id),
                &Ticket(ticket.0),
                &Commitment(comm_d.0),
                &porep_id.0,
            );
            out.insert("replica_id".into(), id.0.to_vec());
        }
        Part::Parents { nodes, porep_id, version: v, wanted } => {
            let graph = Graph::new(*nodes, &porep_id.0, version(*v));
            let lists: Vec<_> = wanted.iter().map(|&node| graph.parents(node)).collect();
            out.insert("parents".into(), list(&lists));
        }
        Part::Challenges { feature, partitions, per_partition, nodes, replica_id, comm_r, seed } => {
            let sets = (replica_id, comm_r, seed);
            for &k in partitions {
                let numbers = challenges_alone(*feature, *nodes, *per_partition, sets, k);
                out.insert(format!("partition/{k}"), list(&numbers));
            }
            if *feature == Feature::Synthetic {
                let mut set = SyntheticSet::new(*nodes, &ReplicaId(replica_id.0), &Commitment(comm_r.0));
                let len = set.len();
                let mut range = |r: std::ops::Range<u64>| r.map(|i| set.get(i)).collect::<Vec<_>>();
                out.insert("synthetic/head".into(), list(&range(0..len.min(64))));
                out.insert("synthetic/tail".into(), list(&range(len.saturating_sub(64)..len)));
                out.insert("synthetic/len".into(), len.to_string().into_bytes());
            }
        }
    }
    Ok(out)
}

fn challenges_alone(
    feature: Feature,
    nodes: u64,
    per_partition: usize,
    (replica_id, comm_r, seed): (&B32, &B32, &B32),
    k: usize,
) -> Vec<u64> {
    let (replica_id, comm_r, seed) = (ReplicaId(replica_id.0), Commitment(comm_r.0), Seed(seed.0));
    let numbers = (k * per_partition) as u32..((k + 1) * per_partition) as u32;
    match feature {
        Feature::Interactive => {
            numbers.map(|j| challenges::interactive(nodes, &replica_id, &seed, j)).collect()
        }
        Feature::NonInteractive => {
            numbers.map(|j| challenges::non_interactive(nodes, &replica_id, &comm_r, j)).collect()
        }
        Feature::Synthetic => {
            let mut set = SyntheticSet::new(nodes, &replica_id, &comm_r);
            numbers
                .map(|j| {
                    let place = set.pick(&seed, j);
                    set.get(place)
                })
                .collect()
        }
    }
}
