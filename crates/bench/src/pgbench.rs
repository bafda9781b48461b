//! The limit of the database itself: `pgbench` executing the statement that the store executes.
//!
//! The statement is not written here again. A store does the command once, for a sample slot, on a database that logs its
//! statements; what the server logged, text and values, becomes the script. The values that follow from the slot become
//! expressions over it; the others stay bound parameters. What the store tells its connections beforehand, `pgbench`'s
//! connections are told too.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::lab::{Applying, Database, Lab, pg_program, stores};
use crate::measure::Plan;
use crate::ops::{Op, SAMPLE_OWNER, SAMPLE_SLOT, Seed, World};

/// What `pgbench` runs.
#[derive(Debug, Clone)]
pub struct Script {
    text: String,
    variables: BTreeMap<String, String>,
    settings: Vec<(String, String)>,
}

/// Which slots are used, one after another.
#[derive(Debug, Clone, Copy)]
pub struct Slots {
    /// The first one.
    pub base: u32,
    /// They begin again at 0 here.
    pub wrap: u32,
}

/// What `pgbench` says.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Transactions a second, connecting and warming up not counted.
    pub per_second: f64,
    /// For how many seconds.
    pub seconds: f64,
    /// How many were done in all, before and afterwards too.
    pub done: u64,
}

/// Captures the statement of a command.
pub fn script(lab: &Lab, runtime: &Runtime, world: World, op: Op) -> anyhow::Result<Script> {
    let database = lab.fresh(runtime, World { wallets: world.wallets }, Seed::Nothing, 0)?;
    lab.server()
        .psql("postgres", &format!("ALTER DATABASE {} SET log_statement = 'all'", database.name()))?;
    let before = lab.server().log().len();
    // That nobody has the sample's wallet doesn't matter: the statement is the same.
    let stores = runtime.block_on(stores(&database.url(), Applying::OneByOne(1)))?;
    let answer = runtime.block_on(world.run(&stores, op, SAMPLE_SLOT));
    drop((answer, stores));
    let log = lab.server().log();
    let logged = Logged::read(log.get(before..).unwrap_or_default());
    // A payment that isn't accepted, as this one, is asked again in the form of any transition.
    let wanted = match op {
        Op::Settle => "WITH paid ",
        _ if op.writes() => "WITH in_",
        _ => "SELECT ",
    };
    let statement = logged
        .executed
        .iter()
        .rfind(|(text, _)| text.starts_with(wanted))
        .with_context(|| format!("no statement was logged for {}", op.name()))?;
    let (text, variables) = substitute(&statement.0, &statement.1, world)?;
    Ok(Script { text, variables, settings: logged.settings })
}

/// What a server logged.
#[derive(Debug, Default)]
struct Logged {
    /// Statements with their values.
    executed: Vec<(String, Vec<Option<String>>)>,
    /// What the connection that executed last was told.
    settings: Vec<(String, String)>,
}

impl Logged {
    fn read(log: &str) -> Self {
        let mut logged = Self::default();
        for line in log.lines() {
            if let Some((_, statement)) = line.split_once("LOG:  execute ") {
                let text = statement.split_once(": ").map_or(statement, |(_, text)| text);
                logged.executed.push((text.to_owned(), Vec::new()));
            } else if let Some((_, values)) = line.split_once("DETAIL:  parameters: ") {
                if let Some((_, of_last)) = logged.executed.last_mut() {
                    *of_last = parameters(values);
                }
            } else if let Some((_, told)) = line.split_once("LOG:  statement: SET ") {
                logged.settings = format!("SET {told}").split(';').filter_map(setting).collect();
            }
        }
        logged
    }
}

/// `SET a = b` as a pair.
fn setting(statement: &str) -> Option<(String, String)> {
    let (name, value) = statement.trim().strip_prefix("SET ")?.split_once('=')?;
    // The name of the connection must not hide that it is pgbench's; a timeout would only cost.
    let skipped = matches!(name.trim(), "application_name" | "statement_timeout");
    (!skipped).then(|| (name.trim().to_owned(), value.trim().trim_matches('\'').to_owned()))
}

/// `$1 = 'a', $2 = NULL` as values.
fn parameters(text: &str) -> Vec<Option<String>> {
    let mut values = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(" = ") {
        let Some(quoted) = after.strip_prefix('\'') else {
            values.push(None);
            rest = after;
            continue;
        };
        let mut value = String::new();
        let mut chars = quoted.char_indices().peekable();
        let mut end = quoted.len();
        while let Some((at, char)) = chars.next() {
            if char != '\'' {
                value.push(char);
            } else if chars.next_if(|(_, next)| *next == '\'').is_some() {
                value.push('\'');
            } else {
                end = at + 1;
                break;
            }
        }
        values.push(Some(value));
        rest = quoted.get(end..).unwrap_or_default();
    }
    values
}

/// The script's text, and its constant variables.
fn substitute(
    statement: &str,
    values: &[Option<String>],
    world: World,
) -> anyhow::Result<(String, BTreeMap<String, String>)> {
    let types = types(statement);
    let mut variables = BTreeMap::new();
    let mut text = String::from("\\set slot (:base + :n * :clients + :client_id) % :wrap\n\\set n :n + 1\n");
    let mut rest = statement;
    while let Some((before, after)) = rest.split_once('$') {
        text.push_str(before);
        let digits = after.chars().take_while(char::is_ascii_digit).count();
        let (number, behind) = after.split_at(digits);
        rest = behind;
        let number: usize = number.parse().context("a parameter without a number")?;
        let value = values.get(number.saturating_sub(1)).context("a parameter without a value")?;
        let cast = types.get(&number).map(|of| format!("::{of}")).unwrap_or_default();
        let Some(value) = value else {
            write!(text, "NULL{cast}")?;
            continue;
        };
        if let Some(expression) = expression(value, &cast, world) {
            text.push_str(&expression);
        } else {
            let name = format!("p{number}");
            write!(text, ":{name}{cast}")?;
            variables.insert(name, value.clone());
        }
    }
    text.push_str(rest);
    text.push_str(";\n");
    Ok((text, variables))
}

/// A value that follows from the slot, as an expression over it.
fn expression(value: &str, cast: &str, world: World) -> Option<String> {
    let (slot, owner) = (format!("{SAMPLE_SLOT:08x}"), format!("{SAMPLE_OWNER:08x}"));
    let cast = if cast.is_empty() && Uuid::try_parse(value).is_ok() { "::uuid" } else { cast };
    let wallets = world.wallets.max(1);
    let parts: Vec<String> = value
        .replace(&slot, "\u{1}S\u{1}")
        .replace(&owner, "\u{1}O\u{1}")
        .split('\u{1}')
        .filter(|part| !part.is_empty())
        .map(|part| match part {
            "S" => "lpad(to_hex(:slot::int), 8, '0')".to_owned(),
            "O" => format!("lpad(to_hex(:slot::int % {wallets}), 8, '0')"),
            constant => format!("'{}'", constant.replace('\'', "''")),
        })
        .collect();
    if parts.len() > 1 {
        return Some(format!("({}){cast}", parts.join(" || ")));
    }
    // The number of an apply is the store's own: no other has it.
    let random = cast == "::uuid" && !value.starts_with("00000000-0000-7000-8000-");
    random.then(|| "gen_random_uuid()".to_owned())
}

/// The types of the parameters that stand in the rows of a statement: the server can't guess those.
///
/// Rows are written `name(columns…) AS (VALUES ($1, …))` or `(SELECT unnest($1), …)`, `AS MATERIALIZED` or not, or, with their
/// columns behind them, `FROM (VALUES ($1, …)) AS n(columns…)`.
fn types(statement: &str) -> BTreeMap<usize, String> {
    let mut types = BTreeMap::new();
    for (form, array) in [
        (" AS MATERIALIZED (VALUES (", ""),
        (" AS (VALUES (", ""),
        (" AS MATERIALIZED (SELECT unnest(", "[]"),
        (" AS (SELECT unnest(", "[]"),
        (" FROM (VALUES (", ""),
    ] {
        let mut rest = statement;
        while let Some((before, after)) = rest.split_once(form) {
            // Not the end of one `unnest` between two.
            let (values, behind) =
                after.split_once(if array.is_empty() { ")" } else { "))" }).unwrap_or((after, ""));
            let columns = if form.starts_with(" FROM") {
                behind.split_once(" AS n(").and_then(|(_, columns)| Some(columns.split_once(')')?.0))
            } else {
                before.rsplit_once('(').map(|(_, columns)| columns.trim_end_matches(')'))
            };
            for (column, value) in columns.unwrap_or_default().split(',').zip(values.split(',')) {
                let value = value.trim().trim_start_matches("unnest(").trim_end_matches(')');
                if let Some(number) = value.strip_prefix('$').and_then(|number| number.parse().ok()) {
                    types.insert(number, format!("{}{array}", type_of(column.trim())));
                }
            }
            rest = after;
        }
    }
    types
}

/// The type of a column, by its name.
fn type_of(column: &str) -> &'static str {
    match column {
        "ord" | "place" | "wallet" => "int4",
        "integrator_id" | "id" | "charge_id" | "resource_id" | "transition_id" | "related_id" | "from_id"
        | "lane" | "expected" => "uuid",
        "late" | "external_id_given" | "amount_given" | "postback_all" | "settled_late" => "bool",
        "version" | "fee_version" | "number" | "sequence" | "entries" | "available" | "held" | "owed"
        | "told" | "need_available" | "need_held" | "need_owed" | "payments" | "follow_up_attempts" => "int8",
        other if other.ends_with("_cents") || other.ends_with("_at") => "int8",
        _ => "text",
    }
}

impl Script {
    /// Runs it on a fresh database, for a whole number of seconds, the first ones of which are its warm-up: the same connections
    /// go on, as ours do. `counting` is called when that is over, `counted` when the time is.
    pub fn run(
        &self,
        database: &Database<'_>,
        clients: u32,
        slots: Slots,
        plan: Plan,
        counting: impl FnOnce(),
        counted: impl FnOnce(),
    ) -> anyhow::Result<Rate> {
        for (name, value) in &self.settings {
            let value = value.replace('\'', "''");
            database.psql(&format!("ALTER DATABASE {} SET {name} = '{value}'", database.name()))?;
        }
        let seconds = |span: std::time::Duration| span.as_secs_f64().ceil().max(1.0);
        let (warm, time) = (seconds(plan.warm), seconds(plan.time));
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(self.text.as_bytes())?;
        let mut command = Command::new(pg_program("pgbench")?);
        command.args([
            "-n",
            "-M",
            "prepared",
            "-j",
            "2",
            "-P",
            "1",
            "-c",
            &clients.to_string(),
            "-T",
            // What it does in its last second it may not say.
            &(warm + time + 1.0).to_string(),
        ]);
        let Slots { base, wrap } = slots;
        let numbers = [("n", 0), ("clients", clients), ("base", base), ("wrap", wrap)];
        for (name, number) in numbers {
            command.args(["-D", &format!("{name}={number}")]);
        }
        for (name, value) in &self.variables {
            command.args(["-D", &format!("{name}={value}")]);
        }
        command.arg("-f").arg(file.path()).arg(database.url());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("pgbench can't be started")?;
        let mut window = Window { warm, until: warm + time, ..Window::default() };
        let (mut counting, mut counted) = (Some(counting), Some(counted));
        let mut errors = String::new();
        for line in BufReader::new(child.stderr.take().context("pgbench has no errors")?).lines() {
            let line = line?;
            let Some(progress) = progress(&line) else {
                errors.push_str(&line);
                errors.push('\n');
                continue;
            };
            window.add(progress);
            if window.has_begun
                && let Some(counting) = counting.take()
            {
                counting();
            }
            if window.is_over
                && let Some(counted) = counted.take()
            {
                counted();
            }
        }
        let mut said = String::new();
        child.stdout.take().context("pgbench has no output")?.read_to_string(&mut said)?;
        ensure!(child.wait()?.success(), "pgbench failed: {errors}\n{}", self.text);
        let done =
            said.lines().find_map(|line| line.strip_prefix("number of transactions actually processed: "));
        let done = done.and_then(|rest| rest.split([' ', '/']).next());
        let (Some(done), true) = (done, window.is_over) else {
            bail!("pgbench said something else: {said}{errors}");
        };
        Ok(Rate { per_second: window.done / window.seconds, seconds: window.seconds, done: done.parse()? })
    }
}

/// The seconds of a run that count.
#[derive(Debug, Default)]
struct Window {
    warm: f64,
    until: f64,
    /// When the last line was said.
    at: f64,
    has_begun: bool,
    is_over: bool,
    done: f64,
    seconds: f64,
}

impl Window {
    /// Adds what was done since the line before.
    fn add(&mut self, (at, per_second): (f64, f64)) {
        let span = at - self.at;
        self.at = at;
        if self.has_begun && !self.is_over {
            self.done += per_second * span;
            self.seconds += span;
        }
        // A line comes a little after its second.
        self.has_begun |= at >= self.warm;
        self.is_over |= at >= self.until;
    }
}

/// `progress: 1.0 s, 6543.2 tps, …` as the time and the rate since the line before.
fn progress(line: &str) -> Option<(f64, f64)> {
    let (at, rest) = line.strip_prefix("progress: ")?.split_once(" s, ")?;
    Some((at.parse().ok()?, rest.split_once(" tps")?.0.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logged_values_are_read() {
        let values = parameters("$1 = '1', $2 = NULL, $3 = 'it''s = so', $4 = '{a,b}'");
        let expected = [Some("1"), None, Some("it's = so"), Some("{a,b}")];
        assert_eq!(values, expected.map(|value| value.map(str::to_owned)));
    }

    #[test]
    fn what_pgbench_does_in_its_warm_up_and_at_its_end_is_not_counted() {
        let mut window = Window { warm: 1.0, until: 3.0, ..Window::default() };
        for line in ["starting", "progress: 1.0 s, 10.0 tps, lat 1", "progress: 2.0 s, 100.0 tps, lat 1"] {
            if let Some(progress) = progress(line) {
                window.add(progress);
            }
        }
        assert!(window.has_begun && !window.is_over);
        for line in ["progress: 3.0 s, 200.0 tps, lat 1", "progress: 4.0 s, 999.0 tps, lat 1"] {
            if let Some(progress) = progress(line) {
                window.add(progress);
            }
        }
        assert!(window.is_over && (window.done - 300.0).abs() < 1e-6 && (window.seconds - 2.0).abs() < 1e-6);
    }

    #[test]
    fn rows_have_the_types_of_their_columns() {
        let statement = "WITH in_money(ord, integrator_id, need_held) AS MATERIALIZED (VALUES ($1, $2, $3)), \
                         in_events(ord, kind) AS MATERIALIZED (SELECT unnest($4), unnest($5)), n AS (SELECT $6), \
                         in_owners(ord) AS (VALUES ($9)), in_told(id, number) AS (SELECT unnest($10), unnest($11)), \
                         paid AS (UPDATE charges t SET late = n.late FROM (VALUES ($7, $8)) AS n(id, late) WHERE true)";
        let expected = [
            (1, "int4"),
            (2, "uuid"),
            (3, "int8"),
            (4, "int4[]"),
            (5, "text[]"),
            (7, "uuid"),
            (8, "bool"),
            (9, "int4"),
            (10, "uuid[]"),
            (11, "int8[]"),
        ];
        assert_eq!(types(statement), expected.map(|(number, of)| (number, of.to_owned())).into());
    }

    #[test]
    fn what_follows_from_the_slot_becomes_an_expression_and_the_rest_a_variable() {
        let world = World { wallets: 4 };
        let id = crate::ops::charge_id(SAMPLE_SLOT).to_string();
        let values = [Some(id), Some("Ana".to_owned()), None];
        let (text, variables) =
            substitute("SELECT * FROM c WHERE id = $1 AND a = $2 AND b = $3", &values, world).unwrap();
        let expected = "SELECT * FROM c WHERE id = ('00000000-0000-7000-8000-0001' || \
                        lpad(to_hex(:slot::int), 8, '0'))::uuid AND a = :p2 AND b = NULL;";
        assert!(text.contains(expected), "{text}");
        assert_eq!(variables, [("p2".to_owned(), "Ana".to_owned())].into());
    }
}
