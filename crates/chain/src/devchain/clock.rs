//! When the development chain makes blocks.

use async_trait::async_trait;
use std::time::Duration;

/// What makes an epoch pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pace {
    /// Time: an epoch passes with each [`EpochClock::tick`].
    Ticks,
    /// Need: a message arrived, its receipt is not visible yet, or somebody waits for an epoch.
    OnDemand,
    /// Only calls of `mine`.
    ByHand,
}

/// The development chain's clock. Chain time stands still while no process runs: a chain opened again goes on at the
/// epoch after its head, whatever the time.
#[async_trait]
pub trait EpochClock: Send + Sync {
    /// What makes an epoch pass.
    fn pace(&self) -> Pace;

    /// The time between two epochs in milliseconds; 0 unless the pace is [`Pace::Ticks`].
    fn epoch_delay_ms(&self) -> u64;

    /// Completes when the next epoch is due. Asked only when the pace is [`Pace::Ticks`].
    async fn tick(&self);
}

/// An epoch in every interval of real time.
#[derive(Debug)]
pub struct IntervalClock {
    delay: Duration,
}

impl IntervalClock {
    /// A clock with this delay, at least one millisecond.
    pub fn new(delay: Duration) -> Self {
        Self { delay: delay.max(Duration::from_millis(1)) }
    }
}

#[async_trait]
impl EpochClock for IntervalClock {
    fn pace(&self) -> Pace {
        Pace::Ticks
    }

    fn epoch_delay_ms(&self) -> u64 {
        u64::try_from(self.delay.as_millis()).unwrap_or(u64::MAX)
    }

    async fn tick(&self) {
        tokio::time::sleep(self.delay).await;
    }
}

macro_rules! timeless {
    ($(#[$doc:meta])* $name:ident $pace:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default)]
        pub struct $name;

        #[async_trait]
        impl EpochClock for $name {
            fn pace(&self) -> Pace {
                $pace
            }

            fn epoch_delay_ms(&self) -> u64 {
                0
            }

            async fn tick(&self) {
                std::future::pending().await
            }
        }
    };
}

timeless! {
    /// A block whenever one is needed.
    OnDemandClock Pace::OnDemand
}
timeless! {
    /// Blocks only by `mine`.
    ManualClock Pace::ByHand
}
