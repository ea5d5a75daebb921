//! The API from the other side: what the commands use to talk to a running node. Blocking.

use crate::repo::{Repo, RepoError};
use crate::wire;
use serde::de::DeserializeOwned;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;
use ureq::{Agent, Body, SendBody};

/// Longer than the node's own limit, so that its refusal arrives.
const QUICK: Duration = Duration::from_secs(45);
const CONNECT: Duration = Duration::from_secs(5);
/// No answer in JSON is as long as this.
const JSON_BYTES_MAX: u64 = 64 << 20;

/// Why a node did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The repo cannot be read.
    #[error(transparent)]
    Repo(#[from] RepoError),
    /// No node runs on the repo.
    #[error("no node runs on {}", path.display())]
    NotRunning {
        /// The repo's folder.
        path: PathBuf,
    },
    /// The node answered with a refusal.
    #[error("{error}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What kind of refusal it is: one of [`wire::refusal`].
        class: String,
        /// What went wrong.
        error: String,
        /// What to do next; not part of the text of this error.
        next: Option<String>,
    },
    /// Something at the node's address answers, but not as a node.
    #[error(
        "what answers at {url} is not the node of this repo: {reason}; if no node runs, start one with `sealrig run`"
    )]
    Strange {
        /// The address.
        url: String,
        /// What it answered.
        reason: String,
    },
    /// The connection failed.
    #[error("cannot {doing} at {url}: {reason}")]
    Transport {
        /// What was being done.
        doing: &'static str,
        /// The address.
        url: String,
        /// What happened.
        reason: String,
    },
}

impl ClientError {
    /// What a person could do about it.
    pub fn next_step(&self) -> Option<String> {
        match self {
            ClientError::NotRunning { path } => {
                Some(format!("start it with `sealrig run --repo {}`", path.display()))
            }
            ClientError::Refused { next, .. } => next.clone(),
            _ => None,
        }
    }

    /// Whether it may be that no node runs, whatever is left of its announcement.
    pub fn may_be_stopped(&self) -> bool {
        match self {
            ClientError::NotRunning { .. } | ClientError::Strange { .. } | ClientError::Transport { .. } => {
                true
            }
            ClientError::Refused { status, .. } => *status == 401 || *status == 403,
            ClientError::Repo(_) => false,
        }
    }

    /// Whether the node says that there is no such thing.
    pub fn is_unknown(&self) -> bool {
        matches!(self, ClientError::Refused { class, .. } if class == wire::refusal::UNKNOWN)
    }
}

/// A client of the node that runs on a repo.
#[derive(Debug, Clone)]
pub struct Client {
    repo: PathBuf,
    url: String,
    authorization: String,
    quick: Agent,
    slow: Agent,
}

type Result<T> = std::result::Result<T, ClientError>;

fn agent(limit: Option<Duration>) -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        // A node on this computer is not behind a proxy, and a token must not follow anybody elsewhere.
        .proxy(None)
        .max_redirects(0)
        .timeout_connect(Some(CONNECT))
        .timeout_global(limit)
        .build()
        .into()
}

impl Client {
    /// The node that announced itself in the repo.
    ///
    /// # Errors
    /// [`ClientError::NotRunning`] when none did, [`ClientError::Repo`] when there is no repo.
    pub fn open(repo: &Repo) -> Result<Self> {
        let Some((url, token)) = repo.announced()? else {
            repo.facts()?;
            return Err(ClientError::NotRunning { path: repo.root().to_owned() });
        };
        Ok(Self {
            repo: repo.root().to_owned(),
            url,
            authorization: format!("Bearer {token}"),
            quick: agent(Some(QUICK)),
            slow: agent(None),
        })
    }

    /// The node's address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What the node is and how it is.
    ///
    /// # Errors
    /// As for every request: the node does not run, refuses, or the connection fails.
    pub fn status(&self) -> Result<wire::Status> {
        self.get("ask for the status", "/api/v1/status", &[])
    }

    /// The chain's head.
    ///
    /// # Errors
    /// As for every request.
    pub fn chain_head(&self) -> Result<wire::ChainHead> {
        self.get("ask for the chain's head", "/api/v1/chain/head", &[])
    }

    /// The sectors that hold, or will hold, a part of an input, by number.
    ///
    /// # Errors
    /// As for every request.
    pub fn sectors_of(&self, input: &str) -> Result<Vec<u64>> {
        const PAGE: &str = "1000";
        let mut numbers = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let query = [("name", Some(input)), ("after", after.as_deref()), ("limit", Some(PAGE))];
            let page: wire::SectorList = self.get("list sectors", "/api/v1/sectors", &query)?;
            numbers.extend(page.sectors.iter().map(|s| s.number));
            match page.next_after {
                Some(next) => after = Some(next.to_string()),
                None => return Ok(numbers),
            }
        }
    }

    /// A page of sectors after a number, of all or of some states (several with commas between).
    ///
    /// # Errors
    /// As for every request.
    pub fn sectors(
        &self,
        states: Option<&str>,
        after: Option<u64>,
        limit: usize,
    ) -> Result<wire::SectorList> {
        let after = after.map(|n| n.to_string());
        let limit = limit.to_string();
        let query = [("state", states), ("after", after.as_deref()), ("limit", Some(limit.as_str()))];
        self.get("list sectors", "/api/v1/sectors", &query)
    }

    /// Everything about a sector.
    ///
    /// # Errors
    /// As for every request.
    pub fn sector(&self, number: u64) -> Result<wire::SectorDetail> {
        self.get("ask for a sector", &format!("/api/v1/sectors/{number}"), &[])
    }

    /// A page of a sector's history after a place in it.
    ///
    /// # Errors
    /// As for every request.
    pub fn journal(&self, number: u64, after: u64, limit: usize) -> Result<wire::Journal> {
        let (after, limit) = (after.to_string(), limit.to_string());
        let query = [("after", Some(after.as_str())), ("limit", Some(limit.as_str()))];
        self.get("ask for a sector's history", &format!("/api/v1/sectors/{number}/journal"), &query)
    }

    /// Sends an input of any length. When this returns, the node has it on disk.
    ///
    /// # Errors
    /// As for every request.
    pub fn add(&self, name: &str, input: &mut dyn Read) -> Result<wire::Added> {
        let doing = "send an input";
        let mut request = self.slow.post(format!("{}/api/v1/sectors", self.url));
        request = request.query("name", name).header("Authorization", &self.authorization);
        let sent = request.send(SendBody::from_reader(input));
        read_json(self.answered(doing, sent)?, doing, &self.url)
    }

    /// Makes committed-capacity sectors.
    ///
    /// # Errors
    /// As for every request.
    pub fn pledge(&self, count: u64) -> Result<wire::Pledged> {
        let count = count.to_string();
        self.post("pledge sectors", "/api/v1/pledge", &[("count", Some(count.as_str()))])
    }

    /// Seals a sector that waits for pieces.
    ///
    /// # Errors
    /// As for every request.
    pub fn seal(&self, number: u64) -> Result<wire::Ordered> {
        self.post("seal a sector", &format!("/api/v1/sectors/{number}/seal"), &[])
    }

    /// Removes a sector; one on chain only when `confirm` names it again.
    ///
    /// # Errors
    /// As for every request.
    pub fn remove(&self, number: u64, confirm: Option<u64>) -> Result<wire::Ordered> {
        let confirm = confirm.map(|n| n.to_string());
        let query = [("confirm", confirm.as_deref())];
        self.post("remove a sector", &format!("/api/v1/sectors/{number}/remove"), &query)
    }

    /// Tries again now.
    ///
    /// # Errors
    /// As for every request.
    pub fn retry(&self, number: u64) -> Result<wire::Ordered> {
        self.post("retry a sector", &format!("/api/v1/sectors/{number}/retry"), &[])
    }

    /// Asks the node to stop in order.
    ///
    /// # Errors
    /// As for every request.
    pub fn shutdown(&self) -> Result<wire::Stopping> {
        self.post("stop the node", "/api/v1/shutdown", &[])
    }

    /// A sector's data from `offset`, in unpadded bytes. The reader fails when the data breaks off.
    ///
    /// # Errors
    /// As for every request.
    pub fn data(&self, number: u64, offset: u64, bytes: Option<u64>) -> Result<impl Read + use<>> {
        let doing = "read a sector's data";
        let mut request = self.slow.get(format!("{}/api/v1/sectors/{number}/data", self.url));
        request = request.query("offset", offset.to_string()).header("Authorization", &self.authorization);
        if let Some(bytes) = bytes {
            request = request.query("bytes", bytes.to_string());
        }
        let body = self.answered(doing, request.call())?;
        Ok(body.into_reader())
    }

    fn get<T: DeserializeOwned>(
        &self,
        doing: &'static str,
        path: &str,
        query: &[(&str, Option<&str>)],
    ) -> Result<T> {
        let mut request = self.quick.get(format!("{}{path}", self.url));
        for (key, value) in query {
            if let Some(value) = value {
                request = request.query(*key, *value);
            }
        }
        let sent = request.header("Authorization", &self.authorization).call();
        read_json(self.answered(doing, sent)?, doing, &self.url)
    }

    fn post<T: DeserializeOwned>(
        &self,
        doing: &'static str,
        path: &str,
        query: &[(&str, Option<&str>)],
    ) -> Result<T> {
        let mut request = self.quick.post(format!("{}{path}", self.url));
        for (key, value) in query {
            if let Some(value) = value {
                request = request.query(*key, *value);
            }
        }
        let sent = request.header("Authorization", &self.authorization).send_empty();
        read_json(self.answered(doing, sent)?, doing, &self.url)
    }

    /// The body of a granted request; every other outcome as an error.
    fn answered(
        &self,
        doing: &'static str,
        sent: std::result::Result<ureq::http::Response<Body>, ureq::Error>,
    ) -> Result<Body> {
        let response = match sent {
            Ok(response) => response,
            Err(ureq::Error::Io(e)) if e.kind() == io::ErrorKind::ConnectionRefused => {
                return Err(ClientError::NotRunning { path: self.repo.clone() });
            }
            Err(e) => {
                return Err(ClientError::Transport { doing, url: self.url.clone(), reason: e.to_string() });
            }
        };
        let status = response.status().as_u16();
        let body = response.into_body();
        if (200..300).contains(&status) {
            return Ok(body);
        }
        let refusal: wire::ErrorBody = read_json(body, doing, &self.url)?;
        Err(ClientError::Refused { status, class: refusal.class, error: refusal.error, next: refusal.next })
    }
}

fn read_json<T: DeserializeOwned>(body: Body, doing: &'static str, url: &str) -> Result<T> {
    let strange = |reason: String| ClientError::Strange { url: url.to_owned(), reason };
    let mut text = Vec::new();
    body.into_reader().take(JSON_BYTES_MAX).read_to_end(&mut text).map_err(|e| ClientError::Transport {
        doing,
        url: url.to_owned(),
        reason: e.to_string(),
    })?;
    serde_json::from_slice(&text).map_err(|e| strange(format!("no answer of this API ({e})")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProofSystem;
    use crate::repo::Wanted;
    use primitives::{ActorId, SectorSize};

    #[test]
    fn a_repo_without_a_node_and_one_whose_node_died_say_how_to_start_it() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repo::at(dir.path());
        assert!(matches!(Client::open(&repo), Err(ClientError::Repo(RepoError::Missing { .. }))));
        let wanted = Wanted {
            sector_size: None,
            default_size: SectorSize::KiB2,
            proofs: ProofSystem::Vanilla,
            miner: ActorId(1000),
            chain_seed: None,
        };
        repo.settle(&wanted).unwrap();
        let error = Client::open(&repo).unwrap_err();
        assert!(
            matches!(error, ClientError::NotRunning { .. })
                && error.next_step().unwrap().contains("sealrig run"),
            "{error}"
        );
        // A port that was free a moment ago: nobody answers.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        repo.announce(&format!("http://{address}"), "token").unwrap();
        let error = Client::open(&repo).unwrap().status().unwrap_err();
        assert!(matches!(error, ClientError::NotRunning { .. }), "{error:?}");
        assert!(error.may_be_stopped() && !error.is_unknown());
    }
}
