//! `pix-gateway config`: which settings are in force, where each comes from, and what is wrong with them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

use pix_persistence::postgres::PgStore;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::answer;
use crate::cli::ConfigCommand;
use crate::config::{Config, ConfigError, Database, Origin, SETTINGS, Setting, Source};
use crate::dangers;
use crate::gateway;

/// Runs the subcommand. `problems` are those of the sources themselves.
pub fn run(
    source: &Source,
    problems: Vec<ConfigError>,
    file: Option<&Path>,
    command: ConfigCommand,
) -> ExitCode {
    let (config, wrong) = source.problems();
    let problems = [problems, wrong].concat();
    match command {
        ConfigCommand::Check { json } => check(source, config.as_ref(), problems, file, json),
        ConfigCommand::Show { json } => show(source, config.as_ref(), &problems, json),
    }
}

fn check(
    source: &Source,
    config: Option<&Config>,
    mut problems: Vec<ConfigError>,
    file: Option<&Path>,
    json: bool,
) -> ExitCode {
    let mut warnings = misspelt(crate::environment().map(|(name, _)| name));
    if let Some(config) = config {
        problems.extend(dangers::all(config, false));
        problems.extend(gateway::check_log(config).err());
        problems.extend(unreadable_url(config));
        problems.extend(config.tls.as_ref().and_then(|files| gateway::certificate(files).err()));
        warnings.extend(dangers::warnings(config));
    }
    warnings.extend(file.and_then(|file| readable_by_others(source, file)));
    let list = |sentences: &[ConfigError]| {
        let told = sentences.iter().map(|sentence| {
            let setting = sentence.setting().map(|setting| setting.env);
            json!({"setting": setting, "sentence": sentence.to_string()})
        });
        Value::Array(told.collect())
    };
    let good = problems.is_empty();
    let value = json!({"ok": good, "problems": list(&problems), "warnings": list(&warnings)});
    answer(json, &value, || {
        let wrong = problems.iter().map(|problem| format!("wrong    {problem}"));
        let warned = warnings.iter().map(|warning| format!("warning  {warning}"));
        let end = if good { "the configuration is good" } else { "`serve` would refuse this configuration" };
        wrong.chain(warned).chain([end.to_owned()]).collect::<Vec<_>>().join("\n")
    });
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A database URL, or a file that it names, that no start can do anything with. The database isn't touched.
fn unreadable_url(config: &Config) -> Option<ConfigError> {
    let Database::Postgres { url } = &config.database else { return None };
    let error = PgStore::check_files(url.expose_secret()).err()?;
    Some(ConfigError::new(format!("DATABASE_URL can't be used: {error}")))
}

/// Variables of the environment that look like settings and are none.
fn misspelt(names: impl Iterator<Item = String>) -> Vec<ConfigError> {
    let unknown = names.filter(|name| {
        // Those of the project's own tests.
        let of_tests = name.starts_with("PIX_TEST_");
        name.starts_with("PIX_") && !of_tests && SETTINGS.iter().all(|setting| setting.env != *name)
    });
    let mut unknown: Vec<_> = unknown.collect();
    unknown.sort_unstable();
    unknown
        .iter()
        .map(|name| ConfigError::new(format!("the environment has {name}, which is no setting and does nothing: correct its name, or remove it")))
        .collect()
}

/// A file with secrets is for its owner alone.
fn readable_by_others(source: &Source, file: &Path) -> Option<ConfigError> {
    let sensitive = |setting: &&Setting| {
        let (value, origin) = source.value(setting);
        origin == Origin::File && value.is_some_and(|value| setting.shown(value) != value)
    };
    let secret = SETTINGS.iter().find(sensitive)?;
    let mode = std::fs::metadata(file).ok()?.permissions().mode();
    let shown = file.display();
    (mode & 0o077 != 0).then(|| {
        ConfigError::new(format!(
            "{} is in {shown}, which others can read: run `chmod 600 {shown}`",
            secret.env
        ))
    })
}

/// What holds where nothing says it and that depends on others.
fn derived(setting: &Setting, config: &Config) -> Option<String> {
    let beside = |ending| format!("made and kept in {}", config.database.beside(ending).display());
    match setting.env {
        "PIX_PUBLIC_URL" => Some(config.public_url.clone()),
        "PIX_PROVIDER_URL" => Some("a simulated provider, in-process".to_owned()),
        "PIX_PROVIDER_NOT_FOUND_PROOF_S" => Some(
            config.not_found_proof.map_or_else(|| "never".to_owned(), |proof| proof.as_secs().to_string()),
        ),
        "PIX_RATE_KEY_PER_MINUTE" => {
            Some(config.rate_api_per_minute.saturating_mul(pix_http::DEFAULT_RATE_KEY_FACTOR).to_string())
        }
        "PIX_POSTBACK_ALLOW_PRIVATE" => Some("false".to_owned()),
        "PIX_TOKEN_KEYS" | "PIX_PROVIDER_CALLBACK_SECRET" if !config.database.is_shared() => {
            Some(beside(gateway::KEY_FILE_ENDING))
        }
        "PIX_POSTBACK_KEYS" if !config.database.is_shared() => Some(beside(gateway::POSTBACK_KEY_ENDING)),
        _ => None,
    }
}

fn show(source: &Source, config: Option<&Config>, problems: &[ConfigError], json: bool) -> ExitCode {
    let mut rows = Vec::with_capacity(SETTINGS.len());
    for setting in SETTINGS {
        let (value, origin) = source.value(setting);
        let value = value.filter(|value| !value.is_empty()).map(|value| setting.shown(value));
        let (value, from) = match (value, config.and_then(|config| derived(setting, config))) {
            (None, Some(derived)) => (Some(derived), "derived"),
            (None, None) => (None, "unset"),
            (value, _) => (value, origin.as_str()),
        };
        let about = |problem: &&ConfigError| problem.setting().is_some_and(|named| named.env == setting.env);
        let problem = problems.iter().find(about).map(ToString::to_string);
        rows.push((setting, value, from, problem));
    }
    let of_none = problems.iter().filter(|problem| problem.setting().is_none());
    let of_none: Vec<_> = of_none.map(ToString::to_string).collect();
    let settings: Vec<_> = rows
        .iter()
        .map(|(setting, value, from, problem)| {
            json!({
                "name": setting.env,
                "toml_key": setting.toml_key(),
                "value": value,
                "from": from,
                "secret": setting.secret,
                "problem": problem,
            })
        })
        .collect();
    answer(json, &json!({"settings": settings, "problems": of_none}), || {
        let lines = rows.iter().map(|(setting, value, from, problem)| {
            let value = value.as_deref().unwrap_or("–");
            let wrong = problem.as_ref().map(|problem| format!("\n    WRONG: {problem}")).unwrap_or_default();
            format!("{:<34} {value}  [{from}]{wrong}", setting.env)
        });
        let wrong = of_none.iter().map(|problem| format!("WRONG: {problem}"));
        lines.chain(wrong).collect::<Vec<_>>().join("\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_is_no_setting_is_told() {
        let names = ["PIX_LISTN", "PIX_LISTEN", "PIX_TEST_PG_BIN", "HOME"].map(str::to_owned);
        let told = misspelt(names.into_iter());
        assert_eq!(told.len(), 1);
        assert!(told.iter().all(|warning| warning.to_string().contains("PIX_LISTN")));
    }

    #[test]
    fn a_file_with_secrets_that_others_can_read_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pix.toml");
        let told = |text: &str, mode: u32| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
            let (source, _) = Source::gather(Some(&file), std::iter::empty(), &[]);
            readable_by_others(&source, &file).map(|told| told.to_string())
        };
        assert!(
            told("database_url = \"postgres://pix:hunter2@db/pix\"", 0o644).unwrap().contains("chmod 600")
        );
        assert!(told("token_keys = \"hunter2\"", 0o640).unwrap().contains("PIX_TOKEN_KEYS is in"));
        assert_eq!(told("token_keys = \"hunter2\"", 0o600), None);
        assert_eq!(told("listen = \"127.0.0.1:1\"", 0o644), None);
    }
}
