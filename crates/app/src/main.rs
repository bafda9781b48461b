//! The program: configuration, wiring, workers and subcommands. It owns no decision of its own about money.

mod admin;
mod audited;
mod books;
mod cache;
mod cli;
mod clocks;
mod commands;
mod common;
mod compare;
mod config;
mod console;
mod dangers;
#[cfg(feature = "fail-points")]
mod fail_points;
mod gateway;
mod health;
mod journal;
mod keyfile;
mod locking;
mod metered;
mod meters;
mod otlp;
mod proving;
mod restored;
mod sealing;
mod store;
mod system;
mod traced;
mod worker;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;

use crate::cli::{Cli, Command};
use crate::config::{Config, ConfigError, SETTINGS, Source};

/// Half of what an allocation costs with the C library's (docs/adr/0035).
#[global_allocator]
static MEMORY: MiMalloc = MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    // Fails only when one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    let failed = if cli.command.looks() { commands::COULD_NOT_LOOK.into() } else { ExitCode::FAILURE };
    // No argument takes a value that begins with two dashes: this is the flag.
    let in_json = std::env::args_os().any(|argument| argument == "--json");
    match Box::pin(run(cli)).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("pix-gateway: {error:#}");
            if in_json {
                commands::tell_failure(&error);
            }
            failed
        }
    }
}

/// What is wrong with the environment itself: a setting that is no text. To take its default would be to take another database.
fn unreadable(environment: impl Iterator<Item = (OsString, OsString)>) -> impl Iterator<Item = ConfigError> {
    environment.filter(|(_, value)| value.to_str().is_none()).filter_map(|(name, _)| {
        let setting = SETTINGS.iter().find(|setting| name.to_str() == Some(setting.env))?;
        Some(ConfigError::new(format!(
            "{} must be UTF-8, and the environment has bytes in it that are not: write it anew, in a URL percent-encoded",
            setting.env
        )))
    })
}

/// The environment, as far as it is text.
fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    // Before any setting is read: these are about the program alone.
    match cli.command {
        Command::Openapi { postman } => return commands::openapi::run(postman),
        Command::Completions { shell } => return commands::completions::run(shell),
        Command::Man { out } => return commands::man::run(&out),
        Command::Books(cli::Books::Key { file, json }) => return commands::books::key(&file, json),
        Command::Books(cli::Books::Verify(arguments)) => return commands::books::verify(&arguments),
        Command::Operator(command) => return commands::operator::run(command),
        _ => {}
    }
    let (mut source, mut problems) = Source::gather(cli.config.as_deref(), environment(), &cli.set);
    problems.extend(unreadable(std::env::vars_os()));
    if let Some(name) = cli.operator {
        source.set_operator(name);
    }
    if let Command::Config(command) = cli.command {
        return Ok(commands::config::run(&source, problems, cli.config.as_deref(), command));
    }
    if let Some(problem) = problems.into_iter().next() {
        return Err(problem.into());
    }
    let config = Config::load(&source)?;
    match cli.command {
        Command::Serve(arguments) => commands::serve::run(config, arguments).await,
        Command::Work => commands::work::run(config).await,
        Command::Migrate { plan, json } => commands::migrate::run(&config, plan, json).await,
        Command::Findings { integrator, json } => commands::findings::run(&config, integrator, json).await,
        Command::Secrets { json } => commands::secrets::run(json),
        Command::Integrator(command) => commands::integrator::run(&config, command).await,
        Command::Key(command) => commands::key::run(&config, command).await,
        Command::Fees(command) => commands::fees::run(&config, command).await,
        Command::Limits(command) => commands::limits::run(&config, command).await,
        Command::Secret(command) => commands::secret::run(&config, command).await,
        Command::Postback(command) => commands::postback::run(&config, command).await,
        Command::Person(command) => commands::person::run(&config, command).await,
        Command::Uncertain { json } => commands::uncertain::run(&config, json).await,
        Command::Resolve(arguments) => commands::resolve::run(&config, arguments).await,
        Command::Backup { file, json } => commands::backup::run(&config, &file, json).await,
        Command::Restore(arguments) => commands::restore::run(&config, arguments).await,
        Command::AuditLog(command) => commands::audit_log::run(&config, command).await,
        Command::Audit(arguments) => commands::audit::run(&config, arguments).await,
        Command::Seal { json } => commands::seal::run(&config, json).await,
        Command::Books(cli::Books::Sign { key, date }) => commands::books::sign(&config, &key, date).await,
        // These were run before.
        Command::Openapi { .. }
        | Command::Config(_)
        | Command::Completions { .. }
        | Command::Man { .. }
        | Command::Books(_)
        | Command::Operator(_) => Ok(ExitCode::SUCCESS),
        Command::Health => commands::health::run(&config).await,
        Command::Doctor { json } => Ok(commands::doctor::run(&config, json).await),
        Command::Simulator(arguments) => commands::simulator::run(&config, arguments).await,
        Command::Demo => Box::pin(commands::demo::run(config)).await,
    }
}
