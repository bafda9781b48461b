//! What is found by a key alone: wallets, the ids behind names, handles and references, and twins. Those who ask at once share
//! a query.
//!
//! How they share is in `sharing`. A key begins with its integrator where it isn't ours, each row comes with the key that it was
//! found by, and one that can't be read is the error of those alone who asked for it.
//!
//! The keys come in arrays, out of subqueries, which keeps their lengths from the planner; and each is looked up by itself, in a
//! subquery with a limit, which isn't flattened into a join. So the plan is the same whatever the tables' statistics say.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;

use async_trait::async_trait;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Text};
use diesel_async::AsyncPgConnection;
use pix_domain::error::StoreError;
use pix_domain::ids::{ResourceKind, ResourceRef};
use pix_domain::wallet::Wallet;
use tokio::time::timeout;
use uuid::Uuid;

use super::PgStore;
use super::Shares;
use super::ask::Ask;
use super::error::Of;
use super::pool::{Conn, Connections};
use super::sharing::{Answer, Shared, Sharing, alone};
use crate::codec::{self, DbId, Id};
use crate::rows::{TwinRow, WalletRow};

/// One kind of what is read by its key.
#[async_trait]
pub trait ByKey: Send + Sync + 'static {
    /// By which.
    type Key: Ord + Clone + Send + Sync + 'static;
    /// What is found; the default, where nothing is there.
    type Found: Clone + Default + Send + Sync + 'static;

    /// What is there of these keys.
    async fn load(
        conn: &mut AsyncPgConnection,
        keys: BTreeSet<Self::Key>,
    ) -> Result<Vec<(Self::Key, Result<Self::Found, StoreError>)>, StoreError>;
}

/// What is there of some keys.
type Found<K> = BTreeMap<<K as ByKey>::Key, Result<<K as ByKey>::Found, StoreError>>;

/// The reads of one kind.
#[derive(Debug)]
pub struct Reads<K> {
    connections: Connections,
    kind: PhantomData<fn() -> K>,
}

impl<K: ByKey> Reads<K> {
    /// Reads over these connections.
    pub const fn new(connections: Connections) -> Self {
        Self { connections, kind: PhantomData }
    }

    async fn load(&self, keys: BTreeSet<K::Key>) -> Result<Found<K>, StoreError> {
        let mut conn = self.connections.get().await?;
        let found = timeout(self.connections.answer_timeout(), Self::read(&mut conn, keys)).await;
        self.connections.whole(conn, found)
    }

    async fn read(conn: &mut Conn, keys: BTreeSet<K::Key>) -> Result<Found<K>, StoreError> {
        Ok(K::load(conn, keys).await?.into_iter().collect())
    }
}

#[async_trait]
impl<K: ByKey> Shared for Reads<K> {
    type Asked = K::Key;
    type Found = K::Found;
    const WHAT: &'static str = "reads";
    const MOST: usize = 256;
    const WRITES: bool = false;

    async fn answer(&self, asked: Vec<K::Key>) -> Vec<Answer<Self>> {
        let found = self.load(asked.iter().cloned().collect()).await;
        let one = |key: &K::Key| {
            let found = found.as_ref().map_err(Clone::clone)?;
            found.get(key).cloned().unwrap_or_else(|| Ok(K::Found::default()))
        };
        asked.iter().map(one).collect()
    }
}

impl PgStore {
    /// What is there of a key, in one query with whoever asks at once.
    pub(super) async fn by_key<K: ByKey>(
        &self,
        line: impl FnOnce(&Shares) -> &Sharing<Reads<K>>,
        key: K::Key,
    ) -> Result<K::Found, StoreError> {
        match &self.shares {
            Some(shares) => line(shares).ask(key).await,
            None => alone(Reads::<K>::new(self.reads.clone()), key).await,
        }
    }
}

/// A query of some keys that are arrays of one length each.
macro_rules! query {
    ($query:ident { $($array:ident: $kind:ty => $sql:ty),+ } -> ($($column:ty),+), $wanted:literal, $found:expr) => {
        struct $query {
            $($array: Vec<$kind>,)+
        }

        impl QueryFragment<Pg> for $query {
            fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
                let mut before: &'static str = concat!("SELECT ", $wanted, ", found.* FROM unnest((SELECT ");
                $(
                    out.push_sql(before);
                    out.push_bind_param::<Array<$sql>, _>(&self.$array)?;
                    before = "), (SELECT ";
                )+
                let _ = before;
                out.push_sql($found);
                Ok(())
            }
        }

        impl QueryId for $query {
            type QueryId = Self;

            const HAS_STATIC_QUERY_ID: bool = true;
        }

        impl Query for $query {
            type SqlType = ($($column),+);
        }
    };
}

query!(
    WalletsOf { owners: DbId => Id } -> (Id, BigInt, BigInt, BigInt, BigInt),
    "wanted.integrator_id",
    ")) AS wanted(integrator_id), LATERAL (SELECT available_cents, held_cents, entries, owed_cents FROM wallets \
     WHERE wallets.integrator_id = wanted.integrator_id LIMIT 1) AS found"
);

query!(
    NamedCharges { owners: DbId => Id, names: String => Text } -> (Id, Text, Id),
    "wanted.integrator_id, wanted.external_id",
    ")) AS wanted(integrator_id, external_id), LATERAL (SELECT id FROM charges \
     WHERE charges.integrator_id = wanted.integrator_id AND charges.external_id = wanted.external_id LIMIT 1) AS found"
);

query!(
    NamedWithdrawals { owners: DbId => Id, names: String => Text } -> (Id, Text, Id),
    "wanted.integrator_id, wanted.external_id",
    ")) AS wanted(integrator_id, external_id), LATERAL (SELECT id FROM withdrawals \
     WHERE withdrawals.integrator_id = wanted.integrator_id AND withdrawals.external_id = wanted.external_id LIMIT 1) AS found"
);

query!(
    HandlesOf { owners: DbId => Id, kinds: &'static str => Text, keys: String => Text } -> (Id, Text, Text, Id),
    "wanted.integrator_id, wanted.kind, wanted.key",
    ")) AS wanted(integrator_id, kind, key), LATERAL (SELECT resource_id FROM handles WHERE handles.integrator_id = \
     wanted.integrator_id AND handles.kind = wanted.kind AND handles.key = wanted.key LIMIT 1) AS found"
);

query!(
    TwinsOf { owners: DbId => Id, keys: DbId => Id } -> (Id, Id, Id, Text, crate::codec::Instant),
    "wanted.integrator_id, wanted.key",
    ")) AS wanted(integrator_id, key), LATERAL (SELECT resource_id, others, created_at FROM twins \
     WHERE twins.integrator_id = wanted.integrator_id AND twins.key = wanted.key LIMIT 1) AS found"
);

query!(
    Bearers { references: String => Text } -> (Text, Text, Id, Id),
    "wanted.reference",
    ")) AS wanted(reference), LATERAL ((SELECT 'withdrawal', integrator_id, id FROM withdrawals \
     WHERE substr(id::text, 15) = wanted.reference AND substr(id::text, 15, 1) = '8' LIMIT 1) \
     UNION ALL (SELECT 'refund', integrator_id, id FROM refunds \
     WHERE substr(id::text, 15) = wanted.reference AND substr(id::text, 15, 1) = '8' LIMIT 1)) AS found"
);

/// The wallet of an integrator; an empty one without.
#[derive(Debug)]
pub struct OfOwner;

#[async_trait]
impl ByKey for OfOwner {
    type Key = DbId;
    type Found = Wallet;

    async fn load(
        conn: &mut AsyncPgConnection,
        keys: BTreeSet<DbId>,
    ) -> Result<Vec<(DbId, Result<Wallet, StoreError>)>, StoreError> {
        let query = WalletsOf { owners: keys.into_iter().collect() };
        let rows: Vec<(DbId, i64, i64, i64, i64)> = query.rows(conn).await.of("wallets")?;
        let wallet = |(integrator_id, available_cents, held_cents, entries, owed_cents)| {
            let row = WalletRow { integrator_id, available_cents, held_cents, entries, owed_cents };
            (integrator_id, Wallet::try_from(row))
        };
        Ok(rows.into_iter().map(wallet).collect())
    }
}

/// Whose, and what it calls a record.
type Name = (DbId, String);

/// The id of a charge, or of a withdrawal, by the integrator's name for it.
macro_rules! by_name {
    ($kind:ident, $query:ident, $table:literal) => {
        /// The ids of records by their integrator's names for them.
        #[derive(Debug)]
        pub struct $kind;

        #[async_trait]
        impl ByKey for $kind {
            type Key = Name;
            type Found = Option<DbId>;

            async fn load(
                conn: &mut AsyncPgConnection,
                keys: BTreeSet<Name>,
            ) -> Result<Vec<(Name, Result<Option<DbId>, StoreError>)>, StoreError> {
                let (owners, names) = keys.into_iter().unzip();
                let rows: Vec<(DbId, String, DbId)> = $query { owners, names }.rows(conn).await.of($table)?;
                Ok(rows.into_iter().map(|(owner, name, id)| ((owner, name), Ok(Some(id)))).collect())
            }
        }
    };
}

by_name!(ChargesNamed, NamedCharges, "charges");
by_name!(WithdrawalsNamed, NamedWithdrawals, "withdrawals");

/// Whose, of which kind, and by which key.
pub type Handle = (DbId, &'static str, String);

/// The ids of records by the handles of the requests that made them.
#[derive(Debug)]
pub struct Handled;

#[async_trait]
impl ByKey for Handled {
    type Key = Handle;
    type Found = Option<DbId>;

    async fn load(
        conn: &mut AsyncPgConnection,
        handles: BTreeSet<Handle>,
    ) -> Result<Vec<(Handle, Result<Option<DbId>, StoreError>)>, StoreError> {
        let (mut owners, mut kinds, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for (owner, kind, key) in &handles {
            owners.push(*owner);
            kinds.push(*kind);
            keys.push(key.clone());
        }
        let rows: Vec<(DbId, String, String, DbId)> =
            HandlesOf { owners, kinds, keys }.rows(conn).await.of("handles")?;
        let found: BTreeMap<(DbId, &str, &str), DbId> =
            rows.iter().map(|(owner, kind, key, id)| ((*owner, kind.as_str(), key.as_str()), *id)).collect();
        let one = |handle: Handle| {
            let id = found.get(&(handle.0, handle.1, handle.2.as_str())).copied();
            (handle, Ok(id))
        };
        Ok(handles.into_iter().map(one).collect())
    }
}

/// What twins' keys name, newest first.
#[derive(Debug)]
pub struct TwinsNamed;

#[async_trait]
impl ByKey for TwinsNamed {
    type Key = (DbId, DbId);
    type Found = Vec<Uuid>;

    async fn load(
        conn: &mut AsyncPgConnection,
        keys: BTreeSet<(DbId, DbId)>,
    ) -> Result<Vec<((DbId, DbId), Result<Vec<Uuid>, StoreError>)>, StoreError> {
        let (owners, keys) = keys.into_iter().unzip();
        let rows: Vec<TwinRow> = TwinsOf { owners, keys }.rows(conn).await.of("twins")?;
        Ok(rows.into_iter().map(|row| ((row.integrator_id, row.key), row.ids())).collect())
    }
}

/// The withdrawals and refunds whose ids end with a reference, as `codec::reference_key` makes it.
#[derive(Debug)]
pub struct Referred;

#[async_trait]
impl ByKey for Referred {
    type Key = String;
    type Found = Option<ResourceRef>;

    async fn load(
        conn: &mut AsyncPgConnection,
        keys: BTreeSet<String>,
    ) -> Result<Vec<(String, Result<Option<ResourceRef>, StoreError>)>, StoreError> {
        let bearers = Bearers { references: keys.into_iter().collect() };
        let rows: Vec<(String, String, DbId, DbId)> = bearers.rows(conn).await.of("records")?;
        let mut found = BTreeMap::new();
        for (reference, kind, owner, id) in rows {
            let record = codec::resource("kind", owner, &kind, id);
            // A withdrawal goes before a refund.
            if kind == ResourceKind::Withdrawal.as_str() || !found.contains_key(&reference) {
                found.insert(reference, record.map(Some));
            }
        }
        Ok(found.into_iter().collect())
    }
}
