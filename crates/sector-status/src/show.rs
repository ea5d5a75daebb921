//! One sector.

use crate::args::Args;
use crate::output;
use crate::source::Source;
use node::{view, wire};
use serde::Serialize;
use serde_json::Value;

/// A sector with its history, for `--log --json`.
#[derive(Serialize)]
struct WithLog<'a> {
    #[serde(flatten)]
    sector: &'a wire::SectorDetail,
    log: &'a [wire::Line],
}

pub(crate) fn run(args: &Args, number: u64) -> anyhow::Result<()> {
    let source = Source::open(args)?;
    let sector = source.sector(number)?;
    let log = if args.log { Some(source.log(number)?) } else { None };
    match (args.json, &log) {
        (true, Some(log)) => output::json(&WithLog { sector: &sector, log }),
        (true, None) => output::json(&sector),
        (false, _) => output::text(&for_people(&sector, log.as_deref())),
    }
}

/// The lines scripts know keep their names: `SectorID`, `Status`, `CIDcommD`, `Ticket`, `TicketH`, `Precommit`, ...
fn for_people(s: &wire::SectorDetail, log: Option<&[wire::Line]>) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let name = format!("{name}:");
        text.push_str(format!("{name:<13} {value}").trim_end());
        text.push('\n');
    };
    let hex = |value: &Option<String>| value.clone().unwrap_or_default();
    let epoch = |value: Option<i64>| value.map_or_else(String::new, |e| e.to_string());
    line("SectorID", &s.number.to_string());
    line("Status", &s.state);
    line("Since", &format!("{} ({} ago)", view::timestamp(s.since_ms), output::ago(s.since_ms)));
    line("Type", &format!("{}, miner {}", s.seal_proof, s.miner));
    line("CIDcommD", &hex(&s.comm_d_cid));
    line("CIDcommR", &hex(&s.comm_r_cid));
    line("CommD", &hex(&s.comm_d));
    line("CommR", &hex(&s.comm_r));
    line("ReplicaID", &hex(&s.replica_id));
    line("Ticket", &hex(&s.ticket));
    line("TicketH", &epoch(s.ticket_epoch));
    line("Seed", &hex(&s.seed));
    line("SeedH", &epoch(s.seed_epoch));
    for (name, kind) in [("Precommit", "precommit"), ("Commit", "commit")] {
        let last = s.messages.iter().rfind(|m| m.kind == kind);
        line(name, &last.map_or_else(String::new, message));
    }
    line("Activation", &epoch(s.activation_epoch));
    line("Expiration", &epoch(s.expiration_epoch));
    let retries: u32 = s.failures.values().sum();
    line("Retries", &retries.to_string());
    if let Some(failure) = &s.last_failure {
        let when = view::timestamp(failure.at_ms);
        line("Last Error", &format!("{} in {} at {when}: {}", failure.class, failure.state, failure.message));
    }
    text.push_str(&pieces(s, log.is_some()));
    text.push_str(&timeline(s));
    text.push_str("\nWhy it is there:\n");
    for sentence in &s.explain {
        text.push_str(&format!("  {sentence}\n"));
    }
    if let Some(log) = log {
        text.push_str("\n--------\nEvent Log:\n");
        for (i, entry) in log.iter().enumerate() {
            text.push_str(&log_line(i, entry));
        }
    }
    text
}

fn message(m: &wire::Message) -> String {
    let cid = m.cid.as_deref().unwrap_or("(no message of this node)");
    let epoch = m.epoch.map_or_else(String::new, |e| format!(" at epoch {e}"));
    let note = m.note.as_deref().map_or_else(String::new, |n| format!(": {n}"));
    format!("{cid} ({}{epoch}{note})", m.status)
}

/// The pieces; the fillers among them only when `all` are asked for.
fn pieces(s: &wire::SectorDetail, all: bool) -> String {
    if s.cc {
        return "Pieces:       none (CC)\n".to_owned();
    }
    let mut text = String::from("\nPieces:\n");
    let mut table = output::table(&["  PIECE", "OFFSET", "SIZE", "DATA", "NAME", "CID"]);
    let (mut fillers, mut filler_bytes) = (0, 0);
    for (k, p) in s.pieces.iter().enumerate() {
        if p.name.is_none() && !all {
            fillers += 1;
            filler_bytes += p.unpadded;
            continue;
        }
        let name = match (&p.name, p.input_offset) {
            (Some(name), Some(offset)) if offset > 0 => format!("{name}, from byte {offset}"),
            (Some(name), _) => name.clone(),
            (None, _) => "(filler)".to_owned(),
        };
        table.add_row([
            format!("  {k}"),
            p.offset.to_string(),
            p.unpadded.to_string(),
            p.data_bytes.to_string(),
            name,
            p.piece_cid.clone().unwrap_or_else(|| "(not written yet)".to_owned()),
        ]);
    }
    text.push_str(&output::lines(&table));
    if fillers > 0 {
        let word = if fillers == 1 { "filler" } else { "fillers" };
        text.push_str(&format!(
            "  {fillers} {word}, {filler_bytes} bytes together; --log lists every piece\n"
        ));
    }
    for left in &s.left_out {
        text.push_str(&format!(
            "  left out: {} ({}): {}\n",
            left.name,
            view::bytes(left.data_bytes),
            left.reason
        ));
    }
    text
}

fn timeline(s: &wire::SectorDetail) -> String {
    let mut text = String::from("\nTime line:\n");
    let mut table = output::table(&["  ENTERED", "STATE", "TOOK", "RUNS", "LEFT BY"]);
    for stay in &s.timeline {
        let took =
            stay.duration_ms.map_or_else(|| format!("{} so far", output::ago(stay.entered_ms)), view::span);
        table.add_row([
            format!("  {}", view::timestamp(stay.entered_ms)).into(),
            output::state_cell(&stay.state),
            took.into(),
            if stay.attempts == 0 { String::new() } else { stay.attempts.to_string() }.into(),
            stay.by.clone().unwrap_or_default().into(),
        ]);
    }
    text.push_str(&output::lines(&table));
    if let Some(progress) = s.run.as_ref().and_then(|run| run.progress.as_ref()) {
        let share = if progress.total > 0 {
            format!("{} of {} {}", progress.done, progress.total, progress.unit)
        } else {
            String::new()
        };
        text.push_str(&format!("  now: {} {share}\n", progress.phase));
    }
    text
}

/// The same with its byte strings, which JSON has as lists of numbers, in hexadecimal.
fn with_hex(value: &Value) -> Value {
    /// Shorter lists of small numbers may be anything; hashes are of 32 bytes.
    const HASH: usize = 32;
    match value {
        Value::Array(items) => {
            let bytes: Option<Vec<u8>> =
                items.iter().map(|item| item.as_u64().and_then(|n| u8::try_from(n).ok())).collect();
            match bytes.filter(|bytes| bytes.len() >= HASH) {
                Some(bytes) => Value::String(bytes.iter().map(|b| format!("{b:02x}")).collect()),
                None => Value::Array(items.iter().map(with_hex).collect()),
            }
        }
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), with_hex(value))).collect())
        }
        other => other.clone(),
    }
}

/// `i.  time:  [kind]  message`, the event's data as compact JSON.
fn log_line(i: usize, l: &wire::Line) -> String {
    let kind = l.event.as_deref().unwrap_or(&l.kind);
    let mut parts = Vec::new();
    match (&l.from, &l.to) {
        (Some(from), Some(to)) if from != to => parts.push(format!("{from} -> {to}")),
        (None, Some(to)) => parts.push(format!("-> {to}")),
        _ => {}
    }
    if let Some(ruling) = l.ruling.as_deref().filter(|r| matches!(*r, "ignored" | "rejected" | "refused")) {
        parts.push(ruling.to_owned());
    }
    if let Some(note) = &l.note {
        parts.push(note.clone());
    }
    if let Some(data) = l.data.as_ref().filter(|d| d.is_object() && l.event.is_some()) {
        parts.push(with_hex(data).to_string());
    }
    format!("{i}.\t{}:\t[{kind}]\t{}\n", view::timestamp(l.at_ms), parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn byte_strings_are_hexadecimal_and_other_lists_stay() {
        let shown = with_hex(&json!({"on_chain": [vec![171; 32], [1, 2]], "big": vec![256; 32], "n": 7}));
        assert_eq!(shown, json!({"on_chain": ["ab".repeat(32), [1, 2]], "big": vec![256; 32], "n": 7}));
    }
}
