//! Sample challenges after PC2, before money is spent on a pre-commit (PL-7).

use super::PoRepError;
use super::commit1::{open, open_and_check};
use crate::challenges;
use crate::control::Control;
use crate::params::PoRepConfig;
use crate::vanilla::verify::{PublicSector, Verifier};
use primitives::Seed;
use std::path::Path;

/// Opens `samples` nodes of a freshly sealed sector and verifies the proofs, as C1 will. The nodes follow from CommR, so
/// that the check can be repeated; the seed in `public` is not used.
///
/// # Errors
/// As [`super::commit1()`]: the file that is damaged, or those that may be.
pub fn check_sealed(
    config: &PoRepConfig,
    public: &PublicSector,
    cache: &Path,
    sealed: &Path,
    samples: u32,
    control: &Control<'_>,
) -> Result<(), PoRepError> {
    control.check()?;
    let files = open(config, cache, sealed, public)?;
    let replica_id = public.replica_id(config);
    let digest =
        blake2b_simd::Params::new().hash_length(32).key(b"sealrig sample challenges").hash(&public.comm_r.0);
    let seed = Seed(digest.as_bytes().try_into().expect("a digest of 32 bytes"));
    let nodes: Vec<u64> =
        (0..samples.max(1)).map(|j| challenges::interactive(config.nodes(), &replica_id, &seed, j)).collect();
    let verifier = Verifier::new(config, files.graph(), &replica_id, &public.comm_d);
    // In groups, so that the proofs of many samples are not all in memory.
    for (group, nodes) in nodes.chunks(16).enumerate() {
        control.report("check", 16 * group as u64, u64::from(samples), "challenges");
        open_and_check(&files, &verifier, group, &public.comm_r, nodes, control)
            .map_err(|e| e.with_evidence(config, cache, sealed, control))?;
    }
    Ok(())
}
