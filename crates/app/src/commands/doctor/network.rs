//! The provider, and the way back to this gateway.

use std::time::Duration;

use pix_settlement::{ClassicV2Config, ClassicV2Provider, HttpClientConfig, Trust, http_client};

use super::Check;
use crate::config::Config;
use crate::dangers::is_loopback;
use crate::gateway;

/// How long either may take to answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// Whether the provider can be reached and takes our credentials: a token is asked for, and nothing else.
pub async fn provider(config: &Config) -> Check {
    const NAME: &str = "provider";
    let Some(settings) = &config.provider else {
        return Check::skipped(NAME, "PIX_PROVIDER_URL is not set: a simulated provider, no real money");
    };
    let settings = gateway::provider_config(config, settings, &config.public_url, "");
    let provider = match ClassicV2Provider::new(ClassicV2Config { callback_base: None, ..settings }) {
        Ok(provider) => provider,
        Err(error) => {
            return Check::failed(
                NAME,
                format!("it can't be called: {error}"),
                "correct the PIX_PROVIDER_… settings",
            );
        }
    };
    let asked = tokio::time::timeout(DEADLINE, provider.sign_in()).await;
    match asked.unwrap_or_else(|_late| Err("it did not answer in time".to_owned())) {
        Ok(()) => Check::ok(NAME, "it can be reached and takes our credentials"),
        Err(why) if why.contains("401") => Check::failed(
            NAME,
            why,
            "correct PIX_PROVIDER_CLIENT_ID and PIX_PROVIDER_CLIENT_SECRET, or ask the provider for new ones",
        ),
        Err(why) => Check::failed(
            NAME,
            format!("no token: {why}"),
            "correct PIX_PROVIDER_URL, open the way to it, and look at its certificate (PIX_PROVIDER_CA_FILE) and at its own status",
        ),
    }
}

/// Whether a gateway answers at the address that clients and the provider's callbacks go to. From this machine: that the
/// world gets there too, only the world can tell.
pub async fn public_url(config: &Config) -> Check {
    const NAME: &str = "public url";
    let url = &config.public_url;
    let real = config.provider.as_ref().is_some_and(|provider| !is_loopback(&provider.url));
    let trust = if url.starts_with("https://") { Trust::System } else { Trust::Nobody };
    let client = http_client(&HttpClientConfig {
        https_only: false,
        trust,
        identity: None,
        connect_timeout: DEADLINE,
        total_timeout: DEADLINE,
    });
    let found = match client {
        Ok(client) => match client.get(format!("{url}/health/live")).send().await {
            Ok(answer) if answer.status() == 200 => {
                return Check::ok(NAME, format!("a gateway answers at {url}"));
            }
            Ok(answer) => format!("{url}/health/live answers with {}", answer.status().as_u16()),
            Err(error) => format!("nothing answers at {url}: {}", reason(&error)),
        },
        Err(error) => error.to_string(),
    };
    let remedy = "start `serve`; correct PIX_PUBLIC_URL, its name in the DNS and its certificate, and let the proxy pass /health and /callbacks";
    if real { Check::failed(NAME, found, remedy) } else { Check::warning(NAME, found, remedy) }
}

/// The innermost cause; those around it repeat the address.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "it took too long".to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
