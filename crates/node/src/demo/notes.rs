//! What a demo remembers in its folder: which inputs it was given, so that a second run adds none of them again.

use super::DemoError;
use blake2b_simd::Params;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

const FILE: &str = "demo.json";
const SCHEMA: u32 = 1;
/// Names of pieces are kept shorter than the pipeline's limit, so that the number behind a second one is never cut.
const LABEL_BYTES_MAX: usize = 200;

/// An input as it was when it was first given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Input {
    /// The file's name, without its folder.
    pub(super) name: String,
    /// Its length.
    pub(super) bytes: u64,
    /// BLAKE2b-256 of its content, in hexadecimal.
    pub(super) digest: String,
    /// The name its pieces have: unique in this folder.
    pub(super) label: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Notes {
    schema: u32,
    inputs: Vec<Input>,
}

impl Notes {
    /// The notes in a folder; none yet is fine.
    pub(super) fn read(dir: &Path) -> Result<Self, DemoError> {
        let path = dir.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { schema: SCHEMA, inputs: Vec::new() });
            }
            Err(source) => return Err(DemoError::File { action: "read", path, source }),
        };
        let notes: Self = serde_json::from_str(&text)
            .map_err(|e| DemoError::Notes { path: path.clone(), reason: e.to_string() })?;
        if notes.schema != SCHEMA {
            let reason = format!("it has schema {}, this program knows {SCHEMA}", notes.schema);
            return Err(DemoError::Notes { path, reason });
        }
        Ok(notes)
    }

    /// How many inputs are noted.
    pub(super) fn len(&self) -> usize {
        self.inputs.len()
    }

    /// The place of an input among all.
    pub(super) fn place(&self, label: &str) -> usize {
        self.inputs.iter().position(|i| i.label == label).unwrap_or(usize::MAX)
    }

    /// The input among those given before, or as a new one. A file given before whose content has changed is a new one.
    pub(super) fn know(&mut self, name: &str, bytes: u64, digest: &str) -> Input {
        let same = |i: &&Input| i.name == name && i.bytes == bytes && i.digest == digest;
        if let Some(input) = self.inputs.iter().find(same) {
            return input.clone();
        }
        let short = cut(name);
        let taken = |label: &str| self.inputs.iter().any(|i| i.label == label);
        let mut label = short.to_owned();
        let mut count = 2;
        while taken(&label) {
            label = format!("{short} ({count})");
            count += 1;
        }
        let input = Input { name: name.to_owned(), bytes, digest: digest.to_owned(), label };
        self.inputs.push(input.clone());
        input
    }

    /// Writes the notes, whole or not at all.
    pub(super) fn write(&self, dir: &Path) -> Result<(), DemoError> {
        let path = dir.join(FILE);
        let failed = |action| {
            let path = path.clone();
            move |source| DemoError::File { action, path, source }
        };
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| DemoError::Notes { path: path.clone(), reason: e.to_string() })?;
        let temporary = dir.join(format!("{FILE}.tmp"));
        let mut file = File::create(&temporary).map_err(failed("write"))?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed("write"))?;
        fs::rename(&temporary, &path).map_err(failed("write"))?;
        File::open(dir).and_then(|f| f.sync_all()).map_err(failed("sync the folder of"))
    }
}

fn cut(name: &str) -> &str {
    let mut end = name.len().min(LABEL_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// Length and digest of a file. Blocks.
pub(super) fn digest(path: &Path) -> Result<(u64, String), DemoError> {
    let failed = |source| DemoError::File { action: "read", path: PathBuf::from(path), source };
    let mut file = File::open(path).map_err(failed)?;
    let mut state = Params::new().hash_length(32).to_state();
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok((bytes, state.finalize().to_hex().to_string())),
            Ok(got) => {
                state.update(&buffer[..got]);
                bytes += got as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(failed(e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_recognised_by_name_length_and_content() {
        let dir = tempfile::tempdir().unwrap();
        let mut notes = Notes::read(dir.path()).unwrap();
        let a = notes.know("a", 3, "00");
        assert_eq!(a.label, "a");
        assert_eq!(notes.know("a", 3, "01").label, "a (2)");
        assert_eq!(notes.know("a", 4, "00").label, "a (3)");
        notes.write(dir.path()).unwrap();
        let mut again = Notes::read(dir.path()).unwrap();
        assert_eq!(again.know("a", 3, "00"), a);
        assert_eq!(again.know("a", 3, "01").label, "a (2)");
        assert_eq!(again.inputs.len(), 3);
        fs::write(dir.path().join(FILE), "{\"schema\":7,\"inputs\":[]}").unwrap();
        assert!(Notes::read(dir.path()).unwrap_err().to_string().contains("schema 7"));
        fs::write(dir.path().join(FILE), "{").unwrap();
        assert!(matches!(Notes::read(dir.path()), Err(DemoError::Notes { .. })));
    }

    #[test]
    fn the_digest_is_blake2b_256() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, "abc").unwrap();
        // `printf abc | b2sum -l 256`
        let expected = "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319";
        assert_eq!(digest(&path).unwrap(), (3, expected.to_owned()));
        assert!(digest(&dir.path().join("gone")).is_err());
    }
}
