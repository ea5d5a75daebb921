//! Vanilla verification (proofs.md §8.5): everything the reference checks, and what it leaves to the circuit.
//!
//! Beyond the reference: the listed parent labels must be those of the opened columns, and the layer and node numbers
//! those of the challenge. Honest proofs have both.

pub use super::fault::{ChallengeFault, Opened, Stage, VanillaError};

use super::{ChallengeProof, ColumnProof, LabelingProof, REPEATED_PARENTS, repeated_parents};
use crate::challenges::{self, SyntheticSet};
use crate::field::{Fr, is_canonical};
use crate::graph::Graph;
use crate::params::{BASE_DEGREE, EXPANDER_DEGREE, PoRepConfig};
use crate::tree::path::{MerkleProof, PathShape};
use crate::{Node, labels, poseidon};
use primitives::{Commitment, ProofFeature, ProverId, ReplicaId, SectorNumber, Seed, Ticket};
use rayon::prelude::*;

/// What a verifier knows of a sector by itself, from the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicSector {
    /// The miner.
    pub prover_id: ProverId,
    /// The sector.
    pub sector_number: SectorNumber,
    /// Seal randomness.
    pub ticket: Ticket,
    /// Interactive randomness. Not used by non-interactive proofs.
    pub seed: Seed,
    /// Root of the data.
    pub comm_d: Commitment,
    /// Commitment to the replica.
    pub comm_r: Commitment,
}

impl PublicSector {
    /// The replica id these give (proofs.md §4.1).
    pub fn replica_id(&self, config: &PoRepConfig) -> ReplicaId {
        labels::replica_id(&self.prover_id, self.sector_number, &self.ticket, &self.comm_d, &config.porep_id)
    }
}

/// The challenged nodes of a partition (proofs.md §7).
pub fn challenges_of(
    config: &PoRepConfig,
    replica_id: &ReplicaId,
    comm_r: &Commitment,
    seed: &Seed,
    partition: usize,
) -> Vec<u64> {
    let (nodes, n) = (config.nodes(), config.challenges_per_partition as u32);
    // The partition number is one byte in the reference (proofs.md §13, trap 30).
    let numbers = (0..n).map(|i| n * u32::from(partition as u8) + i);
    match config.feature {
        ProofFeature::Interactive => {
            numbers.map(|j| challenges::interactive(nodes, replica_id, seed, j)).collect()
        }
        ProofFeature::NonInteractive => {
            numbers.map(|j| challenges::non_interactive(nodes, replica_id, comm_r, j)).collect()
        }
        ProofFeature::Synthetic => {
            let mut set = SyntheticSet::new(nodes, replica_id, comm_r);
            let picks: Vec<u64> = numbers.map(|j| set.pick(seed, j)).collect();
            picks.into_iter().map(|index| set.get(index)).collect()
        }
    }
}

/// Checks the proofs of all partitions against what the verifier knows.
///
/// # Errors
/// The first thing that is wrong: its partition, challenge and what it is.
pub fn verify(
    config: &PoRepConfig,
    sector: &PublicSector,
    proofs: &[Vec<ChallengeProof>],
) -> Result<(), VanillaError> {
    for (what, value) in [("CommD", &sector.comm_d), ("CommR", &sector.comm_r)] {
        check_commitment(what, value)?;
    }
    let got = config.partitions * config.challenges_per_partition;
    if !config.has_enough_challenges() {
        let expected = crate::params::minimum_challenges(config.sector_size, config.feature);
        return Err(VanillaError::Requirement { expected, got });
    }
    if proofs.len() != config.partitions {
        return Err(VanillaError::Partitions { expected: config.partitions, got: proofs.len() });
    }
    let replica_id = sector.replica_id(config);
    let graph = Graph::of(config);
    let verifier = Verifier::new(config, &graph, &replica_id, &sector.comm_d);
    for (partition, proofs) in proofs.iter().enumerate() {
        let nodes = challenges_of(config, &replica_id, &sector.comm_r, &sector.seed, partition);
        verifier.partition(partition, &sector.comm_r, &nodes, proofs)?;
    }
    Ok(())
}

/// A commitment from outside: neither all zero nor beyond the field (proofs.md §1.2).
pub(crate) fn check_commitment(what: &'static str, value: &Commitment) -> Result<(), VanillaError> {
    let problem = match value.0 {
        zero if zero == [0; 32] => "all zero",
        ref bytes if !is_canonical(bytes) => "not a field element",
        _ => return Ok(()),
    };
    Err(VanillaError::Public { what, problem, got: value.to_string() })
}

/// Checks challenge proofs of one replica.
pub(crate) struct Verifier<'a> {
    graph: &'a Graph,
    replica_id: ReplicaId,
    comm_d: Node,
    layers: usize,
    tree_d: PathShape,
    octal: PathShape,
}

/// The roots that all proofs of a partition share.
#[derive(Clone, Copy)]
struct Roots {
    comm_c: Node,
    comm_r_last: Node,
}

impl<'a> Verifier<'a> {
    /// Of the replica with this id. `graph` is that of the configuration.
    pub(crate) fn new(
        config: &PoRepConfig,
        graph: &'a Graph,
        replica_id: &ReplicaId,
        comm_d: &Commitment,
    ) -> Self {
        Self {
            graph,
            replica_id: *replica_id,
            comm_d: comm_d.0,
            layers: config.layers,
            tree_d: PathShape::tree_d(config.nodes()),
            octal: PathShape::octal(&config.shape()),
        }
    }

    /// Checks one partition: one proof for each of `nodes`, all over the same roots, which make up `comm_r`.
    pub(crate) fn partition(
        &self,
        partition: usize,
        comm_r: &Commitment,
        nodes: &[u64],
        proofs: &[ChallengeProof],
    ) -> Result<(), VanillaError> {
        let (expected, got) = (nodes.len(), proofs.len());
        let Some(first) = proofs.first().filter(|_| expected == got) else {
            return Err(VanillaError::Challenges { partition, expected, got });
        };
        let roots = Roots {
            comm_c: *first.replica_column_proofs.c_x.inclusion_proof.root(),
            comm_r_last: *first.comm_r_last_proof.root(),
        };
        let hashed = poseidon::merkle_pair(&roots.comm_c, &roots.comm_r_last);
        if hashed != Some(comm_r.0) {
            return Err(VanillaError::CommR {
                partition,
                comm_c: hex::encode(roots.comm_c),
                comm_r_last: hex::encode(roots.comm_r_last),
                expected: comm_r.to_string(),
                got: hashed.map_or_else(|| "no field element".to_owned(), hex::encode),
            });
        }
        let faults: Vec<Option<VanillaError>> = proofs
            .par_iter()
            .zip(nodes)
            .enumerate()
            .map(|(number, (proof, &node))| {
                let fault = Box::new(self.challenge(&roots, node, proof).err()?);
                Some(VanillaError::Challenge { partition, number, node, fault })
            })
            .collect();
        faults.into_iter().flatten().next().map_or(Ok(()), Err)
    }

    /// Checks the proof of one challenged node.
    fn challenge(&self, roots: &Roots, node: u64, proof: &ChallengeProof) -> Result<(), ChallengeFault> {
        self.path(Opened::TreeD, &proof.comm_d_proofs, &self.tree_d, node, &self.comm_d)?;
        self.path(Opened::TreeRLast, &proof.comm_r_last_proof, &self.octal, node, &roots.comm_r_last)?;

        let columns = &proof.replica_column_proofs;
        count("base parents", BASE_DEGREE, columns.drg_parents.len())?;
        count("expander parents", EXPANDER_DEGREE, columns.exp_parents.len())?;
        self.column(Opened::Column, &columns.c_x, node, &roots.comm_c)?;
        let index = u32::try_from(node).expect("a challenge is a node of the graph");
        let parents = self.graph.parents(index).map(u64::from);
        for (i, (column, parent)) in columns.drg_parents.iter().zip(&parents[..BASE_DEGREE]).enumerate() {
            self.column(Opened::BaseParent(i), column, *parent, &roots.comm_c)?;
        }
        for (i, (column, parent)) in columns.exp_parents.iter().zip(&parents[BASE_DEGREE..]).enumerate() {
            self.column(Opened::ExpanderParent(i), column, *parent, &roots.comm_c)?;
        }

        let drg: Vec<&[Node]> = columns.drg_parents.iter().map(|c| &c.column.rows[..]).collect();
        let exp: Vec<&[Node]> = columns.exp_parents.iter().map(|c| &c.column.rows[..]).collect();
        count("labelling proofs", self.layers, proof.labeling_proofs.len())?;
        for (layer, (labeling, label)) in
            (1..).zip(proof.labeling_proofs.iter().zip(&columns.c_x.column.rows))
        {
            let listed = repeated_parents(layer, &drg, &exp);
            self.label(Stage::Labeling(layer), layer, node, labeling, &listed, label)?;
        }
        // The key is the last layer's label.
        let (last, key) = (self.layers, &columns.c_x.column.rows[self.layers - 1]);
        let listed = repeated_parents(last, &drg, &exp);
        self.label(Stage::Encoding, last, node, &proof.encoding_proof, &listed, key)?;

        let data = element("the data node", proof.comm_d_proofs.leaf())?;
        let key = element("the key", key)?;
        let (expected, got) = ((data + key).to_bytes_le(), proof.comm_r_last_proof.leaf());
        if *got != expected {
            return Err(ChallengeFault::Encoding { expected: hex::encode(expected), got: hex::encode(got) });
        }
        Ok(())
    }

    /// Checks an inclusion proof of node `index` under `root`.
    fn path(
        &self,
        of: Opened,
        proof: &MerkleProof,
        shape: &PathShape,
        index: u64,
        root: &Node,
    ) -> Result<(), ChallengeFault> {
        if proof.root() != root {
            return Err(ChallengeFault::Root {
                of,
                expected: hex::encode(root),
                got: hex::encode(proof.root()),
            });
        }
        proof.check(shape, index).map_err(|fault| ChallengeFault::Path { of, fault })
    }

    /// Checks that a column is that of node `index` and in tree-C.
    fn column(
        &self,
        of: Opened,
        proof: &ColumnProof,
        index: u64,
        comm_c: &Node,
    ) -> Result<(), ChallengeFault> {
        let column = &proof.column;
        if u64::from(column.index) != index {
            return Err(ChallengeFault::ColumnIndex { of, expected: index, got: column.index.into() });
        }
        count("labels in a column", self.layers, column.rows.len())?;
        let labels: Result<Vec<Fr>, ChallengeFault> = (1..)
            .zip(&column.rows)
            .map(|(layer, label)| element(&format!("the label of layer {layer} in {of}"), label))
            .collect();
        let hash = poseidon::merkle(&labels?).to_bytes_le();
        if *proof.inclusion_proof.leaf() != hash {
            return Err(ChallengeFault::ColumnHash {
                of,
                expected: hex::encode(hash),
                got: hex::encode(proof.inclusion_proof.leaf()),
            });
        }
        self.path(of, &proof.inclusion_proof, &self.octal, index, comm_c)
    }

    /// Checks that a proof is of this layer and node, lists the parents of the opened columns, and hashes to `label`.
    fn label(
        &self,
        of: Stage,
        layer: usize,
        node: u64,
        proof: &LabelingProof,
        listed: &[Node],
        label: &Node,
    ) -> Result<(), ChallengeFault> {
        let numbers = [("layer_index", layer as u64, proof.layer_index.into()), ("node", node, proof.node)];
        for (field, expected, got) in numbers {
            if got != expected {
                return Err(ChallengeFault::Number { of, field, expected, got });
            }
        }
        count("parent labels", REPEATED_PARENTS, proof.parents.len())?;
        for (position, (expected, got)) in listed.iter().zip(&proof.parents).enumerate() {
            if expected != got {
                let (expected, got) = (hex::encode(expected), hex::encode(got));
                return Err(ChallengeFault::Parent { of, position, expected, got });
            }
        }
        // The list repeats the parents, so that its beginning is all of them.
        let parents = &proof.parents[..labels::parent_count(layer as u32, node)];
        let hash = labels::label_of(&self.replica_id, layer as u32, node, parents)
            .expect("as many parents as the node has on this layer");
        if hash != *label {
            return Err(ChallengeFault::Label { of, expected: hex::encode(hash), got: hex::encode(label) });
        }
        Ok(())
    }
}

fn count(what: &'static str, expected: usize, got: usize) -> Result<(), ChallengeFault> {
    if expected == got { Ok(()) } else { Err(ChallengeFault::Count { what, expected, got }) }
}

fn element(what: &str, node: &Node) -> Result<Fr, ChallengeFault> {
    Fr::from_bytes_le(node)
        .ok_or_else(|| ChallengeFault::NotCanonical { what: what.to_owned(), got: hex::encode(node) })
}
