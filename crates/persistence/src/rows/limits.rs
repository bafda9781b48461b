//! Rows of limits, and the two questions of what counts against them: one text for both databases.

use diesel::backend::Backend;
use diesel::prelude::{Insertable, Queryable, Selectable};
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::serialize::ToSql;
use diesel::sql_types::{BigInt, HasSqlType, Text};
use pix_domain::error::StoreError;
use pix_domain::ids::IntegratorId;
use pix_domain::limits::{Limit, LimitKind, LimitPolicy, Most, Raise, Sent, SentTo, Windows};
use pix_domain::party::PixKey;
use pix_domain::time::Timestamp;

use crate::codec::{self, DbId, DbTime, Id, Instant};
use crate::schema::limits;

/// At least as many rows as a version has.
pub const MOST_LIMITS: i64 = 32;

/// One limit of one version, as it is kept.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = limits, treat_none_as_default_value = false)]
pub struct LimitRow {
    pub integrator_id: DbId,
    pub version: i64,
    pub kind: String,
    pub most: Option<i64>,
    pub then_most: Option<i64>,
    pub then_at: Option<DbTime>,
    pub created_at: DbTime,
}

impl LimitRow {
    /// The rows of `policy` under the number `version`.
    pub fn of(integrator_id: DbId, version: i64, policy: &LimitPolicy, at: Timestamp) -> Vec<Self> {
        let row = |kind: LimitKind| {
            let limit = policy.limit(kind);
            Self {
                integrator_id,
                version,
                kind: kind.as_str().to_owned(),
                most: limit.most.map(Most::get),
                then_most: limit.then.and_then(|then| then.to).map(Most::get),
                then_at: limit.then.map(|then| DbTime(then.at)),
                created_at: DbTime(at),
            }
        };
        LimitKind::ALL.into_iter().map(row).collect()
    }

    /// The policy that rows, newest version first, say is in force.
    pub fn policy(rows: Vec<Self>) -> Result<LimitPolicy, StoreError> {
        let Some(newest) = rows.first().map(|row| row.version) else { return Ok(LimitPolicy::off()) };
        let newer = rows.into_iter().filter(|row| row.version == newest);
        let limits = newer.map(Self::limit).collect::<Result<Vec<_>, _>>()?;
        Ok(LimitPolicy::new(codec::number("limits.version", newest)?, limits))
    }

    fn limit(self) -> Result<(LimitKind, Limit), StoreError> {
        let kind = codec::named("limits.kind", &self.kind, LimitKind::from_name)?;
        let most = |column, value: Option<i64>| {
            let most = value.map(|value| Most::new(kind, value)).transpose();
            most.map_err(|_out_of_range| codec::damaged(column, "a limit"))
        };
        let (holds, then) = (most("limits.most", self.most)?, most("limits.then_most", self.then_most)?);
        Ok((kind, Limit { most: holds, then: self.then_at.map(|at| Raise { to: then, at: at.0 }) }))
    }
}

/// What counts: accepted, and not definitely undone. `amount_cents > 0` is what the indexes say.
const COUNTED: &str =
    " AND amount_cents > 0 AND (settled_late OR (state <> 'failed' AND state <> 'canceled'))";

/// What was sent within windows.
#[derive(Debug, Clone, Copy)]
pub struct AskSent {
    owner: DbId,
    from: DbTime,
    day: DbTime,
    night: DbTime,
    late_night: DbTime,
    hour: DbTime,
}

impl AskSent {
    /// By one integrator.
    pub fn new(integrator_id: IntegratorId, windows: &Windows) -> Self {
        // Outside a night, none of it counts.
        let never = Timestamp::from_micros(i64::MAX);
        Self {
            owner: integrator_id.into(),
            from: DbTime(windows.from),
            day: DbTime(windows.day),
            night: DbTime(windows.night.unwrap_or(never)),
            late_night: DbTime(windows.late_night.unwrap_or(never)),
            hour: DbTime(windows.hour),
        }
    }
}

/// What [`AskSent`] returns.
pub const fn sent((day, night, late_night, hour): (i64, i64, i64, i64)) -> Sent {
    Sent { day, night, late_night, hour }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what is bound outlives the call")]
fn walk_sum<'b, DB>(out: &mut AstPass<'_, 'b, DB>, comparison: &str, from: &'b DbTime) -> QueryResult<()>
where
    DB: Backend + HasSqlType<Instant>,
    DbTime: ToSql<Instant, DB>,
{
    // A sum of bigint is numeric in PostgreSQL.
    out.push_sql("CAST(coalesce(sum(amount_cents) FILTER (WHERE created_at ");
    out.push_sql(comparison);
    out.push_bind_param::<Instant, _>(from)?;
    out.push_sql("), 0) AS bigint)");
    Ok(())
}

impl<DB> QueryFragment<DB> for AskSent
where
    DB: Backend + HasSqlType<Id> + HasSqlType<Instant>,
    DbId: ToSql<Id, DB>,
    DbTime: ToSql<Instant, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        out.push_sql("SELECT ");
        for from in [&self.day, &self.night, &self.late_night] {
            walk_sum(&mut out, ">= ", from)?;
            out.push_sql(", ");
        }
        out.push_sql("count(*) FILTER (WHERE created_at > ");
        out.push_bind_param::<Instant, _>(&self.hour)?;
        out.push_sql(") FROM withdrawals WHERE integrator_id = ");
        out.push_bind_param::<Id, _>(&self.owner)?;
        out.push_sql(" AND created_at >= ");
        out.push_bind_param::<Instant, _>(&self.from)?;
        out.push_sql(COUNTED);
        Ok(())
    }
}

impl QueryId for AskSent {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

impl Query for AskSent {
    type SqlType = (BigInt, BigInt, BigInt, BigInt);
}

impl<Conn> diesel::RunQueryDsl<Conn> for AskSent {}

/// What was sent to one key.
#[derive(Debug, Clone)]
pub struct AskSentTo {
    owner: DbId,
    key_type: &'static str,
    key: String,
    from: DbTime,
    day: DbTime,
    new_payee: DbTime,
}

impl AskSentTo {
    /// By one integrator.
    pub fn new(integrator_id: IntegratorId, windows: &Windows, key: &PixKey) -> Self {
        Self {
            owner: integrator_id.into(),
            key_type: key.kind().as_str(),
            key: key.as_str().to_owned(),
            from: DbTime(windows.day.min(windows.new_payee)),
            day: DbTime(windows.day),
            new_payee: DbTime(windows.new_payee),
        }
    }

    fn walk_payee<'b, DB>(&'b self, out: &mut AstPass<'_, 'b, DB>) -> QueryResult<()>
    where
        DB: Backend + HasSqlType<Id> + HasSqlType<Text>,
        DbId: ToSql<Id, DB>,
        String: ToSql<Text, DB>,
        str: ToSql<Text, DB>,
    {
        out.push_sql(" FROM withdrawals WHERE integrator_id = ");
        out.push_bind_param::<Id, _>(&self.owner)?;
        // A locked one goes by what stands for its key, of each person that the key was of.
        out.push_sql(" AND payee_key IN (SELECT ");
        out.push_bind_param::<Text, _>(&self.key)?;
        out.push_sql(" UNION ALL SELECT CAST(pseudonym AS text) FROM payee_keys WHERE integrator_id = ");
        out.push_bind_param::<Id, _>(&self.owner)?;
        out.push_sql(" AND payee_key = ");
        out.push_bind_param::<Text, _>(&self.key)?;
        out.push_sql(") AND payee_key_type = ");
        out.push_bind_param::<Text, _>(self.key_type)?;
        out.push_sql(" AND created_at ");
        Ok(())
    }
}

/// What [`AskSentTo`] returns.
pub const fn sent_to((day, lately, earlier): (i64, i64, i64)) -> SentTo {
    SentTo { day, lately, is_known: earlier > 0 }
}

impl<DB> QueryFragment<DB> for AskSentTo
where
    DB: Backend + HasSqlType<Id> + HasSqlType<Instant> + HasSqlType<Text>,
    DbId: ToSql<Id, DB>,
    DbTime: ToSql<Instant, DB>,
    String: ToSql<Text, DB>,
    str: ToSql<Text, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        out.push_sql("SELECT ");
        walk_sum(&mut out, ">= ", &self.day)?;
        out.push_sql(", ");
        walk_sum(&mut out, "> ", &self.new_payee)?;
        out.push_sql(", (SELECT count(*) FROM (SELECT 1");
        self.walk_payee(&mut out)?;
        out.push_sql("<= ");
        out.push_bind_param::<Instant, _>(&self.new_payee)?;
        out.push_sql(COUNTED);
        out.push_sql(" LIMIT 1) earlier)");
        self.walk_payee(&mut out)?;
        out.push_sql(">= ");
        out.push_bind_param::<Instant, _>(&self.from)?;
        out.push_sql(COUNTED);
        Ok(())
    }
}

impl QueryId for AskSentTo {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

impl Query for AskSentTo {
    type SqlType = (BigInt, BigInt, BigInt);
}

impl<Conn> diesel::RunQueryDsl<Conn> for AskSentTo {}
