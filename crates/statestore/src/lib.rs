//! An ordered key-value store with atomic durable batches and a journal beside it.
//!
//! # The contract
//!
//! A [`Store`] keeps pairs of bytes in the order of their keys, and a journal of entries in one global order, each in a
//! named stream. All changes go through [`Store::commit`]: a [`Batch`] is data — conditions, writes, journal entries —
//! and is applied whole or not at all. When `commit` returns `Ok`, the batch is on disk: it survives the process, the
//! kernel and the power (SS-3). A batch whose condition does not hold gets [`StoreError::Conflict`], which is how
//! compare-and-swap is made.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use statestore::{Batch, Collection, MemoryStore, Store};
//! use std::sync::Arc;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Account {
//!     owner: String,
//!     balance: u64,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), statestore::StoreError> {
//! // On disk: SledStore::open("path/to/store", Options::default())?
//! let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
//! let accounts: Collection<u64, Account> = Collection::new(store.clone(), "accounts", 1);
//!
//! let mut batch = Batch::new();
//! accounts.insert_into(&mut batch, &7, &Account { owner: "Ada".into(), balance: 100 })?;
//! batch.append("account 7", "opened");
//! store.commit(batch).await?;
//!
//! // Read, change, and replace exactly what was read: whoever comes second gets a conflict and reads again.
//! let (mut account, old) = accounts.get_with_bytes(&7).await?.expect("just made");
//! account.balance -= 30;
//! let mut batch = Batch::new();
//! accounts.replace_into(&mut batch, &7, old, &account)?;
//! batch.append("account 7", "paid 30");
//! store.commit(batch.clone()).await?;
//! assert!(store.commit(batch).await.unwrap_err().is_conflict());
//!
//! assert_eq!(accounts.get(&7).await?.map(|account| account.balance), Some(70));
//! let history = store.journal(Some(b"account 7"), 0, 10).await?;
//! assert_eq!(history.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2]);
//! # Ok(())
//! # }
//! ```
//!
//! # Backends
//!
//! - [`MemoryStore`]: deterministic, every future is ready at once; for tests and simulations.
//! - [`SledStore`]: records in a sled database, the journal in segment files beside it. One thread writes: it takes all
//!   batches that wait, checks their conditions one after the other, appends and syncs the journal, applies the records
//!   in one atomic batch that also holds the journal's position, flushes and syncs them, and only then answers all. So
//!   many callers share three system calls, and a kill at any point leaves records and journal that agree. Opening cuts
//!   off what the journal has beyond the records (nothing of it was acknowledged) and says so ([`OpenReport`]).
//!
//! In the store's folder: `records/` (sled), `journal/` (segments), `lock` (the owner's process id and contact).
//!
//! # When something goes wrong
//!
//! [`StoreError::class`] says what to do. A full disk or another write error fails the waiting commits; the store opens
//! itself again with growing pauses, and [`SledStore::health`] tells. After a failed *sync* the store answers nothing
//! any more ([`StoreError::Fatal`]; a server awaits [`SledStore::fatal`]): report it and exit non-zero; the next open
//! writes all files anew before it serves. Damaged files are refused with the way out, and left as they are.
//!
//! One process owns a store; another gets [`StoreError::Locked`] with the owner's process id and contact.
//! [`SledStore::inspect`] opens a copy of a store that no process owns.
//!
//! # Limits
//!
//! Keys 1 KiB, values and journal payloads 64 KiB, batches 16 MiB; larger things are files, referenced by digest.
//! Reads see a batch once it is applied in memory, a moment before its commit returns. The journal only grows: it is
//! not folded yet. Unix only. sled keeps large tree pages in files of their own, which its background thread writes
//! without a sync when it tidies up; they are synced here within half a second, not at once.
//!
//! # Features
//!
//! `testkit`: the suite that every backend passes (`testkit::conformance`) and a store that fails on command
//! (`testkit::FaultStore`).

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
