//! How the two sides of a case are compared.

use crate::shared::Artifacts;

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
