use super::{Access, PLEDGE_MAX, router};
use crate::{Epochs, Node, NodeConfig, NodeError};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{Request, StatusCode, header};
use primitives::SectorSize;
use serde_json::Value;
use std::time::Duration;
use tokio::sync::watch;
use tower::ServiceExt as _;

const HOST: &str = "127.0.0.1:4000";
const TOKEN: &str = "secret";

struct Fixture {
    node: Node,
    router: Router,
    stop: watch::Receiver<bool>,
    dir: tempfile::TempDir,
}

fn config(dir: &tempfile::TempDir) -> NodeConfig {
    NodeConfig {
        sector_size: Some(SectorSize::KiB2),
        epochs: Epochs::OnDemand,
        threads: 1,
        ..NodeConfig::new(dir.path().join("repo"))
    }
}

async fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(config(&dir)).await.unwrap();
    let (ask, stop) = watch::channel(false);
    let access = Access::new(TOKEN.to_owned(), HOST.parse().unwrap());
    let router = router(std::sync::Arc::clone(node.core()), access, ask);
    Fixture { node, router, stop, dir }
}

impl Fixture {
    async fn raw(&self, method: &str, uri: &str, body: Body) -> (StatusCode, Bytes) {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::HOST, HOST)
            .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
            .body(body)
            .unwrap();
        self.send(request).await
    }

    async fn send(&self, request: Request<Body>) -> (StatusCode, Bytes) {
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let status = answer.status();
        (status, to_bytes(answer.into_body(), 1 << 20).await.unwrap())
    }

    async fn json(&self, method: &str, uri: &str) -> (StatusCode, Value) {
        let (status, body) = self.raw(method, uri, Body::empty()).await;
        let json: Value =
            serde_json::from_slice(&body).unwrap_or_else(|e| panic!("{method} {uri}: {e}: {body:?}"));
        assert_eq!(json["schema"], 1, "{method} {uri}: {json}");
        if !status.is_success() {
            assert!(json["error"].as_str().is_some_and(|e| e.len() > 10), "{method} {uri}: {json}");
        }
        (status, json)
    }

    async fn expect(&self, method: &str, uri: &str, status: u16) -> Value {
        let (got, json) = self.json(method, uri).await;
        assert_eq!(got.as_u16(), status, "{method} {uri}: {json}");
        json
    }

    async fn add(&self, uri: &str, body: impl Into<Body>) -> (StatusCode, Value) {
        let (status, body) = self.raw("POST", uri, body.into()).await;
        (status, serde_json::from_slice(&body).unwrap())
    }

    async fn wait_for(&self, number: u64, state: &str) -> Value {
        for _ in 0..600 {
            let sector = self.expect("GET", &format!("/api/v1/sectors/{number}"), 200).await;
            if sector["state"] == state {
                return sector;
            }
            assert_eq!(sector["needs_attention"], false, "{sector}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!(
            "sector {number} is not {state}: {}",
            self.expect("GET", &format!("/api/v1/sectors/{number}"), 200).await
        );
    }

    async fn end(self) {
        self.node.stop(Duration::from_secs(10)).await.unwrap();
        drop(self.dir);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_of_the_token_gets_in_and_only_by_the_right_name() {
    let f = fixture().await;
    let bearer = format!("Bearer {TOKEN}");
    for (host, token, expected) in [
        (Some(HOST), Some(bearer.as_str()), 200),
        (Some("localhost:4000"), Some(bearer.as_str()), 200),
        (Some(HOST), None, 401),
        (Some(HOST), Some("Bearer wrong!"), 401),
        (Some(HOST), Some("Bearer "), 401),
        (Some(HOST), Some(TOKEN), 401),
        (Some("rebound.example:4000"), Some(bearer.as_str()), 403),
        (Some("127.0.0.1:4001"), Some(bearer.as_str()), 403),
        (None, Some(bearer.as_str()), 403),
    ] {
        for uri in ["/api/v1/status", "/api/v1/sectors/1/data", "/", "/api/v1/nothing"] {
            let mut request = Request::builder().uri(uri);
            if let Some(host) = host {
                request = request.header(header::HOST, host);
            }
            if let Some(token) = token {
                request = request.header(header::AUTHORIZATION, token);
            }
            let (status, body) = f.send(request.body(Body::empty()).unwrap()).await;
            let expected = match (expected, uri) {
                (200, "/api/v1/status") => 200,
                (200, _) => 404,
                (refused, _) => refused,
            };
            assert_eq!(status.as_u16(), expected, "{host:?} {token:?} {uri}: {body:?}");
            if expected != 200 {
                let json: Value = serde_json::from_slice(&body).unwrap();
                assert!(json["next"].is_string(), "{json}");
            }
        }
    }
    f.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_get_sentences() {
    let f = fixture().await;
    for uri in [
        "/api/v1/sectors/x",
        "/api/v1/sectors/-1",
        "/api/v1/sectors/+1",
        "/api/v1/sectors/1.5",
        "/api/v1/sectors/18446744073709551616",
        "/api/v1/sectors/9223372036854775808",
        "/api/v1/sectors?limit=0",
        "/api/v1/sectors?limit=1001",
        "/api/v1/sectors?limit=ten",
        "/api/v1/sectors?after=-5",
        "/api/v1/sectors?state=Nonsense",
        "/api/v1/sectors?state=Proving,",
        "/api/v1/sectors?limt=5",
        "/api/v1/sectors?limit=5&limit=6",
        "/api/v1/status?x=1",
    ] {
        f.expect("GET", uri, 400).await;
    }
    for uri in
        ["/api/v1/pledge?count=0", &format!("/api/v1/pledge?count={}", PLEDGE_MAX + 1), "/api/v1/pledge?n=1"]
    {
        f.expect("POST", uri, 400).await;
    }
    for (method, uri) in [
        ("GET", "/api/v1/sectors/7"),
        ("GET", "/api/v1/sectors/7/journal"),
        ("GET", "/api/v1/sectors/7/data"),
        ("POST", "/api/v1/sectors/7/seal"),
        ("POST", "/api/v1/sectors/7/retry"),
        ("POST", "/api/v1/sectors/7/remove"),
        ("POST", "/api/v1/sectors/7/remove?confirm=7"),
    ] {
        let json = f.expect(method, uri, 404).await;
        assert!(json["error"].as_str().unwrap().contains("no sector 7"), "{json}");
    }
    f.expect("GET", "/api/v2/status", 404).await;
    f.expect("DELETE", "/api/v1/sectors/7", 405).await;
    f.expect("GET", "/api/v1/pledge", 405).await;
    assert_eq!(
        f.expect("GET", "/api/v1/sectors?state=CommitWait", 200).await["sectors"],
        serde_json::json!([])
    );
    f.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_becomes_sectors_and_comes_back() {
    let f = fixture().await;
    let data: Vec<u8> = (0..3000u32).map(|i| (i * 31 % 251) as u8).collect();
    let (status, added) = f.add("/api/v1/sectors?name=my%20file", data.clone()).await;
    assert_eq!(status, StatusCode::OK, "{added}");
    assert_eq!((&added["name"], &added["bytes"]), (&"my file".into(), &3000.into()));
    let numbers: Vec<u64> =
        added["pieces"].as_array().unwrap().iter().map(|p| p["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2]);
    f.expect("GET", "/api/v1/sectors/2/data", 409).await;
    for number in [1, 2] {
        // The first is full and may be past waiting already.
        let (status, answer) = f.json("POST", &format!("/api/v1/sectors/{number}/seal")).await;
        assert!(status.is_success() || status == StatusCode::CONFLICT, "{answer}");
    }
    let first = f.wait_for(1, "Proving").await;
    let second = f.wait_for(2, "Proving").await;
    assert_eq!(first["pieces"][0]["name"], "my file");
    assert_eq!(
        (&second["pieces"][0]["input_offset"], &second["pieces"][0]["data_bytes"]),
        (&2032.into(), &968.into())
    );
    for key in ["comm_d", "comm_r", "replica_id", "ticket", "seed"] {
        assert_eq!(first[key].as_str().unwrap().len(), 64, "{key}");
    }
    // Tickets and seeds are drawn for a miner and an epoch; these two sectors may share them.
    for key in ["comm_d", "comm_r", "replica_id"] {
        assert_ne!(first[key], second[key], "{key}");
    }
    let landed: Vec<&str> =
        first["messages"].as_array().unwrap().iter().map(|m| m["status"].as_str().unwrap()).collect();
    assert_eq!(landed, ["landed", "landed"]);
    let timeline = first["timeline"].as_array().unwrap();
    assert_eq!(timeline.last().unwrap()["state"], "Proving");
    assert!(timeline.iter().any(|s| s["state"] == "PreCommit2" && s["attempts"] == 1), "{timeline:?}");

    let (status, whole) = f.raw("GET", "/api/v1/sectors/1/data", Body::empty()).await;
    assert_eq!((status, &whole[..]), (StatusCode::OK, &data[..2032]));
    let (_, rest) = f.raw("GET", "/api/v1/sectors/2/data?bytes=968", Body::empty()).await;
    assert_eq!(&rest[..], &data[2032..]);
    let (_, middle) = f.raw("GET", "/api/v1/sectors/1/data?offset=100&bytes=33", Body::empty()).await;
    assert_eq!(&middle[..], &data[100..133]);
    f.expect("GET", "/api/v1/sectors/1/data?offset=2033", 400).await;
    f.expect("GET", "/api/v1/sectors/1/data?offset=2000&bytes=33", 400).await;

    // The history comes in pages that together are the whole.
    let whole = f.expect("GET", "/api/v1/sectors/1/journal?limit=1000", 200).await;
    let mut lines = Vec::new();
    let mut after = 0;
    loop {
        let page = f.expect("GET", &format!("/api/v1/sectors/1/journal?limit=7&after={after}"), 200).await;
        lines.extend(page["lines"].as_array().unwrap().clone());
        match page["next_after"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(&lines, whole["lines"].as_array().unwrap());

    f.expect("POST", "/api/v1/sectors/1/seal", 409).await;
    f.expect("POST", "/api/v1/sectors/1/retry", 409).await;
    let refused = f.expect("POST", "/api/v1/sectors/1/remove", 409).await;
    assert!(refused["next"].as_str().unwrap().contains("--confirm 1"), "{refused}");
    f.expect("POST", "/api/v1/sectors/1/remove?confirm=2", 400).await;
    f.expect("POST", "/api/v1/sectors/1/remove?confirm=1", 200).await;
    f.wait_for(1, "Removed").await;
    f.expect("POST", "/api/v1/sectors/1/remove?confirm=1", 200).await;
    f.expect("GET", "/api/v1/sectors/1/data", 409).await;

    let page = f.expect("GET", "/api/v1/sectors?limit=1", 200).await;
    assert_eq!((&page["sectors"][0]["number"], &page["next_after"]), (&1.into(), &1.into()));
    let page = f.expect("GET", "/api/v1/sectors?after=1&state=Proving,Removed", 200).await;
    assert_eq!((&page["sectors"][0]["number"], &page["next_after"]), (&2.into(), &Value::Null));
    let status = f.expect("GET", "/api/v1/status", 200).await;
    assert_eq!(status["sectors"], serde_json::json!({"Proving": 1, "Removed": 1}));
    assert_eq!((&status["proof_system"], &status["sector_size"]), (&"vanilla".into(), &2048.into()));
    f.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_that_are_empty_or_break_off_leave_nothing_behind() {
    struct Torn(u32);
    impl futures_core::Stream for Torn {
        type Item = Result<Bytes, std::io::Error>;
        fn poll_next(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Self::Item>> {
            self.0 += 1;
            std::task::Poll::Ready(Some(if self.0 < 4 {
                Ok(Bytes::from_static(&[7; 1500]))
            } else {
                Err(std::io::Error::other("cable pulled"))
            }))
        }
    }
    let f = fixture().await;
    let (status, answer) = f.add("/api/v1/sectors?name=nothing", Vec::new()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(answer["error"].as_str().unwrap().contains("nothing is empty"), "{answer}");
    let (status, answer) = f.add("/api/v1/sectors?name=torn", Body::from_stream(Torn(0))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(answer["error"].as_str().unwrap().contains("torn after 4500 bytes"), "{answer}");
    for uri in ["/api/v1/sectors?name=", "/api/v1/sectors?name=a%0Ab", "/api/v1/sectors?title=x"] {
        let (status, answer) = f.add(uri, vec![1, 2, 3]).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{uri}: {answer}");
    }
    assert_eq!(f.expect("GET", "/api/v1/sectors", 200).await["sectors"], serde_json::json!([]));
    assert_eq!(f.node.core().pipeline.storage().all_staged().unwrap(), Vec::<String>::new());
    f.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pledged_sectors_are_sealed_and_a_client_can_stop_the_node() {
    let f = fixture().await;
    let pledged = f.expect("POST", "/api/v1/pledge?count=2", 200).await;
    assert_eq!(pledged["numbers"], serde_json::json!([1, 2]));
    let sector = f.wait_for(2, "Proving").await;
    assert_eq!(sector["cc"], true);
    let head = f.expect("GET", "/api/v1/chain/head", 200).await;
    assert!(head["height"].as_i64().unwrap() >= sector["activation_epoch"].as_i64().unwrap());
    assert!(!*f.stop.borrow());
    f.expect("POST", "/api/v1/shutdown", 200).await;
    assert!(*f.stop.borrow());
    f.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repo_has_one_process_and_another_one_is_told_which() {
    let f = fixture().await;
    let url = f.node.url().to_owned();
    let Err(refused) = Node::start(config(&f.dir)).await else { panic!("two nodes on one repo") };
    let text = refused.to_string();
    assert!(matches!(refused, NodeError::Store(_)), "{refused:?}");
    assert!(text.contains(&std::process::id().to_string()) && text.contains(&url), "{text}");
    // The refused start has not taken away what the first one announced.
    let repo = f.node.core().repo.clone();
    assert_eq!(repo.announced().unwrap().unwrap().0, url);
    let other = NodeConfig { sector_size: Some(SectorSize::MiB8), ..config(&f.dir) };
    assert!(matches!(Node::start(other).await, Err(NodeError::Repo(_))));
    let dir = f.node.stop(Duration::from_secs(10)).await.map(|_| f.dir).unwrap();
    assert_eq!(repo.announced().unwrap(), None);
    // Stopped in order, the repo opens again at once.
    Node::start(config(&dir)).await.unwrap().stop(Duration::from_secs(10)).await.unwrap();
}
