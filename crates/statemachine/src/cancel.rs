//! The token that ends a run.

use crate::lock;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Says that a run should end. Clones are one token. Blocking work polls [`is_cancelled`](Self::is_cancelled), async work
/// selects on [`cancelled`](Self::cancelled), foreign interrupt flags are set by [`on_cancel`](Self::on_cancel).
#[derive(Clone, Default)]
pub struct Cancel(Arc<Shared>);

#[derive(Default)]
struct Shared {
    flag: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    wakers: Vec<Waker>,
    callbacks: Vec<Box<dyn FnOnce() + Send>>,
}

impl Cancel {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the run should end.
    pub fn is_cancelled(&self) -> bool {
        self.0.flag.load(Ordering::Acquire)
    }

    /// Ready when the run should end.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled(self.clone())
    }

    /// Calls back once at cancellation, on the canceller's thread: short and without blocking. At once when it is
    /// cancelled already.
    pub fn on_cancel(&self, callback: impl FnOnce() + Send + 'static) {
        {
            let mut waiting = lock(&self.0.waiting);
            if !self.is_cancelled() {
                waiting.callbacks.push(Box::new(callback));
                return;
            }
        }
        callback();
    }

    /// Cancels; a second time does nothing.
    pub fn cancel(&self) {
        let waiting = {
            let mut waiting = lock(&self.0.waiting);
            self.0.flag.store(true, Ordering::Release);
            std::mem::take(&mut *waiting)
        };
        for callback in waiting.callbacks {
            callback();
        }
        for waker in waiting.wakers {
            waker.wake();
        }
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancel").field(&self.is_cancelled()).finish()
    }
}

/// The future of [`Cancel::cancelled`].
#[derive(Debug)]
pub struct Cancelled(Cancel);

impl Future for Cancelled {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut waiting = lock(&self.0.0.waiting);
        if self.0.is_cancelled() {
            return Poll::Ready(());
        }
        if !waiting.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiting.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn callbacks_and_futures_see_it_once() {
        let cancel = Cancel::new();
        let count = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&count);
        cancel.on_cancel(move || *lock(&counted) += 1);
        assert!(cancel.cancelled().now_or_never().is_none());
        cancel.cancel();
        cancel.cancel();
        assert_eq!(*lock(&count), 1);
        assert!(cancel.clone().cancelled().now_or_never().is_some());
        let counted = Arc::clone(&count);
        cancel.on_cancel(move || *lock(&counted) += 1);
        assert_eq!(*lock(&count), 2, "late callbacks are called at once");
    }
}
