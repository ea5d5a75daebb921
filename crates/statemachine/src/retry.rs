//! When a failed run is tried again (SM-15).

use crate::machine::Fnv;
use std::hash::Hasher;
use std::time::Duration;

/// How a state's failures are retried: exponential delay with derived jitter, a cap and perhaps a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The delay after the first failure; it doubles with each further one.
    pub first: Duration,
    /// No delay is longer, jitter aside.
    pub cap: Duration,
    /// How many failures in a row may be retried; then the state's `spent` rule applies. `None`: no end, at the cap.
    pub budget: Option<u32>,
    /// The delay is multiplied by a factor within this many percent of 1.
    pub jitter_percent: u32,
    /// A run that lived this long before it failed starts the count again.
    pub healthy: Duration,
    /// Retrying for longer than this is an alert.
    pub alert_after: Duration,
}

impl RetryPolicy {
    /// The defaults: 1 s doubling to 5 min, ±20 %, no budget, healthy after 10 min, alert after 1 h.
    pub const DEFAULT: RetryPolicy = RetryPolicy {
        first: Duration::from_secs(1),
        cap: Duration::from_secs(300),
        budget: None,
        jitter_percent: 20,
        healthy: Duration::from_secs(600),
        alert_after: Duration::from_secs(3600),
    };

    /// The defaults with a budget.
    pub const fn budget(budget: u32) -> Self {
        Self { budget: Some(budget), ..Self::DEFAULT }
    }

    /// The delay after failure number `attempt` (the first is 1), in milliseconds. The jitter is derived from machine,
    /// state and attempt, so that a replay gives the same and a thousand machines do not come back at once.
    pub fn delay_ms(&self, machine: &str, state: &str, attempt: u32) -> u64 {
        let first = millis(self.first).max(1);
        let doubled = first.saturating_mul(1u64.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX));
        let base = doubled.min(millis(self.cap).max(1));
        let mut hash = Fnv::default();
        hash.write(machine.as_bytes());
        hash.write_u8(0);
        hash.write(state.as_bytes());
        hash.write(&attempt.to_be_bytes());
        // FNV's high bits mix slowly; fold them in.
        let mixed = hash.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let jitter = u64::from(self.jitter_percent.min(100));
        let percent_of_percent = 10_000 - jitter * 100 + mixed % (jitter * 200 + 1);
        (base.saturating_mul(percent_of_percent) / 10_000).max(1)
    }

    /// No delay is longer than this many milliseconds, jitter included.
    pub fn longest_ms(&self) -> u64 {
        let percent = 100 + u64::from(self.jitter_percent.min(100));
        (millis(self.cap).max(1).saturating_mul(percent) / 100).max(1)
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_to_the_cap_within_the_jitter() {
        let policy = RetryPolicy::DEFAULT;
        for attempt in 1..=80u32 {
            let base = if attempt > 9 { 300_000 } else { (1000u64 << (attempt - 1)).min(300_000) };
            let delay = policy.delay_ms("m", "S", attempt);
            assert!(delay >= base * 80 / 100 && delay <= base * 120 / 100, "attempt {attempt}: {delay}");
            assert!(delay <= policy.longest_ms());
            assert_eq!(delay, policy.delay_ms("m", "S", attempt), "derived, not drawn");
        }
    }

    #[test]
    fn jitter_spreads_machines() {
        let policy = RetryPolicy { jitter_percent: 50, ..RetryPolicy::DEFAULT };
        let delays: std::collections::BTreeSet<u64> =
            (0..100).map(|n| policy.delay_ms(&format!("{n:06}"), "S", 9)).collect();
        assert!(delays.len() > 95, "{} different delays", delays.len());
        let (low, high) = (delays.first().unwrap(), delays.last().unwrap());
        assert!(*low < 160_000 && *high > 350_000, "{low}..{high}");
    }

    #[test]
    fn without_jitter_the_delay_is_exact() {
        let policy = RetryPolicy { jitter_percent: 0, ..RetryPolicy::DEFAULT };
        assert_eq!([1, 2, 3, 10].map(|n| policy.delay_ms("m", "S", n)), [1000, 2000, 4000, 300_000]);
    }
}
