//! Which cells there are. It owns what is data of the matrix: which steps an operation can reach, to what a behaviour is
//! attached, and what is expected not to happen; it must never know how a cell is run.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{Database, text};

/// What a client, or the world, does while the gateway is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// A client sends money.
    Withdrawal,
    /// A client sends money of a charge back.
    Refund,
    /// A client makes a charge, and it is paid when all is well again.
    Charge,
    /// Somebody pays a charge that was made before.
    Payment,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Withdrawal, Self::Refund, Self::Charge, Self::Payment];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Withdrawal => "withdrawal",
            Self::Refund => "refund",
            Self::Charge => "charge",
            Self::Payment => "payment",
        }
    }

    /// The steps that it passes, without their sides.
    const fn steps(self) -> &'static [&'static str] {
        match self {
            Self::Withdrawal => &[
                "withdrawal.created",
                "withdrawal.queued",
                "withdrawal.submitting",
                "withdrawal.accepted",
                "withdrawal.uncertain",
                "withdrawal.needs_review",
                "withdrawal.completed",
                "withdrawal.failed",
                "withdrawal.returned",
                "provider.send_payment",
                "provider.consult_payment",
                "evidence",
                "follow_up.claim",
                "follow_up.postpone",
                "callback.keep",
                "callback.claim",
                "callback.put",
            ],
            Self::Refund => &[
                "refund.created",
                "refund.queued",
                "refund.submitting",
                "refund.accepted",
                "refund.uncertain",
                "refund.needs_review",
                "refund.completed",
                "refund.failed",
                "provider.refund",
                "provider.consult_refund",
                "evidence",
                "follow_up.claim",
                "follow_up.postpone",
                "callback.keep",
                "callback.claim",
                "callback.put",
            ],
            Self::Charge => &[
                "charge.creating",
                "charge.pending",
                "charge.failed",
                "charge.expired",
                "charge.canceled",
                "provider.create_charge",
                "provider.consult_charge",
                "follow_up.claim",
                "follow_up.postpone",
            ],
            Self::Payment => &[
                "charge.paid",
                "charge.paid_again",
                "provider.consult_charge",
                "follow_up.claim",
                "follow_up.postpone",
                "callback.keep",
                "callback.claim",
                "callback.put",
            ],
        }
    }
}

/// Steps that no operation of the matrix passes, and why. Whatever else the program lists must be in one of them.
pub const IN_NO_OPERATION: &[(&str, &str)] = &[
    ("withdrawal.canceled", "no request cancels a withdrawal yet"),
    ("charge.taken_back", "the provider sends money back by force on command only"),
    ("withdrawal.settled_late", "nothing is called failed that may still leave, unless by a wrong decision"),
    (
        "finding",
        "a finding without a change of a record comes of a provider that contradicts itself for good",
    ),
];

/// A behaviour with which each step is reached: what the short form runs. What isn't here is reached with [`WELL`].
const REACHED_WITH: &[(&str, &str)] = &[
    ("withdrawal.queued", "unauthorized"),
    ("withdrawal.submitting", "unauthorized"),
    ("withdrawal.uncertain", "executes_then_resets"),
    ("withdrawal.needs_review", "precautionary_hold"),
    ("withdrawal.failed", "refused"),
    ("withdrawal.returned", "returned_after_completion"),
    ("provider.consult_payment", "executes_then_never_answers"),
    ("refund.queued", "unauthorized"),
    ("refund.submitting", "unauthorized"),
    ("refund.accepted", "precautionary_hold"),
    ("refund.uncertain", "server_error"),
    ("refund.needs_review", "precautionary_hold"),
    ("refund.failed", "refused"),
    ("provider.consult_refund", "malformed_answer"),
    ("charge.creating", "never_answers"),
    ("charge.failed", "refused"),
    ("evidence", "callback_late"),
    ("follow_up.claim", "server_error"),
    ("follow_up.postpone", "server_error"),
    ("callback.claim", "not_found_then_found"),
];

/// What a provider does to which nothing is attached.
pub const WELL: &str = "as_it_should";

/// One way in which the provider behaves, as its catalogue has it.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// Its name.
    pub name: String,
    part: String,
    operations: Vec<String>,
}

impl Behaviour {
    /// All that the simulator's catalogue lists, after [`WELL`].
    pub fn all(catalogue: &Value) -> anyhow::Result<Vec<Self>> {
        let mut all = vec![Self { name: WELL.to_owned(), part: String::new(), operations: Vec::new() }];
        for scenario in catalogue.as_array().context("the catalogue is no list")? {
            let operations = scenario.get("operations").and_then(Value::as_array);
            let operations = operations.into_iter().flatten().filter_map(Value::as_str);
            all.push(Self {
                name: text(scenario, "/name")?,
                part: text(scenario, "/part")?,
                operations: operations.map(str::to_owned).collect(),
            });
        }
        Ok(all)
    }

    fn knows(&self, call: &str) -> bool {
        self.operations.iter().any(|known| known == call)
    }

    /// To which calls it is attached while an operation is on; none when it has nothing to do with it.
    fn calls(&self, operation: Operation, everywhere: bool) -> Option<Vec<&'static str>> {
        let told = matches!(self.part.as_str(), "callback" | "forgery");
        let own = match operation {
            Operation::Withdrawal => "payment",
            Operation::Refund => "refund",
            // The callback of a charge is that of its payment, which comes when all is well again.
            Operation::Charge if told => return None,
            Operation::Charge => "charge",
            Operation::Payment if told => "charge",
            Operation::Payment => "consult",
        };
        if self.name == WELL {
            return Some(Vec::new());
        }
        let mut calls: Vec<_> = [own].into_iter().filter(|call| self.knows(call)).collect();
        if (calls.is_empty() || everywhere)
            && self.part == "answer"
            && own != "consult"
            && self.knows("consult")
        {
            calls.push("consult");
        }
        (!calls.is_empty()).then_some(calls)
    }
}

/// One cell: an operation, the step at which the gateway is killed, how the provider behaves, and the store.
#[derive(Debug, Clone)]
pub struct Cell {
    /// What is done.
    pub operation: Operation,
    /// At which step the gateway is killed.
    pub step: String,
    /// How the provider behaves until it is healed.
    pub behaviour: String,
    /// Where the records are.
    pub store: Database,
    /// What is attached: bodies for `POST /sim/scenarios`.
    pub rules: Vec<Value>,
}

impl Cell {
    /// Its name, which `--only` takes.
    pub fn name(&self) -> String {
        let store = store_name(self.store);
        format!("{}/{}/{}/{store}", self.operation.name(), self.step, self.behaviour)
    }

    /// The step without its side.
    pub fn base(&self) -> &str {
        self.step.split_once(':').map_or(&self.step, |(base, _)| base)
    }
}

/// A store's name.
pub const fn store_name(store: Database) -> &'static str {
    match store {
        Database::Sqlite => "sqlite",
        Database::Postgres => "postgres",
    }
}

/// Which cells are wanted.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// What the order, and what a cell leaves open, are drawn from.
    pub seed: u64,
    /// At most so many, of all there are.
    pub cells: Option<usize>,
    /// On which stores.
    pub stores: Vec<Database>,
    /// Only those whose name has this in it.
    pub only: Option<String>,
}

/// Every cell there is, in the order of the seed.
pub fn cells(steps: &[String], behaviours: &[Behaviour], wanted: &Wanted) -> anyhow::Result<Vec<Cell>> {
    check(steps)?;
    let mut cells = Vec::new();
    for store in &wanted.stores {
        for operation in Operation::ALL {
            for step in passed(operation, steps) {
                for behaviour in behaviours {
                    cells.extend(cell(operation, step, behaviour, *store, wanted.seed));
                }
            }
        }
    }
    if let Some(only) = &wanted.only {
        cells.retain(|cell| cell.name().contains(only.as_str()));
    }
    fastrand::Rng::with_seed(wanted.seed).shuffle(&mut cells);
    cells.truncate(wanted.cells.unwrap_or(usize::MAX));
    ensure!(!cells.is_empty(), "no cell is called so");
    Ok(cells)
}

/// The short form: every step once, with the behaviour that reaches it, on SQLite; and one of each operation on
/// PostgreSQL.
pub fn short(steps: &[String], behaviours: &[Behaviour], seed: u64) -> anyhow::Result<Vec<Cell>> {
    check(steps)?;
    let reached: BTreeMap<_, _> = REACHED_WITH.iter().copied().collect();
    let mut cells = Vec::new();
    let mut covered = Vec::new();
    for operation in Operation::ALL {
        let steps = passed(operation, steps);
        for (number, step) in steps.into_iter().enumerate() {
            let base = step.split_once(':').map_or(step.as_str(), |(base, _)| base);
            let name = reached.get(base).copied().unwrap_or(WELL);
            let behaviour = behaviours.iter().find(|behaviour| behaviour.name == name);
            let behaviour = behaviour.with_context(|| format!("the simulator has no {name}"))?;
            let on = |store| cell(operation, step, behaviour, store, seed);
            if number == 1 {
                cells.extend(on(Database::Postgres));
            }
            if !covered.contains(step) {
                covered.push(step.clone());
                cells.push(
                    on(Database::Sqlite).with_context(|| format!("{step} is not reached with {name}"))?,
                );
            }
        }
    }
    Ok(cells)
}

/// Whether every step of the program is in an operation or known to be in none, and the other way round.
fn check(steps: &[String]) -> anyhow::Result<()> {
    for step in steps {
        let base = step.split_once(':').map_or(step.as_str(), |(base, _)| base);
        let passed = Operation::ALL.iter().any(|operation| operation.steps().contains(&base));
        let excused = IN_NO_OPERATION.iter().any(|(name, _)| *name == base);
        ensure!(passed != excused, "{step} must be a step of an operation, or of none with a reason");
    }
    for base in Operation::ALL.iter().flat_map(|operation| operation.steps()) {
        ensure!(
            steps.iter().any(|step| step.starts_with(&format!("{base}:"))),
            "the program has no step {base}"
        );
    }
    Ok(())
}

/// The steps of an operation, with their sides, in the order of the operation's table.
pub fn passed(operation: Operation, steps: &[String]) -> Vec<&String> {
    let of = |base: &'static str| {
        steps.iter().filter(move |step| step.split_once(':').is_some_and(|(name, _)| name == base))
    };
    operation.steps().iter().flat_map(|base| of(base)).collect()
}

fn cell(operation: Operation, step: &str, behaviour: &Behaviour, store: Database, seed: u64) -> Option<Cell> {
    let mut cell = Cell {
        operation,
        step: step.to_owned(),
        behaviour: behaviour.name.clone(),
        store,
        rules: Vec::new(),
    };
    // FNV-1a of the name: what is drawn for a cell does not depend on which others are run.
    let number = cell.name().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut random = fastrand::Rng::with_seed(seed ^ number);
    let everywhere = random.u8(0..3) == 0;
    let settles = cell.base().ends_with(".needs_review") || random.bool();
    let calls = behaviour.calls(operation, everywhere)?;
    cell.rules = calls
        .into_iter()
        .map(|call| {
            let parameters = match behaviour.name.as_str() {
                // Sooner than "not known" is proof, as whoever sets that promises.
                "executes_late" => json!({"seconds": 20}),
                "precautionary_hold" if cell.base().ends_with(".needs_review") => json!({"seconds": 7200}),
                "precautionary_hold" => json!({"then": if settles { "settle" } else { "reject" }}),
                _ => json!({}),
            };
            json!({"scenario": behaviour.name, "on": {"percent": 100}, "operation": call, "parameters": parameters})
        })
        .collect();
    Some(cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behaviour(name: &str, part: &str, operations: &[&str]) -> Behaviour {
        let operations = operations.iter().map(|call| (*call).to_owned()).collect();
        Behaviour { name: name.to_owned(), part: part.to_owned(), operations }
    }

    #[test]
    fn a_step_that_no_operation_passes_is_refused_until_there_is_a_reason() {
        let known = || {
            let passed = Operation::ALL.into_iter().flat_map(Operation::steps).copied();
            passed.chain(IN_NO_OPERATION.iter().map(|(base, _)| *base)).map(|base| format!("{base}:after"))
        };
        assert!(check(&known().collect::<Vec<_>>()).is_ok());
        let new = known().chain(["charge.haunted:after".to_owned()]).collect::<Vec<_>>();
        assert!(check(&new).unwrap_err().to_string().contains("charge.haunted"));
        let gone = known().filter(|step| step != "refund.queued:after").collect::<Vec<_>>();
        assert!(check(&gone).unwrap_err().to_string().contains("refund.queued"));
    }

    #[test]
    fn a_behaviour_is_attached_to_what_the_operation_calls() {
        let answer = behaviour("server_error", "answer", &["charge", "payment", "refund", "consult"]);
        assert_eq!(answer.calls(Operation::Refund, false).unwrap(), ["refund"]);
        assert_eq!(answer.calls(Operation::Refund, true).unwrap(), ["refund", "consult"]);
        assert_eq!(answer.calls(Operation::Payment, false).unwrap(), ["consult"]);
        let asked = behaviour("not_found_then_found", "answer", &["consult"]);
        assert_eq!(asked.calls(Operation::Withdrawal, false).unwrap(), ["consult"]);
        let told = behaviour("callback_never", "callback", &["charge", "payment", "refund"]);
        assert_eq!(told.calls(Operation::Payment, true).unwrap(), ["charge"]);
        assert_eq!(told.calls(Operation::Charge, false), None);
        let held = behaviour("precautionary_hold", "fate", &["payment", "refund"]);
        assert_eq!(held.calls(Operation::Payment, true), None);
    }

    #[test]
    fn the_same_seed_draws_the_same_cell_whatever_else_is_run() {
        let all = [behaviour("server_error", "answer", &["payment", "consult"])];
        let drawn =
            |seed| cell(Operation::Withdrawal, "withdrawal.created:after", &all[0], Database::Sqlite, seed);
        let rules = |seed| drawn(seed).unwrap().rules;
        assert_eq!(rules(1), rules(1));
        assert!((0..20).any(|seed| rules(seed) != rules(1)));
    }
}
