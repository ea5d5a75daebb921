//! `sealrig`: the sealing node and its commands. Parse, run, exit code; the rest is in [`commands`].

#![forbid(unsafe_code)]

mod cli;
mod commands;
mod exit;
mod interrupt;
mod output;
mod progress;

use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match commands::run(&cli) {
        Ok(()) => exit::Exit::Success.into(),
        Err(failure) => failure.report(),
    }
}
