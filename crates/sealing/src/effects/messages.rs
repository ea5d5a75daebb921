//! Sends pre-commits and prove-commits, each exactly once however often the process dies (PL-16).
//!
//! The message is final, nonce included, before it is pushed: the engine stores what [`prepare`] returns. Pushing again
//! is idempotent by CID. Whatever goes wrong with a message afterwards is an event for the sector, whose failed state asks
//! the chain what exists before anything is sent anew.
//!
//! [`prepare`]: EffectHandler::prepare

use super::payload;
use crate::intent::{self, CommitIntent, PreCommitIntent};
use crate::record::CidText;
use crate::standing::chain_failure;
use crate::{Event, Sector};
use async_trait::async_trait;
use chain::params::{BatchReturn, SectorActivation};
use chain::params::{PieceManifest, PreCommitInfo, PreCommitSectorBatch2Params, ProveCommitSectors3Params};
use chain::{
    Address, Chain, ExitClass, Lookup, Message, Method, NonceProblem, Signature, SignedMessage, TokenAmount,
};
use primitives::{ActorId, Epoch, SectorNumber, cids};
use statemachine::{Class, EffectHandler, Failure, Intent, Outcome, Prepared};
use std::sync::Arc;

/// Gas is not modelled by the development chain; a real node estimates it. The figures pass the acceptance checks that
/// every node makes (chain.md §1.4).
const GAS_LIMIT: i64 = 1_000_000_000;
const GAS_FEE_CAP: i128 = 1_000_000;
const GAS_PREMIUM: i128 = 100_000;

/// Makes, pushes and follows messages of one sender.
pub(crate) struct MessageHandler {
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) sender: Address,
    pub(crate) confidence: Epoch,
}

/// The sector a row is about, and how its answers are called.
struct Subject {
    miner: ActorId,
    number: SectorNumber,
    commit: bool,
}

impl MessageHandler {
    fn subject(intent: &Intent) -> Result<Subject, Failure> {
        if intent.kind == intent::COMMIT {
            let row: CommitIntent = payload(intent)?;
            Ok(Subject { miner: row.miner, number: row.number, commit: true })
        } else {
            let row: PreCommitIntent = payload(intent)?;
            Ok(Subject { miner: row.miner, number: row.number, commit: false })
        }
    }

    async fn nonce(&self, open: &[Prepared]) -> Result<u64, Failure> {
        let next = self
            .chain
            .next_nonce(&self.sender)
            .await
            .map_err(|e| chain_failure("ask for the next nonce", &e))?;
        let mut nonce = next;
        for row in
            open.iter().filter(|row| [intent::PRECOMMIT, intent::COMMIT].contains(&row.intent.kind.as_str()))
        {
            // A row of ours may be stored and not yet pushed: the chain does not count it.
            nonce = nonce.max(message(&row.bytes)?.message.nonce + 1);
        }
        Ok(nonce)
    }

    /// What a message that was found means for its sector.
    async fn found(
        &self,
        subject: &Subject,
        cid: CidText,
        lookup: &Lookup,
    ) -> Result<Outcome<Event>, Failure> {
        let failed = |e: chain::Error| chain_failure("read what the message did", &e);
        let (miner, number, at) = (subject.miner, subject.number, &lookup.tipset);
        let code = lookup.receipt.exit_code;
        match code.class() {
            ExitClass::Ok if subject.commit => {
                let batch: BatchReturn =
                    chain::cbor::decode("batch return", &lookup.receipt.return_data).map_err(failed)?;
                if !batch.code(0).is_ok() {
                    let reason =
                        format!("the chain refused the proof of sector {number}: exit {}", batch.code(0));
                    return Ok(refused(subject, Some(cid), reason));
                }
                match self.chain.sector(miner, number, at).await.map_err(failed)? {
                    Some(sector) => Ok(Outcome::Settled(Event::CommitLanded {
                        message: Some(cid),
                        activation: sector.activation,
                    })),
                    None => Ok(Outcome::Pending),
                }
            }
            ExitClass::Ok => {
                let delay = self.chain.network().await.map_err(failed)?.challenge_delay;
                match self.chain.precommit(miner, number, at).await.map_err(failed)? {
                    Some(found) => Ok(Outcome::Settled(Event::PreCommitLanded {
                        message: Some(cid),
                        epoch: found.epoch,
                        seed_epoch: found.epoch + delay,
                    })),
                    None => Ok(Outcome::Pending),
                }
            }
            ExitClass::Failed => Ok(Outcome::Settled(if subject.commit {
                Event::ResendCommit
            } else {
                Event::ResendPreCommit
            })),
            ExitClass::RuleBroken | ExitClass::ProgrammingFault => {
                let what = if subject.commit { "prove-commit" } else { "pre-commit" };
                let reason = format!("the chain refused the {what} of sector {number}: exit {code}");
                Ok(refused(subject, Some(cid), reason))
            }
        }
    }
}

fn refused(subject: &Subject, message: Option<CidText>, reason: String) -> Outcome<Event> {
    Outcome::Settled(if subject.commit {
        Event::ChainCommitFailed { message, reason }
    } else {
        Event::ChainPreCommitFailed { message, reason }
    })
}

fn message(bytes: &[u8]) -> Result<SignedMessage, Failure> {
    SignedMessage::from_bytes(bytes).map_err(|e| Failure::from_error(Class::Permanent, &e))
}

/// The method and parameters of a row.
fn call(intent: &Intent) -> Result<(ActorId, Method, Vec<u8>), Failure> {
    if intent.kind == intent::COMMIT {
        let row: CommitIntent = payload(intent)?;
        let pieces = row.pieces.iter().map(|p| PieceManifest {
            cid: cids::comm_d_to_cid(&p.comm_p),
            size: p.size.padded().bytes(),
            allocation: None,
            notify: Vec::new(),
        });
        let params = ProveCommitSectors3Params {
            activations: vec![SectorActivation { number: row.number, pieces: pieces.collect() }],
            proofs: vec![row.proof_bytes.into()],
            aggregate_proof: Vec::new().into(),
            aggregate_type: None,
            require_activation_success: true,
            require_notification_success: false,
        };
        Ok((row.miner, Method::ProveCommitSectors3, chain::cbor::encode(&params)))
    } else {
        let row: PreCommitIntent = payload(intent)?;
        let info = PreCommitInfo {
            seal_proof: row.proof.number() as i64,
            number: row.number,
            sealed_cid: cids::comm_r_to_cid(&row.comm_r),
            seal_rand_epoch: row.ticket_epoch,
            deal_ids: Vec::new(),
            expiration: row.expiration,
            unsealed_cid: row.comm_d.as_ref().map(cids::comm_d_to_cid),
        };
        let params = PreCommitSectorBatch2Params { sectors: vec![info] };
        Ok((row.miner, Method::PreCommitSectorBatch2, chain::cbor::encode(&params)))
    }
}

#[async_trait]
impl EffectHandler<Sector> for MessageHandler {
    async fn prepare(&self, intent: &Intent, open: &[Prepared]) -> Result<Vec<u8>, Failure> {
        let (miner, method, params) = call(intent)?;
        let message = Message {
            version: 0,
            to: Address::id(miner),
            from: self.sender.clone(),
            nonce: self.nonce(open).await?,
            value: TokenAmount::ZERO,
            gas_limit: GAS_LIMIT,
            gas_fee_cap: TokenAmount(GAS_FEE_CAP),
            gas_premium: TokenAmount(GAS_PREMIUM),
            method: method.number(),
            params,
        };
        Ok(SignedMessage { message, signature: Signature::Unsigned }.to_bytes())
    }

    async fn send(&self, _: &Intent, prepared: &[u8]) -> Result<(), Failure> {
        match self.chain.push(&message(prepared)?).await {
            Ok(_) => Ok(()),
            // Used up or taken: by this very message, or by another one. `poll` finds out which.
            Err(chain::Error::Nonce {
                problem: NonceProblem::TooLow { .. } | NonceProblem::Taken { .. },
                ..
            }) => Ok(()),
            Err(e) => Err(chain_failure("push the message", &e)),
        }
    }

    async fn poll(&self, intent: &Intent, prepared: &[u8]) -> Result<Outcome<Event>, Failure> {
        let subject = Self::subject(intent)?;
        let signed = message(prepared)?;
        let failed = |e: chain::Error| chain_failure("look for the message", &e);
        let head = self.chain.head().await.map_err(failed)?;
        let cid = signed.cid();
        if let Some(lookup) = self.chain.search(&cid, &head.key, None).await.map_err(failed)? {
            let due = lookup.height + self.confidence;
            if head.height < due {
                self.chain.need_epoch(due);
                return Ok(Outcome::Pending);
            }
            return self.found(&subject, CidText::from(&cid), &lookup).await;
        }
        // Not on chain as seen from this head. Pushing again tells whether it still can be: the pool may have lost it, or
        // its nonce may be gone.
        match self.chain.push(&signed).await {
            Ok(_) => Ok(Outcome::Pending),
            Err(chain::Error::Nonce { problem: NonceProblem::TooLow { expected, .. }, .. }) => {
                let now = self.chain.head().await.map_err(failed)?;
                if now.key != head.key
                    || self.chain.search(&cid, &now.key, None).await.map_err(failed)?.is_some()
                {
                    return Ok(Outcome::Pending);
                }
                let nonce = signed.message.nonce;
                let reason = format!(
                    "message {cid} cannot land any more: another message took its nonce {nonce}, the next is {expected}"
                );
                Ok(refused(&subject, Some(CidText::from(&cid)), reason))
            }
            Err(e) => Err(chain_failure("push the message again", &e)),
        }
    }
}
