//! Runs, retries, control events, timers, restart and stop (SM-10 .. SM-16, SM-18, SM-20).

mod job;

use job::*;
use statemachine::testkit::{Act, Script, assert_path};
use statemachine::*;
use std::time::Duration;

fn hanging() -> Scripts {
    Scripts { packing: Script::always([Act::Hang]), ..Scripts::default() }
}

fn working(acts: Vec<Vec<Act<E>>>) -> Scripts {
    Scripts { working: Script::runs(acts), ..Scripts::default() }
}

fn explain(bench: &Bench, group: &Group<Job>, id: &str) -> Explanation {
    bench.sim.run_until(group.explain(&id.into())).unwrap().unwrap()
}

#[test]
fn removing_takes_no_time_while_a_step_hangs() {
    for act in [Act::Hang, Act::HangDeaf, Act::Sleep(Duration::from_secs(86_400))] {
        let bench = Bench::new(Scripts { packing: Script::always([act.clone()]), ..Scripts::default() });
        let group = bench.open();
        bench.start(&group, "a");
        bench.secs(10);
        let before = bench.sim.env().clock.now_ms();
        let applied = bench.send(&group, "a", E::Remove).unwrap();
        let took = bench.sim.env().clock.now_ms() - before;
        assert_eq!(applied.verdict, Verdict::Moved { from: S::Packing, to: S::Removing });
        assert!(took < 1000, "{act:?}: {took} ms");
        if matches!(act, Act::HangDeaf) {
            let blocker = explain(&bench, &group, "a").blocker;
            assert_eq!(blocker, Some(Blocker::EndingRun), "the next run waits for the old one to end");
        }
        bench.secs(6);
        assert_path::<Job>(&bench.lines("a"), &[S::New, S::Packing, S::Removing, S::Removed]);
        let abandoned = bench.count("a", LineKind::Abandoned);
        assert_eq!(abandoned, usize::from(matches!(act, Act::HangDeaf)), "{act:?}");
        assert_eq!(bench.count("a", LineKind::Dropped), 1, "the late result is journalled and dropped");
        bench.check_replay("a");
    }
}

#[test]
fn a_late_success_is_fenced_off() {
    // The step does not look at its token and succeeds after the machine was removed.
    struct Late(Sim);
    use statemachine::testkit::Sim;
    #[async_trait::async_trait]
    impl Step<Job> for Late {
        async fn run(&self, cx: StepContext<Job>) -> Result<E, Failure> {
            let clock = self.0.env().clock;
            clock.sleep_until(clock.now_ms() + 3000).await;
            assert!(cx.send(E::Unit(1)).await.is_err(), "events of a fenced run are refused");
            Ok(E::Packed(9))
        }
    }
    let bench = Bench::new(Scripts::default());
    let mut config = config(&bench.scripts, &bench.ledger);
    config.steps = config.steps.add(S::Packing, std::sync::Arc::new(Late(bench.sim.clone())));
    let group = bench.open_with(config);
    bench.start(&group, "a");
    bench.secs(1);
    bench.send(&group, "a", E::Remove).unwrap();
    bench.secs(10);
    assert_eq!(bench.get("a").state, S::Removed);
    assert_eq!(bench.get("a").record, R::default(), "nothing of the late run was applied");
    let dropped: Vec<_> = bench
        .lines("a")
        .into_iter()
        .filter(|l| l.kind == LineKind::Dropped)
        .map(|l| l.note.unwrap())
        .collect();
    assert_eq!(dropped, ["sent Unit", "ended with Packed"]);
    assert!(bench.ledger.book().posts.is_empty());
    bench.check_replay("a");
}

#[test]
fn events_of_a_run_are_applied_when_send_returns() {
    let scripts = Scripts {
        packing: Script::always([Act::Send(E::Unit(1)), Act::Send(E::Unit(2)), Act::Event(E::Packed(1))]),
        ..Scripts::default()
    };
    let bench = Bench::new(scripts);
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(30);
    assert_eq!(bench.get("a").record.units, [1, 2]);
    assert_eq!(bench.get("a").state, S::Done);
    bench.check_replay("a");
}

#[test]
fn an_event_of_a_run_that_is_no_stay_is_its_own_mistake() {
    let bench = Bench::new(Scripts {
        packing: Script::always([Act::Send(E::Packed(1)), Act::Event(E::Packed(1))]),
        ..Scripts::default()
    });
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(1);
    let machine = bench.get("a");
    assert_eq!(machine.state, S::Packing);
    let parked = machine.parked.unwrap();
    assert!(parked.reason.contains("the rule of Packed in Packing is to"), "{parked:?}");
}

#[test]
fn transient_failures_go_on_with_growing_delays_and_success_resets() {
    let fail = vec![Act::Fail(Failure::transient("network"))];
    let scripts = Scripts {
        packing: Script::runs(vec![fail.clone(), fail.clone(), fail, vec![Act::Event(E::Packed(1))]]),
        ..Scripts::default()
    };
    let bench = Bench::new(scripts);
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(3);
    let machine = bench.get("a");
    assert_eq!((machine.attempt, machine.failures[&Class::Transient].count), (3, 2));
    assert_eq!(machine.last_failure.unwrap().message, "network");
    let explained = explain(&bench, &group, "a");
    assert_eq!(explained.blocker, Some(Blocker::Time(machine.next_try_ms.unwrap())));
    assert_eq!(explained.attempts, [(Class::Transient, 2)]);
    bench.secs(60);
    assert_eq!(bench.get("a").state, S::Done);
    let starts: Vec<u64> =
        bench.lines("a").iter().filter(|l| l.kind == LineKind::RunStarted).take(4).map(|l| l.at_ms).collect();
    let delays: Vec<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (delay, base) in delays.iter().zip([1000, 2000, 4000]) {
        assert!(*delay >= base * 8 / 10 && *delay <= base * 12 / 10 + 5, "{delays:?}");
    }
    let runs = bench.scripts.packing.seen();
    assert_eq!(runs.len(), 4);
    assert!(runs.windows(2).all(|pair| pair[0] < pair[1]), "run ids are never used again");
    bench.check_replay("a");
}

#[test]
fn a_spent_budget_parks_and_retry_now_gives_a_new_one() {
    let fail = vec![Act::Fail(Failure::transient("worker asleep"))];
    let bench = Bench::new(working(vec![fail]));
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(3600);
    let machine = bench.get("a");
    let parked = machine.parked.clone().unwrap();
    assert_eq!((machine.state, parked.class), (S::Working, Some(Class::Transient)));
    assert!(parked.reason.contains("5 failures") && parked.reason.contains("worker asleep"), "{parked:?}");
    assert_eq!(parked.next_action, "look at the worker");
    assert_eq!(bench.scripts.working.seen().len(), 5, "one and four retries");
    assert_eq!(explain(&bench, &group, "a").blocker, Some(Blocker::Parked(parked)));
    // Standing still writes nothing.
    let version = machine.version;
    bench.secs(86_400);
    assert_eq!(bench.get("a").version, version);
    bench.sim.run_until(group.retry_now(&"a".into())).unwrap();
    bench.secs(3600);
    assert_eq!(bench.scripts.working.seen().len(), 10);
    assert!(bench.get("a").parked.is_some());
    bench.check_replay("a");
}

#[test]
fn retry_now_skips_the_delay_and_is_harmless_elsewhere() {
    let scripts = Scripts {
        packing: Script::runs(vec![
            vec![Act::Fail(Failure::transient("network"))],
            vec![Act::Sleep(Duration::from_secs(5)), Act::Event(E::Packed(1))],
        ]),
        ..Scripts::default()
    };
    let bench = Bench::new(scripts);
    let group = bench.open();
    let id = MachineId::from("a");
    bench.sim.run_until(group.create(&id, R::default())).unwrap();
    let nothing = bench.sim.run_until(group.retry_now(&id)).unwrap();
    assert!(matches!(nothing.verdict, Verdict::Ignored { .. }));
    let before = bench.sim.env().clock.now_ms();
    bench.send(&group, "a", E::Start).unwrap();
    bench.sim.run_for(Duration::from_millis(10));
    assert!(bench.get("a").next_try_ms.is_some());
    assert_eq!(bench.sim.run_until(group.retry_now(&id)).unwrap().verdict, Verdict::Stayed);
    bench.sim.run_for(Duration::from_millis(10));
    let running = bench.sim.run_until(group.retry_now(&id)).unwrap();
    assert_eq!(running.verdict, Verdict::Ignored { reason: "the run is in progress".to_owned() });
    assert!(bench.sim.env().clock.now_ms() - before < 100);
    assert_eq!(bench.scripts.packing.seen().len(), 2);
    bench.secs(30);
    assert_eq!(bench.get("a").state, S::Done);
    assert_eq!(bench.scripts.packing.seen().len(), 2, "the old retry timer is gone");
    bench.check_replay("a");
}

#[test]
fn abort_parks_and_retry_now_goes_on() {
    let scripts = Scripts {
        packing: Script::runs(vec![vec![Act::Hang], vec![Act::Event(E::Packed(1))]]),
        ..Scripts::default()
    };
    let bench = Bench::new(scripts);
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(1);
    bench.sim.run_until(group.abort_run(&"a".into(), "too loud")).unwrap();
    bench.secs(100);
    let parked = bench.get("a").parked.unwrap();
    assert_eq!(parked.reason, "aborted: too loud");
    bench.sim.run_until(group.retry_now(&"a".into())).unwrap();
    bench.secs(30);
    assert_eq!(bench.get("a").state, S::Done);
    bench.check_replay("a");
}

#[test]
fn a_control_event_that_stays_starts_the_run_again() {
    let scripts = Scripts {
        packing: Script::runs(vec![vec![Act::Hang], vec![Act::Event(E::Packed(1))]]),
        ..Scripts::default()
    };
    let bench = Bench::new(scripts);
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(1);
    bench.send(&group, "a", E::Restart).unwrap();
    bench.secs(30);
    assert_eq!(bench.get("a").state, S::Done);
    assert_eq!(bench.scripts.packing.seen().len(), 2);
}

#[test]
fn panicking_steps_are_failures_with_a_budget() {
    let bench = Bench::new(Scripts { packing: Script::always([Act::Panic("kaboom")]), ..Scripts::default() });
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(3600);
    let machine = bench.get("a");
    assert_eq!(machine.last_failure.unwrap().class, Class::Panic);
    assert!(machine.parked.unwrap().reason.contains("kaboom"));
    assert_eq!(bench.scripts.packing.seen().len(), 4, "one and three retries");
    bench.send(&group, "a", E::Add(1)).unwrap();
    assert_eq!(bench.get("a").record.numbers, [1], "alive");
}

#[test]
fn limits_warn_then_cut() {
    for act in [Act::Hang, Act::HangDeaf] {
        let bench = Bench::new(working(vec![vec![act], vec![Act::Event(E::Worked)]]));
        let group = bench.open();
        bench.start(&group, "a");
        bench.secs(100);
        let explained = explain(&bench, &group, "a");
        assert!(explained.slow && explained.alerts.iter().any(|a| a.contains("soft")), "{explained:?}");
        assert_eq!(bench.count("a", LineKind::Slow), 1);
        bench.secs(530);
        assert_eq!(bench.get("a").state, S::Done, "the second run worked");
        let cut: Vec<_> = bench.lines("a").into_iter().filter_map(|line| line.failure).collect();
        assert_eq!(cut.iter().map(|f| f.class).collect::<Vec<_>>(), [Class::Timeout]);
        bench.check_replay("a");
    }
}

#[test]
fn a_class_without_retry_goes_where_the_map_says() {
    let scripts = Scripts {
        packing: Script::runs(vec![
            vec![Act::Fail(Failure::invalid_output("wrong"))],
            vec![Act::Fail(Failure::permanent("never"))],
        ]),
        ..Scripts::default()
    };
    let bench = Bench::new(scripts);
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(5);
    assert_eq!((bench.get("a").state, bench.get("a").record.failures), (S::Failed, 1));
    let timers = explain(&bench, &group, "a").timers;
    assert_eq!((timers[0].name.as_str(), timers[0].event), ("again", Some("Tick")));
    bench.secs(10);
    let machine = bench.get("a");
    assert_eq!(machine.state, S::Packing, "the timer fired");
    assert_eq!(machine.parked.unwrap().next_action, "remove it");
    bench.check_replay("a");
}

#[test]
fn timers_fire_late_rather_than_never() {
    let bench = Bench::new(Scripts {
        packing: Script::runs(vec![vec![Act::Fail(Failure::expired("late"))], vec![Act::Hang]]),
        ..Scripts::default()
    });
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(1);
    assert_eq!(bench.get("a").state, S::Failed);
    bench.sim.kill();
    drop(group);
    bench.secs(3600);
    let _group = bench.open();
    bench.secs(1);
    assert_eq!(bench.get("a").state, S::Packing);
    assert_eq!(bench.lines("a").iter().filter(|l| l.source == Some(Sender::Timer)).count(), 1);
}

#[test]
fn two_machines_share_a_resource() {
    let bench = Bench::new(Scripts {
        packing: Script::always([Act::Sleep(Duration::from_secs(10)), Act::Event(E::Packed(1))]),
        ..Scripts::default()
    });
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(1);
    bench.start(&group, "b");
    bench.secs(1);
    bench.start(&group, "c");
    bench.secs(1);
    let blocker = |id| explain(&bench, &group, id).blocker;
    let waits = |ahead| Some(Blocker::Resource { name: "packer".to_owned(), needed: 1, free: 0, ahead });
    assert_eq!((blocker("a"), blocker("b"), blocker("c")), (None, waits(0), waits(1)));
    // One that gives up its place lets the next one in.
    bench.send(&group, "b", E::Remove).unwrap();
    bench.secs(10);
    assert_eq!(blocker("c"), None);
    assert!(bench.get("c").run.unwrap().started_at_ms.is_some());
    bench.secs(60);
    assert_eq!(
        [bench.get("a").state, bench.get("b").state, bench.get("c").state],
        [S::Done, S::Removed, S::Done]
    );
    let spans: Vec<(u64, u64)> = ["a", "c"]
        .iter()
        .map(|id| {
            let lines = bench.lines(id);
            let at = |kind| lines.iter().find(|line| line.kind == kind).unwrap().at_ms;
            (at(LineKind::RunStarted), at(LineKind::RunEnded))
        })
        .collect();
    assert!(spans[0].1 <= spans[1].0, "never both at once: {spans:?}");
}

#[test]
fn a_cancelled_run_keeps_its_resource_until_it_ends() {
    let bench = Bench::new(Scripts { packing: Script::always([Act::HangDeaf]), ..Scripts::default() });
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(1);
    bench.start(&group, "b");
    bench.secs(1);
    bench.send(&group, "a", E::Remove).unwrap();
    bench.secs(3);
    assert!(bench.get("b").run.unwrap().started_at_ms.is_none());
    bench.secs(3);
    assert!(bench.get("b").run.unwrap().started_at_ms.is_some());
}

#[test]
fn unfinished_runs_are_interrupted_and_started_again() {
    let bench = Bench::new(Scripts {
        packing: Script::runs(vec![vec![Act::Send(E::Unit(1)), Act::Hang], vec![Act::Event(E::Packed(1))]]),
        ..Scripts::default()
    });
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(1);
    bench.sim.kill();
    drop(group);
    let group = bench.open();
    bench.sim.run_until(group.restarted());
    bench.secs(30);
    assert_eq!(bench.get("a").state, S::Done);
    assert_eq!(bench.count("a", LineKind::Interrupted), 1);
    assert_eq!(bench.get("a").record.units, [1]);
    bench.check_replay("a");
}

#[test]
fn stop_ends_what_it_can_and_reports_what_it_cut() {
    let bench = Bench::new(hanging());
    let mut polite = config(&bench.scripts, &bench.ledger);
    polite.resources = vec![("packer".to_owned(), 10)];
    let group = bench.open_with(polite);
    bench.start(&group, "a");
    bench.start(&group, "b");
    bench.secs(1);
    let before = bench.sim.env().clock.now_ms();
    let report = bench.sim.run_until(group.stop(Duration::from_secs(30)));
    assert_eq!(report, StopReport { ended: 2, cut: Vec::new() });
    assert!(bench.sim.env().clock.now_ms() - before < 1000, "nobody waits for the deadline");
    assert_eq!(bench.count("a", LineKind::Interrupted), 1, "on disk already");
    assert!(matches!(bench.send(&group, "a", E::Add(1)), Err(SendError::Stopping(_))));
    bench.secs(1);
    assert_eq!(bench.sim.tasks(), 0, "no task is left");

    let deaf = Bench::new(Scripts { packing: Script::always([Act::HangDeaf]), ..Scripts::default() });
    let mut patient = config(&deaf.scripts, &deaf.ledger);
    patient.grace = Duration::from_secs(600);
    let group = deaf.open_with(patient);
    deaf.start(&group, "a");
    deaf.secs(1);
    let before = deaf.sim.env().clock.now_ms();
    let report = deaf.sim.run_until(group.stop(Duration::from_secs(30)));
    assert_eq!(report, StopReport { ended: 0, cut: vec!["a".into()] });
    assert!(deaf.sim.env().clock.now_ms() - before <= 30_000);
    deaf.secs(1);
    assert_eq!(deaf.sim.tasks(), 0);
    drop(group);
    let _group = deaf.open();
    deaf.secs(1);
    assert_eq!(deaf.count("a", LineKind::Interrupted), 1, "found at the next open");
}

#[test]
fn a_loop_without_a_new_fact_is_parked_with_both_reasons() {
    let bench = Bench::new(Scripts {
        packing: Script::always([Act::Fail(Failure::invalid_output("always wrong"))]),
        ..Scripts::default()
    });
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(86_400);
    let machine = bench.get("a");
    let parked = machine.parked.unwrap();
    assert!(
        parked.reason.contains("without a new fact") && parked.reason.contains("always wrong"),
        "{parked:?}"
    );
    assert_eq!(machine.record.failures, 8, "counters are no facts");
    let version = machine.version;
    bench.secs(86_400);
    assert_eq!(bench.get("a").version, version, "no writes without end");
    bench.sim.run_until(group.retry_now(&"a".into())).unwrap();
    bench.secs(5);
    assert_eq!(bench.get("a").record.failures, 9);
    bench.check_replay("a");
}

#[test]
fn too_many_events_a_minute_are_delayed_not_dropped() {
    let bench = Bench::new(Scripts::default());
    let mut config = config(&bench.scripts, &bench.ledger);
    config.events_per_minute = 60;
    config.inbox_limit = 1000;
    let group = bench.open_with(config);
    let id = MachineId::from("a");
    bench.sim.run_until(group.create(&id, R::default())).unwrap();
    for n in 0..180 {
        bench.sim.run_until(group.send(&id, E::Add(n))).unwrap();
    }
    bench.sim.run_for(Duration::from_millis(500));
    assert_eq!(bench.get("a").record.numbers.len(), 60);
    assert!(matches!(explain(&bench, &group, "a").blocker, Some(Blocker::RateLimit(_))));
    // A control event does not wait in that queue.
    let before = bench.sim.env().clock.now_ms();
    bench.sim.run_until(group.force(&id, S::New, "test")).unwrap();
    assert!(bench.sim.env().clock.now_ms() - before < 1000);
    bench.secs(121);
    assert_eq!(bench.get("a").record.numbers, (0..180).collect::<Vec<_>>());
}

#[test]
fn progress_is_shown() {
    let progress = Progress { phase: "labels".to_owned(), done: 3, total: 11, unit: "layers".to_owned() };
    let bench = Bench::new(Scripts {
        packing: Script::always([Act::Progress(progress.clone()), Act::Hang]),
        ..Scripts::default()
    });
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(1);
    let explained = explain(&bench, &group, "a");
    assert_eq!((explained.state, explained.progress), ("Packing", Some(progress)));
    let legal: Vec<_> = explained.legal_events.iter().map(|(name, _)| *name).collect();
    assert_eq!(legal, ["Packed", "Unit", "Add", "Again", "Boom", "Remove", "Restart"]);
    assert!(serde_json::to_string(&explain(&bench, &group, "a")).unwrap().contains("layers"));
}

#[test]
fn idle_machines_are_put_away_and_come_back() {
    let bench = Bench::new(Scripts::default());
    let mut config = config(&bench.scripts, &bench.ledger);
    config.keep_loaded = 2;
    let group = bench.open_with(config);
    for n in 0..20 {
        bench.start(&group, &format!("{n:02}"));
    }
    bench.secs(200);
    for n in 0..20 {
        let id = format!("{n:02}");
        assert_eq!(bench.send(&group, &id, E::Again(false)).unwrap().state, S::New, "{id}");
        bench.check_replay(&id);
    }
}

#[test]
fn changes_are_announced_after_their_commit() {
    use futures_util::StreamExt;
    let bench = Bench::new(Scripts::default());
    let group = bench.open();
    let mut changes = group.watch();
    bench.start(&group, "a");
    let states = bench.sim.run_until(async {
        let mut states = Vec::new();
        loop {
            let change = changes.next().await.unwrap();
            let stored = group.get(&change.id).await.unwrap().unwrap();
            assert!(stored.version >= change.version, "announced before it was stored");
            states.push(change.state);
            if change.state == S::Done {
                return states;
            }
        }
    });
    let mut states = states;
    states.dedup();
    assert_eq!(states, [S::New, S::Packing, S::Waiting, S::Working, S::Done]);
}

#[test]
fn retrying_for_an_hour_is_an_alert() {
    let bench = Bench::new(Scripts {
        packing: Script::always([Act::Fail(Failure::transient("network"))]),
        ..Scripts::default()
    });
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(3000);
    assert_eq!(explain(&bench, &group, "a").alerts, [""; 0]);
    bench.secs(1000);
    let alerts = explain(&bench, &group, "a").alerts;
    assert!(alerts.len() == 1 && alerts[0].starts_with("Transient failures for 6"), "{alerts:?}");
    assert!(bench.get("a").parked.is_none(), "no budget unless the map gives one");
}

#[test]
fn a_long_healthy_run_resets_the_count() {
    let bench = Bench::new(Scripts {
        packing: Script::always([
            Act::Sleep(Duration::from_secs(700)),
            Act::Fail(Failure::transient("network")),
        ]),
        ..Scripts::default()
    });
    let group = bench.open();
    bench.start(&group, "a");
    bench.secs(5000);
    assert_eq!(bench.scripts.packing.seen().len(), 8, "each about a second after the last");
    assert_eq!(bench.get("a").failures[&Class::Transient].count, 1);
}

#[test]
fn nobody_waits_for_a_group_that_ended() {
    let bench = Bench::new(Scripts::default());
    let mut config = config(&bench.scripts, &bench.ledger);
    config.events_per_minute = 1;
    let group = bench.open_with(config);
    bench.sim.run_until(group.create(&"a".into(), R::default())).unwrap();
    bench.send(&group, "a", E::Add(1)).unwrap();
    let id = MachineId::from("a");
    let late = group.send_and_wait(&id, E::Add(2));
    let stop = async {
        bench.sim.env().clock.sleep_until(bench.sim.env().clock.now_ms() + 1000).await;
        group.stop(Duration::from_secs(1)).await
    };
    let (answer, _) = bench.sim.run_until(futures_util::future::join(late, stop));
    assert!(matches!(answer, Err(SendError::Gone(_))), "{answer:?}");
    assert_eq!(bench.get("a").record.numbers, [1]);
}
