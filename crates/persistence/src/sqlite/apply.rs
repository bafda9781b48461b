//! A transition as statements.
//!
//! The order is that of the refusals' precedence: its shape (rejected), its records (stale, duplicate), its handle and
//! receipt (duplicate), its money (insufficient funds), its debt (owing). The transaction has the write lock, so what is read here holds
//! until the commit.

use std::collections::BTreeSet;

use async_trait::async_trait;
use diesel::dsl::{exists, max};
use diesel::prelude::{
    BoolExpressionMethods, ExpressionMethods, OptionalExtension, QueryDsl, RunQueryDsl, SelectableHelper,
};
use diesel::sqlite::SqliteConnection;
use pix_domain::charges::Receipt;
use pix_domain::error::{ApplyError, StoreError, UniqueKey};
use pix_domain::evidence::Evidence;
use pix_domain::postbacks::events::{EventKey, Told};
use pix_domain::time::Timestamp;
use pix_domain::transition::{Finding, Guard, Record, Transition, TransitionStore, Twin, Write};
use pix_domain::wallet::{Posting, Wallet};

use super::SqliteStore;
use super::error::{DbError, Of, Problem};
use super::update::update;
use super::writer::answered;
use crate::codec::{DbId, to_entry_number};
use crate::rows::{
    ChargeRow, DeliveryRow, EventRow, EvidenceRow, FindingRow, HandleRow, PostingRow, ReceiptRow, RefundRow,
    SplitRow, ToldRow, TwinRow, WalletRow, WithdrawalRow,
};
use crate::schema::{
    charges, deliveries, events, evidence, findings, handles, postings, receipts, refunds, splits, twins,
    wallets, withdrawals,
};

type Applied = Result<(), Problem<ApplyError>>;

#[async_trait]
impl TransitionStore for SqliteStore {
    async fn apply(&self, transition: Transition) -> Result<(), ApplyError> {
        self.write(move |conn| apply(conn, transition)).await
    }

    async fn apply_all(&self, transitions: Vec<Transition>) -> Vec<Result<(), ApplyError>> {
        // All are handed over, in order, before the first answer is waited for: so they share commits.
        let mut answers = Vec::with_capacity(transitions.len());
        for transition in transitions {
            answers.push(self.writer.send(move |conn| apply(conn, transition)).await);
        }
        let mut results = Vec::with_capacity(answers.len());
        for answer in answers {
            results.push(match answer {
                Ok(answer) => answered(answer).await,
                Err(error) => Err(error.into()),
            });
        }
        results
    }
}

/// A transition whose records and keys are written, and what is left of it.
struct Begun {
    owner: DbId,
    at: Timestamp,
    wallet: Wallet,
    happened: Vec<EventRow>,
    told: Vec<Told>,
    postings: Vec<Posting>,
    findings: Vec<Finding>,
    evidence: Vec<Evidence>,
}

fn apply(conn: &mut SqliteConnection, mut transition: Transition) -> Applied {
    transition.check_shape()?;
    let parts = std::mem::take(&mut transition.parts);
    if parts.is_empty() {
        let begun = begin(conn, transition)?;
        return begun.end(conn);
    }
    // The refusals of records and keys of all of them come before those of money.
    let all = std::iter::once(transition).chain(parts);
    let begun = all.map(|one| begin(conn, one)).collect::<Result<Vec<Begun>, _>>()?;
    begun.into_iter().try_for_each(|one| one.end(conn))
}

/// Writes the records and the keys.
fn begin(conn: &mut SqliteConnection, transition: Transition) -> Result<Begun, Problem<ApplyError>> {
    let told: Vec<Told> = transition.told().collect();
    let Transition {
        integrator_id, at, writes, postings, receipt, handle, findings, evidence, twins, ..
    } = transition;
    let owner = DbId::from(integrator_id);
    let wallet = wallets::table
        .find(owner)
        .select(WalletRow::as_select())
        .get_result(conn)
        .optional()
        .of("wallets")?;
    let wallet = Wallet::try_from(wallet.ok_or_else(|| rejected("no such integrator"))?)?;

    let happened: Vec<EventRow> = writes.iter().map(|write| EventRow::new(write, at)).collect();
    for write in writes {
        write_record(conn, write)?;
    }
    if let Some(handle) = &handle {
        let row = HandleRow::new(owner, handle, at);
        let kept = diesel::insert_into(handles::table).values(&row).execute(conn);
        kept.of("handles").map_err(Problem::of_insert)?;
    }
    if let Some(receipt) = &receipt {
        keep_receipt(conn, receipt, at)?;
    }
    for twin in &twins {
        keep_twin(conn, owner, twin, at)?;
    }
    Ok(Begun { owner, at, wallet, happened, told, postings, findings, evidence })
}

impl Begun {
    /// Moves the money, and writes what follows from all of it.
    fn end(self, conn: &mut SqliteConnection) -> Applied {
        let Self { owner, at, wallet, happened, told, postings, findings, evidence } = self;
        let public: BTreeSet<EventKey> = told.iter().map(|told| told.key).collect();
        post(conn, owner, wallet, &postings, at)?;
        for event in happened.iter().filter(|event| !public.contains(&event.key())) {
            diesel::insert_into(events::table).values(event).execute(conn).of("events")?;
        }
        tell(conn, owner, &told)?;
        for finding in findings {
            keep_finding(conn, owner, finding, at)?;
        }
        for row in evidence.into_iter().map(EvidenceRow::from) {
            let kept =
                diesel::insert_into(evidence::table).values(&row).on_conflict_do_nothing().execute(conn);
            kept.of("evidence")?;
        }
        Ok(())
    }
}

/// Takes a twin's key, if who has it is as expected.
fn keep_twin(conn: &mut SqliteConnection, owner: DbId, twin: &Twin, at: Timestamp) -> Applied {
    let key = (owner, DbId(twin.key));
    let holder: Option<DbId> =
        twins::table.find(key).select(twins::resource_id).get_result(conn).optional().of("twins")?;
    if holder != twin.expected.map(DbId) {
        return Err(ApplyError::Duplicate(UniqueKey::Twin).into());
    }
    let row =
        TwinRow::new(owner, twin, at).ok_or_else(|| rejected("a twin's key names one record at least"))?;
    diesel::replace_into(twins::table).values(&row).execute(conn).of("twins")?;
    Ok(())
}

fn rejected(why: &str) -> ApplyError {
    ApplyError::Store(StoreError::Rejected(why.to_owned()))
}

/// Inserts or updates a row under its guard.
macro_rules! guarded {
    ($table:ident, $row:expr, $guard:expr, $conn:expr) => {{
        let (row, name) = ($row, stringify!($table));
        match $guard {
            Guard::Absent => {
                // Ids are unique over all integrators, which no key of the schema says.
                let same = $table::table.filter($table::id.eq(row.id));
                if diesel::select(exists(same)).get_result($conn).of(name)? {
                    return Err(ApplyError::Duplicate(UniqueKey::Id).into());
                }
                let kept = diesel::insert_into($table::table).values(&row).execute($conn);
                kept.of(name).map_err(Problem::of_insert)?;
            }
            Guard::At(version) => {
                let same = $table::integrator_id
                    .eq(row.integrator_id)
                    .and($table::id.eq(row.id))
                    .and($table::version.eq(i64::from(version.0)));
                let changed = update($table::table, &row, same).execute($conn);
                if changed.of(name).map_err(Problem::of_insert)? == 0 {
                    return Err(ApplyError::Stale.into());
                }
            }
        }
        Ok(())
    }};
}

fn write_record(conn: &mut SqliteConnection, write: Write) -> Applied {
    match write.record {
        Record::Charge(charge) => {
            guarded!(charges, ChargeRow::new(*charge, write.follow_up), write.guard, conn)
        }
        Record::Withdrawal(withdrawal) => {
            guarded!(withdrawals, WithdrawalRow::new(*withdrawal, write.follow_up), write.guard, conn)
        }
        Record::Refund(refund) => {
            guarded!(refunds, RefundRow::new(*refund, write.follow_up), write.guard, conn)
        }
        Record::Split(split) => guarded!(splits, SplitRow::from(*split), write.guard, conn),
    }
}

fn keep_receipt(conn: &mut SqliteConnection, receipt: &Receipt, at: Timestamp) -> Applied {
    let (owner, charge) = (DbId::from(receipt.integrator_id), DbId(receipt.charge_id.0));
    let of_charge =
        receipts::table.filter(receipts::integrator_id.eq(owner).and(receipts::charge_id.eq(charge)));
    let before: i64 = of_charge.count().get_result(conn).of("receipts")?;
    let row = ReceiptRow::new(receipt, before.saturating_add(1), at);
    let kept = diesel::insert_into(receipts::table).values(&row).execute(conn);
    kept.of("receipts").map_err(Problem::of_insert)?;
    Ok(())
}

/// Enters the postings in the book and in the wallet's row, which is at `wallet`.
fn post(
    conn: &mut SqliteConnection,
    owner: DbId,
    mut wallet: Wallet,
    movements: &[Posting],
    at: Timestamp,
) -> Applied {
    if movements.is_empty() {
        return Ok(());
    }
    let mut rows = Vec::with_capacity(movements.len());
    for posting in movements {
        wallet = wallet.after(posting)?;
        rows.push(PostingRow::new(owner, posting, &wallet, at)?);
    }
    let wallet = wallet.settled()?;
    let values = (
        wallets::available_cents.eq(wallet.available.get()),
        wallets::held_cents.eq(wallet.held.get()),
        wallets::entries.eq(to_entry_number(wallet.entries)?),
        wallets::owed_cents.eq(wallet.owed.get()),
    );
    let changed =
        update(wallets::table, values, wallets::integrator_id.eq(owner)).execute(conn).of("wallets")?;
    if changed != 1 {
        return Err(DbError::Damaged(
            "wallets.integrator_id is not the wallet that was just read".to_owned(),
        )
        .into());
    }
    for row in &rows {
        diesel::insert_into(postings::table).values(row).execute(conn).of("postings")?;
    }
    Ok(())
}

/// Numbers what is told, and puts on its way what goes to a receiver.
fn tell(conn: &mut SqliteConnection, owner: DbId, all: &[Told]) -> Applied {
    if all.is_empty() {
        return Ok(());
    }
    let mut number: i64 = wallets::table.find(owner).select(wallets::told).get_result(conn).of("wallets")?;
    for told in all {
        number = number.saturating_add(1);
        let row = ToldRow::new(told, number);
        diesel::insert_into(events::table).values(&row).execute(conn).of("events")?;
        if let Some(lane) = told.lane {
            let row = DeliveryRow::new(told.key, DbId(lane.0), told.at, told.at);
            diesel::insert_into(deliveries::table).values(&row).execute(conn).of("deliveries")?;
        }
    }
    let own = wallets::integrator_id.eq(owner);
    update(wallets::table, wallets::told.eq(number), own).execute(conn).of("wallets")?;
    Ok(())
}

/// A finding with the same record and code is kept once: the first.
fn keep_finding(conn: &mut SqliteConnection, owner: DbId, finding: Finding, at: Timestamp) -> Applied {
    let of_owner = findings::table.filter(findings::integrator_id.eq(owner));
    let newest: Option<i64> = of_owner.select(max(findings::number)).get_result(conn).of("findings")?;
    let row = FindingRow::new(owner, newest.unwrap_or(0).saturating_add(1), finding, at);
    let key = (findings::integrator_id, findings::resource_kind, findings::resource_id, findings::code);
    let kept = diesel::insert_into(findings::table).values(&row).on_conflict(key).do_nothing().execute(conn);
    kept.of("findings")?;
    Ok(())
}
