//! Seals: the book of each integrator in a chain of hashes, made behind the writes and proven as it is made.
//!
//! A **seal** stands for a stretch of a book: all entries after the seal before it, up to one. It says what the five
//! accounts come to there, and has a hash over the hash before it and every posting of the stretch. So whoever changes,
//! removes, swaps or adds a posting that is sealed has to make that seal and all later ones anew; and the newest hash,
//! written down elsewhere, proves the whole book.
//!
//! Sealing is an audit at the same time: what is wrong with a stretch is found while it is read, and a stretch that is wrong
//! isn't sealed ([`service`]).
//!
//! # The hash of a seal
//!
//! SHA-256 over these bytes, in this order. Numbers are big-endian of eight bytes, those of money and time signed; ids are
//! their 16 bytes; a text is its length in bytes as a number, then its UTF-8 bytes. So no two books have the same bytes.
//!
//! | Bytes | Of |
//! |---|---|
//! | 32 | the hash of the seal before; zeros for the first |
//! | for each posting: | |
//! | 8, 16 | the number of its entry, the id of its integrator |
//! | text, text | where it is taken from, where it goes ([`Account::as_str`](crate::wallet::Account::as_str)) |
//! | 8 | how much, in centavos |
//! | text | why ([`Reason::as_str`](crate::wallet::Reason::as_str)) |
//! | text, 16 | for which record: its kind ([`ResourceKind::as_str`](crate::ids::ResourceKind::as_str)) and id |
//! | 8, 8 | `available` and `held` after it, in centavos |
//! | 8 | when, in microseconds since 1970 |
//! | in the end: | |
//! | 8, 8, 8 | the number of the seal, the number of its last entry, when it was made |

pub mod service;
pub mod store;

use std::fmt;

use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::audit::{EntryFault, Reckoning};
use crate::audit_log::LogHash;
use crate::ids::IntegratorId;
use crate::time::Timestamp;
use crate::wallet::{Entry, Wallet};

/// What [`root`] begins with: no seal's bytes do, since those begin with a hash.
const ROOT_NAME: &[u8] = b"pix-gateway seals, root 1\0";

/// A SHA-256 hash of a book.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SealHash(pub [u8; 32]);

impl SealHash {
    /// What stands before the first seal.
    pub const NONE: Self = Self([0; 32]);

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        LogHash::parse(text).map(|hash| Self(hash.0))
    }
}

impl fmt::Display for SealHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        LogHash(self.0).fmt(f)
    }
}

impl fmt::Debug for SealHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealHash({self})")
    }
}

/// A seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// Whose book.
    pub integrator_id: IntegratorId,
    /// Its number: 1, 2, 3, … without gaps.
    pub number: u64,
    /// What the book comes to at the last entry of its stretch.
    pub reckoning: Reckoning,
    /// The hash of the one before and of the stretch.
    pub hash: SealHash,
    /// When it was made.
    pub sealed_at: Timestamp,
}

impl Seal {
    /// The number of the last entry of its stretch.
    pub const fn through(&self) -> u64 {
        self.reckoning.wallet.entries
    }
}

/// Where a chain stands, and the wallet beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Whose.
    pub integrator_id: IntegratorId,
    /// The wallet's row.
    pub wallet: Wallet,
    /// The newest seal; `None` while nothing is sealed.
    pub newest: Option<Seal>,
}

impl Head {
    /// How many entries wait to be sealed.
    pub fn unsealed(&self) -> u64 {
        self.wallet.entries.saturating_sub(self.newest.map_or(0, |seal| seal.through()))
    }

    /// Whether the wallet's row says what the newest seal says: then nothing waits.
    pub fn is_sealed(&self) -> bool {
        self.wallet == self.newest.map(|seal| seal.reckoning.wallet).unwrap_or_default()
    }
}

/// What follows a seal, from one consistent view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsealed {
    /// The newest seal; `None` while nothing is sealed.
    pub newest: Option<Seal>,
    /// The wallet's row.
    pub wallet: Wallet,
    /// The first entries after that seal, in order.
    pub entries: Vec<Entry>,
}

/// What is wrong with a chain.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SealFault {
    /// An entry isn't what it must be.
    #[error(transparent)]
    Entry(#[from] EntryFault),
    /// The book ends before the seal does.
    #[error("entry {0} is missing")]
    Missing(u64),
    /// The wallet's row isn't what the entries come to.
    #[error("the wallet says {}; its postings say {}", told(.says), told(.postings))]
    Wallet {
        /// The row.
        says: Wallet,
        /// What the entries come to.
        postings: Wallet,
    },
    /// The seal's number or its last entry doesn't follow from the seal before it.
    #[error("the seal does not follow from the one before it: one of the two was changed, or one is missing")]
    Unchained,
    /// The seal says other balances than its entries come to.
    #[error("the balances of the seal are not those of its entries")]
    Balances,
    /// The entries, the seal or the hash before it are others than those that were sealed.
    #[error("the hash is not that of the entries: an entry, the seal or the one before it was changed")]
    Hash,
    /// What is stored can't be understood.
    #[error("{0}")]
    Unreadable(String),
}

impl SealFault {
    /// The stable name, as stored.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Entry(EntryFault::OutOfPlace { .. }) => "out_of_place",
            Self::Entry(EntryFault::Foreign(_)) => "foreign",
            Self::Entry(EntryFault::MovesNothing(_)) => "moves_nothing",
            Self::Entry(EntryFault::OtherAccounts(_)) => "other_accounts",
            Self::Entry(EntryFault::OtherKind(_)) => "other_kind",
            Self::Entry(EntryFault::BelowZero(_)) => "below_zero",
            Self::Entry(EntryFault::NotFollowing(_)) => "not_following",
            Self::Missing(_) => "missing",
            Self::Wallet { .. } => "wallet",
            Self::Unchained => "unchained",
            Self::Balances => "balances",
            Self::Hash => "hash",
            Self::Unreadable(_) => "unreadable",
        }
    }
}

fn told(wallet: &Wallet) -> String {
    let Wallet { available, held, owed, entries } = wallet;
    format!("available {available}, held {held}, owed {owed}, {entries} entries")
}

/// Something that is wrong with one stretch of a book.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("integrator {integrator_id}, seal {seal}, entries {from} to {to}: {fault}")]
pub struct SealDifference {
    /// Whose book.
    pub integrator_id: IntegratorId,
    /// The number of the seal, or the one that it would have.
    pub seal: u64,
    /// The first entry of its stretch.
    pub from: u64,
    /// The last entry of its stretch, as far as it was read.
    pub to: u64,
    /// What is wrong.
    pub fault: SealFault,
}

/// A difference as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptDifference {
    /// Whose book: one integrator has one, for sealing stops at it.
    pub integrator_id: IntegratorId,
    /// The number that the seal would have.
    pub seal: u64,
    /// The first entry of its stretch.
    pub from: u64,
    /// The last entry of its stretch, as far as it was read.
    pub to: u64,
    /// What is wrong, by its [`code`](SealFault::code).
    pub code: String,
    /// What is wrong, in a sentence. Amounts and numbers, and nobody's name.
    pub what: String,
    /// When it was found.
    pub found_at: Timestamp,
}

impl KeptDifference {
    /// `difference`, found at that time.
    pub fn of(difference: &SealDifference, found_at: Timestamp) -> Self {
        let SealDifference { integrator_id, seal, from, to, fault } = difference;
        let (code, what) = (fault.code().to_owned(), fault.to_string());
        Self { integrator_id: *integrator_id, seal: *seal, from: *from, to: *to, code, what, found_at }
    }

    /// Whether this is `difference`, whenever it was found.
    pub fn is(&self, difference: &SealDifference) -> bool {
        *self == Self::of(difference, self.found_at)
    }
}

/// As an operator reads it.
impl fmt::Display for KeptDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { integrator_id, seal, from, to, what, .. } = self;
        write!(f, "integrator {integrator_id}, seal {seal}, entries {from} to {to}: {what}")
    }
}

/// A stretch, on its way to a seal.
#[derive(Debug, Clone)]
pub struct Stretch {
    integrator_id: IntegratorId,
    number: u64,
    from: u64,
    reckoning: Reckoning,
    hash: Sha256,
}

impl Stretch {
    /// An empty one, after `newest`; at the beginning of the book without.
    pub fn after(integrator_id: IntegratorId, newest: Option<&Seal>) -> Self {
        let mut hash = Sha256::new();
        hash.update(newest.map_or(SealHash::NONE, |seal| seal.hash).0);
        let reckoning = newest.map(|seal| seal.reckoning).unwrap_or_default();
        Self {
            integrator_id,
            number: newest.map_or(0, |seal| seal.number).saturating_add(1),
            from: reckoning.wallet.entries.saturating_add(1),
            reckoning,
            hash,
        }
    }

    /// Takes one more entry in; the first thing that is wrong with it, though it is taken in all the same.
    pub fn follow(&mut self, entry: &Entry) -> Result<(), EntryFault> {
        feed(&mut self.hash, entry);
        self.reckoning.follow(self.integrator_id, entry).into_iter().next().map_or(Ok(()), Err)
    }

    /// What the book comes to here.
    pub const fn reckoning(&self) -> &Reckoning {
        &self.reckoning
    }

    /// Says that something is wrong with this stretch.
    pub fn differs(&self, fault: SealFault) -> SealDifference {
        let Self { integrator_id, number, from, .. } = *self;
        let to = self.reckoning.wallet.entries.max(from);
        SealDifference { integrator_id, seal: number, from, to, fault }
    }

    /// The seal of what was taken in, made at that time.
    pub fn seal(self, sealed_at: Timestamp) -> Seal {
        let Self { integrator_id, number, reckoning, mut hash, .. } = self;
        hash.update(number.to_be_bytes());
        hash.update(reckoning.wallet.entries.to_be_bytes());
        hash.update(sealed_at.micros().to_be_bytes());
        Seal { integrator_id, number, reckoning, hash: SealHash(hash.finalize().into()), sealed_at }
    }
}

fn feed(hash: &mut Sha256, entry: &Entry) {
    let posting = &entry.posting;
    hash.update(entry.number.to_be_bytes());
    hash.update(entry.integrator_id.0.as_bytes());
    feed_text(hash, posting.debit.as_str());
    feed_text(hash, posting.credit.as_str());
    hash.update(posting.amount.get().to_be_bytes());
    feed_text(hash, posting.reason.as_str());
    feed_text(hash, posting.resource.kind.as_str());
    hash.update(posting.resource.id.as_bytes());
    hash.update(entry.available_after.get().to_be_bytes());
    hash.update(entry.held_after.get().to_be_bytes());
    hash.update(entry.at.micros().to_be_bytes());
}

fn feed_text(hash: &mut Sha256, text: &str) {
    hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
    hash.update(text.as_bytes());
}

/// One hash over the newest seals of all integrators, whatever order they come in: SHA-256 over a name of this form, and of
/// each seal, in the order of integrators, the integrator's id, the seal's number and its hash.
pub fn root(newest: impl IntoIterator<Item = Seal>) -> SealHash {
    let mut seals: Vec<Seal> = newest.into_iter().collect();
    seals.sort_by_key(|seal| seal.integrator_id);
    let mut hash = Sha256::new();
    hash.update(ROOT_NAME);
    for seal in seals {
        hash.update(seal.integrator_id.0.as_bytes());
        hash.update(seal.number.to_be_bytes());
        hash.update(seal.hash.0);
    }
    SealHash(hash.finalize().into())
}
