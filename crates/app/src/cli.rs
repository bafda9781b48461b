//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use uuid::Uuid;

use crate::config;

/// A self-hosted PIX gateway.
#[derive(Debug, Parser)]
#[command(name = "pix-gateway", version, about, after_long_help = config::help())]
pub struct Cli {
    /// TOML file with settings; the environment wins over it.
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
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
    /// Bring the store's schema up to date.
    Migrate {
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print fresh values for `PIX_TOKEN_KEYS` and `PIX_PROVIDER_CALLBACK_SECRET`, as lines of an environment file.
    Secrets {
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make, list and suspend integrators.
    #[command(subcommand)]
    Integrator(Integrator),
    /// Make, list and revoke API keys.
    #[command(subcommand)]
    Key(Key),
    /// Set and show what an integrator pays.
    #[command(subcommand)]
    Fees(Fees),
    /// List withdrawals and refunds whose outcome isn't known, oldest first, with what is held for them.
    Uncertain {
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Decide what became of an uncertain withdrawal or refund; takes two operators who agree.
    Resolve(Resolve),
    /// Show administrative acts, and prove that nobody changed the record of them.
    #[command(subcommand)]
    AuditLog(AuditLog),
    /// Prove that the books are right; exits with 1 when they aren't.
    Audit(Audit),
    /// Run the simulated provider alone.
    Simulator(Simulator),
    /// Walk through the main job on a fresh store; exits with 1 when anything is off.
    Demo,
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
    /// Make a key; its secret is shown this once.
    Create {
        /// Whose key: the integrator's uuid.
        #[arg(long)]
        integrator: Uuid,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key, for good; its tokens end at once.
    Revoke {
        /// The key's `public_id`.
        public_id: String,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// List an integrator's keys.
    List {
        /// Whose keys: the integrator's uuid.
        #[arg(long)]
        integrator: Uuid,
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
        #[arg(long)]
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
        #[arg(long)]
        integrator: Uuid,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
}

/// `resolve`.
#[derive(Debug, Args)]
pub struct Resolve {
    /// The withdrawal's or refund's uuid.
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
    /// Follow the chain of hashes from the first entry to the last; exits with 1 when it is broken.
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

/// `audit`.
#[derive(Debug, Args)]
pub struct Audit {
    /// The simulated provider's log to compare with; by default the one beside the database, if there is one and no
    /// other provider is configured.
    #[arg(long, value_name = "FILE")]
    pub simulator_log: Option<PathBuf>,
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
