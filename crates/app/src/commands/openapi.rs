//! `pix-gateway openapi`.

use std::process::ExitCode;

/// Runs the subcommand.
pub fn run(postman: bool) -> anyhow::Result<ExitCode> {
    let document = if postman { pix_http::postman_collection() } else { pix_http::openapi_document() };
    // As it is, so that a file with it is the very document.
    super::write_out(document.as_bytes())
}
