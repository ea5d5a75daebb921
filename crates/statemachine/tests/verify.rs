//! Each finding of `verify`, by a map that has it; exports and the drawn table (SM-5, SM-6).

mod job;

use job::*;
use statemachine::*;
use std::time::Duration;

/// The findings of the good map with one state's row changed.
fn changed(state: S, row: impl Fn(StateBuilder<Job>) -> StateBuilder<Job>) -> Vec<String> {
    let mut text: Vec<String> = Vec::new();
    // A second row for a state is a finding of its own; it is not what is asked about.
    let map = tiny(move |s| if s.name() == state { row(s) } else { good(s) });
    text.extend(map.build().verify().iter().map(ToString::to_string));
    text
}

fn good(s: StateBuilder<Job>) -> StateBuilder<Job> {
    let reject = || reject("no");
    match s.name() {
        S::New => s.resting().on(K::Start, to(S::Packing)).otherwise(reject()),
        S::Packing => s.step().on(K::Packed, to(S::Waiting)).on(K::Unit, stay()).otherwise(reject()),
        S::Waiting => s.on(K::Landed, to(S::Working)).otherwise(reject()),
        S::Working => s.step().on(K::Worked, to(S::Done)).otherwise(reject()),
        S::Done => s.resting().on(K::Again, to(S::Failed)).otherwise(reject()),
        S::Failed => s.on(K::Tick, to(S::Packing)).otherwise(reject()),
        S::Removing => s.step().on(K::Gone, to(S::Removed)).otherwise(reject()),
        S::Removed => s.final_(),
    }
}

fn senders() -> MapBuilder<Job> {
    PlannerMap::<Job>::builder(S::New)
        .events(Sender::Outside, &[K::Start, K::Add, K::Again, K::Boom])
        .events(Sender::Step, &[K::Packed, K::Unit, K::Worked, K::Gone])
        .events(Sender::Outbox, &[K::Landed, K::Lost])
        .event(K::Tick, Sender::Timer)
        .control(K::Remove, to(S::Removing))
        .control(K::Restart, stay())
        .failures(&[
            (Class::CorruptInput, retry()),
            (Class::InvalidOutput, retry()),
            (Class::Rejected, retry()),
            (Class::Expired, retry()),
            (Class::Permanent, park("nothing")),
        ])
}

fn tiny(row: impl Fn(StateBuilder<Job>) -> StateBuilder<Job>) -> MapBuilder<Job> {
    S::ALL.iter().fold(senders(), |map, state| map.state(*state, &row))
}

#[test]
fn good_maps_have_no_findings() {
    assert_eq!(map().verify(), []);
    assert_eq!(tiny(good).build().verify(), []);
}

#[test]
fn missing_things_are_found() {
    let found = changed(S::Waiting, |s| s.on(K::Landed, to(S::Working)));
    assert!(found.contains(&"Waiting has no rule for Start and no default".to_owned()), "{found:?}");
    let map =
        S::ALL.iter().filter(|s| **s != S::Failed).fold(senders(), |map, state| map.state(*state, good));
    assert!(map.build().verify().contains(&Finding::MissingState { state: "Failed" }));
    let map = S::ALL.iter().fold(PlannerMap::<Job>::builder(S::New), |map, state| map.state(*state, good));
    let found = map.build().verify();
    assert!(found.contains(&Finding::UndeclaredEvent { event: "Start" }), "{found:?}");
    assert!(
        found.contains(&Finding::MissingFailureRule { state: "Packing", class: Class::Expired }),
        "{found:?}"
    );
}

#[test]
fn outcomes_that_are_not_accepted_are_found() {
    let found = changed(S::Packing, |s| good(s).yields(&[K::Packed, K::Unit, K::Gone]));
    assert_eq!(found, ["the step of Packing may send Gone, whose rule there is reject"]);
    let found = changed(S::Packing, |s| good(s).yields(&[K::Packed]));
    assert_eq!(found, ["in Packing Unit is never sent by the step"]);
}

#[test]
fn ways_are_walked_forwards_and_backwards() {
    let found = changed(S::Done, |s| s.resting().otherwise(reject("no")));
    assert_eq!(found, ["nothing leads to Failed"]);
    let found = changed(S::Working, |s| s.step().on(K::Worked, to(S::Waiting)).otherwise(reject("no")));
    for state in ["Waiting", "Working", "Packing"] {
        let text = format!("no way leads from {state} to a final or resting state");
        assert!(found.contains(&text), "{state}: {found:?}");
    }
    // A failure with a budget is a way, one without end is not.
    let spent =
        |s: StateBuilder<Job>| s.step().spent(to(S::Done)).otherwise(reject("no")).on(K::Worked, stay());
    let found = changed(S::Working, |s| spent(s).retry(RetryPolicy::budget(3)));
    assert!(found.iter().all(|text| !text.contains("no way")), "{found:?}");
}

#[test]
fn states_that_wait_for_nothing_are_found() {
    let found = changed(S::Waiting, |s| s.on(K::Again, to(S::Working)).otherwise(reject("no")));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("Waiting neither rests nor ends"), "{found:?}");
}

#[test]
fn rules_that_never_fire_are_found() {
    let found = changed(S::Waiting, |s| {
        good(s)
            .on(K::Worked, to(S::Done))
            .needs("gpu", 1)
            .fail(Class::Expired, retry())
            .spent(park("x"))
            .limits(Some(Duration::from_secs(1)), None)
    });
    let expected = [
        "a spent budget has a rule",
        "a time limit is set",
        "failures of the class Expired have a rule",
        "resources are needed",
        "Worked, sent by steps, has the rule to",
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for what in expected {
        assert!(found.contains(&format!("in Waiting {what}, without a step")), "{what}: {found:?}");
    }
}

#[test]
fn misplaced_and_doubled_rules_are_found() {
    let one = |row: fn(StateBuilder<Job>) -> StateBuilder<Job>, state| {
        let found = changed(state, row);
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].clone()
    };
    assert_eq!(
        one(|s| good(s).on(K::Add, retry()), S::Packing),
        "in Packing the rule of Add is retry, a rule for failures"
    );
    assert_eq!(
        one(|s| good(s).fail(Class::Expired, stay()), S::Packing),
        "in Packing the failure class Expired is stay, a rule for events"
    );
    assert_eq!(
        one(|s| good(s).on(K::Add, to(S::New)), S::Removed),
        "in Removed Add leads out of a final state"
    );
    assert_eq!(
        one(|s| good(s).on(K::Add, one_of(&[], |_, _| S::New)), S::Packing),
        "in Packing the rule of Add lists no state"
    );
    assert_eq!(
        one(|s| good(s).on(K::Add, ignore("x").apply(|_, _, _| {})), S::Packing),
        "in Packing the rule of Add is ignore and has an apply, which is never called"
    );
    assert_eq!(one(|s| good(s).on(K::Unit, stay()), S::Packing), "in Packing the event Unit is there twice");
    assert_eq!(
        one(|s| good(s).spent(retry()), S::Packing),
        "in Packing the rule for a spent budget is retry"
    );
    assert_eq!(
        one(|s| good(s).otherwise(to(S::New)), S::Done),
        "in Done the default is to, not reject, ignore or defer"
    );
    let found = tiny(good).state(S::New, good).build().verify();
    assert_eq!(found, [Finding::Twice { state: Some("New"), what: "the state's row".to_owned() }]);
    let found = tiny(good).event(K::Start, Sender::Timer).build().verify();
    assert!(
        found.iter().any(|f| f.to_string() == "in all states the sender of Start is there twice"),
        "{found:?}"
    );
    let found = tiny(good).control(K::Gone, defer()).build().verify();
    assert!(
        found.iter().any(|f| f.to_string() == "in all states the control event Gone is deferred"),
        "{found:?}"
    );
}

#[test]
fn a_group_refuses_what_does_not_fit() {
    let bench = Bench::new(Scripts::default());
    let open = |config| {
        let store = std::sync::Arc::new(bench.store.clone());
        bench.sim.run_until(Group::<Job>::open(store, bench.sim.env(), config)).err().unwrap().to_string()
    };
    let wrong = GroupConfig::new(tiny(good).state(S::New, good).build());
    assert!(open(wrong).contains("1 findings; the first: in New the state's row is there twice"));
    let mut none = config(&bench.scripts, &bench.ledger);
    none.steps = Steps::new();
    assert!(open(none).contains("the state Packing has a step, and none was given"));
    let mut poor = config(&bench.scripts, &bench.ledger);
    poor.resources = vec![("packer".to_owned(), 0)];
    assert!(open(poor).contains("needs 1 of \"packer\", there are 0"));
    let twice = config(&bench.scripts, &bench.ledger).effect("post", bench.ledger.clone());
    assert!(open(twice).contains("two handlers"));
    let extra = config(&bench.scripts, &bench.ledger).step(S::Done, bench.scripts.working.clone());
    assert!(open(extra).contains("a step was given for Done, which has none"));
}

#[test]
fn defaults_are_listed() {
    let defaulted = map().defaulted();
    assert!(defaulted.contains(&(S::Waiting, K::Start, "reject")));
    assert!(defaulted.contains(&(S::Removed, K::Remove, "ignore")));
    assert!(!defaulted.iter().any(|(state, kind, _)| (*state, *kind) == (S::New, K::Start)));
}

#[test]
fn the_drawings_show_the_table() {
    let map = map();
    let mermaid = map.mermaid();
    for line in [
        "stateDiagram-v2",
        "    [*] --> New",
        "    New --> Packing : Start",
        "    Packing --> Failed : fail CorruptInput, fail InvalidOutput, fail Rejected, fail Expired",
        "    any --> Removing : Remove",
        "    Done --> New : Again, Boom",
        "    Removed --> [*]",
    ] {
        assert!(mermaid.lines().any(|l| l == line), "{line:?} is not in\n{mermaid}");
    }
    assert!(map.dot().contains("\"New\" -> \"Packing\" [label=\"Start\"];"), "{}", map.dot());
    let json = map.json();
    let states = json["states"].as_array().unwrap();
    assert_eq!(states.len(), S::ALL.len());
    for state in states {
        assert_eq!(state["rules"].as_array().unwrap().len(), K::ALL.len(), "total: {}", state["name"]);
    }
    assert!(map.table().contains("-> Waiting"));
}
