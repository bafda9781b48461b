//! What postbacks are signed with, and how that is changed.
//!
//! A secret is a function of a master key, its integrator and its number, so that the store has numbers and dates and
//! nothing that signs. A new one is added and signs beside the old one, until that is retired: a receiver that knows
//! either accepts every postback meanwhile.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;

use crate::error::StoreError;
use crate::ids::IntegratorId;
use crate::postbacks::send::PostbackSecret;
use crate::time::{Clock, Timestamp};

/// How many secrets of an integrator sign at once, at the most.
pub const MAX_LIVE_SECRETS: usize = 3;

/// One secret, without what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretVersion {
    /// Whose it is.
    pub integrator_id: IntegratorId,
    /// Its number: from 1, one more each time.
    pub number: u32,
    /// The master key that it is made of, by name.
    pub key_id: String,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it signs no more; may be ahead.
    pub retired_at: Option<Timestamp>,
}

impl SecretVersion {
    /// Whether it signs at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.retired_at.is_none_or(|retired_at| now < retired_at)
    }
}

/// Where the numbers and dates of secrets are kept.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait PostbackSecretStore: Send + Sync {
    /// All secrets of an integrator, lowest number first, retired ones too.
    async fn list(&self, integrator_id: IntegratorId) -> Result<Vec<SecretVersion>, StoreError>;

    /// Adds one; `false` when its number is taken. MUST be [`StoreError::Rejected`] when there is no such integrator.
    async fn add(&self, version: SecretVersion) -> Result<bool, StoreError>;

    /// Sets when one signs no more, also when that was set before; `false` when there is no such secret.
    async fn retire(
        &self,
        integrator_id: IntegratorId,
        number: u32,
        at: Timestamp,
    ) -> Result<bool, StoreError>;
}

/// Makes secrets of master keys.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
pub trait SecretMaker: Send + Sync {
    /// The name of the master key that new secrets are made of.
    fn current_key(&self) -> String;

    /// The secret; `None` when there is no master key of that name.
    fn secret(&self, key_id: &str, integrator_id: IntegratorId, number: u32) -> Option<PostbackSecret>;
}

/// Why there is no secret, or it isn't changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SecretError {
    /// The master key that a secret is made of isn't configured.
    #[error(
        "the postback secret {number} is made of the master key {key_id}, which is not configured: add it to PIX_POSTBACK_KEYS"
    )]
    NoKey {
        /// The secret's number.
        number: u32,
        /// The key's name.
        key_id: String,
    },
    /// As many as may sign at once do.
    #[error("{MAX_LIVE_SECRETS} secrets of this integrator are live already: retire one first")]
    TooMany,
    /// The last one that signs, or the only one that will not end by itself, can't be retired.
    #[error("no other secret than {0} signs for good: add another one first")]
    Last(u32),
    /// All have ended.
    #[error(
        "no postback secret of an integrator signs any more, so nothing is sent to it: `pix-gateway secret rotate` makes a new one"
    )]
    NoneSigns,
    /// There is none with that number.
    #[error("this integrator has no secret {0}")]
    Unknown(u32),
    /// Of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Secrets, found and changed.
#[derive(Clone)]
pub struct PostbackSecrets {
    store: Arc<dyn PostbackSecretStore>,
    maker: Arc<dyn SecretMaker>,
    clock: Arc<dyn Clock>,
}

impl PostbackSecrets {
    /// Over these ports.
    pub fn new(
        store: Arc<dyn PostbackSecretStore>,
        maker: Arc<dyn SecretMaker>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { store, maker, clock }
    }

    /// All of an integrator, with what each is; the first one is made when there is none.
    pub async fn all(
        &self,
        integrator_id: IntegratorId,
    ) -> Result<Vec<(SecretVersion, PostbackSecret)>, SecretError> {
        let mut versions = self.store.list(integrator_id).await?;
        if versions.is_empty() {
            // Whoever was quicker made the same.
            self.store.add(self.version(integrator_id, 1)).await?;
            versions = self.store.list(integrator_id).await?;
        }
        let now = self.clock.now();
        let mut all = Vec::with_capacity(versions.len());
        for version in versions {
            match self.maker.secret(&version.key_id, integrator_id, version.number) {
                Some(secret) => all.push((version, secret)),
                // Its master key was taken away after it had ended, as is right.
                None if !version.is_live(now) => {}
                None => return Err(SecretError::NoKey { number: version.number, key_id: version.key_id }),
            }
        }
        Ok(all)
    }

    /// Those that sign now, oldest first: one at the least.
    pub async fn live(&self, integrator_id: IntegratorId) -> Result<Vec<PostbackSecret>, SecretError> {
        let now = self.clock.now();
        let all = self.all(integrator_id).await?.into_iter();
        let live: Vec<PostbackSecret> =
            all.filter(|(version, _)| version.is_live(now)).map(|(_, secret)| secret).collect();
        if live.is_empty() { Err(SecretError::NoneSigns) } else { Ok(live) }
    }

    /// Adds a secret. Those that are live now sign beside it for `overlap`; with `None` until each is retired.
    pub async fn rotate(
        &self,
        integrator_id: IntegratorId,
        overlap: Option<Duration>,
    ) -> Result<(SecretVersion, PostbackSecret), SecretError> {
        let now = self.clock.now();
        // What the older ones are isn't asked: the master key of one may be lost, and this is the way out.
        let mut before = self.store.list(integrator_id).await?;
        if before.is_empty() {
            self.store.add(self.version(integrator_id, 1)).await?;
            before = self.store.list(integrator_id).await?;
        }
        let live: Vec<&SecretVersion> = before.iter().filter(|one| one.is_live(now)).collect();
        if live.len() >= MAX_LIVE_SECRETS {
            return Err(SecretError::TooMany);
        }
        let number = before.iter().map(|one| one.number).max().unwrap_or(0).saturating_add(1);
        let version = self.version(integrator_id, number);
        if !self.store.add(version.clone()).await? {
            return Err(SecretError::TooMany);
        }
        if let Some(overlap) = overlap {
            let ends = now.plus(overlap);
            for older in live.iter().filter(|one| one.is_live(ends)) {
                self.store.retire(integrator_id, older.number, ends).await?;
            }
        }
        let secret = self.maker.secret(&version.key_id, integrator_id, number);
        let key_id = version.key_id.clone();
        secret.map(|secret| (version, secret)).ok_or(SecretError::NoKey { number, key_id })
    }

    /// Ends a secret now.
    pub async fn retire(&self, integrator_id: IntegratorId, number: u32) -> Result<(), SecretError> {
        let now = self.clock.now();
        let versions = self.store.list(integrator_id).await?;
        let Some(of) = versions.iter().find(|version| version.number == number) else {
            return Err(SecretError::Unknown(number));
        };
        // One that ends soon takes nobody's place that doesn't.
        let stays = |version: &SecretVersion| match (version.retired_at, of.retired_at) {
            (None, _) => true,
            (Some(ends), Some(of_ends)) => ends >= of_ends && version.is_live(now),
            (Some(_), None) => false,
        };
        if of.is_live(now) && !versions.iter().any(|version| version.number != number && stays(version)) {
            return Err(SecretError::Last(number));
        }
        self.store.retire(integrator_id, number, now).await?;
        Ok(())
    }

    fn version(&self, integrator_id: IntegratorId, number: u32) -> SecretVersion {
        SecretVersion {
            integrator_id,
            number,
            key_id: self.maker.current_key(),
            created_at: self.clock.now(),
            retired_at: None,
        }
    }
}
