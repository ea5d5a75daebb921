//! An ordered key-value store with atomic durable batches and a journal beside it.

#![forbid(unsafe_code)]

mod check;
pub mod codec;
mod collection;
mod disk;
mod error;
mod memory;
mod schema;
mod store;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;

pub use codec::CodecError;
pub use collection::{Collection, FixedKey, KeyCodec, Listed};
pub use disk::{Health, OpenReport, Options, SledStore, Stats};
pub use error::{ErrorClass, StoreError};
pub use memory::MemoryStore;
pub use schema::{Migration, MigrationContext, SCHEMA_KEY, Schema};
pub use store::{
    BATCH_BYTES_MAX, Batch, Committed, Condition, Entry, Expect, KEY_BYTES_MAX, NewEntry, Pair, Store,
    VALUE_BYTES_MAX, Write,
};
