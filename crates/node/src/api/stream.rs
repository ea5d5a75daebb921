//! Requests that carry data, of any length, in bounded memory.

use super::params::{Params, sector_number};
use super::{ApiError, IDLE_LIMIT, Shared};
use crate::node::blocking;
use crate::preflight::free_bytes;
use crate::{Core, view, wire};
use axum::Json;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_core::Stream;
use sealing::{PipelineError, stage};
use statemachine::Cancel;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Chunks between the connection and the thread that reads or writes files.
const CHUNKS: usize = 8;
/// How many bytes of an input are taken between two looks at the free space.
const ROOM_STEP: usize = 16 << 20;

fn permit(places: &Arc<Semaphore>, what: &str) -> Result<OwnedSemaphorePermit, ApiError> {
    Arc::clone(places).try_acquire_owned().map_err(|_| {
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, format!("too many {what} at a time"))
            .next("try again when one is done")
    })
}

/// A part of an input on its way to the thread that stages it. The end is said: a connection that breaks must not look
/// like the end of the data.
enum Part {
    Data(Bytes),
    Broken(io::Error),
    End,
}

/// Reads what comes through the channel, as long as there is room that is not promised to sectors.
struct Incoming {
    parts: Receiver<Part>,
    rest: Bytes,
    ended: bool,
    /// Bytes until room is looked for again.
    allowed: usize,
    core: Arc<Core>,
}

impl Incoming {
    fn new(parts: Receiver<Part>, core: Arc<Core>) -> Self {
        Self { parts, rest: Bytes::new(), ended: false, allowed: 0, core }
    }

    /// An input that fills the disk would take the room of sectors that are being sealed.
    fn look_for_room(&mut self) -> io::Result<()> {
        let free = free_bytes(&self.core.repo.storage())?;
        let reserved = self.core.pipeline.storage().reserved();
        if free < reserved.saturating_add(2 * ROOM_STEP as u64) {
            let text = format!(
                "only {} of disk are free, of which {} are promised to sectors being sealed",
                view::bytes(free),
                view::bytes(reserved)
            );
            return Err(io::Error::new(io::ErrorKind::StorageFull, text));
        }
        self.allowed = ROOM_STEP;
        Ok(())
    }
}

impl Read for Incoming {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() && !self.ended {
            match self.parts.blocking_recv() {
                Some(Part::Data(bytes)) => self.rest = bytes,
                Some(Part::End) => self.ended = true,
                Some(Part::Broken(e)) => return Err(e),
                None => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the connection ended before the data did",
                    ));
                }
            }
        }
        if self.allowed == 0 && !self.ended {
            self.look_for_room()?;
        }
        let take = self.rest.len().min(out.len()).min(self.allowed);
        self.allowed -= take;
        out[..take].copy_from_slice(&self.rest.split_to(take));
        Ok(take)
    }
}

/// The next chunk of a body; `None` at its end.
async fn next_chunk(body: &mut BodyDataStream) -> Option<Result<Bytes, axum::Error>> {
    std::future::poll_fn(|cx| Pin::new(&mut *body).poll_next(cx)).await
}

/// Takes the body as an input. Once this has answered, nothing depends on the sender any more.
pub(super) async fn add(
    State(node): State<Arc<Shared>>,
    mut params: Params,
    request: Request,
) -> Result<Json<wire::Added>, ApiError> {
    let name = params.text("name").unwrap_or_else(|| "input".to_owned());
    params.done()?;
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(ApiError::bad("the name of an input must not be empty or have control characters"));
    }
    let permit = permit(&node.inputs, "inputs")?;
    let (sender, parts) = channel(CHUNKS);
    let core = Arc::clone(&node.core);
    // A task of its own: when the sender goes away after its data is complete, the input is taken all the same.
    let taking = tokio::spawn(async move {
        let _permit = permit;
        let storage = Arc::clone(core.pipeline.storage());
        let size = core.facts.sector_size;
        let label = name.clone();
        let for_room = Arc::clone(&core);
        let staged = blocking("staging an input", move || {
            let mut incoming = Incoming::new(parts, for_room);
            stage(&storage, &label, &mut incoming, size)
        })
        .await??;
        let placed = core.pipeline.add_parts(staged).await?;
        let pieces: Vec<wire::AddedPiece> = placed
            .iter()
            .map(|p| wire::AddedPiece {
                number: p.number.0,
                offset: view::unpadded_offset(p.offset),
                padded_offset: p.offset,
                unpadded: p.size.bytes(),
                data_bytes: p.payload.bytes,
            })
            .collect();
        let bytes = pieces.iter().map(|p| p.data_bytes).sum();
        Ok::<_, ApiError>(wire::Added { schema: wire::SCHEMA, name, bytes, pieces })
    });
    feed(request.into_body().into_data_stream(), sender).await;
    match taking.await {
        Ok(added) => added.map(Json),
        Err(_) => {
            Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "taking the input ended without an answer"))
        }
    }
}

/// Passes a body on, to its end or until nobody takes it any more.
async fn feed(mut body: BodyDataStream, sender: Sender<Part>) {
    loop {
        let (part, last) = match tokio::time::timeout(IDLE_LIMIT, next_chunk(&mut body)).await {
            Ok(Some(Ok(bytes))) => (Part::Data(bytes), false),
            Ok(Some(Err(e))) => (Part::Broken(io::Error::other(e)), true),
            Ok(None) => (Part::End, true),
            Err(_) => {
                let text = format!("nothing came for {} s", IDLE_LIMIT.as_secs());
                (Part::Broken(io::Error::new(io::ErrorKind::TimedOut, text)), true)
            }
        };
        if last {
            // Whether anybody still takes it is seen by the answer.
            let _ = sender.send(part).await;
            return;
        }
        if sender.send(part).await.is_err() {
            // Refused in the middle. A sender reads the reason only after it has sent what it has.
            let _ = tokio::time::timeout(IDLE_LIMIT, async {
                while let Some(Ok(_)) = next_chunk(&mut body).await {}
            })
            .await;
            return;
        }
    }
}

/// Writes into the channel; an error when the reader is gone.
struct Outgoing(Sender<Result<Bytes, io::Error>>);

impl Write for Outgoing {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        let chunk = &data[..data.len().min(1 << 20)];
        let gone = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the reader is gone");
        self.0.blocking_send(Ok(Bytes::copy_from_slice(chunk))).map_err(gone)?;
        Ok(chunk.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Ends work that is done for somebody who has left.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A body of what was written, the first chunk apart.
struct Chunks {
    first: Option<Bytes>,
    rest: Receiver<Result<Bytes, io::Error>>,
    _watched: CancelOnDrop,
    _permit: OwnedSemaphorePermit,
}

impl Stream for Chunks {
    type Item = Result<Bytes, io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(first))),
            None => self.rest.poll_recv(cx),
        }
    }
}

/// A sector's data, computed back from its replica. Bytes are unpadded ones.
pub(super) async fn data(
    State(node): State<Arc<Shared>>,
    Path(number): Path<String>,
    mut params: Params,
) -> Result<Response, ApiError> {
    let number = sector_number(&number)?;
    let sector = node.core.pipeline.sector(number).await?.ok_or(PipelineError::Unknown(number))?;
    let capacity = sector.record.proof.sector_size().unpadded_bytes();
    let offset = params.number("offset", 0, capacity)?.unwrap_or(0);
    let bytes = params.number("bytes", 0, capacity - offset)?.unwrap_or(capacity - offset);
    params.done()?;
    let permit = permit(&node.outputs, "sectors are unsealed")?;
    let (sender, mut chunks) = channel(CHUNKS);
    let core = Arc::clone(&node.core);
    let failures = sender.clone();
    let cancel = Cancel::new();
    // Making the key takes as long as PC1: it ends when nobody waits for the answer any more.
    let watched = CancelOnDrop(cancel.clone());
    let mut unsealing = tokio::spawn(async move {
        let done = core.pipeline.unseal(number, offset, bytes, Box::new(Outgoing(sender)), cancel).await;
        if let Err(e) = &done {
            tracing::warn!(sector = number.0, "unsealing failed: {e}");
            // Cuts the answer short, so that a part is not taken for the whole.
            let _ = failures.send(Err(io::Error::other(e.to_string()))).await;
        }
        done
    });
    // An error before the first byte is a proper refusal.
    let first = match chunks.recv().await {
        Some(Ok(first)) => Some(first),
        Some(Err(_)) | None => match (&mut unsealing).await {
            Ok(Ok(_)) => None,
            Ok(Err(e)) => return Err(e.into()),
            Err(_) => {
                return Err(ApiError::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "unsealing ended without an answer",
                ));
            }
        },
    };
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, bytes.to_string()),
    ];
    let body = Body::from_stream(Chunks { first, rest: chunks, _watched: watched, _permit: permit });
    Ok((headers, body).into_response())
}
