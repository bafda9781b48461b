//! `pix-gateway openapi`.

use std::io::Write;
use std::process::ExitCode;

/// Runs the subcommand.
pub fn run() -> anyhow::Result<ExitCode> {
    // As it is, so that a file with it is the very document.
    std::io::stdout().write_all(pix_http::openapi_document().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
