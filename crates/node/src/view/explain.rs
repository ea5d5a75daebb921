//! Sentences that answer "why is it there, and what happens next" (PL-12).

use sealing::{SectorInstance, State, intent};
use statemachine::{Blocker, Explanation, Kind as _, OpenEffect};

/// A span of time for people.
pub fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{}.{} s", seconds, ms % 1000 / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// What a sector waits for when its work could go on and no node runs.
const NO_NODE: &str = "a node to start";

/// What each state is about, in the present.
fn what(state: State) -> &'static str {
    match state {
        State::Empty => "it is created and not started yet",
        State::WaitDeals => "it is open for more pieces",
        State::AddPiece => "a piece is being written into it",
        State::Packing => "the rest of it is being filled with zeros",
        State::GetTicket => "its ticket is being drawn from the chain",
        State::PreCommit1 => "its labels are being computed (PC1)",
        State::PreCommit2 => "its trees and replica are being computed (PC2)",
        State::SubmitPreCommitBatch => "its pre-commit is being checked",
        State::PreCommitBatchWait => "its pre-commit is on the way to the chain",
        State::WaitSeed => "its seed is not drawn yet",
        State::Committing => "its proof is being computed (C1 and C2)",
        State::SubmitCommitAggregate => "its prove-commit is being checked",
        State::CommitAggregateWait => "its prove-commit is on the way to the chain",
        State::FinalizeSector => "files that proving does not need are being dropped",
        State::Proving => "it is on chain and at rest",
        State::AddPieceFailed => "a piece could not be written and is being left out",
        State::PackingFailed => "it could not be filled",
        State::SealPreCommit1Failed => "its labels, or what they were made from, are no good",
        State::SealPreCommit2Failed => "its trees, replica or commitment are no good",
        State::PreCommitFailed => "its pre-commit was refused",
        State::ComputeProofFailed => "its proof could not be computed or did not verify",
        State::CommitFailed => "its prove-commit was refused",
        State::FinalizeFailed => "its files could not be dropped",
        State::FailedUnrecoverable => "nothing can bring it to the chain",
        State::Removing => "its files are being deleted",
        State::RemoveFailed => "its files could not be deleted",
        State::Removed => "its files are gone and its number is never used again",
    }
}

/// What the sector waits for; `None` when it works or is at rest. `live` is what the engine says about it, if it was asked;
/// `running`: whether a node works on it.
pub(super) fn waiting_for(
    sector: &SectorInstance,
    live: Option<&Explanation>,
    running: bool,
    effects: &[OpenEffect],
    now_ms: u64,
) -> Option<String> {
    if let Some(parked) = &sector.parked {
        return Some(format!("somebody to act: {}", parked.reason));
    }
    if let Some(blocker) = live.and_then(|e| e.blocker.as_ref()) {
        return Some(match blocker {
            Blocker::Parked(parked) => format!("somebody to act: {}", parked.reason),
            Blocker::Resource { name, ahead: 0, .. } => format!("a free place to do {name}"),
            Blocker::Resource { name, ahead, .. } => {
                let sectors = if *ahead == 1 { "sector is" } else { "sectors are" };
                format!("a free place to do {name}; {ahead} {sectors} before it")
            }
            Blocker::EndingRun => "its cancelled run to end".to_owned(),
            Blocker::Time(at_ms) => waiting_until(sector, *at_ms, now_ms),
            Blocker::Effect(kind) => effect_text(sector, kind),
            Blocker::RateLimit(at_ms) => {
                format!("too many events in a minute; it goes on in {}", span(at_ms.saturating_sub(now_ms)))
            }
            Blocker::Store(error) => format!("the store to take writes again: {error}"),
        });
    }
    if !running {
        return match sector.state {
            State::WaitDeals => Some("more pieces, or the order to seal".to_owned()),
            State::FailedUnrecoverable => Some("somebody to remove it".to_owned()),
            State::Proving | State::Removed => None,
            _ => Some(NO_NODE.to_owned()),
        };
    }
    if let Some(at_ms) = sector.next_try_ms {
        return Some(waiting_until(sector, at_ms, now_ms));
    }
    match sector.state {
        State::WaitDeals => Some("more pieces, or the order to seal".to_owned()),
        State::PreCommitBatchWait | State::WaitSeed | State::CommitAggregateWait => {
            let kind = effects.first().map_or("", |e| e.kind.as_str());
            Some(effect_text(sector, kind))
        }
        State::FailedUnrecoverable => Some("somebody to remove it".to_owned()),
        _ => match &sector.run {
            Some(run) if run.started_at_ms.is_none() => Some("its turn".to_owned()),
            _ => None,
        },
    }
}

fn waiting_until(sector: &SectorInstance, at_ms: u64, now_ms: u64) -> String {
    let left = at_ms.saturating_sub(now_ms);
    match sector.state {
        State::WaitDeals => format!("more pieces, for another {}", span(left)),
        _ => format!("attempt {} in {}", sector.attempt, span(left)),
    }
}

fn effect_text(sector: &SectorInstance, kind: &str) -> String {
    let epoch = |e: Option<i64>| e.map_or_else(String::new, |e| format!(" {e}"));
    match kind {
        intent::SEED => format!("the seed of epoch{}", epoch(sector.record.seed_epoch)),
        intent::PRECOMMIT => "its pre-commit to land on chain".to_owned(),
        intent::COMMIT => "its prove-commit to land on chain".to_owned(),
        _ => match sector.state {
            State::PreCommitBatchWait => "its pre-commit to land on chain".to_owned(),
            State::WaitSeed => format!("the seed of epoch{}", epoch(sector.record.seed_epoch)),
            State::CommitAggregateWait => "its prove-commit to land on chain".to_owned(),
            _ => format!("the effect {kind:?} outside"),
        },
    }
}

/// What a person could do now.
pub(super) fn next_action(sector: &SectorInstance) -> Option<String> {
    let n = sector.record.number;
    if let Some(parked) = &sector.parked {
        // The planner map speaks of any sector; here its number is known.
        let named = |text: &str, verb: &str| {
            text.replace(&format!("sectors {verb} N"), &format!("sectors {verb} {n}"))
        };
        return Some(named(&named(&parked.next_action, "retry"), "remove"));
    }
    match sector.state {
        State::WaitDeals => Some(format!("`sealrig sectors seal {n}` seals it as it is")),
        State::FailedUnrecoverable => Some(format!("`sealrig sectors remove {n}` frees its space")),
        _ if sector.next_try_ms.is_some() => Some(format!("`sealrig sectors retry {n}` tries again at once")),
        _ => None,
    }
}

/// The whole explanation.
pub(super) fn sentences(
    sector: &SectorInstance,
    live: Option<&Explanation>,
    effects: &[OpenEffect],
    now_ms: u64,
) -> Vec<String> {
    let r = &sector.record;
    let for_long = span(now_ms.saturating_sub(sector.entered_at_ms));
    let mut out = vec![format!(
        "Sector {} has been {} for {for_long}: {}.",
        r.number,
        sector.state.name(),
        what(sector.state)
    )];
    if let Some(run) = &sector.run
        && let Some(started_ms) = run.started_at_ms
        && live.is_some()
    {
        out.push(format!(
            "Attempt {} has been running for {}.",
            run.attempt,
            span(now_ms.saturating_sub(started_ms))
        ));
    }
    if live.is_none() && sector.run.is_some() {
        out.push("Its work was interrupted; what is finished is kept.".to_owned());
    }
    if let Some(waiting) = waiting_for(sector, live, live.is_some(), effects, now_ms) {
        out.push(format!("It waits for {waiting}."));
    }
    for effect in effects {
        if let Some(error) = &effect.last_error {
            out.push(format!(
                "The last try of its {} failed ({} in a row): {error}.",
                effect.kind, effect.failures
            ));
        }
    }
    if let Some(failure) = super::relevant_failure(sector) {
        let made_by =
            failure.made_by.as_ref().map_or_else(String::new, |s| format!("; {s} made what was damaged"));
        out.push(format!(
            "The last failure was {} ago in {}: {} ({}){made_by}.",
            span(now_ms.saturating_sub(failure.at_ms)),
            failure.state,
            failure.message.trim_end_matches('.'),
            failure.class.name()
        ));
    }
    if let Some(fault) =
        r.last_fault.as_ref().filter(|_| !matches!(sector.state, State::Proving | State::Removed))
    {
        out.push(format!("It last went back because: {}.", fault.trim_end_matches('.')));
    }
    if let Some(trouble) = &sector.trouble {
        out.push(format!("Its rules could not apply {}: {}.", trouble.what, trouble.reason));
    }
    for alert in live.map_or(&[][..], |e| &e.alerts) {
        out.push(format!("Attention: {}.", alert.trim_end_matches('.')));
    }
    if let Some(next) = next_action(sector) {
        out.push(format!("Next: {}.", next.trim_end_matches('.')));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        assert_eq!(span(12), "12 ms");
        assert_eq!(span(59_949), "59.9 s");
        assert_eq!(span(61_000), "1 min 1 s");
        assert_eq!(span(7_300_000), "2 h 1 min");
        assert_eq!(span(90_000_000), "1 d 1 h");
    }
}
