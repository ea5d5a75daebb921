//! Questions and orders that are answered at once.

use super::params::{Params, sector_number};
use super::{ApiError, PAGE_MAX, PLEDGE_MAX, Shared};
use crate::node::now_ms;
use crate::offline::journal_page;
use crate::{view, wire};
use axum::Json;
use axum::extract::{Path, State};
use primitives::SectorNumber;
use sealing::{PipelineError, State as SectorState};
use std::sync::Arc;

type Answer<T> = Result<Json<T>, ApiError>;
type Node = State<Arc<Shared>>;

/// Sectors in a page when the request does not say.
const PAGE: u64 = 100;

pub(super) async fn status(State(node): Node, params: Params) -> Answer<wire::Status> {
    params.done()?;
    Ok(Json(node.core.status().await?))
}

pub(super) async fn chain_head(State(node): Node, params: Params) -> Answer<wire::ChainHead> {
    params.done()?;
    Ok(Json(node.core.chain_head().await?))
}

pub(super) async fn list(State(node): Node, mut params: Params) -> Answer<wire::SectorList> {
    let states = match params.text("state") {
        None => None,
        Some(names) => Some(states(&names)?),
    };
    let name = params.text("name");
    let after = params.number("after", 0, SectorNumber::MAX.0)?.map(SectorNumber);
    let limit = params.number("limit", 1, PAGE_MAX)?.unwrap_or(PAGE) as usize;
    params.done()?;
    let found = node.core.pipeline.sectors(states.as_deref(), after, limit).await?;
    let now = now_ms();
    let next_after = found.last().filter(|_| found.len() == limit).map(|s| s.record.number.0);
    let asked = found.iter().filter(|s| name.as_deref().is_none_or(|name| view::holds(s, name)));
    let sectors = asked.map(|s| view::row(s, true, now)).collect();
    Ok(Json(wire::SectorList { schema: wire::SCHEMA, sectors, next_after }))
}

/// States by name, several with commas between.
fn states(names: &str) -> Result<Vec<SectorState>, ApiError> {
    let state = |name: &str| {
        let known = Some(name.trim()).filter(|name| !name.is_empty()).and_then(SectorState::from_operator);
        known.ok_or_else(|| {
            let shown: String = name.chars().take(40).collect();
            ApiError::bad(format!("{shown:?} is not a state of a sector")).next(view::state_names())
        })
    };
    names.split(',').map(state).collect()
}

/// The sector of the address, which must exist.
async fn existing(node: &Shared, number: &str) -> Result<SectorNumber, ApiError> {
    let number = sector_number(number)?;
    match node.core.pipeline.sector(number).await? {
        Some(_) => Ok(number),
        None => Err(PipelineError::Unknown(number).into()),
    }
}

pub(super) async fn one(
    State(node): Node,
    Path(number): Path<String>,
    params: Params,
) -> Answer<wire::SectorDetail> {
    params.done()?;
    let number = sector_number(&number)?;
    match node.core.detail(number).await? {
        Some(detail) => Ok(Json(detail)),
        None => Err(PipelineError::Unknown(number).into()),
    }
}

pub(super) async fn journal(
    State(node): Node,
    Path(number): Path<String>,
    mut params: Params,
) -> Answer<wire::Journal> {
    let after = params.number("after", 0, u64::MAX)?.unwrap_or(0);
    let limit = params.number("limit", 1, PAGE_MAX)?.unwrap_or(PAGE) as usize;
    params.done()?;
    let number = existing(&node, &number).await?;
    let lines = node.core.pipeline.journal(number, after, limit).await?;
    Ok(Json(journal_page(number.0, &lines, limit)))
}

fn ordered(number: SectorNumber, state: SectorState) -> Json<wire::Ordered> {
    Json(wire::Ordered { schema: wire::SCHEMA, number: number.0, state: state.to_string() })
}

pub(super) async fn seal(
    State(node): Node,
    Path(number): Path<String>,
    params: Params,
) -> Answer<wire::Ordered> {
    params.done()?;
    let number = existing(&node, &number).await?;
    Ok(ordered(number, node.core.pipeline.seal(number).await?))
}

pub(super) async fn retry(
    State(node): Node,
    Path(number): Path<String>,
    params: Params,
) -> Answer<wire::Ordered> {
    params.done()?;
    let number = existing(&node, &number).await?;
    Ok(ordered(number, node.core.pipeline.retry(number).await?))
}

pub(super) async fn remove(
    State(node): Node,
    Path(number): Path<String>,
    mut params: Params,
) -> Answer<wire::Ordered> {
    let confirmed = params.number("confirm", 0, SectorNumber::MAX.0)?;
    params.done()?;
    let number = existing(&node, &number).await?;
    if let Some(other) = confirmed.filter(|n| *n != number.0) {
        return Err(ApiError::bad(format!(
            "the confirmation names sector {other}, the order sector {number}"
        ))
        .next("name the same sector twice"));
    }
    Ok(ordered(number, node.core.pipeline.remove(number, confirmed.is_some()).await?))
}

pub(super) async fn pledge(State(node): Node, mut params: Params) -> Answer<wire::Pledged> {
    let count = params.number("count", 1, PLEDGE_MAX)?.unwrap_or(1);
    params.done()?;
    let mut numbers = Vec::new();
    let mut stopped = None;
    for _ in 0..count {
        match node.core.pipeline.pledge().await {
            Ok(number) => numbers.push(number.0),
            // Those that were made are told, whatever happened to the rest.
            Err(e) if !numbers.is_empty() => {
                stopped = Some(e.to_string());
                break;
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(Json(wire::Pledged { schema: wire::SCHEMA, numbers, stopped }))
}

pub(super) async fn shutdown(State(node): Node, params: Params) -> Answer<wire::Stopping> {
    params.done()?;
    node.stop.send_replace(true);
    Ok(Json(wire::Stopping { schema: wire::SCHEMA, stopping: true }))
}
