//! Numbers and words in addresses, with refusals that say what would be right.

use super::ApiError;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use primitives::SectorNumber;
use std::collections::BTreeMap;

/// The query of a request. Every key must be taken before [`Params::done`].
#[derive(Debug, Default)]
pub(super) struct Params(BTreeMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let pairs: Query<Vec<(String, String)>> = Query::try_from_uri(&parts.uri)
            .map_err(|e| ApiError::bad(format!("the query cannot be read: {e}")))?;
        let mut map = BTreeMap::new();
        for (key, value) in pairs.0 {
            if map.insert(key.clone(), value).is_some() {
                return Err(ApiError::bad(format!("{key} is given twice")));
            }
        }
        Ok(Self(map))
    }
}

impl Params {
    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        self.0.remove(key)
    }

    /// A whole number between two limits.
    pub(super) fn number(&mut self, key: &str, least: u64, most: u64) -> Result<Option<u64>, ApiError> {
        let Some(text) = self.0.remove(key) else { return Ok(None) };
        match plain_number(&text) {
            Some(n) if (least..=most).contains(&n) => Ok(Some(n)),
            _ => {
                let shown: String = text.chars().take(40).collect();
                Err(ApiError::bad(format!(
                    "{key} is {shown:?}, expected a whole number from {least} to {most}"
                )))
            }
        }
    }

    /// Refuses what nobody took: a misspelled key must not be taken for its default.
    pub(super) fn done(self) -> Result<(), ApiError> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(key) => {
                let shown: String = key.chars().take(40).collect();
                Err(ApiError::bad(format!("{shown:?} is not a parameter of this request")))
            }
        }
    }
}

/// Digits only: no sign, no blank.
fn plain_number(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// The sector of an address.
pub(super) fn sector_number(text: &str) -> Result<SectorNumber, ApiError> {
    match plain_number(text) {
        Some(n) if n <= SectorNumber::MAX.0 => Ok(SectorNumber(n)),
        _ => {
            let shown: String = text.chars().take(40).collect();
            Err(ApiError::bad(format!("{shown:?} is not a sector number"))
                .next("`sector-status` lists the sectors"))
        }
    }
}
