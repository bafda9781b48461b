//! API keys: their secrets, and what narrows down who may use one for what, from where and for how long.

use std::net::IpAddr;

use thiserror::Error;

use super::SecretHash;
use super::scope::Scopes;
use crate::ids::IntegratorId;
use crate::ip::IpRange;
use crate::time::Timestamp;

/// How many secrets of a key work at once, at the most: one that is in use and one that takes its place.
pub const MAX_LIVE_SECRETS: usize = 2;

/// How many ranges the allow-list of a key has, at the most.
pub const MAX_ALLOWED_IPS: usize = 32;

/// A secret of a key, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySecret {
    /// Its number within the key: from 1, never given twice.
    pub number: u32,
    /// Its hash.
    pub hash: SecretHash,
    /// When it was made.
    pub created_at: Timestamp,
}

/// The secrets of a key that work: at least one, at most [`MAX_LIVE_SECRETS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySecrets {
    /// The only one, or the older of two.
    pub older: KeySecret,
    /// The one that takes its place.
    pub newer: Option<KeySecret>,
    /// How many the key ever had: the number of the last one that was made.
    pub made: u32,
}

/// Why the secrets of a key are not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RotationError {
    /// As many as may work at once do.
    #[error("{MAX_LIVE_SECRETS} secrets of this key work already: retire one first")]
    TooMany,
    /// The last one can't be retired.
    #[error("secret {0} is the only one that works: rotate the key first, or revoke it")]
    Last(u32),
    /// None with that number works.
    #[error("this key has no secret {0} that works")]
    Unknown(u32),
}

impl KeySecrets {
    /// Those of a new key.
    pub const fn first(hash: SecretHash, at: Timestamp) -> Self {
        Self { older: KeySecret { number: 1, hash, created_at: at }, newer: None, made: 1 }
    }

    /// Each of them, the older one first.
    pub fn iter(&self) -> impl Iterator<Item = &KeySecret> {
        std::iter::once(&self.older).chain(&self.newer)
    }

    /// With one more.
    pub fn add(self, hash: SecretHash, at: Timestamp) -> Result<Self, RotationError> {
        if self.newer.is_some() {
            return Err(RotationError::TooMany);
        }
        let number = self.made.saturating_add(1);
        Ok(Self { newer: Some(KeySecret { number, hash, created_at: at }), made: number, ..self })
    }

    /// Without the one of that number.
    pub fn retire(self, number: u32) -> Result<Self, RotationError> {
        match self.newer {
            Some(newer) if newer.number == number => Ok(Self { newer: None, ..self }),
            Some(newer) if self.older.number == number => Ok(Self { older: newer, newer: None, ..self }),
            None if self.older.number == number => Err(RotationError::Last(number)),
            _ => Err(RotationError::Unknown(number)),
        }
    }
}

/// An API key: what a token is asked for with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// The public identifier (`client_id` in OAuth2's words).
    pub public_id: String,
    /// Whose key it is.
    pub integrator_id: IntegratorId,
    /// The secrets that work.
    pub secrets: KeySecrets,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
    /// What it lets its holder do.
    pub scopes: Scopes,
    /// When it ends by itself, if it does.
    pub expires_at: Option<Timestamp>,
    /// Where it may be used from; everywhere when there is none.
    pub allowed_ips: Vec<IpRange>,
    /// When it was last used, give or take [`LAST_USED_INTERVAL`](super::usage::LAST_USED_INTERVAL).
    pub last_used_at: Option<Timestamp>,
}

impl ApiKey {
    /// A key with one secret, good for everything, from everywhere, until it is revoked.
    pub fn new(
        public_id: impl Into<String>,
        integrator_id: IntegratorId,
        hash: SecretHash,
        at: Timestamp,
    ) -> Self {
        Self {
            public_id: public_id.into(),
            integrator_id,
            secrets: KeySecrets::first(hash, at),
            created_at: at,
            revoked_at: None,
            scopes: Scopes::ALL,
            expires_at: None,
            allowed_ips: Vec::new(),
            last_used_at: None,
        }
    }

    /// Whether its time is over at `now`.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }

    /// Whether it works at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && !self.has_expired(now)
    }

    /// Whether it may be used from `address`.
    pub fn admits(&self, address: IpAddr) -> bool {
        self.allowed_ips.is_empty() || self.allowed_ips.iter().any(|range| range.contains(address))
    }
}

/// What is changed of a key; what is `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyChange {
    /// What it lets its holder do.
    pub scopes: Option<Scopes>,
    /// When it ends by itself; `Some(None)` for never.
    pub expires_at: Option<Option<Timestamp>>,
    /// Where it may be used from; empty for everywhere.
    pub allowed_ips: Option<Vec<IpRange>>,
}

impl KeyChange {
    /// Whether nothing is changed.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// `key`, changed.
    #[must_use]
    pub fn of(self, key: ApiKey) -> ApiKey {
        ApiKey {
            scopes: self.scopes.unwrap_or(key.scopes),
            expires_at: self.expires_at.unwrap_or(key.expires_at),
            allowed_ips: self.allowed_ips.unwrap_or(key.allowed_ips),
            ..key
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const T0: Timestamp = Timestamp::from_micros(1_000);

    fn hash(text: &str) -> SecretHash {
        SecretHash(text.to_owned())
    }

    fn numbers(secrets: &KeySecrets) -> Vec<u32> {
        secrets.iter().map(|secret| secret.number).collect()
    }

    #[test]
    fn a_key_has_two_secrets_at_the_most_and_one_at_the_least() {
        let one = KeySecrets::first(hash("1"), T0);
        assert_eq!(one.clone().retire(1), Err(RotationError::Last(1)));
        let two = one.add(hash("2"), T0).unwrap();
        assert_eq!(numbers(&two), [1, 2]);
        assert_eq!(two.iter().count(), MAX_LIVE_SECRETS);
        assert_eq!(two.clone().add(hash("3"), T0), Err(RotationError::TooMany));
        assert_eq!(two.clone().retire(3), Err(RotationError::Unknown(3)));
        let newer = two.retire(1).unwrap();
        assert_eq!((numbers(&newer), &newer.older.hash), (vec![2], &hash("2")));
    }

    #[test]
    fn a_number_is_never_given_twice() {
        let two = KeySecrets::first(hash("1"), T0).add(hash("2"), T0).unwrap();
        let older = two.retire(2).unwrap();
        assert_eq!(numbers(&older), [1]);
        assert_eq!(numbers(&older.add(hash("3"), T0).unwrap()), [1, 3]);
    }

    #[test]
    fn a_key_ends_when_it_expires_and_is_used_from_where_it_may() {
        let mut key = ApiKey::new("pk", IntegratorId(Uuid::nil()), hash("1"), T0);
        assert!(key.is_live(T0) && key.admits("203.0.113.9".parse().unwrap()));
        key.expires_at = Some(Timestamp::from_micros(2_000));
        assert!(key.is_live(Timestamp::from_micros(1_999)) && !key.is_live(Timestamp::from_micros(2_000)));
        key.allowed_ips = vec!["203.0.113.0/24".parse().unwrap(), "2001:db8::/48".parse().unwrap()];
        for (address, admitted) in
            [("203.0.113.9", true), ("203.0.112.9", false), ("2001:db8::1", true), ("2001:db9::1", false)]
        {
            assert_eq!(key.admits(address.parse().unwrap()), admitted, "{address}");
        }
    }
}
