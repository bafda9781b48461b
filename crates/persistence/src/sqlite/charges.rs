//! Reads of charges.

use async_trait::async_trait;
use diesel::prelude::{
    BoolExpressionMethods, ExpressionMethods, OptionalExtension, QueryDsl, RunQueryDsl, SelectableHelper,
};
use diesel::sqlite::SqliteConnection;
use pix_domain::charges::store::ChargeStore;
use pix_domain::charges::{Charge, Receipt};
use pix_domain::end_to_end::EndToEndId;
use pix_domain::error::StoreError;
use pix_domain::ids::{ChargeId, IntegratorId};
use pix_domain::list::ListQuery;
use pix_domain::text::ExternalId;

use super::SqliteStore;
use super::error::Of;
use super::page::page;
use super::people::{opened, opened_one};
use crate::codec::DbId;
use crate::rows::{ChargeRow, ReceiptRow};
use crate::schema::{charges, receipts};

#[async_trait]
impl ChargeStore for SqliteStore {
    async fn find(&self, integrator_id: IntegratorId, id: ChargeId) -> Result<Option<Charge>, StoreError> {
        self.read(move |conn| find(conn, integrator_id.into(), DbId(id.0))).await
    }

    async fn find_by_external_id(
        &self,
        integrator_id: IntegratorId,
        external_id: &ExternalId,
    ) -> Result<Option<Charge>, StoreError> {
        let (owner, name) = (DbId::from(integrator_id), external_id.clone());
        self.read(move |conn| {
            let named = charges::integrator_id.eq(owner).and(charges::external_id.eq(name.as_str()));
            let row = charges::table.filter(named).select(ChargeRow::as_select()).get_result(conn).optional();
            opened_one(conn, row.of("charges")?)
        })
        .await
    }

    async fn find_by_pix_id(
        &self,
        integrator_id: IntegratorId,
        pix_id: &str,
    ) -> Result<Option<Charge>, StoreError> {
        let (owner, pix_id) = (DbId::from(integrator_id), pix_id.to_owned());
        self.read(move |conn| find_by_pix_id(conn, owner, &pix_id)).await
    }

    async fn list(&self, integrator_id: IntegratorId, query: &ListQuery) -> Result<Vec<Charge>, StoreError> {
        let (owner, query) = (DbId::from(integrator_id), query.clone());
        self.read(move |conn| {
            let rows: Vec<ChargeRow> = page!(charges, ChargeRow, owner, query, conn);
            opened(conn, rows)
        })
        .await
    }

    async fn receipts(&self, integrator_id: IntegratorId, id: ChargeId) -> Result<Vec<Receipt>, StoreError> {
        let (owner, id) = (DbId::from(integrator_id), DbId(id.0));
        self.read(move |conn| {
            let of_charge = receipts::integrator_id.eq(owner).and(receipts::charge_id.eq(id));
            let rows: Vec<ReceiptRow> = receipts::table
                .filter(of_charge)
                .order(receipts::number.asc())
                .select(ReceiptRow::as_select())
                .load(conn)
                .of("receipts")?;
            opened(conn, rows)
        })
        .await
    }
}

fn find(conn: &mut SqliteConnection, owner: DbId, id: DbId) -> Result<Option<Charge>, StoreError> {
    let row = charges::table.find((owner, id)).select(ChargeRow::as_select()).get_result(conn).optional();
    opened_one(conn, row.of("charges")?)
}

fn find_by_pix_id(
    conn: &mut SqliteConnection,
    owner: DbId,
    pix_id: &str,
) -> Result<Option<Charge>, StoreError> {
    let made: Option<ChargeRow> = charges::table
        .filter(charges::integrator_id.eq(owner).and(charges::provider_id.eq(pix_id)))
        .order(charges::id.asc())
        .select(ChargeRow::as_select())
        .get_result(conn)
        .optional()
        .of("charges")?;
    if made.is_some() {
        return opened_one(conn, made);
    }
    // Receipts are kept by other texts too; only an end-to-end id is looked for.
    if EndToEndId::parse(pix_id).is_err() {
        return Ok(None);
    }
    let received: Option<DbId> = receipts::table
        .find((owner, pix_id))
        .select(receipts::charge_id)
        .get_result(conn)
        .optional()
        .of("receipts")?;
    received.map_or(Ok(None), |id| find(conn, owner, id))
}
