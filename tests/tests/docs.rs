//! The documents are true: their examples are run, their answers compared, and what they name exists.
//!
//! Conventions, for `sh` blocks of the README's "First charge" and of `docs/API.md`: `<!-- expect: TEXT -->` below a block
//! says what it must print. A `json` block right below is the first JSON object that it prints: the same fields, the same
//! values, where `…` within a text stands for anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use pix_tests::{Database, Gateway, Integrator, repository};
use serde_json::Value;

/// How the addresses are written in the documents.
const DOCUMENTED_URL: &str = "http://127.0.0.1:8080";
const DOCUMENTED_SIMULATOR: &str = "http://127.0.0.1:8081";

/// How long a callback may take to arrive and be applied.
const CALLBACK_WITHIN: Duration = Duration::from_secs(20);

/// The documents that are there in Portuguese too: the original, and its translation.
const TRANSLATED: [(&str, &str); 2] =
    [("README.md", "README.pt-BR.md"), ("docs/API.md", "docs/pt-BR/API.md")];

const EXPECT: &str = "<!-- expect: ";
const WILD: char = '…';

/// A block to be run, and what it is expected to print.
struct Example {
    line: usize,
    script: String,
    expected: Vec<String>,
    answer: Option<String>,
}

/// A piece of a document: a line of prose, or a whole fenced block.
enum Piece<'a> {
    Prose { line: usize, text: &'a str },
    Block { line: usize, language: &'a str, text: String },
}

fn pieces(markdown: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut lines = markdown.lines().enumerate();
    while let Some((index, text)) = lines.next() {
        let Some(language) = text.trim_start().strip_prefix("```") else {
            pieces.push(Piece::Prose { line: index + 1, text });
            continue;
        };
        let within: Vec<_> =
            lines.by_ref().map(|(_, text)| text).take_while(|text| text.trim_start() != "```").collect();
        pieces.push(Piece::Block { line: index + 1, language, text: within.join("\n") });
    }
    pieces
}

fn examples(markdown: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut right_below = false;
    for piece in pieces(markdown) {
        match piece {
            Piece::Block { line, language: "sh", text } => {
                examples.push(Example { line, script: text, expected: Vec::new(), answer: None });
                right_below = true;
            }
            Piece::Block { language: "json", text, .. } if right_below => {
                if let Some(example) = examples.last_mut() {
                    example.answer = Some(text);
                }
                right_below = false;
            }
            Piece::Block { .. } => right_below = false,
            Piece::Prose { text, .. } => match (text.strip_prefix(EXPECT), examples.last_mut()) {
                (Some(rest), Some(example)) => {
                    example.expected.push(rest.trim_end_matches(" -->").to_owned());
                }
                _ => right_below &= text.trim().is_empty(),
            },
        }
    }
    examples
}

fn read(path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(repository().join(path)).with_context(|| path.to_owned())
}

/// Every Markdown file of ours, by its path in the repository.
fn documents() -> anyhow::Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("docs"), PathBuf::from("migrations")];
    let mut files = vec![PathBuf::from("README.md"), PathBuf::from("README.pt-BR.md")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(repository().join(&folder))? {
            let path = folder.join(entry?.file_name());
            if repository().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                files.push(path);
            }
        }
    }
    for path in files {
        let text = std::fs::read_to_string(repository().join(&path))?;
        found.push((path, text));
    }
    Ok(found)
}

fn bash(script: &str, credentials: Option<&Integrator>) -> anyhow::Result<String> {
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", script]).env("NO_PROXY", "*").stdin(std::process::Stdio::null());
    if let Some(integrator) = credentials {
        command.env("PUBLIC_ID", &integrator.public_id).env("SECRET", &integrator.secret);
    }
    let output = command.output().context("bash is needed to run the documents")?;
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it ended with {}:\n{shown}\n{errors}", output.status);
    Ok(shown)
}

/// Runs the examples of `markdown` in one shell, and compares what each prints.
fn run_examples(name: &str, markdown: &str, gateway: &Gateway) -> anyhow::Result<()> {
    let integrator = gateway.integrator(name)?;
    let markdown =
        markdown.replace(DOCUMENTED_URL, &gateway.url).replace(DOCUMENTED_SIMULATOR, &gateway.simulator);
    let examples = examples(&markdown);
    ensure!(examples.len() > 4, "{name} has hardly an example");
    let mark = |number: usize| format!("===== example {number} =====");
    let script: Vec<_> = examples
        .iter()
        .enumerate()
        .map(|(number, example)| format!("printf '\\n{}\\n'\n{}", mark(number), example.script))
        .collect();
    let printed = bash(&script.join("\n"), Some(&integrator)).with_context(|| name.to_owned())?;
    let mut wrong = Vec::new();
    for (number, example) in examples.iter().enumerate() {
        let after = printed.split_once(&mark(number)).map_or("", |(_, rest)| rest);
        let own = after.split_once(&mark(number + 1)).map_or(after, |(own, _)| own);
        if let Err(error) = compare(example, own) {
            wrong.push(format!("{name}, line {}: {error:#}\n{own}", example.line));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn compare(example: &Example, printed: &str) -> anyhow::Result<()> {
    for expected in &example.expected {
        ensure!(printed.contains(expected.as_str()), "it does not print {expected}");
    }
    let Some(answer) = &example.answer else { return Ok(()) };
    let answer: Value = serde_json::from_str(answer).context("the documented answer is not JSON")?;
    let mut printed = printed.lines().filter(|line| line.starts_with('{'));
    let printed = printed.find_map(|line| serde_json::from_str::<Value>(line).ok());
    same("answer", &answer, &printed.context("it prints no JSON object")?)
}

/// Whether `found` is what `documented` says, field by field.
fn same(path: &str, documented: &Value, found: &Value) -> anyhow::Result<()> {
    match (documented, found) {
        (Value::Object(documented), Value::Object(found)) => {
            let names =
                |object: &serde_json::Map<String, Value>| object.keys().cloned().collect::<BTreeSet<_>>();
            let (told, given) = (names(documented), names(found));
            let missing: Vec<_> = given.difference(&told).collect();
            let invented: Vec<_> = told.difference(&given).collect();
            ensure!(missing.is_empty(), "{path}: the document leaves out {missing:?}");
            ensure!(invented.is_empty(), "{path}: the document invents {invented:?}");
            for (name, value) in documented {
                same(&format!("{path}.{name}"), value, found.get(name).unwrap_or(&Value::Null))?;
            }
            Ok(())
        }
        (Value::Array(documented), Value::Array(found)) => {
            ensure!(
                documented.len() == found.len(),
                "{path}: {} items, not {}",
                found.len(),
                documented.len()
            );
            for (index, (documented, found)) in documented.iter().zip(found).enumerate() {
                same(&format!("{path}[{index}]"), documented, found)?;
            }
            Ok(())
        }
        (Value::String(documented), Value::String(found)) if documented.contains(WILD) => {
            ensure!(fits(documented, found), "{path}: {found} does not look like {documented}");
            Ok(())
        }
        _ => {
            ensure!(documented == found, "{path}: is {found}, documented as {documented}");
            Ok(())
        }
    }
}

fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split(WILD);
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn the_first_charge_of_the_readme_works_when_pasted() -> anyhow::Result<()> {
    let readme = read("README.md")?;
    let (_, section) = readme.split_once("## First charge").context("no first charge in the README")?;
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    run_examples("README.md", section, &Gateway::start(Database::Sqlite, &[])?)
}

#[test]
fn every_example_of_the_api_works_and_answers_as_documented() -> anyhow::Result<()> {
    let gateway = Gateway::start(Database::Sqlite, &[])?;
    // A callback may be quicker than the answer that it is about: what is documented as accepted would be completed.
    bash(&format!("curl -sS {}/sim/settings -d '{{\"callbacks\": false}}'", gateway.simulator), None)?;
    run_examples("docs/API.md", &read("docs/API.md")?, &gateway)?;
    let audit = gateway.audit()?;
    ensure!(audit.get("clean") == Some(&Value::Bool(true)), "{audit}");
    Ok(())
}

#[test]
fn the_calls_that_serve_demo_prints_work_when_pasted() -> anyhow::Result<()> {
    let mut gateway = Gateway::start(Database::Sqlite, &[("PIX_LOG", "error")])?;
    gateway.terminate()?;
    gateway.run(&["serve", "--demo"])?;
    let until = Instant::now() + CALLBACK_WITHIN;
    let commands = loop {
        let log = gateway.log();
        let printed = log.split_once("A token:\n").map_or("", |(_, printed)| printed);
        let commands: Vec<_> =
            printed.lines().filter_map(|line| line.strip_prefix("  ")).map(str::to_owned).collect();
        if commands.iter().any(|line| line.contains("/v2/balance")) {
            break commands;
        }
        ensure!(Instant::now() < until, "serve --demo prints no calls:\n{log}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let printed = bash(&commands.join("\n"), None)?;
    for expected in [
        "\"external_id\":\"order-1\"",
        "\"status\":\"pending\"",
        "\"amount\":15.5",
        "endToEndId",
        "\"status\":\"paid\"",
        "\"balance\":\"15.50\"",
    ] {
        ensure!(printed.contains(expected), "no {expected} in {printed}");
    }
    Ok(())
}

/// The code blocks, each with its line: what must be the same in a translation.
fn code_blocks(markdown: &str) -> Vec<(usize, (&str, String))> {
    let blocks = pieces(markdown).into_iter().filter_map(|piece| match piece {
        Piece::Block { line, language, text } => Some((line, (language, text))),
        Piece::Prose { .. } => None,
    });
    blocks.collect()
}

/// How many headings there are of each level.
fn headings(markdown: &str) -> BTreeMap<usize, usize> {
    let mut levels = BTreeMap::new();
    for piece in pieces(markdown) {
        if let Piece::Prose { text, .. } = piece
            && text.starts_with('#')
        {
            *levels.entry(text.len() - text.trim_start_matches('#').len()).or_default() += 1;
        }
    }
    levels
}

#[test]
fn the_portuguese_documents_have_the_same_code_blocks() -> anyhow::Result<()> {
    for (english, portuguese) in TRANSLATED {
        let (original, translation) = (read(english)?, read(portuguese)?);
        let (blocks, translated) = (code_blocks(&original), code_blocks(&translation));
        ensure!(blocks.len() > 4, "{english} has hardly a block");
        for ((line, block), (there, other)) in blocks.iter().zip(&translated) {
            ensure!(
                block == other,
                "{english}:{line} and {portuguese}:{there} differ:\n{block:?}\n{other:?}"
            );
        }
        let (more, path) = if blocks.len() > translated.len() {
            (blocks.get(translated.len()), english)
        } else {
            (translated.get(blocks.len()), portuguese)
        };
        if let Some((line, block)) = more {
            bail!("{path}:{line}: only there, after the last block of the other: {block:?}");
        }
        let (levels, others) = (headings(&original), headings(&translation));
        ensure!(levels == others, "headings by level: {english} has {levels:?}, {portuguese} has {others:?}");
    }
    Ok(())
}

/// A line right below a table is another row of it, and one right above a heading may be drawn into it.
#[test]
fn tables_and_headings_stand_apart() -> anyhow::Result<()> {
    let mut joined = Vec::new();
    for (path, text) in documents()? {
        let mut above = "";
        for piece in pieces(&text) {
            let (line, below) = match piece {
                Piece::Prose { line, text } => (line, text.trim()),
                Piece::Block { line, .. } => (line, "```"),
            };
            let after_table = above.starts_with('|') && !below.starts_with('|') && !below.starts_with("<!--");
            let is_heading = below.starts_with("# ") || below.starts_with("##");
            if !below.is_empty() && (after_table || (is_heading && !above.is_empty())) {
                joined.push(format!("{}:{line}: a blank line is missing above it", path.display()));
            }
            above = below;
        }
    }
    ensure!(joined.is_empty(), "{}", joined.join("\n"));
    Ok(())
}

#[test]
fn every_relative_link_leads_somewhere() -> anyhow::Result<()> {
    let mut broken = Vec::new();
    for (path, text) in documents()? {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        for piece in pieces(&text) {
            let Piece::Prose { line, text: prose } = piece else { continue };
            for target in links(prose) {
                if target.contains("://") {
                    continue;
                }
                let (file, anchor) =
                    target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
                let linked = if file.is_empty() { path.clone() } else { folder.join(file) };
                if !leads_somewhere(&linked, anchor) {
                    broken.push(format!("{}:{line}: {target}", path.display()));
                }
            }
        }
    }
    ensure!(broken.is_empty(), "{}", broken.join("\n"));
    Ok(())
}

fn links(prose: &str) -> impl Iterator<Item = &str> {
    prose.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

fn leads_somewhere(linked: &Path, anchor: Option<&str>) -> bool {
    let path = repository().join(linked);
    match anchor {
        None => path.exists(),
        Some(anchor) => std::fs::read_to_string(path).is_ok_and(|text| {
            pieces(&text).iter().any(|piece| match piece {
                Piece::Prose { text, .. } => text.starts_with('#') && slug(text) == anchor,
                Piece::Block { .. } => false,
            })
        }),
    }
}

/// The anchor of a heading.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// What is set as code: spans of prose, and lines of blocks in a shell's language or none.
fn code() -> anyhow::Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    for (path, text) in documents()? {
        for piece in pieces(&text) {
            match piece {
                Piece::Prose { line, text } => {
                    let spans = text.split('`').skip(1).step_by(2);
                    all.extend(spans.map(|span| (format!("{}:{line}", path.display()), span.to_owned())));
                }
                Piece::Block { line, language: "sh" | "text" | "", text } => {
                    let lines = text.lines();
                    all.extend(
                        lines.map(|text| (format!("{}:{line}", path.display()), text.trim().to_owned())),
                    );
                }
                Piece::Block { .. } => {}
            }
        }
    }
    Ok(all)
}

#[test]
fn every_make_target_that_is_named_exists() -> anyhow::Result<()> {
    let makefile = read("Makefile")?;
    let mut seen = 0;
    for (place, code) in code()? {
        let Some(rest) = code.strip_prefix("make ") else { continue };
        let target = rest.split(' ').next().unwrap_or_default();
        ensure!(makefile.contains(&format!("\n{target}:")), "{place}: there is no target {target}");
        seen += 1;
    }
    ensure!(seen > 5, "the documents name hardly a target");
    Ok(())
}

#[test]
fn every_subcommand_and_flag_that_is_named_exists() -> anyhow::Result<()> {
    let mut seen = 0;
    for (place, code) in code()? {
        let Some((_, rest)) = code.split_once("pix-gateway ").filter(|(before, _)| is_a_call(before)) else {
            continue;
        };
        let words = rest.split(' ').take_while(|word| is_a_name(word));
        let (mut help, mut names) = (help(&[])?, Vec::new());
        for word in words {
            let Some((_, commands)) = help.split_once("Commands:\n") else { break };
            let known = commands.lines().take_while(|line| !line.is_empty());
            let known = known.filter_map(|line| line.split_whitespace().next()).any(|known| known == word);
            ensure!(known, "{place}: there is no subcommand {word} in \"{code}\"");
            names.push(word);
            help = self::help(&names)?;
            seen += 1;
        }
        for flag in rest.split_whitespace().filter(|word| word.starts_with("--")) {
            ensure!(help.contains(flag), "{place}: there is no {flag} in \"{code}\"");
        }
    }
    ensure!(seen > 5, "the documents name hardly a subcommand");
    Ok(())
}

fn is_a_call(before: &str) -> bool {
    let command = before.split(' ').next_back().unwrap_or_default();
    command.is_empty() || command.ends_with('/')
}

fn is_a_name(word: &str) -> bool {
    !word.is_empty()
        && !word.starts_with('-')
        && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

fn help(names: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(pix_tests::program()).args(names).arg("--help").output()?;
    ensure!(output.status.success(), "no help for {names:?}");
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn every_setting_that_is_named_exists() -> anyhow::Result<()> {
    let help = help(&[])?;
    let known: BTreeSet<_> = help.split_whitespace().filter(|word| word.starts_with("PIX_")).collect();
    // Variables of a build with fail points, and of the tests, are no settings of the program.
    let others = read("crates/app/src/fail_points.rs")? + &read("crates/pg-server/src/host.rs")?;
    for (path, text) in documents()? {
        let words = text.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
        for name in words.filter(|word| word.starts_with("PIX_") && word.len() > 4) {
            // A variable of an example.
            if name != "PIX_ID" && !others.contains(&format!("\"{name}\"")) {
                ensure!(known.contains(name), "{}: there is no setting {name}", path.display());
            }
        }
    }
    Ok(())
}

/// Names of four words or more are those of tests and constraints, and are easily outlived by a document.
#[test]
fn every_long_name_that_is_quoted_is_in_the_sources() -> anyhow::Result<()> {
    let mut sources = String::new();
    let mut folders =
        vec!["crates", "tests", "migrations"].into_iter().map(PathBuf::from).collect::<Vec<_>>();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(repository().join(&folder))? {
            let path = folder.join(entry?.file_name());
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            if repository().join(&path).is_dir() {
                folders.push(path);
            } else if matches!(ending, "rs" | "sql") {
                sources.push_str(&std::fs::read_to_string(repository().join(&path))?);
            }
        }
    }
    let names: BTreeSet<_> = sources
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.contains('_'))
        .collect();
    let mut seen = 0;
    for (place, code) in code()? {
        let long =
            code.matches('_').count() >= 3 && code.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if long {
            seen += 1;
            if !names.contains(code.as_str()) {
                bail!("{place}: nothing is called {code}");
            }
        }
    }
    ensure!(seen > 5, "the documents name hardly a test");
    Ok(())
}

/// `make planted-bugs` takes minutes and is run now and then: that its list still fits is told by every run of the tests.
/// Files of the PostgreSQL store that ask the server nothing of their own.
const ASKS_NOTHING: [&str; 8] = ["ask", "columns", "error", "group", "pool", "sharing", "types", "written"];

#[test]
fn scaling_says_of_each_file_of_the_store_what_its_statements_touch() -> anyhow::Result<()> {
    let table: String = read("docs/SCALING.md")?.lines().filter(|line| line.starts_with('|')).collect();
    let mut missing = Vec::new();
    for entry in std::fs::read_dir(repository().join("crates/persistence/src/postgres"))? {
        let path = entry?.path();
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
        if path.is_file()
            && !ASKS_NOTHING.contains(&name)
            && !table.contains(&format!("`postgres/{name}.rs`"))
        {
            missing.push(name.to_owned());
        }
    }
    ensure!(missing.is_empty(), "docs/SCALING.md says nothing of {missing:?}");
    Ok(())
}

#[test]
fn every_planted_mistake_finds_its_lines_once() -> anyhow::Result<()> {
    let list = read("tests/planted/bugs.txt")?;
    let mut mistakes = 0;
    for mistake in list.split("\nbug: ").skip(1) {
        let name = mistake.lines().next().unwrap_or_default();
        let file = mistake.lines().find_map(|line| line.strip_prefix("file: ")).context("no file")?;
        let lines = mistake.lines().filter_map(|line| line.strip_prefix(['-', ' ']));
        let lines = lines.fold(String::from("\n"), |text, line| text + line + "\n");
        let found = format!("\n{}", read(file)?).matches(&lines).count();
        ensure!(found == 1, "{name}: its lines are found {found} times in {file}");
        mistakes += 1;
    }
    ensure!(mistakes >= 42, "{mistakes} are none");
    Ok(())
}
