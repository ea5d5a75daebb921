//! A small machine for unit tests.

use crate::Machine;
use serde::{Deserialize, Serialize};

crate::kinds! {
    /// States.
    pub(crate) enum LampState {
        /// Off.
        Off,
        /// On.
        On,
    }
}

crate::kinds! {
    /// Events.
    pub(crate) enum LampKind {
        /// The switch.
        Switch,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Switch;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Count(pub(crate) u32);

pub(crate) struct Lamp;

impl Machine for Lamp {
    const NAME: &'static str = "lamp";
    type State = LampState;
    type EventKind = LampKind;
    type Event = Switch;
    type Record = Count;
    fn kind(_: &Switch) -> LampKind {
        LampKind::Switch
    }
}
