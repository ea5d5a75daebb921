//! From what is stored to what is shown: explicit conversions to the [wire types](crate::wire).

use crate::wire;
use chain::SignedMessage;
use primitives::cids::{comm_d_to_cid, comm_r_to_cid};
use sealing::record::Payload;
use sealing::{SectorInstance, State, intent};
use statemachine::{Explanation, JournalLine, Kind as _, OpenEffect, StoredEffect};

mod explain;
mod history;

pub use explain::span;
pub use history::History;

/// The data that a sector holds or will hold.
fn payloads(sector: &SectorInstance) -> impl Iterator<Item = &Payload> {
    let r = &sector.record;
    let written = r.pieces.iter().filter_map(|p| p.payload.as_ref());
    written.chain(r.assigned.iter().map(|p| &p.payload))
}

/// Whether a sector holds, or will hold, a part of an input.
pub fn holds(sector: &SectorInstance, input: &str) -> bool {
    payloads(sector).any(|payload| payload.name == input)
}

/// A sector in a list. `running`: whether a node works on it.
pub fn row(sector: &SectorInstance, running: bool, now_ms: u64) -> wire::SectorRow {
    let r = &sector.record;
    let payloads: Vec<&Payload> = payloads(sector).collect();
    wire::SectorRow {
        number: r.number.0,
        state: sector.state.name().to_owned(),
        since_ms: sector.entered_at_ms,
        created_ms: sector.created_at_ms,
        cc: r.cc,
        pieces: payloads.len() as u64,
        data_bytes: payloads.iter().map(|p| p.bytes).sum(),
        run: run(sector, None),
        waiting_for: explain::waiting_for(sector, None, running, &[], now_ms),
        next_try_ms: sector.next_try_ms,
        needs_attention: needs_attention(sector),
        last_failure: relevant_failure(sector).map(|f| format!("{}: {}", f.class, f.message)),
    }
}

/// Everything about a sector. `live` is what the engine says while it runs; without it, what is stored must do.
pub fn detail(
    sector: &SectorInstance,
    history: &History,
    outbox: &[StoredEffect],
    live: Option<&Explanation>,
    now_ms: u64,
) -> wire::SectorDetail {
    let r = &sector.record;
    let effects = open_effects(outbox, live);
    wire::SectorDetail {
        schema: wire::SCHEMA,
        number: r.number.0,
        miner: format!("f0{}", r.miner.0),
        seal_proof: r.proof.name(),
        sector_size: r.proof.sector_size().bytes(),
        state: sector.state.name().to_owned(),
        since_ms: sector.entered_at_ms,
        created_ms: sector.created_at_ms,
        cc: r.cc,
        ticket: r.ticket.map(|t| t.value.to_string()),
        ticket_epoch: r.ticket.map(|t| t.epoch),
        seed: r.seed.map(|s| s.value.to_string()),
        seed_epoch: r.seed.map(|s| s.epoch).or(r.seed_epoch),
        pieces: pieces(sector),
        left_out: r.left_out.iter().map(|(payload, reason)| left_out(payload, reason)).collect(),
        comm_d: r.comm_d.map(|c| c.to_string()),
        comm_r: r.comm_r.map(|c| c.to_string()),
        comm_d_cid: r.comm_d.map(|c| comm_d_to_cid(&c).to_string()),
        comm_r_cid: r.comm_r.map(|c| comm_r_to_cid(&c).to_string()),
        replica_id: r.replica_id.map(|c| c.to_string()),
        precommit_epoch: r.precommit_epoch,
        activation_epoch: r.activation,
        expiration_epoch: r.expiration,
        messages: messages(history, outbox, &effects),
        timeline: history.timeline().to_vec(),
        run: run(sector, live),
        waiting_for: explain::waiting_for(sector, live, live.is_some(), &effects, now_ms),
        last_failure: sector.last_failure.as_ref().map(|f| wire::Failure {
            state: f.state.clone(),
            class: f.class.name().to_owned(),
            message: f.message.clone(),
            at_ms: f.at_ms,
        }),
        failures: sector.failures.iter().map(|(class, f)| (class.name().to_owned(), f.count)).collect(),
        next_try_ms: sector.next_try_ms,
        needs_attention: needs_attention(sector),
        next_action: explain::next_action(sector),
        explain: explain::sentences(sector, live, &effects, now_ms),
    }
}

/// What a sector is doing, or what it waits for.
pub fn doing(
    sector: &SectorInstance,
    live: &Explanation,
    now_ms: u64,
) -> (Option<wire::Run>, Option<String>) {
    (run(sector, Some(live)), explain::waiting_for(sector, Some(live), true, &live.outbox, now_ms))
}

/// A line of a sector's history.
pub fn line(line: &JournalLine) -> wire::Line {
    wire::Line {
        seq: line.seq,
        at_ms: line.at_ms,
        version: line.version,
        kind: format!("{:?}", line.kind),
        event: line.event.map(str::to_owned),
        data: line.data.clone(),
        source: line.source.map(|s| s.name().to_owned()),
        run: line.run,
        from: line.from.clone(),
        to: line.to.clone(),
        ruling: line.ruling.map(str::to_owned),
        note: match (&line.failure, &line.note) {
            (Some(failure), Some(note)) => Some(format!("{failure}; {note}")),
            (Some(failure), None) => Some(failure.to_string()),
            (None, note) => note.clone(),
        },
    }
}

/// Whether a person has to act.
pub fn needs_attention(sector: &SectorInstance) -> bool {
    sector.parked.is_some() || sector.state == State::FailedUnrecoverable
}

/// The last failure, when it is still about where the sector is.
fn relevant_failure(sector: &SectorInstance) -> Option<&statemachine::LastFailure> {
    let here = |f: &&statemachine::LastFailure| {
        f.at_ms >= sector.entered_at_ms || !sector.failures.is_empty() || needs_attention(sector)
    };
    let at_rest = matches!(sector.state, State::Proving | State::Removed);
    sector.last_failure.as_ref().filter(here).filter(|_| !at_rest)
}

fn run(sector: &SectorInstance, live: Option<&Explanation>) -> Option<wire::Run> {
    sector.run.as_ref().map(|run| wire::Run {
        attempt: run.attempt,
        started_ms: run.started_at_ms,
        progress: live.and_then(|e| e.progress.as_ref()).map(|p| wire::Progress {
            phase: p.phase.clone(),
            done: p.done,
            total: p.total,
            unit: p.unit.clone(),
        }),
    })
}

fn pieces(sector: &SectorInstance) -> Vec<wire::Piece> {
    let r = &sector.record;
    let written = r.pieces.iter().map(|p| wire::Piece {
        comm_p: Some(p.info.comm_p.to_string()),
        piece_cid: Some(comm_d_to_cid(&p.info.comm_p).to_string()),
        unpadded: p.info.size.bytes(),
        offset: unpadded_offset(p.offset),
        padded_offset: p.offset,
        name: p.payload.as_ref().map(|p| p.name.clone()),
        input_offset: p.payload.as_ref().map(|p| p.input_offset),
        data_bytes: p.payload.as_ref().map_or(0, |p| p.bytes),
    });
    let assigned = r.assigned.iter().map(|p| wire::Piece {
        comm_p: None,
        piece_cid: None,
        unpadded: p.size.bytes(),
        offset: unpadded_offset(p.offset),
        padded_offset: p.offset,
        name: Some(p.payload.name.clone()),
        input_offset: Some(p.payload.input_offset),
        data_bytes: p.payload.bytes,
    });
    written.chain(assigned).collect()
}

fn left_out(payload: &Payload, reason: &str) -> wire::LeftOut {
    wire::LeftOut { name: payload.name.clone(), data_bytes: payload.bytes, reason: reason.to_owned() }
}

/// The effects that are not settled: with what their handlers said while the engine runs.
fn open_effects(outbox: &[StoredEffect], live: Option<&Explanation>) -> Vec<OpenEffect> {
    match live {
        Some(live) => live.outbox.clone(),
        None => outbox.iter().map(|row| row.effect.clone()).collect(),
    }
}

/// Messages that came to an end, from the history, and those that are on their way.
fn messages(history: &History, outbox: &[StoredEffect], effects: &[OpenEffect]) -> Vec<wire::Message> {
    let mut messages = history.messages().to_vec();
    for effect in effects.iter().filter(|e| e.kind == intent::PRECOMMIT || e.kind == intent::COMMIT) {
        let stored = outbox
            .iter()
            .find(|row| row.intent.id.version == effect.version && row.intent.id.ordinal == effect.ordinal)
            .and_then(|row| row.prepared.as_deref());
        messages.push(wire::Message {
            kind: effect.kind.clone(),
            cid: stored.and_then(message_cid),
            epoch: None,
            status: effect.stage.to_owned(),
            at_ms: effect.since_ms,
            note: effect.last_error.clone(),
        });
    }
    messages
}

/// The CID of a stored message.
fn message_cid(bytes: &[u8]) -> Option<String> {
    SignedMessage::from_bytes(bytes).ok().map(|message| message.cid().to_string())
}

/// Where a piece begins in its sector's data, from where it begins after padding, which is a multiple of 128 bytes.
pub fn unpadded_offset(padded: u64) -> u64 {
    padded / 128 * 127
}

/// A number of bytes for people.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut unit = 0;
    let mut scaled = bytes as f64;
    while scaled >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{scaled:.1} {}", UNITS[unit]) }
}

/// The names of the states, in the order of a sector's life, as a sentence.
pub fn state_names() -> String {
    let names: Vec<&str> = State::ALL.iter().map(|s| s.name()).collect();
    format!("the states are {}", names.join(", "))
}

/// A time for people, in UTC: `2026-11-30T20:02:54.120Z`.
pub fn timestamp(ms: u64) -> String {
    let (days, of_day) = (ms / 86_400_000, ms % 86_400_000);
    // Days to a date of the Gregorian calendar, with years that begin in March, so that the leap day is the last.
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (seconds, millis) = (of_day / 1000, of_day % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        // `date -u -d @951782399 +%FT%T`
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(951_782_399_007), "2000-02-28T23:59:59.007Z");
        assert_eq!(timestamp(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(timestamp(1_796_068_974_120), "2026-11-30T20:02:54.120Z");
        assert_eq!(timestamp(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn bytes_are_short() {
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(8 << 20), "8.0 MiB");
    }
}
