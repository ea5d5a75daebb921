//! The engine's clock and spawner on tokio.

use statemachine::{BoxFuture, Clock, Env, Spawner};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

/// Wall clock for stamps; sleeping is by tokio's timer.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        now_ms()
    }

    fn sleep_until(&self, at_ms: u64) -> BoxFuture<()> {
        let clock = *self;
        Box::pin(async move {
            // In short naps, so that a jump of the wall clock is noticed.
            loop {
                let left = at_ms.saturating_sub(clock.now_ms());
                if left == 0 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(left.min(5_000))).await;
            }
        })
    }
}

/// Tasks of a tokio runtime.
#[derive(Debug, Clone)]
pub struct TokioSpawner(tokio::runtime::Handle);

impl Spawner for TokioSpawner {
    fn spawn(&self, task: BoxFuture<()>) {
        self.0.spawn(task);
    }
}

/// The surroundings of an engine on the current runtime. Panics outside of one.
pub fn tokio_env() -> Env {
    Env::new(Arc::new(SystemClock), Arc::new(TokioSpawner(tokio::runtime::Handle::current())))
}
