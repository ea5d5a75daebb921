//! `sealrig sectors unseal`: data back from a replica.

use super::super::service;
use super::print_json;
use crate::exit::{Failure, Result};
use crate::output;
use clap::Args;
use node::client::Client;
use node::{view, wire};
use serde::Serialize;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read, Write};
use std::path::{Path, PathBuf};

/// What to unseal.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sealrig sectors unseal 3 --name photos.tar --out photos.tar
  sealrig sectors unseal 3 --piece 0 --out piece.bin
  sealrig sectors unseal 3 --offset 0 --bytes 1000 | sha256sum

The key is made again, which takes as long as PC1. The data is checked against the sector's
CommD before the first byte is written. `sector-status N` shows the pieces with their numbers
and where they begin. Without --name, --piece or --bytes all of the sector comes, zeros and
fillers included.")]
pub(crate) struct Unseal {
    /// The sector's number
    #[arg(value_name = "SECTOR")]
    number: u64,
    /// Where to begin, in bytes of the sector's data
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with_all = ["piece", "name"])]
    offset: u64,
    /// How many bytes [default: to the end of the sector]
    #[arg(long, value_name = "N", conflicts_with_all = ["piece", "name"])]
    bytes: Option<u64>,
    /// The data of one piece, as `sector-status` numbers them
    #[arg(long, value_name = "K", conflicts_with = "name")]
    piece: Option<usize>,
    /// All that the sector holds of an input of this name
    #[arg(long)]
    name: Option<String>,
    /// Where to write, - for stdout [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A range of the sector's data; `None` as its length: to the end.
type Range = (u64, Option<u64>);

#[derive(Serialize)]
struct Report {
    number: u64,
    bytes: u64,
    out: PathBuf,
}

pub(super) fn run(client: &Client, args: &Unseal, json: bool) -> Result {
    let file = args.out.as_deref().filter(|path| *path != Path::new("-"));
    if json && file.is_none() {
        return Err(Failure::usage("--json and the data both want stdout")
            .next("write the data to a file with --out FILE"));
    }
    if args.out.is_none() && io::stdout().is_terminal() {
        return Err(Failure::usage("the data of a sector is not written to a terminal")
            .next("write it to a file with --out FILE, or say --out - if you mean it"));
    }
    let ranges = ranges(client, args, json)?;
    // Before anything is written: a refusal must not leave an empty file behind.
    let Some((first, rest)) = ranges.split_first() else { return Ok(()) };
    let opened = open(client, args.number, *first)?;
    let Some(path) = file else {
        return to_stdout(client, args.number, opened, rest);
    };
    let failed = |e: io::Error| Failure::failed(format!("cannot write {}: {e}", path.display()));
    let mut out = File::create(path).map_err(failed)?;
    let mut bytes = 0;
    let mut write = |chunk: &[u8]| {
        bytes += chunk.len() as u64;
        out.write_all(chunk).map_err(failed)
    };
    all(client, args.number, opened, rest, &mut write)?;
    out.sync_all().map_err(failed)?;
    if json {
        return print_json(&Report { number: args.number, bytes, out: path.to_owned() });
    }
    let text = format!("{} of sector {} are in {}.\n", view::bytes(bytes), args.number, path.display());
    output::text(&text)
}

fn open(client: &Client, number: u64, (offset, bytes): Range) -> Result<Box<dyn Read>> {
    let data = client.data(number, offset, bytes).map_err(service::of_client)?;
    Ok(Box::new(data))
}

/// The ranges that were asked for, in the order in which they are written.
fn ranges(client: &Client, args: &Unseal, quiet: bool) -> Result<Vec<Range>> {
    if args.piece.is_none() && args.name.is_none() {
        return Ok(vec![(args.offset, args.bytes)]);
    }
    let sector = client.sector(args.number).map_err(service::of_client)?;
    if let Some(piece) = args.piece {
        return of_piece(&sector, piece).map(|range| vec![range]);
    }
    let Some(name) = args.name.as_deref() else { return Ok(Vec::new()) };
    let others = elsewhere(client, args.number, name)?;
    let parts = parts_of(&sector, name);
    if parts.is_empty() {
        let failure = Failure::usage(format!("sector {} holds nothing of {name:?}", args.number));
        return Err(match others.first() {
            Some(other) => failure.next(format!("take it from sector {}", other.0)),
            None => failure.next(format!("`sector-status {}` shows what it holds", args.number)),
        });
    }
    if parts.windows(2).any(|pair| ends(&pair[0]) > pair[1].0) {
        return Err(Failure::usage(format!("sector {} holds several inputs called {name:?}", args.number))
            .next(format!("choose a piece with --piece K; `sector-status {}` shows them", args.number)));
    }
    if !others.is_empty() {
        let mut whole: Vec<(u64, u64, u64)> = parts.iter().map(|p| (p.0, p.2, args.number)).collect();
        for (number, parts) in &others {
            whole.extend(parts.iter().map(|p| (p.0, p.2, *number)));
        }
        whole.sort_unstable();
        let listed: Vec<String> = whole
            .iter()
            .map(|(from, bytes, number)| format!("bytes {from} to {} in sector {number}", from + bytes - 1))
            .collect();
        output::note(
            quiet,
            &format!(
                "{name:?} lies in several sectors: {}; this is what sector {} has",
                listed.join(", "),
                args.number
            ),
        );
    }
    Ok(parts.into_iter().map(|(_, offset, bytes)| (offset, Some(bytes))).collect())
}

/// A part of an input: where in the input it begins, where in the sector's data, how many bytes it has.
type Part = (u64, u64, u64);

fn ends(part: &Part) -> u64 {
    part.0 + part.2
}

/// What a sector holds of an input, in the input's order.
fn parts_of(sector: &wire::SectorDetail, name: &str) -> Vec<Part> {
    let named = sector.pieces.iter().filter(|p| p.name.as_deref() == Some(name) && p.data_bytes > 0);
    let mut parts: Vec<Part> = named.map(|p| (p.input_offset.unwrap_or(0), p.offset, p.data_bytes)).collect();
    parts.sort_unstable();
    parts
}

/// What other sectors hold of an input; those that are removed hold nothing.
fn elsewhere(client: &Client, number: u64, name: &str) -> Result<Vec<(u64, Vec<Part>)>> {
    let mut found = Vec::new();
    for other in client.sectors_of(name).map_err(service::of_client)? {
        if other == number {
            continue;
        }
        let sector = client.sector(other).map_err(service::of_client)?;
        if !sector.state.starts_with("Remov") {
            found.push((other, parts_of(&sector, name)));
        }
    }
    Ok(found)
}

fn of_piece(sector: &wire::SectorDetail, piece: usize) -> Result<Range> {
    let look = format!("`sector-status {}` shows the pieces with their numbers", sector.number);
    match sector.pieces.get(piece) {
        Some(p) if p.name.is_some() => Ok((p.offset, Some(p.data_bytes))),
        Some(_) => Err(Failure::usage(format!(
            "piece {piece} of sector {} is a filler and holds no data",
            sector.number
        ))
        .next(look)),
        None => Err(Failure::usage(format!("sector {} has no piece {piece}", sector.number)).next(look)),
    }
}

/// Writes the ranges one after the other; the first is open already.
fn all(
    client: &Client,
    number: u64,
    mut opened: Box<dyn Read>,
    rest: &[Range],
    write: &mut dyn FnMut(&[u8]) -> Result,
) -> Result {
    let broke = |e: io::Error| {
        Failure::failed(format!("reading the data of sector {number} broke off: {e}"))
            .next("look at the node's log, then run the same command again")
    };
    copy(&mut opened, write, broke)?;
    for range in rest {
        copy(&mut open(client, number, *range)?, write, broke)?;
    }
    Ok(())
}

fn to_stdout(client: &Client, number: u64, opened: Box<dyn Read>, rest: &[Range]) -> Result {
    let mut out = io::stdout().lock();
    let mut closed = false;
    let mut write = |chunk: &[u8]| match out.write_all(chunk) {
        // Whoever reads has what he wanted.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
            closed = true;
            Err(Failure::failed("closed"))
        }
        Err(e) => Err(Failure::failed(format!("cannot write to stdout: {e}"))),
        Ok(()) => Ok(()),
    };
    let copied = all(client, number, opened, rest, &mut write);
    if closed { Ok(()) } else { copied }
}

/// Copies to the end, telling failures of the two sides apart.
fn copy(
    from: &mut dyn Read,
    write: &mut dyn FnMut(&[u8]) -> Result,
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
