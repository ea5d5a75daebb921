//! The HTTP API: what it serves, and to whom.
//!
//! | request | does |
//! |---|---|
//! | `GET /api/v1/status` | what the node is and how it is |
//! | `GET /api/v1/chain/head` | the chain's head |
//! | `GET /api/v1/sectors?state=&after=&limit=` | a page of sectors |
//! | `POST /api/v1/sectors?name=` | takes the body as an input and places it in sectors |
//! | `POST /api/v1/pledge?count=` | makes committed-capacity sectors |
//! | `GET /api/v1/sectors/N` | everything about a sector |
//! | `GET /api/v1/sectors/N/journal?after=&limit=` | a page of its history |
//! | `GET /api/v1/sectors/N/data?offset=&bytes=` | its data, computed back from the replica |
//! | `POST /api/v1/sectors/N/seal`, `/remove?confirm=N`, `/retry` | orders |
//! | `POST /api/v1/shutdown` | stops the node in order |
//!
//! Every request needs the token and the right `Host` (a page in a browser that was led here by a name of its own has
//! neither). `GET /api/v1/sectors?name=` lists the sectors that hold a part of an input of that name. Answers are JSON, errors too; a request without a body of data is answered or refused within
//! [`TIME_LIMIT`].

use crate::Core;
use axum::Router;
use axum::middleware;
use axum::routing::{get, post};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};

mod error;
mod guard;
mod params;
mod sectors;
mod stream;

pub use error::ApiError;
pub use guard::Access;

/// The longest a request without a stream of data may take.
pub const TIME_LIMIT: Duration = Duration::from_secs(30);
/// The longest pause in an input's data.
pub const IDLE_LIMIT: Duration = Duration::from_secs(60);
/// The most sectors or lines in a page.
pub const PAGE_MAX: u64 = 1000;
/// The most sectors that one request pledges.
pub const PLEDGE_MAX: u64 = 256;
/// How many inputs are taken at a time.
const INPUTS_MAX: usize = 8;
/// How many sectors are unsealed at a time.
const OUTPUTS_MAX: usize = 2;

/// What the handlers share.
pub(crate) struct Shared {
    pub(crate) core: Arc<Core>,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) inputs: Arc<Semaphore>,
    pub(crate) outputs: Arc<Semaphore>,
}

/// The routes over a node's core. `stop` is set when a client asks the node to stop.
pub fn router(core: Arc<Core>, access: Access, stop: watch::Sender<bool>) -> Router {
    let shared = Arc::new(Shared {
        core,
        stop,
        inputs: Arc::new(Semaphore::new(INPUTS_MAX)),
        outputs: Arc::new(Semaphore::new(OUTPUTS_MAX)),
    });
    let quick = Router::new()
        .route("/api/v1/status", get(sectors::status))
        .route("/api/v1/chain/head", get(sectors::chain_head))
        .route("/api/v1/sectors", get(sectors::list))
        .route("/api/v1/sectors/{number}", get(sectors::one))
        .route("/api/v1/sectors/{number}/journal", get(sectors::journal))
        .route("/api/v1/sectors/{number}/seal", post(sectors::seal))
        .route("/api/v1/sectors/{number}/remove", post(sectors::remove))
        .route("/api/v1/sectors/{number}/retry", post(sectors::retry))
        .route("/api/v1/pledge", post(sectors::pledge))
        .route("/api/v1/shutdown", post(sectors::shutdown))
        .layer(middleware::from_fn(guard::time_limit));
    let slow = Router::new()
        .route("/api/v1/sectors", post(stream::add))
        .route("/api/v1/sectors/{number}/data", get(stream::data));
    quick
        .merge(slow)
        .fallback(guard::not_found)
        .method_not_allowed_fallback(guard::wrong_method)
        .with_state(shared)
        .layer(middleware::from_fn_with_state(Arc::new(access), guard::admit))
}

#[cfg(test)]
mod tests;
