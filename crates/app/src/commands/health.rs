//! `pix-gateway health`: what a container's health check and a service manager run.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use reqwest::{Client, redirect};

use crate::config::Config;

/// The longest wait for the answer: longer than the program itself waits for its store.
const DEADLINE: Duration = Duration::from_secs(4);

/// Runs the subcommand.
pub async fn run(config: &Config) -> anyhow::Result<ExitCode> {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}/health/ready", reached_at(config.listen));
    // It asks this machine, sends nothing that is secret, and wants to know whether somebody answers, not who: the
    // certificate names the address that clients use, which is another one.
    let client = Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .tls_certs_only([])
        .tls_danger_accept_invalid_certs(true)
        .timeout(DEADLINE)
        .build()
        .context("no HTTP client can be made")?;
    let answer = client.get(&url).send().await;
    let Ok(answer) = answer else {
        say!("nobody answers on {}", config.listen);
        return Ok(ExitCode::FAILURE);
    };
    let ready = answer.status().is_success();
    say!("{}", if ready { "ready" } else { "not ready" });
    Ok(if ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where to reach what listens there: "every address" is none to call.
fn reached_at(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_listens_everywhere_is_asked_on_loopback() {
        for (listen, asked) in [
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("[::]:8080", "[::1]:8080"),
            ("10.0.0.7:8080", "10.0.0.7:8080"),
        ] {
            assert_eq!(reached_at(listen.parse().unwrap()).to_string(), asked);
        }
    }
}
