//! Random sectors: the inputs of a case, made from a seed and the case's name.

use crate::shared::stream::Stream;
use crate::shared::{B32, Data, Feature, Inputs, Piece, Version};
use anyhow::{Context, Result, bail};

/// A family of sector cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Its name, which begins the name of its cases.
    pub name: &'static str,
    /// Sector bytes.
    pub sector_size: u64,
    /// Layers.
    pub layers: usize,
    /// Kind of challenges.
    pub feature: Feature,
    /// Cases in a full run.
    pub full: u64,
    /// Cases in a quick run.
    pub quick: u64,
}

const fn group(
    name: &'static str,
    sector_size: u64,
    layers: usize,
    feature: Feature,
    full: u64,
    quick: u64,
) -> Group {
    Group { name, sector_size, layers, feature, full, quick }
}

/// Every family, in the order of a run.
pub const GROUPS: &[Group] = &[
    group("2KiB", 2 << 10, 2, Feature::Interactive, 300, 24),
    group("4KiB", 4 << 10, 2, Feature::Interactive, 30, 4),
    group("16KiB", 16 << 10, 2, Feature::Interactive, 30, 4),
    group("32KiB", 32 << 10, 2, Feature::Interactive, 30, 4),
    group("2KiB-eleven-layers", 2 << 10, 11, Feature::Interactive, 12, 4),
    group("2KiB-synthetic", 2 << 10, 2, Feature::Synthetic, 12, 2),
    group("2KiB-non-interactive", 2 << 10, 2, Feature::NonInteractive, 12, 2),
    group("8MiB", 8 << 20, 2, Feature::Interactive, 3, 0),
];

/// `LE64(number)` and zeros: the porep id of a registered proof (proofs.md §2.5).
pub fn porep_id(number: u64) -> [u8; 32] {
    let mut id = [0; 32];
    id[..8].copy_from_slice(&number.to_le_bytes());
    id
}

impl Group {
    /// Case number `index` of this family under `seed`.
    pub fn case(&self, seed: &str, index: u64) -> Inputs {
        let name = format!("{}-{index}", self.name);
        let mut s = Stream::new(format!("{seed}/{name}"));
        let (porep_id, version, registered) = self.identity(&mut s, index);
        let capacity = self.sector_size / 128 * 127;
        let pieces = pieces(&mut s, capacity, &format!("{seed}/{name}"));
        let mut unseal = vec![(0, capacity)];
        for _ in 0..2 {
            let offset = s.below(capacity / 127) * 127;
            unseal.push((offset, 1 + s.below(capacity - offset)));
        }
        // A prover id is an actor's number as LEB128 on the network and any element for the library.
        let prover_id = if s.below(2) == 0 { s.element() } else { porep_id_like_actor(s.below(1 << 20)) };
        Inputs {
            name,
            sector_size: self.sector_size,
            layers: self.layers,
            porep_id: B32(porep_id),
            version,
            feature: self.feature,
            registered,
            prover_id: B32(prover_id),
            sector_id: if s.below(4) == 0 { s.below(u64::MAX) } else { s.below(1 << 32) },
            ticket: B32(s.array()),
            seed: B32(s.array()),
            pieces,
            unseal,
        }
    }

    fn identity(&self, s: &mut Stream, index: u64) -> ([u8; 32], Version, Option<u64>) {
        let size_row = match self.sector_size {
            0x800 => Some(0),
            0x80_0000 => Some(1),
            _ => None,
        };
        match self.feature {
            Feature::Synthetic => return (porep_id(10), Version::V1_2, Some(10)),
            Feature::NonInteractive => return (porep_id(15), Version::V1_2, Some(15)),
            Feature::Interactive => {}
        }
        // Registered V1 and V1_1 in turn, and where there is room for it ids of no registered proof.
        match (size_row, index % 4) {
            (Some(row), 0) => (porep_id(row), Version::V1, (self.layers == 2).then_some(row)),
            (Some(row), 1) => (porep_id(row + 5), Version::V1_1, (self.layers == 2).then_some(row + 5)),
            (Some(_), 2) => (s.array(), [Version::V1, Version::V1_1][s.below(2) as usize], None),
            (Some(_), _) => (s.array(), [Version::V1_1, Version::V1_2][s.below(2) as usize], None),
            (None, n) if n % 2 == 0 => (porep_id(0), Version::V1, None),
            (None, _) => (porep_id(5), Version::V1_1, None),
        }
    }
}

fn porep_id_like_actor(mut actor: u64) -> [u8; 32] {
    let mut out = [0; 32];
    for byte in &mut out {
        *byte = (actor & 0x7f) as u8;
        actor >>= 7;
        if actor == 0 {
            break;
        }
        *byte |= 0x80;
    }
    out
}

/// Random pieces that fill `capacity` unpadded bytes exactly, alignment included (proofs.md §11.2).
pub fn pieces(s: &mut Stream, capacity: u64, label: &str) -> Vec<Piece> {
    let units = capacity / 127;
    if s.below(16) == 0 {
        return Vec::new();
    }
    let mut used = 0;
    let mut out: Vec<Piece> = Vec::new();
    let top = u64::from(units.ilog2());
    let wanted = if s.below(4) == 0 { 1 } else { 1 + s.below(6) };
    for _ in 0..wanted {
        // Small pieces are likely in a small sector, and a sector of 8 MiB does not get thousands of them.
        let size = 1u64 << (top - s.below(top.min(6) + 1));
        let start = u64::next_multiple_of(used, size);
        if start + size > units {
            continue;
        }
        let data = match s.below(8) {
            0 => Data::Zero,
            1 => Data::Ones,
            _ => Data::Stream(format!("{label}/piece-{}", out.len())),
        };
        out.push(Piece { size: size * 127, data });
        used = start + size;
    }
    while used < units {
        let size = if used == 0 { units } else { 1 << used.trailing_zeros() };
        out.push(Piece { size: size * 127, data: Data::Zero });
        used += size;
    }
    out
}

/// The case with this name under `seed`.
pub fn named(seed: &str, name: &str) -> Result<Inputs> {
    let (family, index) = name.rsplit_once('-').context("a case is named family-index")?;
    let index = index.parse().with_context(|| format!("{index:?} is not a case's index"))?;
    match GROUPS.iter().find(|g| g.name == family) {
        Some(group) => Ok(group.case(seed, index)),
        None => bail!("no family of cases is called {family:?}"),
    }
}
