//! Fault knobs (PL-14): delay, drop, reject.

use crate::ExitCode;
use crate::message::MethodNum;
use primitives::Epoch;
use std::sync::{Mutex, PoisonError};

/// What happens to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// It stays this many epochs in the pool before it is included.
    Delay(Epoch),
    /// It vanishes: `push` answers as always, but no block ever includes it. A later push of the same message counts
    /// as a new one.
    Drop,
    /// It is included and fails with this code, without effect.
    Reject(ExitCode),
}

/// Which messages a fault happens to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FaultRule {
    /// What happens.
    pub fault: Fault,
    /// Only messages of this method; `None` for all.
    pub method: Option<MethodNum>,
    /// To how many of them, then the rule is used up.
    pub count: u32,
}

/// The fault rules of a development chain, decided when a message is pushed. They live in memory: a chain that is
/// opened has none.
#[derive(Debug, Default)]
pub struct Faults {
    rules: Mutex<Vec<FaultRule>>,
}

impl Faults {
    fn rules(&self) -> std::sync::MutexGuard<'_, Vec<FaultRule>> {
        // The list is whole after every operation.
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a rule, after those there are.
    pub fn add(&self, rule: FaultRule) {
        self.rules().push(rule);
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.rules().clear();
    }

    /// The rules which are not used up.
    pub fn active(&self) -> Vec<FaultRule> {
        self.rules().clone()
    }

    /// What happens to a message of this method: the first rule that fits is used once.
    pub(super) fn take(&self, method: MethodNum) -> Option<Fault> {
        let mut rules = self.rules();
        rules.retain(|rule| rule.count > 0);
        let rule = rules.iter_mut().find(|rule| rule.method.is_none_or(|m| m == method))?;
        rule.count -= 1;
        let fault = rule.fault;
        rules.retain(|rule| rule.count > 0);
        Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_apply_in_order_by_method_and_count() {
        let faults = Faults::default();
        faults.add(FaultRule { fault: Fault::Drop, method: Some(28), count: 2 });
        faults.add(FaultRule { fault: Fault::Delay(3), method: None, count: 1 });
        faults.add(FaultRule { fault: Fault::Drop, method: None, count: 0 });
        assert_eq!(faults.take(34), Some(Fault::Delay(3)));
        assert_eq!(faults.take(34), None);
        assert_eq!(faults.take(28), Some(Fault::Drop));
        assert_eq!(faults.active().len(), 1);
        assert_eq!(faults.take(28), Some(Fault::Drop));
        assert_eq!(faults.take(28), None);
        assert!(faults.active().is_empty());
    }
}
