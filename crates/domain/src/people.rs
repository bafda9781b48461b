//! Personal data: of whom something is held, how it is put under a key, and how it is erased (LGPD, Lei 13.709/2018, art. 18).
//!
//! | Step | What becomes of the data | Reads as |
//! |---|---|---|
//! | a record is open, or ended lately | it stands in the record | what it is |
//! | [`PersonStore::lock`] | it is put under the key of that person; a worker does this behind the writes | what it is |
//! | [`People::erase`] | the key is destroyed | nothing: [`Charge::payer_erased`], [`Withdrawal::payee_erased`] |
//!
//! Amounts, fees, postings, totals and the chain of hashes name nobody and stay as they are (art. 16, I: what the law asks to be
//! kept is kept). A record in which money may still move is not erased: it can't be ended without its payee.
//!
//! A person is who goes by one document, or by one PIX key where there is no document; each integrator's are apart.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::charges::store::ChargeStore;
use crate::charges::{Charge, Receipt};
use crate::error::StoreError;
use crate::ids::{ChargeId, IntegratorId, ResourceKind, ResourceRef, WithdrawalId};
use crate::party::{Document, PixKey, PixKeyType};
use crate::ports::Stores;
use crate::provider::{Party, ProviderBody};
use crate::refunds::Refund;
use crate::refunds::store::RefundStore;
use crate::text::Email;
use crate::time::{Clock, Timestamp};
use crate::withdrawals::Withdrawal;
use crate::withdrawals::service::twin_keys;
use crate::withdrawals::store::WithdrawalStore;

/// How many records are looked at in one read of the store.
pub const WALK_PAGE: u32 = 1_000;

/// How many records are locked in one transaction.
pub const LOCK_BATCH: usize = 100;

/// How long nothing must have happened to a record before it is erased: longer than any limit of a day, or look for a double,
/// goes back.
pub const ERASABLE_AFTER: Duration = Duration::from_hours(48);

/// How often erasing looks again for what came in between.
const ERASE_ROUNDS: u32 = 3;

/// Which records hold personal data of their own.
pub const KINDS: [ResourceKind; 2] = [ResourceKind::Charge, ResourceKind::Withdrawal];

/// Who a record is about. `Debug` never shows the whole.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Person {
    /// Who goes by this document.
    Document(Document),
    /// Who goes by this PIX key, where no document is given; of charges, by this e-mail.
    Key(PixKey),
}

impl Person {
    /// Who goes by this key: by its document, when the key is one.
    pub fn of_key(key: &PixKey) -> Self {
        match (key.kind(), Document::parse(key.as_str())) {
            (PixKeyType::Cpf | PixKeyType::Cnpj, Ok(document)) => Self::Document(document),
            _ => Self::Key(key.clone()),
        }
    }

    fn of_payer(payer: &Party, email: Option<&Email>) -> Option<Self> {
        let by_email = || PixKey::parse(PixKeyType::Email, email?.as_str()).ok().map(Self::Key);
        payer.document.clone().map(Self::Document).or_else(by_email)
    }

    /// What stores know the person by. Personal data.
    pub fn subject(&self) -> String {
        match self {
            Self::Document(document) => format!("document:{}", document.as_str()),
            Self::Key(key) => format!("key:{}:{}", key.kind(), key.as_str()),
        }
    }
}

/// With the ends hidden, as it may be in a log.
impl fmt::Display for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Document(document) => f.write_str(&document.masked()),
            Self::Key(key) => f.write_str(&key.masked()),
        }
    }
}

impl Charge {
    /// Who was asked to pay; `None` when nothing tells.
    pub fn payer_person(&self) -> Option<Person> {
        Person::of_payer(&self.payer, self.payer_email.as_ref())
    }

    /// Who paid first.
    pub fn paid_by_person(&self) -> Option<Person> {
        self.credited.as_ref().and_then(|credited| Person::of_payer(&credited.paid_by, None))
    }

    /// Forgets who was asked to pay.
    pub fn erase_payer(&mut self) {
        self.payer = Party::default();
        (self.payer_email, self.payer_question) = (None, None);
        if let Some(ticket) = &mut self.ticket {
            ticket.body = ProviderBody::erased();
        }
        self.payer_erased = true;
    }

    /// Forgets who paid first.
    pub fn erase_paid_by(&mut self) {
        if let Some(credited) = &mut self.credited {
            credited.paid_by = Party::default();
        }
    }
}

impl Receipt {
    /// Who paid.
    pub fn person(&self) -> Option<Person> {
        Person::of_payer(&self.payment.payer, None)
    }
}

impl Withdrawal {
    /// Who was paid; `None` when that is erased.
    pub fn person(&self) -> Option<Person> {
        if self.payee_erased {
            return None;
        }
        let document = self.payee.party.document.clone().map(Person::Document);
        Some(document.unwrap_or_else(|| Person::of_key(&self.payee.key)))
    }

    /// Forgets who was paid: the key becomes [`PixKey::erased`].
    pub fn erase_payee(&mut self) {
        self.payee.party = Party::default();
        self.payee.key = PixKey::erased();
        self.description = None;
        if self.provider_body.is_some() {
            self.provider_body = Some(ProviderBody::erased());
        }
        self.payee_erased = true;
    }
}

/// Where a walk over the records of one integrator stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk {
    /// Whose.
    pub integrator_id: IntegratorId,
    /// Of what kind; one of [`KINDS`].
    pub kind: ResourceKind,
    /// The last record that was looked at; `None` to begin with the first.
    pub after: Option<Uuid>,
    /// How many are looked at.
    pub limit: u32,
}

impl Walk {
    /// Over all of one kind, from the first.
    pub const fn of(integrator_id: IntegratorId, kind: ResourceKind) -> Self {
        Self { integrator_id, kind, after: None, limit: WALK_PAGE }
    }
}

/// What one step of a walk found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Walked {
    /// The records, in the order of their ids, each with whether what was looked for is locked in it.
    pub found: Vec<(Uuid, bool)>,
    /// The last record that was looked at; `None` when there is none after it.
    pub next: Option<Uuid>,
    /// How many were looked at.
    pub looked_at: u32,
}

/// What is destroyed of one person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erasure {
    /// Whose records.
    pub integrator_id: IntegratorId,
    /// Of whom.
    pub person: Person,
    /// The charges and withdrawals that name the person.
    pub records: Vec<ResourceRef>,
    /// Our names for them and their refunds at the provider: ended callbacks about these are removed.
    pub references: Vec<Uuid>,
    /// Keys of twins to be removed, which could be guessed from a document: those whose newest request is one of [`Self::records`].
    /// Others stand for what somebody else is paid, or for what was asked for since.
    pub twins: Vec<Uuid>,
}

/// Where personal data is put under keys, and keys are destroyed.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait PersonStore: Send + Sync {
    /// Which of the next records of a walk name this person: in the record, in what was received on it, or locked.
    async fn naming(&self, walk: Walk, person: &Person) -> Result<Walked, StoreError>;

    /// Which of the next records of a walk can be locked: ended, not asked about any more, changed before `untouched_since`,
    /// about a person, and with data that is not locked.
    async fn lockable(&self, walk: Walk, untouched_since: Timestamp) -> Result<Walked, StoreError>;

    /// Puts the data of those of `ids` that can be locked (as [`Self::lockable`] says) under the keys of their persons, which are
    /// made when there are none; how many it did. All reads MUST go on answering the same, and whatever changes a record at the
    /// same moment MUST win.
    async fn lock(
        &self,
        integrator_id: IntegratorId,
        kind: ResourceKind,
        ids: Vec<Uuid>,
        untouched_since: Timestamp,
    ) -> Result<u64, StoreError>;

    /// Destroys the key of a person, and all that goes by it, in one transaction; `false` when there is no such key. From then
    /// on nothing that was locked with it can be read, on no node.
    async fn erase(&self, erasure: Erasure) -> Result<bool, StoreError>;
}

/// Finding and erasing persons.
#[derive(Clone)]
pub struct People {
    store: Arc<dyn PersonStore>,
    charges: Arc<dyn ChargeStore>,
    withdrawals: Arc<dyn WithdrawalStore>,
    refunds: Arc<dyn RefundStore>,
    clock: Arc<dyn Clock>,
}

/// A record that names a person, with what was received on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// A charge that the person was to pay, or paid, with what was received on it and what was sent back.
    Charge(Box<Charge>, Vec<Receipt>, Vec<Refund>),
    /// A withdrawal to the person.
    Withdrawal(Box<Withdrawal>),
}

impl Held {
    /// What it is.
    pub fn resource(&self) -> ResourceRef {
        match self {
            Self::Charge(charge, ..) => charge.resource(),
            Self::Withdrawal(withdrawal) => withdrawal.resource(),
        }
    }
}

/// What is held of a person, a part at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldPage {
    /// The records.
    pub held: Vec<Held>,
    /// How to go on; `None` at the end.
    pub next: Option<Walk>,
}

/// What became of erasing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Erased {
    /// The records from which the person was erased.
    pub records: Vec<ResourceRef>,
    /// Records that name the person still: money may move in them, or did less than [`ERASABLE_AFTER`] ago. When there are some, the
    /// person has a key again, or still.
    pub open: Vec<ResourceRef>,
}

impl People {
    /// Over these ports.
    pub fn new(store: Arc<dyn PersonStore>, records: &Stores, clock: Arc<dyn Clock>) -> Self {
        let Stores { charges, withdrawals, refunds, .. } = records.clone();
        Self { store, charges, withdrawals, refunds, clock }
    }

    /// What one integrator's records hold of a person: begin with [`Walk::of`] the first of [`KINDS`], and go on with
    /// [`HeldPage::next`]. Errors are those of the store.
    pub async fn held(&self, person: &Person, walk: Walk) -> Result<HeldPage, StoreError> {
        let walked = self.store.naming(walk, person).await?;
        let mut held = Vec::new();
        for (id, _) in walked.found {
            held.extend(self.record(walk.integrator_id, walk.kind, id).await?);
        }
        Ok(HeldPage { held, next: following(walk, walked.next) })
    }

    async fn record(
        &self,
        integrator_id: IntegratorId,
        kind: ResourceKind,
        id: Uuid,
    ) -> Result<Option<Held>, StoreError> {
        Ok(match kind {
            ResourceKind::Charge => {
                let id = ChargeId(id);
                let Some(charge) = self.charges.find(integrator_id, id).await? else { return Ok(None) };
                let receipts = self.charges.receipts(integrator_id, id).await?;
                let refunds = self.refunds.list_of_charge(integrator_id, id).await?;
                Some(Held::Charge(Box::new(charge), receipts, refunds))
            }
            ResourceKind::Withdrawal => {
                let found = self.withdrawals.find(integrator_id, WithdrawalId(id)).await?;
                found.map(|withdrawal| Held::Withdrawal(Box::new(withdrawal)))
            }
            ResourceKind::Refund | ResourceKind::Split => None,
        })
    }

    /// Erases a person from one integrator's records: all that has ended is locked, and the key destroyed. It is not, while there is a
    /// record that can't be locked. Done again it finds nothing and is no error. Errors are those of the store.
    pub async fn erase(&self, integrator_id: IntegratorId, person: &Person) -> Result<Erased, StoreError> {
        let mut erased = Erased::default();
        for _ in 0..ERASE_ROUNDS {
            let (found, erasure) = self.find(integrator_id, person).await?;
            if found.is_empty() {
                return Ok(erased);
            }
            let untouched_since = self.clock.now().minus(ERASABLE_AFTER);
            for kind in KINDS {
                let of_kind = found.iter().filter(|(of, locked)| of.kind == kind && !locked);
                let ids: Vec<Uuid> = of_kind.map(|(of, _)| of.id).collect();
                self.lock_all(integrator_id, kind, &ids, untouched_since).await?;
            }
            let (found, _) = self.find(integrator_id, person).await?;
            erased.open = found.iter().filter(|(_, locked)| !locked).map(|(of, _)| *of).collect();
            if !erased.open.is_empty() {
                return Ok(erased);
            }
            erased.records.extend(erasure.records.iter().copied());
            self.store.erase(erasure).await?;
        }
        // Made or changed meanwhile, again and again.
        let (found, _) = self.find(integrator_id, person).await?;
        erased.open = found.into_iter().map(|(of, _)| of).collect();
        Ok(erased)
    }

    /// Locks these in batches; how many it did. A batch with a damaged record goes on one by one, without that.
    async fn lock_all(
        &self,
        integrator_id: IntegratorId,
        kind: ResourceKind,
        ids: &[Uuid],
        untouched_since: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut locked = 0_u64;
        for batch in ids.chunks(LOCK_BATCH) {
            let done = match self.store.lock(integrator_id, kind, batch.to_vec(), untouched_since).await {
                Err(StoreError::Damaged(_)) => {
                    let mut done = 0_u64;
                    for id in batch {
                        match self.store.lock(integrator_id, kind, vec![*id], untouched_since).await {
                            Err(StoreError::Damaged(_)) => {}
                            one => done = done.saturating_add(one?),
                        }
                    }
                    done
                }
                done => done?,
            };
            locked = locked.saturating_add(done);
        }
        Ok(locked)
    }

    /// All records that name a person, each with whether the person is locked in it, and what to destroy.
    async fn find(
        &self,
        integrator_id: IntegratorId,
        person: &Person,
    ) -> Result<(Vec<(ResourceRef, bool)>, Erasure), StoreError> {
        let mut found = Vec::new();
        let (mut references, mut twins) = (Vec::new(), Vec::new());
        for kind in KINDS {
            let mut walk = Walk::of(integrator_id, kind);
            loop {
                let walked = self.store.naming(walk, person).await?;
                for (id, locked) in walked.found {
                    found.push((ResourceRef { integrator_id, kind, id }, locked));
                    let Some(held) = self.record(integrator_id, kind, id).await? else { continue };
                    match held {
                        Held::Charge(charge, _, refunds) => {
                            references.push(charge.reference().0);
                            references.extend(refunds.iter().map(|refund| refund.reference().0));
                        }
                        Held::Withdrawal(withdrawal) => {
                            references.push(withdrawal.reference().0);
                            twins.extend(twin_keys(&withdrawal.payee, withdrawal.amount));
                        }
                    }
                }
                let Some(next) = walked.next else { break };
                walk.after = Some(next);
            }
        }
        let records = found.iter().map(|(of, _)| *of).collect();
        let erasure = Erasure { integrator_id, person: person.clone(), records, references, twins };
        Ok((found, erasure))
    }

    /// Looks at the next records of a walk and locks those that can be, `most` of them. How many it locked, how many it looked at,
    /// and the walk after that. Errors are those of the store.
    pub async fn lock_next(
        &self,
        walk: Walk,
        untouched_since: Timestamp,
        most: u64,
    ) -> Result<(u64, u32, Option<Walk>), StoreError> {
        let mut walked = self.store.lockable(walk, untouched_since).await?;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if walked.found.len() > most {
            walked.found.truncate(most);
            walked.next = walked.found.last().map(|(id, _)| *id).or(walk.after);
        }
        let ids: Vec<Uuid> = walked.found.iter().map(|(id, _)| *id).collect();
        let locked = self.lock_all(walk.integrator_id, walk.kind, &ids, untouched_since).await?;
        Ok((locked, walked.looked_at, following(walk, walked.next)))
    }
}

/// Where a walk goes on: in its kind, in the next one, or nowhere.
fn following(walk: Walk, next: Option<Uuid>) -> Option<Walk> {
    match (next, walk.kind) {
        (Some(id), _) => Some(Walk { after: Some(id), ..walk }),
        (None, ResourceKind::Charge) => Some(Walk { kind: ResourceKind::Withdrawal, after: None, ..walk }),
        (None, _) => None,
    }
}
