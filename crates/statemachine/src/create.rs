//! How a machine comes into being.

use crate::cell::Lane;
use crate::error::CreateError;
use crate::group::Change;
use crate::inner::Inner;
use crate::plan::{EVENT_BYTES_MAX, Planned, plan};
use crate::stored::{InboxRow, Input, Instance, SCHEMA};
use crate::{Kind, Machine, MachineId};
use statestore::{Batch, Expect, codec};
use std::sync::Arc;

/// Creates a machine, perhaps with a first event, in one commit.
pub(crate) async fn create<M: Machine>(
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
