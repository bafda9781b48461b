//! Personal data under keys, on the connections of the workers; and reading it, on whichever reads the record.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use diesel::dsl::{exists, not};
use diesel::prelude::{
    BoolExpressionMethods, ExpressionMethods, JoinOnDsl, NullableExpressionMethods, QueryDsl,
    SelectableHelper,
};
use diesel::upsert::excluded;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, ResourceKind};
use pix_domain::people::{Erasure, Person, PersonStore, Walk, Walked};
use pix_domain::time::Timestamp;
use uuid::Uuid;

use super::PgStore;
use super::ask::Ask;
use super::due::charge_follow_ups;
use super::error::Of;
use super::settings::GivenUp;
use crate::codec::{DbId, DbTime, lower};
use crate::rows::{
    ChargeRow, LOCKED, Locked, LockedRow, Locking, PayeeKeyRow, PersonRow, Personal, ReceiptRow,
    WithdrawalRow, ends, lockable_charges, lockable_withdrawals, walked,
};
use crate::schema::{
    callbacks, charges, locked_parts, payee_keys, people, receipts, refunds, twins, withdrawals,
};

/// How many records are opened in one query.
const OPENED: usize = 1_000;

/// Rows as records, with what is locked of them in its place. One more query an integrator, when anything is.
pub async fn opened<R, T>(conn: &mut AsyncPgConnection, rows: Vec<R>) -> Result<Vec<T>, StoreError>
where
    R: Personal,
    T: TryFrom<R, Error = StoreError>,
{
    if rows.iter().all(|row| row.locked().is_none()) {
        // There is room for all of them: a collected `Result` can't know how many there will be.
        let mut records = Vec::with_capacity(rows.len());
        for row in rows {
            records.push(T::try_from(row)?);
        }
        return Ok(records);
    }
    opened_each(conn, rows).await?.into_iter().collect()
}

/// The same, where one that can't be read is nothing to the others.
pub async fn opened_each<R, T>(
    conn: &mut AsyncPgConnection,
    rows: Vec<R>,
) -> Result<Vec<Result<T, StoreError>>, StoreError>
where
    R: Personal,
    T: TryFrom<R, Error = StoreError>,
{
    let mut named: BTreeMap<DbId, Vec<DbId>> = BTreeMap::new();
    for (owner, id) in rows.iter().filter_map(Personal::locked) {
        named.entry(owner).or_default().push(id);
    }
    let mut locked = Locked::default();
    // An integrator at a time: the server would look for every id among the records of every integrator.
    let mut chunks: Vec<(DbId, Vec<DbId>)> = Vec::new();
    for (owner, ids) in named {
        chunks.extend(ids.chunks(OPENED).map(|ids| (owner, ids.to_vec())));
    }
    for (owner, ids) in chunks {
        let of_person =
            people::integrator_id.eq(locked_parts::integrator_id).and(people::id.eq(locked_parts::person_id));
        let parts: Vec<(LockedRow, Option<String>)> = locked_parts::table
            .left_join(people::table.on(of_person))
            .filter(locked_parts::integrator_id.eq(owner))
            .filter(locked_parts::resource_id.eq_any(ids))
            .filter(locked_parts::part.eq_any(R::PARTS))
            .select((LockedRow::as_select(), people::key.nullable()))
            .rows(conn)
            .await
            .of("locked_parts")?;
        locked.extend(parts);
    }
    let open = |mut row: R| row.unlock(&locked).and_then(|()| T::try_from(row));
    Ok(rows.into_iter().map(open).collect())
}

/// The same of one.
pub async fn opened_one<R, T>(conn: &mut AsyncPgConnection, row: Option<R>) -> Result<Option<T>, StoreError>
where
    R: Personal,
    T: TryFrom<R, Error = StoreError>,
{
    match row {
        Some(row) if row.locked().is_some() => Ok(opened(conn, vec![row]).await?.pop()),
        row => row.map(T::try_from).transpose(),
    }
}

/// How many rows are kept in one statement: a statement takes so many values at the most.
const ROWS: usize = 1_000;

/// The ids of the next records of a walk.
macro_rules! next_ids {
    ($table:ident, $walk:expr, $conn:expr) => {{
        let walk: Walk = $walk;
        let ids: Vec<DbId> = $table::table
            .filter($table::integrator_id.eq(DbId::from(walk.integrator_id)))
            .filter($table::id.gt(DbId(walk.after.unwrap_or_default())))
            .order($table::id.asc())
            .limit(walk.limit.into())
            .select($table::id)
            .rows($conn)
            .await
            .of(stringify!($table))?;
        ids
    }};
}

/// When the charge of a query is asked about next. Who is, isn't locked.
macro_rules! due {
    () => {
        charge_follow_ups::table.filter(
            charge_follow_ups::integrator_id
                .eq(charges::integrator_id)
                .and(charge_follow_ups::id.eq(charges::id)),
        )
    };
}

/// Those of a kind, an integrator and a range of ids for which a condition holds.
macro_rules! among {
    ($table:ident, $id:ident, $owner:expr, $range:expr, $condition:expr, $conn:expr) => {{
        let (first, last): (DbId, DbId) = $range;
        let ids: Vec<DbId> = $table::table
            .filter($table::integrator_id.eq($owner))
            .filter($table::$id.between(first, last))
            .filter($condition)
            .select($table::$id)
            .rows($conn)
            .await
            .of(stringify!($table))?;
        ids
    }};
}

async fn naming(conn: &mut AsyncPgConnection, walk: Walk, who: &Person) -> Result<Walked, StoreError> {
    let owner = DbId::from(walk.integrator_id);
    let ids = match walk.kind {
        ResourceKind::Charge => next_ids!(charges, walk, conn),
        ResourceKind::Withdrawal => next_ids!(withdrawals, walk, conn),
        ResourceKind::Refund | ResourceKind::Split => Vec::new(),
    };
    let Some(range) = ends(&ids) else { return Ok(Walked::default()) };
    let person: Option<DbId> = people::table
        .filter(people::integrator_id.eq(owner).and(people::subject.eq(who.subject())))
        .select(people::id)
        .limit(1)
        .found(conn)
        .await
        .of("people")?;
    let mut found = BTreeMap::new();
    if let Some(person) = person {
        let of_person = locked_parts::person_id.eq(person);
        let locked = among!(locked_parts, resource_id, owner, range, of_person, conn);
        found.extend(locked.into_iter().map(|id| (id, true)));
    }
    let mut open = Vec::new();
    match (walk.kind, who) {
        (ResourceKind::Charge, Person::Document(document)) => {
            let document = document.as_str();
            let named = charges::payer_document.eq(document).or(charges::paid_by_document.eq(document));
            open.extend(among!(charges, id, owner, range, named.assume_not_null(), conn));
            let named = receipts::payer_document.eq(document);
            open.extend(among!(receipts, charge_id, owner, range, named.assume_not_null(), conn));
        }
        (ResourceKind::Charge, Person::Key(key)) => {
            let named = lower(charges::payer_email.assume_not_null()).eq(key.as_str());
            let named = charges::payer_email.is_not_null().and(charges::payer_document.is_null()).and(named);
            open.extend(among!(charges, id, owner, range, named, conn));
        }
        (ResourceKind::Withdrawal, Person::Document(document)) => {
            let document = document.as_str();
            let named = withdrawals::payee_document.is_not_null();
            let named = named.and(withdrawals::payee_document.assume_not_null().eq(document));
            let by_key = withdrawals::payee_document.is_null().and(withdrawals::payee_key.eq(document));
            open.extend(among!(withdrawals, id, owner, range, named.or(by_key), conn));
        }
        (ResourceKind::Withdrawal, Person::Key(key)) => {
            let of_type = withdrawals::payee_key_type.eq(key.kind().as_str());
            let named = withdrawals::payee_document.is_null().and(withdrawals::payee_key.eq(key.as_str()));
            let named = named.and(of_type);
            open.extend(among!(withdrawals, id, owner, range, named, conn));
        }
        _ => {}
    }
    found.extend(open.into_iter().map(|id| (id, false)));
    Ok(walked(&ids, walk.limit, found))
}

async fn lockable(
    conn: &mut AsyncPgConnection,
    walk: Walk,
    untouched_since: Timestamp,
) -> Result<Walked, StoreError> {
    let owner = DbId::from(walk.integrator_id);
    let ids = match walk.kind {
        ResourceKind::Charge => next_ids!(charges, walk, conn),
        ResourceKind::Withdrawal => next_ids!(withdrawals, walk, conn),
        ResourceKind::Refund | ResourceKind::Split => Vec::new(),
    };
    let Some(range) = ends(&ids) else { return Ok(Walked::default()) };
    let found = if walk.kind == ResourceKind::Charge {
        let open = receipts::payer_document.is_not_null();
        let open = open.and(receipts::payer_document.assume_not_null().ne(LOCKED));
        let received: BTreeSet<DbId> =
            among!(receipts, charge_id, owner, range, open, conn).into_iter().collect();
        let lockable = lockable_charges!(received, untouched_since);
        among!(charges, id, owner, range, lockable.and(not(exists(due!()))), conn)
    } else {
        among!(withdrawals, id, owner, range, lockable_withdrawals!(untouched_since), conn)
    };
    Ok(walked(&ids, walk.limit, found.into_iter().map(|id| (id, false)).collect()))
}

/// The rows of the persons that are needed, made where there are none, and kept until the transaction ends.
async fn people_of(
    conn: &mut AsyncPgConnection,
    owner: DbId,
    locking: &Locking,
) -> Result<Vec<PersonRow>, GivenUp> {
    let subjects: Vec<String> = locking.subjects().into_iter().collect();
    let new = subjects.iter().map(|subject| PersonRow::new(owner, subject.clone()));
    let new = new.collect::<Result<Vec<_>, _>>()?;
    for new in new.chunks(ROWS) {
        diesel::insert_into(people::table)
            .values(new)
            .on_conflict((people::integrator_id, people::subject))
            .do_nothing()
            .execute(conn)
            .await
            .of("people")?;
    }
    let rows = people::table
        .filter(people::integrator_id.eq(owner).and(people::subject.eq_any(subjects)))
        .order(people::subject.asc())
        .select(PersonRow::as_select())
        .for_share();
    Ok(rows.rows(conn).await.of("people")?)
}

async fn payee_keys_of(
    conn: &mut AsyncPgConnection,
    owner: DbId,
    locking: &Locking,
    people: &[PersonRow],
) -> Result<Vec<PayeeKeyRow>, GivenUp> {
    let new = locking.payee_keys(people)?;
    if new.is_empty() {
        return Ok(new);
    }
    for new in new.chunks(ROWS) {
        diesel::insert_into(payee_keys::table)
            .values(new)
            .on_conflict((payee_keys::integrator_id, payee_keys::payee_key, payee_keys::person_id))
            .do_nothing()
            .execute(conn)
            .await
            .of("payee_keys")?;
    }
    let keys: Vec<String> = new.into_iter().map(|row| row.payee_key).collect();
    let rows = payee_keys::table
        .filter(payee_keys::integrator_id.eq(owner).and(payee_keys::payee_key.eq_any(keys)))
        .select(PayeeKeyRow::as_select());
    Ok(rows.rows(conn).await.of("payee_keys")?)
}

async fn lock(
    conn: &mut AsyncPgConnection,
    owner: DbId,
    kind: ResourceKind,
    ids: Vec<DbId>,
    untouched_since: Timestamp,
) -> Result<u64, GivenUp> {
    let mut locking = match kind {
        ResourceKind::Charge => {
            let rows: Vec<ChargeRow> = charges::table
                .filter(charges::integrator_id.eq(owner).and(charges::id.eq_any(&ids)))
                .filter(not(exists(due!())))
                .order(charges::id.asc())
                .select(ChargeRow::as_select())
                .for_update()
                .rows(conn)
                .await
                .of("charges")?;
            let received: Vec<ReceiptRow> = receipts::table
                .filter(receipts::integrator_id.eq(owner).and(receipts::charge_id.eq_any(&ids)))
                .order((receipts::charge_id.asc(), receipts::number.asc()))
                .select(ReceiptRow::as_select())
                .rows(conn)
                .await
                .of("receipts")?;
            Locking::of_charges(rows, received, untouched_since)?
        }
        ResourceKind::Withdrawal => {
            let rows: Vec<WithdrawalRow> = withdrawals::table
                .filter(withdrawals::integrator_id.eq(owner).and(withdrawals::id.eq_any(&ids)))
                .order(withdrawals::id.asc())
                .select(WithdrawalRow::as_select())
                .for_update()
                .rows(conn)
                .await
                .of("withdrawals")?;
            Locking::of_withdrawals(rows, untouched_since)?
        }
        ResourceKind::Refund | ResourceKind::Split => return Ok(0),
    };
    if locking.subjects().is_empty() {
        return Ok(0);
    }
    let people = people_of(conn, owner, &locking).await?;
    let keys = payee_keys_of(conn, owner, &locking, &people).await?;
    let sealed = locking.seal(&people, &keys)?;
    for sealed in sealed.chunks(ROWS) {
        diesel::insert_into(locked_parts::table)
            .values(sealed)
            .on_conflict((
                locked_parts::integrator_id,
                locked_parts::resource_id,
                locked_parts::part,
                locked_parts::number,
            ))
            .do_update()
            .set((
                locked_parts::person_id.eq(excluded(locked_parts::person_id)),
                locked_parts::sealed.eq(excluded(locked_parts::sealed)),
            ))
            .execute(conn)
            .await
            .of("locked_parts")?;
    }
    for row in &locking.charges {
        let same = charges::table.find((owner, row.id));
        diesel::update(same).set(row).execute(conn).await.of("charges")?;
    }
    for row in &locking.receipts {
        let same = receipts::table.find((owner, &row.receipt_key));
        let values =
            (receipts::payer_name.eq(&row.payer_name), receipts::payer_document.eq(&row.payer_document));
        diesel::update(same).set(values).execute(conn).await.of("receipts")?;
    }
    for row in &locking.withdrawals {
        let same = withdrawals::table.find((owner, row.id));
        diesel::update(same).set(row).execute(conn).await.of("withdrawals")?;
    }
    Ok(locking.records())
}

async fn erase(conn: &mut AsyncPgConnection, erasure: &Erasure) -> Result<bool, GivenUp> {
    let owner = DbId::from(erasure.integrator_id);
    let subject = erasure.person.subject();
    let person = people::integrator_id.eq(owner).and(people::subject.eq(subject));
    let erased = diesel::delete(people::table.filter(person)).execute(conn).await.of("people")?;
    let of_kind = |kind| {
        let of_kind = erasure.records.iter().filter(move |of| of.kind == kind);
        of_kind.map(|of| DbId(of.id)).collect::<Vec<_>>()
    };
    // In the order in which a transition takes them.
    let of_charges = refunds::charge_id.eq_any(of_kind(ResourceKind::Charge));
    let answered = refunds::integrator_id.eq(owner).and(of_charges);
    let answered = answered.and(refunds::provider_body.is_not_null()).and(refunds::follow_up_at.is_null());
    diesel::update(refunds::table.filter(answered))
        .set(refunds::provider_body.eq("{}"))
        .execute(conn)
        .await
        .of("refunds")?;
    let keys: Vec<DbId> = erasure.twins.iter().copied().map(DbId).collect();
    let of_twins = twins::integrator_id.eq(owner).and(twins::key.eq_any(keys));
    let of_twins = of_twins.and(twins::resource_id.eq_any(of_kind(ResourceKind::Withdrawal)));
    diesel::delete(twins::table.filter(of_twins)).execute(conn).await.of("twins")?;
    let references: Vec<DbId> = erasure.references.iter().copied().map(DbId).collect();
    let ended = callbacks::due_at.is_null().and(callbacks::reference.is_not_null());
    let ended = ended.and(callbacks::reference.assume_not_null().eq_any(references));
    diesel::delete(callbacks::table.filter(ended)).execute(conn).await.of("callbacks")?;
    Ok(erased > 0)
}

#[async_trait]
impl PersonStore for PgStore {
    async fn naming(&self, walk: Walk, person: &Person) -> Result<Walked, StoreError> {
        let mut conn = self.works().await?;
        naming(&mut conn, walk, person).await
    }

    async fn lockable(&self, walk: Walk, untouched_since: Timestamp) -> Result<Walked, StoreError> {
        let mut conn = self.works().await?;
        lockable(&mut conn, walk, untouched_since).await
    }

    async fn lock(
        &self,
        integrator_id: IntegratorId,
        kind: ResourceKind,
        ids: Vec<Uuid>,
        untouched_since: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut conn = self.works().await?;
        let (owner, ids) = (DbId::from(integrator_id), ids.into_iter().map(DbId).collect());
        let mut transaction = conn.build_transaction().read_committed();
        let done = transaction
            .run::<_, GivenUp, _>(async move |conn| lock(conn, owner, kind, ids, untouched_since).await);
        done.await.map_err(|GivenUp(error)| error)
    }

    async fn erase(&self, erasure: Erasure) -> Result<bool, StoreError> {
        let mut conn = self.works().await?;
        let mut transaction = conn.build_transaction().read_committed();
        let done = transaction.run::<_, GivenUp, _>(async move |conn| erase(conn, &erasure).await);
        done.await.map_err(|GivenUp(error)| error)
    }
}
