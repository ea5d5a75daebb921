//! The contract every backend keeps: ordered keys, and one atomic durable write that is data, not code.

use crate::StoreError;
use async_trait::async_trait;

/// What a key must hold for a batch to be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// The key is not there.
    Absent,
    /// The key holds exactly these bytes.
    Is(Vec<u8>),
}

/// A condition on one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The key.
    pub key: Vec<u8>,
    /// What it must hold.
    pub expect: Expect,
}

/// A change to one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Sets the key.
    Put {
        /// The key; at most [`KEY_BYTES_MAX`] bytes.
        key: Vec<u8>,
        /// The value; at most [`VALUE_BYTES_MAX`] bytes.
        value: Vec<u8>,
    },
    /// Removes the key; no error when it is not there.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
}

/// A journal entry to be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    /// Whose history it belongs to.
    pub stream: Vec<u8>,
    /// At most [`VALUE_BYTES_MAX`] bytes.
    pub payload: Vec<u8>,
}

/// A journal entry as read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the one global order; the first is 1. Entries of one batch are consecutive.
    pub seq: u64,
    /// Whose history it belongs to.
    pub stream: Vec<u8>,
    /// What was appended.
    pub payload: Vec<u8>,
}

/// One atomic write: applied whole when every condition holds, else not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Checked against the state before the batch.
    pub conditions: Vec<Condition>,
    /// Applied in order; a later write to a key wins.
    pub writes: Vec<Write>,
    /// Appended in order.
    pub journal: Vec<NewEntry>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition.
    pub fn expect(&mut self, key: impl Into<Vec<u8>>, expect: Expect) -> &mut Self {
        self.conditions.push(Condition { key: key.into(), expect });
        self
    }

    /// Adds a write of a value.
    pub fn put(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> &mut Self {
        self.writes.push(Write::Put { key: key.into(), value: value.into() });
        self
    }

    /// Adds a removal.
    pub fn delete(&mut self, key: impl Into<Vec<u8>>) -> &mut Self {
        self.writes.push(Write::Delete { key: key.into() });
        self
    }

    /// Adds a journal entry.
    pub fn append(&mut self, stream: impl Into<Vec<u8>>, payload: impl Into<Vec<u8>>) -> &mut Self {
        self.journal.push(NewEntry { stream: stream.into(), payload: payload.into() });
        self
    }
}

/// Where an applied batch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The sequence number of the batch's last journal entry, or of the last one before it when it had none.
    pub last_seq: u64,
}

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
/// The largest value or journal payload, in bytes. Larger things are files, referenced by digest (SS-5).
pub const VALUE_BYTES_MAX: usize = 64 * 1024;
/// The largest batch, in bytes of keys, values, streams and payloads together.
pub const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A store. All methods may be called from many tasks at once.
///
/// Reads see every batch whose `commit` has returned, and may see one that is about to return. Nothing here names a
/// backend: an embedded database and PostgreSQL keep the same contract, which the conformance suite checks.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The value of a key.
    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// At most `limit` pairs whose key begins with `prefix`, ascending, beginning after the key `after`.
    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Pair>, StoreError>;

    /// Applies a batch. On success it is on disk: it survives the process and the power. [`StoreError::Conflict`] names
    /// the first condition that did not hold; then nothing was applied.
    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError>;

    /// At most `limit` journal entries with a sequence number above `after`, ascending; of one stream, or of all.
    async fn journal(
        &self,
        stream: Option<&[u8]>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError>;
}
