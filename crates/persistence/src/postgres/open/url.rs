//! The URL of a database: what is understood of it, and how its parts are named in messages. Never its password.

use std::error::Error as StdError;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode};

use super::OpenError;
use super::tls::{AUTHORITIES, CERTIFICATE, KEY};

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
const DEFAULT_PORT: u16 = 5432;
/// A name of a parameter that is longer or has other characters is a piece of something else, perhaps of a password.
const LONGEST_PARAMETER: usize = 30;

/// What a URL says of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Encryption {
    /// Nothing, or that there shall be none.
    None,
    /// It must be there, with a certificate that is good for the host.
    Verified {
        /// The file of the authorities that are trusted; those of the machine when there is none.
        authorities: Option<PathBuf>,
        /// What is shown to the server.
        identity: Option<Identity>,
    },
}

/// The files by which this side proves who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, with those between it and its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What the parameters of a URL say of TLS, and those that say something else.
#[derive(Default)]
struct Parameters<'a> {
    mode: Option<&'a str>,
    authorities: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    others: Vec<&'a str>,
}

impl<'a> Parameters<'a> {
    fn read(text: &'a str) -> Result<Self, OpenError> {
        let mut read = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                "sslmode" => read.mode = Some(value),
                // What it means to the programs of PostgreSQL, and here without it.
                AUTHORITIES if value == "system" => read.authorities = None,
                AUTHORITIES => read.authorities = Some(path(AUTHORITIES, value)?),
                CERTIFICATE => read.certificate = Some(path(CERTIFICATE, value)?),
                KEY => read.key = Some(path(KEY, value)?),
                _ => read.others.push(pair),
            }
        }
        Ok(read)
    }

    fn encryption(self) -> Result<Encryption, OpenError> {
        let asked = match self.mode {
            None | Some("disable" | "prefer") => false,
            Some("require" | "verify-ca" | "verify-full") => true,
            Some(other) => return Err(OpenError::Tls(shown(other))),
        };
        let bad = |why: &str| Err(OpenError::BadUrl(why.to_owned()));
        let identity = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
            (None, None) => None,
            _ => return bad("of sslcert and sslkey it has only one"),
        };
        match (asked, self.authorities, identity) {
            (true, authorities, identity) => Ok(Encryption::Verified { authorities, identity }),
            (false, None, None) => Ok(Encryption::None),
            (false, ..) => bad("it names files for TLS and doesn't ask for it: add sslmode=verify-full"),
        }
    }
}

fn path(parameter: &str, value: &str) -> Result<PathBuf, OpenError> {
    match percent_decode_str(value).decode_utf8() {
        Ok(text) if !text.is_empty() => Ok(PathBuf::from(text.as_ref())),
        _ => Err(OpenError::BadUrl(format!("the value of {parameter} is not the name of a file"))),
    }
}

/// Reads a URL. The rest of the program never sees its text again.
pub fn parse(url: &str) -> Result<(Config, Encryption), OpenError> {
    let bad = |why: &str| Err(OpenError::BadUrl(why.to_owned()));
    let Some(rest) = SCHEMES.iter().find_map(|scheme| url.strip_prefix(scheme)) else {
        return bad("it does not begin with postgres:// or postgresql://");
    };
    // One of them is in the password: everything after the first would be taken for the host.
    if rest.matches('@').count() > 1 {
        return bad("it has more than one @");
    }
    let (place, parameters) = url.split_once('?').unwrap_or((url, ""));
    let parameters = Parameters::read(parameters)?;
    let left = format!("{place}?{}", parameters.others.join("&"));
    let encryption = parameters.encryption()?;
    let mut config: Config = left.parse().map_err(|error| refused(&error))?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return bad("it names no host");
    }
    if config.get_dbname().is_none() {
        return bad("it names no database");
    }
    if config.get_user().is_none_or(str::is_empty) {
        return bad("it names no user");
    }
    config.ssl_mode(SslMode::Disable);
    if encryption != Encryption::None {
        let named = |host: &Host| matches!(host, Host::Tcp(_));
        if config.get_hosts().is_empty() || !config.get_hosts().iter().all(named) {
            return bad("TLS needs the name of the host, which the server's certificate is for");
        }
        config.ssl_mode(SslMode::Require);
    }
    Ok((config, encryption))
}

/// Why the library refuses a URL; its words name parameters and never their values.
fn refused(error: &tokio_postgres::Error) -> OpenError {
    let words = StdError::source(error).map(ToString::to_string).unwrap_or_default();
    let quoted = |start: &str| words.strip_prefix(start)?.strip_suffix('`').map(str::to_owned);
    if let Some(name) = quoted("unknown option `") {
        return OpenError::UnknownParameter(shown(&name));
    }
    OpenError::BadUrl(match quoted("invalid value for option `") {
        Some(name) => format!("the value of {name} is not one of its values"),
        None => "its parts can't be told apart".to_owned(),
    })
}

/// What may be shown of a word that should be a name.
fn shown(word: &str) -> String {
    if is_name(word) { word.to_owned() } else { "…".to_owned() }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= LONGEST_PARAMETER
        && text.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '_' | '-'))
}

/// The hosts of a URL, each alone, in their order: one that takes a connection and then says nothing has its own time, and
/// not that of the others. What doesn't fit together, and what may be tried in any order, is left to the driver as it is.
pub fn each_host(config: &Config) -> Vec<Config> {
    let (hosts, addresses, ports) =
        (config.get_hosts().len(), config.get_hostaddrs().len(), config.get_ports().len());
    let count = hosts.max(addresses);
    let fits =
        [0, count].contains(&hosts) && [0, count].contains(&addresses) && [0, 1, count].contains(&ports);
    if count < 2 || !fits || config.get_load_balance_hosts() != LoadBalanceHosts::Disable {
        return vec![config.clone()];
    }
    (0..count).map(|index| alone(config, index)).collect()
}

/// One of the hosts, and all that is said beside them.
fn alone(config: &Config, index: usize) -> Config {
    let mut one = Config::new();
    match config.get_hosts().get(index) {
        Some(Host::Tcp(name)) => {
            one.host(name);
        }
        #[cfg(unix)]
        Some(Host::Unix(folder)) => {
            one.host_path(folder);
        }
        None => {}
    }
    if let Some(address) = config.get_hostaddrs().get(index) {
        one.hostaddr(*address);
    }
    if let Some(user) = config.get_user() {
        one.user(user);
    }
    if let Some(password) = config.get_password() {
        one.password(password);
    }
    if let Some(name) = config.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = config.get_options() {
        one.options(options);
    }
    if let Some(name) = config.get_application_name() {
        one.application_name(name);
    }
    if let Some(limit) = config.get_connect_timeout() {
        one.connect_timeout(*limit);
    }
    if let Some(limit) = config.get_tcp_user_timeout() {
        one.tcp_user_timeout(*limit);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one.port(port_of(config, index))
        .keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .target_session_attrs(config.get_target_session_attrs())
        .channel_binding(config.get_channel_binding());
    one
}

/// The port of a host.
fn port_of(config: &Config, index: usize) -> u16 {
    let ports = config.get_ports();
    ports.get(index).or(ports.first()).copied().unwrap_or(DEFAULT_PORT)
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
    let named = hosts.iter().enumerate().map(|(index, host)| format!("{host}:{}", port_of(config, index)));
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
        let (config, _) =
            parse("postgresql://pix:p%40ss@[::1]:6000/books?sslmode=prefer&connect_timeout=3").unwrap();
        assert_eq!(config.get_connect_timeout(), Some(&std::time::Duration::from_secs(3)));
        assert_eq!(config.get_password(), Some(&b"p@ss"[..]));
        assert_eq!(
            (name(&config), role(&config), server(&config)),
            ("books".into(), "pix".into(), "[::1]:6000".into())
        );
        let (config, _) = parse("postgres://pix@a,b:7000/books").unwrap();
        assert_eq!(server(&config), "a:5432,b:7000");
        let (config, _) = parse("postgres://pix@/books?host=/run/postgresql").unwrap();
        assert_eq!(server(&config), "/run/postgresql:5432");
    }

    #[test]
    fn each_host_is_tried_with_all_that_is_said_beside_it() {
        let said = "application_name=a&options=-c%20x%3Dy&connect_timeout=3&tcp_user_timeout=5&keepalives=1&\
                    keepalives_idle=7&keepalives_interval=8&keepalives_retries=9&target_session_attrs=read-write&\
                    channel_binding=disable&load_balance_hosts=disable";
        let read = |hosts: &str| parse(&format!("postgres://pix:secret@{hosts}/books?{said}")).unwrap().0;
        let alone = [read("a:5000"), read("b:6000"), read("[::1]:5432")];
        assert_eq!(each_host(&read("a:5000,b:6000,[::1]")), alone);
        assert_eq!(each_host(&alone[0]), alone[..1]);
        let of_parameters = |text: &str| format!("user=pix dbname=books {text}").parse::<Config>().unwrap();
        // One port is everybody's; an address stands for its host.
        let shared = of_parameters("host=a,/run/pg hostaddr=10.0.0.1,10.0.0.2 port=7000");
        let expected = [
            of_parameters("host=a hostaddr=10.0.0.1 port=7000"),
            of_parameters("host=/run/pg hostaddr=10.0.0.2 port=7000"),
        ];
        assert_eq!(each_host(&shared), expected);
        for whole in
            ["host=a,b hostaddr=10.0.0.1", "host=a,b,c port=1,2", "host=a,b load_balance_hosts=random"]
        {
            assert_eq!(each_host(&of_parameters(whole)), [of_parameters(whole)]);
        }
    }

    #[test]
    fn tls_is_asked_for_whole_or_not_at_all() {
        let verified = |authorities: Option<&str>, identity: Option<(&str, &str)>| Encryption::Verified {
            authorities: authorities.map(PathBuf::from),
            identity: identity
                .map(|(certificate, key)| Identity { certificate: certificate.into(), key: key.into() }),
        };
        for (parameters, expected, mode) in [
            ("", Encryption::None, SslMode::Disable),
            ("?sslmode=disable", Encryption::None, SslMode::Disable),
            ("?sslmode=prefer&connect_timeout=3", Encryption::None, SslMode::Disable),
            ("?sslmode=require", verified(None, None), SslMode::Require),
            ("?sslmode=verify-ca&sslrootcert=system", verified(None, None), SslMode::Require),
            (
                "?sslrootcert=/etc/pix/the%20ca.pem&sslmode=verify-full",
                verified(Some("/etc/pix/the ca.pem"), None),
                SslMode::Require,
            ),
            (
                "?sslmode=require&sslcert=c.pem&sslkey=k.pem&target_session_attrs=read-write",
                verified(None, Some(("c.pem", "k.pem"))),
                SslMode::Require,
            ),
        ] {
            let (config, encryption) = parse(&format!("postgres://pix@h/d{parameters}")).unwrap();
            assert_eq!((encryption, config.get_ssl_mode()), (expected, mode), "{parameters}");
        }
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
            ("postgres://pix:SECRET@h/d?sslmode=allow", "sslmode=allow is not known"),
            ("postgres://pix:SECRET@h/d?sslmode=SECRET", "sslmode=… is not known"),
            ("postgres://pix:SECRET@h/d?sslmode=require&a=b", "unknown parameter a:"),
            ("postgres://pix:SECRET@h/d?sslmode=require&sslcert=c.pem", "has only one"),
            ("postgres://pix:SECRET@h/d?sslmode=require&sslrootcert=", "the value of sslrootcert"),
            ("postgres://pix:SECRET@h/d?sslrootcert=ca.pem", "add sslmode=verify-full"),
            ("postgres://pix:SECRET@h/d?sslmode=prefer&sslcert=c&sslkey=k", "add sslmode=verify-full"),
            ("postgres://pix:SECRET@/d?hostaddr=127.0.0.1&sslmode=require", "TLS needs the name of the host"),
            (
                "postgres://pix:SECRET@/d?host=/run/postgresql&sslmode=require",
                "TLS needs the name of the host",
            ),
        ] {
            let text = parse(url).unwrap_err().to_string();
            assert!(text.contains(expected) && !text.contains("SECRET"), "{url}: {text}");
        }
    }
}
