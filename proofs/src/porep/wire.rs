//! PC1 and PC2 outputs in the JSON of other tools (proofs.md §4.5, §5.5).

use super::{PreCommit1Output, PreCommit2Output};
use crate::Node;
use crate::files::config::StoreConfig;
use crate::vanilla::wire::{Variant, WireError, only, proof_named};
use primitives::{Commitment, RegisteredSealProof, ReplicaId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Serialize, Deserialize)]
struct Labels {
    labels: Vec<StoreConfig>,
    #[serde(rename = "_h")]
    phantom: (),
}

#[derive(Serialize, Deserialize)]
struct Pc1Json {
    registered_proof: String,
    labels: Variant<Labels>,
    config: StoreConfig,
    comm_d: Node,
}

#[derive(Serialize, Deserialize)]
struct Pc2Json {
    registered_proof: String,
    comm_r: Node,
    comm_d: Node,
}

impl PreCommit1Output {
    /// Compact JSON, equal byte for byte to the reference's. The replica id is not in it.
    pub fn to_json(&self, proof: RegisteredSealProof) -> String {
        let json = Pc1Json {
            registered_proof: proof.name(),
            labels: BTreeMap::from([(
                proof.v1_name().to_owned(),
                Labels { labels: self.labels.clone(), phantom: () },
            )]),
            config: self.config.clone(),
            comm_d: self.comm_d.0,
        };
        serde_json::to_string(&json).expect("plain structs with text keys have a JSON form")
    }

    /// Reads JSON; unknown keys are ignored. The replica id comes from [`super::SectorInput::replica_id`].
    ///
    /// # Errors
    /// If it is no PC1 output, or its proof type is unknown or does not fit its labels.
    pub fn from_json(text: &str, replica_id: ReplicaId) -> Result<(RegisteredSealProof, Self), WireError> {
        let json: Pc1Json = serde_json::from_str(text)?;
        let proof = proof_named(&json.registered_proof)?;
        let labels = only("labels", proof, json.labels)?.labels;
        let comm_d = Commitment(json.comm_d);
        Ok((proof, Self { comm_d, replica_id, labels, config: json.config }))
    }
}

impl PreCommit2Output {
    /// Compact JSON, equal byte for byte to the reference's: CommR and CommD.
    pub fn to_json(&self, proof: RegisteredSealProof) -> String {
        let json = Pc2Json { registered_proof: proof.name(), comm_r: self.comm_r.0, comm_d: self.comm_d.0 };
        serde_json::to_string(&json).expect("plain structs have a JSON form")
    }

    /// Reads proof type, CommR and CommD from JSON; unknown keys are ignored.
    ///
    /// # Errors
    /// If it is no PC2 output or its proof type is unknown.
    pub fn commitments_from_json(
        text: &str,
    ) -> Result<(RegisteredSealProof, Commitment, Commitment), WireError> {
        let json: Pc2Json = serde_json::from_str(text)?;
        Ok((proof_named(&json.registered_proof)?, Commitment(json.comm_r), Commitment(json.comm_d)))
    }
}
