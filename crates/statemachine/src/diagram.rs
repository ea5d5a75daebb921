//! The map drawn and listed: Mermaid, DOT, JSON, text (SM-6). All four read the same rules that planning uses.

use crate::map::{Origin, PlannerMap, Role};
use crate::retry::millis;
use crate::rule::{Action, Rule};
use crate::{Class, Kind, Machine};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// One arrow of the picture.
struct Arrow<'a> {
    from: Option<&'a str>,
    to: &'a str,
    labels: Vec<String>,
}

/// From, `None` for every state, and to; with the labels.
type Arrows<S> = BTreeMap<(Option<S>, S), Vec<String>>;

impl<M: Machine> PlannerMap<M> {
    /// A Mermaid state diagram. Control events start from a place of their own, `any`, which stands for all states.
    pub fn mermaid(&self) -> String {
        let mut text = String::from("stateDiagram-v2\n");
        let mut line = |args: std::fmt::Arguments<'_>| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "    {args}");
        };
        line(format_args!("[*] --> {}", self.initial.name()));
        let arrows = self.arrows();
        if arrows.iter().any(|arrow| arrow.from.is_none()) {
            line(format_args!("state \"any state\" as any"));
        }
        for arrow in &arrows {
            line(format_args!(
                "{} --> {} : {}",
                arrow.from.unwrap_or("any"),
                arrow.to,
                arrow.labels.join(", ")
            ));
        }
        for (state, spec) in &self.states {
            match spec.role {
                Role::Final => line(format_args!("{} --> [*]", state.name())),
                Role::Resting => line(format_args!("note right of {} : rests", state.name())),
                Role::Active => {}
            }
        }
        text
    }

    /// A Graphviz graph.
    pub fn dot(&self) -> String {
        let mut text =
            format!("digraph {:?} {{\n    rankdir=LR;\n    node [shape=box, style=rounded];\n", M::NAME);
        let mut line = |args: std::fmt::Arguments<'_>| {
            let _ = writeln!(text, "    {args};");
        };
        line(format_args!("start [shape=point]"));
        line(format_args!("start -> {:?}", self.initial.name()));
        for (state, spec) in &self.states {
            let shape = match spec.role {
                Role::Final => "peripheries=2",
                Role::Resting => "style=\"rounded,dashed\"",
                Role::Active if spec.step => "style=\"rounded,bold\"",
                Role::Active => "style=rounded",
            };
            line(format_args!("{:?} [{shape}]", state.name()));
        }
        for arrow in self.arrows() {
            let from = arrow.from.unwrap_or("any state");
            line(format_args!("{from:?} -> {:?} [label={:?}]", arrow.to, arrow.labels.join("\n")));
        }
        text.push_str("}\n");
        text
    }

    /// The whole table with every resolved pair, for other programs.
    pub fn json(&self) -> Value {
        let events: Vec<_> = M::EventKind::ALL
            .iter()
            .map(|kind| {
                let (sender, control) = (self.sender(*kind).name(), self.is_control(*kind));
                json!({ "name": kind.name(), "sender": sender, "control": control })
            })
            .collect();
        let states: Vec<_> = self.states.keys().map(|state| self.state_json(*state)).collect();
        json!({
            "schema": 1,
            "machine": M::NAME,
            "initial": self.initial.name(),
            "events": events,
            "states": states,
        })
    }

    /// The table as text: one line per pair that does not fall to a default, and one per failure class of a step.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for state in self.states.keys() {
            for kind in M::EventKind::ALL {
                if let Some((rule, origin)) = self.rule(*state, *kind)
                    && origin == Origin::Explicit
                {
                    let _ = writeln!(text, "{:<24} {:<28} {}", state.name(), kind.name(), describe(rule));
                }
            }
            if self.has_step(*state) {
                for class in Class::ALL {
                    if let Some(rule) = self.failure_rule(*state, *class) {
                        let what = format!("fail {class}");
                        let _ = writeln!(text, "{:<24} {what:<28} {}", state.name(), describe(&rule));
                    }
                }
            }
        }
        for kind in M::EventKind::ALL {
            if let Some(rule) = self.controls.get(kind) {
                let _ = writeln!(text, "{:<24} {:<28} {}", "(any)", kind.name(), describe(rule));
            }
        }
        text
    }

    fn arrows(&self) -> Vec<Arrow<'static>> {
        let mut arrows: Arrows<M::State> = BTreeMap::new();
        for state in self.states.keys() {
            for kind in M::EventKind::ALL {
                if let Some((rule, Origin::Explicit | Origin::Default)) = self.rule(*state, *kind) {
                    for target in rule.targets() {
                        arrows.entry((Some(*state), *target)).or_default().push(kind.name().to_owned());
                    }
                }
            }
            if self.has_step(*state) {
                for class in Class::ALL {
                    let rule = self.failure_rule(*state, *class);
                    for target in rule.iter().flat_map(Rule::targets) {
                        arrows.entry((Some(*state), *target)).or_default().push(format!("fail {class}"));
                    }
                }
                for target in self.spent_rule(*state).targets() {
                    arrows.entry((Some(*state), *target)).or_default().push("budget spent".to_owned());
                }
            }
        }
        for kind in M::EventKind::ALL {
            for target in self.controls.get(kind).iter().flat_map(|rule| rule.targets()) {
                arrows.entry((None, *target)).or_default().push(kind.name().to_owned());
            }
        }
        arrows
            .into_iter()
            .map(|((from, to), labels)| Arrow { from: from.map(Kind::name), to: to.name(), labels })
            .collect()
    }

    fn state_json(&self, state: M::State) -> Value {
        let rules: Vec<_> = M::EventKind::ALL
            .iter()
            .filter_map(|kind| {
                let (rule, origin) = self.rule(state, *kind)?;
                let origin = match origin {
                    Origin::Explicit => "state",
                    Origin::Control => "control",
                    Origin::Default => "default",
                };
                Some(json!({ "event": kind.name(), "origin": origin, "rule": rule_json(rule) }))
            })
            .collect();
        let step = self.has_step(state);
        let failures: Vec<_> = Class::ALL
            .iter()
            .filter(|_| step)
            .filter_map(|class| {
                let rule = self.failure_rule(state, *class)?;
                let policy = self.retry_policy(state, *class);
                let retry = matches!(rule.action, Action::Retry).then(|| {
                    json!({
                        "first_ms": millis(policy.first),
                        "cap_ms": millis(policy.cap),
                        "budget": policy.budget,
                    })
                });
                Some(json!({ "class": class.name(), "rule": rule_json(&rule), "retry": retry }))
            })
            .collect();
        let role = match self.role(state) {
            Role::Active => "active",
            Role::Resting => "resting",
            Role::Final => "final",
        };
        let (soft_ms, hard_ms) = self.limits_ms(state);
        json!({
            "name": state.name(),
            "role": role,
            "step": step,
            "needs": self.needs(state),
            "soft_limit_ms": soft_ms,
            "hard_limit_ms": hard_ms,
            "rules": rules,
            "failures": failures,
            "spent": step.then(|| rule_json(&self.spent_rule(state))),
        })
    }
}

fn rule_json<M: Machine>(rule: &Rule<M>) -> Value {
    let targets: Vec<_> = rule.targets().iter().map(|state| state.name()).collect();
    json!({ "does": rule.word(), "targets": targets, "text": rule.text() })
}

fn describe<M: Machine>(rule: &Rule<M>) -> String {
    let targets: Vec<_> = rule.targets().iter().map(|state| state.name()).collect();
    match rule.text() {
        Some(text) => format!("{} ({text})", rule.word()),
        None if targets.is_empty() => rule.word().to_owned(),
        None => format!("-> {}", targets.join(" | ")),
    }
}
