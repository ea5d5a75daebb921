//! The store in memory: for tests and simulations, deterministic, without threads.

use crate::check::check_batch;
use crate::error::printable;
use crate::schema::{self, Raw, Schema};
use crate::{Batch, Committed, Entry, Expect, Pair, Store, StoreError, Write};
use async_trait::async_trait;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A store that forgets when its last clone goes. Clones share their content; [`MemoryStore::fork`] copies it.
///
/// Every future it returns is ready at its first poll, so no runtime is needed.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Clone, Default)]
struct State {
    records: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The entry with sequence number n is at n - 1.
    journal: Vec<Entry>,
    /// Positions in `journal`, ascending.
    streams: HashMap<Vec<u8>, Vec<usize>>,
}

impl MemoryStore {
    /// An empty store without a schema version.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records the schema version in an empty store, or migrates what is there, as opening a store on disk does.
    ///
    /// # Errors
    /// [`StoreError::NewerSchema`], or what a migration says.
    pub fn with_schema(self, schema: &Schema) -> Result<Self, StoreError> {
        {
            let mut state = self.lock();
            if let Some(batch) = schema::plan(&*state, schema)?.batch {
                state.apply(batch);
            }
        }
        Ok(self)
    }

    /// An independent copy of the present content.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { state: Arc::new(Mutex::new(self.lock().clone())) }
    }

    /// All pairs, ascending; for comparing two stores in tests.
    pub fn dump(&self) -> Vec<Pair> {
        self.lock().records.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A batch is applied without anything that can panic half-way, so a poisoned state is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn check(&self, batch: &Batch) -> Result<(), StoreError> {
        for condition in &batch.conditions {
            let holds = match (&condition.expect, self.records.get(&condition.key)) {
                (Expect::Absent, found) => found.is_none(),
                (Expect::Is(expected), found) => found == Some(expected),
            };
            if !holds {
                return Err(StoreError::Conflict { key: printable(&condition.key) });
            }
        }
        Ok(())
    }

    fn apply(&mut self, batch: Batch) -> Committed {
        for write in batch.writes {
            match write {
                Write::Put { key, value } => {
                    self.records.insert(key, value);
                }
                Write::Delete { key } => {
                    self.records.remove(&key);
                }
            }
        }
        for entry in batch.journal {
            let at = self.journal.len();
            match self.streams.get_mut(&entry.stream) {
                Some(places) => places.push(at),
                None => {
                    self.streams.insert(entry.stream.clone(), vec![at]);
                }
            }
            self.journal.push(Entry { seq: at as u64 + 1, stream: entry.stream, payload: entry.payload });
        }
        Committed { last_seq: self.journal.len() as u64 }
    }
}

impl Raw for State {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.records.get(key).cloned())
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Pair>, StoreError> {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let range = self.records.range::<[u8], _>((from, Bound::Unbounded));
        Ok(range
            .take_while(|(key, _)| key.starts_with(prefix))
            .take(limit)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect())
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Raw::get(&*self.lock(), key)
    }

    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Pair>, StoreError> {
        Raw::scan(&*self.lock(), prefix, after, limit)
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        check_batch(&batch)?;
        let mut state = self.lock();
        state.check(&batch)?;
        Ok(state.apply(batch))
    }

    async fn journal(
        &self,
        stream: Option<&[u8]>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let state = self.lock();
        let after = usize::try_from(after).unwrap_or(usize::MAX);
        Ok(match stream {
            None => state.journal.iter().skip(after).take(limit).cloned().collect(),
            Some(stream) => {
                let places = state.streams.get(stream).map_or(&[][..], Vec::as_slice);
                let first = places.partition_point(|&at| at < after);
                places[first..].iter().take(limit).map(|&at| state.journal[at].clone()).collect()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Migration, SCHEMA_KEY};
    use futures_util::FutureExt;

    fn put(store: &MemoryStore, key: &str) {
        let mut batch = Batch::new();
        batch.put(key, "v");
        store.commit(batch).now_or_never().expect("ready at once").unwrap();
    }

    #[test]
    fn clones_share_and_forks_do_not() {
        let store = MemoryStore::new();
        put(&store, "a");
        let (same, fork) = (store.clone(), store.fork());
        put(&same, "b");
        put(&fork, "c");
        let keys = |store: &MemoryStore| store.dump().into_iter().map(|(k, _)| k[0]).collect::<Vec<_>>();
        assert_eq!(keys(&store), b"ab");
        assert_eq!(keys(&fork), b"ac");
    }

    #[test]
    fn a_schema_is_recorded_and_migrated() {
        const STEPS: &[Migration] = &[Migration {
            to: 2,
            what: "rename a to b",
            run: |context| {
                if let Some(value) = context.get(b"a")? {
                    context.delete("a");
                    context.put("b", value);
                }
                assert_eq!(context.get(b"a")?, None);
                assert_eq!(context.scan(b"")?.len(), 2);
                Ok(())
            },
        }];
        let store = MemoryStore::new().with_schema(&Schema { version: 1, migrations: &[] }).unwrap();
        put(&store, "a");
        let two = Schema { version: 2, migrations: STEPS };
        let store = store.with_schema(&two).unwrap().with_schema(&two).unwrap();
        let expected = [(b"b".to_vec(), b"v".to_vec()), (SCHEMA_KEY.to_vec(), vec![0, 2])];
        assert_eq!(store.dump(), expected);
        let refused = store.with_schema(&Schema::default()).unwrap_err();
        assert_eq!(refused, StoreError::NewerSchema { what: "schema", found: 2, supported: 1 });
    }
}
