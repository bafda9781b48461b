//! `pix-gateway person`: what is held of a person, and erasing it (LGPD, art. 18).

use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::process::ExitCode;

use anyhow::{Context, bail};
use pix_domain::audit_log::{Action, MAX_LOG_DETAIL_CHARS};
use pix_domain::charges::{Charge, Receipt};
use pix_domain::end_to_end::EndToEndId;
use pix_domain::ids::{IntegratorId, ResourceRef};
use pix_domain::party::{Document, PixKey, PixKeyType, TaxId};
use pix_domain::people::{Held, KINDS, Person, Walk};
use pix_domain::provider::{Party, ProviderBody};
use pix_domain::refunds::Refund;
use pix_domain::text::{Description, Email, PayerQuestion, PersonName, clean};
use pix_domain::withdrawals::Withdrawal;
use serde_json::{Value, json};

use super::{answer, rfc3339};
use crate::cli;
use crate::config::Config;
use crate::journal::Journal;
use crate::locking;
use crate::store::Store;

/// How many records an error names.
const NAMED: usize = 10;

/// Runs the subcommand.
pub async fn run(config: &Config, command: cli::Person) -> anyhow::Result<ExitCode> {
    let (who, reason) = match &command {
        cli::Person::Lock { json } => return lock(config, *json).await,
        cli::Person::Export { who, reason } | cli::Person::Erase { who, reason, .. } => (who, reason),
    };
    let person = person(who)?;
    if reason.trim().is_empty() {
        bail!("--reason must say why, such as the number of the request");
    }
    clean(reason, MAX_LOG_DETAIL_CHARS, "--reason")?;
    let store = Store::open_existing(config).await?;
    let mut owners: Vec<_> = store.integrators.list().await?.iter().map(|one| one.id).collect();
    if let Some(only) = who.integrator {
        owners.retain(|owner| owner.0 == only);
        if owners.is_empty() {
            bail!("there is no integrator {only}: `pix-gateway integrator list` lists them");
        }
    }
    // Whose books were looked at, and not of whom: the log is never erased.
    let subject = who.integrator.map_or_else(|| "all integrators".to_owned(), |owner| owner.to_string());
    let journal = Journal::of_somebody(&store, config)?;
    match command {
        cli::Person::Lock { .. } => Ok(ExitCode::SUCCESS),
        cli::Person::Export { reason, .. } => {
            journal.record(Action::PersonExported, &subject, &reason).await?;
            export(&store, &person, &owners).await
        }
        cli::Person::Erase { reason, json, .. } => {
            journal.record(Action::PersonErased, &subject, &reason).await?;
            erase(&store, &person, &owners, json).await
        }
    }
}

async fn lock(config: &Config, as_json: bool) -> anyhow::Result<ExitCode> {
    let store = Store::open_existing(config).await?;
    let locked = locking::all(&store, config.people).await?;
    Ok(answer(as_json, &json!({"locked": locked}), || format!("{locked} records are under keys now")))
}

/// Who is meant. No error repeats what was given.
fn person(who: &cli::Who) -> anyhow::Result<Person> {
    if let Some(document) = &who.document {
        let document = given(document)?;
        let meant = Document::parse(&document)
            .map_err(|why| anyhow::anyhow!("--document is not a CPF or CNPJ: {why}"))?;
        // v2 takes such a document from its clients, so that there may be records of it.
        if TaxId::parse(&document).is_err() {
            eprintln!(
                "pix-gateway: the check digits of --document are wrong: just this is looked for, and no person has it"
            );
        }
        return Ok(Person::Document(meant));
    }
    let key = given(who.pix_key.as_deref().unwrap_or_default())?;
    let kinds: &[PixKeyType] = match &key {
        key if key.contains('@') => &[PixKeyType::Email],
        key if key.starts_with('+') => &[PixKeyType::Phone],
        _ => &[PixKeyType::Evp],
    };
    match kinds.iter().find_map(|kind| PixKey::parse(*kind, &key).ok()) {
        Some(key) => Ok(Person::of_key(&key)),
        // Of digits alone nobody knows whether they are a telephone or a CPF: erasing the wrong one can't be undone.
        None => bail!(
            "--pix-key is an e-mail address, a random key, or a telephone number that begins with +55; for a CPF or CNPJ use --document"
        ),
    }
}

/// An argument, or the first line of standard input for `-`, which no list of processes and no history of a shell shows.
fn given(argument: &str) -> anyhow::Result<String> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("standard input can't be read")?;
    Ok(line.trim().to_owned())
}

/// Prints a JSON document a record at a time, however many there are.
async fn export(store: &Store, person: &Person, owners: &[IntegratorId]) -> anyhow::Result<ExitCode> {
    let people = locking::people(store);
    let mut out = std::io::stdout().lock();
    write!(out, "{{\"records\":[")?;
    let mut separator = "\n";
    for owner in owners {
        let mut walk = Some(Walk::of(*owner, KINDS[0]));
        while let Some(at) = walk {
            let page = people.held(person, at).await?;
            for held in &page.held {
                write!(out, "{separator}{}", shown(held, person))?;
                separator = ",\n";
            }
            walk = page.next;
        }
    }
    writeln!(out, "\n]}}")?;
    Ok(ExitCode::SUCCESS)
}

fn party(party: &Party) -> Value {
    json!({
        "name": party.name.as_ref().map(PersonName::as_str),
        "document": party.document.as_ref().map(Document::as_str),
    })
}

fn body(body: Option<&ProviderBody>) -> Value {
    body.map_or(Value::Null, |body| serde_json::from_str(&body.0).unwrap_or(Value::Null))
}

/// A record as the person may see it: without what it says of others.
fn shown(held: &Held, person: &Person) -> Value {
    match held {
        Held::Charge(charge, receipts, refunds) => charge_shown(charge, receipts, refunds, person),
        Held::Withdrawal(withdrawal) => withdrawal_shown(withdrawal),
    }
}

fn charge_shown(charge: &Charge, receipts: &[Receipt], refunds: &[Refund], person: &Person) -> Value {
    let is = |who: Option<Person>| who.as_ref() == Some(person);
    let payments: Vec<Value> = receipts
        .iter()
        .filter(|receipt| is(receipt.person()))
        .map(|receipt| {
            json!({
                "end_to_end_id": receipt.payment.key.end_to_end_id().map(EndToEndId::as_str),
                "amount": receipt.payment.amount.cents().to_string(),
                "paid_at": rfc3339(receipt.payment.paid_at),
                "payer": party(&receipt.payment.payer),
            })
        })
        .collect();
    // A refund is of a charge, and nothing tells of which of its payments: what it says is shown to who paid all of them.
    let alone = payments.len() == receipts.len();
    let refunds: Vec<Value> = if payments.is_empty() { &[] } else { refunds }
        .iter()
        .map(|refund| {
            let mut shown = json!({
                "uuid": refund.id.0.to_string(),
                "status": refund.state.name(),
                "amount": refund.amount.cents().to_string(),
                "created_at": rfc3339(refund.created_at),
            });
            if alone && let Some(fields) = shown.as_object_mut() {
                let description = refund.description.as_ref().map(Description::as_str);
                fields.insert("description".to_owned(), description.into());
                fields.insert("provider".to_owned(), body(refund.provider_body.as_ref()));
            }
            shown
        })
        .collect();
    let mut shown = json!({
        "kind": "charge",
        "integrator": charge.integrator_id.0.to_string(),
        "uuid": charge.id.0.to_string(),
        "external_id": charge.external_id.as_str(),
        "status": charge.state.name(),
        "amount": charge.amount.cents().to_string(),
        "created_at": rfc3339(charge.created_at),
        "payments": payments,
        "refunds": refunds,
    });
    if is(charge.payer_person())
        && let Some(fields) = shown.as_object_mut()
    {
        fields.insert("payer".to_owned(), party(&charge.payer));
        fields.insert("payer_email".to_owned(), charge.payer_email.as_ref().map(Email::as_str).into());
        let question = charge.payer_question.as_ref().map(PayerQuestion::as_str);
        fields.insert("payer_question".to_owned(), question.into());
        fields.insert("provider".to_owned(), body(charge.ticket.as_ref().map(|ticket| &ticket.body)));
    }
    shown
}

fn withdrawal_shown(withdrawal: &Withdrawal) -> Value {
    json!({
        "kind": "withdrawal",
        "integrator": withdrawal.integrator_id.0.to_string(),
        "uuid": withdrawal.id.0.to_string(),
        "external_id": withdrawal.external_id.as_str(),
        "status": withdrawal.state.name(),
        "amount": withdrawal.amount.cents().to_string(),
        "created_at": rfc3339(withdrawal.created_at),
        "payee": party(&withdrawal.payee.party),
        "payee_key_type": withdrawal.payee.key.kind().as_str(),
        "payee_key": withdrawal.payee.key.as_str(),
        "description": withdrawal.description.as_ref().map(Description::as_str),
        "provider": body(withdrawal.provider_body.as_ref()),
    })
}

async fn erase(
    store: &Store,
    person: &Person,
    owners: &[IntegratorId],
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let people = locking::people(store);
    let (mut erased, mut open, mut failed) = (BTreeSet::new(), Vec::new(), Vec::new());
    for owner in owners {
        match people.erase(*owner, person).await {
            Ok(done) => {
                erased.extend(done.records);
                open.extend(done.open);
            }
            // What was done before is told all the same.
            Err(error) => failed.push(format!("{owner}: {error}")),
        }
    }
    let named = |records: &mut dyn Iterator<Item = &ResourceRef>| -> Vec<Value> {
        records
            .map(|of| {
                json!({
                    "integrator": of.integrator_id.0.to_string(),
                    "kind": of.kind.as_str(),
                    "uuid": of.id.to_string(),
                })
            })
            .collect()
    };
    let value =
        json!({"erased": named(&mut erased.iter()), "open": named(&mut open.iter()), "failed": failed});
    answer(as_json, &value, || {
        let mut lines = match erased.len() {
            0 if open.is_empty() && failed.is_empty() => vec!["no record names this person".to_owned()],
            0 => Vec::new(),
            many => vec![format!(
                "erased from {many} record{}; amounts, fees and postings stay as they are",
                if many == 1 { "" } else { "s" }
            )],
        };
        if !open.is_empty() {
            lines.push(format!(
                "NOT ERASED: money may still move in what follows, {} in all, or did less than 48 hours ago. Run it again later.",
                open.len()
            ));
            let some = open.iter().take(NAMED);
            lines
                .extend(some.map(|of| format!("  {} {} of {}", of.kind.as_str(), of.id, of.integrator_id.0)));
        }
        lines.extend(failed.iter().map(|why| format!("FAILED at the integrator {why}: run it again")));
        if !erased.is_empty() {
            lines.push(
                "backups and copies made before still hold the person: docs/OPERATIONS.md, \"Personal data\""
                    .to_owned(),
            );
        }
        lines.join("\n")
    });
    Ok(if open.is_empty() && failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
