//! Where the answers come from: the running node, or the store of a stopped one.

use crate::args::{Args, FAILED, UNKNOWN, USAGE};
use node::client::{Client, ClientError};
use node::repo::Repo;
use node::{Offline, OfflineError, State, wire};
use std::io::Write as _;

/// Rows or lines asked for at a time.
const PAGE: usize = 1000;

/// Where the answers come from.
pub(crate) enum Source {
    /// The running node.
    Node(Client),
    /// The store of a stopped one.
    Store(Box<Offline>),
}

/// The exit code of an error.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    let unknown = match (error.downcast_ref::<ClientError>(), error.downcast_ref::<OfflineError>()) {
        (Some(e), _) => e.is_unknown(),
        (_, Some(e)) => matches!(e, OfflineError::Unknown(_)),
        _ => false,
    };
    match error.downcast_ref::<ClientError>() {
        _ if unknown => UNKNOWN,
        Some(ClientError::Refused { class, .. }) if class == wire::refusal::USAGE => USAGE,
        _ => FAILED,
    }
}

/// What a person could do about an error; said apart from what went wrong.
pub(crate) fn next_step(error: &anyhow::Error) -> Option<String> {
    match (error.downcast_ref::<ClientError>(), error.downcast_ref::<OfflineError>()) {
        (Some(e), _) => e.next_step(),
        (_, Some(OfflineError::Unknown(_))) => Some("`sector-status` lists the sectors".to_owned()),
        _ => None,
    }
}

impl Source {
    /// Finds the node, or opens the store and says so on stderr.
    pub(crate) fn open(args: &Args) -> anyhow::Result<Self> {
        let repo = Repo::at(args.repo()?);
        let asked = Client::open(&repo).and_then(|client| client.chain_head().map(|_| client));
        let not_asked = match asked {
            Ok(client) => return Ok(Self::Node(client)),
            Err(e) if e.may_be_stopped() => e,
            Err(e) => return Err(e.into()),
        };
        match Offline::open(&repo) {
            Ok(offline) => {
                // If stderr is gone there is nobody left to tell.
                let _ = writeln!(
                    std::io::stderr(),
                    "note: no node runs on {}; this is what its store holds",
                    repo.root().display()
                );
                Ok(Self::Store(Box::new(offline)))
            }
            // A process owns the store: it starts or stops just now, or it is what did not answer.
            Err(OfflineError::Store(locked)) if matches!(not_asked, ClientError::NotRunning { .. }) => {
                Err(anyhow::Error::new(OfflineError::Store(locked)))
            }
            Err(OfflineError::Store(locked)) => Err(anyhow::Error::new(not_asked).context(locked)),
            Err(e) => Err(e.into()),
        }
    }

    /// Whether no node works on the sectors.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self, Self::Store(_))
    }

    /// Every sector, of all or of some states.
    pub(crate) fn sectors(&self, states: &[State]) -> anyhow::Result<Vec<wire::SectorRow>> {
        let names: Vec<String> = states.iter().map(ToString::to_string).collect();
        let names = (!names.is_empty()).then(|| names.join(","));
        let states = (!states.is_empty()).then_some(states);
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let page = match self {
                Self::Node(client) => client.sectors(names.as_deref(), after, PAGE)?,
                Self::Store(offline) => offline.sectors(states, after, PAGE)?,
            };
            all.extend(page.sectors);
            after = page.next_after;
            if after.is_none() {
                return Ok(all);
            }
        }
    }

    /// Everything about a sector.
    pub(crate) fn sector(&self, number: u64) -> anyhow::Result<wire::SectorDetail> {
        Ok(match self {
            Self::Node(client) => client.sector(number)?,
            Self::Store(offline) => offline.sector(number)?,
        })
    }

    /// Its whole history.
    pub(crate) fn log(&self, number: u64) -> anyhow::Result<Vec<wire::Line>> {
        let mut all = Vec::new();
        let mut after = 0;
        loop {
            let page = match self {
                Self::Node(client) => client.journal(number, after, PAGE)?,
                Self::Store(offline) => offline.journal(number, after, PAGE)?,
            };
            all.extend(page.lines);
            match page.next_after {
                Some(next) => after = next,
                None => return Ok(all),
            }
        }
    }
}
