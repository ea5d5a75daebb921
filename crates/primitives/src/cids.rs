//! Commitments as CIDs (chain.md §1.1).

use crate::Commitment;
use cid::Cid;
use multihash::Multihash;

const FIL_COMMITMENT_UNSEALED: u64 = 0xf101;
const FIL_COMMITMENT_SEALED: u64 = 0xf102;
const SHA2_256_TRUNC254_PADDED: u64 = 0x1012;
const POSEIDON_BLS12_381_A2_FC1: u64 = 0xb401;

/// A CID that is not the commitment it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cid} is not {expected}: codec, hash and a digest of 32 bytes must all match")]
pub struct WrongCommitmentCid {
    /// The CID in text.
    pub cid: String,
    /// What it should have been.
    pub expected: &'static str,
}

fn cid(codec: u64, hash: u64, digest: &Commitment) -> Cid {
    let hash = Multihash::<64>::wrap(hash, digest.as_bytes()).expect("a digest of 32 bytes fits in 64");
    Cid::new_v1(codec, hash)
}

fn digest(
    cid: &Cid,
    codec: u64,
    hash: u64,
    expected: &'static str,
) -> Result<Commitment, WrongCommitmentCid> {
    let wrong = || WrongCommitmentCid { cid: cid.to_string(), expected };
    if cid.version() != cid::Version::V1 || cid.codec() != codec || cid.hash().code() != hash {
        return Err(wrong());
    }
    cid.hash().digest().try_into().map(Commitment).map_err(|_| wrong())
}

/// The CID of a sealed sector (CommR).
pub fn comm_r_to_cid(comm_r: &Commitment) -> Cid {
    cid(FIL_COMMITMENT_SEALED, POSEIDON_BLS12_381_A2_FC1, comm_r)
}

/// CommR from its CID.
pub fn cid_to_comm_r(cid: &Cid) -> Result<Commitment, WrongCommitmentCid> {
    digest(cid, FIL_COMMITMENT_SEALED, POSEIDON_BLS12_381_A2_FC1, "a sealed sector's CID (CommR)")
}

/// The CID of an unsealed sector (CommD) or of a piece (CommP); they share one form.
pub fn comm_d_to_cid(comm_d: &Commitment) -> Cid {
    cid(FIL_COMMITMENT_UNSEALED, SHA2_256_TRUNC254_PADDED, comm_d)
}

/// CommD or CommP from its CID.
pub fn cid_to_comm_d(cid: &Cid) -> Result<Commitment, WrongCommitmentCid> {
    digest(cid, FIL_COMMITMENT_UNSEALED, SHA2_256_TRUNC254_PADDED, "an unsealed sector's or piece's CID")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // chain-vectors.json, commitment_cids and zero_commd.
        let sealed = comm_r_to_cid(&Commitment([0x11; 32]));
        assert_eq!(sealed.to_string(), "bagboea4b5abcaeirceirceirceirceirceirceirceirceirceirceirceirceir");
        assert_eq!(hex::encode(&sealed.to_bytes()[..8]), "0182e20381e80220");
        let unsealed = comm_d_to_cid(&Commitment([0x22; 32]));
        assert_eq!(unsealed.to_string(), "baga6ea4seaqceirceirceirceirceirceirceirceirceirceirceirceirceiq");
        let zero = "fc7e928296e516faade986b28f92d44a4f24b935485223376a799027bc18f833".parse().unwrap();
        assert_eq!(
            comm_d_to_cid(&zero).to_string(),
            "baga6ea4seaqpy7usqklokfx2vxuynmupslkeutzexe2uqurdg5vhtebhxqmpqmy"
        );
    }

    #[test]
    fn the_two_forms_are_not_interchangeable() {
        let value = Commitment([7; 32]);
        assert_eq!(cid_to_comm_r(&comm_r_to_cid(&value)).unwrap(), value);
        assert_eq!(cid_to_comm_d(&comm_d_to_cid(&value)).unwrap(), value);
        assert!(cid_to_comm_r(&comm_d_to_cid(&value)).is_err());
        assert!(cid_to_comm_d(&comm_r_to_cid(&value)).is_err());
        let short = Multihash::<64>::wrap(POSEIDON_BLS12_381_A2_FC1, &[1; 31]).unwrap();
        assert!(cid_to_comm_r(&Cid::new_v1(FIL_COMMITMENT_SEALED, short)).is_err());
    }
}
