//! The end of sealing, and the end of a sector.

use super::{Answer, Cx, World, blocking};
use crate::event::Event;
use std::sync::Arc;

/// Drops what proving does not need. Only reached with the sector on chain at confidence.
pub(super) async fn finalize(world: Arc<World>, cx: Cx) -> Answer {
    let sector = cx.record().id();
    let storage = Arc::clone(&world.storage);
    world.prover.idle(sector).await;
    blocking("finalize a sector", move || {
        storage.trim(sector)?;
        storage.release(sector);
        Ok(())
    })
    .await?;
    Ok(Event::Finalized)
}

/// Deletes the sector's files.
pub(super) async fn removing(world: Arc<World>, cx: Cx) -> Answer {
    let sector = cx.record().id();
    let storage = Arc::clone(&world.storage);
    world.prover.idle(sector).await;
    blocking("remove a sector", move || storage.remove(sector)).await?;
    Ok(Event::Removed)
}
