//! Values on the command line.

use primitives::{ActorId, RegisteredSealProof, SectorNumber};

/// 32 bytes as 64 hexadecimal digits.
///
/// # Errors
/// Names the length, or the first character that is no digit and its place.
pub(super) fn hex32<T: From<[u8; 32]>>(text: &str) -> Result<T, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if let Some((place, bad)) = digits.chars().enumerate().find(|(_, c)| !c.is_ascii_hexdigit()) {
        return Err(format!("expected 64 hexadecimal digits (32 bytes); character {} is {bad:?}", place + 1));
    }
    let mut bytes = [0; 32];
    hex::decode_to_slice(digits, &mut bytes)
        .map_err(|_| format!("expected 64 hexadecimal digits (32 bytes), got {}", digits.len()))?;
    Ok(bytes.into())
}

/// The number of a registered seal proof.
///
/// # Errors
/// Says which numbers there are.
pub(super) fn seal_proof(text: &str) -> Result<RegisteredSealProof, String> {
    let number =
        text.parse().map_err(|_| "expected the number of a registered seal proof, 0 to 19".to_owned())?;
    RegisteredSealProof::new(number).map_err(|e| e.to_string())
}

/// A miner's actor number: `1000`, `f01000` or `t01000`.
///
/// # Errors
/// Says which forms there are.
pub(super) fn miner_id(text: &str) -> Result<ActorId, String> {
    let digits = text.strip_prefix("f0").or_else(|| text.strip_prefix("t0")).unwrap_or(text);
    digits.parse().map(ActorId).map_err(|_| "expected a miner's number, such as 1000 or f01000".to_owned())
}

/// A sector number.
///
/// # Errors
/// Says the range.
pub(super) fn sector(text: &str) -> Result<SectorNumber, String> {
    match text.parse() {
        Ok(number) if number <= SectorNumber::MAX.0 => Ok(SectorNumber(number)),
        _ => Err(format!("expected a sector number, 0 to {}", SectorNumber::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Ticket;

    #[test]
    fn bad_hex_is_named() {
        let bad = |text: &str| hex32::<Ticket>(text).unwrap_err();
        assert_eq!(bad("01"), "expected 64 hexadecimal digits (32 bytes), got 2");
        assert_eq!(bad(&"0".repeat(65)), "expected 64 hexadecimal digits (32 bytes), got 65");
        assert_eq!(bad(""), "expected 64 hexadecimal digits (32 bytes), got 0");
        assert_eq!(
            bad(&format!("00g{}", "0".repeat(61))),
            "expected 64 hexadecimal digits (32 bytes); character 3 is 'g'"
        );
        assert_eq!(hex32::<Ticket>(&format!("0x{}", "01".repeat(32))), Ok(Ticket([1; 32])));
    }

    #[test]
    fn numbers_have_their_ranges() {
        assert_eq!(seal_proof("19").unwrap().number(), 19);
        assert_eq!(
            seal_proof("20").unwrap_err(),
            "20 is not a registered seal proof; they are numbered 0 to 19"
        );
        assert!(seal_proof("-1").is_err() && seal_proof("x").is_err());
        assert_eq!(miner_id("f01000"), Ok(ActorId(1000)));
        assert_eq!(miner_id("1000"), Ok(ActorId(1000)));
        assert!(miner_id("f1abc").is_err());
        assert!(sector("9223372036854775807").is_ok());
        assert!(sector("9223372036854775808").is_err());
    }
}
