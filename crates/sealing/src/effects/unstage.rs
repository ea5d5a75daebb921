//! Deletes a staged piece once its sector holds it.

use super::payload;
use crate::intent::UnstageIntent;
use crate::{Event, Sector, SectorStorage};
use async_trait::async_trait;
use statemachine::{Class, EffectHandler, Failure, Intent, Outcome, Prepared};
use std::sync::Arc;

pub(crate) struct UnstageHandler {
    pub(crate) storage: Arc<dyn SectorStorage>,
}

#[async_trait]
impl EffectHandler<Sector> for UnstageHandler {
    async fn prepare(&self, _: &Intent, _: &[Prepared]) -> Result<Vec<u8>, Failure> {
        Ok(Vec::new())
    }

    async fn send(&self, intent: &Intent, _: &[u8]) -> Result<(), Failure> {
        let row: UnstageIntent = payload(intent)?;
        self.storage.unstage(&row.staged).map_err(|e| Failure::from_error(Class::Transient, &e))
    }

    async fn poll(&self, _: &Intent, _: &[u8]) -> Result<Outcome<Event>, Failure> {
        Ok(Outcome::Done)
    }
}
