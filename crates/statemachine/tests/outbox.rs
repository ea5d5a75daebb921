//! The outbox: at most one effect per intent, whatever fails (SM-17).

mod job;

use job::*;
use statemachine::testkit::assert_path;
use statemachine::*;
use statestore::Store;
use statestore::testkit::{Fault, FaultStore};
use std::sync::Arc;

fn outbox_lines(bench: &Bench, id: &str) -> Vec<String> {
    let lines = bench.lines(id);
    lines.into_iter().filter(|line| line.kind == LineKind::Outbox).map(|line| line.note.unwrap()).collect()
}

#[test]
fn an_effect_is_prepared_sent_and_settled() {
    let bench = Bench::new(Scripts::default());
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(30);
    let machine = bench.get("a");
    assert_eq!(bench.ledger.book().posts, [b"0:a@4#0:hello"]);
    assert_eq!(machine.record.receipt.as_deref(), Some("receipt of a"));
    assert_eq!(
        outbox_lines(&bench, "a"),
        ["post 4#0: prepared", "post 4#0: sent", "post 4#0: settled with Landed"]
    );
    let left = bench.store.dump().into_iter().filter(|(key, _)| key.starts_with(b"job\0o\0")).count();
    assert_eq!(left, 0, "settled rows are gone");
}

#[test]
fn failing_sends_back_off_and_are_shown() {
    let bench = Bench::new(Scripts::default());
    bench.ledger.book().send_failures = 3;
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(2);
    let explained = bench.sim.run_until(group.explain(&"a".into())).unwrap().unwrap();
    assert_eq!(explained.outbox[0].stage, "prepared");
    assert!(explained.outbox[0].failures > 0 && explained.outbox[0].next_ms.is_some());
    assert_eq!(explained.blocker, Some(Blocker::Effect("post is prepared: Transient: line down".to_owned())));
    bench.secs(60);
    assert_eq!(bench.get("a").state, S::Done);
    let book = bench.ledger.book();
    assert_eq!(
        (book.prepared.len(), book.sends.len(), book.posts.len()),
        (1, 4, 1),
        "prepared once, sent until it worked"
    );
}

#[test]
fn lost_and_replaced_effects() {
    let bench = Bench::new(Scripts::default());
    bench.ledger.book().poll_script =
        vec![Outcome::Pending, Outcome::SendAgain, Outcome::PrepareAgain("fee too low".to_owned())];
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(120);
    assert_eq!(bench.get("a").state, S::Done);
    assert_eq!(
        outbox_lines(&bench, "a"),
        [
            "post 4#0: prepared",
            "post 4#0: sent",
            "post 4#0: lost; sent again",
            "post 4#0: sent",
            "post 4#0: prepared again: fee too low",
            "post 4#0: prepared",
            "post 4#0: sent",
            "post 4#0: settled with Landed",
        ]
    );
}

#[test]
fn an_effect_without_an_event_is_closed() {
    let bench = Bench::new(Scripts::default());
    bench.ledger.book().poll_script = vec![Outcome::Done];
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(60);
    assert_eq!(bench.get("a").state, S::Waiting);
    assert_eq!(outbox_lines(&bench, "a").last().unwrap(), "post 4#0: done");
    // Nothing would ever move it now; the next open says so.
    bench.sim.kill();
    drop(group);
    let _group = bench.open();
    bench.secs(1);
    assert_eq!(bench.get("a").parked.unwrap().reason, "nothing would move a out of Waiting");
    bench.check_replay("a");
}

#[test]
fn a_refused_preparation_is_an_event() {
    let bench = Bench::new(Scripts::default());
    bench.ledger.book().refuse = true;
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(5);
    assert_path::<Job>(&bench.lines("a"), &[S::New, S::Packing, S::Waiting, S::Failed]);
    assert!(bench.ledger.book().sends.is_empty());
}

#[test]
fn nudge_polls_at_once() {
    let bench = Bench::new(Scripts::default());
    bench.ledger.book().slow = true;
    let mut config = config(&bench.scripts, &bench.ledger);
    config.poll_interval = std::time::Duration::from_secs(3600);
    let group = bench.open_with(config);
    bench.start(&group, "a");
    bench.secs(60);
    bench.ledger.book().slow = false;
    bench.secs(60);
    assert_eq!(bench.get("a").state, S::Waiting);
    group.nudge();
    bench.secs(1);
    assert_eq!(bench.get("a").state, S::Done);
}

#[test]
fn withdrawn_intents_are_not_sent_and_prepared_ones_run_to_their_end() {
    // Not prepared yet: the line is down from the start, so nothing gets that far.
    let bench = Bench::new(Scripts::default());
    bench.ledger.book().slow = true;
    let mut config = config(&bench.scripts, &bench.ledger);
    config.effects.clear();
    let group = bench.open_with(config);
    bench.start(&group, "a");
    bench.secs(5);
    let explained = bench.sim.run_until(group.explain(&"a".into())).unwrap().unwrap();
    assert!(explained.outbox[0].last_error.as_ref().unwrap().contains("no handler"), "{explained:?}");
    bench.send(&group, "a", E::Remove).unwrap();
    bench.secs(5);
    assert_eq!(bench.get("a").state, S::Removed);
    assert!(bench.sim.run_until(group.reader().outbox(&"a".into())).unwrap().is_empty());
    // Sent already: its result arrives in whatever state the machine is.
    let bench = Bench::new(Scripts::default());
    bench.ledger.book().slow = true;
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(5);
    bench.send(&group, "a", E::Remove).unwrap();
    bench.secs(5);
    assert_eq!(bench.sim.run_until(group.reader().outbox(&"a".into())).unwrap().len(), 1);
    bench.ledger.book().slow = false;
    bench.secs(60);
    assert!(bench.sim.run_until(group.reader().outbox(&"a".into())).unwrap().is_empty());
    let last = bench.lines("a").pop().unwrap();
    assert_eq!((last.event, last.ruling), (Some("Landed"), Some("rejected")), "{last:?}");
}

#[test]
fn after_a_restart_prepared_rows_are_sent_before_new_ones_are_prepared() {
    let bench = Bench::new(Scripts::default());
    bench.ledger.book().send_failures = u32::MAX;
    let mut roomy = config(&bench.scripts, &bench.ledger);
    roomy.resources = vec![("packer".to_owned(), 10)];
    let group = bench.open_with(roomy);
    bench.start(&group, "a");
    bench.secs(2);
    bench.sim.kill();
    drop(group);
    bench.ledger.book().send_failures = 0;
    // A second machine decides its effect while the first one's is prepared and not sent.
    let group = bench.open();
    bench.start(&group, "b");
    bench.secs(60);
    assert_eq!([bench.get("a").state, bench.get("b").state], [S::Done, S::Done]);
    let book = bench.ledger.book();
    let posts: Vec<_> = book.posts.iter().map(|post| String::from_utf8_lossy(post).into_owned()).collect();
    assert_eq!(posts, ["0:a@4#0:hello", "1:b@4#0:hello"]);
    assert_eq!(book.prepared.len(), 2, "nothing was prepared twice");
}

#[test]
fn numbers_are_never_given_twice_by_many_machines() {
    for seed in 0..20 {
        let mut bench = Bench::new(Scripts::default());
        bench.sim = statemachine::testkit::Sim::new(seed);
        bench.ledger.book().send_failures = 5;
        let mut roomy = config(&bench.scripts, &bench.ledger);
        roomy.resources = vec![("packer".to_owned(), 10)];
        let group = bench.open_with(roomy);
        for n in 0..10 {
            bench.start(&group, &format!("{n}"));
        }
        bench.secs(600);
        let book = bench.ledger.book();
        assert_eq!(book.posts.len(), 10, "seed {seed}");
        assert_eq!(book.prepared.len(), 10, "seed {seed}");
    }
}

/// Dies at every commit of a life with an effect, before and after; then lives on. The ledger refuses a number twice.
#[test]
fn at_most_one_effect_whatever_crashes() {
    for fault in [Fault::DieBefore, Fault::DieAfter, Fault::HangBefore, Fault::HangAfter] {
        for commit in 1..40 {
            let bench = Bench::new(Scripts::default());
            let store = Arc::new(FaultStore::new(Arc::new(bench.store.clone())));
            store.at(commit, fault);
            let shared: Arc<dyn Store> = store.clone();
            let config = config(&bench.scripts, &bench.ledger);
            let group = bench.sim.run_until(Group::open(shared, bench.sim.env(), config)).unwrap();
            let life = async {
                // The answer may be lost with the process.
                let _ = group.create_with(&"a".into(), R::default(), E::Start).await;
                std::future::pending::<()>().await;
            };
            let until = bench.sim.env().clock.now_ms() + 100_000;
            let limit = bench.sim.env().clock.sleep_until(until);
            let both = futures_util::future::select(Box::pin(life), limit);
            bench.sim.run_while(both, || !store.is_dead());
            bench.sim.kill();
            drop(group);
            let group = bench.open();
            let made = bench.sim.run_until(group.create_with(&"a".into(), R::default(), E::Start));
            assert!(matches!(made, Ok(_) | Err(CreateError::Exists(_))));
            bench.secs(200);
            let name = fault.name();
            assert_eq!(bench.get("a").state, S::Done, "{name} at {commit}");
            let book = bench.ledger.book();
            assert_eq!(book.posts.len(), 1, "{name} at {commit}: {:?}", book.posts);
            assert!(
                book.prepared.windows(2).all(|pair| pair[0].0 == pair[1].0),
                "{name} at {commit}: one intent"
            );
            drop(book);
            bench.check_replay("a");
        }
    }
}
