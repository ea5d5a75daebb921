//! C1: vanilla proofs for the seed, checked before they are handed out (proofs.md §8.3, §8.4).

use super::{PRECOMMIT1, PRECOMMIT2, PoRepError, SEALED, Suspect, Unsupported, rows_to_discard};
use crate::control::{Control, Reuse, Unit};
use crate::files::config::PAux;
use crate::files::{P_AUX, TREE_C, TREE_D, TREE_R_LAST, base_tree_id, layer_id, store_path};
use crate::params::PoRepConfig;
use crate::tree::open::{OctalTree, TreeError};
use crate::vanilla::ChallengeProof;
use crate::vanilla::prove::SealedFiles;
use crate::vanilla::verify::{
    ChallengeFault, Opened, PublicSector, VanillaError, Verifier, challenges_of, check_commitment, verify,
};
use crate::{piece, poseidon};
use primitives::{Commitment, PieceInfo, ProofFeature, ReplicaId, SectorSize, Seed, Ticket};
use rayon::prelude::*;
use std::path::Path;

/// A sealed sector as C1 takes it.
#[derive(Debug, Clone, Copy)]
pub struct Commit1Input<'a> {
    /// The cache folder that PC1 and PC2 filled.
    pub cache: &'a Path,
    /// The sealed sector file.
    pub sealed: &'a Path,
    /// What the chain knows of it.
    pub public: PublicSector,
    /// The pieces in order, fillers included.
    pub pieces: &'a [PieceInfo],
}

/// What C1 gives: the proofs and what they were made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit1Output {
    /// For each partition one proof for each challenge.
    pub vanilla_proofs: Vec<Vec<ChallengeProof>>,
    /// Commitment to the replica.
    pub comm_r: Commitment,
    /// Root of the data.
    pub comm_d: Commitment,
    /// The replica id.
    pub replica_id: ReplicaId,
    /// Interactive randomness.
    pub seed: Seed,
    /// Seal randomness.
    pub ticket: Ticket,
}

/// Whether C1 can be done: synthetic proofs of large sectors need a file that is not written yet, and non-interactive
/// ones an aggregation.
///
/// # Errors
/// [`Unsupported`] for these two above 32 KiB. A caller asks before the work of PC1.
pub fn commit1_supported(config: &PoRepConfig) -> Result<(), Unsupported> {
    match config.feature {
        ProofFeature::Interactive => Ok(()),
        _ if config.sector_size <= SectorSize::KiB32 => Ok(()),
        feature => Err(Unsupported { feature, sector_size: config.sector_size }),
    }
}

/// Opens the challenged nodes and verifies every proof before it returns. An all-zero seed is refused here, because C2
/// would refuse it, of whatever kind the proof is (proofs.md §9.8).
///
/// # Errors
/// [`PoRepError::Unsupported`]; [`PoRepError::Public`] for commitments or a seed that cannot be; else an error that names
/// the file that is missing, truncated, damaged or of another sector.
pub fn commit1(
    config: &PoRepConfig,
    input: &Commit1Input<'_>,
    control: &Control<'_>,
) -> Result<Commit1Output, PoRepError> {
    commit1_supported(config)?;
    let public = &input.public;
    for (what, value) in [("CommD", &public.comm_d), ("CommR", &public.comm_r)] {
        check_commitment(what, value).map_err(PoRepError::Public)?;
    }
    if public.seed.0 == [0; 32] {
        let got = public.seed.to_string();
        return Err(PoRepError::Public(VanillaError::Public { what: "seed", problem: "all zero", got }));
    }
    let of_pieces = piece::comm_d(config.sector_size, input.pieces).map_err(crate::Error::from)?;
    if of_pieces != public.comm_d {
        return Err(PoRepError::Public(VanillaError::Stated {
            what: "CommD",
            expected: format!("{of_pieces} by the pieces"),
            got: public.comm_d.to_string(),
        }));
    }
    control.check()?;
    let files = open(config, input.cache, input.sealed, public)?;
    let replica_id = public.replica_id(config);
    let verifier = Verifier::new(config, files.graph(), &replica_id, &public.comm_d);
    let mut vanilla_proofs = Vec::with_capacity(config.partitions);
    for partition in 0..config.partitions {
        control.report("commit1", partition as u64, config.partitions as u64, "partitions");
        let nodes = challenges_of(config, &replica_id, &public.comm_r, &public.seed, partition);
        let proofs = open_and_check(&files, &verifier, partition, &public.comm_r, &nodes, control)
            .map_err(|e| e.with_evidence(config, input.cache, input.sealed, control))?;
        vanilla_proofs.push(proofs);
    }
    control.report("commit1", config.partitions as u64, config.partitions as u64, "partitions");
    Ok(Commit1Output {
        vanilla_proofs,
        comm_r: public.comm_r,
        comm_d: public.comm_d,
        replica_id,
        seed: public.seed,
        ticket: public.ticket,
    })
}

/// Opens the files of a sealed sector and compares the roots in them (proofs.md §8.4, step 4).
pub(super) fn open(
    config: &PoRepConfig,
    cache: &Path,
    sealed: &Path,
    public: &PublicSector,
) -> Result<SealedFiles, PoRepError> {
    let aux = PAux::load(cache)?;
    let p_aux = cache.join(P_AUX);
    let comm_r = poseidon::merkle_pair(&aux.comm_c.0, &aux.comm_r_last.0).unwrap_or([0xff; 32]);
    if comm_r != public.comm_r.0 {
        return Err(PoRepError::mismatch(&p_aux, "CommR of its content", &public.comm_r.0, &comm_r));
    }
    let files = SealedFiles::open(config, cache, sealed, rows_to_discard(config, cache)?)?;
    let tree_d = files.tree_d();
    if public.comm_d.0 != *tree_d.root() {
        return Err(PoRepError::mismatch(tree_d.path(), "root of the tree", &public.comm_d.0, tree_d.root()));
    }
    check_root(files.tree_c(), &aux.comm_c)?;
    check_root(files.tree_r_last(), &aux.comm_r_last)?;
    Ok(files)
}

/// Compares a root with that in `p_aux`. The error names the base tree that is wrong, or all if that cannot be told.
fn check_root(tree: &OctalTree, expected: &Commitment) -> Result<(), PoRepError> {
    if expected.0 == *tree.root() {
        return Ok(());
    }
    if let Some((file, expected, got)) = tree.wrong_base_root()? {
        return Err(PoRepError::mismatch(file, "root, compared with the row below it,", &expected, &got));
    }
    let mut paths = tree.paths();
    let first = paths.next().expect("a tree has at least one base tree");
    let others: Vec<String> = paths.map(|path| path.display().to_string()).collect();
    let what = match &others[..] {
        [] => "root of the tree".to_owned(),
        others => format!("root of the tree over it and {}", others.join(", ")),
    };
    Err(PoRepError::mismatch(first, what, &expected.0, tree.root()))
}

/// Why a partition could not be made.
pub(super) enum Failed {
    /// As it is.
    Plain(PoRepError),
    /// The proofs do not hold.
    Refused(VanillaError),
}

/// Opens `nodes` and checks the proofs against `comm_r`.
pub(super) fn open_and_check(
    files: &SealedFiles,
    verifier: &Verifier<'_>,
    partition: usize,
    comm_r: &Commitment,
    nodes: &[u64],
    control: &Control<'_>,
) -> Result<Vec<ChallengeProof>, Failed> {
    let proofs = nodes
        .par_iter()
        .map(|&node| {
            control.check()?;
            let node = u32::try_from(node).expect("a challenge is a node of the graph");
            Ok(files.prove(node)?)
        })
        .collect::<Result<Vec<_>, PoRepError>>()
        .map_err(Failed::Plain)?;
    verifier.partition(partition, comm_r, nodes, &proofs).map_err(Failed::Refused)?;
    Ok(proofs)
}

impl Failed {
    /// Turns a refusal into an error that names files: those the sink knows to be damaged, else those that the refused
    /// part was read from.
    pub(super) fn with_evidence(
        self,
        config: &PoRepConfig,
        cache: &Path,
        sealed: &Path,
        control: &Control<'_>,
    ) -> PoRepError {
        let fault = match self {
            Failed::Plain(e @ PoRepError::Proofs(_)) => return e,
            Failed::Plain(PoRepError::Tree(e @ TreeError::File(_))) => return e.into(),
            Failed::Plain(e) => Err(e),
            Failed::Refused(fault) => Ok(fault),
        };
        let units = units_of(config);
        let path = |name: &str| if name == SEALED { sealed.to_owned() } else { store_path(cache, name) };
        let mut damaged = Vec::new();
        for unit in &units {
            let file = path(&unit.name);
            match control.reuse(unit, &file) {
                Ok(Reuse::Refused(reason)) => damaged.push((unit.clone(), file, reason)),
                Ok(Reuse::Proven | Reuse::Absent) => {}
                Err(cancelled) => return cancelled.into(),
            }
        }
        let fault = match (fault, damaged.is_empty()) {
            (Err(e), true) => return e,
            (Err(_), false) => {
                let (unit, file, reason) = damaged.swap_remove(0);
                return PoRepError::Refused { file, unit, reason };
            }
            (Ok(fault), _) => fault,
        };
        let suspects = if damaged.is_empty() {
            let stems = sources(&fault);
            let from = units.iter().filter(|unit| stems.iter().any(|stem| unit.name.starts_with(stem)));
            from.map(|unit| Suspect { file: path(&unit.name), damage: None }).collect()
        } else {
            damaged.into_iter().map(|(_, file, reason)| Suspect { file, damage: Some(reason) }).collect()
        };
        PoRepError::SelfCheck { fault: Box::new(fault), suspects }
    }
}

/// All units of PC1 and PC2, in order.
fn units_of(config: &PoRepConfig) -> Vec<Unit> {
    let count = config.shape().base_trees();
    let base_trees = |stem| (0..count).map(move |i| (PRECOMMIT2, base_tree_id(stem, i, count)));
    std::iter::once((PRECOMMIT1, TREE_D.to_owned()))
        .chain((1..=config.layers).map(|layer| (PRECOMMIT1, layer_id(layer))))
        .chain(base_trees(TREE_C))
        .chain([(PRECOMMIT2, SEALED.to_owned())])
        .chain(base_trees(TREE_R_LAST))
        .map(|(stage, name)| Unit { stage, name })
        .collect()
}

/// The units, by the beginnings of their names, that a refused part comes from.
fn sources(fault: &VanillaError) -> &'static [&'static str] {
    const LAYER: &str = "layer-";
    let VanillaError::Challenge { fault, .. } = fault else { return &[TREE_C, TREE_R_LAST] };
    let opened = |of: &Opened| -> &'static [&'static str] {
        match of {
            Opened::TreeD => &[TREE_D],
            Opened::TreeRLast => &[TREE_R_LAST, SEALED],
            Opened::Column | Opened::BaseParent(_) | Opened::ExpanderParent(_) => &[TREE_C],
        }
    };
    match &**fault {
        ChallengeFault::Path { of, .. } | ChallengeFault::Root { of, .. } => opened(of),
        ChallengeFault::ColumnHash { .. } => &[LAYER, TREE_C],
        ChallengeFault::Encoding { .. } => &[SEALED, TREE_D, LAYER],
        ChallengeFault::NotCanonical { .. } => &[LAYER, TREE_D],
        ChallengeFault::ColumnIndex { .. }
        | ChallengeFault::Count { .. }
        | ChallengeFault::Number { .. }
        | ChallengeFault::Parent { .. }
        | ChallengeFault::Label { .. } => &[LAYER],
    }
}

/// Verifies a C1 output for what the verifier knows of the sector: that it states the same values, and every proof in it
/// (proofs.md §8.5, and more: see [`crate::vanilla::verify`]).
///
/// # Errors
/// The first thing that is wrong, with partition and challenge.
pub fn verify_vanilla(
    config: &PoRepConfig,
    public: &PublicSector,
    output: &Commit1Output,
) -> Result<(), VanillaError> {
    let stated = [
        ("CommR", public.comm_r.0, output.comm_r.0),
        ("CommD", public.comm_d.0, output.comm_d.0),
        ("replica id", public.replica_id(config).0, output.replica_id.0),
        ("seed", public.seed.0, output.seed.0),
        ("ticket", public.ticket.0, output.ticket.0),
    ];
    for (what, expected, got) in stated {
        if expected != got {
            return Err(VanillaError::Stated {
                what,
                expected: hex::encode(expected),
                got: hex::encode(got),
            });
        }
    }
    verify(config, public, &output.vanilla_proofs)
}
