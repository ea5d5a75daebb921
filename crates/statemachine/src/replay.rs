//! Folding a journal again: the same inputs give the same rows, byte for byte (SM-3).

use crate::error::ReadError;
use crate::keys::Keys;
use crate::map::PlannerMap;
use crate::plan::{Planned, plan};
use crate::reader::{PAGE, codec_error, store_error};
use crate::stored::{Entry, EntryOf, SCHEMA, StoredOf};
use crate::{Machine, MachineId};
use statestore::{Store, codec};

/// What folding a journal gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replay {
    /// The row in the store is what its journal gives, byte for byte.
    Same {
        /// How many transitions were folded.
        transitions: u64,
    },
    /// It is not.
    Different {
        /// The version of the first entry that gave something else, or the last version.
        version: u64,
        /// What is different.
        reason: String,
    },
    /// There is no such machine.
    Unknown,
}

/// Folds the journal of a machine by a map and compares with its row. Every entry's state is checked on the way.
///
/// # Errors
/// When the store fails or a row or entry cannot be decoded.
pub async fn replay<M: Machine>(
    store: &dyn Store,
    map: &PlannerMap<M>,
    id: &MachineId,
) -> Result<Replay, ReadError> {
    let keys = Keys(M::NAME);
    let stored = store.get(&keys.record(id)).await.map_err(|source| store_error(id, source))?;
    let Some(stored) = stored else { return Ok(Replay::Unknown) };
    let mut row: Option<StoredOf<M>> = None;
    let mut bytes = Vec::new();
    let mut transitions = 0;
    let mut after = 0;
    loop {
        let page = store.journal(Some(&keys.stream(id)), after, PAGE).await;
        let page = page.map_err(|source| store_error(format_args!("the journal of {id}"), source))?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        for entry in &page {
            let what = format_args!("entry {} of the journal of {id}", entry.seq);
            let step: EntryOf<M> =
                codec::decode(SCHEMA, &entry.payload).map_err(|source| codec_error(what, source))?;
            let Entry::Step { at_ms, version, input, .. } = step else { continue };
            let different = |reason: &str| Replay::Different { version, reason: reason.to_owned() };
            match plan(map, id, row.as_ref(), &input, at_ms) {
                Planned::Commit(plan) if plan.next.version != version => {
                    return Ok(different("a version is missing or there twice"));
                }
                Planned::Commit(plan) if plan.entry != entry.payload => {
                    return Ok(different("the entry would be another today"));
                }
                Planned::Commit(plan) => {
                    bytes = plan.bytes;
                    row = Some(plan.next);
                }
                _ => return Ok(different("the input would not be committed today")),
            }
            transitions += 1;
        }
    }
    let version = row.map_or(0, |row| row.version);
    if bytes == stored {
        return Ok(Replay::Same { transitions });
    }
    Ok(Replay::Different { version, reason: "the row is not what its journal gives".to_owned() })
}
