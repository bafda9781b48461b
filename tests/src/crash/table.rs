//! The outcome as a table, for people and for the document. It must never know how it came about.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context;

use super::plan::{Cell, Operation};
use super::{Report, plan};

/// Where the document's table begins and ends.
const MARKS: (&str, &str) = ("<!-- crash-matrix: begin -->", "<!-- crash-matrix: end -->");

/// How often one step was killed under one behaviour, over all stores.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    killed: u32,
    passed_by: u32,
    failed: u32,
}

impl Count {
    fn text(self) -> String {
        match self {
            Self { failed: 1.., .. } => format!("**{} wrong**", self.failed),
            Self { killed: 0, passed_by: 0, .. } => String::new(),
            Self { killed: 0, .. } => "·".to_owned(),
            Self { killed, .. } => killed.to_string(),
        }
    }
}

/// All tables as Markdown: one for each operation, with a row for each step and a column for each behaviour.
pub fn markdown(report: &Report) -> String {
    let mut text = String::new();
    let mut names: Vec<&str> = Vec::new();
    for name in &report.behaviours {
        names.push(name);
    }
    let _ = writeln!(text, "Behaviours, by the numbers of the columns:\n");
    let numbered: Vec<_> =
        names.iter().enumerate().map(|(number, name)| format!("{number} `{name}`")).collect();
    let _ = writeln!(text, "{}.", numbered.join(", "));
    for operation in Operation::ALL {
        let counts = counts(report, operation);
        if counts.is_empty() {
            continue;
        }
        let met: Vec<_> = names
            .iter()
            .enumerate()
            .filter(|(_, name)| counts.keys().any(|(_, behaviour)| behaviour == *name))
            .collect();
        let _ = writeln!(text, "\n#### {}\n", title(operation));
        let heads: Vec<_> = met.iter().map(|(number, _)| number.to_string()).collect();
        let _ = writeln!(text, "| Killed at | {} |", heads.join(" | "));
        let _ = writeln!(text, "|---|{}", "---|".repeat(met.len()));
        for step in plan::passed(operation, &report.steps) {
            let row: Vec<_> = met
                .iter()
                .map(|(_, name)| counts.get(&(step.as_str(), **name)).copied().unwrap_or_default().text())
                .collect();
            let _ = writeln!(text, "| `{step}` | {} |", row.join(" | "));
        }
    }
    text
}

const fn title(operation: Operation) -> &'static str {
    match operation {
        Operation::Withdrawal => "Withdrawals",
        Operation::Refund => "Refunds",
        Operation::Charge => "Charges",
        Operation::Payment => "Payments of a charge",
    }
}

fn counts(report: &Report, operation: Operation) -> BTreeMap<(&str, &str), Count> {
    let mut counts: BTreeMap<(&str, &str), Count> = BTreeMap::new();
    for (cell, outcome) in &report.outcomes {
        if cell.operation != operation {
            continue;
        }
        let count = counts.entry((&cell.step, &cell.behaviour)).or_default();
        match outcome {
            Ok(outcome) if outcome.problems.is_empty() && outcome.killed => count.killed += 1,
            Ok(outcome) if outcome.problems.is_empty() => count.passed_by += 1,
            _ => count.failed += 1,
        }
    }
    counts
}

/// What the whole came to, in one sentence, and every problem with the command that shows it.
pub fn summary(report: &Report) -> String {
    let killed =
        report.outcomes.iter().filter(|(_, outcome)| outcome.as_ref().is_ok_and(|it| it.killed)).count();
    let mut text = format!(
        "{} cells (seed {}): the gateway was killed in {killed}; in {} the step was not reached; {} are wrong",
        report.outcomes.len(),
        report.seed,
        report.outcomes.len() - killed,
        report.wrong().count(),
    );
    for (cell, outcome) in report.wrong() {
        let _ = write!(text, "\n\n{}", repeat(cell, report.seed));
        match outcome {
            Ok(outcome) => {
                for problem in &outcome.problems {
                    let _ = write!(text, "\n  {}: {}", problem.wrong, problem.what);
                }
            }
            Err(error) => {
                let _ = write!(text, "\n  the harness failed: {error:#}");
            }
        }
    }
    for (operation, step) in report.never_reached() {
        let _ = write!(text, "\nnever reached: {step} in a {}", operation.name());
    }
    text
}

fn repeat(cell: &Cell, seed: u64) -> String {
    format!("make crash-matrix MATRIX='--seed {seed} --only {}'", cell.name())
}

/// The document with the table between its marks.
pub fn within(document: &str, report: &Report, made_by: &str) -> anyhow::Result<String> {
    let (before, rest) = document.split_once(MARKS.0).context("the document has no mark for the table")?;
    let (_, after) = rest.split_once(MARKS.1).context("the document has no mark for the table's end")?;
    let first = summary(report);
    let first = first.lines().next().unwrap_or_default();
    Ok(format!("{before}{}\n\n{made_by}\n\n{first}.\n\n{}\n{}{after}", MARKS.0, markdown(report), MARKS.1))
}
