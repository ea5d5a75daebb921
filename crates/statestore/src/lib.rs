//! An ordered key-value store with atomic durable batches and a journal beside it.

#![forbid(unsafe_code)]

mod store;

pub use store::{
    Batch, Committed, Condition, Entry, Expect, KEY_BYTES_MAX, NewEntry, Pair, Store, VALUE_BYTES_MAX, Write,
};

/// Why a store could not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A condition of a batch did not hold; nothing was applied.
    #[error("the key {key:?} does not hold what the batch expected")]
    Conflict {
        /// The key, as printable text.
        key: String,
    },
}
