//! The statements over deliveries. They know that table, its attempts and the endpoints.

use diesel::expression::{AppearsOnTable, Expression, SelectableExpression, ValidGrouping, is_aggregate};
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Bool, Nullable, Text};
use pix_domain::postbacks::delivery::{DeliveryReport, Endpoint, MAX_COUNTED, OffReason, Turn};
use pix_domain::postbacks::events::EventKey;
use pix_domain::time::Timestamp;
use uuid::Uuid;

use crate::codec::{DbId, DbTime, Id, Instant};
use crate::rows::{AttemptRow, EndpointRow, key_of, state_of_standing};

macro_rules! statement {
    ($name:ident => $kind:ty) => {
        impl QueryId for $name {
            type QueryId = Self;

            const HAS_STATIC_QUERY_ID: bool = true;
        }

        impl Query for $name {
            type SqlType = $kind;
        }

        impl<Conn> diesel::query_dsl::RunQueryDsl<Conn> for $name {}
    };
}

/// Takes up what is due, lane by lane, in one statement.
///
/// Lanes are found by skipping through their index, one look each, so that a lane with a million waiting costs as much as
/// one with a single one. A row that somebody else is taking is passed over. One whose predecessor waits is put off to
/// when that is due, or this lease ends; its predecessor's end makes it due.
pub struct Take {
    after: DbId,
    now: DbTime,
    until: DbTime,
    lanes: i64,
    per_lane: i64,
    except: Vec<DbId>,
}

impl Take {
    /// For this turn.
    pub fn new(turn: &Turn) -> Self {
        Self {
            after: DbId(turn.after.map_or_else(Uuid::nil, |lane| lane.0)),
            now: DbTime(turn.now),
            until: DbTime(turn.now.plus(turn.lease)),
            lanes: turn.lanes.into(),
            per_lane: turn.per_lane.into(),
            except: turn.except.iter().map(|lane| DbId(lane.0)).collect(),
        }
    }
}

/// What taking returns: the last lane, when there may be a further one; and of every delivery its owner, kind, id,
/// sequence, lane, attempts and claims, or nothing at all when nothing was taken.
pub type TakenRow = (
    Option<DbId>,
    Option<DbId>,
    Option<String>,
    Option<DbId>,
    Option<i64>,
    Option<DbId>,
    Option<i64>,
    Option<i64>,
);

impl QueryFragment<Pg> for Take {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql(
            "WITH RECURSIVE lanes(lane, n) AS ((SELECT lane, 1::bigint FROM deliveries WHERE due_at IS NOT NULL \
             AND lane > ",
        );
        out.push_bind_param::<Id, _>(&self.after)?;
        out.push_sql(
            " ORDER BY lane LIMIT 1) UNION ALL SELECT (SELECT d.lane FROM deliveries d WHERE d.due_at IS NOT NULL \
             AND d.lane > l.lane ORDER BY d.lane LIMIT 1), l.n + 1 FROM lanes l WHERE l.lane IS NOT NULL AND l.n < ",
        );
        out.push_bind_param::<BigInt, _>(&self.lanes)?;
        out.push_sql(
            "), due AS MATERIALIZED (SELECT d.* FROM lanes l CROSS JOIN LATERAL (SELECT integrator_id, resource_kind, \
             resource_id, sequence FROM deliveries WHERE lane = l.lane AND due_at <= ",
        );
        out.push_bind_param::<Instant, _>(&self.now)?;
        out.push_sql(" ORDER BY due_at LIMIT ");
        out.push_bind_param::<BigInt, _>(&self.per_lane)?;
        out.push_sql(" FOR NO KEY UPDATE SKIP LOCKED) d WHERE l.lane IS NOT NULL AND l.lane <> ALL (");
        out.push_bind_param::<Array<Id>, _>(&self.except)?;
        out.push_sql(
            ")), waited AS MATERIALIZED (SELECT d.*, (SELECT max(e.due_at) FROM deliveries e \
             WHERE e.integrator_id = d.integrator_id AND e.resource_kind = d.resource_kind \
             AND e.resource_id = d.resource_id AND e.sequence < d.sequence AND e.due_at IS NOT NULL) AS before \
             FROM due d), put_off AS (UPDATE deliveries kept SET due_at = greatest(w.before, ",
        );
        out.push_bind_param::<Instant, _>(&self.until)?;
        out.push_sql(
            "), claims = least(kept.claims + (w.before IS NULL)::int, 4294967295) FROM waited w \
             WHERE kept.integrator_id = w.integrator_id AND kept.resource_kind = w.resource_kind \
             AND kept.resource_id = w.resource_id AND kept.sequence = w.sequence \
             RETURNING kept.integrator_id, kept.resource_kind, kept.resource_id, kept.sequence, kept.lane, \
             kept.attempts, kept.claims, w.before), \
             last AS (SELECT (SELECT lane FROM lanes WHERE n = ",
        );
        out.push_bind_param::<BigInt, _>(&self.lanes)?;
        out.push_sql(
            ") AS lane) SELECT last.lane, p.integrator_id, p.resource_kind, p.resource_id, p.sequence, p.lane, \
             p.attempts, p.claims FROM last LEFT JOIN put_off p ON p.before IS NULL",
        );
        Ok(())
    }
}

statement!(Take => (
    Nullable<Id>,
    Nullable<Id>,
    Nullable<Text>,
    Nullable<Id>,
    Nullable<BigInt>,
    Nullable<Id>,
    Nullable<BigInt>,
    Nullable<BigInt>,
));

/// Says what came of deliveries, and keeps the attempts, in one statement. Returns how many were still this worker's.
#[derive(Default)]
pub struct Tell {
    now: Option<DbTime>,
    owner: Vec<DbId>,
    kind: Vec<String>,
    id: Vec<DbId>,
    sequence: Vec<i64>,
    until: Vec<DbTime>,
    claims: Vec<i64>,
    state: Vec<&'static str>,
    reason: Vec<Option<&'static str>>,
    due_at: Vec<Option<DbTime>>,
    attempts: Vec<i64>,
    tried_owner: Vec<DbId>,
    tried_kind: Vec<String>,
    tried_resource: Vec<DbId>,
    tried_sequence: Vec<i64>,
    tried_id: Vec<DbId>,
    tried_at: Vec<DbTime>,
    took_ms: Vec<i64>,
    status: Vec<Option<i64>>,
    outcome: Vec<String>,
    excerpt: Vec<String>,
}

impl Tell {
    /// Of these reports, at `now`.
    pub fn new(reports: Vec<DeliveryReport>, now: DbTime) -> Self {
        let mut tell = Self { now: Some(now), ..Self::default() };
        for DeliveryReport { claimed, attempt, standing, .. } in reports {
            let (owner, kind, id, sequence) = key_of(claimed.key);
            let (state, reason, due_at) = state_of_standing(standing);
            tell.owner.push(owner);
            tell.kind.push(kind);
            tell.id.push(id);
            tell.sequence.push(sequence);
            tell.until.push(DbTime(claimed.until));
            tell.claims.push(claimed.claims.into());
            tell.state.push(state);
            tell.reason.push(reason);
            tell.due_at.push(due_at);
            tell.attempts.push(claimed.attempts.saturating_add(u32::from(attempt.is_some())).into());
            if let Some(attempt) = attempt {
                let row = AttemptRow::new(claimed.key, attempt);
                tell.tried_owner.push(row.integrator_id);
                tell.tried_kind.push(row.resource_kind);
                tell.tried_resource.push(row.resource_id);
                tell.tried_sequence.push(row.sequence);
                tell.tried_id.push(row.id);
                tell.tried_at.push(row.created_at);
                tell.took_ms.push(row.took_ms);
                tell.status.push(row.status);
                tell.outcome.push(row.outcome);
                tell.excerpt.push(row.excerpt);
            }
        }
        tell
    }
}

impl QueryFragment<Pg> for Tell {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql(
            "WITH r(owner, kind, id, sequence, until, claims, state, reason, due_at, attempts) AS MATERIALIZED \
             (SELECT unnest(",
        );
        out.push_bind_param::<Array<Id>, _>(&self.owner)?;
        out.push_sql("), unnest(");
        out.push_bind_param::<Array<Text>, _>(&self.kind)?;
        out.push_sql("), unnest(");
        out.push_bind_param::<Array<Id>, _>(&self.id)?;
        out.push_sql("), unnest(");
        out.push_bind_param::<Array<BigInt>, _>(&self.sequence)?;
        out.push_sql("), unnest(");
        out.push_bind_param::<Array<Instant>, _>(&self.until)?;
        out.push_sql("), unnest(");
        out.push_bind_param::<Array<BigInt>, _>(&self.claims)?;
        out.push_sql("), unnest(");
        out.push_bind_param::<Array<Text>, _>(&self.state)?;
        out.push_sql("), unnest(");
        out.push_bind_param::<Array<Nullable<Text>>, _>(&self.reason)?;
        out.push_sql("), unnest(");
        out.push_bind_param::<Array<Nullable<Instant>>, _>(&self.due_at)?;
        out.push_sql("), unnest(");
        out.push_bind_param::<Array<BigInt>, _>(&self.attempts)?;
        out.push_sql(
            ")), t(owner, kind, resource_id, sequence, id, created_at, took_ms, status, outcome, excerpt) AS MATERIALIZED \
             (SELECT unnest(",
        );
        out.push_bind_param::<Array<Id>, _>(&self.tried_owner)?;
        out.push_sql("), unnest(");
        out.push_bind_param::<Array<Text>, _>(&self.tried_kind)?;
        out.push_sql("), unnest(");
        out.push_bind_param::<Array<Id>, _>(&self.tried_resource)?;
        out.push_sql("), unnest(");
        out.push_bind_param::<Array<BigInt>, _>(&self.tried_sequence)?;
        out.push_sql("), unnest(");
        out.push_bind_param::<Array<Id>, _>(&self.tried_id)?;
        out.push_sql("), unnest(");
        out.push_bind_param::<Array<Instant>, _>(&self.tried_at)?;
        out.push_sql("), unnest(");
        out.push_bind_param::<Array<BigInt>, _>(&self.took_ms)?;
        out.push_sql("), unnest(");
        out.push_bind_param::<Array<Nullable<BigInt>>, _>(&self.status)?;
        out.push_sql("), unnest(");
        out.push_bind_param::<Array<Text>, _>(&self.outcome)?;
        out.push_sql("), unnest(");
        out.push_bind_param::<Array<Text>, _>(&self.excerpt)?;
        out.push_sql(
            ")), told AS (UPDATE deliveries kept SET state = r.state, reason = r.reason, due_at = r.due_at, \
             attempts = r.attempts FROM r WHERE kept.integrator_id = r.owner AND kept.resource_kind = r.kind \
             AND kept.resource_id = r.id AND kept.sequence = r.sequence AND kept.due_at = r.until \
             AND kept.claims = r.claims RETURNING kept.integrator_id, kept.resource_kind, kept.resource_id, \
             kept.sequence, kept.due_at), \
             _next AS (UPDATE deliveries kept SET due_at = ",
        );
        out.push_bind_param::<Nullable<Instant>, _>(&self.now)?;
        out.push_sql(
            " FROM told WHERE told.due_at IS NULL AND kept.integrator_id = told.integrator_id \
             AND kept.resource_kind = told.resource_kind AND kept.resource_id = told.resource_id \
             AND kept.sequence > told.sequence AND kept.due_at IS NOT NULL AND kept.attempts = 0), \
             _tried AS (INSERT INTO delivery_attempts (integrator_id, resource_kind, resource_id, sequence, id, \
             created_at, took_ms, status, outcome, excerpt) SELECT t.* FROM t WHERE (SELECT true FROM deliveries d \
             WHERE d.integrator_id = t.owner AND d.resource_kind = t.kind AND d.resource_id = t.resource_id \
             AND d.sequence = t.sequence) ON CONFLICT DO NOTHING) SELECT count(*) FROM told",
        );
        Ok(())
    }
}

statement!(Tell => BigInt);

/// Says that an endpoint fails: as [`Endpoint::anew`] when it isn't known to, as [`Endpoint::after`] when it is.
pub struct Fails {
    anew: EndpointRow,
    next: EndpointRow,
    /// It is switched off if what is kept has failed since then.
    since: DbTime,
}

impl Fails {
    /// The statement for that failure.
    pub fn new(endpoint: Endpoint) -> Self {
        let is_gone = matches!(endpoint.off, Some((_, OffReason::Gone)));
        let since = if is_gone { Timestamp::from_micros(i64::MAX) } else { endpoint.failing_since };
        Self { anew: endpoint.clone().anew().into(), next: endpoint.into(), since: DbTime(since) }
    }
}

impl QueryFragment<Pg> for Fails {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let row = &self.anew;
        out.push_sql(
            "INSERT INTO endpoints (integrator_id, id, address, failing_since, failed_at, failure, off_at, off_reason) \
             VALUES (",
        );
        out.push_bind_param::<Id, _>(&row.integrator_id)?;
        out.push_sql(", ");
        out.push_bind_param::<Id, _>(&row.id)?;
        out.push_sql(", ");
        out.push_bind_param::<Text, _>(&row.address)?;
        out.push_sql(", ");
        out.push_bind_param::<Instant, _>(&row.failing_since)?;
        out.push_sql(", ");
        out.push_bind_param::<Instant, _>(&row.failed_at)?;
        out.push_sql(", ");
        out.push_bind_param::<Text, _>(&row.failure)?;
        out.push_sql(", ");
        out.push_bind_param::<Nullable<Instant>, _>(&row.off_at)?;
        out.push_sql(", ");
        out.push_bind_param::<Nullable<Text>, _>(&row.off_reason)?;
        out.push_sql(
            ") ON CONFLICT (integrator_id, id) DO UPDATE SET address = excluded.address, \
             failed_at = excluded.failed_at, failure = excluded.failure, \
             off_at = coalesce(endpoints.off_at, CASE WHEN endpoints.failing_since <= ",
        );
        out.push_bind_param::<Instant, _>(&self.since)?;
        out.push_sql(" THEN ");
        out.push_bind_param::<Nullable<Instant>, _>(&self.next.off_at)?;
        out.push_sql(
            " END), off_reason = coalesce(endpoints.off_reason, CASE WHEN endpoints.failing_since <= ",
        );
        out.push_bind_param::<Instant, _>(&self.since)?;
        out.push_sql(" THEN ");
        out.push_bind_param::<Nullable<Text>, _>(&self.next.off_reason)?;
        out.push_sql(" END)");
        Ok(())
    }
}

impl QueryId for Fails {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

impl<Conn> diesel::query_dsl::RunQueryDsl<Conn> for Fails {}

/// Removes deliveries that don't wait, the oldest first, with their attempts.
pub struct Forget {
    /// Of events before this time.
    pub before: DbTime,
    /// How many at the most.
    pub limit: i64,
}

impl QueryFragment<Pg> for Forget {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql(
            "WITH old AS MATERIALIZED (SELECT integrator_id, resource_kind, resource_id, sequence FROM deliveries \
             WHERE due_at IS NULL AND created_at < ",
        );
        out.push_bind_param::<Instant, _>(&self.before)?;
        out.push_sql(" ORDER BY created_at LIMIT ");
        out.push_bind_param::<BigInt, _>(&self.limit)?;
        out.push_sql(
            " FOR UPDATE SKIP LOCKED), _tried AS (DELETE FROM delivery_attempts a USING old \
             WHERE a.integrator_id = old.integrator_id AND a.resource_kind = old.resource_kind \
             AND a.resource_id = old.resource_id AND a.sequence = old.sequence) \
             DELETE FROM deliveries d USING old WHERE d.integrator_id = old.integrator_id \
             AND d.resource_kind = old.resource_kind AND d.resource_id = old.resource_id AND d.sequence = old.sequence",
        );
        Ok(())
    }
}

impl QueryId for Forget {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

impl<Conn> diesel::query_dsl::RunQueryDsl<Conn> for Forget {}

/// Counts what waits and what was given up, no further than [`MAX_COUNTED`].
pub struct Count {
    limit: i64,
}

impl Count {
    /// The statement.
    pub fn new() -> Self {
        Self { limit: MAX_COUNTED.into() }
    }
}

/// How many wait, how many were given up, how many endpoints are off, and of when the oldest that waits is.
pub type Counted = (i64, i64, i64, Option<DbTime>);

impl QueryFragment<Pg> for Count {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("WITH waiting AS (SELECT created_at FROM deliveries WHERE due_at IS NOT NULL LIMIT ");
        out.push_bind_param::<BigInt, _>(&self.limit)?;
        out.push_sql("), dead AS (SELECT 1 FROM deliveries WHERE state = 'dead' LIMIT ");
        out.push_bind_param::<BigInt, _>(&self.limit)?;
        out.push_sql(
            ") SELECT count(*), (SELECT count(*) FROM dead), \
             (SELECT count(*) FROM endpoints WHERE off_at IS NOT NULL), min(created_at) FROM waiting",
        );
        Ok(())
    }
}

statement!(Count => (BigInt, BigInt, BigInt, Nullable<Instant>));

/// Whether a row is among those that keys name: `(columns) IN (keys)`.
#[derive(Debug, Clone)]
pub struct Among {
    columns: &'static str,
    owners: Vec<DbId>,
    ids: Vec<DbId>,
    events: Option<(Vec<&'static str>, Vec<i64>)>,
}

impl Among {
    /// Rows of `table` about events. `columns` are its integrator, resource, kind and sequence.
    pub fn events(columns: &'static str, keys: &[EventKey]) -> Self {
        let owners = keys.iter().map(|key| key.resource.integrator_id.into()).collect();
        let ids = keys.iter().map(|key| DbId(key.resource.id)).collect();
        let kinds = keys.iter().map(|key| key.resource.kind.as_str()).collect();
        let sequences = keys.iter().map(|key| i64::from(key.sequence.0)).collect();
        Self { columns, owners, ids, events: Some((kinds, sequences)) }
    }

    /// Records. `columns` are the integrator and the id.
    pub const fn records(columns: &'static str, owners: Vec<DbId>, ids: Vec<DbId>) -> Self {
        Self { columns, owners, ids, events: None }
    }
}

impl QueryFragment<Pg> for Among {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("(");
        out.push_sql(self.columns);
        out.push_sql(") IN (SELECT unnest(");
        out.push_bind_param::<Array<Id>, _>(&self.owners)?;
        out.push_sql("), unnest(");
        out.push_bind_param::<Array<Id>, _>(&self.ids)?;
        if let Some((kinds, sequences)) = &self.events {
            out.push_sql("), unnest(");
            out.push_bind_param::<Array<Text>, _>(kinds)?;
            out.push_sql("), unnest(");
            out.push_bind_param::<Array<BigInt>, _>(sequences)?;
        }
        out.push_sql("))");
        Ok(())
    }
}

impl QueryId for Among {
    type QueryId = ();

    // Its text depends on its columns; a statement is kept by its text.
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Expression for Among {
    type SqlType = Bool;
}

impl<Source> AppearsOnTable<Source> for Among {}

impl<Source> SelectableExpression<Source> for Among {}

impl ValidGrouping<()> for Among {
    type IsAggregate = is_aggregate::No;
}
