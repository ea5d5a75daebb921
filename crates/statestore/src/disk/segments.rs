//! The journal's files: appending, and what is found in them at open.

use super::files::{self, Device};
use super::frame;
use super::records::Position;
use crate::{NewEntry, StoreError};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const SUFFIX: &str = ".seg";

/// Where an entry lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Index into [`Index::segments`].
    segment: u32,
    offset: u32,
    bytes: u32,
}

/// Where all entries lie. Only offsets are in memory: 12 bytes an entry and 8 in its stream.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// First sequence numbers, ascending.
    segments: Vec<u64>,
    /// The entry with sequence number `first + i` is at i.
    places: Vec<Place>,
    streams: HashMap<Box<[u8]>, Vec<u64>>,
}

impl Index {
    /// The sequence number of the first entry kept.
    fn first(&self) -> u64 {
        self.segments.first().copied().unwrap_or(1)
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> u64 {
        self.places.len() as u64
    }

    fn push(&mut self, stream: &[u8], place: Place) {
        let seq = self.first() + self.len();
        self.places.push(place);
        match self.streams.get_mut(stream) {
            Some(seqs) => seqs.push(seq),
            None => {
                self.streams.insert(stream.into(), vec![seq]);
            }
        }
    }

    /// Adds what [`Writer::append`] wrote.
    pub(crate) fn publish(&mut self, appended: &Appended, entries: &[NewEntry]) {
        if self.segments.last() != Some(&appended.position.segment) {
            self.segments.push(appended.position.segment);
        }
        let segment = self.segments.len() as u32 - 1;
        for (entry, &(offset, bytes)) in entries.iter().zip(&appended.places) {
            self.push(&entry.stream, Place { segment, offset, bytes });
        }
    }

    /// Takes back what was published behind the given end of the journal.
    pub(crate) fn withdraw_after(&mut self, end: Position) {
        let kept = (end.last_seq + 1).saturating_sub(self.first());
        if kept >= self.len() {
            return;
        }
        self.places.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
        self.streams.retain(|_, seqs| {
            seqs.truncate(seqs.partition_point(|&seq| seq <= end.last_seq));
            !seqs.is_empty()
        });
        self.segments.retain(|&first_seq| first_seq <= end.segment);
    }

    /// The places of at most `limit` entries above `after`, with the file each is in.
    pub(crate) fn find(&self, stream: Option<&[u8]>, after: u64, limit: usize) -> Vec<Found> {
        let found = |seq: u64| {
            let place = self.places[(seq - self.first()) as usize];
            Found {
                seq,
                segment: self.segments[place.segment as usize],
                offset: u64::from(place.offset),
                bytes: place.bytes as usize,
            }
        };
        match stream {
            None => {
                let from = after.saturating_add(1).max(self.first());
                (from..self.first() + self.len()).take(limit).map(found).collect()
            }
            Some(stream) => {
                let seqs = self.streams.get(stream).map_or(&[][..], Vec::as_slice);
                let from = seqs.partition_point(|&seq| seq <= after);
                seqs[from..].iter().take(limit).map(|&seq| found(seq)).collect()
            }
        }
    }
}

/// An entry's place in a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) seq: u64,
    segment: u64,
    offset: u64,
    bytes: usize,
}

/// Reads entries, neighbours with one call.
pub(crate) fn read(dir: &Path, found: &[Found]) -> Result<Vec<crate::Entry>, StoreError> {
    const READ_BYTES: usize = 256 * 1024;
    let mut entries = Vec::with_capacity(found.len());
    let mut open: Option<(u64, PathBuf, File)> = None;
    let mut rest = found;
    while let Some(first) = rest.first() {
        let mut bytes = first.bytes;
        let neighbours = 1 + rest[1..]
            .iter()
            .take_while(|next| {
                let joined = next.segment == first.segment
                    && next.offset == first.offset + bytes as u64
                    && bytes + next.bytes <= READ_BYTES;
                bytes += if joined { next.bytes } else { 0 };
                joined
            })
            .count();
        if open.as_ref().is_none_or(|(segment, ..)| *segment != first.segment) {
            let path = path(dir, first.segment);
            let file = File::open(&path).map_err(|e| StoreError::io("open", &path, &e))?;
            open = Some((first.segment, path, file));
        }
        let Some((_, path, file)) = &open else { break };
        let mut buffer = vec![0; bytes];
        file.read_exact_at(&mut buffer, first.offset).map_err(|e| StoreError::io("read", path, &e))?;
        let mut at = 0;
        for place in &rest[..neighbours] {
            let read = frame::read(&buffer[at..])
                .ok()
                .filter(|f| f.seq == place.seq)
                .ok_or_else(|| damaged(path, place.offset, "the entry is not the one that was written"))?;
            entries.push(crate::Entry {
                seq: read.seq,
                stream: read.stream.to_vec(),
                payload: read.payload.to_vec(),
            });
            at += place.bytes;
        }
        rest = &rest[neighbours..];
    }
    Ok(entries)
}

/// The end of the journal, to which groups are appended.
pub(crate) struct Writer {
    dir: PathBuf,
    segment_bytes: u64,
    position: Position,
    current: Option<(PathBuf, File)>,
}

/// A group on disk that the records do not know of yet.
#[derive(Debug)]
pub(crate) struct Appended {
    pub(crate) position: Position,
    /// Offset and length of each frame.
    places: Vec<(u32, u32)>,
}

impl Writer {
    /// At the given position; whatever lies beyond it is cut off.
    pub(crate) fn at(dir: &Path, segment_bytes: u64, position: Position) -> Result<Self, StoreError> {
        let mut cut = false;
        for first_seq in segments(dir)? {
            if first_seq > position.segment {
                let path = path(dir, first_seq);
                std::fs::remove_file(&path).map_err(|e| StoreError::io("remove", &path, &e))?;
                cut = true;
            }
        }
        if cut {
            files::sync_dir(dir)?;
        }
        let current = if position.segment == 0 {
            None
        } else {
            let path = path(dir, position.segment);
            let file = files::open_rw(&path).map_err(|e| StoreError::io("open", &path, &e))?;
            file.set_len(position.offset).map_err(|e| StoreError::io("cut", &path, &e))?;
            Some((path, file))
        };
        // Segments stay addressable by 32 bits even when the last group makes one overlong.
        Ok(Self { dir: dir.to_owned(), segment_bytes: segment_bytes.clamp(4096, 1 << 30), position, current })
    }

    /// Where the journal ends.
    pub(crate) fn position(&self) -> Position {
        self.position
    }

    /// Writes a group and syncs it. It counts only once [`Writer::advance`] is called; until then the next append
    /// overwrites it. `Fatal` after a failed sync.
    pub(crate) fn append(
        &mut self,
        entries: &[NewEntry],
        device: &dyn Device,
    ) -> Result<Appended, StoreError> {
        let mut position = self.position;
        position.group += 1;
        let mut buffer = Vec::new();
        let mut ends = Vec::with_capacity(entries.len());
        for entry in entries {
            position.last_seq += 1;
            frame::write(&mut buffer, position.last_seq, position.group, &entry.stream, &entry.payload);
            ends.push(buffer.len() as u64);
        }
        let full = position.offset + buffer.len() as u64 > self.segment_bytes;
        if self.current.is_none() || (full && position.offset > frame::HEADER_BYTES as u64) {
            let first_seq = self.position.last_seq + 1;
            self.current = Some(self.new_segment(first_seq, device)?);
            position.segment = first_seq;
            position.offset = frame::HEADER_BYTES as u64;
        }
        let Some((path, file)) = &self.current else {
            return Err(StoreError::fatal("append to", &self.dir, &"no segment is open"));
        };
        device.write_at(file, &buffer, position.offset).map_err(|e| StoreError::io("append to", path, &e))?;
        device.sync(file).map_err(|e| StoreError::fatal("sync", path, &e))?;
        let start = position.offset;
        let mut from = 0;
        let places = ends
            .into_iter()
            .map(|end| {
                let place = ((start + from) as u32, (end - from) as u32);
                from = end;
                place
            })
            .collect();
        position.offset += buffer.len() as u64;
        Ok(Appended { position, places })
    }

    /// The records have the group: the journal now ends behind it.
    pub(crate) fn advance(&mut self, appended: &Appended) {
        self.position = appended.position;
    }

    fn new_segment(&self, first_seq: u64, device: &dyn Device) -> Result<(PathBuf, File), StoreError> {
        let path = path(&self.dir, first_seq);
        let file = files::open_rw(&path).map_err(|e| StoreError::io("create", &path, &e))?;
        file.set_len(0).map_err(|e| StoreError::io("cut", &path, &e))?;
        device
            .write_at(&file, &frame::header(first_seq), 0)
            .map_err(|e| StoreError::io("append to", &path, &e))?;
        device.sync(&file).map_err(|e| StoreError::fatal("sync", &path, &e))?;
        files::sync_dir(&self.dir).map_err(|e| StoreError::fatal("sync", &self.dir, &e))?;
        Ok((path, file))
    }
}

/// What opening found behind the committed position. None of it was acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

/// Reads all segments up to `position`, checks every frame, and looks at what lies behind it without changing it.
pub(crate) fn scan(dir: &Path, position: Position) -> Result<(Index, Tail), StoreError> {
    let mut index = Index::default();
    let mut tail = Tail::default();
    let mut next_seq = None;
    for first_seq in segments(dir)? {
        let path = path(dir, first_seq);
        let bytes = std::fs::read(&path).map_err(|e| StoreError::io("read", &path, &e))?;
        if first_seq > position.segment {
            scan_tail(&path, bytes.get(frame::HEADER_BYTES..).unwrap_or(&[]), position, &mut tail)?;
            continue;
        }
        frame::check_header(&bytes, first_seq).map_err(|e| damaged(&path, 0, &e))?;
        let next_seq = next_seq.get_or_insert(first_seq);
        if first_seq != *next_seq {
            return Err(damaged(
                &path,
                0,
                &format!("entries {next_seq} to {} are missing before it", first_seq - 1),
            ));
        }
        index.segments.push(first_seq);
        let end = if first_seq == position.segment { position.offset } else { bytes.len() as u64 };
        let Some(body) = usize::try_from(end).ok().and_then(|end| bytes.get(..end)) else {
            return Err(damaged(&path, bytes.len() as u64, &format!("it should have at least {end} bytes")));
        };
        let mut at = frame::HEADER_BYTES;
        while at < body.len() {
            let read = frame::read(&body[at..]).map_err(|e| damaged(&path, at as u64, &e))?;
            if read.seq != *next_seq {
                let what = format!("found entry {}, expected {next_seq}", read.seq);
                return Err(damaged(&path, at as u64, &what));
            }
            let place = Place {
                segment: index.segments.len() as u32 - 1,
                offset: at as u32,
                bytes: read.bytes as u32,
            };
            index.push(read.stream, place);
            *next_seq += 1;
            at += read.bytes;
        }
        scan_tail(&path, &bytes[body.len()..], position, &mut tail)?;
    }
    let last = next_seq.map_or(0, |next| next - 1);
    if last != position.last_seq || index.segments.last().copied().unwrap_or(0) != position.segment {
        let what = format!("the journal ends with entry {last}, the records expect {}", position.last_seq);
        return Err(damaged(dir, 0, &what));
    }
    Ok((index, tail))
}

/// Behind the position there can be one unfinished group. Anything later means that the records went back in time.
fn scan_tail(path: &Path, mut bytes: &[u8], position: Position, tail: &mut Tail) -> Result<(), StoreError> {
    tail.bytes += bytes.len() as u64;
    while let Ok(read) = frame::read(bytes) {
        if read.group > position.group + 1 {
            let what = format!(
                "the records know the journal up to entry {} (group {}), but entry {} (group {}) was acknowledged",
                position.last_seq, position.group, read.seq, read.group
            );
            return Err(damaged(path, 0, &what));
        }
        // Remains of an older group that was cut and overwritten are no entries.
        tail.entries += u64::from(read.group == position.group + 1);
        bytes = &bytes[read.bytes..];
    }
    Ok(())
}

/// The first sequence numbers of the segments in a folder, ascending.
pub(crate) fn segments(dir: &Path) -> Result<Vec<u64>, StoreError> {
    // Fixed width, so the order of names is that of numbers.
    Ok(files::names(dir)?.iter().filter_map(|name| name.strip_suffix(SUFFIX)?.parse().ok()).collect())
}

fn path(dir: &Path, first_seq: u64) -> PathBuf {
    dir.join(format!("{first_seq:020}{SUFFIX}"))
}

fn damaged(path: &Path, offset: u64, what: &str) -> StoreError {
    StoreError::Damaged {
        what: format!("{what} ({}, byte {offset})", path.display()),
        way_out: super::WAY_OUT.to_owned(),
    }
}
