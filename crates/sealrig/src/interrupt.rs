//! SIGINT and SIGTERM for commands that block: the first asks the stage to end, the second ends the process.

use crate::exit::{Exit, Failure, Result};
use proofs::control::CancelFlag;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

/// A flag that the first SIGINT or SIGTERM sets. Ask for it once per process. What is finished is on disk at any moment,
/// so a second signal may end the process at once.
///
/// # Errors
/// If the system gives no thread or signal handler.
pub(crate) fn cancel_on_signal() -> Result<Arc<CancelFlag>> {
    let flag = Arc::new(CancelFlag::new());
    let for_thread = Arc::clone(&flag);
    let fail = |e: std::io::Error| Failure::failed(format!("cannot listen for signals: {e}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(fail)?;
    let (mut interrupt, mut terminate) = {
        let _entered = runtime.enter();
        (signal(SignalKind::interrupt()).map_err(fail)?, signal(SignalKind::terminate()).map_err(fail)?)
    };
    let listen = async move {
        for round in 0.. {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if round > 0 {
                std::process::exit(i32::from(Exit::Interrupted.code()));
            }
            for_thread.cancel();
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    thread.spawn(move || runtime.block_on(listen)).map_err(fail)?;
    Ok(flag)
}
