//! Running transitions: one by one, or a group; and finding out what became of a commit whose answer was lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use diesel::prelude::{ExpressionMethods, QueryDsl};
use diesel::result::Error as DieselError;
use diesel_async::AsyncPgConnection;
use diesel_async::methods::LoadQuery;
use pix_domain::error::{ApplyError, StoreError};
use pix_domain::transition::{Transition, TransitionStore};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};
use uuid::Uuid;

use super::ask::Ask;
use super::columns::Form;
use super::error::{DbError, OUT_OF_RANGE, OWED_ALONE, Of, taken, understand};
use super::pool::{Conn, Connections, answer_timeout};
use super::settling::{Payment, Settling};
use super::statement::{Code, Fate, Statement, is_credit};
use super::{PgOptions, PgStore};
use crate::codec::DbId;
use crate::vitals::PoolUse;

/// How many times a transition is tried when others are in its way.
const MAX_ATTEMPTS: u32 = 10;
/// What is said of a transition whose group was parted, when those before it took for too long.
const LEFT_OUT: &str = "those that were to be written before it took too long";
/// How many transitions with parts a node has at the database at once: a recipient whom many pay must not take the
/// connections of everybody. One of the connections for money is left, where there are two.
pub const PARTS_AT_ONCE: usize = 2;
/// How long the outcome of a lost commit is not asked for again after a failed question.
const RESOLVE_PAUSE: Duration = Duration::from_millis(50);

/// The result of one transition.
pub type Applied = Result<(), ApplyError>;

/// A transition on its way, with the number its events carry. The number is made once: it is the same however often the
/// transition is sent, so that whoever reads it knows whose change it was.
#[derive(Debug)]
pub struct Sent {
    /// What is to happen.
    pub transition: Transition,
    /// The number.
    pub id: Uuid,
}

/// Runs transitions on connections for money.
#[derive(Debug)]
pub struct Applier {
    connections: Connections,
    resolve_timeout: Duration,
    /// Beyond the server's own timeout: the line itself is dead.
    answer_timeout: Duration,
    /// Of transitions with parts. They wait for the locks of several wallets, each with a connection.
    with_parts: Semaphore,
    node: u64,
    sent: AtomicU64,
}

impl Applier {
    /// An applier over the pool for money.
    pub fn new(connections: Connections, options: &PgOptions) -> Self {
        let mut node = [0_u8; 8];
        // Without a random number, the address of this very store tells processes apart well enough on one machine; the
        // numbers are compared only with those of one record's one version.
        if getrandom::fill(&mut node).is_err() {
            node = u64::from(std::process::id()).to_be_bytes();
        }
        Self {
            connections,
            resolve_timeout: options.resolve_timeout,
            answer_timeout: answer_timeout(options.statement_timeout),
            with_parts: Semaphore::new(options.money_connections.saturating_sub(1).clamp(1, PARTS_AT_ONCE)),
            node: u64::from_be_bytes(node),
            sent: AtomicU64::new(0),
        }
    }

    /// A connection of the pool.
    pub async fn connection(&self) -> Result<Conn, StoreError> {
        self.connections.get().await
    }

    /// How the pool is used.
    pub fn pool_use(&self) -> PoolUse {
        self.connections.pool_use()
    }

    /// A transition with a number of its own; refused when its shape is wrong.
    pub fn number(&self, transition: Transition) -> Result<Sent, ApplyError> {
        transition.check_shape()?;
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        Ok(Sent { transition, id: Uuid::from_u64_pair(self.node, number) })
    }

    /// Applies one.
    pub async fn one(&self, sent: &Sent) -> Applied {
        if let Some(payment) = Settling::of(&sent.transition)
            && let Some(settled) = self.settle(&[sent], vec![(payment, sent.id)]).await.pop().flatten()
        {
            return settled;
        }
        self.one_of_any(sent).await
    }

    /// Applies one, whatever it does.
    async fn one_of_any(&self, sent: &Sent) -> Applied {
        let _turn = if sent.transition.parts.is_empty() { None } else { Some(self.turn_with_parts().await?) };
        let mut why = String::new();
        for _ in 0..MAX_ATTEMPTS {
            let mut open = Vec::new();
            let codes = self.run_one(sent, self.answer_timeout, &mut open).await;
            match codes {
                Ok(Code::Decided(result)) => return result,
                Ok(Code::Again) => "a lone transition was not decided".clone_into(&mut why),
                Err(DbError::Taken(constraint)) => match taken(&constraint) {
                    Some(key) => return Err(ApplyError::Duplicate(key)),
                    // Two numbered the same row; one of them numbers it again.
                    None => why = constraint,
                },
                Err(DbError::Contention(reason)) => why = reason,
                Err(DbError::Lost(reason)) => {
                    return self.resolve(sent, reason, open, Instant::now() + self.resolve_timeout).await;
                }
                Err(DbError::Refused(rule)) => return Err(broken(rule)),
                Err(error) => return Err(StoreError::from(error).into()),
            }
        }
        Err(StoreError::Unavailable(format!("others were in the way {MAX_ATTEMPTS} times: {why}")).into())
    }

    /// The right to apply one with parts. Whoever has waited for as long as for an answer is told that the store is busy.
    async fn turn_with_parts(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        let busy = || StoreError::Unavailable("too many writes with parts are waiting".to_owned());
        let turn =
            timeout(self.answer_timeout, self.with_parts.acquire()).await.map_err(|_elapsed| busy())?;
        turn.map_err(|_closed| busy())
    }

    /// Applies many without parts that have nothing in common but wallets; `None` where it has to be asked again.
    pub async fn many(&self, group: &[Arc<Sent>]) -> Vec<Option<Applied>> {
        let all: Vec<&Sent> = group.iter().map(Arc::as_ref).collect();
        let payments = all.iter().map(|sent| Some((Settling::of(&sent.transition)?, sent.id)));
        let Some(payments) = payments.collect::<Option<Vec<_>>>() else {
            return self.many_of_any(&all).await;
        };
        let mut results = self.settle(&all, payments).await;
        let left = all.iter().zip(&results).filter(|(_, result)| result.is_none()).map(|(sent, _)| *sent);
        let left: Vec<&Sent> = left.collect();
        if !left.is_empty() {
            let mut answers = self.many_of_any(&left).await.into_iter();
            for result in results.iter_mut().filter(|result| result.is_none()) {
                *result = answers.next().flatten();
            }
        }
        results
    }

    /// Applies payments of charges and nothing else; `None` for each that did not happen, and may not without being asked
    /// in the form of any transition: that one says why.
    async fn settle(&self, group: &[&Sent], payments: Vec<(Settling<'_>, Uuid)>) -> Vec<Option<Applied>> {
        let mut open = Vec::new();
        let is_delivered = payments.iter().any(|(settling, _)| settling.is_delivered());
        macro_rules! send {
            ($lone:literal, $delivered:literal) => {{
                let statement = Payment::<$lone, $delivered>::new(&payments);
                self.send(&statement, self.answer_timeout, &mut open).await
            }};
        }
        let answer = match (payments.len() == 1, is_delivered) {
            (true, true) => send!(true, true),
            (true, false) => send!(true, false),
            (false, true) => send!(false, true),
            (false, false) => send!(false, false),
        };
        match answer {
            Ok(paid) => {
                let mut results: Vec<Option<Applied>> = group.iter().map(|_| None).collect();
                for place in paid {
                    if let Some(result) = usize::try_from(place).ok().and_then(|place| results.get_mut(place))
                    {
                        *result = Some(Ok(()));
                    }
                }
                results
            }
            Err(DbError::ReadOnly(why) | DbError::Unavailable(why)) => unavailable(group.len(), &why),
            Err(DbError::Lost(why)) => self.resolve_each(group, &why, &open).await,
            // One of them broke a rule that only the database sees, or somebody was in the way; nothing was written.
            Err(DbError::Damaged(_) | DbError::Taken(_) | DbError::Refused(_) | DbError::Contention(_)) => {
                group.iter().map(|_| None).collect()
            }
        }
    }

    /// Applies many without parts, whatever they do.
    async fn many_of_any(&self, group: &[&Sent]) -> Vec<Option<Applied>> {
        if let [lone] = group {
            return vec![Some(self.one_of_any(lone).await)];
        }
        let mut open = Vec::new();
        let mut answer = self.run(group, Form::Arrays, false, self.answer_timeout, &mut open).await;
        // A wallet with a debt, mostly: weighed, the others are not undone with the one that meets it.
        if matches!(answer, Err(DbError::Refused(_))) && group.iter().all(|sent| is_credit(&sent.transition))
        {
            answer = self.run(group, Form::Arrays, true, self.answer_timeout, &mut open).await;
        }
        match answer {
            Ok(codes) => codes
                .into_iter()
                .map(|code| match code {
                    Code::Decided(result) => Some(result),
                    Code::Again => None,
                })
                .collect(),
            Err(DbError::ReadOnly(why) | DbError::Unavailable(why)) => unavailable(group.len(), &why),
            Err(DbError::Lost(why)) => self.resolve_each(group, &why, &open).await,
            Err(DbError::Damaged(_) | DbError::Taken(_) | DbError::Refused(_) | DbError::Contention(_)) => {
                // One of them broke a rule that only the database sees, and nothing was written: each for itself. Their
                // wallets are nobody else's meanwhile, so none is begun later than an answer is waited for.
                let until = Instant::now() + self.answer_timeout;
                let mut results = Vec::with_capacity(group.len());
                for sent in group {
                    results.push(Some(if Instant::now() < until {
                        self.one_of_any(sent).await
                    } else {
                        Err(StoreError::Unavailable(LEFT_OUT.to_owned()).into())
                    }));
                }
                results
            }
        }
    }

    /// What became of each of a group whose answer was lost.
    async fn resolve_each(&self, group: &[&Sent], why: &str, open: &[String]) -> Vec<Option<Applied>> {
        let until = Instant::now() + self.resolve_timeout;
        let mut results = Vec::with_capacity(group.len());
        for sent in group {
            results.push(Some(self.resolve(sent, why.to_owned(), open.to_vec(), until).await));
        }
        results
    }

    /// Sends one transition, with its parts.
    async fn run_one(
        &self,
        sent: &Sent,
        patience: Duration,
        open: &mut Vec<String>,
    ) -> Result<Code, DbError> {
        // Those with parts differ in how many rows they have; as arrays they share their prepared statements.
        let form = if sent.transition.parts.is_empty() { Form::Plain } else { Form::Arrays };
        let codes = self.run(&[sent], form, true, patience, open).await?;
        // Where one of them is refused, the others only say that something was.
        let refusal = codes.iter().find(|code| matches!(code, Code::Decided(Err(_))));
        Ok(refusal.or(codes.as_slice().first()).cloned().unwrap_or(Code::Again))
    }

    /// Sends the statement of a group; what it says of each.
    async fn run(
        &self,
        group: &[&Sent],
        form: Form,
        weigh: bool,
        patience: Duration,
        open: &mut Vec<String>,
    ) -> Result<Vec<Code>, DbError> {
        let has_parts = group.iter().any(|sent| !sent.transition.parts.is_empty());
        let fate = if has_parts { Fate::Shared } else { Fate::Own };
        let rows: Vec<(&Transition, Uuid)> =
            group.iter().flat_map(|sent| sent.transition.whole().map(|one| (one, sent.id))).collect();
        let statement = Statement::new(&rows, form, fate, weigh);
        let codes = self.send(&statement, patience, open).await?;
        statement.read(&codes).map_err(|error| DbError::Lost(error.to_string()))
    }

    /// Sends a statement and waits at most `patience` for its answer. The name of a session that was lost on the way is
    /// added to `open`: what was sent there may still happen.
    async fn send<S>(
        &self,
        statement: &S,
        patience: Duration,
        open: &mut Vec<String>,
    ) -> Result<Vec<i32>, DbError>
    where
        S: Sync,
        for<'a> &'a S: LoadQuery<'a, AsyncPgConnection, Vec<i32>> + Send,
    {
        let mut conn = self.connections.lease().await?;
        let answer = timeout(patience, Self::ask(&mut conn, statement)).await;
        let answer = answer.unwrap_or_else(|_elapsed| {
            Err(DbError::Lost(format!("no answer within {} ms", patience.as_millis())))
        });
        match &answer {
            // Whatever is still going on there is not waited for.
            Err(DbError::Lost(_)) => {
                open.push(conn.name().to_owned());
                drop(Conn::take(conn));
            }
            // The server is no longer the one that writes.
            Err(DbError::ReadOnly(_)) => {
                self.connections.forget(&Conn::take(conn));
            }
            _ => {}
        }
        answer
    }

    async fn ask<S>(conn: &mut Conn, statement: &S) -> Result<Vec<i32>, DbError>
    where
        S: Sync,
        for<'a> &'a S: LoadQuery<'a, AsyncPgConnection, Vec<i32>> + Send,
    {
        // To the end of the answer: the codes come before the commit.
        statement.row(conn).await.map_err(|error| match error {
            // It was answered, so it has happened.
            DieselError::DeserializationError(_) => DbError::Lost("the answer can't be read".to_owned()),
            error => understand("transition", &error),
        })
    }

    /// What became of a transition whose answer was lost.
    ///
    /// It is applied again, with the same number: its guards let it happen once, whichever of the two sendings comes
    /// first, even when the first is still on its way. When the guards refuse it, the number of the event that stands in
    /// its place says whether that was the first sending. `open` names the sessions that were lost.
    async fn resolve(&self, sent: &Sent, why: String, mut open: Vec<String>, until: Instant) -> Applied {
        let unknown = |why: String| Err(StoreError::Unknown(why).into());
        let Transition { writes, postings, findings, .. } = &sent.transition;
        if writes.is_empty() && (!postings.is_empty() || findings.is_empty()) {
            // Nothing guards it, or it is evidence alone: sent again that writes nothing when the first sending is there, and so
            // is no commit that waits for a standby.
            return unknown(why);
        }
        let mut why = why;
        while Instant::now() < until {
            match timeout_at(until, self.resolve_once(sent, &mut open, until)).await {
                Ok(Ok(result)) => return result,
                Ok(Err(error)) => why = error,
                Err(_elapsed) => break,
            }
            tokio::time::sleep(RESOLVE_PAUSE).await;
        }
        tracing::error!(%why, "the outcome of a commit is unknown");
        unknown(why)
    }

    async fn resolve_once(
        &self,
        sent: &Sent,
        open: &mut Vec<String>,
        until: Instant,
    ) -> Result<Applied, String> {
        let patience = self.answer_timeout.min(until.saturating_duration_since(Instant::now()));
        let refused = match self.run_one(sent, patience, open).await {
            Ok(Code::Decided(Ok(()))) => return Ok(Ok(())),
            Ok(Code::Decided(Err(refused))) => refused,
            Ok(Code::Again) => return Err("a lone transition was not decided".to_owned()),
            Err(DbError::Taken(constraint)) => match taken(&constraint) {
                Some(key) => ApplyError::Duplicate(key),
                None => return Err(constraint),
            },
            Err(DbError::Refused(rule)) => broken(rule),
            Err(error) => return Err(StoreError::from(error).to_string()),
        };
        // A version that is past and a key that is taken stay so. Money may come, and then the first sending, if it is
        // only now decided, would happen after it was called refused.
        let for_ever = matches!(refused, ApplyError::Stale | ApplyError::Duplicate(_));
        if !for_ever && !self.are_over(open).await.map_err(|error| error.to_string())? {
            return Err("the first sending may still be at work".to_owned());
        }
        match self.happened(sent).await {
            Ok(true) => Ok(Ok(())),
            Ok(false) => Ok(Err(refused)),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Whether the server has ended these sessions. It does so when it has done all that it was sent in them.
    async fn are_over(&self, sessions: &[String]) -> Result<bool, StoreError> {
        let mut conn = self.connections.get().await?;
        let left: i64 = catalog::pg_stat_activity::table
            .filter(catalog::pg_stat_activity::application_name.eq_any(sessions))
            .count()
            .row(&mut conn)
            .await
            .of("pg_stat_activity")?;
        Ok(left == 0)
    }

    /// Whether the events of this very sending are there.
    ///
    /// The row is locked so that this is a commit itself: where commits wait for a standby, what is found here is on the
    /// standby too, though the server may have been restarted before it was.
    async fn happened(&self, sent: &Sent) -> Result<bool, StoreError> {
        let Some(write) = sent.transition.writes.as_slice().first() else { return Ok(false) };
        let resource = write.record.resource();
        let mut conn = self.connections.get().await?;
        let found: Option<DbId> = numbered::events::table
            .filter(numbered::events::integrator_id.eq(DbId::from(resource.integrator_id)))
            .filter(numbered::events::resource_kind.eq(resource.kind.as_str()))
            .filter(numbered::events::resource_id.eq(DbId(resource.id)))
            .filter(numbered::events::sequence.eq(i64::from(write.record.version().0)))
            .select(numbered::events::transition_id)
            .for_key_share()
            .found(&mut conn)
            .await
            .of("events")?;
        Ok(found == Some(DbId(sent.id)))
    }
}

/// The result of each of `members` of which none was sent.
fn unavailable(members: usize, why: &str) -> Vec<Option<Applied>> {
    let refused = || Some(Err(StoreError::Unavailable(why.to_owned()).into()));
    (0..members).map(|_| refused()).collect()
}

/// What a broken rule of the schema means to the caller.
fn broken(rule: String) -> ApplyError {
    if rule.contains(OUT_OF_RANGE) {
        // More than a wallet can hold.
        ApplyError::InsufficientFunds
    } else if rule.contains(OWED_ALONE) {
        ApplyError::Owing
    } else {
        StoreError::Rejected(rule).into()
    }
}

mod catalog {
    //! What PostgreSQL says of its sessions.

    diesel::table! {
        pg_catalog.pg_stat_activity (pid) {
            pid -> Integer,
            application_name -> Nullable<Text>,
        }
    }
}

/// The events as this database keeps them: with the number of the transition that wrote them.
mod numbered {
    diesel::table! {
        use diesel::sql_types::{BigInt, Text};
        use crate::codec::Id;

        events (integrator_id, resource_kind, resource_id, sequence) {
            integrator_id -> Id,
            resource_kind -> Text,
            resource_id -> Id,
            sequence -> BigInt,
            transition_id -> Id,
        }
    }
}

#[async_trait]
impl TransitionStore for PgStore {
    async fn apply(&self, transition: Transition) -> Result<(), ApplyError> {
        let sent = self.applier.number(transition)?;
        match &self.gatherer {
            Some(gatherer) if sent.transition.parts.is_empty() => gatherer.apply(sent).await,
            // What is of several wallets would hold back the group of each.
            _ => self.applier.one(&sent).await,
        }
    }

    async fn apply_all(&self, transitions: Vec<Transition>) -> Vec<Result<(), ApplyError>> {
        let mut results: Vec<Option<Applied>> = Vec::with_capacity(transitions.len());
        let mut left: Vec<(usize, Arc<Sent>)> = Vec::with_capacity(transitions.len());
        for (place, transition) in transitions.into_iter().enumerate() {
            match self.applier.number(transition) {
                Ok(sent) => {
                    results.push(None);
                    left.push((place, Arc::new(sent)));
                }
                Err(error) => results.push(Some(Err(error))),
            }
        }
        // In order: a later one may spend what an earlier one brings. So a group begins when the one before has ended.
        while !left.is_empty() {
            let waiting: Vec<Arc<Sent>> = left.iter().map(|(_, sent)| Arc::clone(sent)).collect();
            let together = self.gatherer.as_ref().map_or(1, |gatherer| gatherer.together(&waiting).max(1));
            let answers = self.applier.many(waiting.get(..together).unwrap_or(&waiting)).await;
            let rest = left.split_off(together.min(left.len()));
            let mut again = Vec::new();
            for ((place, sent), answer) in left.into_iter().zip(answers) {
                match (answer, results.get_mut(place)) {
                    (Some(answer), Some(result)) => *result = Some(answer),
                    _ => again.push((place, sent)),
                }
            }
            again.extend(rest);
            left = again;
        }
        let lost = || Err(StoreError::Unknown("a transition was not answered for".to_owned()).into());
        results.into_iter().map(|result| result.unwrap_or_else(lost)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_rule_is_known_by_its_name() {
        let violated = |rule: &str| format!("wallets: new row violates check constraint \"{rule}\"");
        assert_eq!(broken(violated(OWED_ALONE)), ApplyError::Owing);
        assert_eq!(broken("transition: bigint out of range".into()), ApplyError::InsufficientFunds);
        let other = violated("wallets_held_cents_check");
        assert_eq!(broken(other.clone()), StoreError::Rejected(other).into());
    }
}
