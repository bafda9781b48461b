//! What can go wrong around a server of a test. The `Debug` form is the sentence too: tests unwrap.

use std::fmt;
use std::io;
use std::time::Duration;

/// Why a server, a pooler or a proxy didn't do what was asked.
#[derive(thiserror::Error)]
pub enum PgServerError {
    /// A program isn't installed.
    #[error("the program {program} is not installed: apt-get install {package}")]
    MissingProgram {
        /// Its name.
        program: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// This process is root, `PostgreSQL` refuses to run as root, and there is no user to run it as.
    #[error("PostgreSQL refuses to run as root, and /etc/passwd has neither the user postgres nor nobody")]
    NoUser,
    /// No pooler gives its connections so.
    #[error("PIX_TEST_POOL_MODE is session or transaction, and not {0}")]
    UnknownMode(String),
    /// The operating system refused.
    #[error("could not {doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// The refusal.
        source: io::Error,
    },
    /// A program ended with a failure, or ended at all where it should have gone on.
    #[error("{program} failed ({status}): {output}")]
    Failed {
        /// Which.
        program: String,
        /// Its exit status.
        status: String,
        /// The end of what it said.
        output: String,
    },
    /// Something didn't happen in time. What is known afterwards: nothing.
    #[error("{what} did not happen within {limit:?}")]
    TooSlow {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Duration,
    },
    /// The server doesn't run: it was stopped or killed, and not started again.
    #[error("the server does not run; start_again() starts it")]
    NotRunning,
    /// The server runs already.
    #[error("the server runs already")]
    AlreadyRunning,
    /// No free port of loopback was found.
    #[error("no free port was found on 127.0.0.1 in {0} attempts")]
    NoPort(usize),
    /// A name or a value that can't be put into a configuration.
    #[error("this can't be written into a configuration: {0:?}")]
    BadSetting(String),
}

impl fmt::Debug for PgServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// For `map_err`: the refusal, with what was being done.
pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> PgServerError {
    let doing = doing.into();
    move |source| PgServerError::Io { doing, source }
}
