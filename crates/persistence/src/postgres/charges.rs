//! Reads of charges.

use async_trait::async_trait;
use diesel::prelude::{BoolExpressionMethods, ExpressionMethods, QueryDsl};
use diesel_async::AsyncPgConnection;
use pix_domain::charges::store::ChargeStore;
use pix_domain::charges::{Charge, Receipt};
use pix_domain::end_to_end::EndToEndId;
use pix_domain::error::StoreError;
use pix_domain::ids::{ChargeId, IntegratorId};
use pix_domain::list::ListQuery;
use pix_domain::text::ExternalId;

use super::PgStore;
use super::ask::Ask;
use super::by_key::ChargesNamed;
use super::error::Of;
use super::lookups::find;
use super::page::page;
use super::people::{opened, opened_one};
use super::types::can_be_kept;
use super::written::columns_of;
use crate::codec::DbId;
use crate::rows::{ChargeRow, ReceiptRow};
use crate::schema::{charges, receipts};

#[async_trait]
impl ChargeStore for PgStore {
    async fn find(&self, integrator_id: IntegratorId, id: ChargeId) -> Result<Option<Charge>, StoreError> {
        let (owner, id) = (DbId::from(integrator_id), DbId(id.0));
        if let Some(shares) = &self.shares {
            return shares.charges.ask((owner, id)).await;
        }
        let mut conn = self.reads().await?;
        find::<ChargeRow>(&mut conn, (owner, id)).await
    }

    async fn find_by_external_id(
        &self,
        integrator_id: IntegratorId,
        external_id: &ExternalId,
    ) -> Result<Option<Charge>, StoreError> {
        let name = (integrator_id.into(), external_id.as_str().to_owned());
        // A name is there once, and stays.
        match self.by_key::<ChargesNamed>(|shares| &shares.charges_named, name).await? {
            Some(id) => ChargeStore::find(self, integrator_id, ChargeId(id.0)).await,
            None => Ok(None),
        }
    }

    async fn find_by_pix_id(
        &self,
        integrator_id: IntegratorId,
        pix_id: &str,
    ) -> Result<Option<Charge>, StoreError> {
        if !can_be_kept(pix_id) {
            return Ok(None);
        }
        let mut conn = self.reads().await?;
        find_by_pix_id(&mut conn, integrator_id.into(), pix_id).await
    }

    async fn list(&self, integrator_id: IntegratorId, query: &ListQuery) -> Result<Vec<Charge>, StoreError> {
        let mut conn = self.reads().await?;
        let rows: Vec<Box<ChargeRow>> =
            page!(charges, ChargeRow, DbId::from(integrator_id), query, &mut conn);
        opened(&mut conn, rows).await
    }

    async fn receipts(&self, integrator_id: IntegratorId, id: ChargeId) -> Result<Vec<Receipt>, StoreError> {
        let mut conn = self.reads().await?;
        let of_owner = receipts::integrator_id.eq(DbId::from(integrator_id));
        let rows: Vec<Box<ReceiptRow>> = receipts::table
            .filter(of_owner.and(receipts::charge_id.eq(DbId(id.0))))
            .order(receipts::number.asc())
            .select(columns_of::<ReceiptRow>())
            .rows(&mut conn)
            .await
            .of("receipts")?;
        opened(&mut conn, rows).await
    }
}

async fn find_by_pix_id(
    conn: &mut AsyncPgConnection,
    owner: DbId,
    pix_id: &str,
) -> Result<Option<Charge>, StoreError> {
    let made: Option<Box<ChargeRow>> = charges::table
        .filter(charges::integrator_id.eq(owner).and(charges::provider_id.eq(pix_id)))
        .order(charges::id.asc())
        .select(columns_of::<ChargeRow>())
        .limit(1)
        .found(conn)
        .await
        .of("charges")?;
    if made.is_some() {
        return opened_one(conn, made).await;
    }
    // Receipts are kept by other texts too; only an end-to-end id is looked for.
    if EndToEndId::parse(pix_id).is_err() {
        return Ok(None);
    }
    let received: Option<DbId> = receipts::table
        .find((owner, pix_id))
        .select(receipts::charge_id)
        .limit(1)
        .found(conn)
        .await
        .of("receipts")?;
    match received {
        Some(id) => find::<ChargeRow>(conn, (owner, id)).await,
        None => Ok(None),
    }
}
