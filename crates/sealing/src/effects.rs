//! The handlers of the outbox: messages to the chain, the seed to wait for, staged pieces to delete.

mod messages;
mod seed;
mod unstage;

pub(crate) use messages::MessageHandler;
pub(crate) use seed::SeedHandler;
pub(crate) use unstage::UnstageHandler;

use serde::de::DeserializeOwned;
use statemachine::{Class, Failure, Intent};

/// The payload of a row. One that cannot be read was written by another version of this program: a person's case.
fn payload<T: DeserializeOwned>(intent: &Intent) -> Result<T, Failure> {
    intent.decode().map_err(|e| Failure::from_error(Class::NeedsPerson, &e))
}
