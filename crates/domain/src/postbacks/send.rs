//! Sending one postback: what is handed to the adapter, and what it says of it.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::text::PostbackUrl;
use crate::time::Timestamp;

/// The most bytes that are read of a receiver's answer.
pub const MAX_ANSWER_BYTES: usize = 4 * 1024;
/// The most bytes that are kept of it.
pub const MAX_EXCERPT_BYTES: usize = 1024;

/// What postbacks are signed with: `whsec_` and the base64 of 32 bytes (Standard Webhooks 1.0).
#[derive(Clone, PartialEq, Eq)]
pub struct PostbackSecret(String);

impl PostbackSecret {
    /// A secret in its text form. Whoever makes it answers for the form.
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text form: to be shown to its integrator once asked for, and to be signed with.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Redacted.
impl fmt::Debug for PostbackSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostbackSecret(…)")
    }
}

/// A postback to be sent now.
#[derive(Clone, PartialEq, Eq)]
pub struct Parcel {
    /// Where to, byte for byte.
    pub url: PostbackUrl,
    /// The same in every attempt: receivers tell a repeated one by it.
    pub message_id: String,
    /// The name of the event, such as `cashin.confirmed`.
    pub event: String,
    /// The JSON body, byte for byte what is signed.
    pub body: String,
    /// The time of this attempt, which is signed too.
    pub sent_at: Timestamp,
    /// What it is signed with, oldest first: more than one while secrets are changed. Never empty.
    pub secrets: Vec<PostbackSecret>,
}

/// Redacted: a body names people, and a URL may carry a token.
impl fmt::Debug for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parcel({}, {}, {:?}, {} bytes)", self.message_id, self.event, self.url, self.body.len())
    }
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The receiver answered.
    Answered {
        /// The HTTP status.
        status: u16,
        /// How long it asked to be left alone for (`Retry-After` of RFC 9110 §10.2.3, either form).
        retry_after: Option<Duration>,
        /// The beginning of its answer, as text: at most [`MAX_EXCERPT_BYTES`].
        excerpt: String,
    },
    /// Nothing was sent: the address is one that postbacks never go to.
    Forbidden(UrlRefusal),
    /// No whole answer came. A stable code: `timeout`, `dns`, `connect`, `tls`, `closed`, `malformed`; or `unsendable`,
    /// when the parcel itself is at fault and nothing was sent.
    Failed(&'static str),
}

/// Why a URL is never sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlRefusal {
    /// A stable code.
    pub code: &'static str,
    /// A sentence, without the URL's path or query.
    pub message: String,
}

/// Where postbacks leave through.
///
/// An implementation MUST send the body byte for byte, once, with a bound on time; MUST NOT follow redirects, use a proxy
/// of the environment, or connect to an address that [`PostbackUrls::check`] or its own look at the resolved address
/// forbids; and MUST read no more of the answer than [`MAX_ANSWER_BYTES`].
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait PostbackSender: Send + Sync {
    /// Sends one, and waits for the answer.
    async fn send(&self, parcel: Parcel) -> Reply;
}

/// Which URLs postbacks may go to.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
pub trait PostbackUrls: Send + Sync {
    /// Whether a postback can ever be sent there, as far as the text tells: names are looked up only when it is sent.
    fn check(&self, url: &PostbackUrl) -> Result<(), UrlRefusal>;
}
