//! Rows of the wallet, its book, and what goes with a transition.

use diesel::prelude::{Insertable, Queryable, Selectable};
use pix_domain::audit::StoredFinding;
use pix_domain::error::StoreError;
use pix_domain::ids::IntegratorId;
use pix_domain::postbacks::events::EventKey;
use pix_domain::time::Timestamp;
use pix_domain::transition::{Finding, Handle, Write};
use pix_domain::wallet::{Account, Entry, Posting, Reason, Wallet};

use crate::codec::{self, DbId, DbTime, damaged};
use crate::schema::{events, findings, handles, postings, wallets};

/// A wallet as it is kept.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = wallets, treat_none_as_default_value = false)]
pub struct WalletRow {
    pub integrator_id: DbId,
    pub available_cents: i64,
    pub held_cents: i64,
    pub entries: i64,
    pub owed_cents: i64,
}

impl WalletRow {
    /// The row of an empty wallet.
    pub const fn empty(integrator_id: DbId) -> Self {
        Self { integrator_id, available_cents: 0, held_cents: 0, entries: 0, owed_cents: 0 }
    }
}

impl TryFrom<WalletRow> for Wallet {
    type Error = StoreError;

    fn try_from(row: WalletRow) -> Result<Self, StoreError> {
        Ok(Self {
            available: codec::cents("wallets.available_cents", row.available_cents)?,
            held: codec::cents("wallets.held_cents", row.held_cents)?,
            owed: codec::cents("wallets.owed_cents", row.owed_cents)?,
            entries: codec::entry_number("wallets.entries", row.entries)?,
        })
    }
}

/// An entry of the book as it is kept.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = postings, treat_none_as_default_value = false)]
pub struct PostingRow {
    pub integrator_id: DbId,
    pub entry: i64,
    pub debit: String,
    pub credit: String,
    pub amount_cents: i64,
    pub reason: String,
    pub resource_kind: String,
    pub resource_id: DbId,
    pub available_after_cents: i64,
    pub held_after_cents: i64,
    pub created_at: DbTime,
}

impl PostingRow {
    /// The row of `posting`, which made the wallet `after`.
    pub fn new(
        integrator_id: DbId,
        posting: &Posting,
        after: &Wallet,
        at: Timestamp,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            integrator_id,
            entry: codec::to_entry_number(after.entries)?,
            debit: posting.debit.as_str().to_owned(),
            credit: posting.credit.as_str().to_owned(),
            amount_cents: posting.amount.get(),
            reason: posting.reason.as_str().to_owned(),
            resource_kind: posting.resource.kind.as_str().to_owned(),
            resource_id: DbId(posting.resource.id),
            available_after_cents: after.available.get(),
            held_after_cents: after.held.get(),
            created_at: DbTime(at),
        })
    }
}

impl TryFrom<PostingRow> for Entry {
    type Error = StoreError;

    fn try_from(row: PostingRow) -> Result<Self, StoreError> {
        let posting = Posting {
            debit: codec::named("postings.debit", &row.debit, Account::from_name)?,
            credit: codec::named("postings.credit", &row.credit, Account::from_name)?,
            amount: codec::cents("postings.amount_cents", row.amount_cents)?,
            reason: codec::named("postings.reason", &row.reason, Reason::from_name)?,
            resource: codec::resource(
                "postings.resource_kind",
                row.integrator_id,
                &row.resource_kind,
                row.resource_id,
            )?,
        };
        Ok(Self {
            integrator_id: IntegratorId(row.integrator_id.0),
            number: codec::entry_number("postings.entry", row.entry)?,
            posting,
            available_after: codec::cents("postings.available_after_cents", row.available_after_cents)?,
            held_after: codec::cents("postings.held_after_cents", row.held_after_cents)?,
            at: row.created_at.0,
        })
    }
}

/// An event as it is kept.
#[derive(Insertable)]
#[diesel(table_name = events, treat_none_as_default_value = false)]
pub struct EventRow {
    pub integrator_id: DbId,
    pub resource_kind: &'static str,
    pub resource_id: DbId,
    pub sequence: i64,
    pub kind: &'static str,
    pub created_at: DbTime,
    #[diesel(skip_insertion)]
    key: EventKey,
}

impl EventRow {
    /// The event of `write`.
    pub fn new(write: &Write, at: Timestamp) -> Self {
        let resource = write.record.resource();
        Self {
            integrator_id: resource.integrator_id.into(),
            resource_kind: resource.kind.as_str(),
            resource_id: DbId(resource.id),
            sequence: write.record.version().0.into(),
            kind: write.event.as_str(),
            created_at: DbTime(at),
            key: EventKey { resource, sequence: write.record.version() },
        }
    }

    /// What identifies it.
    pub const fn key(&self) -> EventKey {
        self.key
    }
}

/// What an idempotency key stands for, as it is kept.
#[derive(Insertable)]
#[diesel(table_name = handles, treat_none_as_default_value = false)]
pub struct HandleRow<'a> {
    pub integrator_id: DbId,
    pub kind: &'static str,
    pub key: &'a str,
    pub resource_id: DbId,
    pub created_at: DbTime,
}

impl<'a> HandleRow<'a> {
    /// The row of `handle`.
    pub fn new(integrator_id: DbId, handle: &'a Handle, at: Timestamp) -> Self {
        Self {
            integrator_id,
            kind: handle.kind.as_str(),
            key: handle.key.as_str(),
            resource_id: DbId(handle.id),
            created_at: DbTime(at),
        }
    }
}

/// A finding as it is kept.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = findings, treat_none_as_default_value = false)]
pub struct FindingRow {
    pub integrator_id: DbId,
    pub number: i64,
    pub resource_kind: String,
    pub resource_id: DbId,
    pub code: String,
    pub detail: String,
    pub created_at: DbTime,
}

impl FindingRow {
    /// The row of `finding`, the integrator's `number`-th.
    pub fn new(integrator_id: DbId, number: i64, finding: Finding, at: Timestamp) -> Self {
        Self {
            integrator_id,
            number,
            resource_kind: finding.resource.kind.as_str().to_owned(),
            resource_id: DbId(finding.resource.id),
            code: finding.code.to_owned(),
            detail: finding.detail,
            created_at: DbTime(at),
        }
    }
}

impl TryFrom<FindingRow> for StoredFinding {
    type Error = StoreError;

    fn try_from(row: FindingRow) -> Result<Self, StoreError> {
        if row.code.is_empty() {
            return Err(damaged("findings.code", "there"));
        }
        Ok(Self {
            resource: codec::resource(
                "findings.resource_kind",
                row.integrator_id,
                &row.resource_kind,
                row.resource_id,
            )?,
            code: row.code,
            detail: row.detail,
        })
    }
}
