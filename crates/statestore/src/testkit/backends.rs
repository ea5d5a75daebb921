//! Every backend keeps the same contract.

use super::{FaultStore, conformance};
use crate::{MemoryStore, Options, Schema, SledStore, Store};
use std::sync::Arc;

#[tokio::test]
async fn memory() {
    conformance::run(|| Arc::new(MemoryStore::new())).await;
    conformance::run(|| Arc::new(MemoryStore::new().with_schema(&Schema::default()).unwrap())).await;
}

#[tokio::test]
async fn memory_behind_a_store_that_may_fail() {
    conformance::run(|| Arc::new(FaultStore::new(Arc::new(MemoryStore::new())))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk() {
    let mut folders = Vec::new();
    conformance::run(|| {
        let folder = tempfile::tempdir().unwrap();
        let store = SledStore::open(folder.path().join("store"), Options::default()).unwrap();
        folders.push(folder);
        Arc::new(store) as Arc<dyn Store>
    })
    .await;
}

#[tokio::test]
async fn disk_with_many_small_segments() {
    let mut folders = Vec::new();
    conformance::run(|| {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { segment_bytes: 1, ..Options::default() };
        let store = SledStore::open(folder.path(), options).unwrap();
        folders.push(folder);
        Arc::new(store) as Arc<dyn Store>
    })
    .await;
}
