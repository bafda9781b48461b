//! `pix-gateway secrets`.

use std::process::ExitCode;

use secrecy::ExposeSecret;
use serde_json::json;

use super::answer;
use crate::keyfile::{KeyFile, fresh_postback_key};

/// Runs the subcommand. Nothing is stored.
pub fn run(json: bool) -> anyhow::Result<ExitCode> {
    let fresh = KeyFile::fresh()?;
    let (token_keys, callback_secret) = (fresh.token_keys.expose_secret(), &fresh.callback_secret);
    let postback_key = fresh_postback_key()?;
    let postback_key = postback_key.expose_secret();
    let value = json!({
        "PIX_TOKEN_KEYS": token_keys,
        "PIX_PROVIDER_CALLBACK_SECRET": callback_secret,
        "PIX_POSTBACK_KEYS": postback_key,
    });
    Ok(answer(json, &value, || {
        format!(
            "PIX_TOKEN_KEYS={token_keys}\nPIX_PROVIDER_CALLBACK_SECRET={callback_secret}\nPIX_POSTBACK_KEYS={postback_key}"
        )
    }))
}
