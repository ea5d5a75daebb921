//! Inputs on their way back: computed from the replicas, written, compared.

use super::input::{HeldPart, missing};
use super::notes::Input;
use super::{DemoError, DemoEvent, OUTPUT, Source, Tell};
use crate::node::blocking;
use crate::{Core, NodeError, wire};
use statemachine::Cancel;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// Computes every input back and compares it.
pub(super) async fn unseal_all(
    core: &Core,
    dir: &Path,
    sources: &[Source],
    inputs: &[Input],
    held: &BTreeMap<String, Vec<HeldPart>>,
    tell: &Tell,
) -> Result<Vec<wire::DemoFile>, DemoError> {
    let folder = dir.join(OUTPUT);
    fs::create_dir_all(&folder).map_err(failed("create the folder", &folder))?;
    let mut files = Vec::with_capacity(inputs.len());
    for (source, input) in sources.iter().zip(inputs) {
        let parts = held.get(&input.label).map_or(&[][..], Vec::as_slice);
        let gaps: u64 = missing(input.bytes, parts).iter().map(|gap| gap.end - gap.start).sum();
        if gaps > 0 {
            return Err(DemoError::NotWhole { name: input.label.clone(), missing: gaps });
        }
        tell(DemoEvent::Unsealing { name: input.label.clone(), bytes: input.bytes });
        let output = folder.join(&input.label);
        let temporary = folder.join(format!("{}.part", input.label));
        unseal(core, parts, &temporary).await?;
        fs::rename(&temporary, &output).map_err(failed("write", &output))?;
        let (left, right) = (source.path.clone(), output.clone());
        let first_difference = blocking("comparing", move || first_difference(&left, &right)).await??;
        let file = wire::DemoFile {
            name: input.label.clone(),
            bytes: input.bytes,
            output: output.display().to_string(),
            equal: first_difference.is_none(),
            first_difference,
        };
        tell(DemoEvent::Compared(file.clone()));
        files.push(file);
    }
    Ok(files)
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DemoError {
    let path = path.to_owned();
    move |source| DemoError::File { action, path, source }
}

/// Writes the parts one after the other.
async fn unseal(core: &Core, parts: &[HeldPart], output: &Path) -> Result<(), DemoError> {
    let file = File::create(output).map_err(failed("write", output))?;
    let mut reached = 0;
    for part in parts {
        // A part that is stored twice is read once.
        if part.input_offset < reached {
            continue;
        }
        let writer = file.try_clone().map_err(failed("write", output))?;
        core.pipeline
            .unseal(part.number, part.offset, part.bytes, Box::new(writer), Cancel::new())
            .await
            .map_err(NodeError::from)?;
        reached = part.input_offset + part.bytes;
    }
    file.sync_all().map_err(failed("sync", output))
}

/// The first byte at which two files differ, their ends included. Blocks.
fn first_difference(a: &PathBuf, b: &PathBuf) -> Result<Option<u64>, DemoError> {
    const BUFFER: usize = 1 << 20;
    let open = |path: &PathBuf| {
        File::open(path).map(|f| BufReader::with_capacity(BUFFER, f)).map_err(failed("read", path))
    };
    let (mut left, mut right) = (open(a)?, open(b)?);
    let (mut x, mut y) = (vec![0; BUFFER], vec![0; BUFFER]);
    let mut offset = 0;
    loop {
        let got = fill(&mut left, &mut x).map_err(failed("read", a))?;
        let also = fill(&mut right, &mut y).map_err(failed("read", b))?;
        let common = got.min(also);
        if let Some(at) = x[..common].iter().zip(&y[..common]).position(|(p, q)| p != q) {
            return Ok(Some(offset + at as u64));
        }
        offset += common as u64;
        if got != also {
            return Ok(Some(offset));
        }
        if got == 0 {
            return Ok(None);
        }
    }
}

/// Reads until the buffer is full or the end is reached.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_found_at_their_place() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let mut data = vec![7u8; (1 << 20) + 9];
        let a = file("a", &data);
        assert_eq!(first_difference(&a, &file("b", &data)).unwrap(), None);
        assert_eq!(first_difference(&a, &file("c", &data[..data.len() - 1])).unwrap(), Some((1 << 20) + 8));
        data[1 << 20] = 8;
        assert_eq!(first_difference(&a, &file("d", &data)).unwrap(), Some(1 << 20));
        assert_eq!(first_difference(&file("e", b""), &file("f", b"x")).unwrap(), Some(0));
        assert!(first_difference(&a, &dir.path().join("gone")).is_err());
    }
}
