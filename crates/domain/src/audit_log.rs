//! The journal of administrative acts: who did what to what, and why, in a chain of hashes.
//!
//! It owns the form of an entry, its hash, and the order of numbers. An entry is never changed or removed: each has the
//! hash of the one before it, so whoever edits one has to edit all that follow, and the newest hash, written down
//! elsewhere, proves the whole journal.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::error::StoreError;
use crate::ports::MAX_STALE_RETRIES;
use crate::text::is_unsafe;
use crate::time::{Clock, Timestamp};

/// The most characters of an operator's name.
pub const MAX_OPERATOR_CHARS: usize = 64;

/// The most characters of [`LogEntry::detail`].
pub const MAX_LOG_DETAIL_CHARS: usize = 500;

/// How many entries are verified at once.
const VERIFY_PAGE: u32 = 500;

/// The shortest and longest reason of an act, in characters: two of them and two names fit one line of evidence.
pub const REASON_CHARS: RangeInclusive<usize> = 3..=150;

/// The reason of an act, trimmed.
///
/// # Errors
///
/// A sentence, when it is too short or long, or has control, invisible or direction-changing characters: it is shown in lines
/// beside others, which it must not look like.
pub fn reason(text: &str) -> Result<&str, &'static str> {
    let text = text.trim();
    if !REASON_CHARS.contains(&text.chars().count()) {
        return Err("the reason must have 3 to 150 characters");
    }
    if text.chars().any(is_unsafe) {
        return Err("the reason must not contain control, invisible or direction-changing characters");
    }
    Ok(text)
}

/// Who administers: a name of 1 to 64 characters, none of them a control, invisible or direction-changing one, or blank at an
/// end. It says who claims to have acted; whoever can reach the database could claim any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator(String);

impl Operator {
    /// Reads a name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::kept(text).filter(|_| !text.chars().any(is_unsafe))
    }

    /// A name as it is kept: it may have invisible characters, which were let in once.
    pub fn kept(text: &str) -> Option<Self> {
        let fits = (1..=MAX_OPERATOR_CHARS).contains(&text.chars().count());
        (fits && text.trim() == text && !text.chars().any(char::is_control)).then(|| Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the names are one, whatever their case: one person is no second one by another spelling.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.0.to_lowercase() == other.0.to_lowercase()
    }
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// An integrator was made.
    IntegratorCreated,
    /// An integrator may no longer move money out.
    IntegratorSuspended,
    /// An integrator may move money out again.
    IntegratorResumed,
    /// An API key was made.
    KeyCreated,
    /// An API key was revoked.
    KeyRevoked,
    /// What an API key is good for was changed.
    KeyChanged,
    /// An API key got a second secret.
    KeySecretAdded,
    /// A secret of an API key was ended.
    KeySecretRetired,
    /// Fees were set.
    FeesSet,
    /// Limits of what may go out were set.
    LimitsSet,
    /// The money of the database is at another provider.
    ProviderChanged,
    /// An operator holds that an uncertain movement was completed.
    CompletedProposed,
    /// An operator holds that an uncertain movement failed.
    FailedProposed,
    /// A second operator agrees that it was completed.
    CompletedConfirmed,
    /// A second operator agrees that it failed.
    FailedConfirmed,
    /// A secret that postbacks are signed with was shown.
    PostbackSecretShown,
    /// A secret that postbacks are signed with was added.
    PostbackSecretAdded,
    /// One of them was ended.
    PostbackSecretRetired,
    /// Which events go to an integrator's postback URLs was changed.
    PostbackScopeSet,
    /// Postbacks were sent again.
    PostbacksReplayed,
    /// An endpoint that was switched off was switched on.
    EndpointEnabled,
    /// The books were restored from a backup: no money goes out.
    BooksRestored,
    /// After a restore, money goes out again.
    OutflowOpened,
    /// What is held of a person was shown.
    PersonExported,
    /// A person was erased.
    PersonErased,
}

impl Action {
    /// Every one.
    pub const ALL: [Self; 25] = [
        Self::IntegratorCreated,
        Self::IntegratorSuspended,
        Self::IntegratorResumed,
        Self::KeyCreated,
        Self::KeyRevoked,
        Self::KeyChanged,
        Self::KeySecretAdded,
        Self::KeySecretRetired,
        Self::FeesSet,
        Self::LimitsSet,
        Self::ProviderChanged,
        Self::CompletedProposed,
        Self::FailedProposed,
        Self::CompletedConfirmed,
        Self::FailedConfirmed,
        Self::PostbackSecretShown,
        Self::PostbackSecretAdded,
        Self::PostbackSecretRetired,
        Self::PostbackScopeSet,
        Self::PostbacksReplayed,
        Self::EndpointEnabled,
        Self::BooksRestored,
        Self::OutflowOpened,
        Self::PersonExported,
        Self::PersonErased,
    ];

    /// The stable name, as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IntegratorCreated => "integrator.created",
            Self::IntegratorSuspended => "integrator.suspended",
            Self::IntegratorResumed => "integrator.resumed",
            Self::KeyCreated => "key.created",
            Self::KeyRevoked => "key.revoked",
            Self::KeyChanged => "key.changed",
            Self::KeySecretAdded => "key.secret_added",
            Self::KeySecretRetired => "key.secret_retired",
            Self::FeesSet => "fees.set",
            Self::LimitsSet => "limits.set",
            Self::ProviderChanged => "provider.changed",
            Self::CompletedProposed => "resolve.completed_proposed",
            Self::FailedProposed => "resolve.failed_proposed",
            Self::CompletedConfirmed => "resolve.completed_confirmed",
            Self::FailedConfirmed => "resolve.failed_confirmed",
            Self::PostbackSecretShown => "postback_secret.shown",
            Self::PostbackSecretAdded => "postback_secret.added",
            Self::PostbackSecretRetired => "postback_secret.retired",
            Self::PostbackScopeSet => "postback_scope.set",
            Self::PostbacksReplayed => "postbacks.replayed",
            Self::EndpointEnabled => "endpoint.enabled",
            Self::BooksRestored => "books.restored",
            Self::OutflowOpened => "outflow.opened",
            Self::PersonExported => "person.exported",
            Self::PersonErased => "person.erased",
        }
    }

    /// The action with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == name)
    }
}

/// A SHA-256 hash of the journal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LogHash(pub [u8; 32]);

impl LogHash {
    /// What stands before the first entry.
    pub const NONE: Self = Self([0; 32]);

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0_u8; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(place * 2..place * 2 + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for LogHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for LogHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogHash({self})")
    }
}

/// One act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Its number: 1, 2, 3, … without gaps.
    pub number: u64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub operator: Operator,
    /// What.
    pub action: Action,
    /// To what: an id, or a name.
    pub subject: String,
    /// How, or why. Never a secret.
    pub detail: String,
    /// The hash of the entry before; [`LogHash::NONE`] for the first.
    pub previous: LogHash,
    /// The hash of all the above.
    pub hash: LogHash,
}

impl LogEntry {
    /// What the hash of this entry must be: SHA-256 over the hash before, the number, the time (microseconds) and the
    /// texts, each number as eight bytes and each text after its length in bytes.
    pub fn computed_hash(&self) -> LogHash {
        let mut hash = Sha256::new();
        hash.update(self.previous.0);
        hash.update(self.number.to_be_bytes());
        hash.update(self.at.micros().to_be_bytes());
        for text in [self.operator.as_str(), self.action.as_str(), &self.subject, &self.detail] {
            hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(text.as_bytes());
        }
        LogHash(hash.finalize().into())
    }
}

/// Where the journal is kept.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait AuditLogStore: Send + Sync {
    /// Keeps an entry, durably; `false`, with nothing kept, when its number is taken. MUST NOT have any way to change or
    /// remove one.
    async fn append(&self, entry: LogEntry) -> Result<bool, StoreError>;

    /// Up to `limit` entries with a number above `after`, in order.
    async fn list(&self, after: u64, limit: u32) -> Result<Vec<LogEntry>, StoreError>;

    /// The newest entry.
    async fn newest(&self) -> Result<Option<LogEntry>, StoreError>;

    /// Up to `limit` entries about `subject`, newest first.
    async fn about(&self, subject: &str, limit: u32) -> Result<Vec<LogEntry>, StoreError>;
}

/// What is wrong with the journal.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BrokenLog {
    /// An entry is missing, or its number was changed.
    #[error("entry {0} is missing")]
    Missing(u64),
    /// An entry doesn't follow from the one before it.
    #[error("entry {0} does not follow from the one before it: one of the two was changed")]
    Unchained(u64),
    /// An entry was changed.
    #[error("entry {0} was changed after it was written")]
    Changed(u64),
}

/// Writes and verifies the journal.
#[derive(Clone)]
pub struct AuditLog {
    store: Arc<dyn AuditLogStore>,
    clock: Arc<dyn Clock>,
}

impl AuditLog {
    /// A journal in `store`.
    pub const fn new(store: Arc<dyn AuditLogStore>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// Writes an act down, after all that is there. [`StoreError::Unavailable`] when others kept writing at the same time.
    pub async fn record(
        &self,
        operator: &Operator,
        action: Action,
        subject: &str,
        detail: &str,
    ) -> Result<LogEntry, StoreError> {
        for _ in 0..MAX_STALE_RETRIES {
            let (number, previous) = match self.store.newest().await? {
                Some(newest) => (newest.number.saturating_add(1), newest.hash),
                None => (1, LogHash::NONE),
            };
            let mut entry = LogEntry {
                number,
                at: self.clock.now(),
                operator: operator.clone(),
                action,
                subject: subject.to_owned(),
                detail: detail.chars().take(MAX_LOG_DETAIL_CHARS).collect(),
                previous,
                hash: LogHash::NONE,
            };
            entry.hash = entry.computed_hash();
            match self.store.append(entry.clone()).await {
                Ok(true) => return Ok(entry),
                Ok(false) => {}
                Err(StoreError::Unknown(why)) => {
                    // Its number tells: it is ours, or another's, or free still.
                    let found = self.store.list(number.saturating_sub(1), 1).await?;
                    match found.first() {
                        Some(found) if *found == entry => return Ok(entry),
                        Some(_) => {}
                        None => return Err(StoreError::Unknown(why)),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::Unavailable("others kept writing to the audit log".into()))
    }

    /// The newest acts on `subject`, newest first.
    pub async fn about(&self, subject: &str, limit: u32) -> Result<Vec<LogEntry>, StoreError> {
        self.store.about(subject, limit).await
    }

    /// Follows the chain from the first entry to the last: how many there are and the newest hash, or the first thing that
    /// is wrong.
    pub async fn verify(&self) -> Result<Result<(u64, LogHash), BrokenLog>, StoreError> {
        let (mut number, mut hash) = (0_u64, LogHash::NONE);
        loop {
            let page = self.store.list(number, VERIFY_PAGE).await?;
            if page.is_empty() {
                return Ok(Ok((number, hash)));
            }
            for entry in page {
                number = number.saturating_add(1);
                let broken = if entry.number != number {
                    BrokenLog::Missing(number)
                } else if entry.previous != hash {
                    BrokenLog::Unchained(number)
                } else if entry.computed_hash() != entry.hash {
                    BrokenLog::Changed(number)
                } else {
                    hash = entry.hash;
                    continue;
                };
                return Ok(Err(broken));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_found_by_their_names() {
        for action in Action::ALL {
            assert_eq!(Action::from_name(action.as_str()), Some(action));
        }
        assert_eq!(Action::from_name("coffee.made"), None);
    }

    #[test]
    fn operators_have_visible_names_without_blanks_around() {
        assert!(Operator::parse("Ana Souza").is_some());
        for name in ["", " ana", "ana ", "a\nb", &"x".repeat(65)] {
            assert_eq!(Operator::parse(name), None, "{name:?}");
        }
    }

    #[test]
    fn a_hash_is_read_as_it_is_written() {
        let hash = LogHash([0xab; 32]);
        assert_eq!(LogHash::parse(&hash.to_string()), Some(hash));
        for text in ["", "ab", &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(LogHash::parse(text), None);
        }
    }

    #[test]
    fn every_part_of_an_entry_is_in_its_hash() {
        let entry = LogEntry {
            number: 1,
            at: Timestamp::from_micros(5),
            operator: Operator("ana".into()),
            action: Action::FeesSet,
            subject: "a".into(),
            detail: "b".into(),
            previous: LogHash::NONE,
            hash: LogHash::NONE,
        };
        let changes: [fn(&mut LogEntry); 7] = [
            |entry| entry.number = 2,
            |entry| entry.at = Timestamp::from_micros(6),
            |entry| entry.operator = Operator("eva".into()),
            |entry| entry.action = Action::KeyRevoked,
            |entry| entry.subject = "ab".into(),
            |entry| entry.detail = "c".into(),
            |entry| entry.previous = LogHash([1; 32]),
        ];
        for change in changes {
            let mut other = entry.clone();
            change(&mut other);
            assert_ne!(other.computed_hash(), entry.computed_hash());
        }
        let moved = LogEntry { subject: String::new(), detail: "ab".into(), ..entry.clone() };
        assert_ne!(moved.computed_hash(), entry.computed_hash());
    }
}
