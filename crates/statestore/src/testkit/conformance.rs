//! What every backend keeps. A backend's test calls [`run`]; a failing rule panics with its name.

use crate::{
    BATCH_BYTES_MAX, Batch, Committed, Entry, Expect, KEY_BYTES_MAX, Pair, SCHEMA_KEY, Store, StoreError,
    VALUE_BYTES_MAX,
};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Checks all rules, each on a fresh and empty store from `make`.
pub async fn run(mut make: impl FnMut() -> Arc<dyn Store>) {
    values(&*make()).await;
    order_within_a_batch(&*make()).await;
    conditions(&*make()).await;
    one_winner(make()).await;
    scans(&*make()).await;
    journal(&*make()).await;
    batches_are_whole(make()).await;
    limits(&*make()).await;
    reserved_keys(&*make()).await;
    empty_batches(&*make()).await;
    for seed in 1..=4 {
        model(&*make(), seed).await;
    }
}

async fn commit(store: &dyn Store, fill: impl FnOnce(&mut Batch)) -> Result<Committed, StoreError> {
    let mut batch = Batch::new();
    fill(&mut batch);
    store.commit(batch).await
}

async fn put(store: &dyn Store, key: &[u8], value: &[u8]) {
    let put = commit(store, |b| {
        b.put(key, value);
    });
    put.await.expect("a put succeeds");
}

/// All pairs a user may see: the schema version is the store's.
async fn all(store: &dyn Store) -> Vec<Pair> {
    let mut pairs = store.scan(b"", None, usize::MAX).await.expect("a scan succeeds");
    pairs.retain(|(key, _)| key != SCHEMA_KEY);
    pairs
}

async fn entries(store: &dyn Store, stream: Option<&[u8]>, after: u64, limit: usize) -> Vec<Entry> {
    store.journal(stream, after, limit).await.expect("the journal can be read")
}

async fn values(store: &dyn Store) {
    assert_eq!(store.get(b"k").await.unwrap(), None, "values: a new store is empty");
    put(store, b"k", b"1").await;
    assert_eq!(store.get(b"k").await.unwrap(), Some(b"1".to_vec()), "values: what was put is there");
    put(store, b"k", b"").await;
    assert_eq!(store.get(b"k").await.unwrap(), Some(Vec::new()), "values: an empty value is a value");
    let delete = |b: &mut Batch| {
        b.delete("k");
    };
    commit(store, delete).await.unwrap();
    assert_eq!(store.get(b"k").await.unwrap(), None, "values: what was removed is gone");
    commit(store, delete).await.expect("values: removing nothing is no error");
    let binary = [255, 0, 254];
    put(store, &binary, &binary).await;
    assert_eq!(store.get(&binary).await.unwrap(), Some(binary.to_vec()), "values: any byte may be in a key");
}

async fn order_within_a_batch(store: &dyn Store) {
    let write = commit(store, |b| {
        b.put("a", "1").delete("a").put("b", "1").put("b", "2").delete("c").put("c", "3");
    });
    write.await.unwrap();
    let expected = vec![(b"b".to_vec(), b"2".to_vec()), (b"c".to_vec(), b"3".to_vec())];
    assert_eq!(all(store).await, expected, "order: a later write to a key wins");
}

async fn conditions(store: &dyn Store) {
    put(store, b"k", b"1").await;
    let before = all(store).await;
    for (first, second, name) in [
        (("k", Expect::Absent), ("x", Expect::Absent), "k"),
        (("k", Expect::Is(b"2".to_vec())), ("x", Expect::Absent), "k"),
        (("k", Expect::Is(b"1".to_vec())), ("x", Expect::Is(Vec::new())), "x"),
        (("x", Expect::Is(b"1".to_vec())), ("k", Expect::Absent), "x"),
    ] {
        let refused = commit(store, |b| {
            b.expect(first.0, first.1).expect(second.0, second.1);
            b.put("k", "9").put("y", "9").append("s", "9");
        });
        let refused = refused.await.unwrap_err();
        assert_eq!(refused, StoreError::Conflict { key: name.to_owned() }, "conditions: the first is named");
        assert_eq!(all(store).await, before, "conditions: nothing is applied after a conflict");
        assert_eq!(
            entries(store, None, 0, 9).await,
            [],
            "conditions: nothing is journalled after a conflict"
        );
    }
    let accepted = commit(store, |b| {
        b.expect("k", Expect::Is(b"1".to_vec())).expect("x", Expect::Absent).put("k", "2").put("x", "1");
    });
    accepted.await.expect("conditions: they look at the state before the batch");
    assert_eq!(store.get(b"x").await.unwrap(), Some(b"1".to_vec()));
}

async fn one_winner(store: Arc<dyn Store>) {
    let claims = (0..64u8).map(|n| {
        let store = store.clone();
        async move {
            let claim = commit(&*store, |b| {
                b.expect("k", Expect::Absent).put("k", [n]).append("k", [n]);
            });
            (n, claim.await)
        }
    });
    let answers = join_all(claims).await;
    let winners: Vec<u8> = answers.iter().filter(|(_, a)| a.is_ok()).map(|(n, _)| *n).collect();
    assert_eq!(winners.len(), 1, "one winner: of batches that exclude each other one is applied");
    assert!(answers.iter().all(|(_, a)| a.is_ok() || matches!(a, Err(StoreError::Conflict { .. }))));
    assert_eq!(store.get(b"k").await.unwrap(), Some(winners.clone()), "one winner: its value is there");
    let journal = entries(&*store, None, 0, 9).await;
    assert_eq!(
        journal,
        [Entry { seq: 1, stream: b"k".to_vec(), payload: winners }],
        "one winner: and its entry"
    );

    // A chain of compare-and-swaps in one go: each sees the one before it.
    let chain = (0..32u8).map(|n| {
        let store = store.clone();
        async move {
            let expect = if n == 0 { Expect::Absent } else { Expect::Is(vec![n - 1]) };
            let step = commit(&*store, |b| {
                b.expect("chain", expect).put("chain", [n]);
            });
            step.await
        }
    });
    for answer in join_all(chain).await {
        answer.expect("one winner: a batch sees the batches that were queued before it");
    }
}

async fn scans(store: &dyn Store) {
    let keys: [&[u8]; 8] = [b"a", b"a/", b"a/1", b"a/2", b"a/2\xff", b"a0", b"b", b"\xff\xff"];
    for key in keys {
        put(store, key, key).await;
    }
    for (prefix, after, limit, expected) in [
        (&b""[..], None, 99, &keys[..]),
        (b"a/", None, 99, &keys[1..5]),
        (b"a/", None, 2, &keys[1..3]),
        (b"a/", None, 0, &[]),
        (b"a/", Some(&b"a/1"[..]), 99, &keys[3..5]),
        (b"a/", Some(b"a/1\0"), 99, &keys[3..5]),
        (b"a/", Some(b"a"), 99, &keys[1..5]),
        (b"a/", Some(b""), 99, &keys[1..5]),
        (b"a/", Some(b"a/2\xff"), 99, &[]),
        (b"a/", Some(b"b"), 99, &[]),
        (b"\xff", None, 99, &keys[7..]),
        (b"\xff\xff\xff", None, 99, &[]),
        (b"", Some(b"a0"), 99, &keys[6..]),
    ] {
        let found = store.scan(prefix, after, limit).await.unwrap();
        let mut found: Vec<_> = found.iter().map(|(key, _)| key.as_slice()).collect();
        found.retain(|key| *key != SCHEMA_KEY);
        assert_eq!(found, expected, "scans: {prefix:?} after {after:?}, at most {limit}");
    }
}

async fn journal(store: &dyn Store) {
    assert_eq!(entries(store, None, 0, 9).await, [], "journal: a new one is empty");
    let first = commit(store, |b| {
        b.append("x", "1").append("y", "2").append("x", "3");
    });
    assert_eq!(first.await.unwrap(), Committed { last_seq: 3 }, "journal: numbers begin with 1");
    put(store, b"k", b"v").await;
    let second = commit(store, |b| {
        b.put("k", "w").append("x", "4").append(b"", b"");
    });
    assert_eq!(second.await.unwrap(), Committed { last_seq: 5 }, "journal: numbers have no gaps");
    let entry =
        |seq, stream: &str, payload: &str| Entry { seq, stream: stream.into(), payload: payload.into() };
    let whole =
        [entry(1, "x", "1"), entry(2, "y", "2"), entry(3, "x", "3"), entry(4, "x", "4"), entry(5, "", "")];
    assert_eq!(entries(store, None, 0, 9).await, whole, "journal: all streams in order");
    assert_eq!(entries(store, None, 2, 2).await, whole[2..4], "journal: from a number, limited");
    assert_eq!(entries(store, None, 5, 9).await, [], "journal: nothing after the end");
    assert_eq!(entries(store, None, u64::MAX, 9).await, [], "journal: nothing after any end");
    let x = [whole[0].clone(), whole[2].clone(), whole[3].clone()];
    assert_eq!(entries(store, Some(b"x"), 0, 9).await, x, "journal: one stream");
    assert_eq!(
        entries(store, Some(b"x"), 1, 1).await,
        x[1..2],
        "journal: one stream, from a number, limited"
    );
    assert_eq!(entries(store, Some(b"x"), 2, 9).await, x[1..], "journal: the number may be another stream's");
    assert_eq!(entries(store, Some(b""), 0, 9).await, whole[4..], "journal: a stream may have no name");
    assert_eq!(entries(store, Some(b"z"), 0, 9).await, [], "journal: an unknown stream is empty");
    let large = vec![7; VALUE_BYTES_MAX];
    for _ in 0..12 {
        let append = commit(store, |b| {
            b.append("large", large.clone());
        });
        append.await.unwrap();
    }
    let read = entries(store, Some(b"large"), 0, 99).await;
    assert!(read.len() == 12 && read.iter().all(|e| e.payload == large), "journal: large entries come back");
}

async fn batches_are_whole(store: Arc<dyn Store>) {
    let commits = (0..40u64).map(|n| {
        let store = store.clone();
        async move {
            let batch = commit(&*store, |b| {
                for part in 0..3 {
                    b.put(format!("r/{n}/{part}"), n.to_be_bytes()).append(format!("s{n}"), [part]);
                }
            });
            (n, batch.await.expect("whole: the commit succeeds").last_seq)
        }
    });
    for (n, last_seq) in join_all(commits).await {
        let stream = entries(&*store, Some(format!("s{n}").as_bytes()), 0, 9).await;
        let seqs: Vec<u64> = stream.iter().map(|e| e.seq).collect();
        assert_eq!(seqs, [last_seq - 2, last_seq - 1, last_seq], "whole: a batch's entries are neighbours");
        let payloads: Vec<u8> = stream.iter().flat_map(|e| e.payload.clone()).collect();
        assert_eq!(payloads, [0, 1, 2], "whole: and in their order");
        let records = store.scan(format!("r/{n}/").as_bytes(), None, 9).await.unwrap();
        assert_eq!(records.len(), 3, "whole: all records are there");
    }
    let seqs: Vec<u64> = entries(&*store, None, 0, 999).await.iter().map(|e| e.seq).collect();
    assert_eq!(seqs, (1..=120).collect::<Vec<_>>(), "whole: one global order without gaps");
}

/// What is too large, and how it gets into a batch.
type TooLarge<'a> = (&'static str, &'a dyn Fn(&mut Batch));

async fn limits(store: &dyn Store) {
    let key = vec![b'k'; KEY_BYTES_MAX];
    let value = vec![1; VALUE_BYTES_MAX];
    let largest = commit(store, |b| {
        b.expect(key.clone(), Expect::Absent)
            .put(key.clone(), value.clone())
            .append(key.clone(), value.clone());
    });
    largest.await.expect("limits: the largest key, value, stream and payload are accepted");
    assert_eq!(store.get(&key).await.unwrap(), Some(value.clone()));
    let (long, large) = ([key.clone(), b"x".to_vec()].concat(), [value.clone(), b"x".to_vec()].concat());
    let before = all(store).await;
    let too_large: [TooLarge<'_>; 6] = [
        ("key", &|b| {
            b.put(long.clone(), "v");
        }),
        ("key", &|b| {
            b.delete(long.clone());
        }),
        ("key", &|b| {
            b.expect(long.clone(), Expect::Absent);
        }),
        ("value", &|b| {
            b.put("named", large.clone());
        }),
        ("journal stream", &|b| {
            b.append(long.clone(), "p");
        }),
        ("journal payload", &|b| {
            b.append("named", large.clone());
        }),
    ];
    for (expected, fill) in too_large {
        let refused = commit(store, |b| {
            b.put("good", "1").append("good", "1");
            fill(b);
        });
        match refused.await {
            Err(StoreError::TooLarge { what, key, bytes, max }) => {
                assert_eq!((what, bytes), (expected, max + 1), "limits: the error says what is too large");
                assert!(
                    key == "named" || key.starts_with("kkkk"),
                    "limits: the error names the key, not {key:?}"
                );
            }
            other => panic!("limits: a too large {expected} is refused, not {other:?}"),
        }
        assert_eq!(all(store).await, before, "limits: nothing is applied");
    }
    let heavy = commit(store, |b| {
        for n in 0..=BATCH_BYTES_MAX / VALUE_BYTES_MAX {
            b.put(format!("heavy/{n}"), value.clone());
        }
    });
    assert!(
        matches!(heavy.await, Err(StoreError::TooLarge { what: "batch", .. })),
        "limits: of a whole batch"
    );
}

async fn reserved_keys(store: &dyn Store) {
    for key in [&b""[..], b"\0", b"\0anything", SCHEMA_KEY] {
        for delete in [false, true] {
            let refused = commit(store, |b| {
                if delete {
                    b.delete(key)
                } else {
                    b.put(key, "v")
                };
                b.put("good", "1");
            });
            let refused = refused.await;
            assert!(
                matches!(refused, Err(StoreError::InvalidKey { .. })),
                "reserved: {key:?}, not {refused:?}"
            );
        }
    }
    assert_eq!(all(store).await, [], "reserved: nothing is applied");
    assert_eq!(
        store.get(b"\0position").await.unwrap(),
        None,
        "reserved: the backend's own keys are not seen"
    );
}

async fn empty_batches(store: &dyn Store) {
    assert_eq!(
        commit(store, |_| {}).await.unwrap(),
        Committed { last_seq: 0 },
        "empty: an empty batch is one"
    );
    let append = commit(store, |b| {
        b.append("s", "1");
    });
    append.await.unwrap();
    let held = commit(store, |b| {
        b.expect("k", Expect::Absent);
    });
    assert_eq!(held.await.unwrap(), Committed { last_seq: 1 }, "empty: conditions alone can hold");
    let failed = commit(store, |b| {
        b.expect("k", Expect::Is(Vec::new()));
    });
    assert!(matches!(failed.await, Err(StoreError::Conflict { .. })), "empty: and fail");
}

/// Random batches against a map.
async fn model(store: &dyn Store, seed: u64) {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut records: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut journal: Vec<Entry> = Vec::new();
    for step in 0..150 {
        let mut batch = Batch::new();
        let (mut changed, mut appended) = (records.clone(), journal.clone());
        let mut holds = true;
        for _ in 0..next(3) {
            let key = vec![b'k', next(12) as u8];
            let found = records.get(&key);
            // Right in two cases of three.
            let expect = match (found, next(3)) {
                (Some(value), 0 | 1) => Expect::Is(value.clone()),
                (Some(_), _) => Expect::Absent,
                (None, 0 | 1) => Expect::Absent,
                (None, _) => Expect::Is(vec![1]),
            };
            holds &= match (&expect, found) {
                (Expect::Absent, found) => found.is_none(),
                (Expect::Is(value), found) => found == Some(value),
            };
            batch.expect(key, expect);
        }
        for _ in 0..next(5) {
            let key = vec![b'k', next(12) as u8];
            if next(4) == 0 {
                batch.delete(key.clone());
                changed.remove(&key);
            } else {
                let value = vec![next(256) as u8; next(300) as usize];
                batch.put(key.clone(), value.clone());
                changed.insert(key, value);
            }
        }
        for _ in 0..next(4) {
            let (stream, payload) = (vec![next(3) as u8], vec![step as u8; next(200) as usize]);
            batch.append(stream.clone(), payload.clone());
            appended.push(Entry { seq: appended.len() as u64 + 1, stream, payload });
        }
        match store.commit(batch).await {
            Ok(committed) => {
                assert!(holds, "model: seed {seed}, step {step}: a conflict was missed");
                assert_eq!(committed.last_seq, appended.len() as u64, "model: seed {seed}, step {step}");
                (records, journal) = (changed, appended);
            }
            Err(StoreError::Conflict { .. }) => {
                assert!(!holds, "model: seed {seed}, step {step}: no conflict")
            }
            Err(other) => panic!("model: seed {seed}, step {step}: {other}"),
        }
    }
    let expected: Vec<Pair> = records.into_iter().collect();
    assert_eq!(all(store).await, expected, "model: seed {seed}: the records are those of the model");
    assert_eq!(
        entries(store, None, 0, usize::MAX).await,
        journal,
        "model: seed {seed}: and so is the journal"
    );
    for stream in 0..3 {
        let expected: Vec<_> = journal.iter().filter(|e| e.stream == [stream]).cloned().collect();
        assert_eq!(
            entries(store, Some(&[stream]), 0, usize::MAX).await,
            expected,
            "model: seed {seed}: streams"
        );
    }
}
