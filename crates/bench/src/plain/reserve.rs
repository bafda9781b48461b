//! Taking a withdrawal's money: begin, select the wallet for update, insert the withdrawal, insert the posting, update the
//! wallet, insert the event, commit. The provider would be asked afterwards.

use diesel::pg::Pg;
use diesel::prelude::{ExpressionMethods, QueryDsl};
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::sql_types::BigInt;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use uuid::Uuid;

use super::pg::{events, postings, wallets, withdrawals};
use super::{DbId, Id, Plain, PlainError};
use crate::ops::{AT_MICROS, DUE_MICROS, PAYEE_KEY, PAYER_DOCUMENT, PAYER_NAME};

/// A withdrawal that takes its money.
#[derive(Debug, Clone)]
pub struct Payout {
    /// Whose.
    pub integrator_id: Uuid,
    /// Its id.
    pub id: Uuid,
    /// What the integrator calls it.
    pub external_id: String,
    /// How much, in centavos.
    pub amount_cents: i64,
}

impl Plain {
    /// Takes its money.
    pub async fn reserve(&self, payout: &Payout) -> Result<(), PlainError> {
        let mut conn = self.conn().await?;
        conn.transaction::<(), PlainError, _>(async |conn| reserve(conn, payout).await).await
    }
}

/// Says what is in a wallet, free and held.
struct Hold {
    owner: DbId,
    available: i64,
    held: i64,
    entries: i64,
}

impl QueryFragment<Pg> for Hold {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("UPDATE wallets SET available_cents = ");
        out.push_bind_param::<BigInt, _>(&self.available)?;
        out.push_sql(", held_cents = ");
        out.push_bind_param::<BigInt, _>(&self.held)?;
        out.push_sql(", entries = ");
        out.push_bind_param::<BigInt, _>(&self.entries)?;
        out.push_sql(" WHERE integrator_id = ");
        out.push_bind_param::<Id, _>(&self.owner)
    }
}

impl QueryId for Hold {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

impl<Conn> diesel::query_dsl::RunQueryDsl<Conn> for Hold {}

#[expect(clippy::disallowed_methods, reason = "reads within a transaction, whose COMMIT is waited for")]
async fn reserve(conn: &mut AsyncPgConnection, payout: &Payout) -> Result<(), PlainError> {
    let (owner, withdrawal) = (DbId(payout.integrator_id), DbId(payout.id));
    let (available, held, entries): (i64, i64, i64) = wallets::table
        .find(owner)
        .select((wallets::available_cents, wallets::held_cents, wallets::entries))
        .for_update()
        .first(conn)
        .await?;
    let (available, held, entries) =
        (available - payout.amount_cents, held + payout.amount_cents, entries + 1);
    if available < 0 {
        return Err(PlainError::Insufficient);
    }
    diesel::insert_into(withdrawals::table)
        .values((
            withdrawals::integrator_id.eq(owner),
            withdrawals::id.eq(withdrawal),
            withdrawals::version.eq(1_i64),
            withdrawals::external_id.eq(&payout.external_id),
            withdrawals::external_id_given.eq(true),
            withdrawals::amount_cents.eq(payout.amount_cents),
            withdrawals::fee_cents.eq(0_i64),
            withdrawals::fee_version.eq(0_i64),
            withdrawals::payee_name.eq(PAYER_NAME),
            withdrawals::payee_document.eq(PAYER_DOCUMENT),
            withdrawals::payee_key_type.eq("EMAIL"),
            withdrawals::payee_key.eq(PAYEE_KEY),
            withdrawals::state.eq("submitting"),
            withdrawals::returned_cents.eq(0_i64),
            withdrawals::submitted_at.eq(AT_MICROS),
            withdrawals::created_at.eq(AT_MICROS),
            withdrawals::updated_at.eq(AT_MICROS),
            withdrawals::follow_up_at.eq(DUE_MICROS),
            withdrawals::follow_up_attempts.eq(0_i64),
        ))
        .execute(conn)
        .await?;
    diesel::insert_into(postings::table)
        .values((
            postings::integrator_id.eq(owner),
            postings::entry.eq(entries),
            postings::debit.eq("available"),
            postings::credit.eq("held"),
            postings::amount_cents.eq(payout.amount_cents),
            postings::reason.eq("withdrawal_hold"),
            postings::resource_kind.eq("withdrawal"),
            postings::resource_id.eq(withdrawal),
            postings::available_after_cents.eq(available),
            postings::held_after_cents.eq(held),
            postings::created_at.eq(AT_MICROS),
        ))
        .execute(conn)
        .await?;
    Hold { owner, available, held, entries }.execute(conn).await?;
    diesel::insert_into(events::table)
        .values((
            events::integrator_id.eq(owner),
            events::resource_kind.eq("withdrawal"),
            events::resource_id.eq(withdrawal),
            events::sequence.eq(1_i64),
            events::kind.eq("withdrawal.created"),
            events::created_at.eq(AT_MICROS),
            events::transition_id.eq(withdrawal),
        ))
        .execute(conn)
        .await?;
    Ok(())
}
