//! What a kind of machine is: its types and its identifiers.

use crate::Kind;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fmt;
use std::hash::Hasher;

/// A kind of machine: the types of its record and events. The behaviour is data, in a [`PlannerMap`](crate::PlannerMap).
pub trait Machine: Sized + Send + Sync + 'static {
    /// The prefix of its keys in the store: ASCII letters, digits, `-` and `_`. Two kinds in one store differ here.
    const NAME: &'static str;
    /// The states.
    type State: Kind;
    /// The kinds of events, one per rule.
    type EventKind: Kind;
    /// An event with its data. What it carries is all that planning may read besides the record (SM-3).
    type Event: Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// The stored data, without the state, which the engine keeps beside it.
    type Record: Clone + fmt::Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// The kind of an event.
    fn kind(event: &Self::Event) -> Self::EventKind;

    /// A digest of everything in the record but counters and times. A cycle of states is only a loop when this stays the
    /// same (SM-12). The default takes the whole record: right for records without counters and times.
    fn facts(record: &Self::Record) -> u64 {
        let mut hash = Fnv::default();
        hash.write(&statestore::codec::encode_bare(record).unwrap_or_default());
        hash.finish()
    }
}

/// FNV-1a, 64 bits: stable between versions and platforms, unlike the standard library's hasher. For derived jitter and
/// for [`Machine::facts`].
#[derive(Debug, Clone)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// The longest machine id, in bytes.
pub const ID_BYTES_MAX: usize = 256;

/// The name of one machine within its group. Ids sort as text: pad numbers with zeros.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MachineId(String);

impl MachineId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it can be stored: not empty, at most [`ID_BYTES_MAX`] bytes, no control characters.
    pub fn is_valid(&self) -> bool {
        !self.0.is_empty() && self.0.len() <= ID_BYTES_MAX && !self.0.chars().any(char::is_control)
    }
}

impl From<&str> for MachineId {
    fn from(id: &str) -> Self {
        Self(id.to_owned())
    }
}

impl From<String> for MachineId {
    fn from(id: String) -> Self {
        Self(id)
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// One execution of a step: the machine and the version of the commit that decided it (SM-3).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId {
    /// The machine.
    pub machine: MachineId,
    /// The version of its record that asked for the run.
    pub version: u64,
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.machine, self.version)
    }
}

/// One effect on the outside: the machine, the version of the commit that decided it, its place in that commit (SM-3).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct IntentId {
    /// The machine.
    pub machine: MachineId,
    /// The version of its record that decided the effect.
    pub version: u64,
    /// 0 for the first effect of that commit.
    pub ordinal: u32,
}

impl fmt::Display for IntentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}#{}", self.machine, self.version, self.ordinal)
    }
}
