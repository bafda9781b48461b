//! `pix-gateway restore`.
//!
//! | Step | What holds if it ends here |
//! |---|---|
//! | the backup is put in place | it says that it is a copy: nothing serves with it |
//! | the gate is shut | no money leaves, whoever serves |
//! | what may have been sent since is in doubt | the same; done again, it is in doubt from then on |
//! | it no longer says that it is a copy | it can be served: charges and reads as ever, and no money leaves until it is opened |
//!
//! A dump of PostgreSQL can't say that it is a copy: that is written in the transaction that puts it in place.

use std::iter;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use pix_domain::audit_log::{self, Action};
use pix_domain::ids::ResourceKind;
use pix_domain::restore::{Doubt, cast_doubt};
use pix_domain::time::{Clock, Timestamp};
use pix_domain::transactions::{ProviderAnswer, Transaction, TransactionService};
use pix_domain::withdrawals::OutgoingState;
use pix_persistence::sqlite::SqliteStore;
use serde_json::json;

use super::backup::restore_dump;
use super::{answer, audit, rfc3339};
use crate::cli;
use crate::clocks;
use crate::config::{Config, Database};
use crate::gateway;
use crate::journal::{self, Journal};
use crate::restored::{COPY_FACT, Gate, Restored, copied_at};
use crate::store::{self, Store};
use crate::system::SystemClock;

/// The shortest time between a restore and money leaving again: what was on its way to the provider has arrived by then, so
/// that it says so when it is asked.
const SETTLE: Duration = Duration::from_mins(2);
/// How far back `--ask` goes: a payment can be refunded, and taken back, for 90 days (BCB, devolução and MED).
const ASKED_ABOUT: Duration = Duration::from_hours(90 * 24);

/// Runs the subcommand.
pub async fn run(config: &Config, arguments: cli::Restore) -> anyhow::Result<ExitCode> {
    if arguments.ask {
        return ask(config, arguments.json).await;
    }
    match (&arguments.file, arguments.mark, arguments.open) {
        (Some(file), ..) => {
            let why = match arguments.reason {
                Some(_) => reason(&arguments)?,
                None => "restored from a backup",
            };
            journal::somebody(config)?;
            put_in_place(config, file).await?;
            mark(config, why, arguments.verify, arguments.json).await
        }
        (None, true, _) => mark(config, reason(&arguments)?, false, arguments.json).await,
        (None, _, true) => open(config, reason(&arguments)?, arguments.json).await,
        (None, false, false) => show(config, arguments.json).await,
    }
}

fn reason(arguments: &cli::Restore) -> anyhow::Result<&str> {
    audit_log::reason(arguments.reason.as_deref().unwrap_or_default())
        .map_err(|refused| anyhow!("say why: --reason '…'; {refused}"))
}

/// Makes the backup the database that the settings name.
async fn put_in_place(config: &Config, file: &Path) -> anyhow::Result<()> {
    if !file.is_file() {
        bail!("there is no backup {}", file.display());
    }
    match &config.database {
        Database::Sqlite { path, .. } => {
            store::make_default_folder(config)?;
            let _lock = gateway::lock(&config.database.beside(gateway::LOCK_ENDING))?;
            // What is left of a lost file would be played into the one that is put there.
            let beside = ["-wal", "-shm", "-journal"].map(|ending| config.database.beside(ending));
            let left: Vec<_> =
                iter::once(path).chain(&beside).filter(|left| store::is_there(left) != Some(false)).collect();
            if !left.is_empty() {
                let left: Vec<_> = left.into_iter().map(|left| left.display().to_string()).collect();
                bail!(
                    "a database is here already, or what is left of one ({}): move all of it to a folder of its own and keep it (leave what ends in {} and {}), or set another DATABASE_URL",
                    left.join(" "),
                    gateway::KEY_FILE_ENDING,
                    gateway::POSTBACK_KEY_ENDING
                );
            }
            // Before anything looks into it, and so brings it up to what is beside it.
            let written = written_at(file)?;
            let unreadable = || format!("the backup {} can't be read: take another one", file.display());
            let wrong = SqliteStore::check_integrity(file).with_context(unreadable)?;
            if !wrong.is_empty() {
                bail!("the backup {} is damaged, take another one: {}", file.display(), wrong.join("; "));
            }
            // One of a newer version is refused before it is copied.
            SqliteStore::pending_migrations(file).with_context(unreadable)?;
            // Of a backup that says when it was made, this keeps it; of any other copy of the file, that it is one, and when
            // it was last written to.
            let value = written.micros().to_string();
            let (from, to) = (file.to_owned(), path.clone());
            let made =
                tokio::task::spawn_blocking(move || SqliteStore::back_up(&from, &to, COPY_FACT, &value))
                    .await?;
            made.context("the backup can't be put in place")?;
            // A backup of an older version is brought up to this one.
            Store::open(config).await.map(drop)
        }
        Database::Postgres { url } => {
            restore_dump(url, file, COPY_FACT).await.context(
                "the backup can't be put in place (nothing was changed): DATABASE_URL must name an empty database",
            )?;
            // As above.
            Store::open(config).await.map(drop)
        }
    }
}

/// When a file of SQLite was last written to, or its write-ahead log.
fn written_at(file: &Path) -> anyhow::Result<Timestamp> {
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    let of_log = std::fs::metadata(&log).and_then(|found| found.modified()).ok();
    let of_file = std::fs::metadata(file)?.modified()?;
    let written = of_log.map_or(of_file, |of_log| of_log.max(of_file));
    let since = written.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)).min(SystemClock.now()))
}

/// Shuts the gate, and puts in doubt whatever may have been sent since the backup.
async fn mark(config: &Config, why: &str, verify: bool, json: bool) -> anyhow::Result<ExitCode> {
    // What a server of others does can't be seen from here.
    let alone = !config.database.is_shared();
    let _lock = alone.then(|| gateway::lock(&config.database.beside(gateway::LOCK_ENDING))).transpose()?;
    // One of an older version is brought up to this one: no server runs on a file that is locked here.
    let store = if alone { Store::open_alone(config).await? } else { Store::open_existing(config).await? };
    let journal = Journal::of_somebody(&store, config)?;
    let copied_at = copied_at(&store).await?;
    let now = SystemClock.now();
    let epoch = Restored::last(store.facts.as_ref()).await?.map_or(0, |last| last.epoch).saturating_add(1);
    journal.record(Action::BooksRestored, &format!("epoch {epoch}"), why).await?;
    Restored { epoch, at: now, opened_at: None }.keep(store.facts.as_ref()).await?;
    let knows_handles = gateway::has_handle_seed(&store).await?;
    let doubt = doubt_all(config, &store, epoch).await?;
    store.facts.keep_fact(COPY_FACT, String::new()).await?;
    let differences = if verify { audit::audit(&store, None).await?.differences } else { Vec::new() };
    let made = copied_at.map(rfc3339);
    let missing = missing_keys(config);
    let shown = json!({
        "epoch": epoch, "backup_made_at": made, "in_doubt": doubt.in_doubt, "accepted": doubt.accepted,
        "references_known": knows_handles,
        "keys_missing": missing,
        "differences": differences.iter().map(|difference| &difference.what).collect::<Vec<_>>(),
    });
    let code = answer(json, &shown, || {
        let made = made.map_or(String::new(), |at| format!(", from a backup made at {at}"));
        let mut text = format!(
            "restored (number {epoch}){made}. {} withdrawals and refunds may have been sent since and are uncertain, {} are with the provider. Start the gateway: it takes charges and answers, and sends no money. When nothing is in doubt any more, `pix-gateway restore --open --reason …`",
            doubt.in_doubt, doubt.accepted
        );
        if !knows_handles {
            text = format!(
                "{text}\nWARNING the backup is older than the first start of a version that binds references to handles: what was sent since under a handle is NOT known again when it is asked for. Compare the provider's statement by hand before you open"
            );
        }
        if !missing.is_empty() {
            text = format!(
                "{text}\nWARNING no {} is here: put the lost gateway's there before `serve` makes another. Without the first, tokens end and callbacks to the old address are lost; without the second, no secret of postbacks can be read",
                missing.join(" and no ")
            );
        }
        if verify && differences.is_empty() {
            text = format!("{text}\naudit: clean");
        }
        for difference in &differences {
            text = format!("{text}\nWRONG {}", difference.what);
        }
        text
    });
    Ok(if differences.is_empty() { code } else { ExitCode::FAILURE })
}

/// The files beside the database that hold what isn't configured, and that aren't there.
fn missing_keys(config: &Config) -> Vec<String> {
    if config.database.is_shared() {
        return Vec::new();
    }
    let of_tokens = config.token_keys.is_none() || config.callback_secret.is_none();
    let files = [
        (of_tokens, gateway::KEY_FILE_ENDING),
        (config.postbacks.keys.is_none(), gateway::POSTBACK_KEY_ENDING),
    ];
    let needed =
        files.into_iter().filter(|(needed, _)| *needed).map(|(_, ending)| config.database.beside(ending));
    needed
        .filter(|file| store::is_there(file) == Some(false))
        .map(|file| file.display().to_string())
        .collect()
}

async fn doubt_all(config: &Config, store: &Store, epoch: u64) -> anyhow::Result<Doubt> {
    let ports = gateway::idle_ports(config, store, Gate::of(store, config.restore_ask).await?).await?;
    let why = format!("the books were restored from a backup (number {epoch}): it may have been sent since");
    let mut doubt = Doubt::default();
    for integrator in store.integrators.list().await? {
        doubt = doubt.and(cast_doubt(&ports, store.books.as_ref(), integrator.id, &why).await?);
    }
    Ok(doubt)
}

/// What still has to end before money may leave.
async fn in_doubt(store: &Store) -> anyhow::Result<Vec<String>> {
    let open = store.records.follow_ups.open_movements().await?;
    // What waits in the queue is asked about before it is sent.
    let settled = [OutgoingState::Accepted.name(), OutgoingState::Queued.name()];
    Ok(open
        .into_iter()
        .filter(|movements| !settled.contains(&movements.state.as_str()))
        .map(|movements| {
            let kind = match movements.kind {
                ResourceKind::Refund => "refunds",
                _ => "withdrawals",
            };
            format!("{} {kind} {}", movements.count, movements.state)
        })
        .collect())
}

/// Lets money leave again.
async fn open(config: &Config, why: &str, json: bool) -> anyhow::Result<ExitCode> {
    let store = Store::open_existing(config).await?;
    // From then on the provider is asked first, for a while: by the clock of whichever node.
    clocks::refuse(&store).await?;
    let journal = Journal::of_somebody(&store, config)?;
    let Some(restored) = Restored::last(store.facts.as_ref()).await? else {
        bail!("this database was never restored: money may leave");
    };
    if let Some(at) = restored.opened_at {
        bail!("money may leave since {} already", rfc3339(at));
    }
    let (now, settle) = (SystemClock.now(), settle(config));
    let waits = settle.saturating_sub(now.since(restored.at));
    if !waits.is_zero() {
        bail!(
            "{} s are left of the {} s that the provider has to book what was on its way to it at the restore",
            waits.as_secs().saturating_add(1),
            settle.as_secs()
        );
    }
    let doubts = in_doubt(&store).await?;
    if !doubts.is_empty() {
        bail!(
            "still in doubt: {}. The gateway asks the provider while it runs; `pix-gateway uncertain` lists them, and `resolve` ends what the provider can't tell",
            doubts.join(", ")
        );
    }
    journal.record(Action::OutflowOpened, &format!("epoch {}", restored.epoch), why).await?;
    Restored { opened_at: Some(now), ..restored.clone() }.keep(store.facts.as_ref()).await?;
    let until = now.plus(config.restore_ask);
    let shown =
        json!({"epoch": restored.epoch, "opened_at": rfc3339(now), "asks_first_until": rfc3339(until)});
    Ok(answer(json, &shown, || {
        format!(
            "money may leave again. Until {} the provider is asked first whether it was sent already",
            rfc3339(until)
        )
    }))
}

/// Asks the provider about what is final in the books and may have changed since: returns, money taken back, further and late
/// payments. What it answers is booked as ever.
async fn ask(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let store = Store::open_existing(config).await?;
    gateway::refuse_another_provider(config, &store).await?;
    let ports = gateway::idle_ports(config, &store, Gate::of(&store, config.restore_ask).await?).await?;
    let transactions = TransactionService::new(ports).of_operators();
    let since = Timestamp::from_micros(
        SystemClock.now().micros().saturating_sub(i64::try_from(ASKED_ABOUT.as_micros()).unwrap_or(i64::MAX)),
    );
    let (mut asked, mut unanswered, mut changed) = (0_u64, 0_u64, Vec::new());
    for integrator in store.integrators.list().await? {
        let book = store.books.book(integrator.id).await?;
        let charges = book.charges.into_iter().filter(|charge| charge.updated_at >= since);
        let charges = charges.map(|charge| Transaction::Charge(Box::new(charge)));
        // What isn't final the gateway asks about by itself, with more care.
        let sent =
            book.withdrawals.into_iter().filter(|sent| sent.state.is_final() && sent.updated_at >= since);
        let sent = sent.map(|withdrawal| Transaction::Withdrawal(Box::new(withdrawal)));
        for before in charges.chain(sent) {
            asked = asked.saturating_add(1);
            match transactions.consult(before.resource()).await {
                Ok((after, ProviderAnswer::Known(_) | ProviderAnswer::NotKnown)) => {
                    if !after.says_no_more_than(&before) {
                        changed.push(after.resource());
                    }
                }
                _ => unanswered = unanswered.saturating_add(1),
            }
        }
    }
    let named = changed.iter().map(
        |of| json!({"kind": of.kind.as_str(), "uuid": of.id.to_string(), "integrator": of.integrator_id.to_string()}),
    );
    let shown = json!({"asked": asked, "unanswered": unanswered, "changed": named.collect::<Vec<_>>()});
    answer(json, &shown, || {
        let told =
            changed.iter().map(|of| format!("\n  {} {} of {}", of.kind.as_str(), of.id, of.integrator_id));
        format!(
            "asked about {asked} charges and withdrawals; {unanswered} without an answer, and of {} something was not in the books{}",
            changed.len(),
            told.collect::<String>()
        )
    });
    Ok(if unanswered == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How long after a restore the provider's "not known" is worth something.
fn settle(config: &Config) -> Duration {
    config.not_found_proof.map_or(SETTLE, |proof| proof.max(SETTLE))
}

/// Shows how things stand.
async fn show(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let store = Store::open_existing(config).await?;
    if let Some(at) = copied_at(&store).await? {
        let shown = json!({"state": "copy", "backup_made_at": rfc3339(at)});
        return Ok(answer(json, &shown, || {
            format!(
                "this database is a backup made at {}; nothing serves with it before `restore --mark`",
                rfc3339(at)
            )
        }));
    }
    let Some(restored) = Restored::last(store.facts.as_ref()).await? else {
        return Ok(answer(json, &json!({"state": "never_restored"}), || {
            "this database was never restored".to_owned()
        }));
    };
    let doubts = in_doubt(&store).await?;
    let opened = restored.opened_at.map(rfc3339);
    let shown = json!({
        "state": if opened.is_some() { "opened" } else { "shut" },
        "epoch": restored.epoch, "at": rfc3339(restored.at), "opened_at": opened, "in_doubt": doubts,
    });
    Ok(answer(json, &shown, || match &opened {
        Some(at) => format!(
            "restored (number {}) at {}; money may leave since {at}",
            restored.epoch,
            rfc3339(restored.at)
        ),
        None => format!(
            "restored (number {}) at {}; no money leaves. In doubt: {}",
            restored.epoch,
            rfc3339(restored.at),
            if doubts.is_empty() { "nothing".to_owned() } else { doubts.join(", ") }
        ),
    }))
}
