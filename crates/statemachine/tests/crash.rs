//! Crash sweeps, failing disks, bad rows (SM-10, SM-13, SM-25).

mod job;

use futures_util::future::join_all;
use job::*;
use statemachine::testkit::{Act, Script, Sim, Sweep};
use statemachine::*;
use statestore::testkit::{Fault, FaultStore};
use statestore::{Batch, Store};
use std::sync::Arc;
use std::time::Duration;

/// A life with a retry, an event of a run, a detour by a timer and an effect. What a step does depends on the record
/// and not on how often it was started, as real steps must.
fn lively(ledger: &Arc<Ledger>) -> GroupConfig<Job> {
    struct Packs;
    #[async_trait::async_trait]
    impl Step<Job> for Packs {
        async fn run(&self, cx: StepContext<Job>) -> Result<E, Failure> {
            cx.sleep(Duration::from_millis(300)).await?;
            if cx.record().units.is_empty() {
                cx.send(E::Unit(0)).await?;
            }
            if cx.snapshot().last_failure.is_none() {
                return Err(Failure::transient("half way"));
            }
            if cx.record().units.len() < 2 {
                cx.send(E::Unit(1)).await?;
            }
            if cx.record().failures == 0 {
                return Err(Failure::invalid_output("once"));
            }
            Ok(E::Packed(1))
        }
    }
    let mut config = config(&Scripts::default(), ledger);
    config.steps = config.steps.add(S::Packing, Arc::new(Packs));
    config
}

async fn drive(group: Arc<Group<Job>>, ids: &[&str]) {
    for id in ids {
        // A failing disk is the sender's to try again; one that was there already is fine.
        loop {
            match group.create_with(&(*id).into(), R::default(), E::Start).await {
                Err(CreateError::Store { source, .. }) if source.is_transient() => {}
                _ => break,
            }
        }
    }
    let waits = ids.iter().map(|id| {
        let group = Arc::clone(&group);
        async move {
            let mut changes = group.watch();
            loop {
                if let Ok(Some(machine)) = group.get(&(*id).into()).await
                    && machine.state == S::Done
                {
                    return;
                }
                if futures_util::StreamExt::next(&mut changes).await.is_none() {
                    return;
                }
            }
        }
    });
    join_all(waits).await;
}

fn outside(ledger: &Ledger) -> Vec<String> {
    let mut posts: Vec<_> =
        ledger.book().posts.iter().map(|post| String::from_utf8_lossy(post).into_owned()).collect();
    // Versions differ with the number of interrupted runs; how many there are, and of whom, may not.
    for post in &mut posts {
        *post = post.split(':').nth(1).and_then(|id| id.split('@').next()).unwrap_or_default().to_owned();
    }
    posts.sort();
    posts
}

const DEADLY: [Fault; 4] = [Fault::DieBefore, Fault::DieAfter, Fault::HangBefore, Fault::HangAfter];
const PASSING: [Fault; 3] = [Fault::FailBefore, Fault::FailAfter, Fault::DiskFull];

#[test]
fn one_machine_dies_at_every_commit() {
    let sweep = Sweep::<Job, Ledger> {
        seed: 7,
        ids: vec!["a".into()],
        world: Arc::default,
        config: lively,
        life: |group| Box::pin(async move { drive(group, &["a"]).await }),
        outside,
    };
    let report = sweep.run(&DEADLY);
    assert!(report.commits > 15, "{report:?}");
    sweep.run(&PASSING);
}

#[test]
fn two_machines_die_at_every_commit() {
    for seed in [1, 2, 3] {
        let sweep = Sweep::<Job, Ledger> {
            seed,
            ids: vec!["a".into(), "b".into()],
            world: Arc::default,
            config: lively,
            life: |group| Box::pin(async move { drive(group, &["a", "b"]).await }),
            outside,
        };
        let report = sweep.run(&DEADLY);
        assert!(report.commits > 30, "{report:?}");
        sweep.run(&PASSING);
    }
}

#[test]
fn a_canary_that_must_fail() {
    // The sweep sees an effect that is made outside the outbox: a step that posts by itself does it again after a crash.
    struct Direct(Arc<Ledger>);
    #[async_trait::async_trait]
    impl Step<Job> for Direct {
        async fn run(&self, cx: StepContext<Job>) -> Result<E, Failure> {
            let mut book = self.0.book();
            let post = format!("{}:{}:hello", book.posts.len() + 100, cx.run_id());
            book.posts.push(post.into_bytes());
            Ok(E::Packed(1))
        }
    }
    let sweep = Sweep::<Job, Ledger> {
        seed: 7,
        ids: vec!["a".into()],
        world: Arc::default,
        config: |ledger| {
            let mut config = config(&Scripts::default(), ledger);
            config.steps = config.steps.add(S::Packing, Arc::new(Direct(Arc::clone(ledger))));
            config
        },
        life: |group| Box::pin(async move { drive(group, &["a"]).await }),
        outside,
    };
    let swept = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| sweep.run(&[Fault::DieBefore])));
    let panic = swept.expect_err("the sweep must see the second effect");
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("seed 7") && text.contains("sweep.live(Some("), "{text}");
}

#[test]
fn a_full_disk_stops_and_comes_back_without_a_loss() {
    let bench = Bench::new(Scripts::default());
    let store = Arc::new(FaultStore::new(Arc::new(bench.store.clone())));
    for commit in 3..30 {
        store.at(commit, Fault::DiskFull);
    }
    let shared: Arc<dyn Store> = store.clone();
    let config = config(&bench.scripts, &bench.ledger);
    let group = bench.sim.run_until(Group::open(shared, bench.sim.env(), config)).unwrap();
    bench.start(&group, "a");
    bench.secs(2);
    assert!(group.health().store_error.unwrap().contains("no space"));
    let error = bench.sim.run_until(group.send(&"a".into(), E::Add(1))).unwrap_err();
    assert!(matches!(error, SendError::Store { .. }), "{error}");
    let blocker = bench.sim.run_until(group.explain(&"a".into())).unwrap().unwrap().blocker;
    assert!(matches!(blocker, Some(Blocker::Store(_))), "{blocker:?}");
    bench.secs(3600);
    assert_eq!(bench.get("a").state, S::Done);
    assert_eq!(group.health(), Health::default());
    bench.check_replay("a");
}

#[test]
fn an_event_whose_writing_failed_half_way_is_found_again() {
    let bench = Bench::new(Scripts { packing: Script::always([Act::Hang]), ..Scripts::default() });
    let store = Arc::new(FaultStore::new(Arc::new(bench.store.clone())));
    let shared: Arc<dyn Store> = store.clone();
    let config = config(&bench.scripts, &bench.ledger);
    let group = bench.sim.run_until(Group::open(shared, bench.sim.env(), config)).unwrap();
    bench.start(&group, "a");
    bench.secs(1);
    store.at(store.commits() + 1, Fault::FailAfter);
    let error = bench.sim.run_until(group.send(&"a".into(), E::Add(7))).unwrap_err();
    assert!(matches!(error, SendError::Store { .. }), "{error}");
    bench.secs(5);
    assert_eq!(bench.get("a").record.numbers, [7], "it was on disk, so it is applied, once");
    bench.check_replay("a");
}

#[test]
fn bad_rows_are_set_aside_and_all_others_run() {
    let bench = Bench::new(Scripts { packing: Script::always([Act::Hang]), ..Scripts::default() });
    let group = bench.open();
    for id in ["a", "b", "c"] {
        bench.start(&group, id);
    }
    bench.secs(1);
    bench.sim.kill();
    drop(group);
    let mut batch = Batch::new();
    batch.put(&b"job\0r\0b"[..], &b"rubbish"[..]);
    bench.sim.run_until(bench.store.commit(batch)).unwrap();
    let mut bench = bench;
    bench.scripts = Scripts::default();
    let group = bench.open();
    bench.secs(60);
    assert_eq!([bench.get("a").state, bench.get("c").state], [S::Done, S::Done]);
    let aside = bench.sim.run_until(group.quarantined()).unwrap();
    assert_eq!(aside.len(), 1);
    assert_eq!((aside[0].id.as_str(), aside[0].bytes.as_slice()), ("b", &b"rubbish"[..]));
    let error = bench.send(&group, "b", E::Add(1)).unwrap_err();
    assert!(matches!(error, SendError::Quarantined { .. }), "{error}");
    let listed = bench.sim.run_until(group.list(None, None, 10)).unwrap();
    assert_eq!(listed.len(), 2);
    assert!(bench.sim.run_until(group.get(&"b".into())).is_err());
}

#[test]
fn a_row_of_a_newer_program_is_set_aside_by_its_state() {
    let bench = Bench::new(Scripts::default());
    let group = bench.open();
    bench.sim.run_until(group.create(&"a".into(), R::default())).unwrap();
    bench.sim.kill();
    drop(group);
    let key = b"job\0r\0a".to_vec();
    let row = bench.sim.run_until(bench.store.get(&key)).unwrap().unwrap();
    let text = row.windows(3).position(|w| w == b"New").unwrap();
    let mut other = row.clone();
    other[text..text + 3].copy_from_slice(b"Xyz");
    let mut batch = Batch::new();
    batch.put(key, other);
    bench.sim.run_until(bench.store.commit(batch)).unwrap();
    let group = bench.open();
    let aside = bench.sim.run_until(group.quarantined()).unwrap();
    assert!(aside[0].reason.contains("unknown") && aside[0].reason.contains("Xyz"), "{}", aside[0].reason);
}

#[test]
fn many_machines_restart_paced() {
    let bench = Bench::new(Scripts { packing: Script::always([Act::Hang]), ..Scripts::default() });
    let roomy = || {
        let mut config = config(&bench.scripts, &bench.ledger);
        config.resources = vec![("packer".to_owned(), 1000)];
        config.restart_batch = 10;
        config
    };
    let group = bench.open_with(roomy());
    for n in 0..100 {
        bench.start(&group, &format!("{n:03}"));
    }
    bench.secs(1);
    bench.sim.kill();
    drop(group);
    let before = bench.sim.env().clock.now_ms();
    let group = bench.open_with(roomy());
    bench.sim.run_until(group.restarted());
    assert_eq!(bench.sim.env().clock.now_ms() - before, 200, "ten pauses of 20 ms");
    bench.secs(1);
    for n in 0..100 {
        let id = format!("{n:03}");
        assert!(bench.get(&id).run.unwrap().started_at_ms.is_some(), "{id}");
        assert_eq!(bench.count(&id, LineKind::Interrupted), 1);
    }
}

#[test]
fn a_clock_that_jumps_back_breaks_nothing() {
    let bench = Bench::new(Scripts {
        packing: Script::runs(vec![vec![Act::Fail(Failure::transient("x"))], vec![Act::Event(E::Packed(1))]]),
        ..Scripts::default()
    });
    let group = bench.open();
    bench.start(&group, "a");
    bench.sim.run_for(Duration::from_millis(100));
    let now = bench.sim.env().clock.now_ms();
    Sim::set_now_ms(&bench.sim, now - 3_600_000);
    bench.send(&group, "a", E::Add(1)).unwrap();
    let lines = bench.lines("a");
    assert!(
        lines.windows(2).all(|pair| pair[0].at_ms <= pair[1].at_ms),
        "time never runs backwards in a journal"
    );
    Sim::set_now_ms(&bench.sim, now + 3_600_000);
    bench.secs(60);
    assert_eq!(bench.get("a").state, S::Done);
    bench.check_replay("a");
}

#[test]
fn a_retry_does_not_wait_for_a_clock_that_was_set_back() {
    const DAY_MS: u64 = 86_400_000;
    for restart in [false, true] {
        let fail = || vec![Act::Fail(Failure::transient("x"))];
        let bench = Bench::new(Scripts {
            packing: Script::runs(vec![fail(), fail(), fail(), vec![Act::Event(E::Packed(1))]]),
            ..Scripts::default()
        });
        let mut group = bench.open();
        bench.start(&group, "a");
        bench.sim.run_for(Duration::from_millis(100));
        assert!(bench.get("a").next_try_ms.is_some(), "the first attempt failed");
        let now = bench.sim.env().clock.now_ms();
        if restart {
            drop(group);
            bench.sim.kill();
            Sim::set_now_ms(&bench.sim, now - DAY_MS);
            group = bench.open();
        } else {
            Sim::set_now_ms(&bench.sim, now - DAY_MS);
        }
        bench.sim.run_for(Duration::from_millis(10));
        let explained = bench.sim.run_until(group.explain(&"a".into())).unwrap().unwrap();
        let next = explained.next_try_ms.unwrap();
        assert!(next <= now - DAY_MS + 1300, "the next try is in {} ms", next - (now - DAY_MS));
        // Delays of 1, 2 and 4 s with 20 % of jitter, two of them set while the machine's time is ahead of the clock,
        // and the outbox.
        bench.secs(20);
        assert_eq!(bench.get("a").state, S::Done, "restart {restart}");
        bench.check_replay("a");
    }
}
