//! The table: printed, written between two marks of a document, and kept as JSON.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde::Serialize;

const BEGIN: &str = "<!-- bench:begin -->";
const END: &str = "<!-- bench:end -->";
/// How often a row is measured that is near its floor, or under it.
pub const TRIES: usize = 3;
/// How often one is measured whose tries lie on both sides of its floor.
pub const MOST_TRIES: usize = 9;
/// A ratio below so many times its floor is near it: two runs of one thing differ by as much.
pub const NEAR: f64 = 1.3;

/// One comparison, or one figure.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What was measured.
    pub name: String,
    /// Ours.
    pub ours: f64,
    /// What it is compared with.
    pub reference: Option<f64>,
    /// How much better ours is: above 1 is better, whether more or less of it is wanted.
    pub ratio: Option<f64>,
    /// What the ratio must not be under.
    pub floor: Option<f64>,
    #[serde(skip)]
    unit: &'static str,
    #[serde(skip)]
    note: String,
}

impl Row {
    /// A figure without comparison.
    pub fn figure(name: impl Into<String>, ours: f64, unit: &'static str) -> Self {
        Self { name: name.into(), ours, reference: None, ratio: None, floor: None, unit, note: String::new() }
    }

    /// More is better.
    pub fn more(name: impl Into<String>, ours: f64, reference: f64, unit: &'static str) -> Self {
        let ratio = Some(ours / reference.max(f64::MIN_POSITIVE));
        Self { reference: Some(reference), ratio, ..Self::figure(name, ours, unit) }
    }

    /// Less is better.
    pub fn less(name: impl Into<String>, ours: f64, reference: f64, unit: &'static str) -> Self {
        let ratio = Some(reference / ours.max(f64::MIN_POSITIVE));
        Self { reference: Some(reference), ratio, ..Self::figure(name, ours, unit) }
    }

    /// With a floor for its ratio.
    #[must_use]
    pub fn floor(self, floor: f64) -> Self {
        Self { floor: Some(floor), ..self }
    }

    /// With what else is to be said.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// Whether its ratio is under its floor.
    pub fn is_under(&self) -> bool {
        matches!((self.ratio, self.floor), (Some(ratio), Some(floor)) if ratio < floor)
    }

    /// Whether its ratio is so near its floor, or under it, that one measurement doesn't tell.
    pub fn is_near(&self) -> bool {
        matches!((self.ratio, self.floor), (Some(ratio), Some(floor)) if ratio < floor * NEAR)
    }

    /// The one of these tries that has the middle ratio, which says what the ratios were.
    fn middle(mut tries: Vec<Self>) -> Option<Self> {
        let ratios: Vec<String> =
            tries.iter().filter_map(|row| row.ratio).map(|ratio| format!("{ratio:.2}")).collect();
        tries.sort_by(|a, b| a.ratio.unwrap_or(0.0).total_cmp(&b.ratio.unwrap_or(0.0)));
        let row = tries.into_iter().nth(ratios.len() / 2)?;
        let note = format!("the middle of {}", ratios.join(", "));
        Some(Self { note: if row.note.is_empty() { note } else { format!("{note}; {}", row.note) }, ..row })
    }

    fn cells(&self) -> [String; 6] {
        let of = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
        let floor = match (self.floor, self.is_under()) {
            (None, _) => "–".to_owned(),
            (Some(floor), false) => format!("≥ {floor}"),
            (Some(floor), true) => format!("**≥ {floor} missed**"),
        };
        let ratio = self.ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"));
        let ours = format!("{} {}", number(self.ours), self.unit);
        [self.name.clone(), ours, of(self.reference), ratio, floor, self.note.clone()]
    }
}

/// Measures rows; when one of them is near its floor, or under it, [`TRIES`] times, and [`MOST_TRIES`] times where those don't
/// agree on whether it is under. Of each such row the try with the middle ratio counts. The others are as they were measured
/// first.
///
/// # Errors
///
/// When a measurement fails.
pub fn judged(mut measure: impl FnMut() -> anyhow::Result<Vec<Row>>) -> anyhow::Result<Vec<Row>> {
    let mut rows: Vec<Vec<Row>> = measure()?.into_iter().map(|row| vec![row]).collect();
    for tries in 1..MOST_TRIES {
        let goes_on = |tried: &Vec<Row>| {
            let is_open = tries < TRIES || tried.iter().any(Row::is_under) != tried.iter().all(Row::is_under);
            is_open && tried.first().is_some_and(Row::is_near)
        };
        if !rows.iter().any(goes_on) {
            break;
        }
        for (tried, row) in rows.iter_mut().zip(measure()?) {
            tried.push(row);
        }
    }
    let counts = |mut tried: Vec<Row>| {
        if !tried.first()?.is_near() {
            tried.truncate(1);
            return tried.pop();
        }
        Row::middle(tried)
    };
    Ok(rows.into_iter().filter_map(counts).collect())
}

/// A number as it is read: whole when large, with three digits when small.
fn number(value: f64) -> String {
    if value >= 100.0 {
        let digits = format!("{value:.0}");
        let mut text = String::new();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        return text;
    }
    if value >= 10.0 { format!("{value:.1}") } else { format!("{value:.2}") }
}

struct Section {
    title: String,
    about: String,
    rows: Vec<Row>,
}

/// Everything that was measured.
#[derive(Default)]
pub struct Report {
    machine: Vec<String>,
    sections: Vec<Section>,
}

impl Report {
    /// A line about the machine, the versions or the run.
    pub fn machine(&mut self, line: impl Into<String>) {
        let line = line.into();
        println!("{line}");
        self.machine.push(line);
    }

    /// Begins a part.
    pub fn section(&mut self, title: &str, about: &str) {
        println!("\n## {title}");
        self.sections.push(Section { title: title.to_owned(), about: about.to_owned(), rows: Vec::new() });
    }

    /// Adds a row to the present part, and prints it.
    pub fn row(&mut self, row: Row) {
        println!("{}", row.cells().join(" | "));
        if let Some(section) = self.sections.last_mut() {
            section.rows.push(row);
        }
    }

    /// Says something under the present part.
    pub fn say(&mut self, text: &str) {
        println!("{text}");
        if let Some(section) = self.sections.last_mut() {
            section.about.push_str("\n\n");
            section.about.push_str(text);
        }
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.sections.iter().flat_map(|section| &section.rows)
    }

    /// What is under its floor.
    pub fn under(&self) -> Vec<&Row> {
        self.rows().filter(|row| row.is_under()).collect()
    }

    /// The table in Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for line in &self.machine {
            let _ = writeln!(text, "- {line}");
        }
        for section in &self.sections {
            let _ = write!(text, "\n## {}\n\n{}\n", section.title, section.about);
            if section.rows.is_empty() {
                continue;
            }
            text.push_str("\n| What | Ours | Reference | Ratio | Floor | |\n|---|---:|---:|---:|---|---|\n");
            for row in &section.rows {
                let _ = writeln!(text, "| {} |", row.cells().join(" | "));
            }
        }
        text
    }

    /// Writes `summary.json`.
    pub fn write_summary(&self, path: &Path) -> anyhow::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let rows: Vec<&Row> = self.rows().collect();
        fs::write(path, serde_json::to_string_pretty(&rows)? + "\n")?;
        Ok(())
    }

    /// Writes the table between the marks of a document.
    pub fn write_document(&self, path: &Path) -> anyhow::Result<()> {
        let text = fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
        let (before, rest) =
            text.split_once(BEGIN).context("the document has no mark where the table begins")?;
        let (_, after) = rest.split_once(END).context("the document has no mark where the table ends")?;
        fs::write(path, format!("{before}{BEGIN}\n\n{}\n{END}{after}", self.markdown()))?;
        Ok(())
    }
}

/// The first line that a program prints; nothing when it can't be run.
pub fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or_default().trim().to_owned()
}

/// What the machine is.
pub fn describe_machine(report: &mut Report) {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let meminfo = read("/proc/meminfo");
    let memory = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or_default();
    let kib: u64 = memory.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0);
    report.machine(format!("Date: {}", first_line("date", &["-u", "+%Y-%m-%d %H:%M UTC"])));
    report.machine(format!(
        "Machine: {cores} cores ({}), {} GiB of memory, Linux {}; server, load and database share them",
        model.map_or("unknown", |(_, name)| name.trim()),
        kib / 1024 / 1024,
        first_line("uname", &["-r"])
    ));
    report.machine(format!("Compiler: {}", first_line("rustc", &["--version"])));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_above_one_is_better_whichever_way_the_figure_goes() {
        assert!(!Row::more("a", 20.0, 10.0, "/s").floor(2.0).is_under());
        assert!(Row::more("a", 19.0, 10.0, "/s").floor(2.0).is_under());
        assert!(!Row::less("a", 1.0, 10.0, "ms").floor(10.0).is_under());
        assert!(Row::less("a", 2.0, 10.0, "ms").floor(10.0).is_under());
        assert!(!Row::figure("a", 2.0, "ms").floor(10.0).is_under());
    }

    /// What one row with the floor 2 comes to, when its tries are these, beside another one that is far above its own.
    fn told(rates: &[f64]) -> (Row, Row) {
        let mut left = rates.iter();
        let rows = judged(|| {
            let far = Row::more("far", 30.0, 10.0, "/s").floor(2.0);
            Ok(vec![far, Row::more("near", *left.next().unwrap(), 1.0, "/s").floor(2.0).note("p99")])
        });
        assert_eq!(left.next(), None, "it was measured too seldom");
        let [far, near] = rows.unwrap().try_into().unwrap();
        (far, near)
    }

    #[test]
    fn what_is_near_its_floor_is_measured_again_and_the_middle_counts() {
        let (far, near) = told(&[2.55, 2.2, 2.1]);
        assert_eq!((far.ratio, far.note.as_str()), (Some(3.0), ""));
        assert_eq!((near.ratio, near.note.as_str()), (Some(2.2), "the middle of 2.55, 2.20, 2.10; p99"));
        assert!(told(&[1.9, 1.8, 1.9]).1.is_under());
    }

    #[test]
    fn what_is_on_both_sides_of_its_floor_is_measured_more_often() {
        let (far, near) = told(&[1.9, 2.2, 2.1, 2.2, 2.3, 1.8, 1.9, 1.9, 1.7]);
        assert_eq!((far.ratio, far.note.as_str()), (Some(3.0), ""));
        assert_eq!(near.ratio, Some(1.9));
        assert!(near.note.starts_with("the middle of 1.90, 2.20, 2.10, 2.20,"), "{}", near.note);
    }

    #[test]
    fn what_is_well_above_its_floor_is_measured_once() {
        let mut times = 0;
        let rows = judged(|| {
            times += 1;
            Ok(vec![Row::more("a", 2.7, 1.0, "/s").floor(2.0), Row::figure("b", 1.0, "ms")])
        });
        assert_eq!((rows.unwrap().len(), times), (2, 1));
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!([1_234_567.0, 123.4, 12.34, 1.234].map(number), ["1,234,567", "123", "12.3", "1.23"]);
    }

    #[test]
    fn the_table_replaces_what_is_between_the_marks() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), format!("a\n{BEGIN}\nold\n{END}\nb\n")).unwrap();
        let mut report = Report::default();
        report.section("Part", "About.");
        report.row(Row::more("x", 2.0, 1.0, "/s"));
        report.write_document(file.path()).unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        assert!(text.starts_with("a\n") && text.ends_with("\nb\n") && !text.contains("old"));
        assert!(text.contains("| x | 2.00 /s | 1.00 | 2.00 | – |  |"), "{text}");
    }
}
