//! The answers of a stopped node, read from its store without changing anything.

use crate::node::{history, now_ms, patiently};
use crate::repo::{Repo, RepoError, RepoFacts};
use crate::view;
use crate::wire;
use primitives::SectorNumber;
use sealing::{PipelineError, Sector, State, machine_id};
use statemachine::Reader;
use statestore::{Options, SledStore, Store, StoreError};
use std::future::Future;
use std::sync::Arc;

/// Why the store of a stopped node cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OfflineError {
    /// There is no repo, or it cannot be read.
    #[error(transparent)]
    Repo(#[from] RepoError),
    /// The store cannot be read, or a node starts or stops just now.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record cannot be read.
    #[error(transparent)]
    Read(#[from] PipelineError),
    /// There is no such sector.
    #[error("there is no sector {0}")]
    Unknown(u64),
    /// The runtime that reads did not start.
    #[error("cannot start a thread to read the store: {0}")]
    Runtime(std::io::Error),
}

/// A stopped node's store. Works on a copy, which goes away with this value.
pub struct Offline {
    facts: RepoFacts,
    reader: Reader<Sector>,
    runtime: tokio::runtime::Runtime,
}

impl Offline {
    /// Opens the store of a repo. Blocks.
    ///
    /// # Errors
    /// When there is no repo, or a process owns it.
    pub fn open(repo: &Repo) -> Result<Self, OfflineError> {
        let facts = repo.facts()?;
        let store: Arc<dyn Store> =
            Arc::new(patiently(|| SledStore::inspect(repo.store(), Options::default()))?);
        let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(OfflineError::Runtime)?;
        Ok(Self { facts, reader: Reader::new(store), runtime })
    }

    /// What the repo is for.
    pub fn facts(&self) -> &RepoFacts {
        &self.facts
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// A page of sectors, by number, of all or of some states.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn sectors(
        &self,
        states: Option<&[State]>,
        after: Option<u64>,
        limit: usize,
    ) -> Result<wire::SectorList, OfflineError> {
        let after = after.map(|n| machine_id(SectorNumber(n)));
        let found =
            self.wait(self.reader.list(states, after.as_ref(), limit)).map_err(PipelineError::from)?;
        let now = now_ms();
        let next_after = found.last().filter(|_| found.len() == limit).map(|s| s.record.number.0);
        let sectors = found.iter().map(|s| view::row(s, false, now)).collect();
        Ok(wire::SectorList { schema: wire::SCHEMA, sectors, next_after })
    }

    /// A sector with everything about it.
    ///
    /// # Errors
    /// [`OfflineError::Unknown`], or when the store cannot be read.
    pub fn sector(&self, number: u64) -> Result<wire::SectorDetail, OfflineError> {
        let id = machine_id(SectorNumber(number));
        self.wait(async {
            let sector = self.reader.get(&id).await.map_err(PipelineError::from)?;
            let sector = sector.ok_or(OfflineError::Unknown(number))?;
            let history = history(&self.reader, &id).await?;
            let outbox = self.reader.outbox(&id).await.map_err(PipelineError::from)?;
            Ok(view::detail(&sector, &history, &outbox, None, now_ms()))
        })
    }

    /// A page of a sector's history.
    ///
    /// # Errors
    /// [`OfflineError::Unknown`], or when the store cannot be read.
    pub fn journal(&self, number: u64, after: u64, limit: usize) -> Result<wire::Journal, OfflineError> {
        let id = machine_id(SectorNumber(number));
        self.wait(async {
            if self.reader.get(&id).await.map_err(PipelineError::from)?.is_none() {
                return Err(OfflineError::Unknown(number));
            }
            let lines = self.reader.journal(&id, after, limit).await.map_err(PipelineError::from)?;
            Ok(journal_page(number, &lines, limit))
        })
    }
}

/// A page of history lines.
pub(crate) fn journal_page(number: u64, lines: &[statemachine::JournalLine], limit: usize) -> wire::Journal {
    wire::Journal {
        schema: wire::SCHEMA,
        number,
        next_after: lines.last().filter(|_| lines.len() == limit).map(|l| l.seq),
        lines: lines.iter().map(view::line).collect(),
    }
}
