//! Public events, their deliveries, and the numbers of secrets. What the relay does goes over the connections of the
//! workers, in statements over arrays.

use std::collections::BTreeMap;

use async_trait::async_trait;
use diesel::dsl::exists;
use diesel::prelude::{
    BoolExpressionMethods, ExpressionMethods, JoinOnDsl, NullableExpressionMethods, QueryDsl,
    SelectableHelper,
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use pix_domain::charges::Charge;
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, ResourceKind, ResourceRef, Version};
use pix_domain::postbacks::delivery::{
    Attempt, Backlog, ClaimedDelivery, DeliveryReport, DeliveryStore, Endpoint, EndpointId, EndpointNews,
    Lane, MAX_LISTED_ATTEMPTS, ReplayQuery, Taken, Turn,
};
use pix_domain::postbacks::events::{EventKey, EventQuery, EventStore, ListedEvent, StoredEvent};
use pix_domain::postbacks::secrets::{PostbackSecretStore, SecretVersion};
use pix_domain::time::Timestamp;
use pix_domain::transition::{EventKind, Record};
use pix_domain::withdrawals::Withdrawal;

use super::PgStore;
use super::ask::Ask;
use super::error::{DbError, Of};
use super::outbox::{Among, Count, Counted, Fails, Forget, Take, TakenRow, Tell};
use super::people::opened;
use crate::codec::{self, DbId, DbTime};
use crate::rows::{
    AttemptRow, ChargeRow, DeliveryRow, EndpointRow, RefundRow, SecretRow, SplitRow, ToldRow, WithdrawalRow,
    key_of, standing_of,
};
use crate::schema::{
    charges, deliveries, delivery_attempts, endpoints, events, postback_secrets, refunds, splits, withdrawals,
};

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

/// Whether a delivery is that of the event beside it.
macro_rules! of_event {
    () => {
        deliveries::integrator_id
            .eq(events::integrator_id)
            .and(deliveries::resource_kind.eq(events::resource_kind))
            .and(deliveries::resource_id.eq(events::resource_id))
            .and(deliveries::sequence.eq(events::sequence))
    };
}

/// How a delivery stands, as it is kept.
type Stands = Option<(String, Option<String>, Option<DbTime>, i64)>;

/// Events with how their deliveries stand.
macro_rules! events_with_deliveries {
    () => {
        events::table.left_join(deliveries::table.on(of_event!())).select((
            ToldRow::as_select(),
            (deliveries::state, deliveries::reason, deliveries::due_at, deliveries::attempts).nullable(),
        ))
    };
}

#[async_trait]
impl EventStore for PgStore {
    async fn events(
        &self,
        integrator_id: IntegratorId,
        query: EventQuery,
    ) -> Result<Vec<ListedEvent>, StoreError> {
        let mut conn = self.reads().await?;
        let after = codec::after(query.after);
        let own = events::integrator_id.eq(DbId::from(integrator_id)).and(events::number.gt(after));
        let mut rows = events_with_deliveries!().filter(own).into_boxed();
        if !query.kinds.is_empty() {
            let kinds: Vec<_> = query.kinds.iter().map(|kind| kind.as_str()).collect();
            rows = rows.filter(events::kind.eq_any(kinds));
        }
        if let Some(id) = query.resource_id {
            rows = rows.filter(events::resource_id.eq(DbId(id)));
        }
        if let Some(delivered) = query.delivered {
            rows = rows.filter(deliveries::state.eq("delivered").eq(delivered));
        }
        let rows = rows.order(events::number.asc()).limit(query.limit.into());
        let rows: Vec<(ToldRow, Stands)> = rows.rows(&mut conn).await.of("events")?;
        listed(&mut conn, rows).await
    }

    async fn event(&self, key: EventKey) -> Result<Option<ListedEvent>, StoreError> {
        let mut conn = self.reads().await?;
        let own = about!(events, key).and(events::number.is_not_null());
        let rows = events_with_deliveries!().filter(own).rows(&mut conn).await.of("events")?;
        Ok(listed(&mut conn, rows).await?.into_iter().next())
    }
}

/// Events with their records, in the order given; without those whose record isn't there.
async fn listed(
    conn: &mut AsyncPgConnection,
    rows: Vec<(ToldRow, Stands)>,
) -> Result<Vec<ListedEvent>, StoreError> {
    let events = rows.into_iter().map(|(row, stands)| {
        let stands = stands.map(|(state, reason, due_at, attempts)| {
            standing_of(&state, reason.as_deref(), due_at, attempts)
        });
        Ok((StoredEvent::try_from(row)?, stands.transpose()?))
    });
    let events = events.collect::<Result<Vec<_>, StoreError>>()?;
    let records = records_of(conn, events.iter().map(|(event, _)| event.key.resource)).await?;
    let listed = events.into_iter().filter_map(|(event, delivery)| {
        let record = records.get(&event.key.resource)?.clone();
        Some(ListedEvent { event, record, delivery })
    });
    Ok(listed.collect())
}

async fn records_of(
    conn: &mut AsyncPgConnection,
    resources: impl Iterator<Item = ResourceRef> + Clone,
) -> Result<BTreeMap<ResourceRef, Record>, StoreError> {
    let mut records = BTreeMap::new();
    macro_rules! read {
        (@Charge $rows:ident) => { opened::<_, Charge>(conn, $rows).await? };
        (@Withdrawal $rows:ident) => { opened::<_, Withdrawal>(conn, $rows).await? };
        (@$kind:ident $rows:ident) => {
            $rows.into_iter().map(TryInto::try_into).collect::<Result<Vec<_>, StoreError>>()?
        };
        ($table:ident, $row:ident, $kind:ident, $columns:literal) => {
            let own = resources.clone().filter(|resource| resource.kind == ResourceKind::$kind);
            let (owners, ids): (Vec<DbId>, Vec<DbId>) =
                own.map(|resource| (DbId::from(resource.integrator_id), DbId(resource.id))).unzip();
            if !ids.is_empty() {
                let among = Among::records($columns, owners, ids);
                let rows = $table::table.filter(among).select($row::as_select()).rows(conn).await;
                let rows: Vec<$row> = rows.of(stringify!($table))?;
                for of_kind in read!(@$kind rows) {
                    let record = Record::$kind(Box::new(of_kind));
                    records.insert(record.resource(), record);
                }
            }
        };
    }
    read!(charges, ChargeRow, Charge, "charges.integrator_id, charges.id");
    read!(withdrawals, WithdrawalRow, Withdrawal, "withdrawals.integrator_id, withdrawals.id");
    read!(refunds, RefundRow, Refund, "refunds.integrator_id, refunds.id");
    read!(splits, SplitRow, Split, "splits.integrator_id, splits.id");
    Ok(records)
}

#[async_trait]
impl DeliveryStore for PgStore {
    async fn take(&self, turn: Turn) -> Result<Taken, StoreError> {
        let until = turn.now.plus(turn.lease);
        let mut conn = self.works().await?;
        let rows = Take::new(&turn).rows(&mut conn).await.of("deliveries");
        let rows: Vec<TakenRow> = self.worked(conn, rows)?;
        let mut taken = Taken::default();
        for (last, owner, kind, id, sequence, lane, attempts, claims) in rows {
            taken.last = last.map(|lane| Lane(lane.0));
            let (Some(owner), Some(kind), Some(id), Some(sequence)) = (owner, kind, id, sequence) else {
                continue;
            };
            let (Some(lane), Some(attempts), Some(claims)) = (lane, attempts, claims) else { continue };
            taken.deliveries.push(ClaimedDelivery {
                key: key_in(owner, &kind, id, sequence)?,
                lane: Lane(lane.0),
                attempts: codec::number("deliveries.attempts", attempts)?,
                claims: codec::number("deliveries.claims", claims)?,
                until,
            });
        }
        Ok(taken)
    }

    async fn load(&self, keys: Vec<EventKey>) -> Result<Vec<ListedEvent>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut conn = self.works().await?;
        let columns = "events.integrator_id, events.resource_id, events.resource_kind, events.sequence";
        let told = Among::events(columns, &keys).and(events::number.is_not_null());
        let rows = events_with_deliveries!().filter(told).rows(&mut conn).await.of("events")?;
        listed(&mut conn, rows).await
    }

    async fn endpoints_of(&self, ids: Vec<EndpointId>) -> Result<Vec<Endpoint>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut conn = self.works().await?;
        let ids: Vec<DbId> = ids.into_iter().map(|id| DbId(id.0)).collect();
        let found = endpoints::table.filter(endpoints::id.eq_any(ids)).select(EndpointRow::as_select());
        let rows: Vec<EndpointRow> = found.rows(&mut conn).await.of("endpoints")?;
        rows.into_iter().map(Endpoint::try_from).collect()
    }

    async fn tell(&self, reports: Vec<DeliveryReport>, now: Timestamp) -> Result<u64, StoreError> {
        if reports.is_empty() {
            return Ok(0);
        }
        let mut conn = self.works().await?;
        // What counts first: an endpoint's news are lost with an error after it, and come again.
        let news = news_of(&reports);
        let told = Tell::new(reports, DbTime(now)).row::<i64>(&mut conn).await.of("deliveries");
        let told = match told {
            Ok(told) => told,
            Err(error) => return self.worked(conn, Err(error)),
        };
        for (owner, news) in news {
            let done = match news {
                EndpointNews::Nothing => continue,
                EndpointNews::Works(id) => {
                    let own = endpoints::table.find((owner, DbId(id.0)));
                    diesel::delete(own.filter(endpoints::off_at.is_null())).execute(&mut conn).await
                }
                EndpointNews::Fails(endpoint) => Fails::new(*endpoint).execute(&mut conn).await,
            };
            done.of("endpoints").map_err(DbError::of_write)?;
        }
        Ok(u64::try_from(told).unwrap_or(0))
    }

    async fn attempts(&self, key: EventKey) -> Result<Vec<Attempt>, StoreError> {
        let mut conn = self.reads().await?;
        let mut rows: Vec<AttemptRow> = delivery_attempts::table
            .filter(about!(delivery_attempts, key))
            .order((delivery_attempts::created_at.desc(), delivery_attempts::id.desc()))
            .limit(MAX_LISTED_ATTEMPTS.into())
            .select(AttemptRow::as_select())
            .rows(&mut conn)
            .await
            .of("delivery_attempts")?;
        rows.reverse();
        rows.into_iter().map(Attempt::try_from).collect()
    }

    async fn redeliver(&self, key: EventKey, lane: Lane, now: Timestamp) -> Result<bool, StoreError> {
        let mut conn = self.works().await?;
        let told = events::table.filter(about!(events, key).and(events::number.is_not_null()));
        let at: Option<DbTime> =
            told.select(events::created_at).limit(1).found(&mut conn).await.of("events")?;
        let Some(at) = at else { return Ok(false) };
        let row = DeliveryRow::new(key, DbId(lane.0), at.0, now);
        let made = diesel::insert_into(deliveries::table)
            .values(&row)
            .on_conflict_do_nothing()
            .execute(&mut conn)
            .await;
        let done = match made.of("deliveries") {
            Ok(0) => due_again(&mut conn, &[key], now).await,
            Ok(made) => Ok(made),
            Err(error) => Err(error),
        };
        self.worked(conn, done).map(|changed| changed > 0)
    }

    async fn replay(
        &self,
        integrator_id: IntegratorId,
        query: ReplayQuery,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut conn = self.works().await?;
        let keys = replayed(&mut conn, integrator_id, query).await?;
        if keys.is_empty() {
            return Ok(0);
        }
        let done = due_again(&mut conn, &keys, now).await;
        self.worked(conn, done).map(|changed| u64::try_from(changed).unwrap_or(u64::MAX))
    }

    async fn endpoints(&self, integrator_id: IntegratorId) -> Result<Vec<Endpoint>, StoreError> {
        let mut conn = self.reads().await?;
        let rows: Vec<EndpointRow> = endpoints::table
            .filter(endpoints::integrator_id.eq(DbId::from(integrator_id)))
            .order(endpoints::id.asc())
            .select(EndpointRow::as_select())
            .rows(&mut conn)
            .await
            .of("endpoints")?;
        rows.into_iter().map(Endpoint::try_from).collect()
    }

    async fn forget_endpoint(&self, integrator_id: IntegratorId, id: EndpointId) -> Result<bool, StoreError> {
        let mut conn = self.works().await?;
        let own = endpoints::table.find((DbId::from(integrator_id), DbId(id.0)));
        let gone = diesel::delete(own).execute(&mut conn).await.of("endpoints");
        self.worked(conn, gone).map(|gone| gone > 0)
    }

    async fn forget(&self, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
        let statement = Forget { before: DbTime(before), limit: limit.into() };
        let mut conn = self.works().await?;
        let gone = statement.execute(&mut conn).await.of("deliveries");
        self.worked(conn, gone).map(|gone| u64::try_from(gone).unwrap_or(u64::MAX))
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let mut conn = self.works().await?;
        let (waiting, dead, off, oldest_at): Counted = Count::new().row(&mut conn).await.of("deliveries")?;
        Ok(Backlog {
            waiting: codec::quantity("deliveries.count", waiting)?,
            dead: codec::quantity("deliveries.count", dead)?,
            endpoints_off: codec::quantity("endpoints.count", off)?,
            oldest_at: oldest_at.map(|at| at.0),
        })
    }
}

fn key_in(owner: DbId, kind: &str, id: DbId, sequence: i64) -> Result<EventKey, StoreError> {
    let resource = codec::resource("deliveries.resource_kind", owner, kind, id)?;
    let sequence = Version(codec::number("deliveries.sequence", sequence)?);
    Ok(EventKey { resource, sequence })
}

/// The news of each endpoint, in the order of their keys, which is that of their locks. Of failures that follow each other
/// the last one, off if one of them was.
fn news_of(reports: &[DeliveryReport]) -> Vec<(DbId, EndpointNews)> {
    let mut all: BTreeMap<_, Vec<EndpointNews>> = BTreeMap::new();
    for report in reports {
        let owner = DbId::from(report.claimed.key.resource.integrator_id);
        let id = match &report.endpoint {
            EndpointNews::Nothing => continue,
            EndpointNews::Works(id) => *id,
            EndpointNews::Fails(endpoint) => endpoint.id,
        };
        let told = all.entry((owner, id)).or_default();
        match (told.last_mut(), &report.endpoint) {
            (Some(EndpointNews::Works(_)), EndpointNews::Works(_)) => {}
            (Some(EndpointNews::Fails(before)), EndpointNews::Fails(next)) => {
                **before = Endpoint { off: before.off.or(next.off), ..Endpoint::clone(next) };
            }
            (_, news) => told.push(news.clone()),
        }
    }
    all.into_iter().flat_map(|((owner, _), told)| told.into_iter().map(move |news| (owner, news))).collect()
}

/// Makes deliveries wait again; how many.
async fn due_again(
    conn: &mut AsyncPgConnection,
    keys: &[EventKey],
    now: Timestamp,
) -> Result<usize, DbError> {
    let columns =
        "deliveries.integrator_id, deliveries.resource_id, deliveries.resource_kind, deliveries.sequence";
    // Whoever has one now has lost it: the count of claims goes up.
    let again = diesel::update(deliveries::table.filter(Among::events(columns, keys))).set((
        deliveries::state.eq("waiting"),
        deliveries::reason.eq(None::<&str>),
        deliveries::due_at.eq(Some(DbTime(now))),
        deliveries::attempts.eq(0_i64),
        deliveries::claims.eq(deliveries::claims + 1_i64),
    ));
    again.execute(conn).await.of("deliveries")
}

/// What a replay names, oldest first.
async fn replayed(
    conn: &mut AsyncPgConnection,
    owner: IntegratorId,
    query: ReplayQuery,
) -> Result<Vec<EventKey>, StoreError> {
    let mut rows = deliveries::table
        .filter(deliveries::integrator_id.eq(DbId::from(owner)))
        .select((deliveries::resource_kind, deliveries::resource_id, deliveries::sequence))
        .into_boxed();
    rows = if query.delivered {
        rows.filter(deliveries::due_at.is_null())
    } else {
        rows.filter(deliveries::state.eq("dead"))
    };
    if let Some(since) = query.since {
        rows = rows.filter(deliveries::created_at.ge(DbTime(since)));
    }
    if let Some(until) = query.until {
        rows = rows.filter(deliveries::created_at.lt(DbTime(until)));
    }
    if !query.kinds.is_empty() {
        let kinds: Vec<_> = query.kinds.iter().map(|kind: &EventKind| kind.as_str()).collect();
        let same = events::table.filter(of_event!().and(events::kind.eq_any(kinds)));
        rows = rows.filter(exists(same));
    }
    let order = (deliveries::created_at.asc(), deliveries::resource_id.asc(), deliveries::sequence.asc());
    let rows = rows.order(order).limit(query.limit.into());
    let rows: Vec<(String, DbId, i64)> = rows.rows(conn).await.of("deliveries")?;
    rows.into_iter().map(|(kind, id, sequence)| key_in(owner.into(), &kind, id, sequence)).collect()
}

#[async_trait]
impl PostbackSecretStore for PgStore {
    async fn list(&self, integrator_id: IntegratorId) -> Result<Vec<SecretVersion>, StoreError> {
        let mut conn = self.reads().await?;
        let rows: Vec<SecretRow> = postback_secrets::table
            .filter(postback_secrets::integrator_id.eq(DbId::from(integrator_id)))
            .order(postback_secrets::number.asc())
            .select(SecretRow::as_select())
            .rows(&mut conn)
            .await
            .of("postback_secrets")?;
        rows.into_iter().map(SecretVersion::try_from).collect()
    }

    async fn add(&self, version: SecretVersion) -> Result<bool, StoreError> {
        let mut conn = self.writes().await?;
        let row = SecretRow::from(version);
        let kept = diesel::insert_into(postback_secrets::table)
            .values(&row)
            .on_conflict_do_nothing()
            .execute(&mut conn)
            .await;
        match kept.of("postback_secrets") {
            Err(DbError::Refused(_)) => Err(StoreError::Rejected("no such integrator".to_owned())),
            kept => Ok(kept.map_err(DbError::of_write)? > 0),
        }
    }

    async fn retire(
        &self,
        integrator_id: IntegratorId,
        number: u32,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut conn = self.writes().await?;
        let own = postback_secrets::table.find((DbId::from(integrator_id), i64::from(number)));
        let ends = postback_secrets::retired_at.eq(Some(DbTime(at)));
        let changed = diesel::update(own).set(ends).execute(&mut conn).await;
        Ok(changed.of("postback_secrets").map_err(DbError::of_write)? > 0)
    }
}
