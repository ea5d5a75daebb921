//! Effects on the outside: decided in a commit, carried out by a handler, at most one effect per intent (SM-17).

use crate::{Failure, IntentId, Machine, MachineId};
use async_trait::async_trait;
use serde::de::DeserializeOwned;
use statestore::{CodecError, codec};

/// An effect that a transition decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// Its id: machine, version, ordinal. The same through every restart.
    pub id: IntentId,
    /// Its kind, which names the handler.
    pub kind: String,
    /// The payload, encoded; [`decode`](Self::decode) gives it back.
    pub payload: Vec<u8>,
    /// When it was decided, in milliseconds since 1970.
    pub created_at_ms: u64,
}

impl Intent {
    /// The machine that decided it.
    pub fn machine(&self) -> &MachineId {
        &self.id.machine
    }

    /// The payload as it was given to [`Effects::intent`](crate::Effects::intent).
    ///
    /// # Errors
    /// When it is of another type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, CodecError> {
        codec::decode_bare(&self.payload)
    }
}

/// A prepared effect that is not settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The intent.
    pub intent: Intent,
    /// What the handler's `prepare` made.
    pub bytes: Vec<u8>,
    /// Whether it was sent at least once.
    pub sent: bool,
}

/// What became of an effect so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<E> {
    /// Not known yet; asked again later.
    Pending,
    /// Lost on the way: the same bytes are sent again.
    SendAgain,
    /// These bytes can never succeed and have not: new ones are made. The reason is journalled.
    PrepareAgain(String),
    /// Done, or failed for good: the event is put into the machine's inbox.
    Settled(E),
    /// Done, and the machine need not be told: the row is closed and journalled, no event is made. (For effects that no
    /// state waits for, such as deleting a temporary file.)
    Done,
}

/// Carries out the effects of a kind. Its methods are raced against a time limit of the group; a panic in them is a
/// transient failure.
#[async_trait]
pub trait EffectHandler<M: Machine>: Send + Sync + 'static {
    /// Makes what will be sent, final to the byte (nonce, signature); it is stored before [`send`](Self::send). Called
    /// for one intent at a time in a group, whatever the kind. `open` are all effects of the group that are prepared and
    /// not settled, so that a nonce is never given twice.
    ///
    /// # Errors
    /// Transient ones are tried again with growing delays; for others see [`refused`](Self::refused).
    async fn prepare(&self, intent: &Intent, open: &[Prepared]) -> Result<Vec<u8>, Failure>;

    /// Sends the prepared bytes. Idempotent: called again after a restart, before anything new is prepared.
    ///
    /// # Errors
    /// Each is tried again with growing delays.
    async fn send(&self, intent: &Intent, prepared: &[u8]) -> Result<(), Failure>;

    /// Looks what became of it. Called every poll interval and at [`nudge`](crate::Group::nudge).
    ///
    /// # Errors
    /// Each is tried again with growing delays.
    async fn poll(&self, intent: &Intent, prepared: &[u8]) -> Result<Outcome<M::Event>, Failure>;

    /// The event that settles an intent whose preparation failed with another class than transient, capacity or worker
    /// lost. Nothing was sent then. `None`: tried again as if it were transient.
    fn refused(&self, intent: &Intent, failure: &Failure) -> Option<M::Event> {
        let _ = (intent, failure);
        None
    }
}
