//! Parameters and return values of the miner actor's sealing methods, in tuple CBOR (`chain.md` §3.5, §3.6).
//!
//! Values that the actor checks itself (proof types, CIDs) are kept as they came: a wrong one must reach the check and
//! get its exit code, not fail as a decoding error.

use crate::{Address, ExitCode};
use cid::Cid;
use fvm_ipld_encoding::RawBytes;
use primitives::{Epoch, SectorNumber};
use serde_tuple::{Deserialize_tuple, Serialize_tuple};

/// One sector of a pre-commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize_tuple, Deserialize_tuple)]
pub struct PreCommitInfo {
    /// The registered seal proof, by number.
    pub seal_proof: i64,
    /// The sector's number.
    pub number: SectorNumber,
    /// CommR as a CID.
    pub sealed_cid: Cid,
    /// The epoch of the ticket; may be negative on a young chain.
    pub seal_rand_epoch: Epoch,
    /// Always empty for new sectors: prove-commit refuses others.
    pub deal_ids: Vec<u64>,
    /// The epoch at which the sector shall expire.
    pub expiration: Epoch,
    /// CommD as a CID; `None` for a sector of zeros.
    pub unsealed_cid: Option<Cid>,
}

/// Parameters of `PreCommitSectorBatch2` (28). It returns nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize_tuple, Deserialize_tuple)]
pub struct PreCommitSectorBatch2Params {
    /// The sectors; not empty.
    pub sectors: Vec<PreCommitInfo>,
}

/// The verified allocation that a piece claims.
#[derive(Debug, Clone, PartialEq, Eq, Serialize_tuple, Deserialize_tuple)]
pub struct AllocationKey {
    /// The client's number.
    pub client: u64,
    /// The allocation's number.
    pub id: u64,
}

/// Someone to be told of a piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize_tuple, Deserialize_tuple)]
pub struct Notify {
    /// The receiver.
    pub address: Address,
    /// What it is told.
    pub payload: RawBytes,
}

/// One piece of a sector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize_tuple, Deserialize_tuple)]
pub struct PieceManifest {
    /// CommP as a CID.
    pub cid: Cid,
    /// Its padded size in bytes, a power of two.
    pub size: u64,
    /// The allocation it claims, if any.
    pub allocation: Option<AllocationKey>,
    /// Who is told.
    pub notify: Vec<Notify>,
}

/// One sector of a prove-commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize_tuple, Deserialize_tuple)]
pub struct SectorActivation {
    /// The sector's number.
    pub number: SectorNumber,
    /// Its pieces in order; with zeros up to the sector's size they must give the pre-committed CommD.
    pub pieces: Vec<PieceManifest>,
}

/// Parameters of `ProveCommitSectors3` (34); it returns a [`BatchReturn`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize_tuple, Deserialize_tuple)]
pub struct ProveCommitSectors3Params {
    /// The sectors.
    pub activations: Vec<SectorActivation>,
    /// One proof for each sector, in the same order, or empty.
    pub proofs: Vec<RawBytes>,
    /// One proof for all, or empty.
    pub aggregate_proof: RawBytes,
    /// Its type (1 is SnarkPack V2); `None` without one.
    pub aggregate_type: Option<i64>,
    /// Whether one failing sector makes the whole message fail.
    pub require_activation_success: bool,
    /// Whether one failing notification makes the whole message fail.
    pub require_notification_success: bool,
}

/// A sector of a batch that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize_tuple, Deserialize_tuple)]
pub struct BatchFailure {
    /// Its place in the batch, from 0.
    pub index: u64,
    /// Why.
    pub code: ExitCode,
}

/// How the members of a batch fared.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize_tuple, Deserialize_tuple)]
pub struct BatchReturn {
    /// How many succeeded.
    pub successes: u64,
    /// Those that did not, by ascending place.
    pub failures: Vec<BatchFailure>,
}

impl BatchReturn {
    /// The exit code of the member at a place.
    pub fn code(&self, index: u64) -> ExitCode {
        self.failures.iter().find(|f| f.index == index).map_or(ExitCode::OK, |f| f.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cbor;
    use primitives::{Commitment, cids};
    use proptest::prelude::*;

    fn pair() -> PreCommitSectorBatch2Params {
        let info = |unsealed_cid| PreCommitInfo {
            seal_proof: 5,
            number: SectorNumber(7),
            sealed_cid: cids::comm_r_to_cid(&Commitment([0x11; 32])),
            seal_rand_epoch: 1000,
            deal_ids: vec![],
            expiration: 600_000,
            unsealed_cid,
        };
        let unsealed = cids::comm_d_to_cid(&Commitment([0x22; 32]));
        PreCommitSectorBatch2Params { sectors: vec![info(None), info(Some(unsealed))] }
    }

    fn prove() -> ProveCommitSectors3Params {
        let cid = cids::comm_d_to_cid(&Commitment([0x22; 32]));
        ProveCommitSectors3Params {
            activations: vec![SectorActivation {
                number: SectorNumber(7),
                pieces: vec![PieceManifest { cid, size: 2048, allocation: None, notify: vec![] }],
            }],
            proofs: vec![RawBytes::new(vec![0xab; 4])],
            aggregate_proof: RawBytes::default(),
            aggregate_type: None,
            require_activation_success: true,
            require_notification_success: false,
        }
    }

    #[test]
    fn known_answers() {
        // chain-vectors.json, params.
        let sealed = format!("d82a5829000182e20381e80220{}", "11".repeat(32));
        let unsealed = format!("d82a5828000181e203922020{}", "22".repeat(32));
        let hex = format!("8182870507{sealed}1903e8801a000927c0f6870507{sealed}1903e8801a000927c0{unsealed}");
        assert_eq!(hex::encode(cbor::encode(&pair())), hex);
        let bytes = hex::decode(hex).unwrap();
        assert_eq!(cbor::decode::<PreCommitSectorBatch2Params>("x", &bytes).unwrap(), pair());

        let hex = format!("868182078184{unsealed}190800f6808144abababab40f6f5f4");
        assert_eq!(hex::encode(cbor::encode(&prove())), hex);
        let bytes = hex::decode(hex).unwrap();
        assert_eq!(cbor::decode::<ProveCommitSectors3Params>("x", &bytes).unwrap(), prove());
    }

    #[test]
    fn the_return_lists_failures_only() {
        let value = BatchReturn {
            successes: 1,
            failures: vec![BatchFailure { index: 1, code: ExitCode::ILLEGAL_ARGUMENT }],
        };
        assert_eq!(hex::encode(cbor::encode(&value)), "820181820110");
        assert_eq!(value.code(0), ExitCode::OK);
        assert_eq!(value.code(1), ExitCode::ILLEGAL_ARGUMENT);
    }

    #[test]
    fn longer_tuples_are_refused() {
        let mut bytes = cbor::encode(&BatchReturn::default());
        assert_eq!(bytes, [0x82, 0, 0x80]);
        bytes[0] = 0x83;
        bytes.push(0);
        assert!(cbor::decode::<BatchReturn>("x", &bytes).is_err());
        assert!(cbor::decode::<BatchReturn>("x", &[0x81, 0]).is_err());
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>(), to: u8,
        ) {
            let _ = cbor::decode::<PreCommitSectorBatch2Params>("x", &bytes);
            let _ = cbor::decode::<ProveCommitSectors3Params>("x", &bytes);
            let _ = cbor::decode::<BatchReturn>("x", &bytes);
            for mut good in [cbor::encode(&pair()), cbor::encode(&prove())] {
                let at = at.index(good.len());
                good[at] = to;
                let _ = cbor::decode::<PreCommitSectorBatch2Params>("x", &good);
                let _ = cbor::decode::<ProveCommitSectors3Params>("x", &good);
                prop_assert!(cbor::decode::<PreCommitSectorBatch2Params>("x", &good[..at]).is_err());
            }
        }

        #[test]
        fn round_trip(
            number: u64, epochs in any::<(i64, i64)>(), proof: i64, deals in proptest::collection::vec(any::<u64>(), 0..4),
            zero: bool, bits: [bool; 2], data in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let mut pre = pair();
            pre.sectors[0] = PreCommitInfo {
                seal_proof: proof, number: SectorNumber(number), seal_rand_epoch: epochs.0, expiration: epochs.1,
                deal_ids: deals, unsealed_cid: if zero { None } else { pre.sectors[1].unsealed_cid },
                ..pre.sectors[0].clone()
            };
            prop_assert_eq!(
                &cbor::decode::<PreCommitSectorBatch2Params>("x", &cbor::encode(&pre)).unwrap(), &pre);
            let mut value = prove();
            value.activations[0].number = SectorNumber(number);
            value.activations[0].pieces[0].allocation = (!zero).then_some(AllocationKey { client: number, id: 3 });
            value.activations[0].pieces[0].notify =
                vec![Notify { address: Address::Id(number), payload: RawBytes::new(data.clone()) }];
            value.aggregate_proof = RawBytes::new(data);
            value.aggregate_type = bits[0].then_some(proof);
            value.require_activation_success = bits[1];
            prop_assert_eq!(
                &cbor::decode::<ProveCommitSectors3Params>("x", &cbor::encode(&value)).unwrap(), &value);
        }
    }
}
