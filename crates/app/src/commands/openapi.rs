//! `pix-gateway openapi`.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Runs the subcommand.
pub fn run(postman: bool) -> anyhow::Result<ExitCode> {
    let document = if postman { pix_http::postman_collection() } else { pix_http::openapi_document() };
    // As it is, so that a file with it is the very document.
    match std::io::stdout().write_all(document.as_bytes()) {
        // Whoever reads may have seen enough.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}
