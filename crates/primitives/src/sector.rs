//! Sectors: number, owner, size.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The number of an actor, a miner's for example (`f01000` is 1000).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ActorId(pub u64);

/// A sector's number, unique for its miner for ever (at most 2^63 - 1, chain.md §3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SectorNumber(pub u64);

impl SectorNumber {
    /// The largest number the miner actor accepts.
    pub const MAX: SectorNumber = SectorNumber(i64::MAX as u64);
}

impl fmt::Display for SectorNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A sector of a miner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SectorId {
    /// The miner.
    pub miner: ActorId,
    /// The sector's number.
    pub number: SectorNumber,
}

/// The name of the sector's files, `s-t0<miner>-<number>`.
impl fmt::Display for SectorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s-t0{}-{}", self.miner.0, self.number.0)
    }
}

impl FromStr for SectorId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A text without the frame parses as an empty number, which is the error we want to report.
        let rest = text.strip_prefix("s-t0").or_else(|| text.strip_prefix("s-f0")).unwrap_or("");
        let (miner, number) = rest.split_once('-').unwrap_or(("", ""));
        Ok(Self { miner: ActorId(miner.parse()?), number: SectorNumber(number.parse()?) })
    }
}

/// Not one of the sector sizes of proofs.md §2.1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{got:?} is not a sector size; the sizes are 2KiB 4KiB 16KiB 32KiB 8MiB 16MiB 512MiB 1GiB 32GiB 64GiB"
)]
pub struct UnknownSectorSize {
    /// What was given.
    pub got: String,
}

macro_rules! sector_sizes {
    ($($variant:ident $text:literal $bytes:expr;)*) => {
        /// A sector size the proofs are defined for (proofs.md §2.1). Only 2 KiB, 8 MiB, 512 MiB, 32 GiB and 64 GiB are
        /// registered on a network.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum SectorSize {
            $(#[doc = $text] $variant,)*
        }

        impl SectorSize {
            /// Every size, ascending.
            pub const ALL: &'static [SectorSize] = &[$(SectorSize::$variant,)*];

            /// Bytes of the padded sector.
            pub const fn bytes(self) -> u64 {
                match self { $(SectorSize::$variant => $bytes,)* }
            }

            /// The text form, such as `8MiB`.
            pub const fn as_str(self) -> &'static str {
                match self { $(SectorSize::$variant => $text,)* }
            }
        }
    };
}

sector_sizes! {
    KiB2 "2KiB" 2 << 10;
    KiB4 "4KiB" 4 << 10;
    KiB16 "16KiB" 16 << 10;
    KiB32 "32KiB" 32 << 10;
    MiB8 "8MiB" 8 << 20;
    MiB16 "16MiB" 16 << 20;
    MiB512 "512MiB" 512 << 20;
    GiB1 "1GiB" 1 << 30;
    GiB32 "32GiB" 32 << 30;
    GiB64 "64GiB" 64 << 30;
}

impl SectorSize {
    /// Number of 32-byte nodes.
    pub const fn nodes(self) -> u64 {
        self.bytes() / 32
    }

    /// Bytes of user data that fit: 127/128 of the sector.
    pub const fn unpadded_bytes(self) -> u64 {
        self.bytes() / 128 * 127
    }

    /// The size with exactly this many bytes.
    pub fn from_bytes(bytes: u64) -> Result<Self, UnknownSectorSize> {
        Self::ALL
            .iter()
            .copied()
            .find(|s| s.bytes() == bytes)
            .ok_or_else(|| UnknownSectorSize { got: format!("{bytes} bytes") })
    }
}

impl fmt::Display for SectorSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for SectorSize {
    type Err = UnknownSectorSize;

    fn from_str(text: &str) -> Result<Self, UnknownSectorSize> {
        let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        if let Ok(bytes) = plain.parse::<u64>() {
            return Self::from_bytes(bytes);
        }
        Self::ALL
            .iter()
            .copied()
            .find(|s| s.as_str().eq_ignore_ascii_case(&plain))
            .ok_or_else(|| UnknownSectorSize { got: text.chars().take(80).collect() })
    }
}

impl Serialize for SectorSize {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(self.bytes())
    }
}

impl<'de> Deserialize<'de> for SectorSize {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Self::from_bytes(u64::deserialize(d)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_trip_through_text_and_bytes() {
        for &size in SectorSize::ALL {
            assert_eq!(size.to_string().parse::<SectorSize>().unwrap(), size);
            assert_eq!(size.bytes().to_string().parse::<SectorSize>().unwrap(), size);
            assert_eq!(SectorSize::from_bytes(size.bytes()).unwrap(), size);
            assert!(size.bytes().is_power_of_two());
        }
        assert_eq!("8 mib".parse::<SectorSize>().unwrap(), SectorSize::MiB8);
        for bad in ["", "3KiB", "0", "2049", "-1", "99999999999999999999"] {
            assert!(bad.parse::<SectorSize>().is_err(), "{bad}");
        }
    }

    #[test]
    fn file_names_round_trip() {
        let id = SectorId { miner: ActorId(1000), number: SectorNumber(7) };
        assert_eq!(id.to_string(), "s-t01000-7");
        assert_eq!("s-t01000-7".parse::<SectorId>().unwrap(), id);
        for bad in ["", "s-t0-7", "s-t01000-", "s-t01000", "x-t01000-7", "s-t01000-7.tmp"] {
            assert!(bad.parse::<SectorId>().is_err(), "{bad}");
        }
    }
}
