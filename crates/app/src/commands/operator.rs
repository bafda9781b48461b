//! `pix-gateway operator`: who may sign in to the console.

use std::process::ExitCode;

use anyhow::{Context, bail};
use pix_console::{OperatorToken, Operators};
use serde_json::json;

use super::answer;
use crate::cli;
use crate::system::random_bytes;

/// Runs the subcommand. Nothing is stored.
pub fn run(command: cli::Operator) -> anyhow::Result<ExitCode> {
    let cli::Operator::Token { name, json } = command;
    let random = random_bytes().context("the operating system gave no random numbers")?;
    let token = OperatorToken::of(random);
    let entry = format!("{name}:{}", token.digest());
    if name.contains(',') || Operators::parse(&entry).is_err() {
        bail!("\"{name}\" can't be an operator's name: give 1 to 64 characters, without a comma");
    }
    let value = json!({"name": name, "token": token.expose(), "entry": entry});
    Ok(answer(json, &value, || {
        format!(
            "token  {}\nIt is shown this once: give it to {name} alone. What lets it in, beside the entries of others after a comma:\n\nPIX_CONSOLE_OPERATORS={entry}",
            token.expose()
        )
    }))
}
