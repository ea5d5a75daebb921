//! `ProveCommitSectors3` (`chain.md` §3.6).

use super::{Effect, Env, Outcome, PLEDGE, Stop, View, check_caller, decode, exit};
use crate::devchain::state::{Change, ProofReference};
use crate::devchain::verifier::PoRepStatement;
use crate::params::{BatchFailure, BatchReturn, ProveCommitSectors3Params, SectorActivation};
use crate::policy::seal_proof_bytes;
use crate::randomness::Tag;
use crate::{Address, Error, ExitCode, Message, PreCommitOnChain, SectorOnChain, cbor, pieces};
use primitives::{Commitment, RegisteredSealProof, Seed, Ticket, cids};
use std::collections::BTreeSet;

/// SnarkPack V2, the only aggregate type in use.
const SNARKPACK_V2: i64 = 1;

/// A sector on its way through the checks.
struct Candidate<'a> {
    index: u64,
    activation: &'a SectorActivation,
    pre_commit: &'a PreCommitOnChain,
    proof_type: RegisteredSealProof,
    failed: Option<ExitCode>,
}

impl Candidate<'_> {
    fn fail(&mut self, code: ExitCode, why: &str) {
        tracing::info!(sector = self.activation.number.0, exit = code.0, "prove-commit: {why}");
        self.failed.get_or_insert(code);
    }
}

/// Step 3: the form of the proofs.
fn check_form(env: &Env<'_>, params: &ProveCommitSectors3Params, proof: RegisteredSealProof) -> Outcome<()> {
    let bad = |why: String| exit(ExitCode::ILLEGAL_ARGUMENT, why);
    let sectors = params.activations.len();
    let aggregate = params.aggregate_proof.len() as u64;
    if params.proofs.is_empty() == (aggregate == 0) {
        return bad("exactly one of sector proofs and aggregate proof must be given".into());
    }
    if aggregate == 0 {
        if let Some(kind) = params.aggregate_type {
            return bad(format!("aggregate type {kind} without an aggregate proof"));
        }
        if params.proofs.len() != sectors {
            return bad(format!("{} proofs for {sectors} sectors", params.proofs.len()));
        }
        let limit = seal_proof_bytes(proof);
        return match params.proofs.iter().find(|p| p.len() as u64 > limit) {
            Some(long) => bad(format!("a proof of {} bytes, at most {limit} are allowed", long.len())),
            None => Ok(()),
        };
    }
    let (least, most) = env.policy.aggregated_sectors;
    if params.aggregate_type != Some(SNARKPACK_V2) {
        return bad(format!("aggregate type {:?} is not {SNARKPACK_V2}", params.aggregate_type));
    }
    if !(least..=most).contains(&(sectors as u64)) {
        return bad(format!("an aggregate takes {least} to {most} sectors, got {sectors}"));
    }
    if aggregate > env.policy.max_aggregate_proof_bytes {
        return bad(format!("an aggregate proof of {aggregate} bytes is too long"));
    }
    bad("this development chain does not verify aggregate proofs".into())
}

/// Fails the whole message if sectors failed and success is required, or if none is left.
fn check_left(params: &ProveCommitSectors3Params, sectors: &[Candidate<'_>]) -> Outcome<()> {
    let failed = sectors.iter().filter(|s| s.failed.is_some()).count();
    if failed == sectors.len() || (failed > 0 && params.require_activation_success) {
        return exit(ExitCode::ILLEGAL_ARGUMENT, format!("{failed} of {} sectors fail", sectors.len()));
    }
    Ok(())
}

/// The pre-committed CommD; a missing one stands for zeros.
fn comm_d(env: &Env<'_>, pre_commit: &PreCommitOnChain) -> Outcome<Commitment> {
    match &pre_commit.info.unsealed_cid {
        None => Ok(pieces::zero_commitment(env.sector_size.bytes())),
        Some(cid) => cids::cid_to_comm_d(cid).or_else(|e| exit(ExitCode::ILLEGAL_STATE, e.to_string())),
    }
}

/// Step 5 for one sector.
fn verify(env: &Env<'_>, sector: &Candidate<'_>, proof: &[u8]) -> Outcome<bool> {
    let info = &sector.pre_commit.info;
    let comm_r =
        cids::cid_to_comm_r(&info.sealed_cid).or_else(|e| exit(ExitCode::ILLEGAL_STATE, e.to_string()))?;
    let entropy = Address::entropy(env.miner);
    let seed_epoch = sector.pre_commit.epoch + env.policy.challenge_delay;
    let seed = env.randomness.beacon(Tag::InteractiveSealChallenge, seed_epoch, &entropy);
    let ticket = env.randomness.ticket(Tag::SealRandomness, info.seal_rand_epoch, &entropy);
    let statement = PoRepStatement {
        proof_type: sector.proof_type,
        comm_r,
        comm_d: comm_d(env, sector.pre_commit)?,
        miner: env.miner,
        number: info.number,
        ticket: Ticket(ticket),
        seed: Seed(seed),
    };
    let stored;
    let proof = if env.verifier.proofs_by_reference() {
        let Ok(reference) = proof.try_into() else { return Ok(false) };
        match env.proofs.get(reference)? {
            Some(bytes) => stored = bytes,
            None => return Ok(false),
        }
        &stored
    } else {
        proof
    };
    env.verifier.verify_porep(&statement, proof).map_err(|e| {
        Stop::NoVerdict(Error::Transport { doing: "verifying a proof".into(), reason: e.to_string() })
    })
}

/// Step 6: the declared pieces give the pre-committed CommD.
fn check_comm_d(env: &Env<'_>, sector: &Candidate<'_>) -> Outcome<()> {
    let number = sector.activation.number;
    let bad = |why: String| exit(ExitCode::ILLEGAL_ARGUMENT, format!("sector {number}: {why}"));
    let mut list = Vec::with_capacity(sector.activation.pieces.len());
    for piece in &sector.activation.pieces {
        match cids::cid_to_comm_d(&piece.cid) {
            Ok(comm_p) => list.push((comm_p, piece.size)),
            Err(e) => return bad(e.to_string()),
        }
    }
    let declared = match pieces::comm_d(env.sector_size, &list) {
        Ok(declared) => declared,
        Err(e) => return bad(e.to_string()),
    };
    let expected = comm_d(env, sector.pre_commit)?;
    if declared != expected {
        return bad(format!("the pieces give CommD {declared}, pre-committed was {expected}"));
    }
    Ok(())
}

pub(super) fn run(env: &Env<'_>, view: &View<'_>, message: &Message) -> Outcome<Effect> {
    let params: ProveCommitSectors3Params = decode("ProveCommitSectors3 parameters", &message.params)?;
    check_caller(env, message)?;

    let mut sectors = Vec::with_capacity(params.activations.len());
    let mut numbers = BTreeSet::new();
    for (index, activation) in (0u64..).zip(&params.activations) {
        let number = activation.number;
        let Some(pre_commit) = view.pre_commit(number) else {
            return exit(ExitCode::NOT_FOUND, format!("sector {number} has no pre-commit"));
        };
        if !numbers.insert(number) {
            return exit(ExitCode::ILLEGAL_ARGUMENT, format!("sector {number} is in the batch twice"));
        }
        let proof_type =
            u64::try_from(pre_commit.info.seal_proof).ok().and_then(|n| RegisteredSealProof::new(n).ok());
        let Some(proof_type) = proof_type else {
            return exit(
                ExitCode::ILLEGAL_STATE,
                format!("sector {number} was pre-committed with an unknown proof"),
            );
        };
        sectors.push(Candidate { index, activation, pre_commit, proof_type, failed: None });
    }
    let Some(first) = sectors.first().map(|s| s.proof_type) else {
        return exit(ExitCode::ILLEGAL_ARGUMENT, "the batch is empty");
    };
    check_form(env, &params, first)?;

    // A sector that fails here still counts for what fails the whole message.
    let (now, policy) = (env.now, env.policy);
    for sector in &mut sectors {
        let (number, committed) = (sector.activation.number, sector.pre_commit.epoch);
        if !sector.pre_commit.info.deal_ids.is_empty() {
            sector.fail(ExitCode::ILLEGAL_ARGUMENT, "its pre-commit names deals");
        }
        if now > committed + policy.max_prove_commit_duration() {
            sector.fail(ExitCode::ILLEGAL_ARGUMENT, "its pre-commit is too old");
        }
        if sector.proof_type != first {
            return exit(
                ExitCode::ILLEGAL_STATE,
                format!(
                    "sector {number} has seal proof {}, the first has {first:?}",
                    sector.proof_type.number()
                ),
            );
        }
        if now <= committed + policy.challenge_delay {
            return exit(
                ExitCode::FORBIDDEN,
                format!("sector {number} was pre-committed at {committed}, too early for epoch {now}"),
            );
        }
    }
    check_left(&params, &sectors)?;

    for (sector, proof) in sectors.iter_mut().zip(&params.proofs) {
        if sector.failed.is_none() && !verify(env, sector, proof)? {
            sector.fail(ExitCode::ILLEGAL_ARGUMENT, "its proof is not valid");
        }
    }
    check_left(&params, &sectors)?;

    for sector in sectors.iter().filter(|s| s.failed.is_none()) {
        check_comm_d(env, sector)?;
    }
    for sector in sectors.iter_mut().filter(|s| s.failed.is_none()) {
        if sector.activation.pieces.iter().any(|p| p.allocation.is_some()) {
            sector.fail(ExitCode::NOT_FOUND, "there is no such allocation");
        }
    }
    check_left(&params, &sectors)?;

    for sector in sectors.iter().filter(|s| s.failed.is_none()) {
        let (number, life) = (sector.activation.number, sector.pre_commit.info.expiration - now);
        if life < policy.min_sector_expiration {
            return exit(ExitCode::ILLEGAL_ARGUMENT, format!("sector {number} would live for {life} epochs"));
        }
        let told = sector.activation.pieces.iter().any(|p| !p.notify.is_empty());
        if told && params.require_notification_success {
            return exit(
                ExitCode::NOTIFICATION_SEND_FAILED,
                format!("sector {number}: there is nobody to be notified"),
            );
        }
    }

    let mut result = BatchReturn::default();
    let mut changes = Vec::new();
    for (sector, proof) in sectors.iter().zip(&params.proofs) {
        if let Some(code) = sector.failed {
            result.failures.push(BatchFailure { index: sector.index, code });
            continue;
        }
        result.successes += 1;
        let info = &sector.pre_commit.info;
        let record = SectorOnChain {
            number: info.number,
            seal_proof: info.seal_proof,
            sealed_cid: info.sealed_cid,
            activation: now,
            expiration: info.expiration,
            initial_pledge: PLEDGE,
        };
        let proof = env.verifier.proofs_by_reference().then_some(proof.bytes());
        let proof = proof.and_then(|bytes| bytes.try_into().ok()).map(ProofReference);
        changes.push(Change::Activate { record, proof });
    }
    Ok(Effect { return_data: cbor::encode(&result), changes })
}
