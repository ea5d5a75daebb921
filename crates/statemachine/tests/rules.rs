//! Every kind of rule, totality, planner errors, limits of records (SM-2, SM-3, SM-4, SM-8, SM-13).

mod job;

use job::*;
use statemachine::testkit::{Act, Script, assert_path};
use statemachine::*;

#[test]
fn a_whole_life() {
    let bench = Bench::new(Scripts::default());
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(60);
    assert_path::<Job>(&bench.lines("a"), &[S::New, S::Packing, S::Waiting, S::Working, S::Done]);
    let machine = bench.get("a");
    assert_eq!(machine.state, S::Done);
    assert!(machine.run.is_none() && machine.parked.is_none());
    assert_eq!(bench.ledger.book().posts.len(), 1);
    bench.check_replay("a");
}

#[test]
fn each_rule_does_what_it_says() {
    let scripts = Scripts { packing: Script::always([Act::Hang]), ..Scripts::default() };
    let bench = Bench::new(scripts);
    let group = bench.open();
    let id = MachineId::from("a");
    bench.sim.run_until(group.create(&id, R::default())).unwrap();
    // stay
    let applied = bench.send(&group, "a", E::Add(5)).unwrap();
    assert_eq!((applied.version, applied.state, applied.verdict), (2, S::New, Verdict::Stayed));
    // ignore
    let applied = bench.send(&group, "a", E::Again(true)).unwrap();
    assert_eq!(applied.verdict, Verdict::Ignored { reason: "nothing began".to_owned() });
    // reject, by default
    let error = bench.send(&group, "a", E::Landed(String::new())).unwrap_err();
    assert!(matches!(&error, SendError::Rejected { reason, .. } if reason == "not started"), "{error}");
    assert_eq!(error.to_string(), "a in state New rejects Landed: not started");
    // to
    let applied = bench.send(&group, "a", E::Start).unwrap();
    assert_eq!(applied.verdict, Verdict::Moved { from: S::New, to: S::Packing });
    // defer: once on disk, then left alone until the state changes
    let applied = bench.send(&group, "a", E::Again(true)).unwrap();
    assert_eq!(applied.verdict, Verdict::Deferred);
    let before = bench.get("a").version;
    bench.send(&group, "a", E::Add(6)).unwrap();
    assert_eq!(bench.get("a").version, before + 1, "the deferred event was not planned again");
    let explained = bench.sim.run_until(group.explain(&id)).unwrap().unwrap();
    assert_eq!(explained.inbox, [WaitingEvent { kind: "Again", deferred: true }]);
    // force, then the deferred event is planned in the new state: one_of
    bench.sim.run_until(group.force(&id, S::Done, "test")).unwrap();
    bench.secs(1);
    assert_path::<Job>(&bench.lines("a"), &[S::New, S::Packing, S::Done, S::Packing]);
    assert_eq!(bench.get("a").record.numbers, [5, 6]);
    bench.check_replay("a");
}

#[test]
fn deferred_events_survive_a_crash() {
    let scripts = Scripts { packing: Script::always([Act::Hang]), ..Scripts::default() };
    let bench = Bench::new(scripts);
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(1);
    bench.sim.run_until(group.send(&"a".into(), E::Again(false))).unwrap();
    bench.secs(1);
    bench.sim.kill();
    drop(group);
    let group = bench.open();
    bench.secs(1);
    bench.sim.run_until(group.force(&"a".into(), S::Done, "test")).unwrap();
    bench.secs(1);
    assert_eq!(bench.get("a").state, S::New, "Again(false) came from disk");
    bench.check_replay("a");
}

#[test]
fn every_pair_has_an_answer() {
    // All pairs of all events in all states, some events of the wrong sender: no panic, no dead machine.
    let bench = Bench::new(Scripts {
        packing: Script::always([Act::Hang]),
        working: Script::always([Act::Hang]),
        removing: Script::always([Act::Hang]),
    });
    let group = bench.open();
    let events = [
        E::Start,
        E::Packed(1),
        E::Unit(1),
        E::Landed("x".to_owned()),
        E::Lost,
        E::Worked,
        E::Tick,
        E::Add(1),
        E::Again(true),
        E::Boom("panic".to_owned()),
        E::Remove,
        E::Gone,
        E::Restart,
    ];
    assert_eq!(events.len(), K::ALL.len());
    for (state_number, state) in S::ALL.iter().enumerate() {
        for (number, event) in events.iter().enumerate() {
            let id = format!("{state_number}-{number:02}");
            bench.sim.run_until(group.create(&id.as_str().into(), R::default())).unwrap();
            bench.sim.run_until(group.force(&id.as_str().into(), *state, "test")).unwrap();
            let answer = bench.send(&group, &id, event.clone());
            assert!(
                matches!(answer, Ok(_) | Err(SendError::Rejected { .. } | SendError::Refused { .. })),
                "{state} {event:?}: {answer:?}"
            );
            bench.check_replay(&id);
        }
    }
}

#[test]
fn a_panicking_planner_is_data() {
    let bench = Bench::new(Scripts { packing: Script::always([Act::Hang]), ..Scripts::default() });
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(1);
    let error = bench.send(&group, "a", E::Boom("panic".to_owned())).unwrap_err();
    assert!(matches!(&error, SendError::Refused { reason, .. } if reason.contains("boom")), "{error}");
    let machine = bench.get("a");
    assert_eq!(machine.trouble.as_ref().unwrap().what, "Boom");
    assert!(machine.run.is_some() && machine.parked.is_none(), "the run goes on");
    bench.send(&group, "a", E::Add(1)).unwrap();
    assert_eq!(bench.get("a").record.numbers, [1], "alive");
    assert_eq!(bench.count("a", LineKind::Refused), 1);
    let explained = bench.sim.run_until(group.explain(&"a".into())).unwrap().unwrap();
    assert!(explained.alerts.iter().any(|alert| alert.contains("boom")), "{:?}", explained.alerts);
    bench.check_replay("a");
}

#[test]
fn an_unlisted_target_is_refused() {
    let bench = Bench::new(Scripts::default());
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(60);
    let error = bench.send(&group, "a", E::Boom(String::new())).unwrap_err();
    assert!(error.to_string().contains("chose Removed, which it does not list"), "{error}");
    assert_eq!(bench.get("a").state, S::Done);
}

#[test]
fn a_large_record_is_refused_by_name_and_the_machine_lives() {
    let bench = Bench::new(Scripts::default());
    let group = bench.open();
    let id = MachineId::from("big-one");
    bench.sim.run_until(group.create(&id, R::default())).unwrap();
    let error = bench.send(&group, "big-one", E::Boom("x".repeat(50_000))).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("big-one") && text.contains("at most"), "{text}");
    bench.send(&group, "big-one", E::Add(3)).unwrap();
    assert_eq!(bench.get("big-one").record, R { numbers: vec![3], ..R::default() });
    // An event that no row can hold never enters.
    let error = bench.send(&group, "big-one", E::Boom("x".repeat(70_000))).unwrap_err();
    assert!(matches!(error, SendError::TooLarge { .. }), "{error}");
    // Nor does such a record.
    let record = R { text: "x".repeat(70_000), ..R::default() };
    let error = bench.sim.run_until(group.create(&"c".into(), record)).unwrap_err();
    assert!(matches!(error, CreateError::Refused { .. }) && error.to_string().contains(" c "), "{error}");
    bench.check_replay("big-one");
}

#[test]
fn unknown_ids_are_errors_and_creation_is_explicit() {
    let bench = Bench::new(Scripts::default());
    let group = bench.open();
    assert!(matches!(bench.send(&group, "a", E::Start), Err(SendError::Unknown(_))));
    assert!(matches!(bench.sim.run_until(group.send(&"a".into(), E::Start)), Err(SendError::Unknown(_))));
    assert!(bench.store.dump().is_empty(), "no ghost record");
    bench.sim.run_until(group.create(&"a".into(), R::default())).unwrap();
    let again = bench.sim.run_until(group.create(&"a".into(), R::default()));
    assert!(matches!(again, Err(CreateError::Exists(_))), "{again:?}");
    for bad in ["", "a\u{0}b", &"x".repeat(257)] {
        let made = bench.sim.run_until(group.create(&bad.into(), R::default()));
        assert!(matches!(made, Err(CreateError::BadId(_))), "{bad:?}");
    }
}

#[test]
fn a_full_inbox_pushes_back_and_control_events_still_enter() {
    let scripts = Scripts { packing: Script::always([Act::Hang]), ..Scripts::default() };
    let bench = Bench::new(scripts);
    let mut config = config(&bench.scripts, &bench.ledger);
    config.inbox_limit = 3;
    let group = bench.open_with(config);
    bench.start(&group, "a");
    bench.secs(1);
    let id = MachineId::from("a");
    for _ in 0..3 {
        bench.sim.run_until(group.send(&id, E::Again(true))).unwrap();
    }
    let error = bench.sim.run_until(group.send(&id, E::Again(true))).unwrap_err();
    assert!(matches!(error, SendError::InboxFull { limit: 3, .. }), "{error}");
    bench.send(&group, "a", E::Remove).unwrap();
    bench.secs(1);
    assert_eq!(bench.get("a").state, S::Removed);
    let left = bench.sim.run_until(group.explain(&id)).unwrap().unwrap().inbox;
    assert!(left.is_empty(), "deferred events were planned in the new state: {left:?}");
}

#[test]
fn control_events_come_before_waiting_ones() {
    let bench = Bench::new(Scripts { packing: Script::always([Act::Hang]), ..Scripts::default() });
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(1);
    let id = MachineId::from("a");
    bench.sim.run_until(async {
        let adds = (0..20).map(|n| group.send(&id, E::Add(n)));
        let (_, removed) =
            futures_util::future::join(futures_util::future::join_all(adds), group.send(&id, E::Remove))
                .await;
        removed.unwrap();
    });
    bench.secs(1);
    assert_eq!(bench.get("a").state, S::Removed);
    bench.check_replay("a");
}

#[test]
fn other_writers_are_never_overwritten() {
    // Somebody else's commit between read and write: the event is planned again on what is there.
    let bench = Bench::new(Scripts::default());
    let (one, two) = (bench.open(), bench.open());
    bench.sim.run_until(one.create(&"a".into(), R::default())).unwrap();
    for n in 0..10 {
        let group = if n % 2 == 0 { &one } else { &two };
        bench.send(group, "a", E::Add(n)).unwrap();
    }
    assert_eq!(bench.get("a").record.numbers, (0..10).collect::<Vec<_>>());
    assert_eq!(bench.get("a").version, 11);
    bench.check_replay("a");
}

#[test]
fn lists_are_paged_and_filtered_by_state() {
    let bench = Bench::new(Scripts::default());
    let group = bench.open();
    for n in 0..30 {
        let id = MachineId::from(format!("{n:03}"));
        bench.sim.run_until(group.create(&id, R::default())).unwrap();
        if n % 3 == 0 {
            bench.send(&group, id.as_str(), E::Start).unwrap();
        }
    }
    bench.secs(120);
    let ids = |list: Vec<Instance<Job>>| list.iter().map(|m| m.id.to_string()).collect::<Vec<_>>();
    let all = ids(bench.sim.run_until(group.list(None, None, 100)).unwrap());
    assert_eq!(all.len(), 30);
    let page = bench.sim.run_until(group.list(None, Some(&"003".into()), 4)).unwrap();
    assert_eq!(ids(page), ["004", "005", "006", "007"]);
    let done = bench.sim.run_until(group.list(Some(&[S::Done]), Some(&"009".into()), 3)).unwrap();
    assert_eq!(ids(done), ["012", "015", "018"]);
    let both = bench.sim.run_until(group.list(Some(&[S::Done, S::New]), None, 100)).unwrap();
    assert_eq!(ids(both), all);
    assert!(bench.sim.run_until(group.list(Some(&[S::Packing]), None, 9)).unwrap().is_empty());
}
