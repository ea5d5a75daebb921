//! `sealrig sectors`: orders to the running node.

mod unseal;

use super::service;
use crate::cli::Global;
use crate::exit::{Failure, Result};
use crate::output;
use clap::{Args, Subcommand};
use node::client::Client;
use node::repo::Repo;
use node::{view, wire};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Sectors named in a hint.
const LISTED: usize = 8;

/// Give the running node inputs and orders
#[derive(Debug, Subcommand)]
#[command(
    after_help = "`sector-status` shows the sectors, `sector-status N` one of them with its time line."
)]
pub(crate) enum Sectors {
    /// Give it a file, or stdin, to seal; when this returns the node has it on disk
    Add(Add),
    /// Make sectors without data (committed capacity)
    Pledge(Pledge),
    /// Seal a sector that waits for more pieces as it is
    Seal(One),
    /// Delete a sector's files; a sector on chain becomes faulty by that
    Remove(Remove),
    /// Try again now what failed or waits for its next try
    Retry(One),
    /// Compute a sector's data back from its replica
    Unseal(unseal::Unseal),
    /// Shown by `sector-status`
    #[command(hide = true, visible_aliases = ["ls"])]
    List(Elsewhere),
    /// Shown by `sector-status N`
    #[command(hide = true, visible_aliases = ["show"])]
    Status(Elsewhere),
}

/// Whatever follows a command that is another program's.
#[derive(Debug, Args)]
pub(crate) struct Elsewhere {
    /// Given on to nobody
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    rest: Vec<String>,
}

/// What to add.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sealrig sectors add backup.tar
  tar c photos | sealrig sectors add - --name photos.tar

An input is cut at the capacity of a sector and nowhere else (127/128 of its size), and
placed in the first sector that waits for pieces and has room, else in a new one. A sector is
sealed when it is full, when it has waited long enough, or by `sealrig sectors seal N`.")]
pub(crate) struct Add {
    /// The file; `-` reads stdin
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// Name of the input in lists [default: the file's name]
    #[arg(long)]
    name: Option<String>,
}

/// How many to pledge.
#[derive(Debug, Args)]
pub(crate) struct Pledge {
    /// How many sectors
    #[arg(value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=node::api::PLEDGE_MAX))]
    count: u64,
}

/// Which sector.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// The sector's number
    #[arg(value_name = "SECTOR")]
    number: u64,
}

/// What to remove.
#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// The sector's number
    #[arg(value_name = "SECTOR")]
    number: u64,
    /// Its number again, for a sector that is on chain
    #[arg(long, value_name = "SECTOR")]
    confirm: Option<u64>,
}

pub(crate) fn run(command: &Sectors, global: &Global) -> Result {
    if let Sectors::List(args) | Sectors::Status(args) = command {
        let line = ["sector-status"].into_iter().chain(args.rest.iter().map(String::as_str));
        return Err(Failure::usage("sectors are shown by a program of their own")
            .next(format!("run `{}`", line.collect::<Vec<_>>().join(" "))));
    }
    let client = Client::open(&Repo::at(global.repo_dir()?)).map_err(service::of_client)?;
    match command {
        Sectors::Add(args) => add(&client, args, global.json),
        Sectors::Pledge(args) => pledge(&client, args, global.json),
        Sectors::Seal(args) => tell(&client.seal(args.number).map_err(service::of_client)?, global.json),
        Sectors::Retry(args) => tell(&client.retry(args.number).map_err(service::of_client)?, global.json),
        Sectors::Remove(args) => remove(&client, args, global.json),
        // Answered above, without a node.
        Sectors::List(_) | Sectors::Status(_) => Ok(()),
        Sectors::Unseal(args) => unseal::run(&client, args, global.json),
    }
}

/// The body of a wire document: the commands' output adds the schema itself.
fn print_json<T: serde::Serialize>(document: &T) -> Result {
    let mut body = serde_json::to_value(document)
        .map_err(|e| Failure::failed(format!("cannot make JSON of the result: {e}")))?;
    if let Some(map) = body.as_object_mut() {
        map.remove("schema");
    }
    output::json(&body)
}

fn add(client: &Client, args: &Add, json: bool) -> Result {
    let (name, mut input): (String, Box<dyn Read>) = if args.file == Path::new("-") {
        ("stdin".to_owned(), Box::new(io::stdin().lock()))
    } else {
        let path = &args.file;
        let failed = |e: io::Error| Failure::failed(format!("cannot read {}: {e}", path.display()));
        let file = File::open(path)
            .map_err(|e| failed(e).next("check the name of the file, and who may read it"))?;
        if file.metadata().map_err(failed)?.is_dir() {
            return Err(Failure::usage(format!("{} is a folder", path.display()))
                .next(format!("pack it: tar c {} | sealrig sectors add - --name NAME", path.display())));
        }
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        (name, Box::new(file))
    };
    let name = args.name.clone().unwrap_or(name);
    let added = client.add(&name, &mut input).map_err(service::of_client)?;
    if json {
        return print_json(&added);
    }
    let mut text = format!("{} ({}) is taken in:\n", added.name, view::bytes(added.bytes));
    for piece in &added.pieces {
        text.push_str(&format!(
            "  sector {}: {} from byte {} of its data on, as a piece of {}\n",
            piece.number,
            view::bytes(piece.data_bytes),
            piece.offset,
            view::bytes(piece.unpadded)
        ));
    }
    let mut numbers: Vec<u64> = added.pieces.iter().map(|piece| piece.number).collect();
    numbers.dedup();
    let each = |command: &str| -> String {
        let commands: Vec<String> = numbers.iter().take(LISTED).map(|n| format!("`{command} {n}`")).collect();
        let more = if numbers.len() > LISTED { ", ..." } else { "" };
        commands.join(", ") + more
    };
    let (it, seals) = if numbers.len() == 1 { ("it", "seals") } else { ("them", "seal") };
    text.push_str(&format!(
        "Look at {it} with {}; {} {seals} {it} without waiting for more.\n",
        each("sector-status"),
        each("sealrig sectors seal")
    ));
    output::text(&text)
}

fn pledge(client: &Client, args: &Pledge, json: bool) -> Result {
    let pledged = client.pledge(args.count).map_err(service::of_client)?;
    if json {
        print_json(&pledged)?;
    } else {
        let numbers: Vec<String> = pledged.numbers.iter().map(u64::to_string).collect();
        let word = if numbers.len() == 1 { "sector" } else { "sectors" };
        output::text(&format!("Created {word} {} without data; sealing begins.\n", numbers.join(", ")))?;
    }
    match pledged.stopped {
        None => Ok(()),
        Some(reason) => Err(Failure::failed(format!(
            "only {} of {} sectors were created: {reason}",
            pledged.numbers.len(),
            args.count
        ))),
    }
}

fn remove(client: &Client, args: &Remove, json: bool) -> Result {
    if let Some(other) = args.confirm.filter(|n| *n != args.number) {
        return Err(Failure::usage(format!("--confirm names sector {other}, not sector {}", args.number))
            .next("name the same sector twice"));
    }
    tell(&client.remove(args.number, args.confirm).map_err(service::of_client)?, json)
}

fn tell(ordered: &wire::Ordered, json: bool) -> Result {
    if json {
        return print_json(ordered);
    }
    output::text(&format!(
        "Sector {0} is {1} now; follow it with `sector-status {0}`.\n",
        ordered.number, ordered.state
    ))
}
