//! The statements over callbacks. They know one table.
//!
//! Callbacks come in floods, and each is kept durably and ends durably: so those that are kept at once share a statement,
//! and its wait for the disk, and those that end at once another one (`sharing`).
//!
//! Both lock rows in the order of their digests, so that two of these statements never wait for each other in a circle.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel_async::RunQueryDsl;
use pix_domain::error::StoreError;

use super::ask::Ask;
use super::columns::{Endings, Form, Inbox, push_named};
use super::error::{DbError, Of};
use super::pool::Connections;
use super::sharing::{Answer, Shared};
use crate::codec::{DbId, DbTime, Id, Instant};
use crate::rows::CallbackRow;

/// The most callbacks of one statement: their bodies are sent with it.
const MOST: usize = 64;

/// What callbacks share: each is answered, in the same place.
#[async_trait]
trait Together: Shared<Asked: Sync> + Sized {
    /// One statement for all of them.
    async fn together(&self, rows: &[Self::Asked]) -> Result<Vec<Self::Found>, DbError>;

    /// The same; when the server refuses it, each alone, so that it is the error of those that are refused.
    async fn each(&self, rows: &[Self::Asked]) -> Vec<Answer<Self>> {
        let mut error = match self.together(rows).await {
            Ok(found) => return found.into_iter().map(Ok).collect(),
            Err(error) => error,
        };
        let mut answers = Vec::with_capacity(rows.len());
        for row in rows.chunks(1) {
            // A server that isn't there is not asked for each.
            if rows.len() == 1 || !is_refusal(&error) {
                answers.push(Err(error.clone().of_write()));
                continue;
            }
            match self.together(row).await {
                Ok(found) => answers.extend(found.into_iter().map(Ok)),
                Err(alone) => {
                    answers.push(Err(alone.clone().of_write()));
                    error = alone;
                }
            }
        }
        answers
    }
}

/// Whether it may be for one of many: nothing was written, and the server is there.
const fn is_refusal(error: &DbError) -> bool {
    match error {
        DbError::Damaged(_) | DbError::Taken(_) | DbError::Refused(_) | DbError::Contention(_) => true,
        DbError::ReadOnly(_) | DbError::Unavailable(_) | DbError::Lost(_) => false,
    }
}

/// Keeps callbacks.
#[derive(Debug)]
pub struct Keeps(pub Connections);

#[async_trait]
impl Shared for Keeps {
    type Asked = CallbackRow;
    /// Whether it is this one that is kept, and none that says the same.
    type Found = bool;
    const WHAT: &'static str = "callbacks";
    const MOST: usize = MOST;
    const WRITES: bool = true;

    async fn answer(&self, asked: Vec<CallbackRow>) -> Vec<Answer<Self>> {
        // Of those that wait and say the same, the first to come goes: none has been asked about before all of them came.
        let mut said = BTreeMap::new();
        let mut goes = Vec::with_capacity(asked.len());
        for (place, row) in asked.iter().enumerate() {
            let first = if row.due_at.is_some() { *said.entry(row.digest).or_insert(place) } else { place };
            goes.push(first);
        }
        let mut rows: Vec<_> =
            asked.into_iter().enumerate().filter(|(place, _)| goes.get(*place) == Some(place)).collect();
        rows.sort_by_key(|(place, row)| (row.digest, *place));
        let (places, rows): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        let answers: BTreeMap<_, _> = places.into_iter().zip(self.each(&rows).await).collect();
        let answer = |(place, first): (usize, &usize)| match answers.get(first) {
            Some(Ok(kept)) => Ok(*kept && *first == place),
            Some(Err(error)) => Err(error.clone()),
            None => Err(StoreError::Unknown("a callback was not answered".to_owned())),
        };
        goes.iter().enumerate().map(answer).collect()
    }
}

#[async_trait]
impl Together for Keeps {
    async fn together(&self, rows: &[CallbackRow]) -> Result<Vec<bool>, DbError> {
        let mut inbox = Inbox::default();
        for row in rows {
            inbox.push(row);
        }
        let mut conn = self.0.lease().await?;
        let kept = Keep(inbox).rows(&mut conn).await.of("callbacks");
        let kept: BTreeSet<DbId> = self.0.wrote(conn, kept)?.into_iter().collect();
        if kept.len() != rows.len() {
            return Err(DbError::Lost(format!("{} callbacks were kept, and not {}", kept.len(), rows.len())));
        }
        Ok(rows.iter().map(|row| kept.contains(&row.id)).collect())
    }
}

impl Inbox {
    fn push(&mut self, row: &CallbackRow) {
        self.id.push(row.id);
        self.reference.push(row.reference);
        self.body.push(row.body.clone());
        self.digest.push(row.digest);
        self.received_at.push(row.received_at);
        self.state.push(row.state);
        self.due_at.push(row.due_at);
        self.attempts.push(row.attempts);
    }
}

/// Keeps callbacks; one that waits, unless one that says the same does. The unique index over those that wait tells, of
/// two that come at once too. No two of them may say the same.
struct Keep(Inbox);

impl QueryFragment<Pg> for Keep {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        push_named("INSERT INTO callbacks ", Inbox::COLUMNS, &mut out);
        out.push_sql(" ");
        self.0.walk_rows(Form::Arrays, &mut out)?;
        // Whoever works on the one that waits has it until its due time: it can't say any more that it ended.
        out.push_sql(
            " ON CONFLICT (digest) WHERE due_at IS NOT NULL DO UPDATE SET due_at = callbacks.due_at + 1 \
             RETURNING callbacks.id",
        );
        Ok(())
    }
}

/// Which ones are kept: these, or those that say the same.
impl Query for Keep {
    type SqlType = Id;
}

impl<Conn> diesel::query_dsl::RunQueryDsl<Conn> for Keep {}

impl QueryId for Keep {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

/// What a claim returns: the id, the reference, the body, when it was received, the attempts with this one, and when it
/// was due.
pub type Claimed = (DbId, Option<DbId>, String, DbTime, i64, DbTime);

/// Takes the most overdue callbacks and puts them off, in one statement. A row that another one is claiming is passed
/// over.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// Due at this time or before.
    pub now: DbTime,
    /// To when they are put off.
    pub until: DbTime,
    /// How many at the most.
    pub limit: i64,
}

impl QueryFragment<Pg> for Claim {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("WITH due AS MATERIALIZED (SELECT id, due_at FROM callbacks WHERE due_at <= ");
        out.push_bind_param::<Instant, _>(&self.now)?;
        out.push_sql(" ORDER BY due_at, id LIMIT ");
        out.push_bind_param::<BigInt, _>(&self.limit)?;
        out.push_sql(" FOR NO KEY UPDATE SKIP LOCKED) UPDATE callbacks AS kept SET due_at = ");
        out.push_bind_param::<Instant, _>(&self.until)?;
        out.push_sql(
            ", attempts = least(kept.attempts + 1, 4294967295) FROM due WHERE kept.id = due.id \
             RETURNING kept.id, kept.reference, kept.body, kept.received_at, kept.attempts, due.due_at",
        );
        Ok(())
    }
}

impl QueryId for Claim {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

impl Query for Claim {
    type SqlType = (Id, Nullable<Id>, Text, Instant, BigInt, Instant);
}

/// Where a callback stands.
#[derive(Debug, Clone, Copy)]
pub struct Ending {
    /// Its id.
    pub id: DbId,
    /// The name of its state now.
    pub state: &'static str,
    /// When it is due, if it waits.
    pub due_at: Option<DbTime>,
    /// Until when it was claimed.
    pub claimed_until: DbTime,
    /// How many attempts were behind it then.
    pub attempts: i64,
}

/// Says where callbacks stand.
#[derive(Debug)]
pub struct Puts(pub Connections);

#[async_trait]
impl Shared for Puts {
    type Asked = Ending;
    type Found = ();
    const WHAT: &'static str = "callbacks";
    const MOST: usize = MOST;
    const WRITES: bool = true;

    async fn answer(&self, asked: Vec<Ending>) -> Vec<Answer<Self>> {
        self.each(&asked).await
    }
}

#[async_trait]
impl Together for Puts {
    async fn together(&self, rows: &[Ending]) -> Result<Vec<()>, DbError> {
        let mut endings = Endings::default();
        for row in rows {
            endings.push(row);
        }
        let mut conn = self.0.lease().await?;
        let done = Put(endings).execute(&mut conn).await.of("callbacks");
        self.0.wrote(conn, done)?;
        Ok(rows.iter().map(|_| ()).collect())
    }
}

impl Endings {
    fn push(&mut self, row: &Ending) {
        self.id.push(row.id);
        self.state.push(row.state);
        self.due_at.push(row.due_at);
        self.claimed_until.push(row.claimed_until);
        self.attempts.push(row.attempts);
    }
}

/// Says where callbacks stand, of those that are as they were claimed.
struct Put(Endings);

impl QueryFragment<Pg> for Put {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        // Locked first: in which order an UPDATE meets its rows is the planner's to say.
        out.push_sql("WITH held AS MATERIALIZED (SELECT kept.id, ended.state, ended.due_at FROM (");
        self.0.walk_rows(Form::Arrays, &mut out)?;
        push_named(") AS ended", Endings::COLUMNS, &mut out);
        out.push_sql(
            " JOIN callbacks AS kept ON kept.id = ended.id AND kept.due_at = ended.claimed_until \
             AND kept.attempts = ended.attempts ORDER BY kept.digest FOR NO KEY UPDATE OF kept) \
             UPDATE callbacks AS t SET state = held.state, due_at = held.due_at FROM held WHERE t.id = held.id",
        );
        Ok(())
    }
}

impl QueryId for Put {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

/// Removes callbacks that ended, the oldest first. A row that another one is removing is passed over.
#[derive(Debug, Clone, Copy)]
pub struct Forget {
    /// Received before this time.
    pub before: DbTime,
    /// How many at the most.
    pub limit: i64,
}

impl QueryFragment<Pg> for Forget {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql(
            "WITH old AS MATERIALIZED (SELECT id FROM callbacks WHERE due_at IS NULL AND received_at < ",
        );
        out.push_bind_param::<Instant, _>(&self.before)?;
        out.push_sql(" ORDER BY received_at, id LIMIT ");
        out.push_bind_param::<BigInt, _>(&self.limit)?;
        out.push_sql(" FOR UPDATE SKIP LOCKED) DELETE FROM callbacks kept USING old WHERE kept.id = old.id");
        Ok(())
    }
}

impl QueryId for Forget {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}
