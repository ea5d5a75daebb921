//! Refusals as HTTP answers.

use crate::NodeError;
use crate::wire::{ErrorBody, SCHEMA, refusal};
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use sealing::prover::ProverError;
use sealing::{PipelineError, StagingError, StorageError};
use statemachine::{Class, CreateError, SendError};

/// A request that is not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status.
    pub status: StatusCode,
    /// One of [`refusal`].
    pub class: &'static str,
    /// What went wrong, as a sentence.
    pub error: String,
    /// What to do next.
    pub next: Option<String>,
}

impl ApiError {
    #[allow(
        clippy::needless_pass_by_value,
        reason = "callers have literals, strings and references to errors"
    )]
    pub(crate) fn new(status: StatusCode, error: impl ToString) -> Self {
        let class = match status {
            StatusCode::BAD_REQUEST => refusal::USAGE,
            StatusCode::CONFLICT => refusal::REFUSED,
            _ => refusal::FAILED,
        };
        Self { status, class, error: error.to_string(), next: None }
    }

    fn unknown(error: impl ToString) -> Self {
        let answer = Self::new(StatusCode::NOT_FOUND, error).next("`sector-status` lists the sectors");
        Self { class: refusal::UNKNOWN, ..answer }
    }

    pub(crate) fn bad(error: impl ToString) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body =
            ErrorBody { schema: SCHEMA, class: self.class.to_owned(), error: self.error, next: self.next };
        (self.status, Json(body)).into_response()
    }
}

const NO_ROOM: &str =
    "free space on that file system, remove sectors, or wait until running ones are finalized";

fn of_storage(e: &StorageError) -> ApiError {
    if e.is_capacity() {
        ApiError::new(StatusCode::INSUFFICIENT_STORAGE, e).next(NO_ROOM)
    } else {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, e).next("mend the file system, then try again")
    }
}

fn of_send(e: &SendError) -> ApiError {
    match e {
        SendError::Unknown(_) => ApiError::unknown(e),
        SendError::Rejected { .. } => ApiError::new(StatusCode::CONFLICT, e),
        SendError::InboxFull { .. } => {
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, e).next("try again in a minute")
        }
        SendError::Stopping(_) | SendError::Gone(_) => stopping(),
        SendError::Store { .. } => unavailable(e),
        _ => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, e),
    }
}

/// A sector's data that could not be computed back.
fn of_unseal(e: &ProverError) -> ApiError {
    let answer = ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, &e.message);
    match e.class {
        Class::CorruptInput | Class::InvalidOutput => {
            ApiError { class: refusal::DAMAGED, ..answer }.next(
                "bring the sector's files back from a copy if there is one; else seal the data anew with `sealrig sectors add`",
            )
        }
        Class::Capacity => answer.next(NO_ROOM),
        Class::Cancelled => stopping(),
        _ => answer.next("look at the node's log, then try again"),
    }
}

fn stopping() -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the node is stopping")
        .next("start it again with `sealrig run`")
}

fn unavailable(e: impl ToString) -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, e)
        .next("look at the node's log; what was accepted before is not lost")
}

impl From<PipelineError> for ApiError {
    fn from(e: PipelineError) -> Self {
        match &e {
            PipelineError::Unknown(_) => Self::unknown(&e),
            PipelineError::Refused { number, .. } | PipelineError::NothingToRetry { number, .. } => {
                Self::new(StatusCode::CONFLICT, &e)
                    .next(format!("`sector-status {number}` says where it is and why"))
            }
            PipelineError::NotSealed { number, state, .. } if state.starts_with("Remov") => {
                Self::new(StatusCode::CONFLICT, &e)
                    .next(format!("`sector-status {number} --log` says what happened to it"))
            }
            PipelineError::NotSealed { number, .. } => Self::new(StatusCode::CONFLICT, &e)
                .next(format!("wait until it is sealed; `sector-status {number}` says how far it is")),
            PipelineError::Unconfirmed { number, .. } => Self::new(StatusCode::CONFLICT, &e).next(format!(
                "to remove it all the same: `sealrig sectors remove {number} --confirm {number}`"
            )),
            PipelineError::Unseal(inner) => of_unseal(inner),
            // What is placed is in the sentence; what to do about the rest is in its cause.
            PipelineError::Partly { .. } => {
                let text = e.to_string();
                let PipelineError::Partly { cause, .. } = e else {
                    return Self::new(StatusCode::INTERNAL_SERVER_ERROR, text);
                };
                Self { error: text, ..(*cause).into() }
            }
            PipelineError::Storage(inner) => of_storage(inner),
            PipelineError::Send(inner) => of_send(inner),
            PipelineError::Create(CreateError::Stopping(_)) => stopping(),
            PipelineError::Create(CreateError::Store { .. })
            | PipelineError::Read(_)
            | PipelineError::Chain { .. } => unavailable(&e),
            // The engine could not create or open, a part of an input has no place, and what is still to come.
            _ => Self::new(StatusCode::INTERNAL_SERVER_ERROR, &e),
        }
    }
}

impl From<StagingError> for ApiError {
    fn from(e: StagingError) -> Self {
        match &e {
            StagingError::Empty { .. } => Self::bad(&e),
            StagingError::Read { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, &e).next(NO_ROOM)
            }
            StagingError::Read { .. } => Self::bad(&e).next("send it again; nothing of it was kept"),
            StagingError::Storage(inner) => of_storage(inner),
        }
    }
}

impl From<NodeError> for ApiError {
    fn from(e: NodeError) -> Self {
        match e {
            NodeError::Pipeline(e) => e.into(),
            NodeError::Staging(e) => e.into(),
            NodeError::Storage(e) => of_storage(&e),
            e => unavailable(&e),
        }
    }
}
