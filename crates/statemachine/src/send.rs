//! How events come in (SM-8).

use crate::cell::{Answer, Cell, Item, Lane, Nack, Work};
use crate::error::SendError;
use crate::group::{Applied, Queued};
use crate::inner::{Inner, LoadError};
use crate::plan::EVENT_BYTES_MAX;
use crate::stored::{InboxRow, InputOf, SCHEMA};
use crate::{Machine, MachineId};
use futures_channel::oneshot;
use statestore::{Batch, Expect, codec};
use std::sync::Arc;

/// A loaded machine with a place for one more event.
async fn admit<M: Machine>(
    inner: &Arc<Inner<M>>,
    id: &MachineId,
    lane: Lane,
    with_row: bool,
) -> Result<(Arc<Cell<M>>, u64, usize), SendError> {
    loop {
        if inner.is_stopping() {
            return Err(SendError::Stopping(id.clone()));
        }
        let cell = inner.cell(id);
        if let Err(error) = inner.ensure_loaded(&cell).await {
            inner.evict(&cell);
            return Err(match error {
                LoadError::Store(source) => SendError::Store { id: id.clone(), source },
                other => other.into_send(id),
            });
        }
        let mut state = cell.lock();
        if state.evicted {
            continue;
        }
        let limit = inner.config.inbox_limit;
        if lane == Lane::Ordinary {
            if state.ordinary >= limit {
                return Err(SendError::InboxFull { id: id.clone(), limit });
            }
            state.ordinary += 1;
        }
        let number = state.next_inbox;
        if with_row {
            state.next_inbox += 1;
            state.known.insert((lane as u8, number));
        }
        let waiting = state.ordinary;
        drop(state);
        return Ok((cell, number, waiting));
    }
}

fn encode<M: Machine>(inner: &Inner<M>, id: &MachineId, event: &M::Event) -> Result<Vec<u8>, SendError> {
    let kind = Inner::<M>::kind_name(event);
    let row = InboxRow { at_ms: inner.now_ms(), source: inner.outside_source(event), event: event.clone() };
    let bytes = codec::encode(SCHEMA, &row).map_err(|source| SendError::Encode {
        id: id.clone(),
        event: kind,
        source,
    })?;
    if bytes.len() > EVENT_BYTES_MAX {
        let (bytes, limit) = (bytes.len(), EVENT_BYTES_MAX);
        return Err(SendError::TooLarge { id: id.clone(), event: kind, bytes, limit });
    }
    Ok(bytes)
}

/// Puts an event on disk. It goes on when the caller stops waiting: an event that is on disk is always planned, and
/// its place in the inbox is always given back.
pub(crate) async fn send<M: Machine>(
    inner: &Arc<Inner<M>>,
    id: &MachineId,
    event: M::Event,
) -> Result<Queued, SendError> {
    let (task, of) = (Arc::clone(inner), id.clone());
    let sent = inner.detached(async move { send_here(&task, &of, event).await }).await;
    sent.unwrap_or_else(|| Err(SendError::Gone(id.clone())))
}

async fn send_here<M: Machine>(
    inner: &Arc<Inner<M>>,
    id: &MachineId,
    event: M::Event,
) -> Result<Queued, SendError> {
    let lane = inner.lane(&event);
    let bytes = encode(inner, id, &event)?;
    let (cell, number, waiting) = admit(inner, id, lane, true).await?;
    let key = inner.keys.inbox_row(id, lane as u8, number);
    let mut batch = Batch::new();
    batch.expect(key.clone(), Expect::Absent).put(key, bytes);
    match inner.store.commit(batch).await {
        Ok(_) => {
            inner.note_commit(Ok(()));
            let source = inner.outside_source(&event);
            let mut item = Item::new(lane, Work::Event { event, source });
            item.row = Some(number);
            // A number in `known` keeps the machine in memory.
            inner.push(id, item);
            Ok(Queued { waiting })
        }
        Err(source) => {
            if !source.is_conflict() {
                inner.note_commit(Err(&source));
            }
            inner.unreserve(&cell, lane, number, source.is_uncertain() || source.is_conflict());
            Err(SendError::Store { id: id.clone(), source })
        }
    }
}

/// Plans an event and waits for its commit.
pub(crate) async fn send_and_wait<M: Machine>(
    inner: &Arc<Inner<M>>,
    id: &MachineId,
    event: M::Event,
) -> Result<Applied<M::State>, SendError> {
    let lane = inner.lane(&event);
    encode(inner, id, &event)?;
    let source = inner.outside_source(&event);
    wait(inner, id, lane, Work::Event { event, source }).await
}

/// Plans one of the engine's own control events and waits for its commit.
pub(crate) async fn control<M: Machine>(
    inner: &Arc<Inner<M>>,
    id: &MachineId,
    input: InputOf<M>,
) -> Result<Applied<M::State>, SendError> {
    wait(inner, id, Lane::Control, Work::Input(input)).await
}

async fn wait<M: Machine>(
    inner: &Arc<Inner<M>>,
    id: &MachineId,
    lane: Lane,
    work: Work<M>,
) -> Result<Applied<M::State>, SendError> {
    let (waiter, answer) = oneshot::channel::<Answer<M>>();
    let (task, of) = (Arc::clone(inner), id.clone());
    // Whoever asked may be gone before the machine is loaded; what was asked is done all the same.
    let queued = inner.detached(async move {
        admit(&task, &of, lane, false).await?;
        let mut item = Item::new(lane, work);
        item.waiter = Some(waiter);
        task.push(&of, item);
        Ok(())
    });
    queued.await.unwrap_or_else(|| Err(SendError::Gone(id.clone())))?;
    match answer.await {
        Ok(Ok(applied)) => Ok(applied),
        Ok(Err(Nack::Send(error))) => Err(error),
        Ok(Err(Nack::Fenced | Nack::Misuse(_))) | Err(oneshot::Canceled) => Err(SendError::Gone(id.clone())),
    }
}
