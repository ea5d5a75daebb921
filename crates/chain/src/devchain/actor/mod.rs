//! The miner actor: what an executed message does.
//!
//! Pre-commit ([`pre_commit`]) and prove-commit ([`prove_commit`]) with the checks of `chain.md` §3.5 and §3.6 in
//! their order. Left out, because this chain has neither money nor deals nor proving periods: fee debt, balances and
//! consensus faults (§3.5 steps 4, 6, 8; §3.6 step 9), the market (a sector that names deals is answered as by a market
//! that knows none), verified allocations and notifications (a piece that names any fails as with an unknown one),
//! aggregate proofs (checked in form, then refused), gas, and the calls 35, 36, 5, 9 to 11 and the rest, which are
//! unhandled. Deposit and pledge are fixed figures.

mod pre_commit;
mod prove_commit;

use super::block::{Included, Randomness};
use super::proof_files::ProofFiles;
use super::state::{Change, State};
use super::verifier::ProofVerifier;
use crate::message::Method;
use crate::{Address, Error, ExitCode, Message, Policy, PreCommitOnChain, Receipt, TokenAmount, cbor};
use primitives::{ActorId, Epoch, SectorNumber, SectorSize};
use std::collections::BTreeMap;

/// The deposit of every pre-commit: the least there is, in attoFIL.
const DEPOSIT: TokenAmount = TokenAmount(1);
/// The pledge of every sector, in attoFIL.
const PLEDGE: TokenAmount = TokenAmount(1);

/// What an execution needs besides the state.
pub(super) struct Env<'a> {
    pub(super) policy: &'a Policy,
    pub(super) miner: ActorId,
    pub(super) worker: ActorId,
    pub(super) sector_size: SectorSize,
    pub(super) randomness: Randomness,
    pub(super) verifier: &'a dyn ProofVerifier,
    pub(super) proofs: &'a ProofFiles,
    /// The current epoch: the height of the tipset that includes the messages.
    pub(super) now: Epoch,
}

/// Why an execution ends early.
#[derive(Debug)]
enum Stop {
    /// The message fails with this code; the text is for the log.
    Exit(ExitCode, String),
    /// There is no verdict; the block cannot be made now.
    NoVerdict(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::NoVerdict(error)
    }
}

type Outcome<T> = Result<T, Stop>;

fn exit<T>(code: ExitCode, why: impl Into<String>) -> Outcome<T> {
    Err(Stop::Exit(code, why.into()))
}

/// The state with the changes of the messages before in the same block.
struct View<'a> {
    state: &'a State,
    /// What those messages did to a number: `Some` is its pre-commit, `None` says that it has none any more.
    touched: BTreeMap<SectorNumber, Option<PreCommitOnChain>>,
}

impl View<'_> {
    fn pre_commit(&self, number: SectorNumber) -> Option<&PreCommitOnChain> {
        match self.touched.get(&number) {
            Some(touched) => touched.as_ref(),
            None => self.state.pre_commit(number, Epoch::MAX),
        }
    }

    fn allocated(&self, number: SectorNumber) -> bool {
        self.touched.contains_key(&number) || self.state.allocated(number, Epoch::MAX)
    }

    fn note(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::PreCommit { record, .. } => {
                    self.touched.insert(record.info.number, Some(record.clone()));
                }
                Change::Expire { number } => {
                    self.touched.insert(*number, None);
                }
                Change::Activate { record, .. } => {
                    self.touched.insert(record.number, None);
                }
            }
        }
    }
}

/// What a call gives back: its return value and its changes.
#[derive(Debug, Default)]
struct Effect {
    return_data: Vec<u8>,
    changes: Vec<Change>,
}

/// The smallest last epoch of one of the miner's deadlines that is not before `epoch` (`chain.md` §3.10).
fn deadline_end(miner: ActorId, epoch: Epoch) -> Epoch {
    use crate::policy::{DEADLINE_EPOCHS, PROVING_PERIOD_EPOCHS};
    let last = proving_period_offset(miner, 0, PROVING_PERIOD_EPOCHS) - 1;
    epoch + (last - epoch).rem_euclid(DEADLINE_EPOCHS)
}

/// Where in the proving period a miner's first deadline opens.
fn proving_period_offset(miner: ActorId, created: Epoch, period: Epoch) -> Epoch {
    let mut bytes = Address::entropy(miner);
    bytes.extend_from_slice(&created.to_be_bytes());
    let hash = cbor::blake2b_256(&bytes);
    let first = hash.first_chunk().expect("a hash has 32 bytes");
    (u64::from_be_bytes(*first) % period.unsigned_abs()) as Epoch
}

fn call(env: &Env<'_>, view: &View<'_>, message: &Message) -> Outcome<Effect> {
    let to_miner = message.to == Address::id(env.miner);
    match message.method {
        m if m == Method::Send.number() => Ok(Effect::default()),
        m if to_miner && m == Method::PreCommitSectorBatch2.number() => pre_commit::run(env, view, message),
        m if to_miner && m == Method::ProveCommitSectors3.number() => prove_commit::run(env, view, message),
        m => exit(ExitCode::UNHANDLED_MESSAGE, format!("{} has no method {m}", message.to)),
    }
}

/// Checks that the caller may act for the miner.
fn check_caller(env: &Env<'_>, message: &Message) -> Outcome<()> {
    if message.from == Address::id(env.worker) {
        return Ok(());
    }
    exit(ExitCode::FORBIDDEN, format!("{} is not a worker of {}", message.from, Address::id(env.miner)))
}

fn decode<T: serde::de::DeserializeOwned>(what: &str, bytes: &[u8]) -> Outcome<T> {
    cbor::decode(what, bytes).or_else(|e| exit(ExitCode::SERIALIZATION, e.to_string()))
}

/// Executes the messages of a block and its end. Blocks while proofs are verified.
///
/// # Errors
/// The verifier or the proof files give no verdict; then nothing has happened.
pub(super) fn execute(
    env: &Env<'_>,
    state: &State,
    messages: &[Included],
) -> Result<(Vec<Receipt>, Vec<Change>), Error> {
    let mut view = View { state, touched: BTreeMap::new() };
    let (mut receipts, mut changes) = (Vec::new(), Vec::new());
    for included in messages {
        let message = &included.signed.message;
        let done = match included.forced {
            Some(code) => exit(code, "a fault knob rejects it"),
            None => call(env, &view, message),
        };
        let (exit_code, return_data) = match done {
            Ok(effect) => {
                view.note(&effect.changes);
                changes.extend(effect.changes);
                (ExitCode::OK, effect.return_data)
            }
            Err(Stop::Exit(code, why)) => {
                tracing::info!(message = %included.signed.cid(), method = message.method, exit = code.0, "{why}");
                (code, Vec::new())
            }
            Err(Stop::NoVerdict(error)) => return Err(error),
        };
        receipts.push(Receipt { exit_code, return_data, gas_used: 0, events_root: None });
    }
    for number in state.due_clean_ups(env.now) {
        if view.pre_commit(number).is_some() {
            tracing::info!(sector = number.0, "the pre-commit was not proven in time and is removed");
            changes.push(Change::Expire { number });
        }
    }
    Ok((receipts, changes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devchain::block::Tip;
    use crate::devchain::verifier::{PoRepStatement, VerifierUnavailable};
    use crate::params::{
        PieceManifest, PreCommitInfo, PreCommitSectorBatch2Params, ProveCommitSectors3Params,
        SectorActivation,
    };
    use crate::{Signature, SignedMessage};
    use fvm_ipld_encoding::RawBytes;
    use primitives::{Commitment, cids};
    use proptest::prelude::*;

    struct Always;

    impl ProofVerifier for Always {
        fn system(&self) -> &str {
            "always"
        }

        fn verify_porep(&self, _: &PoRepStatement, _: &[u8]) -> Result<bool, VerifierUnavailable> {
            Ok(true)
        }
    }

    /// Parameters that are right at epochs 1 and 20.
    fn right(number: u64) -> [Vec<u8>; 2] {
        let info = PreCommitInfo {
            seal_proof: 5,
            number: SectorNumber(number),
            sealed_cid: cids::comm_r_to_cid(&Commitment([1; 32])),
            seal_rand_epoch: -100,
            deal_ids: vec![],
            expiration: 700_000,
            unsealed_cid: None,
        };
        let cid = cids::comm_d_to_cid(&crate::pieces::zero_commitment(1024));
        let pieces = vec![PieceManifest { cid, size: 1024, allocation: None, notify: vec![] }];
        let prove = ProveCommitSectors3Params {
            activations: vec![SectorActivation { number: SectorNumber(number), pieces }],
            proofs: vec![RawBytes::new(vec![1; 32])],
            aggregate_proof: RawBytes::default(),
            aggregate_type: None,
            require_activation_success: false,
            require_notification_success: false,
        };
        [cbor::encode(&PreCommitSectorBatch2Params { sectors: vec![info] }), cbor::encode(&prove)]
    }

    /// Executes a pre-commit at epoch 1 and a prove-commit at epoch 20 with these parameters.
    fn play(params: [Vec<u8>; 2]) -> [ExitCode; 2] {
        let dir = tempfile::tempdir().unwrap();
        let proofs = ProofFiles::open(dir.path().to_owned()).unwrap();
        let mut state = State::genesis(Tip::genesis(&"test"));
        let randomness = Randomness { seed: [1; 32] };
        let [pre, prove] = params;
        [(1, 28, pre), (20, 34, prove)].map(|(now, method, params)| {
            let env = Env {
                policy: &Policy::development(),
                miner: ActorId(1000),
                worker: ActorId(100),
                sector_size: SectorSize::KiB2,
                randomness,
                verifier: &Always,
                proofs: &proofs,
                now,
            };
            let message = Message {
                version: 0,
                to: Address::Id(1000),
                from: Address::Id(100),
                nonce: 0,
                value: TokenAmount::ZERO,
                gas_limit: 1,
                gas_fee_cap: TokenAmount(100),
                gas_premium: TokenAmount::ZERO,
                method,
                params,
            };
            let signed = SignedMessage { message, signature: Signature::Unsigned };
            let included = Included { signed, forced: None };
            let (receipts, changes) = execute(&env, &state, &[included]).unwrap();
            let record = crate::devchain::block::Record { messages: vec![], receipts: vec![], changes };
            state.apply(state.tip().child(&record, randomness), record);
            receipts[0].exit_code
        })
    }

    #[test]
    fn right_parameters_pass() {
        assert_eq!(play(right(7)), [ExitCode::OK, ExitCode::OK]);
    }

    proptest! {
        #[test]
        fn hostile_parameters_never_panic(
            number in prop_oneof![0u64..30, any::<u64>()],
            flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3), which: bool,
        ) {
            let mut params = right(number);
            let target = &mut params[usize::from(which)];
            for (at, to) in flips {
                let at = at.index(target.len());
                target[at] = to;
            }
            let codes = play(params);
            prop_assert!(codes[1] != ExitCode::OK || codes[0] == ExitCode::OK);
        }
    }

    #[test]
    fn deadlines_of_a_miner() {
        // chain-vectors.json, proving_period_offset.
        assert_eq!(proving_period_offset(ActorId(1000), 0, 2_880), 658);
        // Deadlines open at 658 + 60 i: their last epochs are 657, 717, ...
        let end = |epoch| deadline_end(ActorId(1000), epoch);
        assert_eq!((end(657), end(658), end(717), end(718)), (657, 717, 717, 777));
        assert_eq!((end(0), end(-100)), (57, -63));
    }
}
