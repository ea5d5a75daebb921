//! Inputs on their way into sectors.

use super::notes::{self, Input, Notes};
use super::{DemoError, DemoEvent, Source, Tell, all_sectors};
use crate::node::blocking;
use crate::{Core, NodeError, view};
use primitives::SectorNumber;
use sealing::{StagedPart, State, stage};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A part of an input in a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HeldPart {
    /// Where in the input it begins.
    pub(super) input_offset: u64,
    /// Its bytes.
    pub(super) bytes: u64,
    /// The sector.
    pub(super) number: SectorNumber,
    /// Where in the sector it begins, in unpadded bytes.
    pub(super) offset: u64,
}

/// Reads a file once: that it can be, how long it is, what is in it. Blocks.
pub(super) fn look(path: &Path) -> Result<Source, DemoError> {
    let failed = |source| DemoError::File { action: "read", path: path.to_owned(), source };
    let metadata = fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(DemoError::NotAFile { path: path.to_owned() });
    }
    if metadata.len() == 0 {
        return Err(DemoError::Empty { path: path.to_owned() });
    }
    let (bytes, digest) = notes::digest(path)?;
    if bytes != metadata.len() {
        return Err(DemoError::Changed { path: path.to_owned() });
    }
    let name = path.file_name().map_or_else(|| "input".into(), |n| n.to_string_lossy()).into_owned();
    // Control characters in a name would reach every list and log.
    let name = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    Ok(Source { path: path.to_owned(), name, bytes, digest })
}

/// What sectors hold, by the label of the input, in order of the input.
pub(super) async fn held(core: &Core) -> Result<BTreeMap<String, Vec<HeldPart>>, DemoError> {
    let mut held: BTreeMap<String, Vec<HeldPart>> = BTreeMap::new();
    for sector in all_sectors(core).await? {
        if matches!(sector.state, State::Removing | State::RemoveFailed | State::Removed) {
            continue;
        }
        let r = &sector.record;
        let written = r.pieces.iter().filter_map(|p| p.payload.as_ref().map(|payload| (payload, p.offset)));
        for (payload, offset) in written.chain(r.assigned.iter().map(|p| (&p.payload, p.offset))) {
            held.entry(payload.name.clone()).or_default().push(HeldPart {
                input_offset: payload.input_offset,
                bytes: payload.bytes,
                number: r.number,
                offset: view::unpadded_offset(offset),
            });
        }
    }
    for parts in held.values_mut() {
        parts.sort_unstable();
    }
    Ok(held)
}

/// The ranges of an input that no part holds.
pub(super) fn missing(bytes: u64, parts: &[HeldPart]) -> Vec<Range<u64>> {
    let mut missing = Vec::new();
    let mut reached = 0;
    for part in parts {
        if part.input_offset > reached {
            missing.push(reached..part.input_offset);
        }
        reached = reached.max(part.input_offset + part.bytes);
    }
    if reached < bytes {
        missing.push(reached..bytes);
    }
    missing
}

/// Adds what no sector holds yet, in the order of the inputs.
pub(super) async fn add_all(
    core: &Arc<Core>,
    dir: &Path,
    sources: &[Source],
    tell: &Tell,
) -> Result<Vec<Input>, DemoError> {
    settle(core).await?;
    let mut notes = Notes::read(dir)?;
    let inputs: Vec<Input> = sources.iter().map(|s| notes.know(&s.name, s.bytes, &s.digest)).collect();
    // Noted before anything is added: a run that is cut finds its inputs again.
    notes.write(dir)?;
    for (source, input) in sources.iter().zip(&inputs) {
        let parts = held(core).await?.remove(&input.label).unwrap_or_default();
        let gaps = missing(input.bytes, &parts);
        let known = gaps.is_empty();
        for gap in gaps {
            let parts = stage_range(core, source, &input.label, gap).await?;
            core.pipeline.add_parts(parts).await.map_err(NodeError::from)?;
        }
        let parts = held(core).await?.remove(&input.label).unwrap_or_default();
        let mut sectors: Vec<u64> = parts.iter().map(|p| p.number.0).collect();
        sectors.dedup();
        tell(DemoEvent::Added { name: input.label.clone(), bytes: input.bytes, known, sectors });
    }
    Ok(inputs)
}

/// Waits until pieces that an earlier run had sent are planned, so that they are seen.
async fn settle(core: &Core) -> Result<(), DemoError> {
    for _ in 0..100 {
        let mut waiting = false;
        for sector in all_sectors(core).await? {
            if matches!(sector.state, State::Empty | State::WaitDeals | State::AddPiece) {
                let live = core.pipeline.explain(sector.record.number).await.map_err(NodeError::from)?;
                waiting |= live.is_some_and(|e| !e.inbox.is_empty());
            }
        }
        if !waiting {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Something else keeps them waiting; the worst that follows is a piece that is stored twice.
    Ok(())
}

/// Spools a range of a file.
async fn stage_range(
    core: &Core,
    source: &Source,
    label: &str,
    range: Range<u64>,
) -> Result<Vec<StagedPart>, DemoError> {
    let storage = Arc::clone(core.pipeline.storage());
    let (path, label, size) = (source.path.clone(), label.to_owned(), core.facts.sector_size);
    let wanted = range.end - range.start;
    let staged = blocking("staging an input", move || -> Result<Vec<StagedPart>, DemoError> {
        let failed = |action, path: &PathBuf| {
            let path = path.clone();
            move |source| DemoError::File { action, path, source }
        };
        let mut file = File::open(&path).map_err(failed("read", &path))?;
        file.seek(SeekFrom::Start(range.start)).map_err(failed("read", &path))?;
        let mut parts = stage(&storage, &label, &mut file.take(wanted), size).map_err(NodeError::from)?;
        let got: u64 = parts.iter().map(|p| p.payload.bytes).sum();
        if got != wanted {
            for part in &parts {
                storage.unstage(&part.staged).map_err(NodeError::from)?;
            }
            return Err(DemoError::Changed { path });
        }
        for part in &mut parts {
            part.payload.input_offset += range.start;
        }
        Ok(parts)
    });
    staged.await?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(input_offset: u64, bytes: u64) -> HeldPart {
        HeldPart { input_offset, bytes, number: SectorNumber(1), offset: 0 }
    }

    #[test]
    fn gaps_are_what_no_part_holds() {
        assert_eq!(missing(10, &[]), vec![0..10; 1]);
        assert_eq!(missing(10, &[part(0, 10)]), []);
        assert_eq!(missing(10, &[part(2, 3), part(5, 1)]), [0..2, 6..10]);
        // The same part twice, as after a crash between an order and its answer.
        assert_eq!(missing(10, &[part(0, 4), part(0, 4), part(6, 4)]), vec![4..6; 1]);
    }

    #[test]
    fn only_files_with_something_in_them_are_taken() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(look(dir.path()), Err(DemoError::NotAFile { .. })));
        let path = dir.path().join("a\nb");
        assert!(look(&path).unwrap_err().to_string().contains("cannot read"));
        fs::write(&path, "").unwrap();
        assert!(matches!(look(&path), Err(DemoError::Empty { .. })));
        fs::write(&path, "x").unwrap();
        let source = look(&path).unwrap();
        assert_eq!((source.name.as_str(), source.bytes), ("a?b", 1));
    }
}
