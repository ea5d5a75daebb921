//! `sealrig run`: the node as a process.

use super::service::{self, Signals};
use crate::cli::Global;
use crate::exit::{Failure, Result};
use crate::output;
use clap::Args;
use node::{Epochs, Node, NodeConfig, NodeError};
use primitives::SectorSize;
use serde::Serialize;
use std::net::SocketAddr;
use std::time::Duration;

/// How long running stages get to end after a signal. With what closing takes it stays below 30 s.
const STOP: Duration = Duration::from_secs(20);

/// Run the node: store, embedded chain, sealing and the API, until a signal ends it
///
/// The first start makes the repo; its sector size and proof system stay for ever. Work that was cut by a signal, a crash or
/// a power failure goes on from its last finished unit.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sealrig run                               8MiB sectors in ~/.sealrig, an epoch each second
  sealrig run --repo /data/m --sector-size 2KiB --epoch-ms 100
  sealrig sectors add FILE                  (in another terminal) give it something to seal

The sectors of a new repo are of 8MiB when --sector-size is not given: large enough for
ordinary files, and sealed in seconds. 2KiB is for trying things out, 512MiB for bulk.

SIGTERM or Ctrl-C stops in order within 30 s and exits 0; a second one ends at once.
RUST_LOG sets the log, such as RUST_LOG=debug or RUST_LOG=sealing=debug,warn.")]
pub(crate) struct Run {
    /// Sector size of a new repo: 2KiB, 8MiB, 512MiB, 32GiB or 64GiB [default: 8MiB]
    #[arg(long, value_name = "SIZE")]
    sector_size: Option<SectorSize>,
    /// Milliseconds between two epochs of the embedded chain
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    epoch_ms: u64,
    /// Where the API listens [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Kind of proofs that go to the chain
    #[arg(long, value_name = "SYSTEM", default_value = "vanilla")]
    proofs: String,
    /// Seal a sector that waits for pieces after so many minutes; 0 waits until it is full or told to
    #[arg(long, value_name = "MINUTES", default_value_t = 360)]
    wait_deals: u64,
    /// Threads of the proofs; 0 takes one for each processor
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1024))]
    threads: u16,
}

/// What a started node says on stdout.
#[derive(Serialize)]
struct Started {
    url: String,
    repo: String,
    pid: u32,
    sector_size: u64,
    proof_system: String,
}

pub(crate) fn run(args: &Run, global: &Global) -> Result {
    let proofs = service::proof_system(&args.proofs)?;
    let config = NodeConfig {
        sector_size: args.sector_size,
        proofs,
        epochs: Epochs::Interval(Duration::from_millis(args.epoch_ms)),
        listen: args.listen,
        wait_deals: (args.wait_deals > 0).then(|| Duration::from_secs(args.wait_deals.saturating_mul(60))),
        threads: usize::from(args.threads),
        ..NodeConfig::new(global.repo_dir()?)
    };
    service::log_to_stderr("info");
    let runtime = service::runtime()?;
    let outcome = runtime.block_on(serve(config, global.json));
    service::end(runtime);
    outcome
}

async fn serve(config: NodeConfig, json: bool) -> Result {
    // Before anything is opened, so that a signal during the start is not missed.
    let signals = Signals::listen()?;
    let node = Node::start(config).await.map_err(|e| service::of_node(&e))?;
    announce(&node, json)?;
    let fatal = tokio::select! {
        () = signals.first() => { tracing::info!("stopping; a second signal ends the process at once"); None }
        () = node.stop_asked() => { tracing::info!("stopping, as a client asked"); None }
        error = node.fatal() => Some(error),
    };
    let stopped = node.stop(STOP).await;
    if let Some(error) = fatal {
        return Err(Failure::failed(error.to_string()));
    }
    match stopped {
        Ok(summary) => {
            if !summary.cut.is_empty() {
                tracing::warn!(
                    "work on sector {} was cut; its finished units are kept",
                    summary.cut.join(", ")
                );
            }
            let word = if summary.ended == 1 { "run" } else { "runs" };
            tracing::info!("stopped; {} {word} ended in order", summary.ended);
            Ok(())
        }
        Err(NodeError::Store(e)) => Err(Failure::failed(e.to_string())),
        Err(e) => Err(service::of_node(&e)),
    }
}

fn announce(node: &Node, json: bool) -> Result {
    let facts = &node.core().facts;
    let repo = node.core().repo.root().display().to_string();
    if json {
        return output::json(&Started {
            url: node.url().to_owned(),
            repo,
            pid: std::process::id(),
            sector_size: facts.sector_size.bytes(),
            proof_system: facts.proof_system.clone(),
        });
    }
    output::text(&format!(
        "The node of {repo} runs at {} (sectors of {}, miner f0{}, {} proofs).\nTry `sealrig sectors add FILE` or \
         `sector-status` with the same --repo; stop it with Ctrl-C.\n",
        node.url(),
        facts.sector_size,
        facts.miner.0,
        facts.proof_system,
    ))
}
