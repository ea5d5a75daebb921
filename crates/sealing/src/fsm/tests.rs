//! What the map must keep: no findings, no dead end, a drawing that is true.

use super::planner_map;
use crate::State;
use crate::event::EventKind;
use statemachine::Kind as _;
use std::path::Path;

#[test]
fn the_map_has_no_findings() {
    let findings: Vec<String> = planner_map().verify().iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{findings:#?}");
}

#[test]
fn removal_is_legal_everywhere_and_on_chain_only_when_confirmed() {
    let map = planner_map();
    for &state in State::ALL {
        let legal = map.legal_events(state);
        let ending = matches!(state, State::Removing | State::Removed);
        let on_chain = matches!(state, State::FinalizeSector | State::FinalizeFailed | State::Proving);
        assert_eq!(legal.contains(&EventKind::RemoveConfirmed), !ending, "{state:?}: {legal:?}");
        assert_eq!(legal.contains(&EventKind::Remove), !ending && !on_chain, "{state:?}: {legal:?}");
    }
}

/// A stage announces units, and may find files of earlier stages that are no good: an announcement that its state does not
/// take would be the step's own mistake, and end the sector.
#[test]
fn every_state_that_works_with_units_takes_all_their_events() {
    let map = planner_map();
    for state in
        [State::AddPiece, State::PreCommit1, State::PreCommit2, State::Committing, State::FinalizeSector]
    {
        let legal = map.legal_events(state);
        for event in [EventKind::UnitStarted, EventKind::UnitFinished, EventKind::UnitRefused] {
            assert!(legal.contains(&event), "{state:?} does not take {event:?}");
        }
    }
}

/// Every failed state but the last takes an event that leads out of it besides removal.
#[test]
fn every_failed_state_has_a_way_back() {
    let map = planner_map();
    for &state in State::ALL {
        let name = state.name();
        if name.ends_with("Failed") {
            let ways = map.legal_events(state);
            let back = ways.iter().filter(|e| e.name().starts_with("Retry")).count();
            assert!(back >= 1, "{name} has only {ways:?}");
        }
    }
}

#[test]
fn older_names_of_states_are_understood() {
    assert_eq!(State::from_operator("PreCommitting"), Some(State::SubmitPreCommitBatch));
    assert_eq!(State::from_operator("commitwait"), None, "older names are exact");
    assert_eq!(State::from_operator("CommitWait"), Some(State::CommitAggregateWait));
    assert_eq!(State::from_operator("SealFailed"), Some(State::SealPreCommit1Failed));
    assert_eq!(State::from_operator("proving"), Some(State::Proving));
    assert_eq!(State::from_operator("Nonsense"), None);
    for &state in State::ALL {
        assert_eq!(State::from_operator(state.name()), Some(state));
    }
}

#[test]
fn the_drawing_in_the_docs_is_true() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sector-states.md");
    let text = format!(
        "# The states of a sector\n\nGenerated from the planner map (`crates/sealing/src/fsm.rs`) by `UPDATE_DOCS=1 cargo test \
         -p sealing`; a test fails when it is stale. Dashed or unlabelled details are left out: control events lead from \
         every state.\n\n```mermaid\n{}```\n",
        planner_map().mermaid()
    );
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).expect("docs/ can be written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(there, text, "docs/sector-states.md is stale: run UPDATE_DOCS=1 cargo test -p sealing");
}
