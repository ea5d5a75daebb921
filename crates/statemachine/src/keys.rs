//! Keys of the rows. A key is the kind's name, a tag and an id, parted by zero bytes, which ids never have, so that one
//! machine's rows are one prefix and machines sort by id.
//!
//! | tag | key after the tag | value |
//! |---|---|---|
//! | `r` | id | the machine's row |
//! | `s` | state, id | empty: the state index |
//! | `i` | id, lane (1 byte), number (8 bytes) | an event that waits |
//! | `t` | id, name | a timer |
//! | `o` | id, version (8 bytes), ordinal (4 bytes) | an effect that is not settled |

use crate::{IntentId, MachineId};

/// The keys of one kind of machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keys(pub(crate) &'static str);

impl Keys {
    fn start(self, tag: u8) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.0.len() + 32);
        key.extend(self.0.as_bytes());
        key.extend([0, tag, 0]);
        key
    }

    fn of(self, tag: u8, id: &MachineId) -> Vec<u8> {
        let mut key = self.start(tag);
        key.extend(id.as_str().as_bytes());
        key
    }

    fn rows(self, tag: u8, id: &MachineId) -> Vec<u8> {
        let mut key = self.of(tag, id);
        key.push(0);
        key
    }

    pub(crate) fn records(self) -> Vec<u8> {
        self.start(b'r')
    }

    pub(crate) fn record(self, id: &MachineId) -> Vec<u8> {
        self.of(b'r', id)
    }

    pub(crate) fn state_index(self, state: &str) -> Vec<u8> {
        let mut key = self.start(b's');
        key.extend(state.as_bytes());
        key.push(0);
        key
    }

    pub(crate) fn in_state(self, state: &str, id: &MachineId) -> Vec<u8> {
        let mut key = self.state_index(state);
        key.extend(id.as_str().as_bytes());
        key
    }

    pub(crate) fn inboxes(self) -> Vec<u8> {
        self.start(b'i')
    }

    pub(crate) fn inbox(self, id: &MachineId) -> Vec<u8> {
        self.rows(b'i', id)
    }

    pub(crate) fn inbox_row(self, id: &MachineId, lane: u8, number: u64) -> Vec<u8> {
        let mut key = self.inbox(id);
        key.push(lane);
        key.extend(number.to_be_bytes());
        key
    }

    pub(crate) fn timers(self) -> Vec<u8> {
        self.start(b't')
    }

    pub(crate) fn timers_of(self, id: &MachineId) -> Vec<u8> {
        self.rows(b't', id)
    }

    pub(crate) fn timer(self, id: &MachineId, name: &str) -> Vec<u8> {
        let mut key = self.timers_of(id);
        key.extend(name.as_bytes());
        key
    }

    pub(crate) fn outbox(self) -> Vec<u8> {
        self.start(b'o')
    }

    pub(crate) fn outbox_of(self, id: &MachineId) -> Vec<u8> {
        self.rows(b'o', id)
    }

    pub(crate) fn outbox_row(self, id: &IntentId) -> Vec<u8> {
        let mut key = self.outbox_of(&id.machine);
        key.extend(id.version.to_be_bytes());
        key.extend(id.ordinal.to_be_bytes());
        key
    }

    /// The journal's stream of a machine.
    pub(crate) fn stream(self, id: &MachineId) -> Vec<u8> {
        let mut key = self.0.as_bytes().to_vec();
        key.push(0);
        key.extend(id.as_str().as_bytes());
        key
    }

    /// The id of a record's key.
    pub(crate) fn id_of_record(self, key: &[u8]) -> Option<MachineId> {
        text(key.strip_prefix(self.records().as_slice())?)
    }

    /// The id of a key of the state index.
    pub(crate) fn id_in_state(self, state: &str, key: &[u8]) -> Option<MachineId> {
        text(key.strip_prefix(self.state_index(state).as_slice())?)
    }

    /// The id and name of a timer's key.
    pub(crate) fn id_of_timer(self, key: &[u8]) -> Option<(MachineId, String)> {
        let rest = key.strip_prefix(self.timers().as_slice())?;
        let middle = rest.iter().position(|byte| *byte == 0)?;
        Some((text(&rest[..middle])?, String::from_utf8(rest[middle + 1..].to_vec()).ok()?))
    }

    /// The id, lane and number of an inbox key.
    pub(crate) fn id_of_inbox(self, key: &[u8]) -> Option<(MachineId, u8, u64)> {
        let rest = key.strip_prefix(self.inboxes().as_slice())?;
        let (id, tail) = rest.split_at_checked(rest.len().checked_sub(10)?)?;
        let (&[0, lane], number) = tail.split_first_chunk::<2>()? else { return None };
        Some((text(id)?, lane, u64::from_be_bytes(number.try_into().ok()?)))
    }

    /// The intent of an outbox key.
    pub(crate) fn id_of_outbox(self, key: &[u8]) -> Option<IntentId> {
        let rest = key.strip_prefix(self.outbox().as_slice())?;
        let (id, tail) = rest.split_at_checked(rest.len().checked_sub(13)?)?;
        let (&[0], numbers) = tail.split_first_chunk::<1>()? else { return None };
        let (version, ordinal) = numbers.split_at_checked(8)?;
        Some(IntentId {
            machine: text(id)?,
            version: u64::from_be_bytes(version.try_into().ok()?),
            ordinal: u32::from_be_bytes(ordinal.try_into().ok()?),
        })
    }
}

fn text(bytes: &[u8]) -> Option<MachineId> {
    Some(MachineId::from(std::str::from_utf8(bytes).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_come_back(id in "[a-z0-9ä-]{1,20}", lane in 0u8..3, number: u64, ordinal: u32, name in "[a-z~]{1,9}") {
            let keys = Keys("order");
            let id = MachineId::from(id);
            prop_assert_eq!(keys.id_of_record(&keys.record(&id)), Some(id.clone()));
            prop_assert_eq!(keys.id_in_state("Open", &keys.in_state("Open", &id)), Some(id.clone()));
            prop_assert_eq!(keys.id_of_timer(&keys.timer(&id, &name)), Some((id.clone(), name)));
            prop_assert_eq!(keys.id_of_inbox(&keys.inbox_row(&id, lane, number)), Some((id.clone(), lane, number)));
            let intent = IntentId { machine: id, version: number, ordinal };
            prop_assert_eq!(keys.id_of_outbox(&keys.outbox_row(&intent)), Some(intent));
        }

        #[test]
        fn one_machines_rows_are_not_anothers(a in "[a-b]{1,4}", b in "[a-b]{1,4}", number: u64) {
            let keys = Keys("order");
            let (a, b) = (MachineId::from(a), MachineId::from(b));
            let row = keys.inbox_row(&a, 2, number);
            prop_assert_eq!(row.starts_with(&keys.inbox(&b)), a == b);
        }
    }
}
