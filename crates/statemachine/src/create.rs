//! How a machine comes into being.

use crate::cell::Lane;
use crate::error::CreateError;
use crate::group::Change;
use crate::inner::Inner;
use crate::plan::{EVENT_BYTES_MAX, Planned, plan};
use crate::pump::STORE_PAUSE_MS;
use crate::stored::{InboxRow, Input, Instance, SCHEMA};
use crate::{Kind, Machine, MachineId};
use statestore::{Batch, Expect, codec};
use std::sync::Arc;

/// Creates a machine, perhaps with a first event, in one commit. It goes on when the caller stops waiting: a machine
/// that is on disk is always announced and planned.
pub(crate) async fn create<M: Machine>(
    inner: &Arc<Inner<M>>,
    id: &MachineId,
    record: M::Record,
    first: Option<M::Event>,
) -> Result<Instance<M>, CreateError> {
    let (task, of) = (Arc::clone(inner), id.clone());
    let created = inner.detached(async move { create_here(&task, &of, record, first).await }).await;
    created.unwrap_or_else(|| Err(CreateError::Gone(id.clone())))
}

async fn create_here<M: Machine>(
    inner: &Arc<Inner<M>>,
    id: &MachineId,
    record: M::Record,
    first: Option<M::Event>,
) -> Result<Instance<M>, CreateError> {
    if !id.is_valid() {
        return Err(CreateError::BadId(id.as_str().to_owned()));
    }
    if inner.is_stopping() {
        return Err(CreateError::Stopping(id.clone()));
    }
    let refused = |reason: String| CreateError::Refused { id: id.clone(), reason };
    let input = Input::Created { record };
    let plan = match plan(&inner.config.map, id, None, &input, inner.now_ms()) {
        Planned::Commit(plan) => plan,
        Planned::Misuse(reason) => return Err(refused(reason)),
        Planned::Defer | Planned::Fenced => return Err(refused("the creation was not planned".to_owned())),
    };
    let keys = inner.keys;
    let key = keys.record(id);
    let mut batch = Batch::new();
    batch.expect(key.clone(), Expect::Absent).put(key.clone(), plan.bytes.clone());
    batch.put(keys.in_state(plan.next.state.name(), id), Vec::new());
    if let Some(event) = first {
        let lane = inner.lane(&event);
        let row = InboxRow { at_ms: inner.now_ms(), source: inner.outside_source(&event), event };
        let bytes = codec::encode(SCHEMA, &row).map_err(|error| refused(error.to_string()))?;
        if bytes.len() > EVENT_BYTES_MAX {
            return Err(refused(format!(
                "the first event has {} bytes, at most {EVENT_BYTES_MAX}",
                bytes.len()
            )));
        }
        // Reserved events have no lane of their own here: the machine has no history yet.
        debug_assert!(matches!(lane, Lane::Control | Lane::Ordinary));
        batch.put(keys.inbox_row(id, lane as u8, 0), bytes);
    }
    batch.append(keys.stream(id), plan.entry.clone());
    let seq = match inner.store.commit(batch).await {
        Ok(done) => done.last_seq,
        Err(error) if error.is_conflict() => return Err(CreateError::Exists(id.clone())),
        Err(source) => {
            inner.note_commit(Err(&source));
            let written = source.is_uncertain()
                && inner.store.get(&key).await.is_ok_and(|found| found.as_ref() == Some(&plan.bytes));
            if !written {
                if source.is_uncertain() && !source.is_fatal() {
                    settle_later(
                        inner,
                        id,
                        Change { id: id.clone(), state: plan.next.state, version: plan.next.version, seq: 0 },
                        plan.bytes,
                    );
                }
                return Err(CreateError::Store { id: id.clone(), source });
            }
            0
        }
    };
    inner.announce(&Change { id: id.clone(), state: plan.next.state, version: plan.next.version, seq });
    let instance = Instance::of(id, &plan.next);
    inner.kick(&inner.cell(id));
    Ok(instance)
}

/// A failed write may be on disk all the same, seen only once the store writes again: then the machine is announced
/// and planned like any other. The caller was told that it has to look.
fn settle_later<M: Machine>(inner: &Arc<Inner<M>>, id: &MachineId, change: Change<M::State>, bytes: Vec<u8>) {
    let (task, id) = (Arc::clone(inner), id.clone());
    inner.env.spawner.spawn(Box::pin(async move {
        let (mut pause_ms, last_ms) = STORE_PAUSE_MS;
        while task.pause(task.now_ms().saturating_add(pause_ms)).await {
            // A commit rather than a read: it is answered only by a store that writes.
            let mut look = Batch::new();
            look.expect(task.keys.record(&id), Expect::Is(bytes.clone()));
            match task.store.commit(look).await {
                Ok(_) => {
                    task.announce(&change);
                    task.kick(&task.cell(&id));
                    return;
                }
                // It was not written; or it was, and has been planned meanwhile.
                Err(error) if error.is_conflict() || error.is_fatal() => return,
                Err(error) => task.note_commit(Err(&error)),
            }
            pause_ms = (pause_ms * 2).min(last_ms);
        }
    }));
}
