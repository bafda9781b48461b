//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use pix_domain::credentials::Scopes;
use pix_domain::invalid::Invalid;
use pix_domain::ip::IpRange;
use uuid::Uuid;

use crate::config;

/// A self-hosted PIX gateway.
#[derive(Debug, Parser)]
#[command(name = "pix-gateway", version, about, after_long_help = config::help())]
pub struct Cli {
    /// TOML file with settings; the environment and flags win over it.
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A setting that wins over the environment and the file; may be given several times. Nothing secret: others on this
    /// machine see the arguments of a program.
    #[arg(long, global = true, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Who runs this command, for the audit log; default `PIX_OPERATOR`, then the user's name on this machine.
    #[arg(long, global = true, value_name = "NAME")]
    pub operator: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the HTTP interface, with the workers.
    Serve(Serve),
    /// Run the workers alone, beside other nodes that serve.
    Work,
    /// Show the settings in force, and say what is wrong with them.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Look whether everything that `serve` stands on is well, and say what to do where it isn't; exits with 1 when anything has
    /// failed. It writes one row, to see that the database keeps it.
    Doctor {
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Bring the store's schema up to date.
    Migrate {
        /// Only tell what would be done.
        #[arg(long)]
        plan: bool,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print fresh values for `PIX_TOKEN_KEYS`, `PIX_PROVIDER_CALLBACK_SECRET` and `PIX_POSTBACK_KEYS`, as lines of an environment file.
    Secrets {
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make, list and suspend integrators.
    #[command(subcommand)]
    Integrator(Integrator),
    /// Make, list, change, rotate and revoke API keys.
    #[command(subcommand)]
    Key(Key),
    /// Set and show what an integrator pays.
    #[command(subcommand)]
    Fees(Fees),
    /// What an operator has to look at, and what to do about it.
    Findings {
        /// Whose: the integrator's uuid; of all without it.
        #[arg(long, value_parser = integrator)]
        integrator: Option<Uuid>,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Limits of what an integrator may send.
    #[command(subcommand)]
    Limits(Limits),
    /// Show and change what postbacks are signed with.
    #[command(subcommand)]
    Secret(Secret),
    /// See what became of postbacks, and send them again.
    #[command(subcommand)]
    Postback(Postback),
    /// Show what is held of a person, and erase it (LGPD).
    #[command(subcommand)]
    Person(Person),
    /// Let operators in to the console.
    #[command(subcommand)]
    Operator(Operator),
    /// List withdrawals and refunds whose outcome isn't known, oldest first, with what is held for them.
    Uncertain {
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Decide what became of an uncertain withdrawal or refund; takes two operators who agree.
    Resolve(Resolve),
    /// Copy the database to a new file, while it is in use
    Backup {
        /// The file; it must not be there yet.
        file: PathBuf,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Put a backup in the place of a lost database, and say when money may leave again.
    Restore(Restore),
    /// Show administrative acts, and prove that nobody changed the record of them.
    #[command(subcommand)]
    AuditLog(AuditLog),
    /// Prove that the books are right; exits with 1 when they aren't, and with 3 when it couldn't find out.
    Audit(Audit),
    /// Seal what was posted, now; exits with 1 when a book contradicts itself, and with 3 when it couldn't look. The workers do this
    /// at intervals.
    Seal {
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Sign what the books are, and verify such statements.
    #[command(subcommand)]
    Books(Books),
    /// Print the OpenAPI 3.1 document of the HTTP interface.
    Openapi {
        /// Print its requests as a collection for Postman instead.
        #[arg(long)]
        postman: bool,
    },
    /// Ask the program that serves with these settings whether it is ready; exits with 1 when it isn't.
    Health,
    /// Print what completes this command line in a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, one for each subcommand.
    Man {
        /// The folder for them; it is made when it isn't there.
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
    },
    /// Run the simulated provider alone.
    Simulator(Simulator),
    /// Walk through the main job on a fresh store; exits with 1 when anything is off.
    Demo,
}

impl Command {
    /// Whether it finds out if something is right, and ends with 1 when it isn't.
    pub const fn looks(&self) -> bool {
        matches!(
            self,
            Self::Doctor { .. }
                | Self::AuditLog(AuditLog::Verify { .. })
                | Self::Audit(_)
                | Self::Seal { .. }
                | Self::Books(Books::Verify(_))
        )
    }
}

/// `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Make a demo integrator with a new key, and print calls that work when pasted.
    #[arg(long)]
    pub demo: bool,
    /// Accept that the money of this database was moved to another provider; refused while anything is on its way.
    #[arg(long)]
    pub provider_changed: bool,
}

/// `config`.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum ConfigCommand {
    /// Read every source and say everything that is wrong, or dangerous; exits with 1 when `serve` would refuse it.
    Check {
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show every setting: its value, with secrets masked, and where it comes from.
    Show {
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
}

/// `integrator`.
#[derive(Debug, Subcommand)]
pub enum Integrator {
    /// Make an integrator with an empty wallet.
    Create {
        /// What operators call it: 1 to 120 characters.
        #[arg(long)]
        name: String,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// List all integrators.
    List {
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Suspend an integrator: it can read and charge, but can't move money out.
    Suspend {
        /// Its uuid.
        #[arg(value_parser = integrator)]
        integrator: Uuid,
        /// Let it move money out again.
        #[arg(long)]
        undo: bool,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
}

/// `key`.
#[derive(Debug, Subcommand)]
pub enum Key {
    /// Make a key; its secret is shown this once. It is good for everything, from everywhere and for ever, but for what
    /// is said here.
    Create {
        /// Whose key: the integrator's uuid.
        #[arg(long, value_parser = integrator)]
        integrator: Uuid,
        #[command(flatten)]
        limits: KeyLimits,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Change what a key is good for, until when and from where; what isn't said stays as it is.
    Set {
        /// The key's `public_id`.
        public_id: String,
        #[command(flatten)]
        limits: KeyLimits,
        /// It doesn't end by itself.
        #[arg(long, conflicts_with_all = ["expires_at", "expires_in_days"])]
        never_expires: bool,
        /// It may be used from everywhere.
        #[arg(long, conflicts_with = "allow_ip")]
        allow_any_ip: bool,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Give a key a second secret, shown this once; both work until one is retired.
    Rotate {
        /// The key's `public_id`.
        public_id: String,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// End one of a key's two secrets, with the tokens that it got.
    #[command(group = clap::ArgGroup::new("which").required(true))]
    Retire {
        /// The key's `public_id`.
        public_id: String,
        /// The older one.
        #[arg(long, group = "which")]
        older: bool,
        /// The one of that number, as `key list` shows it.
        #[arg(long, value_name = "N", group = "which")]
        secret: Option<u32>,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key with all of its secrets, for good; its tokens end within five seconds.
    Revoke {
        /// The key's `public_id`.
        public_id: String,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// List an integrator's keys, what each is good for, and when it was last used.
    List {
        /// Whose keys: the integrator's uuid.
        #[arg(long, value_parser = integrator)]
        integrator: Uuid,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
}

/// What a key is good for.
#[derive(Debug, Args)]
pub struct KeyLimits {
    /// What it is good for: `all`, or some of charges:write, withdrawals:write, refunds:write, read, balance:read and
    /// webhooks:write, with commas between them.
    #[arg(long, value_name = "LIST", value_parser = scopes)]
    pub scopes: Option<Scopes>,
    /// When it ends, such as 2027-01-31T00:00:00Z.
    #[arg(long, value_name = "TIME", conflicts_with = "expires_in_days")]
    pub expires_at: Option<String>,
    /// It ends after so many days, 1 to 36500.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..=36_500))]
    pub expires_in_days: Option<u64>,
    /// An address or CIDR range that it may be used from; may be given up to 32 times, and replaces the whole list.
    #[arg(long, value_name = "CIDR")]
    pub allow_ip: Vec<IpRange>,
}

fn integrator(text: &str) -> Result<Uuid, String> {
    Uuid::try_parse(text).map_err(|_not_one| {
        "it is the uuid of an integrator, which `pix-gateway integrator list` shows".to_owned()
    })
}

fn id(text: &str) -> Result<Uuid, String> {
    Uuid::try_parse(text)
        .map_err(|_not_one| "it is a uuid: 32 hexadecimal digits, in groups of 8, 4, 4, 4 and 12".to_owned())
}

fn scopes(text: &str) -> Result<Scopes, Invalid> {
    if text == "all" { Ok(Scopes::ALL) } else { Scopes::parse(text) }
}

/// `secret`.
#[derive(Debug, Subcommand)]
pub enum Secret {
    /// Show the secrets that sign an integrator's postbacks now; the first one is made when there is none.
    Show {
        /// Whose: the integrator's uuid.
        #[arg(long, value_parser = integrator)]
        integrator: Uuid,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the numbers and dates of all secrets, without what they are.
    List {
        /// Whose: the integrator's uuid.
        #[arg(long, value_parser = integrator)]
        integrator: Uuid,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Add a secret; it and the older ones sign until those are retired.
    Rotate {
        /// Whose: the integrator's uuid.
        #[arg(long, value_parser = integrator)]
        integrator: Uuid,
        /// Retire the older ones by themselves after so many hours, 0 to 8760.
        #[arg(long, value_name = "HOURS", value_parser = clap::value_parser!(u64).range(0..=8760))]
        overlap_hours: Option<u64>,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// End a secret now. The last one that signs can't be ended.
    Retire {
        /// Whose: the integrator's uuid.
        #[arg(long, value_parser = integrator)]
        integrator: Uuid,
        /// Its number.
        number: u32,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
}

/// `postback`.
#[derive(Debug, Subcommand)]
pub enum Postback {
    /// List an integrator's events and how their deliveries stand, 1000 at once.
    List {
        /// Whose: the integrator's uuid.
        #[arg(long, value_parser = integrator)]
        integrator: Uuid,
        /// Only those that were not delivered.
        #[arg(long)]
        undelivered: bool,
        /// Only those with a greater number.
        #[arg(long, default_value_t = 0)]
        after: u64,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Deliver one event again.
    Redeliver {
        /// Whose: the integrator's uuid.
        #[arg(long, value_parser = integrator)]
        integrator: Uuid,
        /// The event's id, such as `evt_c…_2`.
        event: String,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Deliver again what was given up, at most 10000 at once.
    Replay {
        /// Whose: the integrator's uuid.
        #[arg(long, value_parser = integrator)]
        integrator: Uuid,
        /// Of events at this time or later, such as 2026-11-22T12:00:00Z.
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Of events before this time.
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        /// Of this type, such as `cashin.confirmed`; may be given several times.
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<String>,
        /// What was delivered too.
        #[arg(long)]
        delivered: bool,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the endpoints that have failed lately, and those that are switched off.
    Endpoints {
        /// Whose: the integrator's uuid.
        #[arg(long, value_parser = integrator)]
        integrator: Uuid,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Switch an endpoint on again.
    Enable {
        /// Whose: the integrator's uuid.
        #[arg(long, value_parser = integrator)]
        integrator: Uuid,
        /// Its id, as `endpoints` shows it.
        #[arg(value_parser = id)]
        endpoint: Uuid,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Choose which events go to the postback URLs of what an integrator makes from now on.
    Scope {
        /// Whose: the integrator's uuid.
        #[arg(long, value_parser = integrator)]
        integrator: Uuid,
        /// `outcomes` (a confirmed payment, the end of a withdrawal), `all`, or `default` (v1 all, v2 outcomes).
        #[arg(long)]
        events: String,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
}

/// `operator`.
#[derive(Debug, Subcommand)]
pub enum Operator {
    /// Print a fresh token for the console, shown this once, and what `PIX_CONSOLE_OPERATORS` takes to let it in. Nothing is
    /// stored.
    Token {
        /// Whose: the name that is written to the audit log.
        name: String,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
}

/// `fees`.
#[derive(Debug, Subcommand)]
pub enum Fees {
    /// Put a new version of the schedule in force. What is not given stays as it is. A rule is
    /// `fixed=1.50,percent=0.99,min=0.10,max=9.90`, each part optional, amounts in reais; `free` for none.
    Set {
        /// Whose fees: the integrator's uuid.
        #[arg(long, value_parser = integrator)]
        integrator: Uuid,
        /// For a paid charge, taken from what was paid.
        #[arg(long, value_name = "RULE")]
        cash_in: Option<String>,
        /// For a withdrawal, on top of the amount.
        #[arg(long, value_name = "RULE")]
        cash_out: Option<String>,
        /// For a refund, on top of the amount.
        #[arg(long, value_name = "RULE")]
        refund: Option<String>,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the schedule in force.
    Show {
        /// Whose fees: the integrator's uuid.
        #[arg(long, value_parser = integrator)]
        integrator: Uuid,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
}

/// `limits`.
#[derive(Debug, Subcommand)]
pub enum Limits {
    /// Set limits of what may go out; what is not given stays as it is. An amount in reais, such as 1000.00, `0` for nothing at
    /// all, or `none` for no limit. What is lowered holds at once, what is raised 24 hours later. Days and nights are those of
    /// Brasília.
    Set(Box<SetLimits>),
    /// Show the limits, and what counts against them now.
    Show {
        /// Whose limits: the integrator's uuid.
        #[arg(long, value_parser = integrator)]
        integrator: Uuid,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
}

/// `limits set`.
#[derive(Debug, Args)]
pub struct SetLimits {
    /// Whose limits: the integrator's uuid.
    #[arg(long, value_parser = integrator)]
    pub integrator: Uuid,
    /// The most in one withdrawal.
    #[arg(long, value_name = "AMOUNT")]
    pub per_transaction: Option<String>,
    /// The most from midnight to midnight.
    #[arg(long, value_name = "AMOUNT")]
    pub per_day: Option<String>,
    /// The most between 20:00 and 06:00.
    #[arg(long, value_name = "AMOUNT")]
    pub at_night: Option<String>,
    /// The most between 22:00 and 06:00.
    #[arg(long, value_name = "AMOUNT")]
    pub late_at_night: Option<String>,
    /// The most to one PIX key from midnight to midnight.
    #[arg(long, value_name = "AMOUNT")]
    pub per_payee: Option<String>,
    /// The most to one PIX key until 24 hours after the first payment to it.
    #[arg(long, value_name = "AMOUNT")]
    pub new_payee: Option<String>,
    /// The most withdrawals in 60 minutes: a number, or `none`.
    #[arg(long, value_name = "COUNT")]
    pub per_hour: Option<String>,
    /// Begin with a preset: `natural-person`, R$ 1,000.00 between 20:00 and 06:00 (Resolução BCB 142/2021).
    #[arg(long, value_enum)]
    pub preset: Option<LimitPreset>,
    /// Answer in JSON.
    #[arg(long)]
    pub json: bool,
}

/// Limits by one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LimitPreset {
    /// R$ 1,000.00 between 20:00 and 06:00.
    NaturalPerson,
}

/// `resolve`.
#[derive(Debug, Args)]
pub struct Resolve {
    /// The withdrawal's or refund's uuid.
    #[arg(value_parser = id)]
    pub uuid: Uuid,
    /// What became of it.
    #[arg(long = "as", value_enum)]
    pub verdict: Verdict,
    /// How you know: 3 to 150 characters. The integrator sees it in the evidence.
    #[arg(long)]
    pub reason: String,
    /// Answer in JSON.
    #[arg(long)]
    pub json: bool,
}

/// `restore`. Without anything, it shows how things stand.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Restore {
    /// The backup. `DATABASE_URL` must name a database that isn't there yet, or on PostgreSQL an empty one.
    #[arg(conflicts_with_all = ["mark", "open"])]
    pub file: Option<PathBuf>,
    /// Audit the books that were restored too; exits with 1 when they are wrong.
    #[arg(long, requires = "file")]
    pub verify: bool,
    /// The database was put in place by other means (a copy of the disk, point-in-time recovery, a standby that may have lost
    /// commits): treat it as restored. No gateway may be running on it.
    #[arg(long, conflicts_with = "open")]
    pub mark: bool,
    /// Ask the provider about the charges and withdrawals of the last 90 days, whose money may have come back, been taken back or
    /// come in since the backup; exits with 1 when it didn't answer about all.
    #[arg(long, conflicts_with_all = ["file", "mark", "open"])]
    pub ask: bool,
    /// The books are whole as far as you can tell: let money leave again.
    #[arg(long)]
    pub open: bool,
    /// Why: 3 to 150 characters, for the audit log.
    #[arg(long)]
    pub reason: Option<String>,
    /// Answer in JSON.
    #[arg(long)]
    pub json: bool,
}

/// What became of a movement.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Verdict {
    /// The money left.
    Completed,
    /// It did not and will not leave.
    Failed,
}

/// `audit-log`.
#[derive(Debug, Subcommand)]
pub enum AuditLog {
    /// Follow the chain of hashes from the first entry to the last; exits with 1 when it is broken, and with 3 when it couldn't be
    /// read.
    Verify {
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show entries, oldest first.
    List {
        /// Only those with a number above this.
        #[arg(long, default_value_t = 0)]
        after: u64,
        /// At most so many.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
}

/// `person`.
#[derive(Debug, Subcommand)]
pub enum Person {
    /// Print all that is held of a person, in JSON, without what the same records say of others.
    Export {
        /// Of whom.
        #[command(flatten)]
        who: Who,
        /// Why, for the audit log; nothing that names the person.
        #[arg(long)]
        reason: String,
    },
    /// Put under keys all personal data of what has ended, now. The workers do this at their leisure.
    Lock {
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Destroy the key of a person, and with it all that is held of the person in what has ended; exits with 1 while some of it has
    /// not. Postings and totals stay as they are.
    Erase {
        /// Of whom.
        #[command(flatten)]
        who: Who,
        /// Why, for the audit log; nothing that names the person.
        #[arg(long)]
        reason: String,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Of whom.
#[derive(Debug, Args)]
pub struct Who {
    /// The CPF or CNPJ; `-` to read it from standard input, which no list of processes shows.
    #[arg(long, value_name = "CPF|CNPJ|-", required_unless_present = "pix_key", conflicts_with = "pix_key")]
    pub document: Option<String>,
    /// The PIX key (or a payer's e-mail), where records give no document; `-` likewise.
    #[arg(long, value_name = "KEY|-")]
    pub pix_key: Option<String>,
    /// In whose records: the integrator's uuid; in those of all without it.
    #[arg(long, value_parser = integrator)]
    pub integrator: Option<Uuid>,
}

/// `audit`.
#[derive(Debug, Args)]
pub struct Audit {
    /// The simulated provider's log to compare with; by default the one beside the database, if there is one and no
    /// other provider is configured.
    #[arg(long, value_name = "FILE", conflicts_with = "chain")]
    pub simulator_log: Option<PathBuf>,
    /// Prove the seals instead: read every posting from the beginning, make every seal again, and print the newest hashes.
    #[arg(long)]
    pub chain: bool,
    /// Ask the provider instead about every record that has ended in the last days, book what is new, and exit with 1 when it
    /// contradicts the books or doesn't answer.
    #[arg(long, conflicts_with_all = ["chain", "simulator_log"])]
    pub provider: bool,
    /// How many days back, 1 to 365.
    #[arg(long, requires = "provider", default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=365))]
    pub days: u64,
    /// A statement of the books that was kept elsewhere: the chain has to go on from its seals. Whether it is genuine `books
    /// verify` tells.
    #[arg(long, value_name = "FILE", requires = "chain")]
    pub against: Option<PathBuf>,
    /// Answer in JSON.
    #[arg(long)]
    pub json: bool,
}

/// `books`.
#[derive(Debug, Subcommand)]
pub enum Books {
    /// Make a key to sign with in a new file, and print the public key to verify with.
    Key {
        /// The file; refused when it is there.
        file: PathBuf,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Seal what was posted, and print a signed statement of what the books are.
    Sign {
        /// The file with the key.
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// The day that it is for, such as 2026-11-22; today (UTC) without it. When it was made is in it in any case.
        #[arg(long, value_name = "DAY")]
        date: Option<String>,
    },
    /// Verify a statement, on any machine; exits with 1 when it isn't what was signed, and with 3 when there is nothing to verify.
    Verify(BooksVerify),
}

/// `books verify`.
#[derive(Debug, Args)]
pub struct BooksVerify {
    /// The statement.
    pub file: PathBuf,
    /// What `books key` printed: 64 hexadecimal digits. From whom you trust, and not from the file.
    #[arg(long, value_name = "KEY")]
    pub public_key: String,
    /// Answer in JSON.
    #[arg(long)]
    pub json: bool,
}

/// `simulator`.
#[derive(Debug, Args)]
pub struct Simulator {
    /// Address and port to listen on; by default `PIX_SIMULATOR_LISTEN`.
    #[arg(long)]
    pub listen: Option<std::net::SocketAddr>,
    /// File for the durable log; memory only without it.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Leave payments and refunds pending until they are settled or rejected under /sim.
    #[arg(long)]
    pub manual: bool,
}
