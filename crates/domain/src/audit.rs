//! The proof that the books are right.
//!
//! For every integrator, from one consistent view: the book has no gaps; each entry's balances follow from the one
//! before; the wallet's row equals the sum of its postings; the five accounts sum to zero; each record's postings are
//! exactly those its state calls for; a charge's totals equal its receipts and its refunds. Over all integrators:
//! what a charge gave is what its recipients have of it ([`compare`](crate::splits::service::compare),
//! [`trace`](crate::splits::service::trace)), no PIX is credited to two of them, and no two withdrawals or refunds are one
//! payment at the provider ([`check_across`]).

mod reckoning;

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;

use crate::charges::{Charge, Receipt};
use crate::end_to_end::{EndToEndId, ReturnId};
use crate::error::StoreError;
use crate::ids::{IntegratorId, ResourceKind, ResourceRef};
use crate::money::Cents;
use crate::provider::{ProviderId, ReceiptKey};
use crate::refunds::Refund;
use crate::splits::Split;
use crate::wallet::{Account, Entry, Wallet};
use crate::withdrawals::{OutgoingState, Withdrawal};

pub use reckoning::{EntryFault, Reckoning};

/// All that is kept of one integrator, from one consistent view.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Book {
    /// The wallet's row.
    pub wallet: Wallet,
    /// The whole book, in order.
    pub entries: Vec<Entry>,
    /// All charges.
    pub charges: Vec<Charge>,
    /// All withdrawals.
    pub withdrawals: Vec<Withdrawal>,
    /// All refunds.
    pub refunds: Vec<Refund>,
    /// All parts of others' charges.
    pub splits: Vec<Split>,
    /// All incoming PIX.
    pub receipts: Vec<Receipt>,
    /// How many events each record has; by the shape of a transition, as many as its version says.
    pub events: BTreeMap<ResourceRef, u32>,
}

/// A finding as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFinding {
    /// What it is about.
    pub resource: ResourceRef,
    /// Its code.
    pub code: String,
    /// A sentence.
    pub detail: String,
}

/// Where the books are read whole.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait BookStore: Send + Sync {
    /// Everything of one integrator. MUST be one consistent view, however much is being written meanwhile.
    async fn book(&self, integrator_id: IntegratorId) -> Result<Book, StoreError>;

    /// The findings of one integrator, oldest first. A finding with the same record and code is kept once.
    async fn findings(&self, integrator_id: IntegratorId) -> Result<Vec<StoredFinding>, StoreError>;
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Whose book.
    pub integrator_id: IntegratorId,
    /// What it is about, when it is one record.
    pub resource: Option<ResourceRef>,
    /// A sentence.
    pub what: String,
}

/// Balances of the accounts, in centavos.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Balances {
    /// The integrator's, free.
    pub available: i64,
    /// The integrator's, promised.
    pub held: i64,
    /// The mirror of the cash.
    pub clearing: i64,
    /// Ours.
    pub fees: i64,
    /// What the integrator owes, as a balance below nothing.
    pub owed: i64,
}

impl Balances {
    /// What the postings of a record come to, as far as its state calls for it.
    pub fn of_postings<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut balances = Self::default();
        for entry in entries {
            balances.add(entry);
        }
        balances.of_record()
    }

    /// What the state of a charge calls for.
    pub fn of_charge(charge: &Charge) -> Self {
        charge_balances(charge)
    }

    /// What the state of a withdrawal calls for.
    pub fn of_withdrawal(withdrawal: &Withdrawal) -> Self {
        withdrawal_balances(withdrawal)
    }

    /// What the state of a refund calls for.
    pub fn of_refund(refund: &Refund) -> Self {
        refund_balances(refund)
    }

    fn add(&mut self, entry: &Entry) {
        self.available += entry.posting.effect_cents(Account::Available);
        self.held += entry.posting.effect_cents(Account::Held);
        self.clearing += entry.posting.effect_cents(Account::Clearing);
        self.fees += entry.posting.effect_cents(Account::Fees);
        self.owed += entry.posting.effect_cents(Account::Owed);
    }

    /// What a record's state calls for: whether its debits were paid or are owed depends on the wallet, not on it.
    const fn of_record(self) -> Self {
        Self { available: self.available + self.owed, owed: 0, ..self }
    }
}

/// Checks one book; the differences, none when it is right.
pub fn check(integrator_id: IntegratorId, book: &Book) -> Vec<Difference> {
    let mut audit = Audit { integrator_id, differences: Vec::new(), by_record: BTreeMap::new() };
    audit.entries(book);
    audit.records(book);
    audit.totals(book);
    audit.events(book);
    audit.differences
}

/// Checks what no book shows alone: that no PIX was credited in two of them, and that no payment of the provider is two
/// withdrawals or two refunds, of one book or of two.
pub fn check_across<'a>(books: impl IntoIterator<Item = (IntegratorId, &'a Book)>) -> Vec<Difference> {
    let (mut credited, mut differences, mut outgoing) = (BTreeMap::new(), Vec::new(), Vec::new());
    for (integrator_id, book) in books {
        outgoing.extend(book.withdrawals.iter().map(Outgoing::of_withdrawal));
        outgoing.extend(book.refunds.iter().map(Outgoing::of_refund));
        // What a provider numbers itself, another one may too.
        let told = |receipt: &&Receipt| matches!(receipt.payment.key, ReceiptKey::EndToEnd(_));
        for receipt in book.receipts.iter().filter(told) {
            match credited.entry(&receipt.payment.key) {
                Slot::Vacant(unknown) => {
                    unknown.insert(integrator_id);
                }
                Slot::Occupied(first) if *first.get() != integrator_id => differences.push(Difference {
                    integrator_id,
                    resource: Some(ResourceRef {
                        integrator_id,
                        kind: ResourceKind::Charge,
                        id: receipt.charge_id.0,
                    }),
                    what: format!("its PIX was credited to the integrator {}, too", first.get()),
                }),
                // Of one book `check` tells.
                Slot::Occupied(_) => {}
            }
        }
    }
    differences.extend(sent_as_one(outgoing));
    differences
}

/// What names a withdrawal or a refund outside of this gateway.
#[derive(Debug, Clone, Copy)]
struct Outgoing<'a> {
    resource: ResourceRef,
    provider_id: Option<&'a ProviderId>,
    /// The end-to-end id or the return id, where it has the form of one: no two payments of the arrangement share it.
    unique: Option<&'a str>,
}

impl<'a> Outgoing<'a> {
    fn of_withdrawal(record: &'a Withdrawal) -> Self {
        let unique = record.end_to_end_id.as_deref().filter(|id| EndToEndId::parse(id).is_ok());
        Self { resource: record.resource(), provider_id: record.provider_id.as_ref(), unique }
    }

    fn of_refund(record: &'a Refund) -> Self {
        let unique = record.return_id.as_deref().filter(|id| ReturnId::parse(id).is_ok());
        Self { resource: record.resource(), provider_id: record.provider_id.as_ref(), unique }
    }

    /// Whether both are known to be different payments: another provider, before this one, may have used the same numbers.
    fn is_apart_from(&self, other: &Self) -> bool {
        self.unique.zip(other.unique).is_some_and(|(ours, theirs)| ours != theirs)
    }

    fn is_one_with(&self, other: &Self, name: &str) -> Difference {
        let (kind, id) = (other.resource.kind.as_str(), other.resource.id);
        Difference {
            integrator_id: self.resource.integrator_id,
            resource: Some(self.resource),
            what: format!(
                "it is one payment with the {kind} {id} of the integrator {}: both have the {name}",
                other.resource.integrator_id
            ),
        }
    }
}

/// Those of one kind that stand beside each other.
fn neighbours<'a>(outgoing: &[Outgoing<'a>]) -> Vec<(Outgoing<'a>, Outgoing<'a>)> {
    let pairs = outgoing.iter().copied().zip(outgoing.iter().copied().skip(1));
    pairs.filter(|(one, next)| one.resource.kind == next.resource.kind).collect()
}

/// The records that stand for a payment for which another one stands, too.
fn sent_as_one(mut outgoing: Vec<Outgoing<'_>>) -> Vec<Difference> {
    let mut differences = Vec::new();
    outgoing.sort_unstable_by_key(|record| (record.resource.kind, record.unique, record.resource));
    for (one, next) in neighbours(&outgoing) {
        if let Some(unique) = one.unique.filter(|unique| next.unique == Some(unique)) {
            let name = if one.resource.kind == ResourceKind::Refund { "return" } else { "end-to-end" };
            differences.push(next.is_one_with(&one, &format!("{name} id {unique}")));
        }
    }
    outgoing.sort_unstable_by_key(|record| (record.resource.kind, record.provider_id, record.resource));
    for (one, next) in neighbours(&outgoing) {
        let told = one.unique.is_some() && one.unique == next.unique;
        let Some(id) = one.provider_id.filter(|id| next.provider_id == Some(id)) else { continue };
        if !told && !next.is_apart_from(&one) {
            differences.push(next.is_one_with(&one, &format!("provider's id {}", id.as_str())));
        }
    }
    differences
}

struct Audit {
    integrator_id: IntegratorId,
    differences: Vec<Difference>,
    by_record: BTreeMap<ResourceRef, Balances>,
}

impl Audit {
    fn say(&mut self, resource: Option<ResourceRef>, what: String) {
        self.differences.push(Difference { integrator_id: self.integrator_id, resource, what });
    }

    fn entries(&mut self, book: &Book) {
        let mut reckoning = Reckoning::default();
        for entry in &book.entries {
            let faults = reckoning.follow(self.integrator_id, entry);
            let ends = faults.iter().any(|fault| matches!(fault, EntryFault::BelowZero(_)));
            for fault in faults {
                self.say(Some(entry.posting.resource), fault.to_string());
            }
            if ends {
                return;
            }
            self.by_record.entry(entry.posting.resource).or_default().add(entry);
        }
        let wallet = reckoning.wallet;
        if wallet != book.wallet {
            let what = format!(
                "the wallet says available {}, held {}, owed {}, {} entries; its postings say {}, {}, {}, {}",
                book.wallet.available,
                book.wallet.held,
                book.wallet.owed,
                book.wallet.entries,
                wallet.available,
                wallet.held,
                wallet.owed,
                wallet.entries
            );
            self.say(None, what);
        }
        if book.wallet.settled().is_err() {
            self.say(None, "the wallet has money beside a debt".into());
        }
        if !reckoning.is_balanced() {
            self.say(None, "debits do not equal credits".into());
        }
    }

    fn owned(&mut self, resource: ResourceRef, owner: IntegratorId) {
        if owner != self.integrator_id || resource.integrator_id != self.integrator_id {
            self.say(Some(resource), "it is another integrator's".into());
        }
    }

    fn records(&mut self, book: &Book) {
        let charges = book.charges.iter().map(|charge| (charge.resource(), charge_balances(charge)));
        let withdrawals =
            book.withdrawals.iter().map(|record| (record.resource(), withdrawal_balances(record)));
        let refunds = book.refunds.iter().map(|record| (record.resource(), refund_balances(record)));
        let splits = book.splits.iter().map(|record| (record.resource(), split_balances(record)));
        let all = charges.chain(withdrawals).chain(refunds).chain(splits);
        for (resource, expected) in all.collect::<Vec<_>>() {
            self.owned(resource, resource.integrator_id);
            let found = self.by_record.remove(&resource).unwrap_or_default().of_record();
            if found != expected {
                let what = format!("its state calls for {expected:?}, its postings say {found:?} (centavos)");
                self.say(Some(resource), what);
            }
        }
        for resource in std::mem::take(&mut self.by_record).into_keys() {
            self.say(Some(resource), "postings without a record".into());
        }
    }

    fn totals(&mut self, book: &Book) {
        let mut paid: BTreeMap<_, i64> = BTreeMap::new();
        let mut keys = BTreeSet::new();
        for receipt in &book.receipts {
            if !keys.insert(&receipt.payment.key) {
                self.say(
                    None,
                    format!("a PIX was credited twice, at last to the charge {}", receipt.charge_id),
                );
            }
            *paid.entry(receipt.charge_id).or_default() += receipt.payment.amount.cents().get();
        }
        let (mut reserved, mut refunded): (BTreeMap<_, i64>, BTreeMap<_, i64>) = Default::default();
        for refund in &book.refunds {
            let totals = match refund.state {
                OutgoingState::Completed => &mut refunded,
                OutgoingState::Failed(_) => continue,
                _ => &mut reserved,
            };
            *totals.entry(refund.charge_id).or_default() += refund.amount.cents().get();
        }
        for charge in &book.charges {
            let facts = [
                ("what was paid", charge.amount_paid(), paid.remove(&charge.id)),
                ("refunds in progress", charge.refund_reserved, reserved.remove(&charge.id)),
                ("refunds done", charge.refunded, refunded.remove(&charge.id)),
            ];
            for (name, says, sum) in facts {
                let sum = sum.unwrap_or(0);
                if says.get() != sum {
                    self.say(
                        Some(charge.resource()),
                        format!("{name}: it says {}, the sum is {sum}", says.get()),
                    );
                }
            }
            let taken = charge.refund_reserved.get() + charge.refunded.get() + charge.taken_back.get();
            if taken > charge.amount_paid().get() {
                self.say(Some(charge.resource()), "refunds sum above what was paid".into());
            }
            if charge.split.iter().any(|share| share.taken_back > share.amount) {
                self.say(Some(charge.resource()), "more of a share was taken back than it brought".into());
            }
        }
        for charge_id in paid.into_keys() {
            self.say(None, format!("a receipt names the unknown charge {charge_id}"));
        }
        for charge_id in reserved.into_keys().chain(refunded.into_keys()) {
            self.say(None, format!("a refund names the unknown charge {charge_id}"));
        }
    }

    fn events(&mut self, book: &Book) {
        let charges = book.charges.iter().map(|charge| (charge.resource(), charge.version));
        let withdrawals = book.withdrawals.iter().map(|record| (record.resource(), record.version));
        let refunds = book.refunds.iter().map(|record| (record.resource(), record.version));
        let splits = book.splits.iter().map(|record| (record.resource(), record.version));
        let mut counted = book.events.clone();
        let all = charges.chain(withdrawals).chain(refunds).chain(splits);
        for (resource, version) in all.collect::<Vec<_>>() {
            let events = counted.remove(&resource).unwrap_or(0);
            if events != version.0 {
                self.say(Some(resource), format!("it is at version {} and has {events} events", version.0));
            }
        }
        for resource in counted.into_keys() {
            self.say(Some(resource), "events without a record".into());
        }
    }
}

fn charge_balances(charge: &Charge) -> Balances {
    let paid = charge.amount_paid().get();
    let fee = charge.credited.as_ref().map_or(0, |credited| credited.fee.get());
    let back = charge.taken_back.get();
    let given: i64 = charge.split.iter().map(|share| share.kept().get()).sum();
    Balances {
        available: paid - fee - back - given,
        clearing: back - paid + given,
        fees: fee,
        ..Balances::default()
    }
}

fn split_balances(split: &Split) -> Balances {
    let kept = split.kept().get();
    Balances { available: kept, clearing: -kept, ..Balances::default() }
}

fn withdrawal_balances(withdrawal: &Withdrawal) -> Balances {
    let mut balances =
        outgoing_balances(&withdrawal.state, withdrawal.amount.cents(), withdrawal.fee, withdrawal.returned);
    if withdrawal.settled_late {
        let left = withdrawal.amount.cents().get() - withdrawal.returned.get();
        balances.available -= left;
        balances.clearing += left;
    }
    balances
}

fn refund_balances(refund: &Refund) -> Balances {
    outgoing_balances(&refund.state, refund.amount.cents(), refund.fee, Cents::ZERO)
}

fn outgoing_balances(state: &OutgoingState, amount: Cents, fee: Cents, returned: Cents) -> Balances {
    let (amount, fee, returned) = (amount.get(), fee.get(), returned.get());
    match state {
        OutgoingState::Completed | OutgoingState::Returned => {
            let available = returned - amount - fee;
            Balances { available, clearing: amount - returned, fees: fee, ..Balances::default() }
        }
        OutgoingState::Failed(_) | OutgoingState::Canceled => Balances::default(),
        _ => Balances { available: -amount - fee, held: amount + fee, ..Balances::default() },
    }
}
