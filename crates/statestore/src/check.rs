//! The limits every backend enforces before it looks at a batch.

use crate::error::printable;
use crate::schema::SCHEMA_KEY;
use crate::{BATCH_BYTES_MAX, Batch, KEY_BYTES_MAX, StoreError, VALUE_BYTES_MAX, Write};

/// Keys beginning with this byte belong to the backend; user keys sort after them.
pub(crate) const RESERVED: u8 = 0;

/// Sizes and names of everything in a batch, and its size as a whole.
pub(crate) fn check_batch(batch: &Batch) -> Result<(), StoreError> {
    let total = check_parts(batch)?;
    check_size("batch", b"", total, BATCH_BYTES_MAX)
}

/// Sizes and names of everything in a batch, whatever its size as a whole, which is returned. A migration may touch
/// everything.
pub(crate) fn check_parts(batch: &Batch) -> Result<usize, StoreError> {
    let mut total = 0;
    for condition in &batch.conditions {
        check_size("key", &condition.key, condition.key.len(), KEY_BYTES_MAX)?;
        if condition.key.first() == Some(&RESERVED) {
            return Err(reserved(&condition.key));
        }
    }
    for write in &batch.writes {
        let (key, value) = match write {
            Write::Put { key, value } => (key, value.len()),
            Write::Delete { key } => (key, 0),
        };
        check_key(key)?;
        check_size("value", key, value, VALUE_BYTES_MAX)?;
        total += key.len() + value;
    }
    for entry in &batch.journal {
        check_size("journal stream", &entry.stream, entry.stream.len(), KEY_BYTES_MAX)?;
        check_size("journal payload", &entry.stream, entry.payload.len(), VALUE_BYTES_MAX)?;
        total += entry.stream.len() + entry.payload.len();
    }
    Ok(total)
}

fn check_key(key: &[u8]) -> Result<(), StoreError> {
    let invalid = |reason| Err(StoreError::InvalidKey { key: printable(key), reason });
    check_size("key", key, key.len(), KEY_BYTES_MAX)?;
    match key.first() {
        None => invalid("it is empty"),
        Some(&RESERVED) => Err(reserved(key)),
        Some(_) if key == SCHEMA_KEY => invalid("only opening the store changes the schema version"),
        Some(_) => Ok(()),
    }
}

fn reserved(key: &[u8]) -> StoreError {
    StoreError::InvalidKey {
        key: printable(key),
        reason: "keys beginning with a zero byte belong to the store",
    }
}

fn check_size(what: &'static str, key: &[u8], bytes: usize, max: usize) -> Result<(), StoreError> {
    if bytes > max {
        return Err(StoreError::TooLarge { what, key: printable(key), bytes, max });
    }
    Ok(())
}
