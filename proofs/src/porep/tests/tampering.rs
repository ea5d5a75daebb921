//! Every value in a proof is changed, every list shortened and lengthened: the verifier must refuse each.

use super::*;
use crate::vanilla::ChallengeProof;
use crate::vanilla::verify::{ChallengeFault, Opened, Stage, VanillaError, verify};
use serde_json::Value;

/// All changes of one place in a JSON value, handed over one at a time.
fn each_change(value: &Value, path: &str, emit: &mut dyn FnMut(&str, Value)) {
    match value {
        Value::Number(n) => {
            let n = n.as_u64().unwrap();
            emit(&format!("{path} + 1"), Value::from(n + 1));
            if n > 0 {
                emit(&format!("{path} = 0"), Value::from(0));
            }
        }
        Value::Array(items) if items.len() == 32 && items.iter().all(Value::is_u64) => {
            // A node: one byte flipped, and bytes that are no field element.
            let mut other = items.clone();
            other[path.len() % 32] = Value::from(items[path.len() % 32].as_u64().unwrap() ^ 1);
            emit(&format!("{path} flipped"), Value::from(other));
            emit(&format!("{path} = ff"), Value::from(vec![255; 32]));
        }
        Value::Array(items) => {
            if let Some(last) = items.last() {
                emit(&format!("{path} shortened"), Value::from(items[..items.len() - 1].to_vec()));
                let longer: Vec<Value> = items.iter().chain([last]).cloned().collect();
                emit(&format!("{path} lengthened"), Value::from(longer));
                emit(&format!("{path} emptied"), Value::Array(Vec::new()));
            }
            for (i, item) in items.iter().enumerate() {
                each_change(item, &format!("{path}[{i}]"), &mut |what, changed| {
                    let mut items = items.clone();
                    items[i] = changed;
                    emit(what, Value::from(items));
                });
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                each_change(field, &format!("{path}.{name}"), &mut |what, changed| {
                    let mut fields = fields.clone();
                    fields.insert(name.clone(), changed);
                    emit(what, Value::from(fields));
                });
            }
        }
        Value::Null => {}
        other => panic!("{path}: {other}"),
    }
}

#[test]
fn every_change_of_a_proof_is_refused() {
    // The small size in full; of the other shapes every so many changes, all kinds of place among them.
    for (size, every) in [(SectorSize::KiB2, 1), (SectorSize::KiB4, 11), (SectorSize::KiB32, 13)] {
        let sector = Sector::sample(size);
        let (_, pc2) = sector.seal();
        let public = sector.public(&pc2);
        let output = sector.c1(public, &Control::none()).unwrap();
        let [first, second] = &output.vanilla_proofs[0][..] else { panic!("two challenges") };
        let json = serde_json::to_value(second).unwrap();
        let mut changes = 0;
        each_change(&json, "proof", &mut |what, changed| {
            changes += 1;
            if changes % every != 0 {
                return;
            }
            // Some changes are no longer a proof of any kind.
            let Ok(changed) = serde_json::from_value::<ChallengeProof>(changed) else { return };
            let refused = verify(&sector.config, &public, &[vec![first.clone(), changed]]).unwrap_err();
            let VanillaError::Challenge { partition: 0, number: 1, .. } = refused else {
                panic!("{size}, {what}: {refused}")
            };
        });
        assert!(changes > 900, "{size}: {changes} changes");
        // The first proof states the partition's roots.
        let mut tampered = output.clone();
        let MerkleRoot(root) = MerkleRoot::of(&mut tampered.vanilla_proofs[0][0]);
        root[0] ^= 1;
        let refused = verify_vanilla(&sector.config, &public, &tampered).unwrap_err();
        assert!(matches!(refused, VanillaError::CommR { partition: 0, .. }), "{refused}");
    }
}

/// The root of tree-C in the proof of the challenge's column.
struct MerkleRoot<'a>(&'a mut Node);

impl<'a> MerkleRoot<'a> {
    fn of(proof: &'a mut ChallengeProof) -> Self {
        use crate::tree::path::ProofData;
        let (ProofData::Single { root, .. } | ProofData::Sub { root, .. } | ProofData::Top { root, .. }) =
            &mut proof.replica_column_proofs.c_x.inclusion_proof.data;
        Self(root)
    }
}

#[test]
fn what_is_stated_and_what_is_known_must_agree() {
    let sector = Sector::sample(SectorSize::KiB2);
    let (_, pc2) = sector.seal();
    let public = sector.public(&pc2);
    let output = sector.c1(public, &Control::none()).unwrap();
    let refused = |public: &PublicSector, output: &Commit1Output| {
        verify_vanilla(&sector.config, public, output).unwrap_err()
    };
    type Field = (&'static str, fn(&mut Commit1Output) -> &mut Node);
    let fields: [Field; 5] = [
        ("CommR", |o| &mut o.comm_r.0),
        ("CommD", |o| &mut o.comm_d.0),
        ("replica id", |o| &mut o.replica_id.0),
        ("seed", |o| &mut o.seed.0),
        ("ticket", |o| &mut o.ticket.0),
    ];
    for (name, field) in fields {
        let mut other = output.clone();
        field(&mut other)[0] ^= 1;
        let e = refused(&public, &other);
        assert!(matches!(&e, VanillaError::Stated { what, .. } if *what == name), "{e}");
    }
    // A verifier that knows another sector, whatever the output states.
    let knows = [
        PublicSector { prover_id: ProverId::from_actor(ActorId(1001)), ..public },
        PublicSector { sector_number: SectorNumber(2), ..public },
        PublicSector { ticket: Ticket([2; 32]), ..public },
        PublicSector { seed: Seed([3; 32]), ..public },
        PublicSector { comm_d: Commitment([3; 32]), ..public },
        PublicSector { comm_r: Commitment([3; 32]), ..public },
        PublicSector { comm_d: Commitment([0; 32]), ..public },
        PublicSector { comm_r: Commitment([0xff; 32]), ..public },
    ];
    for known in knows {
        assert!(verify(&sector.config, &known, &output.vanilla_proofs).is_err(), "{known:?}");
    }
    // Another graph or another number of challenges.
    let other = config(SectorSize::KiB2, 0, ApiVersion::V1_1_0);
    assert!(verify(&other, &public, &output.vanilla_proofs).is_err());
    let fewer = sector.config.clone().with_challenges(1, 1).unwrap();
    let e = verify(&fewer, &public, &output.vanilla_proofs).unwrap_err();
    assert!(matches!(e, VanillaError::Requirement { expected: 2, got: 1 }), "{e}");
    for wrong in [vec![], vec![vec![]], vec![output.vanilla_proofs[0].clone(); 2]] {
        let e = verify(&sector.config, &public, &wrong).unwrap_err();
        assert!(matches!(e, VanillaError::Partitions { .. } | VanillaError::Challenges { .. }), "{e}");
    }
    let mut swapped = output.clone();
    swapped.vanilla_proofs[0].swap(0, 1);
    assert!(matches!(refused(&public, &swapped), VanillaError::Challenge { .. }));
}

#[test]
fn refusals_say_what_failed() {
    let sector = Sector::sample(SectorSize::KiB2);
    let (_, pc2) = sector.seal();
    let public = sector.public(&pc2);
    let output = sector.c1(public, &Control::none()).unwrap();
    let fault_of = |change: &dyn Fn(&mut ChallengeProof)| {
        let mut proofs = output.vanilla_proofs.clone();
        change(&mut proofs[0][0]);
        match verify(&sector.config, &public, &proofs).unwrap_err() {
            VanillaError::Challenge { partition: 0, number: 0, node: 6, fault } => *fault,
            e => panic!("{e}"),
        }
    };
    // What the reference leaves to the circuit.
    let fault = fault_of(&|p| p.labeling_proofs[1].parents[36][0] ^= 1);
    assert!(matches!(fault, ChallengeFault::Parent { of: Stage::Labeling(2), position: 36, .. }), "{fault}");
    let fault = fault_of(&|p| p.labeling_proofs[0].layer_index = 2);
    let of = Stage::Labeling(1);
    assert_eq!(fault, ChallengeFault::Number { of, field: "layer_index", expected: 1, got: 2 });
    let fault = fault_of(&|p| p.encoding_proof.node = 7);
    assert_eq!(fault, ChallengeFault::Number { of: Stage::Encoding, field: "node", expected: 6, got: 7 });
    // What it checks too.
    let fault = fault_of(&|p| p.replica_column_proofs.exp_parents.swap(0, 1));
    assert!(matches!(fault, ChallengeFault::ColumnIndex { of: Opened::ExpanderParent(0), .. }), "{fault}");
    let fault = fault_of(&|p| p.replica_column_proofs.c_x.column.rows[0][0] ^= 1);
    assert!(matches!(fault, ChallengeFault::ColumnHash { of: Opened::Column, .. }), "{fault}");
    let fault = fault_of(&|p| p.comm_d_proofs = p.replica_column_proofs.c_x.inclusion_proof.clone());
    assert!(matches!(fault, ChallengeFault::Root { of: Opened::TreeD, .. }), "{fault}");
}
