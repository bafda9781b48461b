//! What most gateways do: a transaction of one query a step, with the wallet's row locked from the first read to the
//! commit. Honest: the queries are typed, prepared and cached, by key, in the same schema, over a pool, and nothing is
//! asked twice. Here over PostgreSQL; `sqlite` has the same over a plain pool of SQLite.

use std::io::Write;
use std::time::Duration;

use diesel::deserialize::{self, FromSql};
use diesel::expression::AsExpression;
use diesel::pg::{Pg, PgValue};
use diesel::prelude::{ExpressionMethods, QueryDsl};
use diesel::query_builder::QueryId;
use diesel::serialize::{self, IsNull, Output, ToSql};
use diesel::sql_types::SqlType;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use uuid::Uuid;

use crate::ops::{AT_MICROS, FEE_CENTS};

/// As many as the gateway's own pool for money has: the best number for this handler, too, on one wallet.
const CONNECTIONS: usize = 8;
/// How long a request waits for a connection.
const WAIT: Duration = Duration::from_secs(30);

/// The SQL type of an id.
#[derive(Debug, Clone, Copy, SqlType, QueryId)]
#[diesel(postgres_type(oid = 2950, array_oid = 2951))]
pub struct Id;

/// An id as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, AsExpression, diesel::deserialize::FromSqlRow)]
#[diesel(sql_type = Id)]
pub struct DbId(pub Uuid);

impl ToSql<Id, Pg> for DbId {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        out.write_all(self.0.as_bytes())?;
        Ok(IsNull::No)
    }
}

impl FromSql<Id, Pg> for DbId {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        Ok(Self(Uuid::from_slice(value.as_bytes())?))
    }
}

/// The tables that settling touches, with ids of some SQL type, and further ids of an event.
macro_rules! tables {
    ($id:path $(, $also:ident)*) => {
        diesel::table! {
            use diesel::sql_types::*;
            use $id as Id;
            charges (integrator_id, id) {
                integrator_id -> Id,
                id -> Id,
                version -> BigInt,
                amount_cents -> BigInt,
                state -> Text,
                amount_paid_cents -> BigInt,
                paid_fee_cents -> Nullable<BigInt>,
                first_receipt_key -> Nullable<Text>,
                paid_by_name -> Nullable<Text>,
                paid_by_document -> Nullable<Text>,
                paid_at -> Nullable<BigInt>,
                late -> Nullable<Bool>,
                payments -> Nullable<BigInt>,
                updated_at -> BigInt,
                follow_up_at -> Nullable<BigInt>,
            }
        }
        diesel::table! {
            use diesel::sql_types::*;
            use $id as Id;
            wallets (integrator_id) {
                integrator_id -> Id,
                available_cents -> BigInt,
                held_cents -> BigInt,
                entries -> BigInt,
            }
        }
        diesel::table! {
            use diesel::sql_types::*;
            use $id as Id;
            receipts (integrator_id, receipt_key) {
                integrator_id -> Id,
                receipt_key -> Text,
                charge_id -> Id,
                number -> BigInt,
                amount_cents -> BigInt,
                paid_at -> BigInt,
                payer_name -> Nullable<Text>,
                payer_document -> Nullable<Text>,
                created_at -> BigInt,
            }
        }
        diesel::table! {
            use diesel::sql_types::*;
            use $id as Id;
            postings (integrator_id, entry) {
                integrator_id -> Id,
                entry -> BigInt,
                debit -> Text,
                credit -> Text,
                amount_cents -> BigInt,
                reason -> Text,
                resource_kind -> Text,
                resource_id -> Id,
                available_after_cents -> BigInt,
                held_after_cents -> BigInt,
                created_at -> BigInt,
            }
        }
        diesel::table! {
            use diesel::sql_types::*;
            use $id as Id;
            events (integrator_id, resource_kind, resource_id, sequence) {
                integrator_id -> Id,
                resource_kind -> Text,
                resource_id -> Id,
                sequence -> BigInt,
                kind -> Text,
                created_at -> BigInt,
                $($also -> Id,)*
            }
        }
    };
}
pub(crate) use tables;

mod pg {
    super::tables!(crate::plain::Id, transition_id);

    diesel::table! {
        use diesel::sql_types::BigInt;
        use crate::plain::Id;
        charge_follow_ups (integrator_id, id) {
            integrator_id -> Id,
            id -> Id,
            due_at -> BigInt,
        }
    }
}
use pg::{charge_follow_ups, charges, events, postings, receipts, wallets};

/// A payment to be credited.
#[derive(Debug, Clone)]
pub struct Paid {
    /// Whose.
    pub integrator_id: Uuid,
    /// For which charge.
    pub charge_id: Uuid,
    /// Its end-to-end id.
    pub end_to_end_id: String,
    /// How much, in centavos.
    pub amount_cents: i64,
}

/// Why a payment was not credited.
#[derive(Debug)]
pub enum PlainError {
    /// The charge is not to be paid.
    NotPending,
    /// The database failed.
    Database(String),
}

impl std::fmt::Display for PlainError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotPending => f.write_str("the charge is not to be paid"),
            Self::Database(why) => write!(f, "the database failed: {why}"),
        }
    }
}

impl From<diesel::result::Error> for PlainError {
    fn from(error: diesel::result::Error) -> Self {
        Self::Database(error.to_string())
    }
}

/// The plain handler's store.
pub struct Plain {
    pool: Pool<AsyncPgConnection>,
}

impl Plain {
    /// A pool on the database.
    pub fn new(url: &str) -> anyhow::Result<Self> {
        let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new(url);
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS)
            .runtime(deadpool::Runtime::Tokio1)
            .wait_timeout(Some(WAIT))
            .build()?;
        Ok(Self { pool })
    }

    /// Credits a payment.
    pub async fn settle(&self, paid: &Paid) -> Result<(), PlainError> {
        let mut conn = self.pool.get().await.map_err(|error| PlainError::Database(error.to_string()))?;
        conn.transaction::<(), PlainError, _>(async |conn| settle(conn, paid).await).await
    }
}

/// The two movements of a payment: what came in, and its fee.
pub const MOVES: [(&str, &str, &str); 2] =
    [("clearing", "available", "charge_paid"), ("available", "fees", "charge_fee")];

#[expect(clippy::disallowed_methods, reason = "reads within a transaction, whose COMMIT is waited for")]
async fn settle(conn: &mut AsyncPgConnection, paid: &Paid) -> Result<(), PlainError> {
    let (owner, charge) = (DbId(paid.integrator_id), DbId(paid.charge_id));
    let (version, state): (i64, String) = charges::table
        .find((owner, charge))
        .select((charges::version, charges::state))
        .for_update()
        .first(conn)
        .await?;
    if state != "pending" {
        return Err(PlainError::NotPending);
    }
    let (available, held, entries): (i64, i64, i64) = wallets::table
        .find(owner)
        .select((wallets::available_cents, wallets::held_cents, wallets::entries))
        .for_update()
        .first(conn)
        .await?;
    diesel::insert_into(receipts::table)
        .values((
            receipts::integrator_id.eq(owner),
            receipts::receipt_key.eq(&paid.end_to_end_id),
            receipts::charge_id.eq(charge),
            receipts::number.eq(1_i64),
            receipts::amount_cents.eq(paid.amount_cents),
            receipts::paid_at.eq(AT_MICROS),
            receipts::payer_name.eq("Ana Souza"),
            receipts::payer_document.eq("52998224725"),
            receipts::created_at.eq(AT_MICROS),
        ))
        .execute(conn)
        .await?;
    diesel::update(charges::table.find((owner, charge)))
        .set((
            charges::version.eq(version + 1),
            charges::state.eq("paid"),
            charges::amount_paid_cents.eq(paid.amount_cents),
            charges::paid_fee_cents.eq(FEE_CENTS),
            charges::first_receipt_key.eq(&paid.end_to_end_id),
            charges::paid_by_name.eq("Ana Souza"),
            charges::paid_by_document.eq("52998224725"),
            charges::paid_at.eq(AT_MICROS),
            charges::late.eq(false),
            charges::payments.eq(1_i64),
            charges::updated_at.eq(AT_MICROS),
        ))
        .execute(conn)
        .await?;
    diesel::delete(charge_follow_ups::table.find((owner, charge))).execute(conn).await?;
    let after = [available + paid.amount_cents, available + paid.amount_cents - FEE_CENTS];
    let [in_after, fee_after] = after;
    let [(in_debit, in_credit, in_reason), (fee_debit, fee_credit, fee_reason)] = MOVES;
    let posting = |number: i64,
                   debit: &'static str,
                   credit: &'static str,
                   cents: i64,
                   reason: &'static str,
                   after: i64| {
        (
            postings::integrator_id.eq(owner),
            postings::entry.eq(entries + number),
            postings::debit.eq(debit),
            postings::credit.eq(credit),
            postings::amount_cents.eq(cents),
            postings::reason.eq(reason),
            postings::resource_kind.eq("charge"),
            postings::resource_id.eq(charge),
            postings::available_after_cents.eq(after),
            postings::held_after_cents.eq(held),
            postings::created_at.eq(AT_MICROS),
        )
    };
    // An array, since a statement for a vector of rows is never kept prepared.
    let rows = [
        posting(1, in_debit, in_credit, paid.amount_cents, in_reason, in_after),
        posting(2, fee_debit, fee_credit, FEE_CENTS, fee_reason, fee_after),
    ];
    diesel::insert_into(postings::table).values(rows).execute(conn).await?;
    diesel::update(wallets::table.find(owner))
        .set((
            wallets::available_cents.eq(available + paid.amount_cents - FEE_CENTS),
            wallets::entries.eq(entries + 2),
        ))
        .execute(conn)
        .await?;
    diesel::insert_into(events::table)
        .values((
            events::integrator_id.eq(owner),
            events::resource_kind.eq("charge"),
            events::resource_id.eq(charge),
            events::sequence.eq(version + 1),
            events::kind.eq("charge.paid"),
            events::created_at.eq(AT_MICROS),
            events::transition_id.eq(charge),
        ))
        .execute(conn)
        .await?;
    Ok(())
}
