//! The store: that it is there, keeps what it is told, has a schema that is known; its clock; what waits in it.

use std::time::Duration;

use pix_domain::error::StoreError;
use pix_domain::time::{Clock, Timestamp};
use pix_persistence::{Overdue, postgres, sqlite};

use super::Check;
use crate::audited::Audited;
use crate::clocks;
use crate::commands::rfc3339;
use crate::common::{self, Common};
use crate::config::{Config, Database};
use crate::gateway;
use crate::meters::lag;
use crate::proving;
use crate::restored::{Restored, copied_at};
use crate::store::{self, Store};
use crate::system::SystemClock;

/// The fact that is written to see that it is kept.
const FACT: &str = "doctor";
/// Nodes compare times that other nodes wrote: more apart than this is seen.
const APART: Duration = Duration::from_secs(1);
/// What is due for longer is late…
const LATE: Duration = Duration::from_mins(1);
/// …and for longer than this, nobody works.
const TOO_LATE: Duration = Duration::from_mins(10);
/// How old an audit may be.
const AUDIT_HOLDS: Duration = Duration::from_hours(25);

/// How late the proof against the provider may be.
const PROOFS_HOLD: Duration = Duration::from_hours(24);

/// What is asked of the database, in the order in which one rests on the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Reached,
    Durable,
    Schema,
}

impl Step {
    const ALL: [Self; 3] = [Self::Reached, Self::Durable, Self::Schema];

    const fn name(self) -> &'static str {
        match self {
            Self::Reached => "database",
            Self::Durable => "durability",
            Self::Schema => "schema",
        }
    }
}

/// Everything about the store.
pub async fn look(config: &Config) -> Vec<Check> {
    if let Database::Sqlite { path, .. } = &config.database
        && store::is_there(path) == Some(false)
        && config.migrate_on_start
    {
        let none = format!("there is no database at {} yet; `serve` makes it", path.display());
        return vec![Check::skipped(Step::Reached.name(), none)];
    }
    // Looking must not change the schema.
    let as_it_is = Config { migrate_on_start: false, ..config.clone() };
    let store = match Store::open_existing(&as_it_is).await {
        Ok(store) => store,
        Err(error) => return refused(config, &error),
    };
    let now = SystemClock.now();
    let mut checks = vec![
        Check::ok(Step::Reached.name(), whereabouts(config)),
        durable(config, &store, now).await,
        Check::ok(Step::Schema.name(), format!("up to date, {}", store.vitals.schema_version())),
        indexes(&store).await,
        clock(&store).await,
        connections(&store).await,
        same_provider(config, &store).await,
        nodes(config, &store).await,
    ];
    checks.extend(waiting(&store, now).await);
    checks.push(uncertain(&store).await);
    checks.push(match (copied_at(&store).await, Restored::last(store.facts.as_ref()).await) {
        (Ok(copied), Ok(restored)) => restore(copied, restored.as_ref()),
        (Err(error), _) | (_, Err(error)) => unanswered(RESTORE, &error),
    });
    checks.push(audit(Audited::last(&store).await, now));
    checks.push(proofs(proving::Standing::last(&store).await, config.proofs.per_minute, now));
    checks
}

/// What a store that can't be opened says of each step: those before are well, and those after can't be told.
fn refused(config: &Config, error: &anyhow::Error) -> Vec<Check> {
    let (step, pending) = failed_step(error);
    let told = |each: Step| {
        if each < step {
            return Check::ok(each.name(), "well");
        }
        if each > step {
            return Check::skipped(each.name(), format!("the check \"{}\" has failed", step.name()));
        }
        if pending && config.migrate_on_start {
            let remedy =
                "back it up; the next start of `serve`, or `pix-gateway migrate`, brings it up to date";
            return Check::warning(each.name(), format!("{error:#}"), remedy);
        }
        let remedy = match step {
            Step::Reached => {
                "make what is named reachable and correct DATABASE_URL; `pix-gateway config show` says where it comes from"
            }
            Step::Durable => "do what the sentence says before any money is kept there",
            Step::Schema if pending => "back it up and run `pix-gateway migrate`",
            Step::Schema => "run the program that the schema is of, or correct DATABASE_URL",
        };
        Check::failed(each.name(), format!("{error:#}"), remedy)
    };
    Step::ALL.into_iter().map(told).collect()
}

/// Which step a refusal is about, and whether it is that migrations are pending.
fn failed_step(error: &anyhow::Error) -> (Step, bool) {
    use postgres::OpenError as Pg;
    use sqlite::OpenError as Lite;
    let step = match (error.downcast_ref::<Pg>(), error.downcast_ref::<Lite>()) {
        (Some(Pg::Pending { .. }), _) | (_, Some(Lite::Pending { .. })) => return (Step::Schema, true),
        (Some(Pg::Foreign(_) | Pg::Newer { .. }), _) | (_, Some(Lite::Foreign(_) | Lite::Newer { .. })) => {
            Step::Schema
        }
        (
            Some(
                Pg::TooOld { .. }
                | Pg::NotUtf8 { .. }
                | Pg::Standby(_)
                | Pg::ReadOnly(_)
                | Pg::NotDurable { .. },
            ),
            _,
        )
        | (_, Some(Lite::ReadOnly(_))) => Step::Durable,
        _ => Step::Reached,
    };
    (step, false)
}

fn whereabouts(config: &Config) -> String {
    match &config.database {
        Database::Sqlite { path, .. } => format!("the file {} can be opened", path.display()),
        Database::Postgres { .. } => "PostgreSQL can be reached".to_owned(),
    }
}

/// That commits are flushed was seen when the store was opened; here one is made.
async fn durable(config: &Config, store: &Store, now: Timestamp) -> Check {
    const NAME: &str = Step::Durable.name();
    let how = match config.database {
        Database::Sqlite { .. } => "synchronous=FULL",
        Database::Postgres { .. } => {
            "fsync, full_page_writes and synchronous_commit are on, and it is no standby"
        }
    };
    match store.facts.keep_fact(FACT, now.micros().to_string()).await {
        Ok(()) => Check::ok(NAME, format!("{how}; a row was written and kept")),
        Err(error) => Check::failed(
            NAME,
            format!("a row could not be kept: {error}"),
            "look whether the disk is full or broken, and whether the database takes writes",
        ),
    }
}

/// What is due is asked of the provider that these settings name: it must be the one where the money is.
async fn same_provider(config: &Config, store: &Store) -> Check {
    const NAME: &str = "same provider";
    match gateway::refuse_another_provider(config, store).await {
        Ok(()) => Check::ok(
            NAME,
            "the settings name the provider where this database's money is, or it is at none yet",
        ),
        Err(error) => Check::failed(
            NAME,
            format!("{error:#}"),
            "correct the PIX_PROVIDER_… settings or DATABASE_URL; if the money was moved, start once with `serve --provider-changed`",
        ),
    }
}

/// Whether a node with these settings gets on with the others.
async fn nodes(config: &Config, store: &Store) -> Check {
    const NAME: &str = "nodes";
    let Some(common) = Common::of(config) else {
        return Check::skipped(
            NAME,
            if config.database.is_shared() {
                "not all keys are configured"
            } else {
                "a database that is a file has one node alone"
            },
        );
    };
    match common.differing(store).await {
        Ok(differing) if differing.is_empty() => {
            Check::ok(NAME, "secrets and public URL are those of the node that was started last, or of none")
        }
        Ok(differing) => Check::warning(
            NAME,
            common::sentence(&differing),
            "take what `pix-gateway secrets` printed once, and PIX_PUBLIC_URL, to every node alike",
        ),
        Err(error) => unanswered(NAME, &error),
    }
}

/// That the server uses every index: without one, a lookup reads the whole table.
async fn indexes(store: &Store) -> Check {
    const NAME: &str = "indexes";
    match store.vitals.unusable_indexes().await {
        Ok(None) => Check::skipped(NAME, "the database is a file"),
        Ok(Some(unusable)) if unusable.is_empty() => Check::ok(NAME, "the server uses all of them"),
        Ok(Some(unusable)) => Check::failed(
            NAME,
            format!("the server doesn't use {}: making them failed, or is going on", unusable.join(", ")),
            "if nobody is making them just now, DROP INDEX what ends in _ccnew or _ccold, and REINDEX INDEX CONCURRENTLY the others",
        ),
        Err(error) => unanswered(NAME, &error),
    }
}

async fn clock(store: &Store) -> Check {
    const NAME: &str = "clock";
    match clocks::apart(store).await {
        Ok(None) => Check::skipped(NAME, "the database is on this machine"),
        Ok(Some(span)) => apart(NAME, span),
        Err(error) => unanswered(NAME, &error),
    }
}

/// Whether the server has room for all connections that this node may make.
async fn connections(store: &Store) -> Check {
    const NAME: &str = "connections";
    let needed = store.vitals.pools().iter().fold(1, |sum: usize, pool| sum.saturating_add(pool.max));
    match store.vitals.room().await {
        Ok(None) => Check::skipped(NAME, "the database is a file"),
        Ok(Some(room)) => {
            let found = format!("this node takes up to {needed} of the {room} that the server gives");
            if u64::try_from(needed).is_ok_and(|needed| needed <= room) {
                Check::ok(NAME, found)
            } else {
                Check::warning(
                    NAME,
                    found,
                    "raise the server's max_connections (or the limit of the role or the database), or lower PIX_DB_READ_CONNECTIONS; all nodes share them",
                )
            }
        }
        Err(error) => unanswered(NAME, &error),
    }
}

fn apart(name: &'static str, span: Duration) -> Check {
    let found = format!("this machine's clock and the database's are {} ms apart", span.as_millis());
    let remedy = "keep the clocks of all nodes and of the database together, by NTP";
    if span <= APART {
        Check::ok(name, found)
    } else if span <= clocks::TOO_FAR_APART {
        Check::warning(name, found, remedy)
    } else {
        Check::failed(name, found, remedy)
    }
}

async fn waiting(store: &Store, now: Timestamp) -> Vec<Check> {
    match store.vitals.vitals(now).await {
        Ok(vitals) => vec![
            late("reconciler", "follow-ups", vitals.follow_ups, now),
            late("callbacks", "callbacks of the provider", vitals.callbacks, now),
            late("relay", "postbacks", vitals.deliveries, now),
        ],
        Err(error) => vec![unanswered("reconciler", &error)],
    }
}

/// What is due is taken up within seconds, if somebody works.
fn late(name: &'static str, what: &str, overdue: Overdue, now: Timestamp) -> Check {
    let seconds = lag(overdue, now);
    let found = format!("{} {what} are due, the oldest for {seconds} s", overdue.count);
    let remedy = "start `pix-gateway serve` or `work`; if one runs, look at its log and at pix_worker_alive, and raise PIX_RECONCILER_PER_SECOND, PIX_POSTBACK_AT_ONCE or the number of nodes";
    if seconds <= LATE.as_secs() {
        Check::ok(name, found)
    } else if seconds <= TOO_LATE.as_secs() {
        Check::warning(name, found, remedy)
    } else {
        Check::failed(name, found, remedy)
    }
}

async fn uncertain(store: &Store) -> Check {
    const NAME: &str = "uncertain money";
    let open = match store.records.follow_ups.open_movements().await {
        Ok(open) => open,
        Err(error) => return unanswered(NAME, &error),
    };
    let count = |state: &str| -> u64 {
        open.iter().filter(|open| open.state == state).fold(0, |sum, open| sum.saturating_add(open.count))
    };
    let (uncertain, review) = (count("uncertain"), count("needs_review"));
    let found = format!("{uncertain} movements are uncertain, {review} wait for a decision");
    if review > 0 {
        Check::warning(
            NAME,
            found,
            "see `pix-gateway uncertain`, and \"Decide by hand\" in docs/OPERATIONS.md",
        )
    } else {
        Check::ok(NAME, found)
    }
}

/// The check of whether money may leave.
const RESTORE: &str = "restore";

fn restore(copied_at: Option<Timestamp>, restored: Option<&Restored>) -> Check {
    match (copied_at, restored) {
        (Some(at), _) => Check::failed(
            RESTORE,
            format!("this database is a backup made at {}, and nothing serves with it", rfc3339(at)),
            "run `pix-gateway restore --mark --reason …`, after \"Backup and restore\" in docs/OPERATIONS.md",
        ),
        (None, Some(Restored { opened_at: None, at, .. })) => Check::warning(
            RESTORE,
            format!("restored at {}, and no money leaves", rfc3339(*at)),
            "see `pix-gateway restore`, and open with `restore --open` when the books are whole",
        ),
        (None, Some(Restored { opened_at: Some(at), .. })) => {
            Check::ok(RESTORE, format!("restored, and opened at {}", rfc3339(*at)))
        }
        (None, None) => Check::ok(RESTORE, "never restored"),
    }
}

fn audit(last: Result<Option<Audited>, StoreError>, now: Timestamp) -> Check {
    const NAME: &str = "audit";
    match last {
        Err(error) => unanswered(NAME, &error),
        Ok(None) => {
            Check::warning(NAME, "no audit has run", "run `pix-gateway audit`, and have it run each night")
        }
        Ok(Some(audited)) if !audited.clean => Check::failed(
            NAME,
            format!("the books were wrong in {} places at {}", audited.differences, rfc3339(audited.at)),
            "run `pix-gateway audit` and find out why before anything else",
        ),
        Ok(Some(audited)) => {
            let found = format!("the books were right at {}", rfc3339(audited.at));
            if now.since(audited.at) <= AUDIT_HOLDS {
                Check::ok(NAME, found)
            } else {
                Check::warning(NAME, found, "run `pix-gateway audit`, and have it run each night")
            }
        }
    }
}

fn proofs(last: Result<Option<proving::Standing>, StoreError>, per_minute: u64, now: Timestamp) -> Check {
    const NAME: &str = "proofs";
    let standing = match last {
        Err(error) => return unanswered(NAME, &error),
        Ok(_) if per_minute == 0 => {
            return Check::skipped(NAME, "PIX_PROOF_PER_MINUTE is 0: `audit --provider` does it by hand");
        }
        Ok(None) => return Check::ok(NAME, "nothing was held against the provider yet"),
        Ok(Some(standing)) => standing,
    };
    let lag = standing.lag(now);
    let found = format!("what has ended is held against the provider {} s late", lag.as_secs());
    if lag <= PROOFS_HOLD {
        Check::ok(NAME, found)
    } else {
        let remedy =
            "see that `serve` or `work` runs and the provider answers, or raise PIX_PROOF_PER_MINUTE";
        Check::warning(NAME, found, remedy)
    }
}

fn unanswered(name: &'static str, error: &StoreError) -> Check {
    Check::failed(
        name,
        format!("the database did not say: {error}"),
        "look at the database, and run this again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::Status;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_refusal_belongs_to_its_step() {
        use postgres::OpenError as Pg;
        let (server, database) = (|| "db:5432".to_owned(), || "pix".to_owned());
        for (error, expected) in [
            (Pg::NotListening(server()), (Step::Reached, false)),
            (Pg::WrongPassword { server: server(), role: "pix".into() }, (Step::Reached, false)),
            (Pg::Standby(server()), (Step::Durable, false)),
            (
                Pg::NotDurable { database: database(), setting: "fsync".into(), value: "off".into() },
                (Step::Durable, false),
            ),
            (Pg::Newer { database: database(), version: "9".into() }, (Step::Schema, false)),
            (Pg::Pending { database: database(), migrations: vec![] }, (Step::Schema, true)),
        ] {
            assert_eq!(failed_step(&error.into()), expected);
        }
        let pending = sqlite::OpenError::Pending { path: "pix.db".into(), migrations: vec![] };
        let with_context = anyhow::Error::from(pending).context("run `pix-gateway migrate` first");
        assert_eq!(failed_step(&with_context), (Step::Schema, true));
        let gone = anyhow::anyhow!("there is no database");
        assert_eq!(failed_step(&gone), (Step::Reached, false));
    }

    #[test]
    fn clocks_may_be_a_second_apart_and_not_six() {
        let status = |seconds| apart("clock", Duration::from_secs(seconds)).status;
        assert_eq!([0, 1].map(status), [Status::Ok; 2]);
        assert_eq!([2, 5].map(status), [Status::Warning; 2]);
        assert_eq!(status(6), Status::Failed);
    }

    #[test]
    fn proofs_may_be_a_day_late() {
        let status = |seconds: i64, per_minute| {
            let standing = proving::Standing::at_rest(at(1_000_000 - seconds));
            proofs(Ok(Some(standing)), per_minute, at(1_000_000)).status
        };
        assert_eq!([0, 60, 86_400].map(|seconds| status(seconds, 1)), [Status::Ok; 3]);
        assert_eq!(status(86_401, 1), Status::Warning);
        assert_eq!(status(86_401, 0), Status::Skipped);
        assert_eq!(proofs(Ok(None), 1, at(0)).status, Status::Ok);
        let gone = Err(StoreError::Unavailable("gone".into()));
        assert_eq!(proofs(gone, 1, at(0)).status, Status::Failed);
    }

    #[test]
    fn what_is_due_for_long_is_late() {
        let status = |seconds: i64| {
            let overdue = Overdue { count: 1, since: Some(at(1_000 - seconds)) };
            late("relay", "postbacks", overdue, at(1_000)).status
        };
        assert_eq!(
            [0, 60, 61, 600, 601].map(status),
            [Status::Ok, Status::Ok, Status::Warning, Status::Warning, Status::Failed]
        );
        assert_eq!(late("relay", "postbacks", Overdue::default(), at(1)).status, Status::Ok);
    }

    #[test]
    fn a_copy_fails_and_a_shut_gate_warns() {
        let restored = |opened_at| Restored { epoch: 1, at: at(5), opened_at };
        let looked = |copied, restored: Option<Restored>| restore(copied, restored.as_ref());
        assert_eq!(looked(Some(at(1)), None).status, Status::Failed);
        assert_eq!(looked(None, Some(restored(None))).status, Status::Warning);
        assert_eq!(looked(None, Some(restored(Some(at(9))))).status, Status::Ok);
        assert_eq!(looked(None, None).status, Status::Ok);
    }

    #[test]
    fn an_audit_must_be_clean_and_not_old() {
        let audited = |clean, at| Ok(Some(Audited { at, clean, differences: u64::from(!clean) }));
        let status = |last| audit(last, at(100_000)).status;
        assert_eq!(status(Ok(None)), Status::Warning);
        assert_eq!(status(audited(true, at(99_000))), Status::Ok);
        assert_eq!(status(audited(true, at(9_999))), Status::Warning);
        assert_eq!(status(audited(false, at(99_000))), Status::Failed);
    }
}
