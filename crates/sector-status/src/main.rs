//! `sector-status`: lists the sectors of a node, and tells all about one (PL-26).
//!
//! Asks the running node; when none runs, reads the store of the stopped one without changing it, and says so.

#![forbid(unsafe_code)]

mod args;
mod list;
mod output;
mod show;
mod source;

use args::Args;
use clap::Parser as _;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // A reader that has enough of the help is no failure.
            let _ = error.print();
            return if error.use_stderr() { args::USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    let outcome = match args.sector {
        Some(number) => show::run(&args, number),
        None => list::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr is gone there is nobody left to tell.
            let mut text = format!("error: {error:#}\n");
            if let Some(next) = source::next_step(&error) {
                text.push_str(&format!("  next: {next}\n"));
            }
            let _ = std::io::stderr().write_all(text.as_bytes());
            source::exit_code(&error).into()
        }
    }
}
