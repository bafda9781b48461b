//! What holds of the whole deployment.

use diesel::prelude::{ExpressionMethods, QueryDsl};
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;
use pix_domain::error::StoreError;

use super::PgStore;
use super::ask::Ask;
use super::error::{DbError, Of};
use crate::schema::facts;

impl PgStore {
    /// The fact with that name, if it was ever kept.
    pub async fn fact(&self, name: &str) -> Result<Option<String>, StoreError> {
        let mut conn = self.reads().await?;
        let found = facts::table.find(name).select(facts::value).limit(1).found(&mut conn).await;
        Ok(found.of("facts")?)
    }

    /// Keeps a fact in place of the one with the same name.
    pub async fn keep_fact(&self, name: &str, value: String) -> Result<(), StoreError> {
        let mut conn = self.writes().await?;
        let kept = diesel::insert_into(facts::table)
            .values((facts::name.eq(name), facts::value.eq(value)))
            .on_conflict(facts::name)
            .do_update()
            .set(facts::value.eq(excluded(facts::value)))
            .execute(&mut conn)
            .await;
        kept.of("facts").map_err(DbError::of_write)?;
        Ok(())
    }

    /// Keeps a fact unless there is one with that name; the one that there is then.
    pub async fn settle_fact(&self, name: &str, value: String) -> Result<String, StoreError> {
        let mut conn = self.writes().await?;
        let kept = diesel::insert_into(facts::table)
            .values((facts::name.eq(name), facts::value.eq(value)))
            .on_conflict_do_nothing()
            .execute(&mut conn)
            .await;
        kept.of("facts").map_err(DbError::of_write)?;
        Ok(facts::table.find(name).select(facts::value).limit(1).row(&mut conn).await.of("facts")?)
    }

    /// Keeps a fact in place of `from`, `None` for no fact; `false`, with nothing changed, when it isn't that any more.
    pub async fn swap_fact(&self, name: &str, from: Option<String>, to: String) -> Result<bool, StoreError> {
        let mut conn = self.writes().await?;
        let changed = match from {
            Some(from) => {
                diesel::update(facts::table.find(name))
                    .filter(facts::value.eq(from))
                    .set(facts::value.eq(to))
                    .execute(&mut conn)
                    .await
            }
            None => {
                diesel::insert_into(facts::table)
                    .values((facts::name.eq(name), facts::value.eq(to)))
                    .on_conflict(facts::name)
                    .do_nothing()
                    .execute(&mut conn)
                    .await
            }
        };
        Ok(changed.of("facts").map_err(DbError::of_write)? > 0)
    }
}
