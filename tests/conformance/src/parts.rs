//! Single functions on random inputs: what a sector case does not reach, such as the graphs and challenges of 32 GiB.

use crate::case::porep_id;
use crate::oracle;
use crate::shared::stream::Stream;
use crate::shared::{Artifacts, B32, Data, Feature, Part, Piece, Version, list};
use anyhow::{Context, Result};

/// A family of single-function cases.
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// Cases in a full run.
    pub full: u64,
    /// Cases in a quick run.
    pub quick: u64,
    make: fn(&mut Stream, u64, &str) -> Part,
}

/// Every family, in the order of a run.
pub const FAMILIES: &[Family] = &[
    Family { name: "poseidon", full: 400, quick: 80, make: poseidon },
    Family { name: "fr32", full: 200, quick: 50, make: fr32 },
    Family { name: "comm-p", full: 60, quick: 20, make: comm_p },
    Family { name: "comm-d", full: 200, quick: 50, make: comm_d },
    Family { name: "replica-id", full: 50, quick: 10, make: replica_id },
    Family { name: "parents", full: 120, quick: 24, make: parents },
    Family { name: "challenges", full: 120, quick: 24, make: challenges },
];

/// Nodes of every sector size of proofs.md §2.1.
const NODES: [u64; 10] =
    [1 << 6, 1 << 7, 1 << 9, 1 << 10, 1 << 18, 1 << 19, 1 << 24, 1 << 25, 1 << 30, 1 << 31];

impl Family {
    /// Case number `index` of this family under `seed`.
    pub fn case(&self, seed: &str, index: u64) -> Part {
        let name = format!("{seed}/{}-{index}", self.name);
        (self.make)(&mut Stream::new(name.clone()), index, &name)
    }
}

fn poseidon(s: &mut Stream, index: u64, _: &str) -> Part {
    /// r - 1, the largest canonical element.
    const LARGEST: &str = "00000000fffffffffe5bfeff02a4bd5305d8a10908d83933487d9d2953a7ed73";
    let arity = [2, 4, 8, 11][(index % 4) as usize];
    let largest: [u8; 32] = hex::decode(LARGEST).expect("hex").try_into().expect("32 bytes");
    let mut one = [0; 32];
    one[0] = 1;
    let input = |s: &mut Stream| match s.below(8) {
        0 => [0; 32],
        1 => one,
        2 => largest,
        _ => s.element(),
    };
    Part::Poseidon { inputs: (0..arity).map(|_| B32(input(s))).collect() }
}

fn fr32(s: &mut Stream, index: u64, name: &str) -> Part {
    // Every short length once, then any.
    let len = if index < 140 { index + 1 } else { 1 + s.below(40_000) };
    Part::Fr32 { len: len as usize, label: format!("{name}/data") }
}

fn comm_p(_: &mut Stream, index: u64, name: &str) -> Part {
    Part::CommP { len: 127 << (index % 14), label: format!("{name}/data") }
}

fn comm_d(s: &mut Stream, _: u64, _: &str) -> Part {
    /// For a sector without pieces the reference hashes the whole sector: more would take minutes and gigabytes.
    const EMPTY_UP_TO: u64 = 16 << 20;
    let sector_size = NODES[s.below(10) as usize] * 32;
    let capacity = sector_size / 128 * 127;
    let mut pieces = crate::case::pieces(s, capacity, "");
    if pieces.is_empty() && sector_size > EMPTY_UP_TO {
        pieces = vec![Piece { size: capacity, data: Data::Zero }];
    }
    // Also lists that end early: the result is then not extended to the sector (proofs.md §11.4).
    if !pieces.is_empty() && s.below(3) == 0 {
        pieces.truncate(1 + s.below(pieces.len() as u64) as usize);
    }
    Part::CommD { sector_size, pieces: pieces.iter().map(|p| (B32(s.element()), p.size)).collect() }
}

fn replica_id(s: &mut Stream, _: u64, _: &str) -> Part {
    Part::ReplicaId {
        prover_id: B32(s.array()),
        sector_id: s.below(u64::MAX),
        ticket: B32(s.array()),
        comm_d: B32(s.element()),
        porep_id: B32(s.array()),
    }
}

fn parents(s: &mut Stream, index: u64, _: &str) -> Part {
    let nodes = NODES[(index % 10) as usize];
    let (porep_id, version) = match s.below(3) {
        0 => (porep_id(s.below(5)), Version::V1),
        1 => (porep_id(5 + s.below(15)), [Version::V1_1, Version::V1_2][s.below(2) as usize]),
        _ => (s.array(), [Version::V1, Version::V1_1, Version::V1_2][s.below(3) as usize]),
    };
    let mut wanted = vec![0, 1, 2, 3, (nodes - 1) as u32];
    wanted.extend((0..59).map(|_| s.below(nodes) as u32));
    Part::Parents { nodes, porep_id: B32(porep_id), version, wanted }
}

fn challenges(s: &mut Stream, index: u64, _: &str) -> Part {
    let nodes = NODES[s.below(10) as usize];
    let large = nodes >= 1 << 30;
    let feature = [Feature::Interactive, Feature::Synthetic, Feature::NonInteractive][(index % 3) as usize];
    let count = match (feature, large) {
        (Feature::NonInteractive, false) => 13,
        (Feature::NonInteractive, true) => 126,
        (_, false) => 1,
        (_, true) => 10,
    };
    Part::Challenges {
        feature,
        partitions: (0..count).collect(),
        per_partition: if large { 18 } else { 2 },
        nodes,
        replica_id: B32(s.element()),
        comm_r: B32(s.element()),
        seed: B32(s.array()),
    }
}

/// What the reference makes of it.
pub fn oracle(part: &Part) -> Result<Artifacts> {
    let mut out = Artifacts::new();
    match part {
        Part::Poseidon { inputs } => {
            let inputs: Vec<_> = inputs.iter().map(|b| b.0).collect();
            out.insert("digest".into(), oracle::poseidon(&inputs)?.to_vec());
        }
        Part::Fr32 { len, label } => {
            out.insert("padded".into(), oracle::fr32(&Stream::new(label.clone()).bytes(*len))?);
        }
        Part::CommP { len, label } => {
            out.insert("comm_p".into(), oracle::comm_p(&Stream::new(label.clone()).bytes(*len))?.to_vec());
        }
        Part::CommD { sector_size, pieces } => {
            let pieces: Vec<_> = pieces.iter().map(|&(c, n)| (c.0, n)).collect();
            out.insert("comm_d".into(), oracle::comm_d(*sector_size, &pieces)?.to_vec());
        }
        Part::ReplicaId { prover_id, sector_id, ticket, comm_d, porep_id } => {
            let id = oracle::replica_id(&prover_id.0, *sector_id, &ticket.0, &comm_d.0, &porep_id.0);
            out.insert("replica_id".into(), id.to_vec());
        }
        Part::Parents { nodes, porep_id, version, wanted } => {
            out.insert("parents".into(), list(&oracle::parents(*nodes, porep_id.0, *version, wanted)?));
        }
        Part::Challenges { feature, partitions, per_partition, nodes, replica_id, comm_r, seed } => {
            let of = |seed, k| {
                oracle::challenges(*feature, *per_partition, *nodes, &replica_id.0, &comm_r.0, seed, k)
            };
            for &k in partitions {
                out.insert(format!("partition/{k}"), list(&of(Some(seed.0), k)?));
            }
            if *feature == Feature::Synthetic {
                let set = of(None, 0)?;
                out.insert("synthetic/len".into(), set.len().to_string().into_bytes());
                out.insert("synthetic/head".into(), list(&set[..set.len().min(64)]));
                out.insert("synthetic/tail".into(), list(&set[set.len().saturating_sub(64)..]));
            }
        }
    }
    Ok(out)
}

/// The case with this name under `seed`, if it is one of these families.
pub fn named(seed: &str, name: &str) -> Result<Option<Part>> {
    let (family, index) = name.rsplit_once('-').context("a case is named family-index")?;
    match FAMILIES.iter().find(|f| f.name == family) {
        Some(found) => Ok(Some(found.case(seed, index.parse().context("an index")?))),
        None => Ok(None),
    }
}
