//! Public events, their deliveries, and the numbers of secrets.

use async_trait::async_trait;
use diesel::dsl::exists;
use diesel::prelude::{
    BoolExpressionMethods, ExpressionMethods, OptionalExtension, QueryDsl, RunQueryDsl, SelectableHelper,
};
use diesel::sqlite::SqliteConnection;
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, ResourceKind};
use pix_domain::postbacks::delivery::{
    Attempt, Backlog, ClaimedDelivery, DeliveryReport, DeliveryStore, Endpoint, EndpointId, EndpointNews,
    Lane, MAX_COUNTED, MAX_LISTED_ATTEMPTS, ReplayQuery, Standing, Taken, Turn,
};
use pix_domain::postbacks::events::{EventKey, EventQuery, EventStore, ListedEvent, StoredEvent};
use pix_domain::postbacks::secrets::{PostbackSecretStore, SecretVersion};
use pix_domain::time::Timestamp;
use pix_domain::transition::{EventKind, Record};

use super::SqliteStore;
use super::error::{DbError, Of, Problem};
use super::people::opened_one;
use super::update::update;
use crate::codec::{self, DbId, DbTime};
use crate::rows::{
    AttemptRow, ChargeRow, DeliveryRow, EndpointRow, RefundRow, SecretRow, SplitRow, ToldRow, WithdrawalRow,
    key_of, standing_of, state_of_standing,
};
use crate::schema::{
    charges, deliveries, delivery_attempts, endpoints, events, integrators, postback_secrets, refunds,
    splits, withdrawals,
};

type Written<T> = Result<T, Problem<StoreError>>;
type Read<T> = Result<T, StoreError>;

/// The rows of `$table` about the event `$key`.
macro_rules! about {
    ($table:ident, $key:expr) => {{
        let (owner, kind, id, sequence) = key_of($key);
        $table::integrator_id
            .eq(owner)
            .and($table::resource_kind.eq(kind))
            .and($table::resource_id.eq(id))
            .and($table::sequence.eq(sequence))
    }};
}

#[async_trait]
impl EventStore for SqliteStore {
    async fn events(
        &self,
        integrator_id: IntegratorId,
        query: EventQuery,
    ) -> Result<Vec<ListedEvent>, StoreError> {
        self.read(move |conn| {
            let after = codec::after(query.after);
            let own = events::integrator_id.eq(DbId::from(integrator_id)).and(events::number.gt(after));
            let mut rows = events::table.filter(own).select(ToldRow::as_select()).into_boxed();
            if !query.kinds.is_empty() {
                rows = rows.filter(events::kind.eq_any(query.kinds.iter().map(|kind| kind.as_str())));
            }
            if let Some(id) = query.resource_id {
                rows = rows.filter(events::resource_id.eq(DbId(id)));
            }
            if let Some(delivered) = query.delivered {
                let same = deliveries::integrator_id
                    .eq(events::integrator_id)
                    .and(deliveries::resource_kind.eq(events::resource_kind))
                    .and(deliveries::resource_id.eq(events::resource_id))
                    .and(deliveries::sequence.eq(events::sequence));
                let done = deliveries::state.eq("delivered").eq(delivered);
                rows = rows.filter(exists(deliveries::table.filter(same.and(done))));
            }
            let rows = rows.order(events::number.asc()).limit(query.limit.into()).load(conn).of("events")?;
            rows.into_iter().map(|row| listed(conn, row)).filter_map(Result::transpose).collect()
        })
        .await
    }

    async fn event(&self, key: EventKey) -> Result<Option<ListedEvent>, StoreError> {
        self.read(move |conn| event(conn, key)).await
    }
}

fn event(conn: &mut SqliteConnection, key: EventKey) -> Read<Option<ListedEvent>> {
    let told = events::table.filter(about!(events, key).and(events::number.is_not_null()));
    let row = told.select(ToldRow::as_select()).get_result(conn).optional().of("events")?;
    row.map_or(Ok(None), |row| listed(conn, row))
}

/// An event with its record and how its delivery stands.
fn listed(conn: &mut SqliteConnection, row: ToldRow) -> Read<Option<ListedEvent>> {
    let (owner, id) = (row.integrator_id, row.resource_id);
    let event = StoredEvent::try_from(row)?;
    let record = match event.key.resource.kind {
        ResourceKind::Charge => {
            let found = charges::table.find((owner, id)).select(ChargeRow::as_select()).get_result(conn);
            let row = found.optional().of("charges")?;
            opened_one(conn, row)?.map(|charge| Record::Charge(Box::new(charge)))
        }
        ResourceKind::Withdrawal => {
            let found =
                withdrawals::table.find((owner, id)).select(WithdrawalRow::as_select()).get_result(conn);
            let row = found.optional().of("withdrawals")?;
            opened_one(conn, row)?.map(|one| Record::Withdrawal(Box::new(one)))
        }
        ResourceKind::Refund => {
            let found = refunds::table.find((owner, id)).select(RefundRow::as_select()).get_result(conn);
            let row = found.optional().of("refunds")?;
            row.map(|row| row.try_into().map(|refund| Record::Refund(Box::new(refund)))).transpose()?
        }
        ResourceKind::Split => {
            let found = splits::table.find((owner, id)).select(SplitRow::as_select()).get_result(conn);
            let row = found.optional().of("splits")?;
            row.map(|row| row.try_into().map(|split| Record::Split(Box::new(split)))).transpose()?
        }
    };
    let Some(record) = record else { return Ok(None) };
    let delivery = deliveries::table
        .filter(about!(deliveries, event.key))
        .select((deliveries::state, deliveries::reason, deliveries::due_at, deliveries::attempts))
        .get_result::<(String, Option<String>, Option<DbTime>, i64)>(conn)
        .optional()
        .of("deliveries")?;
    let delivery = delivery
        .map(|(state, reason, due_at, attempts)| standing_of(&state, reason.as_deref(), due_at, attempts));
    Ok(Some(ListedEvent { event, record, delivery: delivery.transpose()? }))
}

#[async_trait]
impl DeliveryStore for SqliteStore {
    async fn take(&self, turn: Turn) -> Result<Taken, StoreError> {
        // Nothing is written while nothing is due: whoever looks every second is in nobody's way.
        let (after, now) = (turn.after, turn.now);
        let waits = move |conn: &mut SqliteConnection| -> Read<bool> {
            let later = after.map_or_else(uuid::Uuid::nil, |lane| lane.0);
            let due = deliveries::lane.gt(DbId(later)).and(deliveries::due_at.le(DbTime(now)));
            Ok(diesel::select(exists(deliveries::table.filter(due))).get_result(conn).of("deliveries")?)
        };
        if !self.read(waits).await? {
            return Ok(Taken::default());
        }
        self.write(move |conn| take(conn, &turn)).await
    }

    async fn load(&self, keys: Vec<EventKey>) -> Result<Vec<ListedEvent>, StoreError> {
        self.read(move |conn| {
            keys.into_iter().map(|key| event(conn, key)).filter_map(Result::transpose).collect()
        })
        .await
    }

    async fn endpoints_of(&self, ids: Vec<EndpointId>) -> Result<Vec<Endpoint>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        self.read(move |conn| {
            let ids = ids.into_iter().map(|id| DbId(id.0));
            let found = endpoints::table.filter(endpoints::id.eq_any(ids)).select(EndpointRow::as_select());
            let rows: Vec<EndpointRow> = found.load(conn).of("endpoints")?;
            rows.into_iter().map(Endpoint::try_from).collect()
        })
        .await
    }

    async fn tell(&self, reports: Vec<DeliveryReport>, now: Timestamp) -> Result<u64, StoreError> {
        if reports.is_empty() {
            return Ok(0);
        }
        self.write(move |conn| {
            let mut changed = 0_u64;
            for report in reports {
                changed = changed.saturating_add(u64::from(tell(conn, report, now)?));
            }
            Ok(changed)
        })
        .await
    }

    async fn attempts(&self, key: EventKey) -> Result<Vec<Attempt>, StoreError> {
        self.read(move |conn| {
            let mut rows: Vec<AttemptRow> = delivery_attempts::table
                .filter(about!(delivery_attempts, key))
                .order((delivery_attempts::created_at.desc(), delivery_attempts::id.desc()))
                .limit(MAX_LISTED_ATTEMPTS.into())
                .select(AttemptRow::as_select())
                .load(conn)
                .of("delivery_attempts")?;
            rows.reverse();
            rows.into_iter().map(Attempt::try_from).collect()
        })
        .await
    }

    async fn redeliver(&self, key: EventKey, lane: Lane, now: Timestamp) -> Result<bool, StoreError> {
        self.write(move |conn| {
            let told = events::table.filter(about!(events, key).and(events::number.is_not_null()));
            let at: Option<DbTime> =
                told.select(events::created_at).get_result(conn).optional().of("events")?;
            let Some(at) = at else { return Ok(false) };
            if !due_again(conn, key, now)? {
                let row = DeliveryRow::new(key, DbId(lane.0), at.0, now);
                diesel::insert_into(deliveries::table).values(&row).execute(conn).of("deliveries")?;
            }
            Ok(true)
        })
        .await
    }

    async fn replay(
        &self,
        integrator_id: IntegratorId,
        query: ReplayQuery,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.write(move |conn| {
            let keys = replayed(conn, integrator_id, &query)?;
            for key in &keys {
                due_again(conn, *key, now)?;
            }
            Ok(u64::try_from(keys.len()).unwrap_or(u64::MAX))
        })
        .await
    }

    async fn endpoints(&self, integrator_id: IntegratorId) -> Result<Vec<Endpoint>, StoreError> {
        self.read(move |conn| {
            let rows: Vec<EndpointRow> = endpoints::table
                .filter(endpoints::integrator_id.eq(DbId::from(integrator_id)))
                .order(endpoints::id.asc())
                .select(EndpointRow::as_select())
                .load(conn)
                .of("endpoints")?;
            rows.into_iter().map(Endpoint::try_from).collect()
        })
        .await
    }

    async fn forget_endpoint(&self, integrator_id: IntegratorId, id: EndpointId) -> Result<bool, StoreError> {
        self.write(move |conn| {
            let own = endpoints::table.find((DbId::from(integrator_id), DbId(id.0)));
            Ok(diesel::delete(own).execute(conn).of("endpoints")? > 0)
        })
        .await
    }

    async fn forget(&self, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
        self.write(move |conn| forget(conn, before, limit)).await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        self.read(|conn| {
            let waiting = deliveries::table
                .filter(deliveries::due_at.is_not_null())
                .select(deliveries::created_at)
                .limit(MAX_COUNTED.into());
            let waiting: Vec<DbTime> = waiting.load(conn).of("deliveries")?;
            let dead = deliveries::table
                .filter(deliveries::state.eq("dead"))
                .select(deliveries::sequence)
                .limit(MAX_COUNTED.into());
            let dead: Vec<i64> = dead.load(conn).of("deliveries")?;
            let off = endpoints::table.filter(endpoints::off_at.is_not_null()).count();
            let off: i64 = off.get_result(conn).of("endpoints")?;
            Ok(Backlog {
                waiting: u64::try_from(waiting.len()).unwrap_or(u64::MAX),
                dead: u64::try_from(dead.len()).unwrap_or(u64::MAX),
                endpoints_off: codec::quantity("endpoints.count", off)?,
                oldest_at: waiting.into_iter().min().map(|at| at.0),
            })
        })
        .await
    }
}

fn take(conn: &mut SqliteConnection, turn: &Turn) -> Written<Taken> {
    let mut taken = Taken::default();
    let mut after = turn.after.map_or_else(|| DbId(uuid::Uuid::nil()), |lane| DbId(lane.0));
    for _ in 0..turn.lanes {
        let waiting =
            deliveries::table.filter(deliveries::due_at.is_not_null().and(deliveries::lane.gt(after)));
        let next = waiting.order(deliveries::lane.asc()).select(deliveries::lane).first(conn);
        let next: Option<DbId> = next.optional().of("deliveries")?;
        let Some(lane) = next else { return Ok(Taken { last: None, ..taken }) };
        after = lane;
        taken.last = Some(Lane(lane.0));
        if !turn.except.contains(&Lane(lane.0)) {
            take_of(conn, turn, lane, &mut taken)?;
        }
    }
    Ok(taken)
}

/// Takes what is due of one lane.
fn take_of(conn: &mut SqliteConnection, turn: &Turn, lane: DbId, taken: &mut Taken) -> Written<()> {
    let due: Vec<DeliveryRow> = deliveries::table
        .filter(deliveries::lane.eq(lane).and(deliveries::due_at.le(DbTime(turn.now))))
        .order((deliveries::due_at.asc(), deliveries::resource_id.asc(), deliveries::sequence.asc()))
        .limit(turn.per_lane.into())
        .select(DeliveryRow::as_select())
        .load(conn)
        .of("deliveries")?;
    let until = turn.now.plus(turn.lease);
    for row in due {
        let key = key_in(&row)?;
        let (owner, kind, id, sequence) = key_of(key);
        let earlier = deliveries::integrator_id
            .eq(owner)
            .and(deliveries::resource_kind.eq(kind))
            .and(deliveries::resource_id.eq(id))
            .and(deliveries::sequence.lt(sequence));
        let earlier: Option<Option<DbTime>> = deliveries::table
            .filter(earlier.and(deliveries::due_at.is_not_null()))
            .order(deliveries::due_at.desc())
            .select(deliveries::due_at)
            .first(conn)
            .optional()
            .of("deliveries")?;
        let claims = codec::number("deliveries.claims", row.claims)?;
        if let Some(earlier) = earlier.flatten() {
            // It waits at least as long as the one before it, whose end makes it due.
            let due_at = deliveries::due_at.eq(Some(DbTime(earlier.0.max(until))));
            update(deliveries::table, due_at, about!(deliveries, key)).execute(conn).of("deliveries")?;
            continue;
        }
        let claims = claims.saturating_add(1);
        let values = (deliveries::due_at.eq(Some(DbTime(until))), deliveries::claims.eq(i64::from(claims)));
        update(deliveries::table, values, about!(deliveries, key)).execute(conn).of("deliveries")?;
        let attempts = codec::number("deliveries.attempts", row.attempts)?;
        taken.deliveries.push(ClaimedDelivery { key, lane: Lane(row.lane.0), attempts, claims, until });
    }
    Ok(())
}

fn key_in(row: &DeliveryRow) -> Read<EventKey> {
    let resource =
        codec::resource("deliveries.resource_kind", row.integrator_id, &row.resource_kind, row.resource_id)?;
    let sequence = codec::number("deliveries.sequence", row.sequence)?;
    Ok(EventKey { resource, sequence: pix_domain::ids::Version(sequence) })
}

/// Says what came of one delivery; whether it changed where that stands.
fn tell(conn: &mut SqliteConnection, report: DeliveryReport, now: Timestamp) -> Written<bool> {
    let DeliveryReport { claimed, attempt, standing, endpoint } = report;
    match endpoint {
        EndpointNews::Nothing => {}
        EndpointNews::Works(id) => {
            let owner = DbId::from(claimed.key.resource.integrator_id);
            let works = endpoints::table.find((owner, DbId(id.0))).filter(endpoints::off_at.is_null());
            diesel::delete(works).execute(conn).of("endpoints")?;
        }
        EndpointNews::Fails(endpoint) => endpoint_fails(conn, *endpoint)?,
    }
    let tried = u32::from(attempt.is_some());
    if let Some(attempt) = attempt {
        let known: bool = diesel::select(exists(deliveries::table.filter(about!(deliveries, claimed.key))))
            .get_result(conn)
            .of("deliveries")?;
        if known {
            let row = AttemptRow::new(claimed.key, attempt);
            let kept = diesel::insert_into(delivery_attempts::table)
                .values(&row)
                .on_conflict_do_nothing()
                .execute(conn);
            kept.of("delivery_attempts")?;
        }
    }
    let same = about!(deliveries, claimed.key)
        .and(deliveries::due_at.eq(Some(DbTime(claimed.until))))
        .and(deliveries::claims.eq(i64::from(claimed.claims)));
    let (state, reason, due_at) = state_of_standing(standing);
    let values = (
        deliveries::state.eq(state),
        deliveries::reason.eq(reason),
        deliveries::due_at.eq(due_at),
        deliveries::attempts.eq(i64::from(claimed.attempts.saturating_add(tried))),
    );
    if update(deliveries::table, values, same).execute(conn).of("deliveries")? == 0 {
        return Ok(false);
    }
    if !matches!(standing, Standing::Waiting(_)) {
        let (owner, kind, id, sequence) = key_of(claimed.key);
        let next = deliveries::integrator_id
            .eq(owner)
            .and(deliveries::resource_kind.eq(kind))
            .and(deliveries::resource_id.eq(id))
            .and(deliveries::sequence.gt(sequence))
            .and(deliveries::due_at.is_not_null())
            .and(deliveries::attempts.eq(0));
        let due = deliveries::due_at.eq(Some(DbTime(now)));
        update(deliveries::table, due, next).execute(conn).of("deliveries")?;
    }
    Ok(true)
}

fn endpoint_fails(conn: &mut SqliteConnection, endpoint: Endpoint) -> Written<()> {
    let key = (DbId::from(endpoint.integrator_id), DbId(endpoint.id.0));
    let found = endpoints::table.find(key).select(EndpointRow::as_select());
    let kept: Option<EndpointRow> = found.get_result(conn).optional().of("endpoints")?;
    let endpoint = match kept.map(Endpoint::try_from).transpose()? {
        Some(kept) => endpoint.after(&kept),
        None => endpoint.anew(),
    };
    diesel::replace_into(endpoints::table)
        .values(EndpointRow::from(endpoint))
        .execute(conn)
        .of("endpoints")?;
    Ok(())
}

/// Makes a delivery wait again; whether there is one.
fn due_again(conn: &mut SqliteConnection, key: EventKey, now: Timestamp) -> Written<bool> {
    // Whoever has it now has lost it: the count of claims goes up.
    let values = (
        deliveries::state.eq("waiting"),
        deliveries::reason.eq(None::<&str>),
        deliveries::due_at.eq(Some(DbTime(now))),
        deliveries::attempts.eq(0_i64),
        deliveries::claims.eq(deliveries::claims + 1),
    );
    Ok(update(deliveries::table, values, about!(deliveries, key)).execute(conn).of("deliveries")? > 0)
}

/// What a replay names, lowest number first.
fn replayed(conn: &mut SqliteConnection, owner: IntegratorId, query: &ReplayQuery) -> Written<Vec<EventKey>> {
    let same = deliveries::integrator_id
        .eq(events::integrator_id)
        .and(deliveries::resource_kind.eq(events::resource_kind))
        .and(deliveries::resource_id.eq(events::resource_id))
        .and(deliveries::sequence.eq(events::sequence));
    let states = if query.delivered { vec!["dead", "delivered"] } else { vec!["dead"] };
    let again = exists(deliveries::table.filter(same.and(deliveries::state.eq_any(states))));
    let own = events::integrator_id.eq(DbId::from(owner)).and(events::number.is_not_null());
    let mut rows = events::table.filter(own.and(again)).select(ToldRow::as_select()).into_boxed();
    if let Some(since) = query.since {
        rows = rows.filter(events::created_at.ge(DbTime(since)));
    }
    if let Some(until) = query.until {
        rows = rows.filter(events::created_at.lt(DbTime(until)));
    }
    if !query.kinds.is_empty() {
        rows = rows.filter(events::kind.eq_any(query.kinds.iter().map(|kind: &EventKind| kind.as_str())));
    }
    let rows = rows.order(events::number.asc()).limit(query.limit.into());
    let rows: Vec<ToldRow> = rows.load(conn).of("events")?;
    rows.into_iter().map(|row| Ok(StoredEvent::try_from(row)?.key)).collect()
}

/// Removes the oldest that don't wait, with their attempts.
fn forget(conn: &mut SqliteConnection, before: Timestamp, limit: u32) -> Written<u64> {
    let rows: Vec<DeliveryRow> = deliveries::table
        .filter(deliveries::due_at.is_null().and(deliveries::created_at.lt(DbTime(before))))
        .order(deliveries::created_at.asc())
        .limit(limit.into())
        .select(DeliveryRow::as_select())
        .load(conn)
        .of("deliveries")?;
    let mut gone = 0_u64;
    for row in rows {
        let key = key_in(&row)?;
        let attempts = delivery_attempts::table.filter(about!(delivery_attempts, key));
        diesel::delete(attempts).execute(conn).of("delivery_attempts")?;
        let own = deliveries::table.filter(about!(deliveries, key));
        diesel::delete(own).execute(conn).of("deliveries")?;
        gone = gone.saturating_add(1);
    }
    Ok(gone)
}

#[async_trait]
impl PostbackSecretStore for SqliteStore {
    async fn list(&self, integrator_id: IntegratorId) -> Result<Vec<SecretVersion>, StoreError> {
        self.read(move |conn| {
            let rows: Vec<SecretRow> = postback_secrets::table
                .filter(postback_secrets::integrator_id.eq(DbId::from(integrator_id)))
                .order(postback_secrets::number.asc())
                .select(SecretRow::as_select())
                .load(conn)
                .of("postback_secrets")?;
            rows.into_iter().map(SecretVersion::try_from).collect()
        })
        .await
    }

    async fn add(&self, version: SecretVersion) -> Result<bool, StoreError> {
        self.write(move |conn| {
            let owner = DbId::from(version.integrator_id);
            let known: bool =
                diesel::select(exists(integrators::table.find(owner))).get_result(conn).of("integrators")?;
            if !known {
                return Err(StoreError::Rejected("no such integrator".to_owned()).into());
            }
            let row = SecretRow::from(version);
            let kept = diesel::insert_into(postback_secrets::table).values(&row).execute(conn);
            match kept.of("postback_secrets") {
                Err(DbError::Taken(_)) => Ok(false),
                kept => Ok(kept? > 0),
            }
        })
        .await
    }

    async fn retire(
        &self,
        integrator_id: IntegratorId,
        number: u32,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        self.write(move |conn| {
            let same = postback_secrets::integrator_id
                .eq(DbId::from(integrator_id))
                .and(postback_secrets::number.eq(i64::from(number)));
            let ends = postback_secrets::retired_at.eq(Some(DbTime(at)));
            Ok(update(postback_secrets::table, ends, same).execute(conn).of("postback_secrets")? > 0)
        })
        .await
    }
}
