//! The access token of the provider: asked for by one caller at a time, used by all until shortly before its end. It
//! must never know what a token is used for.

use std::time::Duration;

use reqwest::{Client, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::classify::is_object;
use crate::http::{Answer, Fault, post};

/// Lifetime of a token whose answer doesn't say it.
const DEFAULT_LIFETIME: Duration = Duration::from_mins(5);
/// The longest a token is used, whatever its answer says.
const MAX_LIFETIME: Duration = Duration::from_hours(24);
/// A token isn't used for the last part of its lifetime: a fifth of it, and at most this.
const MAX_MARGIN: Duration = Duration::from_mins(1);
const MARGIN_DIVISOR: u32 = 5;
/// The longest token that fits a header every server takes.
const MAX_TOKEN_BYTES: usize = 8 * 1024;
const TOO_LATE: &str = "there was no token in time";
const REQUEST_BODY: &str = r#"{"grant_type":"client_credentials"}"#;

/// A token, and which of all tokens it is.
#[derive(Clone)]
pub(crate) struct Token {
    pub(crate) secret: SecretString,
    generation: u64,
}

struct Held {
    token: Token,
    usable_until: Instant,
}

struct Failure {
    at: Instant,
    why: String,
}

#[derive(Default)]
struct State {
    held: Option<Held>,
    /// The last time that none was given. Who already waited then doesn't ask again.
    failure: Option<Failure>,
    generations: u64,
}

/// Where tokens come from.
pub(crate) struct Tokens {
    http: Client,
    url: Url,
    client_id: String,
    client_secret: SecretString,
    timeout: Duration,
    state: Mutex<State>,
}

impl Tokens {
    pub(crate) fn new(
        http: Client,
        url: Url,
        client_id: String,
        client_secret: SecretString,
        timeout: Duration,
    ) -> Self {
        Self { http, url, client_id, client_secret, timeout, state: Mutex::default() }
    }

    /// A token; never `refused`, nor one that is older. The error is why there is none. It takes no longer than the
    /// timeout, waiting for others who ask included.
    pub(crate) async fn get(&self, refused: Option<&Token>) -> Result<Token, String> {
        let asked_at = Instant::now();
        let deadline = asked_at + self.timeout;
        let Ok(mut state) = timeout_at(deadline, self.state.lock()).await else {
            return Err(TOO_LATE.to_owned());
        };
        if let Some(held) = &state.held
            && refused.is_none_or(|refused| refused.generation < held.token.generation)
            && Instant::now() < held.usable_until
        {
            return Ok(held.token.clone());
        }
        if let Some(failure) = &state.failure
            && asked_at <= failure.at
        {
            return Err(failure.why.clone());
        }
        state.held = None;
        match timeout_at(deadline, self.ask()).await.unwrap_or_else(|_late| Err(TOO_LATE.to_owned())) {
            Ok((secret, usable_for)) => {
                state.generations = state.generations.saturating_add(1);
                let token = Token { secret, generation: state.generations };
                let usable_until = Instant::now() + usable_for;
                state.held = Some(Held { token: token.clone(), usable_until });
                state.failure = None;
                Ok(token)
            }
            Err(why) => {
                state.failure = Some(Failure { at: Instant::now(), why: why.clone() });
                Err(why)
            }
        }
    }

    async fn ask(&self) -> Result<(SecretString, Duration), String> {
        let request = self
            .http
            .post(self.url.clone())
            .timeout(self.timeout)
            .basic_auth(&self.client_id, Some(self.client_secret.expose_secret()));
        match post(request, REQUEST_BODY.to_owned()).await {
            Ok(answer) if answer.status == 200 => {
                read(&answer).ok_or_else(|| "the answer to the token request is not understood".to_owned())
            }
            Ok(Answer { status: 401, .. }) => {
                Err("the token request was refused (401): check client_id and client_secret".to_owned())
            }
            Ok(answer) => Err(format!("the token request was answered with status {}", answer.status)),
            Err(Fault::NotWritten(cause)) => Err(cause),
            Err(Fault::TimedOut) => Err("the token request took too long".to_owned()),
            Err(Fault::Lost | Fault::TooLarge) => Err("the token request got no whole answer".to_owned()),
        }
    }
}

/// The token and how long it may be used.
fn read(answer: &Answer) -> Option<(SecretString, Duration)> {
    #[derive(Deserialize)]
    struct TokenBody {
        access_token: String,
        token_type: Option<String>,
        expires_in: Option<u64>,
    }
    let text = answer.json.as_deref().filter(|text| is_object(text))?;
    let body: TokenBody = serde_json::from_str(text).ok()?;
    let fits = (1..=MAX_TOKEN_BYTES).contains(&body.access_token.len())
        && body.access_token.bytes().all(|byte| byte.is_ascii_graphic());
    let bearer = body.token_type.is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    let lifetime = body.expires_in.map_or(DEFAULT_LIFETIME, Duration::from_secs).min(MAX_LIFETIME);
    let usable_for = lifetime.saturating_sub((lifetime / MARGIN_DIVISOR).min(MAX_MARGIN));
    (fits && bearer).then(|| (body.access_token.into(), usable_for))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{HttpClientConfig, Trust, http_client};

    fn lifetime(json: &str) -> Option<u64> {
        read(&Answer { status: 200, json: Some(json.to_owned()) }).map(|(_, usable)| usable.as_secs())
    }

    #[test]
    fn a_token_is_given_up_before_it_ends() {
        assert_eq!(lifetime(r#"{"access_token":"t","token_type":"Bearer","expires_in":3600}"#), Some(3540));
        assert_eq!(lifetime(r#"{"access_token":"t","token_type":"bearer","expires_in":10}"#), Some(8));
        assert_eq!(lifetime(r#"{"access_token":"t","expires_in":0}"#), Some(0));
        assert_eq!(lifetime(r#"{"access_token":"t"}"#), Some(240));
        assert_eq!(lifetime(r#"{"access_token":"t","expires_in":18446744073709551615}"#), Some(86_340));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_others_and_asking_take_no_longer_than_the_timeout() {
        const TIMEOUT: Duration = Duration::from_secs(10);
        // It never answers.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = Url::parse(&format!("http://{}", silent.local_addr().unwrap())).unwrap();
        let http = http_client(&HttpClientConfig {
            https_only: false,
            trust: Trust::Nobody,
            identity: None,
            connect_timeout: TIMEOUT,
            total_timeout: TIMEOUT,
        });
        let http = http.unwrap();
        for others_take in [Duration::ZERO, Duration::from_secs(9), Duration::from_hours(1)] {
            let tokens = Tokens::new(http.clone(), url.clone(), "id".into(), "secret".into(), TIMEOUT);
            let (begin, others) = (Instant::now(), tokens.state.lock().await);
            let others = async {
                tokio::time::sleep(others_take).await;
                drop(others);
            };
            let ours = async { (tokens.get(None).await.map(drop), begin.elapsed()) };
            let ((asked, took), ()) = tokio::join!(ours, others);
            assert!(asked.is_err());
            assert!(took < TIMEOUT + Duration::from_millis(100), "{others_take:?}: {took:?}");
        }
    }

    #[test]
    fn what_is_no_bearer_token_is_not_taken() {
        for json in [
            r#"{"access_token":"","expires_in":10}"#,
            r#"{"access_token":"a\r\nb","expires_in":10}"#,
            r#"{"access_token":"t","token_type":"mac","expires_in":10}"#,
            r#"{"access_token":"t","access_token":"u","expires_in":10}"#,
            r#"{"access_token":"t","expires_in":1e9}"#,
            r#"["t","Bearer",10]"#,
            "{}",
        ] {
            assert_eq!(lifetime(json), None, "{json}");
        }
    }
}
