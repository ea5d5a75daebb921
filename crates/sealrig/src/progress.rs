//! Progress bars: on stderr, only on a terminal, never with `--json`.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use proofs::control::{Progress, ProgressSink};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};

/// Draws the progress of a stage, one bar for each phase; without a terminal it is silent.
pub(crate) struct Bars(Option<Mutex<Current>>);

#[derive(Default)]
struct Current {
    phase: String,
    bar: Option<ProgressBar>,
}

impl Bars {
    /// Bars if stderr is a terminal and `quiet` is not set.
    pub(crate) fn new(quiet: bool) -> Self {
        Self((!quiet && std::io::stderr().is_terminal()).then(Mutex::default))
    }

    /// Takes the last bar off the screen, before something else is written there.
    pub(crate) fn clear(&self) {
        if let Some(current) = &self.0 {
            let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(bar) = current.bar.take() {
                bar.finish_and_clear();
            }
            current.phase.clear();
        }
    }
}

/// No colours: they would have to honour `NO_COLOR`, and a bar needs none.
fn style(unit: &str) -> ProgressStyle {
    let template = match unit {
        "bytes" => {
            "{prefix:>18} [{bar:30}] {percent:>3}%  {bytes}/{total_bytes}  {binary_bytes_per_sec}  {eta} left"
        }
        _ => "{prefix:>18} [{bar:30}] {percent:>3}%  {human_pos}/{human_len} {msg}  {per_sec}  {eta} left",
    };
    // The templates are constants; should one be refused, the usual bar is as good.
    ProgressStyle::with_template(template)
        .map_or_else(|_| ProgressStyle::default_bar(), |s| s.progress_chars("=> "))
}

impl ProgressSink for Bars {
    fn report(&self, progress: Progress<'_>) {
        let Some(current) = &self.0 else { return };
        let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
        // Without an end there is no share of it to draw.
        if progress.total == 0 {
            return;
        }
        if current.phase != progress.phase || current.bar.is_none() {
            if let Some(old) = current.bar.take() {
                old.finish_and_clear();
            }
            let bar = ProgressBar::with_draw_target(Some(progress.total), ProgressDrawTarget::stderr())
                .with_style(style(progress.unit))
                .with_prefix(progress.phase.to_owned())
                .with_message(progress.unit);
            progress.phase.clone_into(&mut current.phase);
            current.bar = Some(bar);
        }
        if let Some(bar) = &current.bar {
            bar.set_position(progress.done);
        }
    }
}
