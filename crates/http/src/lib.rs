//! The HTTP interface of a PIX gateway: the classic v2 endpoints, the v1 integrator endpoints, the token endpoint and
//! the provider's callbacks.
//!
//! It owns wire names, statuses, error forms and limits of requests. It never decides about money: it turns a body
//! into a command of [`pix_domain`], runs it in a task that outlives the connection, and puts the record into words.
//!
//! | Module | Room |
//! |---|---|
//! | `server` | the application, and binding it to a socket |
//! | `routes` | the endpoints of integrators, with the scope that each needs |
//! | `edge` | what every request and answer passes: request id, log line, security headers, CORS, the error form |
//! | `meters` | what is counted of requests, and what a span tells of one |
//! | `limits` | rate limits |
//! | `overload`, `connections` | how many requests and connections there may be at once |
//! | `extract`, `body`, `fields`, `requests` | from bytes to a command |
//! | `json`, `html`, `words`, `time`, `error` | from a record or an error to bytes |
//! | `postbacks` | from an event to the body of its postback |
//! | `qr` | from a text to a picture of it |
//! | `receipt` | from a record to a sheet for a person, as HTML or PDF |
//! | `openapi` | the description of the whole interface, and the page that shows it |
//! | `token`, `v1`, `v2`, `callbacks`, `pay`, `health`, `description` | the endpoints |

mod body;
mod callbacks;
mod config;
mod connections;
mod description;
mod edge;
mod error;
mod extract;
mod fields;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod health;
mod html;
mod json;
mod language;
mod limits;
mod meanings;
mod meters;
mod openapi;
mod overload;
mod pay;
mod postbacks;
mod qr;
mod receipt;
mod requests;
mod routes;
mod server;
mod state;
mod time;
mod tls;
mod token;
mod trials;
mod v1;
mod v2;
mod words;

pub use config::{
    ConfigError, DEFAULT_BODY_DEADLINE, DEFAULT_BODY_LIMIT_BYTES, DEFAULT_CONNECTIONS,
    DEFAULT_CONNECTIONS_PER_CLIENT, DEFAULT_HEAD_DEADLINE, DEFAULT_KEEP_ALIVE, DEFAULT_PAY_STREAMS,
    DEFAULT_RATE_API_BURST, DEFAULT_RATE_API_PER_MINUTE, DEFAULT_RATE_BUCKETS, DEFAULT_RATE_KEY_FACTOR,
    DEFAULT_RATE_STORE_TIMEOUT, DEFAULT_RATE_TOKEN_PER_MINUTE, DEFAULT_REALM, DEFAULT_REQUESTS_AT_ONCE,
    DEFAULT_SHUTDOWN_GRACE, DEFAULT_SIGN_INS_AT_ONCE, DEFAULT_UNREAD_DEADLINE, HttpConfig, MAX_AT_ONCE,
    MAX_BODY_LIMIT_BYTES, MIN_CALLBACK_SECRET_CHARS, ProxyRange, RateStore, Readiness, Stopping,
};
pub use meters::REQUEST_SECONDS;
pub use openapi::{document as openapi_document, postman_collection};
pub use postbacks::Bodies;
pub use routes::{ENDPOINTS, Endpoint};
pub use server::{listen, serve};
pub use state::Services;
pub use tls::{CertificateError, ServerCertificate};
