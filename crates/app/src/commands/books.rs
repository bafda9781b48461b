//! `pix-gateway books`: statements that prove what the books were, elsewhere and later.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use pix_domain::time::Clock;
use serde_json::{Value, json};

use super::{answer, judged};
use crate::books::{self, Signed, SigningKey};
use crate::cli;
use crate::config::Config;
use crate::gateway;
use crate::restored::Gate;
use crate::store::Store;
use crate::system::SystemClock;

/// Makes a key and prints what statements are verified with. Needs no settings.
pub fn key(path: &Path, as_json: bool) -> anyhow::Result<ExitCode> {
    let public = SigningKey::make(path)?.public();
    Ok(answer(as_json, &json!({"public_key": public}), || public.clone()))
}

/// Verifies a statement. Needs no settings and no database.
///
/// # Errors
///
/// When there is nothing to verify: the file can't be read, or the key is none.
pub fn verify(arguments: &cli::BooksVerify) -> anyhow::Result<ExitCode> {
    let shown = arguments.file.display();
    let text = std::fs::read_to_string(&arguments.file).with_context(|| format!("{shown} can't be read"))?;
    books::public_key(&arguments.public_key)?;
    let read = Signed::parse(&text).with_context(|| shown.to_string());
    let statement = match read.and_then(|read| read.verify(&arguments.public_key)) {
        Ok(statement) => statement,
        Err(error) => {
            let problem = format!("{error:#}");
            answer(arguments.json, &json!({"valid": false, "problem": problem}), || {
                format!("the statement is NOT valid: {problem}")
            });
            return Ok(ExitCode::FAILURE);
        }
    };
    let value = json!({"valid": true, "statement": statement});
    let told = answer(arguments.json, &value, || {
        let text = |pointer: &str| statement.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        format!(
            "the statement of {} is valid: made at {}, cash expected {}, at the provider {}, root {}\n{statement:#}",
            text("/date"),
            text("/made_at"),
            text("/cash_expected"),
            statement.pointer("/provider_balance").and_then(Value::as_str).unwrap_or("not told"),
            text("/chain/root"),
        )
    });
    Ok(judged(told, true))
}

/// Signs a statement of the books as they are, and prints it.
pub async fn sign(config: &Config, key: &Path, date: Option<String>) -> anyhow::Result<ExitCode> {
    let today = books::day(SystemClock.now());
    let date = date.unwrap_or_else(|| today.clone());
    let is_day =
        chrono::NaiveDate::parse_from_str(&date, "%Y-%m-%d").is_ok_and(|day| day.to_string() == date);
    ensure!(is_day && date <= today, "--date takes a day such as {today}, and none to come");
    let key = SigningKey::read(key)?;
    let store = Store::open_existing(config).await?;
    gateway::refuse_another_provider(config, &store).await?;
    let ports = gateway::idle_ports(config, &store, Gate::of(&store, config.restore_ask).await?).await?;
    let provider = ports.provider.as_ref();
    let signed = books::sign(&store, &config.public_url, &key, &date, provider).await?;
    super::write_out(signed.to_string().as_bytes())
}
