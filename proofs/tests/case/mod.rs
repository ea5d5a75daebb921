//! Inputs of one sealed sector or of one function, and what came out of them by name.
//!
//! Used by `known_answers.rs` here, and by `tests/conformance`, which makes random cases of these types and runs them
//! through the reference implementation as well.

pub mod run;
pub mod stream;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use stream::Stream;

/// Why a case could not be run.
pub type Fault = Box<dyn Error + Send + Sync>;

/// Everything comparable that came out of a case, by name.
pub type Artifacts = BTreeMap<String, Vec<u8>>;

/// 32 bytes, in JSON in hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct B32(pub [u8; 32]);

impl From<B32> for String {
    fn from(value: B32) -> String {
        hex::encode(value.0)
    }
}

impl TryFrom<String> for B32 {
    type Error = hex::FromHexError;

    fn try_from(text: String) -> Result<Self, hex::FromHexError> {
        let mut out = [0; 32];
        hex::decode_to_slice(text, &mut out)?;
        Ok(Self(out))
    }
}

/// The version of the algorithms (proofs.md §2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    /// 1.0.0
    V1,
    /// 1.1.0
    V1_1,
    /// 1.2.0
    V1_2,
}

/// How challenges are made (proofs.md §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Feature {
    /// From the seed.
    Interactive,
    /// Picked from the synthetic set.
    Synthetic,
    /// From CommR.
    NonInteractive,
}

/// Contents of a piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Data {
    /// All zero.
    Zero,
    /// All one bits: every padding bit shows.
    Ones,
    /// The stream of this label.
    Stream(String),
}

/// One piece: its unpadded size, 127·2^k, and its contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Unpadded bytes.
    pub size: u64,
    /// Contents.
    pub data: Data,
}

impl Piece {
    /// The unpadded bytes.
    pub fn bytes(&self) -> Vec<u8> {
        match &self.data {
            Data::Zero => vec![0; self.size as usize],
            Data::Ones => vec![0xff; self.size as usize],
            Data::Stream(label) => Stream::new(label.clone()).bytes(self.size as usize),
        }
    }
}

/// All inputs of sealing one sector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inputs {
    /// The case's name.
    pub name: String,
    /// Sector bytes.
    pub sector_size: u64,
    /// Labelling layers.
    pub layers: usize,
    /// The 32 bytes that seed the graph.
    pub porep_id: B32,
    /// Version of the algorithms.
    pub version: Version,
    /// Kind of challenges.
    pub feature: Feature,
    /// The registered proof's number, where the case is exactly one.
    pub registered: Option<u64>,
    /// Prover.
    pub prover_id: B32,
    /// Sector number.
    pub sector_id: u64,
    /// Seal randomness.
    pub ticket: B32,
    /// Interactive randomness.
    pub seed: B32,
    /// The pieces in order; with their alignment they fill the sector exactly. Empty: a sector of zeros without pieces.
    pub pieces: Vec<Piece>,
    /// Unpadded ranges (offset, length) to unseal; the offset is a multiple of 127.
    pub unseal: Vec<(u64, u64)>,
}

/// The inputs of one function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Poseidon with the Merkle tag; the number of inputs is the arity.
    Poseidon {
        /// Canonical field elements.
        inputs: Vec<B32>,
    },
    /// fr32 padding.
    Fr32 {
        /// Bytes to pad, from the stream of `label`.
        len: usize,
        /// Stream.
        label: String,
    },
    /// CommP.
    CommP {
        /// Unpadded bytes.
        len: usize,
        /// Stream.
        label: String,
    },
    /// CommD from pieces.
    CommD {
        /// Sector bytes.
        sector_size: u64,
        /// CommP and unpadded size of each piece.
        pieces: Vec<(B32, u64)>,
    },
    /// Replica id.
    ReplicaId {
        /// Prover.
        prover_id: B32,
        /// Sector number.
        sector_id: u64,
        /// Seal randomness.
        ticket: B32,
        /// CommD.
        comm_d: B32,
        /// Porep id.
        porep_id: B32,
    },
    /// Parents of single nodes.
    Parents {
        /// Nodes of the graph.
        nodes: u64,
        /// Seeds the graph.
        porep_id: B32,
        /// Layout and expander rule.
        version: Version,
        /// Nodes asked for.
        wanted: Vec<u32>,
    },
    /// Challenges of partitions, and for the synthetic kind head and tail of the whole set.
    Challenges {
        /// Kind.
        feature: Feature,
        /// Partition numbers asked for.
        partitions: Vec<usize>,
        /// Challenges of a partition.
        per_partition: usize,
        /// Nodes of the sector.
        nodes: u64,
        /// Replica id.
        replica_id: B32,
        /// CommR.
        comm_r: B32,
        /// Interactive randomness.
        seed: B32,
    },
}

/// Numbers as the JSON text of a list: readable where they differ.
pub fn list<T: Serialize>(values: &[T]) -> Vec<u8> {
    serde_json::to_vec(values).expect("numbers have a JSON form")
}

/// An artifact as the known answers write it: hexadecimal, or `sha256:` of more than 32 bytes.
pub fn digest(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    if bytes.len() <= 32 {
        hex::encode(bytes)
    } else {
        format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
    }
}

/// Adds every file of a cache folder as `cache/NAME`; `t_aux` with its paths replaced.
pub fn add_cache(out: &mut Artifacts, cache: &Path) -> Result<(), Fault> {
    for entry in std::fs::read_dir(cache)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = std::fs::read(entry.path())?;
        let bytes = if name == "t_aux" { without_paths(&bytes, cache)? } else { bytes };
        out.insert(format!("cache/{name}"), bytes);
    }
    Ok(())
}

/// JSON with the cache folder's path replaced by the text `CACHE`.
pub fn without_path(json: &str, cache: &Path) -> Vec<u8> {
    json.replace(&*cache.to_string_lossy(), "CACHE").into_bytes()
}

/// `t_aux` with the path of every store and its length replaced by the text `CACHE`, after checking that each path was
/// the cache folder (layout: proofs.md §5.7).
fn without_paths(bytes: &[u8], cache: &Path) -> Result<Vec<u8>, Fault> {
    let mut rest = bytes;
    let mut out = Vec::new();
    let layers = take_u64(&mut rest)?;
    if layers > 11 {
        return Err(format!("t_aux says {layers} layers").into());
    }
    out.extend(layers.to_le_bytes());
    for _ in 0..layers + 3 {
        let path = take_text(&mut rest)?;
        if Path::new(&path) != cache {
            return Err(format!("t_aux names {path:?}, not {}", cache.display()).into());
        }
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
    if !rest.is_empty() {
        return Err(format!("t_aux has {} bytes too many", rest.len()).into());
    }
    Ok(out)
}

fn take<'a>(rest: &mut &'a [u8], n: usize) -> Result<&'a [u8], Fault> {
    let (head, tail) = rest.split_at_checked(n).ok_or("t_aux ends early")?;
    *rest = tail;
    Ok(head)
}

fn take_u64(rest: &mut &[u8]) -> Result<u64, Fault> {
    Ok(u64::from_le_bytes(take(rest, 8)?.try_into()?))
}

fn take_text(rest: &mut &[u8]) -> Result<String, Fault> {
    let len = take_u64(rest)?;
    Ok(String::from_utf8(take(rest, usize::try_from(len)?)?.to_vec())?)
}
