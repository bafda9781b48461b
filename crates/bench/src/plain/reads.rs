//! What is only read: one query by key each, of the columns that are shown.

use diesel::OptionalExtension;
use diesel::prelude::QueryDsl;
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::pg::wallets;
use super::{DbId, Plain, PlainError};

diesel::table! {
    use diesel::sql_types::{BigInt, Nullable, Text};
    use crate::plain::Id;
    #[sql_name = "charges"]
    shown (integrator_id, id) {
        integrator_id -> Id,
        id -> Id,
        external_id -> Text,
        state -> Text,
        amount_cents -> BigInt,
        qrcode -> Nullable<Text>,
    }
}

/// What is shown of a charge: its name, its state, its amount in centavos, and its QR code.
pub type ShownCharge = (String, String, i64, Option<String>);

impl Plain {
    /// A charge.
    #[expect(clippy::disallowed_methods, reason = "a read, which no later one relies on")]
    pub async fn consult(&self, integrator_id: Uuid, id: Uuid) -> Result<ShownCharge, PlainError> {
        let mut conn = self.conn().await?;
        let charge = shown::table
            .find((DbId(integrator_id), DbId(id)))
            .select((shown::external_id, shown::state, shown::amount_cents, shown::qrcode))
            .first(&mut conn)
            .await;
        charge.optional()?.ok_or(PlainError::NotFound)
    }

    /// What is free and what is held in a wallet, in centavos.
    #[expect(clippy::disallowed_methods, reason = "a read, which no later one relies on")]
    pub async fn balance(&self, integrator_id: Uuid) -> Result<(i64, i64), PlainError> {
        let mut conn = self.conn().await?;
        let wallet = wallets::table
            .find(DbId(integrator_id))
            .select((wallets::available_cents, wallets::held_cents))
            .first(&mut conn)
            .await;
        wallet.optional()?.ok_or(PlainError::NotFound)
    }
}
