//! Single functions of the reference: hashes, padding, graph, challenges.

use crate::shared::{Feature, Version};
use anyhow::{Result, ensure};
use blstrs::Scalar as Fr;
use filecoin_hashers::poseidon::{PoseidonDomain, PoseidonHasher};
use filecoin_hashers::sha256::Sha256Domain;
use filecoin_hashers::{
    Domain, POSEIDON_CONSTANTS_2, POSEIDON_CONSTANTS_4, POSEIDON_CONSTANTS_8, POSEIDON_CONSTANTS_11,
};
use filecoin_proofs::types::{PieceInfo, SectorSize, UnpaddedBytesAmount};
use generic_array::typenum::U2;
use neptune::Strength;
use neptune::hash_type::{CType, HashType};
use neptune::poseidon::{Poseidon, PoseidonConstants};
use std::io::Read;
use storage_proofs_core::api_version::ApiVersion;
use storage_proofs_porep::stacked::{Challenges, PublicInputs, StackedBucketGraph, Tau};

fn api(version: Version) -> ApiVersion {
    match version {
        Version::V1 => ApiVersion::V1_0_0,
        Version::V1_1 => ApiVersion::V1_1_0,
        Version::V1_2 => ApiVersion::V1_2_0,
    }
}

fn elements(inputs: &[[u8; 32]]) -> Result<Vec<Fr>> {
    Ok(inputs.iter().map(|b| fr32::bytes_into_fr(b)).collect::<Result<_, _>>()?)
}

fn bytes(element: Fr) -> [u8; 32] {
    fr32::fr_into_bytes(&element).try_into().expect("32 bytes")
}

/// Poseidon with the Merkle tag; the arity (2, 4, 8 or 11) is the number of inputs.
pub fn poseidon(inputs: &[[u8; 32]]) -> Result<[u8; 32]> {
    let e = elements(inputs)?;
    Ok(bytes(match e.len() {
        2 => Poseidon::new_with_preimage(&e, &*POSEIDON_CONSTANTS_2).hash(),
        4 => Poseidon::new_with_preimage(&e, &*POSEIDON_CONSTANTS_4).hash(),
        8 => Poseidon::new_with_preimage(&e, &*POSEIDON_CONSTANTS_8).hash(),
        11 => Poseidon::new_with_preimage(&e, &*POSEIDON_CONSTANTS_11).hash(),
        n => anyhow::bail!("no Poseidon of arity {n} here"),
    }))
}

/// Poseidon of arity 2 with the tag 2^40 of sector updates.
pub fn poseidon_custom(inputs: &[[u8; 32]; 2]) -> Result<[u8; 32]> {
    let constants: PoseidonConstants<Fr, U2> = PoseidonConstants::new_with_strength_and_type(
        Strength::Standard,
        HashType::Custom(CType::Arbitrary(1)),
    );
    Ok(bytes(Poseidon::new_with_preimage(&elements(inputs)?, &constants).hash()))
}

/// The first round constant of an arity.
pub fn first_round_constant(arity: usize) -> Result<[u8; 32]> {
    Ok(bytes(match arity {
        2 => POSEIDON_CONSTANTS_2.compressed_round_constants[0],
        8 => POSEIDON_CONSTANTS_8.compressed_round_constants[0],
        11 => POSEIDON_CONSTANTS_11.compressed_round_constants[0],
        n => anyhow::bail!("no Poseidon of arity {n} here"),
    }))
}

/// fr32 padding of a byte string of any length.
pub fn fr32(raw: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    fr32::Fr32Reader::new(raw).read_to_end(&mut out)?;
    Ok(out)
}

/// CommP of unpadded bytes (127·2^k of them).
pub fn comm_p(raw: &[u8]) -> Result<[u8; 32]> {
    Ok(filecoin_proofs::generate_piece_commitment(raw, UnpaddedBytesAmount(raw.len() as u64))?.commitment)
}

/// CommD of a list of (CommP, unpadded size).
pub fn comm_d(sector_size: u64, pieces: &[([u8; 32], u64)]) -> Result<[u8; 32]> {
    let infos: Vec<PieceInfo> =
        pieces.iter().map(|&(c, n)| PieceInfo::new(c, UnpaddedBytesAmount(n))).collect::<Result<_>>()?;
    filecoin_proofs::compute_comm_d(SectorSize(sector_size), &infos)
}

/// Replica id (proofs.md §4.1).
pub fn replica_id(
    prover_id: &[u8; 32],
    sector_id: u64,
    ticket: &[u8; 32],
    comm_d: &[u8; 32],
    porep_id: &[u8; 32],
) -> [u8; 32] {
    let id: PoseidonDomain = storage_proofs_porep::stacked::generate_replica_id::<PoseidonHasher, _>(
        prover_id, sector_id, ticket, comm_d, porep_id,
    );
    id.into_bytes().try_into().expect("32 bytes")
}

/// The 14 parents of some nodes, without a parents cache.
pub fn parents(nodes: u64, porep_id: [u8; 32], version: Version, wanted: &[u32]) -> Result<Vec<[u32; 14]>> {
    let graph =
        StackedBucketGraph::<PoseidonHasher>::new_stacked(nodes as usize, 6, 8, porep_id, api(version))?;
    wanted
        .iter()
        .map(|&node| {
            let mut out = [0; 14];
            graph.base_parents(node as usize, &mut out[..6])?;
            graph.generate_expanded_parents(node as usize, &mut out[6..]);
            Ok(out)
        })
        .collect()
}

/// The challenges of partition `k`; without a seed (synthetic only) the whole synthetic set.
pub fn challenges(
    feature: Feature,
    per_partition: usize,
    nodes: u64,
    replica_id: &[u8; 32],
    comm_r: &[u8; 32],
    seed: Option<[u8; 32]>,
    k: usize,
) -> Result<Vec<u64>> {
    let kind = match feature {
        Feature::Interactive => Challenges::new_interactive(per_partition),
        Feature::Synthetic => Challenges::new_synthetic(per_partition),
        Feature::NonInteractive => Challenges::new_non_interactive(per_partition),
    };
    let public = PublicInputs::<PoseidonDomain, Sha256Domain> {
        replica_id: PoseidonDomain::try_from_bytes(replica_id)?,
        seed,
        tau: Some(Tau { comm_d: Sha256Domain::default(), comm_r: PoseidonDomain::try_from_bytes(comm_r)? }),
        k: Some(k),
    };
    Ok(public.challenges(&kind, nodes as usize, Some(k)).into_iter().map(|c| c as u64).collect())
}

/// Leaf challenges of one sector in a proof of spacetime (proofs.md §10.3): indices `from..to`.
pub fn post_leaf_challenges(
    sector_size: u64,
    randomness: [u8; 32],
    sector_id: u64,
    indices: std::ops::Range<u64>,
) -> Result<Vec<u64>> {
    let params = storage_proofs_post::fallback::PublicParams {
        sector_size,
        challenge_count: 10,
        sector_count: 1,
        api_version: ApiVersion::V1_2_0,
    };
    let randomness = PoseidonDomain::try_from_bytes(&randomness)?;
    Ok(indices
        .map(|i| storage_proofs_post::fallback::generate_leaf_challenge(&params, randomness, sector_id, i))
        .collect())
}

/// Which of `len` sectors draw `n` of a winning proof of spacetime names (proofs.md §10.2).
pub fn post_winning_sector(randomness: [u8; 32], n: usize, len: u64, prover_id: [u8; 32]) -> Result<u64> {
    ensure!(len > 0, "no sectors");
    storage_proofs_post::fallback::generate_sector_challenge(
        PoseidonDomain::try_from_bytes(&randomness)?,
        n,
        len,
        PoseidonDomain::try_from_bytes(&prover_id)?,
    )
}
