//! The end of sealing, and the end of a sector.

use super::{Answer, Cx, World, blocking, drive, held};
use crate::event::Event;
use crate::prover::SealJob;
use std::sync::Arc;

/// Drops what proving does not need, after a last look at what stays: with the layers gone it could not be made anew.
/// Only reached with the sector on chain at confidence.
pub(super) async fn finalize(world: Arc<World>, cx: Cx) -> Answer {
    let r = cx.record();
    let sector = r.id();
    let storage = Arc::clone(&world.storage);
    if !r.kept_checked {
        let (comm_d, comm_r) = (held(&r.comm_d, "CommD", r)?, held(&r.comm_r, "CommR", r)?);
        let job = SealJob::of(r, storage.paths(sector))?;
        drive(&cx, |watch| world.prover.check_kept(job, comm_d, comm_r, watch)).await?;
        // On record before the first file goes: the check cannot be made again without them.
        cx.send(Event::KeptChecked).await?;
    }
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
