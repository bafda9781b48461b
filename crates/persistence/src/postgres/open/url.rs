//! The URL of a database: what is understood of it, and how its parts are named in messages. Never its password.

use std::error::Error as StdError;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::OpenError;

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
const DEFAULT_PORT: u16 = 5432;
/// A name of a parameter that is longer or has other characters is a piece of something else, perhaps of a password.
const LONGEST_PARAMETER: usize = 30;

/// Reads a URL. The rest of the program never sees its text again.
pub fn parse(url: &str) -> Result<Config, OpenError> {
    let bad = |why: &str| Err(OpenError::BadUrl(why.to_owned()));
    let Some(rest) = SCHEMES.iter().find_map(|scheme| url.strip_prefix(scheme)) else {
        return bad("it does not begin with postgres:// or postgresql://");
    };
    // One of them is in the password: everything after the first would be taken for the host.
    if rest.matches('@').count() > 1 {
        return bad("it has more than one @");
    }
    let parameters = rest.split_once('?').map_or("", |(_, parameters)| parameters);
    for (key, value) in parameters.split('&').filter_map(|pair| pair.split_once('=')) {
        if key == "sslmode" && !matches!(value, "disable" | "prefer") {
            let shown = if is_name(value) { value } else { "…" };
            return Err(OpenError::Tls(shown.to_owned()));
        }
    }
    let config: Config = url.parse().map_err(|error| refused(&error))?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return bad("it names no host");
    }
    if config.get_dbname().is_none() {
        return bad("it names no database");
    }
    if config.get_user().is_none_or(str::is_empty) {
        return bad("it names no user");
    }
    Ok(config)
}

/// Why the library refuses a URL; its words name parameters and never their values.
fn refused(error: &tokio_postgres::Error) -> OpenError {
    let words = StdError::source(error).map(ToString::to_string).unwrap_or_default();
    let quoted = |start: &str| words.strip_prefix(start)?.strip_suffix('`').map(str::to_owned);
    if let Some(name) = quoted("unknown option `") {
        let name = if is_name(&name) { name } else { "…".to_owned() };
        return OpenError::UnknownParameter(name);
    }
    OpenError::BadUrl(match quoted("invalid value for option `") {
        Some(name) => format!("the value of {name} is not one of its values"),
        None => "its parts can't be told apart".to_owned(),
    })
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= LONGEST_PARAMETER
        && text.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '_' | '-'))
}

/// The hosts and ports.
pub fn server(config: &Config) -> String {
    let mut hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .map(|host| match host {
            Host::Tcp(name) if name.contains(':') => format!("[{name}]"),
            Host::Tcp(name) => name.clone(),
            #[cfg(unix)]
            Host::Unix(folder) => folder.display().to_string(),
        })
        .collect();
    if hosts.is_empty() {
        hosts = config.get_hostaddrs().iter().map(ToString::to_string).collect();
    }
    let ports = config.get_ports();
    let port_of = |index: usize| ports.get(index).or(ports.first()).copied().unwrap_or(DEFAULT_PORT);
    let named = hosts.iter().enumerate().map(|(index, host)| format!("{host}:{}", port_of(index)));
    named.collect::<Vec<_>>().join(",")
}

/// The database.
pub fn name(config: &Config) -> String {
    config.get_dbname().unwrap_or_default().to_owned()
}

/// The user.
pub fn role(config: &Config) -> String {
    config.get_user().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_whole() {
        let config =
            parse("postgresql://pix:p%40ss@[::1]:6000/books?sslmode=prefer&connect_timeout=3").unwrap();
        assert_eq!(config.get_password(), Some(&b"p@ss"[..]));
        assert_eq!(
            (name(&config), role(&config), server(&config)),
            ("books".into(), "pix".into(), "[::1]:6000".into())
        );
        let config = parse("postgres://pix@a,b:7000/books").unwrap();
        assert_eq!(server(&config), "a:5432,b:7000");
        let config = parse("postgres://pix@/books?host=/run/postgresql").unwrap();
        assert_eq!(server(&config), "/run/postgresql:5432");
    }

    #[test]
    fn what_is_missing_or_unknown_is_said_and_no_secret_is() {
        for (url, expected) in [
            ("mysql://pix:SECRET@h/d", "does not begin with postgres://"),
            ("host=h dbname=d user=pix password=SECRET", "does not begin with postgres://"),
            ("postgres://pix:SECRET@/d", "names no host"),
            ("postgres://pix:SECRET@h", "names no database"),
            ("postgres://pix:SECRET@h/", "names no database"),
            ("postgres://h/d", "names no user"),
            ("postgres://:SECRET@h/d", "names no user"),
            ("postgres://pix:SE@CRET@h/d", "more than one @"),
            ("postgres://pix:SECRET@h:x/d", "the value of port"),
            ("postgres://pix:SECRET@h/d?connect_timeout", "can't be told apart"),
            ("postgres://pix:SECRET@h/d?ssl_mode=disable", "unknown parameter ssl_mode:"),
            ("postgres://pix:SECRET@h/d?SECRET=1", "unknown parameter …:"),
            ("postgres://pix:SECRET@h/d?target_session_attrs=SECRET", "the value of target_session_attrs"),
            ("postgres://pix:SECRET@h/d?sslmode=require", "sslmode=require is not supported"),
            ("postgres://pix:SECRET@h/d?a=b&sslmode=verify-full", "sslmode=verify-full is not supported"),
            ("postgres://pix:SECRET@h/d?sslmode=SECRET", "sslmode=… is not supported"),
        ] {
            let text = parse(url).unwrap_err().to_string();
            assert!(text.contains(expected) && !text.contains("SECRET"), "{url}: {text}");
        }
    }
}
