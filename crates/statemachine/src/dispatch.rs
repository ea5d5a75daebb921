//! The outbox in memory, and the task that prepares and sends (SM-17).
//!
//! A row goes decided -> prepared -> sent -> settled; each step is on disk before the next begins. Sending again is
//! harmless (the handler's contract), preparing again is not: so bytes are stored before they are sent, and a row is
//! prepared again only when its handler says that the old bytes can never succeed.

use crate::explain::OpenEffect;
use crate::failure::panic_text;
use crate::inner::{Inner, Woken};
use crate::outbox::{Intent, Prepared};
use crate::plan::{EVENT_BYTES_MAX, short};
use crate::reader::PAGE;
use crate::retry::{RetryPolicy, millis};
use crate::signal::Signal;
use crate::stored::{Fact, OutboxRow, OutboxStage, SCHEMA};
use crate::{Class, EffectHandler, Failure, IntentId, Machine, MachineId, lock};
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use statestore::{Batch, Expect, StoreError, codec};
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

/// Effects that are not settled.
#[derive(Default)]
pub(crate) struct Outbox {
    rows: Mutex<Rows>,
    pub(crate) to_send: Signal,
    pub(crate) to_poll: Signal,
}

#[derive(Default)]
struct Rows {
    by_id: BTreeMap<IntentId, Open>,
    next_place: u64,
}

/// A row and what this process knows of it.
#[derive(Clone)]
pub(crate) struct Open {
    pub(crate) row: OutboxRow,
    /// As it is in the store.
    pub(crate) bytes: Vec<u8>,
    /// Its place in the order of decisions.
    place: u64,
    /// Found at open in `prepared` or `sent`: sent again before anything new is prepared.
    pub(crate) resend: bool,
    pub(crate) failures: u32,
    pub(crate) next_ms: u64,
    pub(crate) last_error: Option<String>,
}

impl Open {
    pub(crate) fn prepared(&self) -> Option<&[u8]> {
        match &self.row.stage {
            OutboxStage::Decided => None,
            OutboxStage::Prepared { bytes } | OutboxStage::Sent { bytes } => Some(bytes),
        }
    }

    fn is_sent(&self) -> bool {
        matches!(self.row.stage, OutboxStage::Sent { .. })
    }
}

/// The intent of a row.
pub(crate) fn intent_of(id: &IntentId, row: &OutboxRow) -> Intent {
    Intent {
        id: id.clone(),
        kind: row.kind.clone(),
        payload: row.payload.clone(),
        created_at_ms: row.created_at_ms,
    }
}

impl Outbox {
    pub(crate) fn insert(&self, id: IntentId, row: OutboxRow, bytes: Vec<u8>, resend: bool) {
        let mut rows = lock(&self.rows);
        let place = rows.next_place;
        rows.next_place += 1;
        let open = Open { row, bytes, place, resend, failures: 0, next_ms: 0, last_error: None };
        rows.by_id.insert(id, open);
        drop(rows);
        self.to_send.notify();
        self.to_poll.notify();
    }

    /// A machine's rows of some kinds that were not prepared yet.
    pub(crate) fn withdrawable(&self, machine: &MachineId, kinds: &[String]) -> Vec<(IntentId, Vec<u8>)> {
        if kinds.is_empty() {
            return Vec::new();
        }
        let rows = lock(&self.rows);
        rows_of(&rows, machine)
            .filter(|(_, open)| open.prepared().is_none() && kinds.contains(&open.row.kind))
            .map(|(id, open)| (id.clone(), open.bytes.clone()))
            .collect()
    }

    pub(crate) fn withdraw(&self, ids: &[IntentId]) {
        let mut rows = lock(&self.rows);
        for id in ids {
            rows.by_id.remove(id);
        }
    }

    pub(crate) fn get(&self, id: &IntentId) -> Option<Open> {
        lock(&self.rows).by_id.get(id).cloned()
    }

    pub(crate) fn has(&self, machine: &MachineId) -> bool {
        rows_of(&lock(&self.rows), machine).next().is_some()
    }

    /// Changes a row, if it is still there.
    pub(crate) fn update(&self, id: &IntentId, change: impl FnOnce(&mut Open)) {
        if let Some(open) = lock(&self.rows).by_id.get_mut(id) {
            change(open);
        }
    }

    /// All of a machine's rows, for people.
    pub(crate) fn of(&self, machine: &MachineId) -> Vec<OpenEffect> {
        let rows = lock(&self.rows);
        let effect = |(id, open): (&IntentId, &Open)| OpenEffect {
            version: id.version,
            ordinal: id.ordinal,
            kind: open.row.kind.clone(),
            stage: match open.row.stage {
                OutboxStage::Decided => "decided",
                OutboxStage::Prepared { .. } => "prepared",
                OutboxStage::Sent { .. } => "sent",
            },
            since_ms: open.row.stage_at_ms,
            failures: open.failures,
            last_error: open.last_error.clone(),
            next_ms: (open.next_ms > 0).then_some(open.next_ms),
        };
        rows_of(&rows, machine).map(effect).collect()
    }

    /// The prepared rows, in the order of decisions.
    fn prepared(&self) -> Vec<Prepared> {
        let rows = lock(&self.rows);
        let mut found: Vec<_> = rows
            .by_id
            .iter()
            .filter_map(|(id, open)| {
                let bytes = open.prepared()?.to_vec();
                Some((open.place, Prepared { intent: intent_of(id, &open.row), bytes, sent: open.is_sent() }))
            })
            .collect();
        found.sort_by_key(|(place, _)| *place);
        found.into_iter().map(|(_, prepared)| prepared).collect()
    }

    /// What to send or prepare next: what must be sent again first; else when to look again.
    fn next_to_send(&self, now_ms: u64) -> Result<IntentId, Option<u64>> {
        let rows = lock(&self.rows);
        let waiting = || rows.by_id.iter().filter(|(_, open)| open.resend || !open.is_sent());
        let due = waiting().filter(|(_, open)| open.next_ms <= now_ms);
        let first = due.min_by_key(|(_, open)| (!open.resend, open.prepared().is_none(), open.place));
        match first {
            Some((id, _)) => Ok(id.clone()),
            None => Err(waiting().map(|(_, open)| open.next_ms).min()),
        }
    }

    /// Sent rows that are to be polled now, in the order of decisions; and when the next one is.
    pub(crate) fn to_poll(&self, now_ms: u64, limit: usize) -> (Vec<IntentId>, Option<u64>) {
        let rows = lock(&self.rows);
        let sent = || rows.by_id.iter().filter(|(_, open)| open.is_sent() && !open.resend);
        let mut due: Vec<_> = sent().filter(|(_, open)| open.next_ms <= now_ms).collect();
        due.sort_by_key(|(_, open)| open.place);
        let due = due.into_iter().take(limit).map(|(id, _)| id.clone()).collect();
        (due, sent().map(|(_, open)| open.next_ms).min())
    }

    /// Everything is due now.
    pub(crate) fn nudge(&self) {
        for open in lock(&self.rows).by_id.values_mut() {
            open.next_ms = 0;
        }
        self.to_send.notify();
        self.to_poll.notify();
    }
}

fn rows_of<'a>(rows: &'a Rows, machine: &MachineId) -> impl Iterator<Item = (&'a IntentId, &'a Open)> {
    let first = IntentId { machine: machine.clone(), version: 0, ordinal: 0 };
    let machine = machine.clone();
    rows.by_id.range(first..).take_while(move |(id, _)| id.machine == machine)
}

impl<M: Machine> Inner<M> {
    /// Reads every row at open.
    pub(crate) async fn load_outbox(&self) -> Result<(), StoreError> {
        let mut found = Vec::new();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = self.store.scan(&self.keys.outbox(), after.as_deref(), PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            for (key, bytes) in page {
                let Some(id) = self.keys.id_of_outbox(&key) else { continue };
                match codec::decode::<OutboxRow>(SCHEMA, &bytes) {
                    Ok(row) => found.push((id, row, bytes)),
                    Err(error) => tracing::error!(intent = %id, %error, "an outbox row cannot be decoded"),
                }
            }
        }
        found.sort_by(|a, b| (a.1.created_at_ms, &a.0).cmp(&(b.1.created_at_ms, &b.0)));
        for (id, row, bytes) in found {
            let resend = row.stage != OutboxStage::Decided;
            self.outbox.insert(id, row, bytes, resend);
        }
        Ok(())
    }

    pub(crate) fn handler(&self, kind: &str) -> Result<Arc<dyn EffectHandler<M>>, Failure> {
        let handler = self.config.effects.iter().find(|(name, _)| *name == kind);
        handler.map(|(_, handler)| Arc::clone(handler)).ok_or_else(|| {
            Failure::needs_person(format_args!("there is no handler for intents of the kind {kind:?}"))
        })
    }

    /// Calls a handler within the group's limit; a panic is a failure.
    pub(crate) async fn guarded<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<T, Failure>> + Send,
    ) -> Result<T, Failure> {
        let limit_ms = millis(self.config.handler_limit);
        let sleep = self.env.clock.sleep_until(self.now_ms().saturating_add(limit_ms));
        match select(Box::pin(AssertUnwindSafe(call).catch_unwind()), sleep).await {
            Either::Left((Ok(result), _)) => result,
            Either::Left((Err(panic), _)) => {
                Err(Failure::transient(format_args!("{what} panicked: {}", panic_text(panic.as_ref()))))
            }
            Either::Right(_) => {
                Err(Failure::transient(format_args!("{what} took longer than {limit_ms} ms")))
            }
        }
    }

    /// Writes a row's next stage with a line in the journal; the memory follows.
    pub(crate) async fn advance(
        &self,
        id: &IntentId,
        open: &Open,
        stage: OutboxStage,
        change: String,
    ) -> Result<(), Failure> {
        let key = self.keys.outbox_row(id);
        let mut row = open.row.clone();
        row.preparations +=
            u32::from(matches!(stage, OutboxStage::Prepared { .. }) && open.prepared().is_none());
        row.stage = stage;
        row.stage_at_ms = self.now_ms();
        let bytes = codec::encode(SCHEMA, &row).map_err(Failure::permanent)?;
        let mut batch = Batch::new();
        batch.expect(key.clone(), Expect::Is(open.bytes.clone())).put(key.clone(), bytes.clone());
        let fact = outbox_fact(id, &row.kind, change);
        let entry = self.fact_entry(id.version, fact).map_err(Failure::permanent)?;
        batch.append(self.keys.stream(&id.machine), entry);
        match self.store.commit(batch).await {
            Ok(_) => self.note_commit(Ok(())),
            Err(error) if error.is_conflict() => {
                // Withdrawn meanwhile: what was prepared is never sent.
                self.outbox.withdraw(std::slice::from_ref(id));
                return Ok(());
            }
            Err(error) => {
                self.note_commit(Err(&error));
                let written = error.is_uncertain()
                    && self.store.get(&key).await.is_ok_and(|found| found.as_deref() == Some(&bytes[..]));
                if !written {
                    return Err(Failure::transient(format_args!("storing the row of {id}: {error}")));
                }
            }
        }
        self.outbox.update(id, |open| {
            open.row = row;
            open.bytes = bytes;
            open.failures = 0;
            open.next_ms = 0;
            open.last_error = None;
        });
        Ok(())
    }

    /// Backs off after a failure.
    pub(crate) fn effect_failed(&self, id: &IntentId, failure: &Failure) {
        let now_ms = self.now_ms();
        self.outbox.update(id, |open| {
            open.failures = open.failures.saturating_add(1);
            let place = format!("{}#{}", id.version, id.ordinal);
            let delay = RetryPolicy::DEFAULT.delay_ms(id.machine.as_str(), &place, open.failures);
            open.next_ms = now_ms.saturating_add(delay);
            open.last_error = Some(short(failure.to_string()));
            // One attempt each before new ones are prepared: a row that cannot be sent does not stop the others.
            open.resend &= !open.is_sent();
        });
        tracing::warn!(intent = %id, %failure, "an effect failed and is tried again");
    }
}

/// A journal line about a row.
pub(crate) fn outbox_fact(id: &IntentId, kind: &str, change: String) -> Fact {
    Fact::Outbox { version: id.version, ordinal: id.ordinal, kind: kind.to_owned(), change: short(change) }
}

/// Prepares and sends, one row at a time, until the group ends.
pub(crate) async fn run<M: Machine>(inner: Arc<Inner<M>>) {
    while !inner.ended.is_cancelled() {
        match inner.outbox.next_to_send(inner.now_ms()) {
            Ok(id) => {
                if let Some(open) = inner.outbox.get(&id)
                    && let Err(failure) = forward(&inner, &id, &open).await
                {
                    inner.effect_failed(&id, &failure);
                }
            }
            Err(next_ms) => {
                let news = Box::pin(inner.outbox.to_send.wait());
                let sleep = match next_ms {
                    Some(at_ms) => Either::Left(inner.sleep_until(at_ms)),
                    None => Either::Right(std::future::pending()),
                };
                let woken = select(select(sleep, news), inner.ended.cancelled()).await;
                if matches!(woken, Either::Left((Either::Left((Woken::SetBack, _)), _))) {
                    // Its times are of the old clock.
                    inner.outbox.nudge();
                }
            }
        }
    }
}

/// One step of one row: prepares it, or sends it.
async fn forward<M: Machine>(inner: &Arc<Inner<M>>, id: &IntentId, open: &Open) -> Result<(), Failure> {
    let handler = inner.handler(&open.row.kind)?;
    let intent = intent_of(id, &open.row);
    if let Some(prepared) = open.prepared() {
        inner.guarded("sending", handler.send(&intent, prepared)).await?;
        inner.outbox.update(id, |open| open.resend = false);
        if !open.is_sent() {
            let stage = OutboxStage::Sent { bytes: prepared.to_vec() };
            inner.advance(id, open, stage, "sent".to_owned()).await?;
        }
        inner.outbox.to_poll.notify();
        return Ok(());
    }
    let others = inner.outbox.prepared();
    let prepared = inner.guarded("preparing", handler.prepare(&intent, &others)).await;
    let bytes = match prepared {
        Ok(bytes) if bytes.len() > EVENT_BYTES_MAX => {
            let (have, limit) = (bytes.len(), EVENT_BYTES_MAX);
            return Err(Failure::permanent(format_args!(
                "prepared {have} bytes, at most {limit} are stored"
            )));
        }
        Ok(bytes) => bytes,
        Err(failure) => {
            let again = matches!(failure.class, Class::Transient | Class::Capacity | Class::WorkerLost);
            let event = if again { None } else { handler.refused(&intent, &failure) };
            return match event {
                Some(event) => inner.settle(id, open, event, format!("refused: {failure}")).await,
                None => Err(failure),
            };
        }
    };
    inner.advance(id, open, OutboxStage::Prepared { bytes }, "prepared".to_owned()).await
}
