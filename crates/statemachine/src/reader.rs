//! Reading machines without an engine: lists, records, history, outbox rows of a stopped node (SM-19).

use crate::error::ReadError;
use crate::explain::OpenEffect;
use crate::journal::JournalLine;
use crate::keys::Keys;
use crate::stored::{Instance, OutboxRow, OutboxStage, SCHEMA, StoredOf};
use crate::{Intent, IntentId, Kind, Machine, MachineId, Quarantined};
use statestore::{CodecError, Store, StoreError, codec};
use std::marker::PhantomData;
use std::sync::Arc;

/// Reads the machines of one kind. Needs no engine and writes nothing.
pub struct Reader<M: Machine> {
    store: Arc<dyn Store>,
    keys: Keys,
    kind: PhantomData<fn() -> M>,
}

impl<M: Machine> Clone for Reader<M> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), keys: self.keys, kind: PhantomData }
    }
}

/// An outbox row as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEffect {
    /// The intent.
    pub intent: Intent,
    /// How far it is.
    pub effect: OpenEffect,
    /// The prepared bytes, from `prepared` on.
    pub prepared: Option<Vec<u8>>,
}

/// How many rows one read takes.
pub(crate) const PAGE: usize = 256;

impl<M: Machine> Reader<M> {
    /// A reader of a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, keys: Keys(M::NAME), kind: PhantomData }
    }

    /// A machine; `None` when there is none.
    ///
    /// # Errors
    /// When the store fails or the row cannot be decoded.
    pub async fn get(&self, id: &MachineId) -> Result<Option<Instance<M>>, ReadError> {
        let bytes = self.store.get(&self.keys.record(id)).await.map_err(|source| store_error(id, source))?;
        let Some(bytes) = bytes else { return Ok(None) };
        let stored = decode::<M>(&bytes).map_err(|source| codec_error(id, source))?;
        Ok(Some(Instance::of(id, &stored)))
    }

    /// At most `limit` machines after the id `after`, by id; of all states or of the given ones, through the state
    /// index. Rows that cannot be decoded are left out here; see [`quarantined`](Self::quarantined).
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list(
        &self,
        filter: Option<&[M::State]>,
        after: Option<&MachineId>,
        limit: usize,
    ) -> Result<Vec<Instance<M>>, ReadError> {
        match filter {
            None => self.list_all(after, limit).await,
            Some(states) => {
                let mut found = Vec::new();
                for state in states {
                    let prefix = self.keys.state_index(state.name());
                    let after = after.map(|id| self.keys.in_state(state.name(), id));
                    let rows = self.store.scan(&prefix, after.as_deref(), limit).await;
                    let rows = rows.map_err(|source| store_error(state.name(), source))?;
                    found.extend(rows.iter().filter_map(|(key, _)| self.keys.id_in_state(state.name(), key)));
                }
                found.sort_unstable();
                found.dedup();
                found.truncate(limit);
                let mut list = Vec::with_capacity(found.len());
                for id in found {
                    match self.get(&id).await {
                        // A machine may have moved on since the index was read.
                        Ok(Some(instance)) if states.contains(&instance.state) => list.push(instance),
                        Ok(_) | Err(ReadError::Codec { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(list)
            }
        }
    }

    async fn list_all(&self, after: Option<&MachineId>, limit: usize) -> Result<Vec<Instance<M>>, ReadError> {
        let mut list = Vec::new();
        let mut cursor = after.map(|id| self.keys.record(id));
        while list.len() < limit {
            let page = PAGE.min(limit - list.len());
            let rows = self.store.scan(&self.keys.records(), cursor.as_deref(), page).await;
            let rows = rows.map_err(|source| store_error("the records", source))?;
            let Some((last, _)) = rows.last() else { break };
            cursor = Some(last.clone());
            for (key, bytes) in &rows {
                if let (Some(id), Ok(stored)) = (self.keys.id_of_record(key), decode::<M>(bytes)) {
                    list.push(Instance::of(&id, &stored));
                }
            }
        }
        Ok(list)
    }

    /// The machines whose rows cannot be decoded.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn quarantined(&self) -> Result<Vec<Quarantined>, ReadError> {
        let mut found = Vec::new();
        let mut cursor: Option<Vec<u8>> = None;
        loop {
            let rows = self.store.scan(&self.keys.records(), cursor.as_deref(), PAGE).await;
            let rows = rows.map_err(|source| store_error("the records", source))?;
            let Some((last, _)) = rows.last() else { return Ok(found) };
            cursor = Some(last.clone());
            for (key, bytes) in rows {
                if let (Some(id), Err(error)) = (self.keys.id_of_record(&key), decode::<M>(&bytes)) {
                    found.push(Quarantined { id, reason: error.to_string(), bytes });
                }
            }
        }
    }

    /// At most `limit` lines of a machine's history after `after_seq`, oldest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn journal(
        &self,
        id: &MachineId,
        after_seq: u64,
        limit: usize,
    ) -> Result<Vec<JournalLine>, ReadError> {
        let entries = self.store.journal(Some(&self.keys.stream(id)), after_seq, limit).await;
        let entries = entries.map_err(|source| store_error(format_args!("the journal of {id}"), source))?;
        Ok(entries.iter().map(|entry| JournalLine::of::<M>(entry.seq, &entry.payload)).collect())
    }

    /// The effects of a machine that are not settled.
    ///
    /// # Errors
    /// When the store fails or a row cannot be decoded.
    pub async fn outbox(&self, id: &MachineId) -> Result<Vec<StoredEffect>, ReadError> {
        let rows = self.scan_all(&self.keys.outbox_of(id)).await.map_err(|source| store_error(id, source))?;
        let mut effects = Vec::with_capacity(rows.len());
        for (key, bytes) in rows {
            let Some(intent) = self.keys.id_of_outbox(&key) else { continue };
            let row: OutboxRow =
                codec::decode(SCHEMA, &bytes).map_err(|source| codec_error(&intent, source))?;
            effects.push(stored_effect(intent, row));
        }
        Ok(effects)
    }

    pub(crate) async fn scan_all(&self, prefix: &[u8]) -> Result<Vec<statestore::Pair>, StoreError> {
        scan_all(self.store.as_ref(), prefix).await
    }
}

/// Every pair under a prefix.
pub(crate) async fn scan_all(store: &dyn Store, prefix: &[u8]) -> Result<Vec<statestore::Pair>, StoreError> {
    let mut all = Vec::new();
    loop {
        let after = all.last().map(|(key, _): &statestore::Pair| key.clone());
        let page = store.scan(prefix, after.as_deref(), PAGE).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

fn stored_effect(id: IntentId, row: OutboxRow) -> StoredEffect {
    let (stage, prepared) = match row.stage {
        OutboxStage::Decided => ("decided", None),
        OutboxStage::Prepared { bytes } => ("prepared", Some(bytes)),
        OutboxStage::Sent { bytes } => ("sent", Some(bytes)),
    };
    let effect = OpenEffect {
        version: id.version,
        ordinal: id.ordinal,
        kind: row.kind.clone(),
        stage,
        since_ms: row.stage_at_ms,
        failures: 0,
        last_error: None,
        next_ms: None,
    };
    let intent = Intent { id, kind: row.kind, payload: row.payload, created_at_ms: row.created_at_ms };
    StoredEffect { intent, effect, prepared }
}

/// Decodes a machine's row.
pub(crate) fn decode<M: Machine>(bytes: &[u8]) -> Result<StoredOf<M>, CodecError> {
    codec::decode(SCHEMA, bytes)
}

pub(crate) fn store_error(what: impl std::fmt::Display, source: StoreError) -> ReadError {
    ReadError::Store { what: what.to_string(), source }
}

pub(crate) fn codec_error(what: impl std::fmt::Display, source: CodecError) -> ReadError {
    ReadError::Codec { what: what.to_string(), source }
}
