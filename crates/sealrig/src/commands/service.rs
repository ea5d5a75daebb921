//! What the commands that run a node share: runtime, log, signals, and failures in the commands' words.

use crate::exit::{Exit, Failure, Result};
use node::client::ClientError;
use node::demo::DemoError;
use node::repo::RepoError;
use node::wire::refusal;
use node::{NodeError, ProofSystem, UnknownProofSystem};
use std::io::IsTerminal as _;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// The log's variable.
pub(crate) const LOG_VARIABLE: &str = "RUST_LOG";

/// Logs to stderr, as `RUST_LOG` says, else from `level` on.
pub(crate) fn log_to_stderr(level: &str) {
    let asked = std::env::var(LOG_VARIABLE).ok().filter(|text| !text.trim().is_empty());
    let (filter, refused) = match asked.as_deref().map(EnvFilter::try_new) {
        Some(Ok(filter)) => (filter, None),
        Some(Err(e)) => (EnvFilter::new(level), Some(e)),
        None => (EnvFilter::new(level), None),
    };
    let colours =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let subscriber =
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(colours).with_env_filter(filter);
    // A second command in one process (as in tests) keeps the first one's log.
    let _ = subscriber.try_init();
    if let Some(e) = refused {
        tracing::warn!("{LOG_VARIABLE} cannot be followed ({e}); logging from {level} on");
    }
}

/// A runtime for a node. Its threads wait and answer; proofs have pools of their own.
///
/// # Errors
/// When the system gives no threads.
pub(crate) fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("node")
        .enable_all()
        .build()
        .map_err(|e| Failure::failed(format!("cannot start the threads of the node: {e}")))
}

/// Ends a runtime without waiting for work that was told to stop and has not noticed yet: all it makes is made whole or not
/// at all.
pub(crate) fn end(runtime: Runtime) {
    runtime.shutdown_timeout(Duration::from_secs(1));
}

/// SIGINT, SIGTERM and SIGHUP.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Listens from now on. Call within a runtime.
    ///
    /// # Errors
    /// When the system gives no signal handler.
    pub(crate) fn listen() -> Result<Self> {
        let on = |kind| signal(kind).map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")));
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hangup: on(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }

    /// Ready at the first signal; from then on a second one ends the process at once.
    pub(crate) async fn first(mut self) {
        self.next().await;
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(i32::from(Exit::Interrupted.code()));
        });
    }
}

/// The proof system by its name.
///
/// # Errors
/// [`Exit::Unsupported`] for one that is not built yet, [`Exit::Usage`] for none at all.
pub(crate) fn proof_system(name: &str) -> Result<ProofSystem> {
    name.parse().map_err(|e: UnknownProofSystem| match e {
        UnknownProofSystem::NotYet => Failure::new(Exit::Unsupported, e.to_string()),
        UnknownProofSystem::Unknown(_) => Failure::usage(e.to_string()),
    })
}

/// A node's failure in the commands' words.
pub(crate) fn of_node(e: &NodeError) -> Failure {
    match e {
        NodeError::Check { what, remedy } => Failure::failed(what.clone()).next(remedy.clone()),
        NodeError::Repo(
            RepoError::SectorSize { .. } | RepoError::ProofSystem { .. } | RepoError::NoProof(_),
        ) => Failure::usage(e.to_string()),
        e if e.is_locked() => Failure::failed(e.to_string()).next(
            "`sealrig sectors` and `sector-status` work with the node that runs; for a second one take another folder",
        ),
        e if e.is_damage() => Failure::new(Exit::Verification, e.to_string()),
        e => Failure::failed(e.to_string()),
    }
}

/// A demo's failure in the commands' words.
pub(crate) fn of_demo(e: &DemoError) -> Failure {
    match e {
        DemoError::Node(e) => of_node(e),
        DemoError::NoFiles
        | DemoError::NotAFile { .. }
        | DemoError::Empty { .. }
        | DemoError::Many { .. } => Failure::usage(e.to_string()),
        DemoError::Interrupted { .. } => Failure::new(Exit::Interrupted, e.to_string()),
        e => Failure::failed(e.to_string()),
    }
}

/// A client's failure in the commands' words.
#[allow(clippy::needless_pass_by_value, reason = "goes to `map_err` as it is")]
pub(crate) fn of_client(e: ClientError) -> Failure {
    let exit = match &e {
        ClientError::Refused { class, .. } => match class.as_str() {
            refusal::UNKNOWN => Exit::Unknown,
            refusal::REFUSED => Exit::Refused,
            refusal::USAGE => Exit::Usage,
            refusal::DAMAGED => Exit::Verification,
            _ => Exit::Failure,
        },
        _ => Exit::Failure,
    };
    let failure = Failure::new(exit, e.to_string());
    match e.next_step() {
        Some(next) => failure.next(next),
        None => failure,
    }
}
