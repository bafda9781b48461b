//! What holds of the whole deployment.

use diesel::prelude::{ExpressionMethods, OptionalExtension, QueryDsl, RunQueryDsl};
use pix_domain::error::StoreError;

use super::SqliteStore;
use super::error::{Of, Problem};
use crate::schema::facts;

impl SqliteStore {
    /// The fact with that name, if it was ever kept.
    pub async fn fact(&self, name: &str) -> Result<Option<String>, StoreError> {
        let name = name.to_owned();
        self.read(move |conn| {
            let found = facts::table.find(&name).select(facts::value).get_result(conn);
            Ok(found.optional().of("facts")?)
        })
        .await
    }

    /// Keeps a fact in place of the one with the same name.
    pub async fn keep_fact(&self, name: &str, value: String) -> Result<(), StoreError> {
        let name = name.to_owned();
        self.write(move |conn| -> Result<(), Problem<StoreError>> {
            let row = (facts::name.eq(&name), facts::value.eq(value));
            diesel::replace_into(facts::table).values(row).execute(conn).of("facts")?;
            Ok(())
        })
        .await
    }

    /// Keeps a fact unless there is one with that name; the one that there is then.
    pub async fn settle_fact(&self, name: &str, value: String) -> Result<String, StoreError> {
        let name = name.to_owned();
        self.write(move |conn| -> Result<String, Problem<StoreError>> {
            let row = (facts::name.eq(&name), facts::value.eq(value));
            diesel::insert_or_ignore_into(facts::table).values(row).execute(conn).of("facts")?;
            Ok(facts::table.find(&name).select(facts::value).get_result(conn).of("facts")?)
        })
        .await
    }

    /// Keeps a fact in place of `from`, `None` for no fact; `false`, with nothing changed, when it isn't that any more.
    pub async fn swap_fact(&self, name: &str, from: Option<String>, to: String) -> Result<bool, StoreError> {
        let name = name.to_owned();
        self.write(move |conn| -> Result<bool, Problem<StoreError>> {
            let row = (facts::name.eq(&name), facts::value.eq(&to));
            let changed = match from {
                Some(from) => diesel::update(facts::table.find(&name))
                    .filter(facts::value.eq(from))
                    .set(facts::value.eq(&to))
                    .execute(conn),
                None => diesel::insert_or_ignore_into(facts::table).values(row).execute(conn),
            };
            Ok(changed.of("facts")? > 0)
        })
        .await
    }
}
