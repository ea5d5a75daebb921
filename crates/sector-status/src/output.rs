//! Standard output. A closed pipe is success: whoever reads has what he wanted.

use anyhow::Context as _;
use comfy_table::{Cell, Color, ContentArrangement, Table, presets};
use node::view;
use std::io::{self, IsTerminal as _, Write as _};

/// Prints text.
pub(crate) fn text(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e).context("cannot write to stdout"),
        _ => Ok(()),
    }
}

/// Prints a document.
pub(crate) fn json<T: serde::Serialize>(document: &T) -> anyhow::Result<()> {
    let line = serde_json::to_string_pretty(document).context("cannot make JSON of the answer")?;
    text(&format!("{line}\n"))
}

fn colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// A table that fits the terminal; without one, lines as long as they need to be.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    if io::stdout().is_terminal() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    } else {
        table.set_content_arrangement(ContentArrangement::Disabled);
    }
    table
}

/// The text of a table, without blanks at the ends of lines.
pub(crate) fn lines(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A state in the colour operators know: green at rest, yellow sealing, blue taking input, cyan leaving, red failed.
pub(crate) fn state_cell(state: &str) -> Cell {
    let cell = Cell::new(state);
    if !colours() {
        return cell;
    }
    cell.fg(match state {
        "Proving" => Color::Green,
        "Empty" | "WaitDeals" | "AddPiece" => Color::Blue,
        "Removing" | "Removed" => Color::Cyan,
        failed if failed.contains("Failed") => Color::Red,
        _ => Color::Yellow,
    })
}

/// How long ago something was.
pub(crate) fn ago(at_ms: u64) -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as u64);
    view::span(now.saturating_sub(at_ms))
}
