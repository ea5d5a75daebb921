//! `sealrig demo`: the main job.

use super::service::{self, Signals};
use crate::cli::Global;
use crate::exit::{Exit, Failure, Result};
use crate::output;
use clap::Args;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use node::demo::{self, DemoConfig, DemoEvent, Running};
use node::{view, wire};
use primitives::SectorSize;
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Seal files on an embedded chain with real proofs, and compute them back: the whole pipeline in one command
///
/// Each file becomes one piece, cut only at the capacity of a sector. Every sector goes through all stages; the chain
/// verifies each proof; at the end every file is computed back from the replicas and compared byte by byte.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sealrig demo photo.jpg
  sealrig demo a.tar b.tar --sector-size 8MiB --dir /data/demo

Without --sector-size the smallest size is taken that holds everything, at most 8MiB.
DIR is a repo like that of a node: `sector-status --repo DIR` shows it, and the same command
on the same DIR goes on where the last one stopped. What comes back is in DIR/unsealed-output.
The demo keeps away from the repo of your node: --repo and SEALRIG_REPO are not used.")]
pub(crate) struct Demo {
    /// Files to seal
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Sector size: 2KiB, 8MiB or 512MiB
    #[arg(long, value_name = "SIZE", value_parser = demo_size)]
    sector_size: Option<SectorSize>,
    /// Folder of the demo [default: a new one, sealrig-demo-N in the current folder]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Kind of proofs that go to the chain
    #[arg(long, value_name = "SYSTEM", default_value = "vanilla")]
    proofs: String,
    /// Go on with more than 64 sectors
    #[arg(long)]
    yes: bool,
    /// Threads of the proofs; 0 takes one for each processor
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1024))]
    threads: u16,
}

fn demo_size(text: &str) -> std::result::Result<SectorSize, String> {
    let size: SectorSize =
        text.parse().map_err(|_| "the demo seals sectors of 2KiB, 8MiB or 512MiB".to_owned())?;
    if matches!(size, SectorSize::KiB2 | SectorSize::MiB8 | SectorSize::MiB512) {
        Ok(size)
    } else {
        Err("the demo seals sectors of 2KiB, 8MiB or 512MiB".to_owned())
    }
}

pub(crate) fn run(args: &Demo, global: &Global) -> Result {
    let proofs = service::proof_system(&args.proofs)?;
    // Files first: a wrong name must not leave a new folder behind.
    for file in &args.files {
        if let Err(e) = std::fs::metadata(file) {
            return Err(Failure::failed(format!("cannot read {}: {e}", file.display())));
        }
    }
    let (dir, made) = match &args.dir {
        Some(dir) => (dir.clone(), false),
        None => (new_folder()?, true),
    };
    service::log_to_stderr("warn");
    let runtime = service::runtime()?;
    let config = DemoConfig {
        files: args.files.clone(),
        dir: dir.clone(),
        sector_size: args.sector_size,
        proofs,
        yes: args.yes,
        threads: usize::from(args.threads),
    };
    let screen = Arc::new(Screen::new(global.json, &dir));
    let outcome = runtime.block_on(async {
        let signals = Signals::listen()?;
        let tell = Arc::clone(&screen);
        demo::run(config, Arc::new(move |event| tell.show(event)), signals.first())
            .await
            .map_err(|e| service::of_demo(&e))
    });
    service::end(runtime);
    screen.clear();
    if made && outcome.is_err() {
        // Only goes away when it is still empty.
        let _ = std::fs::remove_dir(&dir);
    }
    report(&outcome?, &dir, global.json)
}

/// Makes the first of `sealrig-demo-1`, `-2`, ... that is not there.
fn new_folder() -> Result<PathBuf> {
    let here = std::env::current_dir().map_err(|e| {
        Failure::failed(format!("cannot tell the current folder: {e}")).next("name one with --dir")
    })?;
    for n in 1..=10_000u32 {
        let dir = here.join(format!("sealrig-demo-{n}"));
        match std::fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => {
                return Err(Failure::failed(format!("cannot create {}: {e}", dir.display()))
                    .next("name a folder that can be written with --dir"));
            }
        }
    }
    Err(Failure::failed("there are 10,000 demos here already").next("name a folder with --dir"))
}

fn report(result: &wire::DemoResult, dir: &Path, json: bool) -> Result {
    if json {
        let mut body = serde_json::to_value(result)
            .map_err(|e| Failure::failed(format!("cannot make JSON of the result: {e}")))?;
        if let Some(map) = body.as_object_mut() {
            map.remove("schema");
        }
        output::json(&body)?;
    } else {
        output::text(&for_people(result, dir))?;
    }
    let different: Vec<&str> = result.files.iter().filter(|f| !f.equal).map(|f| f.name.as_str()).collect();
    if !different.is_empty() {
        return Err(Failure::new(
            Exit::Verification,
            format!("what came back differs from what went in: {}", different.join(", ")),
        )
        .next(format!("see {}", dir.join(demo::OUTPUT).display())));
    }
    let missing: Vec<String> =
        result.sectors.iter().filter(|s| !s.on_chain).map(|s| s.number.to_string()).collect();
    if !missing.is_empty() {
        return Err(Failure::new(
            Exit::Verification,
            format!("not on chain with the CommR of their replica: sectors {}", missing.join(", ")),
        ));
    }
    Ok(())
}

/// The widest bar of a time line.
const BAR: u64 = 32;

fn for_people(result: &wire::DemoResult, dir: &Path) -> String {
    let mut text = String::new();
    for sector in &result.sectors {
        text.push_str(&format!("Sector {}: {}", sector.number, sector.state));
        text.push_str(if sector.on_chain { ", on chain\n" } else { ", NOT on chain\n" });
        for (name, value) in
            [("CommD", &sector.comm_d), ("CommR", &sector.comm_r), ("replica id", &sector.replica_id)]
        {
            if let Some(value) = value {
                text.push_str(&format!("  {name:<10} {value}\n"));
            }
        }
        let stays: Vec<(&str, u64)> =
            sector.timeline.iter().filter_map(|s| s.duration_ms.map(|ms| (s.state.as_str(), ms))).collect();
        let total: u64 = stays.iter().map(|(_, ms)| ms).sum();
        for (state, ms) in &stays {
            let bar = "#".repeat((ms * BAR / total.max(1)) as usize);
            text.push_str(&format!("  {state:<24} {:>12}  {bar}\n", view::span(*ms)));
        }
        text.push_str(&format!("  {:<24} {:>12}\n", "all states together", view::span(total)));
    }
    for file in &result.files {
        let verdict = match (file.equal, file.first_difference) {
            (true, _) => "equal byte for byte".to_owned(),
            (false, Some(at)) => format!("DIFFERENT from byte {at} on"),
            (false, None) => "DIFFERENT".to_owned(),
        };
        text.push_str(&format!(
            "{} ({}): unsealed to {}, {verdict}\n",
            file.name,
            view::bytes(file.bytes),
            file.output
        ));
    }
    let shown = dir.display();
    let first = result.sectors.first().map_or(1, |s| s.number);
    text.push_str(&format!(
        "Done with {1} proofs; the whole run took {0}, from reading the files to comparing what came back. Everything is in {shown}\nNext: `sector-status --repo {shown}` lists the sectors, \
         `sector-status --repo {shown} {first} --log` tells all that happened to one, `sealrig run --repo {shown}` runs a node on it.\n",
        view::span(result.elapsed_ms),
        result.proof_system,
    ));
    text
}

/// What the demo shows on stderr: bars on a terminal, else a line for each step; nothing with `--json`.
struct Screen {
    quiet: bool,
    dir: PathBuf,
    bars: Option<(MultiProgress, Mutex<BTreeMap<u64, ProgressBar>>)>,
}

impl Screen {
    fn new(quiet: bool, dir: &Path) -> Self {
        let on_terminal = !quiet && std::io::stderr().is_terminal();
        let bars = on_terminal
            .then(|| (MultiProgress::with_draw_target(ProgressDrawTarget::stderr()), Mutex::default()));
        Self { quiet, dir: dir.to_owned(), bars }
    }

    fn line(&self, text: &str) {
        match &self.bars {
            _ if self.quiet => {}
            // Above the bars. When stderr is gone there is nobody left to tell, here and below.
            Some((multi, _)) => drop(multi.println(text)),
            None => drop(writeln!(std::io::stderr(), "{text}")),
        }
    }

    fn show(&self, event: DemoEvent) {
        match event {
            DemoEvent::Opened { sector_size, new_sectors } => {
                // Not earlier: inputs that cannot be used leave no folder behind.
                self.line(&format!("The demo works in {}.", self.dir.display()));
                let word = if new_sectors == 1 { "sector" } else { "sectors" };
                self.line(&format!("The node runs; {new_sectors} new {word} of {sector_size}."));
            }
            DemoEvent::Added { name, bytes, known, sectors } => {
                let numbers: Vec<String> = sectors.iter().map(u64::to_string).collect();
                let how = if known { "is already in" } else { "goes to" };
                let word = if numbers.len() == 1 { "sector" } else { "sectors" };
                self.line(&format!("{name} ({}) {how} {word} {}.", view::bytes(bytes), numbers.join(", ")));
            }
            DemoEvent::Moved { number, state } => {
                if self.bars.is_none() {
                    self.line(&format!("Sector {number}: {state}"));
                }
            }
            DemoEvent::Running(running) => self.update(&running),
            DemoEvent::Verified { number, activation } => {
                self.line(&format!("Sector {number}: the chain has it, active since epoch {activation}."));
            }
            DemoEvent::Unsealing { name, bytes } => {
                self.line(&format!("Computing {name} ({}) back from the replica.", view::bytes(bytes)));
            }
            DemoEvent::Compared(file) => {
                let verdict = if file.equal { "equal byte for byte" } else { "DIFFERENT" };
                self.line(&format!("{}: {verdict}.", file.name));
            }
        }
    }

    /// One bar for each sector that is worked on.
    fn update(&self, running: &[Running]) {
        let Some((multi, bars)) = &self.bars else { return };
        let mut bars = bars.lock().unwrap_or_else(PoisonError::into_inner);
        bars.retain(|number, bar| {
            let goes_on = running
                .iter()
                .any(|r| r.number == *number && r.run.as_ref().is_some_and(|r| r.started_ms.is_some()));
            if !goes_on {
                bar.finish_and_clear();
                multi.remove(bar);
            }
            goes_on
        });
        for sector in running {
            let Some(run) = sector.run.as_ref().filter(|run| run.started_ms.is_some()) else { continue };
            let bar = bars.entry(sector.number).or_insert_with(|| {
                let bar = multi.add(ProgressBar::no_length());
                bar.enable_steady_tick(Duration::from_millis(200));
                bar
            });
            bar.set_prefix(format!("sector {} {}", sector.number, sector.state));
            match &run.progress {
                Some(p) if p.total > 0 => {
                    bar.set_style(style("{prefix:<28} [{bar:28}] {percent:>3}%  {msg}  {eta} left"));
                    bar.set_length(p.total);
                    bar.set_position(p.done);
                    bar.set_message(p.phase.clone());
                }
                _ => {
                    bar.set_style(style("{prefix:<28} {spinner} {elapsed}"));
                }
            }
        }
    }

    fn clear(&self) {
        if let Some((multi, bars)) = &self.bars {
            bars.lock().unwrap_or_else(PoisonError::into_inner).clear();
            // When stderr is gone there is nothing to clear.
            let _ = multi.clear();
        }
    }
}

/// No colours: a bar needs none.
fn style(template: &str) -> ProgressStyle {
    // The templates are constants; should one be refused, the usual bar is as good.
    ProgressStyle::with_template(template)
        .map_or_else(|_| ProgressStyle::default_bar(), |s| s.progress_chars("=> "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_takes_three_sizes() {
        for good in ["2KiB", "8MiB", "512mib", "2048"] {
            assert!(demo_size(good).is_ok(), "{good}");
        }
        for bad in ["32GiB", "16KiB", "", "8"] {
            assert!(demo_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_difference_is_a_failed_verification() {
        let file = wire::DemoFile {
            name: "a".to_owned(),
            bytes: 3,
            output: "out/a".to_owned(),
            equal: false,
            first_difference: Some(2),
        };
        let result = wire::DemoResult {
            schema: wire::SCHEMA,
            dir: "d".to_owned(),
            proof_system: "vanilla".to_owned(),
            sector_size: 2048,
            sectors: Vec::new(),
            files: vec![file],
            verified_on_chain: true,
            unsealed_equal: false,
            elapsed_ms: 1,
        };
        assert!(for_people(&result, Path::new("d")).contains("DIFFERENT from byte 2"));
        assert_eq!(report(&result, Path::new("d"), true).unwrap_err().exit, Exit::Verification);
    }
}
