//! Standard output: results for people or as JSON. A closed pipe is success: whoever reads has what he wanted.

use crate::exit::{Failure, Result};
use serde::Serialize;
use std::io::{self, Write};

/// The version of every JSON form of this program.
pub(crate) const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Versioned<'a, T> {
    schema: u32,
    #[serde(flatten)]
    body: &'a T,
}

/// Prints text.
///
/// # Errors
/// If stdout cannot be written for another reason than that it is closed.
pub(crate) fn text(text: &str) -> Result {
    let mut out = io::stdout().lock();
    finish(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Prints `body`, a struct or a map, as one JSON object with `"schema": 1`.
///
/// # Errors
/// As [`text`].
pub(crate) fn json<T: Serialize>(body: &T) -> Result {
    let mut line = serde_json::to_string_pretty(&Versioned { schema: SCHEMA, body })
        .map_err(|e| Failure::failed(format!("cannot make JSON of the result: {e}")))?;
    line.push('\n');
    text(&line)
}

/// A remark on stderr, for people; nothing with `--json`.
pub(crate) fn note(quiet: bool, remark: &str) {
    if !quiet {
        // If stderr is gone there is nobody left to tell.
        let _ = writeln!(io::stderr(), "note: {remark}");
    }
}

fn finish(written: io::Result<()>) -> Result {
    match written {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot write to stdout: {e}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_success_and_a_full_disk_is_not() {
        assert!(finish(Err(io::ErrorKind::BrokenPipe.into())).is_ok());
        assert!(finish(Err(io::ErrorKind::StorageFull.into())).is_err());
    }
}
