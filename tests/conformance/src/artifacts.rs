//! What one side made of a case: named byte strings, and how two sets of them are compared.

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Everything comparable that came out of a case, by name.
pub type Artifacts = BTreeMap<String, Vec<u8>>;

/// SHA-256 in hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Adds every file of a cache directory as `cache/NAME`; `t_aux` with its paths replaced.
pub fn add_cache(out: &mut Artifacts, cache: &Path) -> Result<()> {
    for entry in fs::read_dir(cache).with_context(|| format!("listing {}", cache.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = fs::read(entry.path()).with_context(|| format!("reading {}", entry.path().display()))?;
        let bytes = if name == "t_aux" { without_paths(&bytes, cache)? } else { bytes };
        out.insert(format!("cache/{name}"), bytes);
    }
    Ok(())
}

/// `t_aux` with the path of every store configuration replaced by the text `CACHE`, after checking that each path was
/// the cache directory (layout: proofs.md §5.7).
fn without_paths(bytes: &[u8], cache: &Path) -> Result<Vec<u8>> {
    let mut rest = bytes;
    let mut out = Vec::new();
    let layers = take_u64(&mut rest)?;
    ensure!(layers <= 11, "t_aux says {layers} layers");
    out.extend(layers.to_le_bytes());
    for _ in 0..layers + 3 {
        let path = take_text(&mut rest)?;
        ensure!(Path::new(&path) == cache, "t_aux names {path:?}, not {}", cache.display());
        out.extend(b"CACHE");
        let id = take_text(&mut rest)?;
        out.extend((id.len() as u64).to_le_bytes());
        out.extend(id.as_bytes());
        let tag = take(&mut rest, 1)?[0];
        out.push(tag);
        if tag == 1 {
            out.extend(take(&mut rest, 8)?);
        }
        out.extend(take(&mut rest, 8)?);
    }
    ensure!(rest.is_empty(), "t_aux has {} bytes too many", rest.len());
    Ok(out)
}

fn take<'a>(rest: &mut &'a [u8], n: usize) -> Result<&'a [u8]> {
    ensure!(rest.len() >= n, "t_aux ends early");
    let (head, tail) = rest.split_at(n);
    *rest = tail;
    Ok(head)
}

fn take_u64(rest: &mut &[u8]) -> Result<u64> {
    Ok(u64::from_le_bytes(take(rest, 8)?.try_into()?))
}

fn take_text(rest: &mut &[u8]) -> Result<String> {
    let len = take_u64(rest)?;
    Ok(String::from_utf8(take(rest, usize::try_from(len)?)?.to_vec())?)
}

/// One line for each artifact that is missing on a side or differs; empty when the sides agree.
pub fn differences(oracle: &Artifacts, ours: &Artifacts) -> Vec<String> {
    let mut out = Vec::new();
    for (name, theirs) in oracle {
        match ours.get(name) {
            None => out.push(format!("{name}: missing on our side ({} bytes in the oracle)", theirs.len())),
            Some(mine) if mine != theirs => out.push(difference(name, theirs, mine)),
            Some(_) => {}
        }
    }
    for name in ours.keys().filter(|n| !oracle.contains_key(*n)) {
        out.push(format!("{name}: only on our side"));
    }
    out
}

fn difference(name: &str, oracle: &[u8], ours: &[u8]) -> String {
    let at = oracle.iter().zip(ours).position(|(a, b)| a != b).unwrap_or(oracle.len().min(ours.len()));
    let window = |b: &[u8]| {
        let slice = &b[at.saturating_sub(8).min(b.len())..(at + 40).min(b.len())];
        match std::str::from_utf8(slice) {
            Ok(text) if !text.chars().any(char::is_control) => format!("{text:?}"),
            _ => hex::encode(slice),
        }
    };
    format!(
        "{name}: differs from byte {at} on (oracle {} bytes, ours {})\n      oracle …{}…\n      ours   …{}…",
        oracle.len(),
        ours.len(),
        window(oracle),
        window(ours)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_difference_is_told() {
        let set = |items: &[(&str, &[u8])]| -> Artifacts {
            items.iter().map(|(n, b)| ((*n).to_owned(), b.to_vec())).collect()
        };
        let oracle = set(&[("same", b"x"), ("changed", b"abc"), ("short", b"abcd"), ("lost", b"y")]);
        let ours = set(&[("same", b"x"), ("changed", b"abd"), ("short", b"abc"), ("extra", b"z")]);
        let told = differences(&oracle, &ours);
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told.iter().any(|d| d.starts_with("changed: differs from byte 2")));
        assert!(told.iter().any(|d| d.starts_with("short: differs from byte 3")));
        assert!(told.iter().any(|d| d.starts_with("lost: missing")));
        assert!(told.iter().any(|d| d.starts_with("extra: only")));
        assert!(differences(&oracle, &oracle).is_empty());
    }
}
