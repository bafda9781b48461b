//! Making a charge: begin, insert the charge, insert when it is due, insert the event, commit.

use diesel::prelude::ExpressionMethods;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use uuid::Uuid;

use super::pg::{charge_follow_ups, events, orders};
use super::{DbId, Plain, PlainError};
use crate::ops::{AT_MICROS, DUE_MICROS, PAYER_DOCUMENT, PAYER_NAME, expires_micros};

/// A charge to be made, with what the provider answered.
#[derive(Debug, Clone)]
pub struct Order {
    /// Whose.
    pub integrator_id: Uuid,
    /// Its id.
    pub id: Uuid,
    /// What the integrator calls it.
    pub external_id: String,
    /// How much, in centavos.
    pub amount_cents: i64,
    /// What the provider calls it.
    pub provider_id: String,
    /// Its QR code.
    pub qrcode: String,
}

impl Plain {
    /// Makes a charge.
    pub async fn create(&self, order: &Order) -> Result<(), PlainError> {
        let mut conn = self.conn().await?;
        conn.transaction::<(), PlainError, _>(async |conn| create(conn, order).await).await
    }
}

async fn create(conn: &mut AsyncPgConnection, order: &Order) -> Result<(), PlainError> {
    let (owner, charge) = (DbId(order.integrator_id), DbId(order.id));
    diesel::insert_into(orders::table)
        .values((
            orders::integrator_id.eq(owner),
            orders::id.eq(charge),
            orders::version.eq(1_i64),
            orders::external_id.eq(&order.external_id),
            orders::external_id_given.eq(true),
            orders::amount_cents.eq(order.amount_cents),
            orders::payer_name.eq(PAYER_NAME),
            orders::payer_document.eq(PAYER_DOCUMENT),
            orders::fee_version.eq(0_i64),
            orders::state.eq("pending"),
            orders::provider_id.eq(&order.provider_id),
            orders::qrcode.eq(&order.qrcode),
            orders::provider_body.eq("{}"),
            orders::amount_paid_cents.eq(0_i64),
            orders::refund_reserved_cents.eq(0_i64),
            orders::refunded_cents.eq(0_i64),
            orders::expires_at.eq(expires_micros()),
            orders::created_at.eq(AT_MICROS),
            orders::updated_at.eq(AT_MICROS),
            orders::follow_up_attempts.eq(0_i64),
        ))
        .execute(conn)
        .await?;
    diesel::insert_into(charge_follow_ups::table)
        .values((
            charge_follow_ups::integrator_id.eq(owner),
            charge_follow_ups::id.eq(charge),
            charge_follow_ups::due_at.eq(DUE_MICROS),
            charge_follow_ups::attempts.eq(0_i64),
        ))
        .execute(conn)
        .await?;
    diesel::insert_into(events::table)
        .values((
            events::integrator_id.eq(owner),
            events::resource_kind.eq("charge"),
            events::resource_id.eq(charge),
            events::sequence.eq(1_i64),
            events::kind.eq("charge.pending"),
            events::created_at.eq(AT_MICROS),
            events::transition_id.eq(charge),
        ))
        .execute(conn)
        .await?;
    Ok(())
}
