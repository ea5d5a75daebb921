//! The C1 output in the forms of other tools (proofs.md §8.3): compact JSON and bincode 1, with the proof type in it.

use super::ChallengeProof;
use crate::Node;
use crate::codec::{CodecError, Reader, Writer};
use crate::porep::Commit1Output;
use primitives::{Commitment, RegisteredSealProof, ReplicaId, Seed, Ticket};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Text or bytes that are no output of the stage they should be of.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// Not the JSON it should be.
    #[error("not the JSON of this stage's output: {0}")]
    Json(#[from] serde_json::Error),
    /// Not the bytes it should be.
    #[error("not the bytes of this stage's output: {0}")]
    Bytes(#[from] CodecError),
    /// The proof type is not registered.
    #[error("{0:?} is not the name of a registered seal proof")]
    UnknownProof(String),
    /// The proofs are labelled as of another size.
    #[error("the {field} are of {got:?}, expected {expected:?}")]
    Variant {
        /// `vanilla_proofs` or `labels`.
        field: &'static str,
        /// The V1 name of the size.
        expected: &'static str,
        /// The name given.
        got: String,
    },
}

/// A value under the V1 name of its size, whatever the version of the proof.
pub(crate) type Variant<T> = BTreeMap<String, T>;

/// The proof type with this name.
pub(crate) fn proof_named(name: &str) -> Result<RegisteredSealProof, WireError> {
    RegisteredSealProof::from_name(name)
        .ok_or_else(|| WireError::UnknownProof(name.chars().take(80).collect()))
}

/// Takes the only value out of a variant, which must have the V1 name of the proof's size.
pub(crate) fn only<T>(
    field: &'static str,
    proof: RegisteredSealProof,
    mut variant: Variant<T>,
) -> Result<T, WireError> {
    let expected = proof.v1_name();
    match (variant.remove(expected), variant.into_keys().next()) {
        (Some(value), None) => Ok(value),
        (_, got) => Err(WireError::Variant { field, expected, got: got.unwrap_or_default() }),
    }
}

#[derive(Serialize, Deserialize)]
struct Json<P> {
    registered_proof: String,
    vanilla_proofs: P,
    comm_r: Node,
    comm_d: Node,
    replica_id: Node,
    seed: Node,
    ticket: Node,
}

impl Commit1Output {
    /// Compact JSON, equal byte for byte to the reference's.
    pub fn to_json(&self, proof: RegisteredSealProof) -> String {
        let json = Json {
            registered_proof: proof.name(),
            vanilla_proofs: BTreeMap::from([(proof.v1_name(), &self.vanilla_proofs)]),
            comm_r: self.comm_r.0,
            comm_d: self.comm_d.0,
            replica_id: self.replica_id.0,
            seed: self.seed.0,
            ticket: self.ticket.0,
        };
        serde_json::to_string(&json).expect("plain structs with text keys have a JSON form")
    }

    /// Reads JSON; unknown keys are ignored.
    ///
    /// # Errors
    /// If it is no C1 output, or its proof type is unknown or does not fit its proofs.
    pub fn from_json(text: &str) -> Result<(RegisteredSealProof, Self), WireError> {
        let json: Json<Variant<Vec<Vec<ChallengeProof>>>> = serde_json::from_str(text)?;
        let proof = proof_named(&json.registered_proof)?;
        let output = Self {
            vanilla_proofs: only("vanilla_proofs", proof, json.vanilla_proofs)?,
            comm_r: Commitment(json.comm_r),
            comm_d: Commitment(json.comm_d),
            replica_id: ReplicaId(json.replica_id),
            seed: Seed(json.seed),
            ticket: Ticket(json.ticket),
        };
        Ok((proof, output))
    }

    /// The byte form: proof number, place of the size among the five registered ones, proofs, and the six values.
    pub fn to_bytes(&self, proof: RegisteredSealProof) -> Vec<u8> {
        let mut out = Writer::new();
        out.u32(proof.number() as u32);
        out.u32((proof.number() % 5) as u32);
        out.list(&self.vanilla_proofs, |out, partition| out.list(partition, |out, p| p.encode(out)));
        for value in [&self.comm_r.0, &self.comm_d.0, &self.replica_id.0, &self.seed.0, &self.ticket.0] {
            out.node(value);
        }
        out.into_bytes()
    }

    /// Reads the byte form; all of it must be used.
    ///
    /// # Errors
    /// If it is no C1 output.
    pub fn from_bytes(bytes: &[u8]) -> Result<(RegisteredSealProof, Self), WireError> {
        let mut input = Reader::new(bytes);
        let number = input.u32("registered_proof")?;
        let proof = RegisteredSealProof::new(u64::from(number))
            .map_err(|e| input.bad("registered_proof", e.to_string()))?;
        let size = input.u32("vanilla_proofs")?;
        if u64::from(size) != proof.number() % 5 {
            return Err(input.bad("vanilla_proofs", format!("variant {size} in a {proof}")).into());
        }
        let vanilla_proofs =
            input.list("vanilla_proofs", |input| input.list("partition", ChallengeProof::decode))?;
        let output = Self {
            vanilla_proofs,
            comm_r: Commitment(input.node("comm_r")?),
            comm_d: Commitment(input.node("comm_d")?),
            replica_id: ReplicaId(input.node("replica_id")?),
            seed: Seed(input.node("seed")?),
            ticket: Ticket(input.node("ticket")?),
        };
        input.end()?;
        Ok((proof, output))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn hostile_bytes_are_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300), number in 0u32..20) {
            prop_assert!(Commit1Output::from_bytes(&bytes).is_err());
            let mut headed = number.to_le_bytes().to_vec();
            headed.extend((number % 5).to_le_bytes());
            headed.extend(&bytes);
            let _ = Commit1Output::from_bytes(&headed);
        }

        #[test]
        fn empty_outputs_round_trip(values: [[u8; 32]; 5], number in 0u64..20, partitions in 0usize..5) {
            let proof = RegisteredSealProof::new(number).unwrap();
            let output = Commit1Output {
                vanilla_proofs: vec![Vec::new(); partitions],
                comm_r: Commitment(values[0]),
                comm_d: Commitment(values[1]),
                replica_id: ReplicaId(values[2]),
                seed: Seed(values[3]),
                ticket: Ticket(values[4]),
            };
            prop_assert_eq!(Commit1Output::from_bytes(&output.to_bytes(proof)).unwrap(), (proof, output.clone()));
            prop_assert_eq!(Commit1Output::from_json(&output.to_json(proof)).unwrap(), (proof, output));
        }
    }
}
