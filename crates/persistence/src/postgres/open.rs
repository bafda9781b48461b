//! Looking at a database before it is used, and bringing its schema up to date.
//!
//! What a wrong deployment can get wrong is refused here, before the first write, with one sentence that says what to do:
//! the URL, the way to the server, what the server promises of a commit, and whose schema the database has. A password is
//! in none of them.

mod tls;
mod url;

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use diesel::connection::{Connection, SimpleConnection};
use diesel::migration::{Migration, MigrationSource};
use diesel::pg::Pg;
use diesel::prelude::{ExpressionMethods, QueryDsl};
use diesel::result::Error as DieselError;
use diesel_async::async_connection_wrapper::AsyncConnectionWrapper;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};
use thiserror::Error;
use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, SimpleQueryMessage};

use super::ask::Ask;
use super::pool::describe;
pub use tls::Target;
pub use url::each_host;
use url::{name, parse, role, server};

const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/postgres");

/// The advisory lock that a program holds while it migrates (`pix-migr` as a number).
const MIGRATION_LOCK: i64 = 0x7069_782d_6d69_6772;

/// What a migration is run under, whatever the role's defaults: it takes as long as it takes.
const MIGRATOR_SETTINGS: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; \
                                 SET LOCAL lock_timeout = 0";

/// The oldest server that is used, as `server_version_num`: PostgreSQL 13.
pub const OLDEST_SERVER_VERSION: i64 = 130_000;

/// How long a step may take when nothing else is said.
const DEFAULT_LIMIT: Duration = Duration::from_secs(3);

mod catalog {
    //! What PostgreSQL says of itself.

    use diesel::sql_types::BigInt;

    diesel::table! {
        pg_catalog.pg_settings (name) {
            name -> Text,
            setting -> Text,
        }
    }
    diesel::table! {
        pg_catalog.pg_tables (schemaname, tablename) {
            schemaname -> Text,
            tablename -> Text,
        }
    }
    diesel::table! {
        #[sql_name = "__diesel_schema_migrations"]
        schema_migrations (version) {
            version -> Text,
        }
    }
    diesel::define_sql_function! {
        /// Whether the server follows another one.
        fn pg_is_in_recovery() -> Bool;
    }
    diesel::define_sql_function! {
        /// Where tables are made that are named without a schema.
        fn current_schema() -> Nullable<Text>;
    }
    diesel::define_sql_function! {
        /// Waits for a lock that is held until the transaction ends.
        fn pg_advisory_xact_lock(key: BigInt) -> Text;
    }
}

use catalog::{
    current_schema, pg_advisory_xact_lock, pg_is_in_recovery, pg_settings, pg_tables, schema_migrations,
};

/// Why a database can't be used, and what to do. Servers and databases are named, passwords never.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The URL isn't one.
    #[error(
        "the database URL is not valid ({0}): write postgres://USER:PASSWORD@HOST:5432/DATABASE, with other \
         characters than letters and digits in the password percent-encoded"
    )]
    BadUrl(String),
    /// The URL has a parameter that isn't known.
    #[error("the database URL has the unknown parameter {0}: remove it or correct its name")]
    UnknownParameter(String),
    /// The URL says of TLS what isn't known.
    #[error(
        "sslmode={0} is not known: write sslmode=verify-full for TLS, or sslmode=disable on a network that nobody else \
         reads"
    )]
    Tls(String),
    /// A file that TLS needs.
    #[error(
        "the file of {parameter}, {path}, can't be used ({reason}): name a PEM file in the database URL that the program \
         may read"
    )]
    TlsFile {
        /// The parameter of the URL.
        parameter: &'static str,
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The URL asks for TLS, the server doesn't have it.
    #[error(
        "{0} does not speak TLS: set ssl = on there, or sslmode=disable in the database URL on a network that nobody else \
         reads"
    )]
    NoTls(String),
    /// Somebody else may answer there.
    #[error(
        "the certificate of {server} can't be trusted ({reason}): name the file of its authority by sslrootcert in the \
         database URL, and the host as the certificate does"
    )]
    NotTrusted {
        /// The host and port.
        server: String,
        /// What is wrong with the certificate.
        reason: String,
    },
    /// The two sides don't agree.
    #[error(
        "{server} ends the TLS handshake ({reason}): name a certificate and key that it trusts by sslcert and sslkey in \
         the database URL, or have it speak TLS 1.2 or 1.3"
    )]
    TlsRefused {
        /// The host and port.
        server: String,
        /// What it said.
        reason: String,
    },
    /// Nobody listens there.
    #[error(
        "nothing listens at {0}: start PostgreSQL there, or correct the host and port of the database URL"
    )]
    NotListening(String),
    /// The way there is closed.
    #[error(
        "{server} can't be reached ({reason}): correct the host of the database URL, or open the way to it"
    )]
    Unreachable {
        /// The host and port.
        server: String,
        /// What the operating system said.
        reason: String,
    },
    /// It didn't answer in time.
    #[error("{server} did not answer within {} ms: correct the host of the database URL, or open the way to it", .limit.as_millis())]
    TimedOut {
        /// The host and port.
        server: String,
        /// How long was waited.
        limit: Duration,
    },
    /// The password is wrong or missing.
    #[error(
        "{server} refuses the password of the role {role}: correct the user and password of the database URL"
    )]
    WrongPassword {
        /// The host and port.
        server: String,
        /// Who was let out.
        role: String,
    },
    /// The role may not connect.
    #[error(
        "{server} does not let the role {role} in ({reason}): create the role, or let it in by pg_hba.conf and GRANT CONNECT"
    )]
    NotLetIn {
        /// The host and port.
        server: String,
        /// Who was let out.
        role: String,
        /// What the server said.
        reason: String,
    },
    /// There is no database with that name.
    #[error(
        "there is no database {database} at {server}: create it, or correct the name in the database URL"
    )]
    NoDatabase {
        /// The host and port.
        server: String,
        /// The name.
        database: String,
    },
    /// All places are taken.
    #[error(
        "{server} has no free connection ({reason}): raise its limit of connections, or make the pools smaller"
    )]
    Full {
        /// The host and port.
        server: String,
        /// What the server said.
        reason: String,
    },
    /// It comes up or goes down.
    #[error("{server} takes no connections now ({reason}): try again when it is up")]
    NotUp {
        /// The host and port.
        server: String,
        /// What the server said.
        reason: String,
    },
    /// It is older than what this program was made for.
    #[error("{server} is PostgreSQL {version}: upgrade it to 13 or newer")]
    TooOld {
        /// The host and port.
        server: String,
        /// Its version.
        version: String,
    },
    /// Its texts aren't UTF-8.
    #[error("the database {database} has the encoding {encoding}: make a new one with ENCODING 'UTF8'")]
    NotUtf8 {
        /// The database.
        database: String,
        /// Its encoding.
        encoding: String,
    },
    /// It follows another server.
    #[error("{0} is a standby and takes no writes: set the database URL to its primary")]
    Standby(String),
    /// It was told to take no writes.
    #[error(
        "the database {0} is read-only: set default_transaction_read_only = off for the server, the database and the role"
    )]
    ReadOnly(String),
    /// A commit there may be lost or the data damaged by a crash.
    #[error(
        "{setting} is {value} for the database {database}, so that a crash could lose money: set {setting} = on for the \
         server, the database and the role"
    )]
    NotDurable {
        /// The database.
        database: String,
        /// The setting that promises too little.
        setting: String,
        /// What it is.
        value: String,
    },
    /// The database is another program's.
    #[error(
        "the database {0} is another program's: make one for pix-gateway, and set the database URL to it"
    )]
    Foreign(String),
    /// The schema is of a later version of this program.
    #[error(
        "the database {database} was written by a newer pix-gateway: upgrade the program, or restore a backup of the \
         older version (unknown migration {version})"
    )]
    Newer {
        /// The database.
        database: String,
        /// A migration this program doesn't know.
        version: String,
    },
    /// The schema is of an earlier version of this program, or isn't there at all.
    #[error(
        "the database {database} needs {} migration(s) ({}): back it up and run `pix-gateway migrate`",
        .migrations.len(), .migrations.join(", ")
    )]
    Pending {
        /// The database.
        database: String,
        /// The names of what it needs.
        migrations: Vec<String>,
    },
    /// The role may not do what is needed.
    #[error(
        "the role {role} may not do what is needed in the database {database} ({reason}): grant it, or let the owner \
         of the database do it"
    )]
    Denied {
        /// The database.
        database: String,
        /// Who.
        role: String,
        /// What the server said.
        reason: String,
    },
    /// Something else failed.
    #[error("the database can't be opened: {0}")]
    Failed(String),
}

/// How the server at `url` is reached. Making a connection takes at most `connect_timeout`, if the URL doesn't say another
/// one.
pub fn target(url: &str, connect_timeout: Duration) -> Result<Target, OpenError> {
    let (mut config, encryption) = parse(url)?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(connect_timeout);
    }
    Target::new(config, &encryption)
}

/// What the programs of PostgreSQL (`pg_dump`, `pg_restore`) read from their environment to reach the database at `url`: so
/// that nothing of it is among their arguments, which others on the machine can see.
pub fn environment(url: &str) -> Result<Vec<(&'static str, String)>, OpenError> {
    let (config, encryption) = parse(url)?;
    let listed = |all: Vec<String>| (!all.is_empty()).then(|| all.join(","));
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(folder) => folder.display().to_string(),
    });
    let said = [
        ("PGHOST", listed(hosts.collect())),
        ("PGHOSTADDR", listed(config.get_hostaddrs().iter().map(ToString::to_string).collect())),
        ("PGPORT", listed(config.get_ports().iter().map(ToString::to_string).collect())),
        ("PGUSER", config.get_user().map(str::to_owned)),
        ("PGDATABASE", config.get_dbname().map(str::to_owned)),
        ("PGPASSWORD", config.get_password().map(|password| String::from_utf8_lossy(password).into_owned())),
        ("PGOPTIONS", config.get_options().map(str::to_owned)),
        // What is read, and what is written, is the primary's.
        ("PGTARGETSESSIONATTRS", Some("read-write".to_owned())),
    ];
    let said = said.into_iter().filter_map(|(name, value)| Some((name, value?)));
    Ok(said.chain(tls::environment(encryption)).collect())
}

/// Whether the way to the server at `url` leads over a network, and isn't encrypted.
pub fn is_exposed(url: &str) -> Result<bool, OpenError> {
    let (config, encryption) = parse(url)?;
    let is_here = |host: &Host| match host {
        Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()),
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    let named = config.get_hosts().iter().all(is_here);
    // An address stands for the host of the same place.
    let addresses = config.get_hostaddrs();
    let all_here = if addresses.is_empty() { named } else { addresses.iter().all(IpAddr::is_loopback) };
    Ok(encryption == url::Encryption::None && !all_here)
}

/// A connection to the first host that gives one in time; why the last one doesn't, when none does.
pub async fn connect(target: &Target) -> Result<AsyncPgConnection, OpenError> {
    let mut refused = failed(&target.config, "it has no host");
    for config in &each_host(&target.config) {
        let connected = within(config, async {
            let connected = Box::pin(config.connect(target.connector.clone())).await;
            let (client, connection) = connected.map_err(|error| not_connected(config, &error))?;
            let made = AsyncPgConnection::try_from_client_and_connection(client, connection).await;
            made.map_err(|error| failed(config, &error.to_string()))
        });
        match connected.await {
            Ok(conn) => return Ok(conn),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// The database's migrations that this program knows and the database has not, by name.
pub async fn pending(target: &Target) -> Result<Vec<String>, OpenError> {
    let (mut conn, config) = (connect(target).await?, &target.config);
    Ok(within(config, compare(config, &mut conn)).await?.0)
}

/// Whether any migration was run on the database.
pub async fn holds_books(target: &Target) -> Result<bool, OpenError> {
    match pending(target).await {
        Ok(pending) => Ok(pending.len() < embedded().len()),
        Err(OpenError::Newer { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Brings the database up to date, in one transaction; the names of what was run.
///
/// Of programs that do this at once, one does it and the others wait, as long as it takes.
pub async fn migrate(target: &Target) -> Result<Vec<String>, OpenError> {
    let (mut conn, config) = (connect(target).await?, &target.config);
    within(config, check_server(config, &mut conn)).await?;
    if within(config, compare(config, &mut conn)).await?.0.is_empty() {
        return Ok(Vec::new());
    }
    // diesel runs migrations on connections that block.
    let run = tokio::task::spawn_blocking(move || run_pending(conn)).await;
    let run = run.map_err(|error| failed(config, &error.to_string()))?;
    run.map_err(|error| failed(config, &error.to_string()))
}

/// Refuses a database that can't be trusted with money or isn't up to date; the newest migration it has.
pub async fn ready(target: &Target) -> Result<String, OpenError> {
    let (mut conn, config) = (connect(target).await?, &target.config);
    let (pending, newest) = within(config, async {
        check_server(config, &mut conn).await?;
        compare(config, &mut conn).await
    })
    .await?;
    match newest {
        Some(newest) if pending.is_empty() => Ok(newest),
        _ => Err(OpenError::Pending { database: name(config), migrations: pending }),
    }
}

/// Runs one step: making a connection, or asking what is known at once.
async fn within<T>(
    config: &Config,
    work: impl Future<Output = Result<T, OpenError>>,
) -> Result<T, OpenError> {
    let limit = config.get_connect_timeout().copied().unwrap_or(DEFAULT_LIMIT);
    let late = OpenError::TimedOut { server: server(config), limit };
    tokio::time::timeout(limit, work).await.unwrap_or(Err(late))
}

/// What the refusal of a connection means.
fn not_connected(config: &Config, error: &tokio_postgres::Error) -> OpenError {
    let (server, reason) = (server(config), describe(error));
    let Some(code) = error.code() else {
        let cause = StdError::source(error);
        if let Some(refusal) = tls_refused(cause, &server, &reason) {
            return refusal;
        }
        return match cause.and_then(|cause| cause.downcast_ref::<io::Error>()) {
            Some(cause) if is_nobody(cause) => OpenError::NotListening(server),
            Some(_) => OpenError::Unreachable { server, reason },
            None if reason.contains("password missing") => {
                OpenError::WrongPassword { server, role: role(config) }
            }
            None => failed(config, &reason),
        };
    };
    match *code {
        SqlState::INVALID_PASSWORD => OpenError::WrongPassword { server, role: role(config) },
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION | SqlState::INSUFFICIENT_PRIVILEGE => {
            OpenError::NotLetIn { server, role: role(config), reason }
        }
        SqlState::INVALID_CATALOG_NAME => OpenError::NoDatabase { server, database: name(config) },
        SqlState::TOO_MANY_CONNECTIONS => OpenError::Full { server, reason },
        SqlState::CANNOT_CONNECT_NOW => OpenError::NotUp { server, reason },
        _ => failed(config, &reason),
    }
}

/// What a connection that failed for TLS means.
fn tls_refused(cause: Option<&(dyn StdError + 'static)>, server: &str, reason: &str) -> Option<OpenError> {
    let (server, reason) = (server.to_owned(), reason.to_owned());
    if reason.contains("server does not support TLS") {
        return Some(OpenError::NoTls(server));
    }
    let wrapped = cause?.downcast_ref::<io::Error>()?.get_ref()?;
    Some(match wrapped.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(_) => OpenError::NotTrusted { server, reason },
        _ => OpenError::TlsRefused { server, reason },
    })
}

/// Whether the machine answers and nobody listens: a closed port, or no socket in the folder.
fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

fn failed(config: &Config, reason: &str) -> OpenError {
    if reason.contains("permission denied") {
        OpenError::Denied { database: name(config), role: role(config), reason: reason.to_owned() }
    } else {
        OpenError::Failed(format!("{} at {}: {reason}", name(config), server(config)))
    }
}

/// The setting of what a commit waits for.
const FLUSH: &str = "synchronous_commit";

/// What is promised of a commit, and the values that are enough.
const DURABLE: [(&str, &[&str]); 3] =
    [("fsync", &["on"]), ("full_page_writes", &["on"]), (FLUSH, &["on", "remote_apply"])];

/// The settings that are looked at.
const ASKED: [&str; 7] = [
    "server_version_num",
    "server_version",
    "server_encoding",
    "default_transaction_read_only",
    "fsync",
    "full_page_writes",
    "synchronous_commit",
];

/// Refuses a server that is too old, takes no writes, or forgets them.
async fn check_server(config: &Config, conn: &mut AsyncPgConnection) -> Result<(), OpenError> {
    let say = |error: DieselError| failed(config, &error.to_string());
    let rows: Vec<(String, String)> = pg_settings::table
        .filter(pg_settings::name.eq_any(ASKED))
        .select((pg_settings::name, pg_settings::setting))
        .load(conn)
        .await
        .map_err(say)?;
    let settings: BTreeMap<String, String> = rows.into_iter().collect();
    let standby: bool = diesel::select(pg_is_in_recovery()).row(conn).await.map_err(say)?;
    judge(config, &settings, standby)
}

fn judge(config: &Config, settings: &BTreeMap<String, String>, standby: bool) -> Result<(), OpenError> {
    let of = |name: &str| settings.get(name).map(String::as_str).unwrap_or_default();
    if of("server_version_num").parse().unwrap_or(0) < OLDEST_SERVER_VERSION {
        let version = of("server_version").to_owned();
        return Err(OpenError::TooOld { server: server(config), version });
    }
    if of("server_encoding") != "UTF8" {
        let encoding = of("server_encoding").to_owned();
        return Err(OpenError::NotUtf8 { database: name(config), encoding });
    }
    if standby {
        return Err(OpenError::Standby(server(config)));
    }
    if of("default_transaction_read_only") != "off" {
        return Err(OpenError::ReadOnly(name(config)));
    }
    judge_durability(config, |setting| settings.get(setting).cloned())
}

/// Refuses settings under which a crash, or a promoted standby, could forget what was answered.
///
/// What waits for less than the disk of a synchronous standby (`local`, `remote_write`) is as `off` where one is promoted.
fn judge_durability(config: &Config, of: impl Fn(&str) -> Option<String>) -> Result<(), OpenError> {
    for (setting, enough) in DURABLE {
        let value = of(setting).unwrap_or_else(|| "not told".to_owned());
        if !enough.contains(&value.as_str()) {
            return Err(OpenError::NotDurable { database: name(config), setting: setting.to_owned(), value });
        }
    }
    Ok(())
}

/// Refuses a connection whose server would forget what was answered, as it may since the program started: another server
/// was promoted, or it came back with other settings. What it has of `synchronous_commit`.
pub async fn check_durability(config: &Config, client: &tokio_postgres::Client) -> Result<String, OpenError> {
    let asked = DURABLE.map(|(setting, _)| format!("SHOW {setting}")).join("; ");
    let answers = client.simple_query(&asked).await.map_err(|error| failed(config, &describe(&error)))?;
    let of = |setting: &str| {
        answers.iter().find_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => row.try_get(setting).ok().flatten().map(str::to_owned),
            _ => None,
        })
    };
    judge_durability(config, of)?;
    Ok(of(FLUSH).unwrap_or_else(|| "on".to_owned()))
}

fn embedded() -> Vec<Box<dyn Migration<Pg>>> {
    let mut migrations = MigrationSource::<Pg>::migrations(&MIGRATIONS).unwrap_or_default();
    migrations.sort_by_key(|migration| migration.name().version().to_string());
    migrations
}

/// The database's migrations that this program knows and the database has not, by name, and the newest it has.
async fn compare(
    config: &Config,
    conn: &mut AsyncPgConnection,
) -> Result<(Vec<String>, Option<String>), OpenError> {
    let say = |error: DieselError| failed(config, &error.to_string());
    let schema: Option<String> = diesel::select(current_schema()).row(conn).await.map_err(say)?;
    let Some(schema) = schema else {
        return Err(failed(config, "the search_path of the role names no schema that exists: create it"));
    };
    let tables: Vec<String> = pg_tables::table
        .filter(pg_tables::schemaname.eq(schema))
        .select(pg_tables::tablename)
        .load(conn)
        .await
        .map_err(say)?;
    let applied: Vec<String> = if tables.iter().any(|name| name == "__diesel_schema_migrations") {
        let versions = schema_migrations::table.select(schema_migrations::version);
        versions.order(schema_migrations::version.asc()).load(conn).await.map_err(say)?
    } else if tables.is_empty() {
        Vec::new()
    } else {
        return Err(OpenError::Foreign(name(config)));
    };
    let known = embedded();
    let is_known =
        |version: &String| known.iter().any(|known| known.name().version().to_string() == *version);
    if let Some(version) = applied.iter().find(|version| !is_known(version)) {
        return Err(OpenError::Newer { database: name(config), version: version.clone() });
    }
    let missing = known.iter().filter(|known| !applied.contains(&known.name().version().to_string()));
    Ok((missing.map(|migration| migration.name().to_string()).collect(), applied.last().cloned()))
}

/// Runs what is pending; the names. Blocks.
fn run_pending(conn: AsyncPgConnection) -> Result<Vec<String>, Box<dyn StdError + Send + Sync>> {
    let mut conn: AsyncConnectionWrapper<AsyncPgConnection> = conn.into();
    let run = conn.transaction::<_, Box<dyn StdError + Send + Sync>, _>(|conn| {
        conn.batch_execute(MIGRATOR_SETTINGS)?;
        // First: of two programs that start at once, the second one finds nothing left to do.
        diesel::RunQueryDsl::execute(diesel::select(pg_advisory_xact_lock(MIGRATION_LOCK)), conn)?;
        let run = conn.run_pending_migrations(MIGRATIONS)?;
        Ok(run.iter().map(ToString::to_string).collect::<Vec<_>>())
    })?;
    let names = embedded().into_iter().filter(|known| run.contains(&known.name().version().to_string()));
    Ok(names.map(|migration| migration.name().to_string()).collect())
}

#[cfg(test)]
mod tests;
