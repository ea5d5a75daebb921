//! Who gets in, and how long an answer may take.

use super::{ApiError, TIME_LIMIT};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Who may use the API.
#[derive(Debug, Clone)]
pub struct Access {
    token: String,
    address: SocketAddr,
}

impl Access {
    /// Requests with this token to this address.
    pub fn new(token: String, address: SocketAddr) -> Self {
        Self { token, address }
    }

    /// Whether the `Host` is this node: its address or `localhost`, with its port. A name would be somebody else's, which
    /// a browser was told to be this computer. A node that listens everywhere is known by any address of its own.
    fn is_host(&self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, port.parse().ok()),
            _ => (host, Some(80)),
        };
        if port != Some(self.address.port()) {
            return false;
        }
        if name.eq_ignore_ascii_case("localhost") {
            return self.address.ip().is_loopback() || self.address.ip().is_unspecified();
        }
        let name = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
        match name.parse::<IpAddr>() {
            Ok(ip) => ip == self.address.ip() || self.address.ip().is_unspecified(),
            Err(_) => false,
        }
    }

    fn is_token(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
        let Some(given) = given.and_then(|v| v.strip_prefix("Bearer ")) else { return false };
        same(given.trim().as_bytes(), self.token.as_bytes())
    }

    fn check(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|h| h.to_str().ok()).unwrap_or("");
        if hosts.next().is_some() || !self.is_host(host) {
            let shown: String = host.chars().take(80).collect();
            return Err(ApiError::new(StatusCode::FORBIDDEN, format!("the host {shown:?} is not this node"))
                .next(format!("use http://{}", self.address)));
        }
        if self.is_token(headers) {
            Ok(())
        } else {
            Err(ApiError::new(StatusCode::UNAUTHORIZED, "the token is missing or wrong")
                .next("send `Authorization: Bearer ` and the text of the file `token` in the repo"))
        }
    }
}

/// Compares without telling by its time how much is the same.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |diff, (x, y)| diff | (x ^ y)) == 0
}

/// Lets a request in, or not.
pub(super) async fn admit(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    match access.check(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// Ends requests that take too long.
pub(super) async fn time_limit(request: Request, next: Next) -> Response {
    match tokio::time::timeout(TIME_LIMIT, next.run(request)).await {
        Ok(answer) => answer,
        Err(_) => ApiError::new(
            StatusCode::GATEWAY_TIMEOUT,
            format!("the node did not answer within {} s", TIME_LIMIT.as_secs()),
        )
        .next("an order may still be carried out: look with `sector-status`")
        .into_response(),
    }
}

pub(super) async fn not_found() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "there is nothing at this address")
        .next("the API begins at /api/v1/status")
}

pub(super) async fn wrong_method() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this address does not take this method")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_node_is_a_host() {
        let access = Access::new("t".to_owned(), "127.0.0.1:4000".parse().unwrap());
        for good in ["127.0.0.1:4000", "localhost:4000", "LocalHost:4000"] {
            assert!(access.is_host(good), "{good}");
        }
        for bad in [
            "",
            "evil.example:4000",
            "127.0.0.1",
            "127.0.0.1:4001",
            "localhost:",
            "127.0.0.2:4000",
            "[::1]:4000",
            "127.0.0.1.evil.example:4000",
            "localhost:4000:4000",
        ] {
            assert!(!access.is_host(bad), "{bad}");
        }
        let everywhere = Access::new("t".to_owned(), "0.0.0.0:4000".parse().unwrap());
        assert!(everywhere.is_host("192.168.1.7:4000") && everywhere.is_host("localhost:4000"));
        assert!(!everywhere.is_host("node.example:4000"));
        let six = Access::new("t".to_owned(), "[::1]:4000".parse().unwrap());
        assert!(six.is_host("[::1]:4000") && !six.is_host("[::1]") && !six.is_host("127.0.0.1:4000"));
        let web = Access::new("t".to_owned(), "127.0.0.1:80".parse().unwrap());
        assert!(web.is_host("127.0.0.1") && web.is_host("localhost"));
    }

    #[test]
    fn tokens_must_be_the_same() {
        assert!(same(b"abc", b"abc"));
        assert!(!same(b"abc", b"abd") && !same(b"abc", b"ab") && !same(b"", b"a"));
    }
}
