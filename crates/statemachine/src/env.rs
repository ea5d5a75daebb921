//! Time and tasks, which come from outside so that tests own both (SM-16, SM-24).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A future without borrowings that can be sent between threads.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// Where the time comes from.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Ready at the given time, or soon after; at once when it has passed. A clock that can be set wakes those who
    /// wait within seconds after it was set back, so that they notice.
    fn sleep_until(&self, at_ms: u64) -> BoxFuture<()>;
}

/// Where tasks run.
pub trait Spawner: Send + Sync + 'static {
    /// Runs a task to its end. The engine ends its own tasks; dropping them is what a crash is.
    fn spawn(&self, task: BoxFuture<()>);
}

/// What a group needs from its surroundings.
#[derive(Clone)]
pub struct Env {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The spawner.
    pub spawner: Arc<dyn Spawner>,
}

impl Env {
    /// Both together.
    pub fn new(clock: Arc<dyn Clock>, spawner: Arc<dyn Spawner>) -> Self {
        Self { clock, spawner }
    }
}
