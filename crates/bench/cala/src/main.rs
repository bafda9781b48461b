//! Measures `cala-ledger` doing the movement that `pix-bench` measures: what came in, and its fee.
//!
//! `pix-bench-cala URL WALLETS CLIENTS WARM_SECONDS SECONDS` on an empty database; prints one JSON object.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use cala_ledger::account::NewAccount;
use cala_ledger::job::{JobSvcConfig, Jobs};
use cala_ledger::journal::NewJournal;
use cala_ledger::migrate::IncludeMigrations;
use cala_ledger::tx_template::{
    NewParamDefinition, NewTxTemplate, NewTxTemplateEntry, NewTxTemplateTransaction, ParamDataType, Params,
};
use cala_ledger::{AccountId, CalaLedger, CalaLedgerConfig, JournalId, TransactionId};
use hdrhistogram::Histogram;
use uuid::Uuid;

/// As many as the gateway's own pool for money.
const CONNECTIONS: u32 = 8;
const TEMPLATE: &str = "CHARGE_PAID";

/// The accounts of one wallet.
struct Wallet {
    clearing: AccountId,
    available: AccountId,
    fees: AccountId,
}

async fn account(cala: &CalaLedger, name: &str) -> anyhow::Result<AccountId> {
    let id = AccountId::from(Uuid::new_v4());
    let code = format!("{name}-{id}");
    let new = NewAccount::builder().id(id).name(code.clone()).code(code).build();
    cala.accounts().create(new).await?;
    Ok(id)
}

fn template() -> anyhow::Result<NewTxTemplate> {
    let mut params = Vec::new();
    for name in ["clearing", "available", "fees", "journal_id"] {
        params.push(NewParamDefinition::builder().name(name).r#type(ParamDataType::Uuid).build()?);
    }
    let mut entries = Vec::new();
    for (name, account, direction, units) in [
        ("'PAID_DR'", "params.clearing", "DEBIT", "decimal('100.00')"),
        ("'PAID_CR'", "params.available", "CREDIT", "decimal('100.00')"),
        ("'FEE_DR'", "params.available", "DEBIT", "decimal('0.10')"),
        ("'FEE_CR'", "params.fees", "CREDIT", "decimal('0.10')"),
    ] {
        let entry = NewTxTemplateEntry::builder()
            .entry_type(name)
            .account_id(account)
            .layer("SETTLED")
            .direction(direction)
            .units(units)
            .currency("'BRL'")
            .build()?;
        entries.push(entry);
    }
    let transaction =
        NewTxTemplateTransaction::builder().effective("date()").journal_id("params.journal_id").build()?;
    Ok(NewTxTemplate::builder()
        .id(Uuid::new_v4())
        .code(TEMPLATE)
        .params(params)
        .transaction(transaction)
        .entries(entries)
        .build())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, wallets, clients, warm, seconds] =
        <[String; 5]>::try_from(arguments).map_err(|_| anyhow::anyhow!("five arguments are needed"))?;
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(CONNECTIONS).connect(&url).await?;
    let mut migrator = sqlx::migrate::Migrator::DEFAULT;
    migrator.include_cala_migrations().run(&pool).await?;
    let config = CalaLedgerConfig::builder().pool(pool.clone()).build()?;
    let mut jobs = Jobs::init(JobSvcConfig::builder().pool(pool).build()?).await?;
    let cala = CalaLedger::init(config, &mut jobs).await?;
    let journal = NewJournal::builder().id(JournalId::new()).name("bench").build();
    let journal = cala.journals().create(journal).await?.id();
    cala.tx_templates().create(template()?).await?;
    let mut all = Vec::new();
    for _ in 0..wallets.parse::<usize>()? {
        all.push(Wallet {
            clearing: account(&cala, "clearing").await?,
            available: account(&cala, "available").await?,
            fees: account(&cala, "fees").await?,
        });
    }
    let (all, next, phase) = (Arc::new(all), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU8::new(0)));
    let mut tasks = Vec::new();
    for _ in 0..clients.parse::<usize>()? {
        let (cala, all, next, phase) =
            (cala.clone(), Arc::clone(&all), Arc::clone(&next), Arc::clone(&phase));
        tasks.push(tokio::spawn(async move {
            let mut micros: Histogram<u64> = Histogram::new_with_max(60_000_000, 3)?;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let wallet = all.get(number % all.len()).context("a wallet")?;
                let mut params = Params::new();
                params.insert("journal_id", journal);
                params.insert("clearing", wallet.clearing);
                params.insert("available", wallet.available);
                params.insert("fees", wallet.fees);
                let began = Instant::now();
                cala.post_transaction(TransactionId::new(), TEMPLATE, params).await?;
                // What ends in the time counts, as of ours.
                match phase.load(Ordering::Relaxed) {
                    0 => {}
                    1 => micros.saturating_record(began.elapsed().as_micros() as u64),
                    _ => return Ok::<_, anyhow::Error>(micros),
                }
            }
        }));
    }
    tokio::time::sleep(Duration::from_secs_f64(warm.parse()?)).await;
    phase.store(1, Ordering::Relaxed);
    let began = Instant::now();
    tokio::time::sleep(Duration::from_secs_f64(seconds.parse()?)).await;
    phase.store(2, Ordering::Relaxed);
    let took = began.elapsed().as_secs_f64();
    let mut micros: Histogram<u64> = Histogram::new_with_max(60_000_000, 3)?;
    for task in tasks {
        micros.add(task.await??)?;
    }
    let millis = |quantile| micros.value_at_quantile(quantile) as f64 / 1000.0;
    println!(
        "{{\"per_second\": {}, \"p50_millis\": {}, \"p99_millis\": {}}}",
        micros.len() as f64 / took,
        millis(0.5),
        millis(0.99)
    );
    Ok(())
}
