//! Pieces and their sizes.

use crate::Commitment;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a number of bytes is not a piece size (proofs.md §1.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Unpadded sizes are 127 * 2^k.
    #[error("{0} bytes is not an unpadded piece size: it must be 127 * 2^k (127, 254, 508, ...)")]
    Unpadded(u64),
    /// Padded sizes are 128 * 2^k.
    #[error("{0} bytes is not a padded piece size: it must be 128 * 2^k (128, 256, 512, ...)")]
    Padded(u64),
}

/// Bytes of a piece before fr32 padding: 127 * 2^k.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct UnpaddedSize(u64);

/// Bytes of a piece after fr32 padding: 128 * 2^k.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct PaddedSize(u64);

impl UnpaddedSize {
    /// Checks that `bytes` is 127 * 2^k.
    pub const fn new(bytes: u64) -> Result<Self, SizeError> {
        if bytes.is_multiple_of(127) && (bytes / 127).is_power_of_two() && bytes / 127 <= 1 << 56 {
            Ok(Self(bytes))
        } else {
            Err(SizeError::Unpadded(bytes))
        }
    }

    /// The smallest piece that holds `bytes` bytes of data; `None` for no data or more than a piece can be.
    pub fn containing(bytes: u64) -> Option<Self> {
        if bytes == 0 {
            return None;
        }
        let quads = bytes.div_ceil(127).checked_next_power_of_two()?;
        Self::new(quads.checked_mul(127)?).ok()
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The size after padding.
    pub const fn padded(self) -> PaddedSize {
        PaddedSize(self.0 / 127 * 128)
    }
}

impl PaddedSize {
    /// Checks that `bytes` is 128 * 2^k.
    pub const fn new(bytes: u64) -> Result<Self, SizeError> {
        if bytes >= 128 && bytes.is_power_of_two() { Ok(Self(bytes)) } else { Err(SizeError::Padded(bytes)) }
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The size before padding.
    pub const fn unpadded(self) -> UnpaddedSize {
        UnpaddedSize(self.0 / 128 * 127)
    }
}

impl TryFrom<u64> for UnpaddedSize {
    type Error = SizeError;

    fn try_from(bytes: u64) -> Result<Self, SizeError> {
        Self::new(bytes)
    }
}

impl From<UnpaddedSize> for u64 {
    fn from(size: UnpaddedSize) -> u64 {
        size.0
    }
}

impl TryFrom<u64> for PaddedSize {
    type Error = SizeError;

    fn try_from(bytes: u64) -> Result<Self, SizeError> {
        Self::new(bytes)
    }
}

impl From<PaddedSize> for u64 {
    fn from(size: PaddedSize) -> u64 {
        size.0
    }
}

impl fmt::Display for UnpaddedSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for PaddedSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A piece: its commitment (CommP) and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PieceInfo {
    /// CommP: root of the SHA-256 tree over the padded piece.
    pub comm_p: Commitment,
    /// Size before padding.
    pub size: UnpaddedSize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_powers_of_two_of_the_unit_are_sizes() {
        assert!(UnpaddedSize::new(0).is_err());
        assert!(PaddedSize::new(0).is_err());
        assert!(PaddedSize::new(64).is_err());
        assert!(UnpaddedSize::new(127 * 3).is_err());
        assert_eq!(UnpaddedSize::new(127).unwrap().padded(), PaddedSize::new(128).unwrap());
        assert_eq!(UnpaddedSize::containing(0), None);
        assert_eq!(UnpaddedSize::containing(u64::MAX), None);
        assert_eq!(UnpaddedSize::containing(128).unwrap().bytes(), 254);
    }

    proptest! {
        #[test]
        fn containing_is_the_smallest(bytes in 1u64..1 << 40) {
            let size = UnpaddedSize::containing(bytes).unwrap();
            prop_assert!(size.bytes() >= bytes);
            prop_assert!(size.bytes() == 127 || size.bytes() / 2 < bytes);
            prop_assert_eq!(size.padded().unpadded(), size);
        }
    }
}
