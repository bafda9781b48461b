//! What is attached: which scenario meets which call. It owns the rules, their order and their chance; it must never
//! know what a scenario does.
//!
//! A call takes, for each [`Part`], the first rule that fits, in the order in which they were attached. A rule's chance
//! is drawn from its own seed, once for each call that fits the rest of it, in the order of the calls: the same seed
//! and the same order choose the same calls.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{
    scenario::{Operation, Parameters, Part, Scenario, word},
    wire::Refusal,
};

/// Rules attached at the same time.
const MAX_RULES: usize = 10_000;
/// The longest reference of a rule, in bytes.
const MAX_REFERENCE: usize = 480;
const MAX_PERCENT: u8 = 100;

/// Which calls a rule is for: all that is given must fit, and one of `reference`, `next` and `percent` must be given.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct On {
    /// Calls about this transaction: its `external_id`, or the provider's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// This many calls, then no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
    /// This share of the calls: 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// What the share is drawn from; 0 when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// A scenario and the calls it is for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioRule {
    /// What happens.
    pub scenario: Scenario,
    /// To which calls.
    pub on: On,
    /// Of which operation.
    #[serde(default)]
    pub operation: Operation,
    /// How; what is left out has its default.
    #[serde(default)]
    pub parameters: Parameters,
}

impl ScenarioRule {
    /// `scenario` for the next `calls` calls of any operation it knows.
    pub fn next(scenario: Scenario, calls: u32) -> Self {
        Self::on(scenario, On { next: Some(calls), ..On::default() })
    }

    /// `scenario` for every call about a transaction.
    pub fn about(scenario: Scenario, reference: impl Into<String>) -> Self {
        Self::on(scenario, On { reference: Some(reference.into()), ..On::default() })
    }

    /// `scenario` for a share of all calls.
    pub fn share(scenario: Scenario, percent: u8, seed: u64) -> Self {
        Self::on(scenario, On { percent: Some(percent), seed: Some(seed), ..On::default() })
    }

    /// `scenario` for these calls.
    pub fn on(scenario: Scenario, on: On) -> Self {
        Self { scenario, on, operation: Operation::Any, parameters: Parameters::default() }
    }

    /// The same for one operation only.
    #[must_use]
    pub fn of(self, operation: Operation) -> Self {
        Self { operation, ..self }
    }

    /// The same with these parameters.
    #[must_use]
    pub fn with(self, parameters: Parameters) -> Self {
        Self { parameters, ..self }
    }

    /// The same with a delay.
    #[must_use]
    pub fn seconds(mut self, seconds: f64) -> Self {
        self.parameters.seconds = Some(seconds);
        self
    }

    fn check(&mut self) -> Result<(), Refusal> {
        let refuse = |message: String| Err(Refusal::invalid("invalid_scenario", message));
        let (info, on) = (self.scenario.info(), &self.on);
        if self.operation != Operation::Any && !info.operations.contains(&self.operation) {
            let known: Vec<_> = info.operations.iter().map(word).collect();
            return refuse(format!(
                "{} cannot be attached to {}; it can to: {}, any",
                self.scenario.name(),
                word(&self.operation),
                known.join(", ")
            ));
        }
        if on.reference.is_none() && on.next.is_none() && on.percent.is_none() {
            return refuse("on must have reference, next or percent (with seed)".to_owned());
        }
        if on.reference.as_ref().is_some_and(|text| text.is_empty() || text.len() > MAX_REFERENCE) {
            return refuse(format!("on.reference must be 1 to {MAX_REFERENCE} bytes"));
        }
        if on.reference.is_some() && self.operation == Operation::Token {
            return refuse("a token request has no reference; use next or percent".to_owned());
        }
        if on.next == Some(0) {
            return refuse("on.next must be at least 1".to_owned());
        }
        if on.percent.is_some_and(|percent| !(1..=MAX_PERCENT).contains(&percent)) {
            return refuse(format!("on.percent must be from 1 to {MAX_PERCENT}"));
        }
        if on.seed.is_some() && on.percent.is_none() {
            return refuse("on.seed goes with on.percent".to_owned());
        }
        self.parameters = self.scenario.complete(&self.parameters)?;
        Ok(())
    }
}

/// A rule that is attached.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Attached {
    /// Its number, to take it off again.
    pub id: u64,
    /// The rule, every parameter filled in.
    #[serde(flatten)]
    pub rule: ScenarioRule,
    /// How many calls it has met.
    pub hits: u32,
}

/// What a call is about.
pub(crate) struct Subject<'a> {
    pub(crate) operation: Operation,
    /// Every id the transaction is known by.
    pub(crate) names: &'a [String],
}

/// A scenario that a call has met.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Met {
    pub(crate) scenario: Scenario,
    pub(crate) parameters: Parameters,
}

struct Rule {
    attached: Attached,
    chance: Chance,
    /// For the scenario that counts by transaction: how often each was met.
    met: HashMap<String, u32>,
}

/// Every rule. See the module.
#[derive(Default)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    last_id: u64,
}

impl Rules {
    pub(crate) fn attach(&mut self, mut rule: ScenarioRule) -> Result<Attached, Refusal> {
        rule.check()?;
        if self.rules.len() >= MAX_RULES {
            self.rules.retain(|rule| !rule.is_spent());
        }
        if self.rules.len() >= MAX_RULES {
            return Err(Refusal::conflict("too_many_scenarios", "take some off first"));
        }
        self.last_id += 1;
        let chance = Chance(rule.on.seed.unwrap_or_default());
        let attached = Attached { id: self.last_id, rule, hits: 0 };
        self.rules.push(Rule { attached: attached.clone(), chance, met: HashMap::new() });
        Ok(attached)
    }

    pub(crate) fn list(&self) -> Vec<Attached> {
        self.rules.iter().map(|rule| rule.attached.clone()).collect()
    }

    pub(crate) fn detach(&mut self, id: u64) -> Result<(), Refusal> {
        let before = self.rules.len();
        self.rules.retain(|rule| rule.attached.id != id);
        if self.rules.len() == before {
            return Err(Refusal::not_found("no scenario of this id is attached"));
        }
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// What meets this call in this part of it.
    pub(crate) fn meet(&mut self, part: Part, subject: &Subject<'_>) -> Option<Met> {
        self.rules.iter_mut().find_map(|rule| rule.meet(part, subject))
    }
}

impl Rule {
    fn is_spent(&self) -> bool {
        self.attached.rule.on.next.is_some_and(|calls| self.attached.hits >= calls)
    }

    fn meet(&mut self, part: Part, subject: &Subject<'_>) -> Option<Met> {
        let ScenarioRule { scenario, on, operation, parameters } = &self.attached.rule;
        let info = scenario.info();
        let fits = info.part == part
            && info.operations.contains(&subject.operation)
            && (*operation == Operation::Any || *operation == subject.operation)
            && on.reference.as_ref().is_none_or(|reference| subject.names.contains(reference));
        if !fits || self.is_spent() || on.percent.is_some_and(|percent| !self.chance.takes(percent)) {
            return None;
        }
        if *scenario == Scenario::NotFoundThenFound {
            let met = self.met.entry(subject.names.first().cloned().unwrap_or_default()).or_default();
            if *met >= parameters.times.unwrap_or_default() {
                return None;
            }
            *met += 1;
        }
        let met = Met { scenario: *scenario, parameters: parameters.clone() };
        self.attached.hits = self.attached.hits.saturating_add(1);
        Some(met)
    }
}

/// `SplitMix64` (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
struct Chance(u64);

impl Chance {
    fn takes(&mut self, percent: u8) -> bool {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % 100 < u64::from(percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(attached: impl IntoIterator<Item = ScenarioRule>) -> Rules {
        let mut rules = Rules::default();
        for rule in attached {
            rules.attach(rule).unwrap();
        }
        rules
    }

    fn meet(rules: &mut Rules, operation: Operation, name: &str) -> Option<Scenario> {
        let names = [name.to_owned()];
        rules.meet(Part::Answer, &Subject { operation, names: &names }).map(|met| met.scenario)
    }

    #[test]
    fn the_first_rule_that_fits_meets_a_call_as_often_as_it_says() {
        let mut rules = rules([
            ScenarioRule::about(Scenario::EmptyAnswer, "a").of(Operation::Payment),
            ScenarioRule::next(Scenario::Unauthorized, 2),
            ScenarioRule::next(Scenario::Refused, 1),
        ]);
        assert_eq!(meet(&mut rules, Operation::Payment, "a"), Some(Scenario::EmptyAnswer));
        assert_eq!(meet(&mut rules, Operation::Refund, "a"), Some(Scenario::Unauthorized));
        assert_eq!(meet(&mut rules, Operation::Token, ""), Some(Scenario::Unauthorized));
        assert_eq!(meet(&mut rules, Operation::Token, ""), None, "refused is nothing for a token");
        assert_eq!(meet(&mut rules, Operation::Payment, "b"), Some(Scenario::Refused));
        assert_eq!(meet(&mut rules, Operation::Payment, "b"), None);
        let hits: Vec<_> = rules.list().iter().map(|attached| attached.hits).collect();
        assert_eq!(hits, [1, 2, 1]);
    }

    #[test]
    fn a_share_is_the_same_calls_for_the_same_seed() {
        let chosen = |seed| {
            let mut rules = rules([ScenarioRule::share(Scenario::ServerError, 20, seed)]);
            (0..1_000).filter(|_| meet(&mut rules, Operation::Payment, "a").is_some()).collect::<Vec<_>>()
        };
        assert_eq!(chosen(1), chosen(1));
        assert_ne!(chosen(1), chosen(2));
        assert!((150..250).contains(&chosen(1).len()), "{}", chosen(1).len());
        let mut all = rules([ScenarioRule::share(Scenario::ServerError, 100, 9)]);
        assert!((0..100).all(|_| meet(&mut all, Operation::Charge, "a").is_some()));
    }

    #[test]
    fn not_found_is_counted_for_each_transaction() {
        let mut rules = rules([ScenarioRule::share(Scenario::NotFoundThenFound, 100, 0)]);
        for name in ["a", "b", "a", "b"] {
            assert!(meet(&mut rules, Operation::Consult, name).is_some(), "{name}");
        }
        assert_eq!(meet(&mut rules, Operation::Consult, "a"), None);
    }

    #[test]
    fn an_unusable_rule_is_refused_in_words() {
        let refused = |rule: ScenarioRule| Rules::default().attach(rule).unwrap_err().message;
        let on = |on: On| ScenarioRule::on(Scenario::NeverAnswers, on);
        assert_eq!(
            refused(ScenarioRule::next(Scenario::CallbackLate, 1).of(Operation::Consult)),
            "callback_late cannot be attached to consult; it can to: charge, payment, refund, any"
        );
        assert_eq!(refused(on(On::default())), "on must have reference, next or percent (with seed)");
        assert_eq!(refused(ScenarioRule::next(Scenario::Refused, 0)), "on.next must be at least 1");
        assert_eq!(
            refused(ScenarioRule::share(Scenario::Refused, 101, 0)),
            "on.percent must be from 1 to 100"
        );
        let seed_only = On { seed: Some(1), next: Some(1), ..On::default() };
        assert_eq!(refused(on(seed_only)), "on.seed goes with on.percent");
        let token = ScenarioRule::about(Scenario::NeverAnswers, "a").of(Operation::Token);
        assert_eq!(refused(token), "a token request has no reference; use next or percent");
    }

    #[test]
    fn spent_rules_make_room() {
        let mut rules = rules((0..MAX_RULES).map(|_| ScenarioRule::next(Scenario::EmptyAnswer, 1)));
        let one_more = || ScenarioRule::next(Scenario::EmptyAnswer, 1);
        assert_eq!(rules.attach(one_more()).unwrap_err().code, "too_many_scenarios");
        assert!(meet(&mut rules, Operation::Charge, "a").is_some());
        rules.attach(one_more()).unwrap();
    }
}
