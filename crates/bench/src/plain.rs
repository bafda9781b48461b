//! What most gateways do: a transaction of one query a step, with the wallet's row locked from the first read to the
//! commit. Honest: the queries are typed, prepared once a connection, by key, in the same schema, over a pool that doesn't
//! ping, and nothing is asked twice: ten round trips, `BEGIN` and `COMMIT` among them. Two of them are written out here, since
//! diesel's own UPDATE is prepared anew each time. Over PostgreSQL; `sqlite` has the same over a plain pool of SQLite.
//!
//! Here is a payment; the charge that it pays, a withdrawal and what is only read have files of their own.

use std::io::Write;
use std::time::Duration;

use diesel::deserialize::{self, FromSql};
use diesel::expression::AsExpression;
use diesel::pg::{Pg, PgValue};
use diesel::prelude::{ExpressionMethods, QueryDsl};
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::serialize::{self, IsNull, Output, ToSql};
use diesel::sql_types::{BigInt, SqlType, Text};
use diesel_async::pooled_connection::deadpool::{Object, Pool};
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod};
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use uuid::Uuid;

use crate::ops::{AT_MICROS, FEE_CENTS, PAYER_DOCUMENT, PAYER_NAME};

mod create;
mod reads;
mod reserve;

pub use create::Order;
pub use reserve::Payout;

/// As many as the gateway's own pool for money has.
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

/// The tables that are written to, with ids of some SQL type, and further ids of an event; `charges` as it is made, too.
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
            #[sql_name = "charges"]
            orders (integrator_id, id) {
                integrator_id -> Id,
                id -> Id,
                version -> BigInt,
                external_id -> Text,
                external_id_given -> Bool,
                amount_cents -> BigInt,
                payer_name -> Nullable<Text>,
                payer_document -> Nullable<Text>,
                fee_version -> BigInt,
                state -> Text,
                provider_id -> Nullable<Text>,
                qrcode -> Nullable<Text>,
                provider_body -> Nullable<Text>,
                amount_paid_cents -> BigInt,
                refund_reserved_cents -> BigInt,
                refunded_cents -> BigInt,
                expires_at -> BigInt,
                created_at -> BigInt,
                updated_at -> BigInt,
                follow_up_at -> Nullable<BigInt>,
                follow_up_attempts -> BigInt,
            }
        }
        diesel::table! {
            use diesel::sql_types::*;
            use $id as Id;
            withdrawals (integrator_id, id) {
                integrator_id -> Id,
                id -> Id,
                version -> BigInt,
                external_id -> Text,
                external_id_given -> Bool,
                amount_cents -> BigInt,
                fee_cents -> BigInt,
                fee_version -> BigInt,
                payee_name -> Nullable<Text>,
                payee_document -> Nullable<Text>,
                payee_key_type -> Text,
                payee_key -> Text,
                state -> Text,
                returned_cents -> BigInt,
                submitted_at -> BigInt,
                created_at -> BigInt,
                updated_at -> BigInt,
                follow_up_at -> Nullable<BigInt>,
                follow_up_attempts -> BigInt,
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
            attempts -> BigInt,
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

/// Why something was not done.
#[derive(Debug)]
pub enum PlainError {
    /// The charge is not to be paid.
    NotPending,
    /// There is no such record.
    NotFound,
    /// The wallet has less than that.
    Insufficient,
    /// The database failed.
    Database(String),
}

impl std::fmt::Display for PlainError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotPending => f.write_str("the charge is not to be paid"),
            Self::NotFound => f.write_str("there is no such record"),
            Self::Insufficient => f.write_str("the wallet has less than that"),
            Self::Database(why) => write!(f, "the database failed: {why}"),
        }
    }
}

impl std::error::Error for PlainError {}

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
        let mut config = ManagerConfig::default();
        // Without a ping, as ours.
        config.recycling_method = RecyclingMethod::Fast;
        let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new_with_config(url, config);
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS)
            .runtime(deadpool::Runtime::Tokio1)
            .wait_timeout(Some(WAIT))
            .build()?;
        Ok(Self { pool })
    }

    async fn conn(&self) -> Result<Object<AsyncPgConnection>, PlainError> {
        self.pool.get().await.map_err(|error| PlainError::Database(error.to_string()))
    }

    /// Credits a payment.
    pub async fn settle(&self, paid: &Paid) -> Result<(), PlainError> {
        let mut conn = self.conn().await?;
        conn.transaction::<(), PlainError, _>(async |conn| settle(conn, paid).await).await
    }
}

/// The two movements of a payment: what came in, and its fee.
pub const MOVES: [(&str, &str, &str); 2] =
    [("clearing", "available", "charge_paid"), ("available", "fees", "charge_fee")];

/// Says of a charge that it is paid.
struct Pay<'a> {
    owner: DbId,
    charge: DbId,
    version: i64,
    paid: &'a Paid,
}

impl QueryFragment<Pg> for Pay<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("UPDATE charges SET version = ");
        out.push_bind_param::<BigInt, _>(&self.version)?;
        out.push_sql(", state = 'paid', amount_paid_cents = ");
        out.push_bind_param::<BigInt, _>(&self.paid.amount_cents)?;
        out.push_sql(", paid_fee_cents = ");
        out.push_bind_param::<BigInt, _>(&FEE_CENTS)?;
        out.push_sql(", first_receipt_key = ");
        out.push_bind_param::<Text, _>(&self.paid.end_to_end_id)?;
        out.push_sql(", paid_by_name = 'Ana Souza', paid_by_document = '52998224725', paid_at = ");
        out.push_bind_param::<BigInt, _>(&AT_MICROS)?;
        out.push_sql(", late = false, payments = 1, updated_at = ");
        out.push_bind_param::<BigInt, _>(&AT_MICROS)?;
        out.push_sql(" WHERE integrator_id = ");
        out.push_bind_param::<Id, _>(&self.owner)?;
        out.push_sql(" AND id = ");
        out.push_bind_param::<Id, _>(&self.charge)
    }
}

impl QueryId for Pay<'_> {
    type QueryId = Pay<'static>;

    const HAS_STATIC_QUERY_ID: bool = true;
}

impl<Conn> diesel::query_dsl::RunQueryDsl<Conn> for Pay<'_> {}

/// Says what is in a wallet.
struct Fill {
    owner: DbId,
    available: i64,
    entries: i64,
}

impl QueryFragment<Pg> for Fill {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("UPDATE wallets SET available_cents = ");
        out.push_bind_param::<BigInt, _>(&self.available)?;
        out.push_sql(", entries = ");
        out.push_bind_param::<BigInt, _>(&self.entries)?;
        out.push_sql(" WHERE integrator_id = ");
        out.push_bind_param::<Id, _>(&self.owner)
    }
}

impl QueryId for Fill {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

impl<Conn> diesel::query_dsl::RunQueryDsl<Conn> for Fill {}

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
            receipts::payer_name.eq(PAYER_NAME),
            receipts::payer_document.eq(PAYER_DOCUMENT),
            receipts::created_at.eq(AT_MICROS),
        ))
        .execute(conn)
        .await?;
    Pay { owner, charge, version: version + 1, paid }.execute(conn).await?;
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
    Fill { owner, available: fee_after, entries: entries + 2 }.execute(conn).await?;
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
