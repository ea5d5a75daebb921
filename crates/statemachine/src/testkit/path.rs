//! The states a machine went through, read from its journal.

use crate::{JournalLine, Kind, LineKind, Machine};

/// The sequence of states: where it was created, then each state entered.
pub fn path(lines: &[JournalLine]) -> Vec<String> {
    let entered = |line: &&JournalLine| line.kind == LineKind::Created || line.ruling == Some("moved");
    lines.iter().filter(entered).filter_map(|line| line.to.clone()).collect()
}

/// Checks the whole sequence of states, none skipped.
///
/// # Panics
/// When it is another one.
#[track_caller]
pub fn assert_path<M: Machine>(lines: &[JournalLine], expected: &[M::State]) {
    let expected: Vec<_> = expected.iter().map(|state| state.name()).collect();
    assert_eq!(path(lines), expected);
}

/// What happened, apart from when, in which run and how often it was started: events that changed something, failures.
/// Two lives of a machine are the same when these are, whatever crashes were between.
pub fn facts(lines: &[JournalLine]) -> Vec<String> {
    let tells = |line: &&JournalLine| {
        matches!(line.kind, LineKind::Created | LineKind::Event | LineKind::RunEnded | LineKind::Forced)
            && matches!(line.ruling, Some("moved" | "stayed"))
    };
    lines
        .iter()
        .filter(tells)
        .map(|line| {
            let what = match (&line.event, &line.failure) {
                (Some(event), _) => {
                    format!("{event} {}", line.data.as_ref().map_or(String::new(), ToString::to_string))
                }
                (None, Some(failure)) => failure.to_string(),
                (None, None) => format!("{:?}", line.kind),
            };
            format!("{} -{what}-> {}", line.from.as_deref().unwrap_or(""), line.to.as_deref().unwrap_or(""))
        })
        .collect()
}
