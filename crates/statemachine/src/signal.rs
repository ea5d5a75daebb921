//! A wake-up for one waiting task.

use crate::lock;
use std::future::{Future, poll_fn};
use std::sync::Mutex;
use std::task::{Poll, Waker};

/// Notifications that arrive while nobody waits are kept as one.
#[derive(Debug, Default)]
pub(crate) struct Signal(Mutex<(bool, Option<Waker>)>);

impl Signal {
    pub(crate) fn notify(&self) {
        let waker = {
            let mut inner = lock(&self.0);
            inner.0 = true;
            inner.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ready once there was a notification since the last time.
    pub(crate) fn wait(&self) -> impl Future<Output = ()> + Send + '_ {
        poll_fn(|cx| {
            let mut inner = lock(&self.0);
            if std::mem::take(&mut inner.0) {
                return Poll::Ready(());
            }
            inner.1 = Some(cx.waker().clone());
            Poll::Pending
        })
    }
}
