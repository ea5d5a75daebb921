//! `PreCommitSectorBatch2` (`chain.md` §3.5).

use super::{DEPOSIT, Effect, Env, Outcome, View, check_caller, deadline_end, decode, exit};
use crate::devchain::state::Change;
use crate::params::{PreCommitInfo, PreCommitSectorBatch2Params};
use crate::{ExitCode, Message, PreCommitOnChain};
use primitives::{RegisteredSealProof, SectorNumber, cids};
use std::collections::BTreeSet;

/// The checks of one sector by itself, in order (step 2).
fn check(env: &Env<'_>, info: &PreCommitInfo) -> Outcome<RegisteredSealProof> {
    let bad = |why: String| exit(ExitCode::ILLEGAL_ARGUMENT, format!("sector {}: {why}", info.number));
    let proof = u64::try_from(info.seal_proof).ok().and_then(|n| RegisteredSealProof::new(n).ok());
    let Some(proof) = proof.filter(|p| env.policy.accepts(*p)) else {
        return bad(format!("seal proof {} is not accepted", info.seal_proof));
    };
    if info.number > SectorNumber::MAX {
        return bad(format!("the number is larger than {}", SectorNumber::MAX));
    }
    if let Err(e) = cids::cid_to_comm_r(&info.sealed_cid) {
        return bad(e.to_string());
    }
    let (now, policy) = (env.now, env.policy);
    let oldest = now - policy.max_pre_commit_randomness_lookback;
    if !(oldest..now).contains(&info.seal_rand_epoch) {
        return bad(format!(
            "its ticket must be of epoch {oldest} to {}, it is of {}",
            now - 1,
            info.seal_rand_epoch
        ));
    }
    if let Some(Err(e)) = info.unsealed_cid.as_ref().map(cids::cid_to_comm_d) {
        return bad(e.to_string());
    }
    let activation = now + policy.max_prove_commit_duration();
    let least = activation + policy.min_sector_expiration;
    let most = (now + policy.max_sector_expiration_extension).min(activation + policy.max_sector_lifetime);
    if !(least..=most).contains(&info.expiration) {
        return bad(format!("its expiration must be {least} to {most}, it is {}", info.expiration));
    }
    Ok(proof)
}

pub(super) fn run(env: &Env<'_>, view: &View<'_>, message: &Message) -> Outcome<Effect> {
    let params: PreCommitSectorBatch2Params = decode("PreCommitSectorBatch2 parameters", &message.params)?;
    if params.sectors.is_empty() {
        return exit(ExitCode::ILLEGAL_ARGUMENT, "the batch is empty");
    }
    let mut numbers = BTreeSet::new();
    let mut proofs = Vec::with_capacity(params.sectors.len());
    for info in &params.sectors {
        if !numbers.insert(info.number) {
            return exit(ExitCode::ILLEGAL_ARGUMENT, format!("sector {} is in the batch twice", info.number));
        }
        proofs.push(check(env, info)?);
    }
    if let Some(info) = params.sectors.iter().find(|info| !info.deal_ids.is_empty()) {
        return exit(
            ExitCode::NOT_FOUND,
            format!("sector {}: there is no deal {}", info.number, info.deal_ids[0]),
        );
    }
    check_caller(env, message)?;
    for (info, proof) in params.sectors.iter().zip(&proofs) {
        if proof.sector_size() != env.sector_size {
            return exit(
                ExitCode::ILLEGAL_ARGUMENT,
                format!(
                    "sector {}: the miner's sectors have {}, not {}",
                    info.number,
                    env.sector_size,
                    proof.sector_size()
                ),
            );
        }
    }
    if let Some(number) = numbers.iter().find(|n| view.allocated(**n)) {
        return exit(ExitCode::ILLEGAL_ARGUMENT, format!("sector number {number} was allocated before"));
    }
    let due = env.now + env.policy.max_prove_commit_duration() + env.policy.expired_pre_commit_clean_up_delay;
    let clean_up = deadline_end(env.miner, due);
    let record = |info| PreCommitOnChain { info, deposit: DEPOSIT, epoch: env.now };
    let changes = params.sectors.into_iter().map(|info| Change::PreCommit { record: record(info), clean_up });
    Ok(Effect { return_data: Vec::new(), changes: changes.collect() })
}
