//! `sealrig sectors`: orders to the running node.

use super::service;
use crate::cli::Global;
use crate::exit::{Failure, Result};
use crate::output;
use clap::{Args, Subcommand};
use node::client::Client;
use node::repo::Repo;
use node::{view, wire};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

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
    Unseal(Unseal),
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

/// What to unseal.
#[derive(Debug, Args)]
pub(crate) struct Unseal {
    /// The sector's number
    #[arg(value_name = "SECTOR")]
    number: u64,
    /// Where to begin, in bytes of data
    #[arg(long, default_value_t = 0)]
    offset: u64,
    /// How many bytes [default: to the end of the sector]
    #[arg(long)]
    bytes: Option<u64>,
    /// Where to write [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(command: &Sectors, global: &Global) -> Result {
    let client = Client::open(&Repo::at(global.repo_dir()?)).map_err(service::of_client)?;
    match command {
        Sectors::Add(args) => add(&client, args, global.json),
        Sectors::Pledge(args) => pledge(&client, args, global.json),
        Sectors::Seal(args) => tell(&client.seal(args.number).map_err(service::of_client)?, global.json),
        Sectors::Retry(args) => tell(&client.retry(args.number).map_err(service::of_client)?, global.json),
        Sectors::Remove(args) => remove(&client, args, global.json),
        Sectors::Unseal(args) => unseal(&client, args),
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
        let file = File::open(path).map_err(failed)?;
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
            "  sector {}: {} at offset {}, as a piece of {}\n",
            piece.number,
            view::bytes(piece.data_bytes),
            piece.offset,
            view::bytes(piece.unpadded)
        ));
    }
    if let Some(last) = added.pieces.last() {
        text.push_str(&format!(
            "Look at it with `sector-status {0}`; `sealrig sectors seal {0}` seals it without waiting for more.\n",
            last.number
        ));
    }
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

fn unseal(client: &Client, args: &Unseal) -> Result {
    let mut data = client.data(args.number, args.offset, args.bytes).map_err(service::of_client)?;
    let broke =
        |e: io::Error| Failure::failed(format!("reading the data of sector {} broke off: {e}", args.number));
    match &args.out {
        Some(path) => {
            let failed = |e: io::Error| Failure::failed(format!("cannot write {}: {e}", path.display()));
            let mut file = File::create(path).map_err(failed)?;
            copy(&mut data, |chunk| file.write_all(chunk).map_err(failed), broke)?;
            file.sync_all().map_err(failed)
        }
        None => {
            let mut out = io::stdout().lock();
            let mut closed = false;
            let write = |chunk: &[u8]| match out.write_all(chunk) {
                // Whoever reads has what he wanted.
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
                    closed = true;
                    Err(Failure::failed("closed"))
                }
                Err(e) => Err(Failure::failed(format!("cannot write to stdout: {e}"))),
                Ok(()) => Ok(()),
            };
            let copied = copy(&mut data, write, broke);
            if closed { Ok(()) } else { copied }
        }
    }
}

/// Copies to the end, telling failures of the two sides apart.
fn copy(
    from: &mut impl Read,
    mut write: impl FnMut(&[u8]) -> Result,
    broke: impl Fn(io::Error) -> Failure,
) -> Result {
    let mut buffer = vec![0; 256 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(got) => write(&buffer[..got])?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(broke(e)),
        }
    }
}
