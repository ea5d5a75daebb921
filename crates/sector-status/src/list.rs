//! The list of sectors.

use crate::args::Args;
use crate::output;
use crate::source::Source;
use node::{view, wire};

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let source = Source::open(args)?;
    let sectors = source.sectors(&args.state)?;
    if args.json {
        return output::json(&wire::SectorList { schema: wire::SCHEMA, sectors, next_after: None });
    }
    let hide = !args.all && args.state.is_empty();
    let (shown, hidden): (Vec<_>, Vec<_>) = sectors.iter().partition(|s| !hide || s.state != "Removed");
    output::text(&for_people(&shown, hidden.len(), !args.state.is_empty(), source.is_stopped()))
}

fn for_people(sectors: &[&wire::SectorRow], hidden: usize, filtered: bool, stopped: bool) -> String {
    let mut text = String::new();
    if sectors.is_empty() {
        text.push_str(if filtered {
            "No sector is in that state.\n"
        } else {
            "There are no sectors yet; `sealrig sectors add FILE` or `sealrig sectors pledge` makes one.\n"
        });
    } else {
        let mut table = output::table(&["SECTOR", "STATE", "SINCE", "DATA", "ATTEMPT", "NOW"]);
        for s in sectors {
            let attempt = s.run.as_ref().map_or_else(String::new, |run| run.attempt.to_string());
            table.add_row([
                s.number.to_string().into(),
                output::state_cell(&s.state),
                output::ago(s.since_ms).into(),
                data(s).into(),
                attempt.into(),
                now(s, stopped).into(),
            ]);
        }
        text.push_str(&output::lines(&table));
    }
    if hidden > 0 {
        let (word, are) = if hidden == 1 { ("sector", "is") } else { ("sectors", "are") };
        text.push_str(&format!("{hidden} removed {word} {are} not shown; --all shows them.\n"));
    }
    let waiting = sectors.iter().filter(|s| s.needs_attention).count();
    if waiting > 0 {
        let (word, verb) = if waiting == 1 { ("sector", "needs") } else { ("sectors", "need") };
        text.push_str(&format!("{waiting} {word} {verb} attention; `sector-status N` says what to do.\n"));
    }
    text
}

fn data(s: &wire::SectorRow) -> String {
    if s.cc {
        "CC".to_owned()
    } else {
        let word = if s.pieces == 1 { "piece" } else { "pieces" };
        format!("{} {word}, {}", s.pieces, view::bytes(s.data_bytes))
    }
}

/// What it does or waits for, in one line. `stopped`: no node works on it.
fn now(s: &wire::SectorRow, stopped: bool) -> String {
    let failure = s.last_failure.as_deref().map_or_else(String::new, |f| format!(" ({f})"));
    match (&s.waiting_for, &s.run) {
        (Some(waiting), _) if s.needs_attention => format!("NEEDS ATTENTION: waits for {waiting}"),
        (Some(_), Some(_)) if stopped => format!("interrupted; goes on when a node starts{failure}"),
        (Some(waiting), _) => format!("waits for {waiting}{failure}"),
        (None, Some(_)) => format!("working{failure}"),
        (None, None) => failure.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u64, state: &str) -> wire::SectorRow {
        wire::SectorRow {
            number,
            state: state.to_owned(),
            since_ms: 0,
            created_ms: 0,
            cc: false,
            pieces: 1,
            data_bytes: 1500,
            run: None,
            waiting_for: None,
            next_try_ms: None,
            needs_attention: false,
            last_failure: None,
        }
    }

    #[test]
    fn a_row_says_what_is_needed() {
        let mut stuck = row(2, "PreCommitFailed");
        stuck.needs_attention = true;
        stuck.waiting_for = Some("somebody to act: the chain said no".to_owned());
        let text = for_people(&[&row(1, "Proving"), &stuck], 1, false, false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].contains("SECTOR") && lines[1].contains("Proving") && lines[1].contains("1.5 KiB"),
            "{text}"
        );
        assert!(lines[2].contains("NEEDS ATTENTION") && lines[2].contains("the chain said no"), "{text}");
        assert_eq!(lines[3], "1 removed sector is not shown; --all shows them.");
        assert!(lines[4].starts_with("1 sector needs attention"), "{text}");
        assert!(lines.iter().all(|l| l.trim_end() == *l), "no blanks at the ends:\n{text}");
        assert!(for_people(&[], 0, false, false).contains("sectors add FILE"));
        assert!(for_people(&[], 0, true, false).contains("No sector is in that state"));
    }
    #[test]
    fn nothing_works_without_a_node() {
        let mut cut = row(3, "PreCommit2");
        cut.run = Some(wire::Run { attempt: 1, started_ms: Some(7), progress: None });
        cut.waiting_for = Some("a node to start".to_owned());
        let text = for_people(&[&cut], 0, false, true);
        assert!(text.contains("interrupted; goes on when a node starts"), "{text}");
        assert!(!text.contains("working"), "{text}");
        cut.waiting_for = None;
        assert!(for_people(&[&cut], 0, false, false).contains("working"));
    }
}
