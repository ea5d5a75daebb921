//! What happens at open: everything unfinished is started again, paced (SM-10, SM-19).

use crate::cell::{Item, Lane, Work};
use crate::inner::Inner;
use crate::map::{PlannerMap, Role, Sender};
use crate::reader::{PAGE, decode};
use crate::stored::{Input, StoredOf};
use crate::{Kind, Machine, MachineId};
use statestore::StoreError;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Walks over all machines once. Failures of the store are waited out.
pub(crate) async fn run<M: Machine>(inner: Arc<Inner<M>>) {
    let mut after: Option<Vec<u8>> = None;
    let mut kicked = 0;
    let mut with_inbox = None;
    loop {
        if inner.ended.is_cancelled() {
            break;
        }
        if with_inbox.is_none() {
            match waiting(&inner).await {
                Ok(ids) => with_inbox = Some(ids),
                Err(error) => {
                    wait(&inner, &error).await;
                    continue;
                }
            }
        }
        let page = match inner.store.scan(&inner.keys.records(), after.as_deref(), PAGE).await {
            Ok(page) => page,
            Err(error) => {
                wait(&inner, &error).await;
                continue;
            }
        };
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
        for (key, bytes) in &page {
            let Some(id) = inner.keys.id_of_record(key) else { continue };
            let stored = match decode::<M>(bytes) {
                Ok(stored) => stored,
                Err(error) => {
                    tracing::error!(machine = %id, %error, "a machine is set aside: its row cannot be decoded");
                    continue;
                }
            };
            let pending = with_inbox.as_ref().is_some_and(|ids| ids.contains(&id));
            match need(&inner, &id, &stored, pending) {
                Need::Nothing => continue,
                Need::Kick => inner.kick(&inner.cell(&id)),
                Need::Run => inner.push(&id, Item::new(Lane::Run, Work::Input(Input::RetryDue))),
                Need::Park => {
                    let reason = format!("nothing would move {} out of {}", id, stored.state.name());
                    inner.push(
                        &id,
                        Item::new(Lane::Run, Work::Input(Input::Stuck { version: stored.version, reason })),
                    );
                }
            }
            kicked += 1;
            if kicked % inner.config.restart_batch.max(1) == 0 {
                let pause = crate::retry::millis(inner.config.restart_pause);
                inner.pause(inner.now_ms().saturating_add(pause)).await;
            }
        }
    }
    inner.restarted.cancel();
}

async fn wait<M: Machine>(inner: &Inner<M>, error: &StoreError) {
    inner.note_commit(Err(error));
    inner.pause(inner.now_ms().saturating_add(crate::pump::STORE_PAUSE_MS.0)).await;
}

/// Machines with events that wait.
async fn waiting<M: Machine>(inner: &Inner<M>) -> Result<BTreeSet<MachineId>, StoreError> {
    let mut ids = BTreeSet::new();
    let mut after: Option<Vec<u8>> = None;
    loop {
        let page = inner.store.scan(&inner.keys.inboxes(), after.as_deref(), PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(ids) };
        after = Some(last.clone());
        ids.extend(page.iter().filter_map(|(key, _)| inner.keys.id_of_inbox(key)).map(|(id, ..)| id));
    }
}

enum Need {
    Nothing,
    /// Its own row or inbox says what to do once it is loaded.
    Kick,
    Run,
    Park,
}

fn need<M: Machine>(inner: &Inner<M>, id: &MachineId, stored: &StoredOf<M>, pending: bool) -> Need {
    let map = &inner.config.map;
    if stored.run.is_some() || pending {
        return Need::Kick;
    }
    if stored.parked.is_some() || stored.next_try_ms.is_some() || map.role(stored.state) != Role::Active {
        return Need::Nothing;
    }
    if map.has_step(stored.state) {
        // The map of an earlier program had no step here.
        return Need::Run;
    }
    let moved = moved_by(map, stored.state);
    let waits = moved.contains(&Sender::Outside)
        || moved.contains(&Sender::Subscription)
        || (moved.contains(&Sender::Timer) && inner.timers.has(id))
        || (moved.contains(&Sender::Outbox) && inner.outbox.has(id));
    if waits { Need::Nothing } else { Need::Park }
}

/// Who sends the events that lead out of a state, control events apart.
pub(crate) fn moved_by<M: Machine>(map: &PlannerMap<M>, state: M::State) -> BTreeSet<Sender> {
    M::EventKind::ALL
        .iter()
        .filter(|kind| !map.is_control(**kind))
        .filter(|kind| map.rule(state, **kind).is_some_and(|(rule, _)| rule.moves()))
        .map(|kind| map.sender(*kind))
        .collect()
}
