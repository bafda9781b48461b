//! Rows of persons, and of what is put under their keys.
//!
//! A record with a part that is locked has [`LOCKED`] where that part's document stands, and nothing else of the person. Its text is
//! in `locked_parts`: XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03) under the person's key, bound to the record and the part, so
//! that it opens nowhere else. A locked part of which the person is no more is an erased one.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use diesel::prelude::{Insertable, Queryable, Selectable};
use orion::hazardous::aead::xchacha20poly1305::{Nonce, SecretKey, XChaCha20Poly1305};
use pix_domain::error::StoreError;
use pix_domain::party::{Document, PixKey, PixKeyType};
use pix_domain::people::{Person, Walked};
use pix_domain::provider::ProviderBody;
use pix_domain::text::Email;
use pix_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{ChargeRow, ReceiptRow, WithdrawalRow};
use crate::codec::{self, DbId, damaged};
use crate::schema::{locked_parts, payee_keys, people};

/// What stands for the document of a part that is locked. No document is of one character.
pub const LOCKED: &str = "#";
/// What a read leaves there when the person is erased. It is in no table.
pub const ERASED: &str = "#erased";

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// A person as it is kept.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = people, treat_none_as_default_value = false)]
pub struct PersonRow {
    pub integrator_id: DbId,
    pub id: DbId,
    pub subject: String,
    pub key: String,
}

impl PersonRow {
    /// A new person with a new key.
    pub fn new(owner: DbId, subject: String) -> Result<Self, StoreError> {
        let key = random::<KEY_BYTES>()?.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        Ok(Self { integrator_id: owner, id: DbId(random_id()?), subject, key })
    }
}

/// What stands for a payee's key, as it is kept.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = payee_keys, treat_none_as_default_value = false)]
pub struct PayeeKeyRow {
    pub integrator_id: DbId,
    pub payee_key: String,
    pub pseudonym: DbId,
    pub person_id: DbId,
}

/// A locked part as it is kept.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = locked_parts, treat_none_as_default_value = false)]
pub struct LockedRow {
    pub integrator_id: DbId,
    pub resource_id: DbId,
    pub part: String,
    pub number: i64,
    pub person_id: DbId,
    pub sealed: String,
}

fn random<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|_error| StoreError::Unavailable("the system gives no random numbers".to_owned()))?;
    Ok(bytes)
}

fn random_id() -> Result<Uuid, StoreError> {
    Ok(uuid::Builder::from_random_bytes(random()?).into_uuid())
}

/// Which part of which record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    owner: DbId,
    resource: DbId,
    part: &'static str,
    /// Of a receipt, its number; else 0.
    number: i64,
}

const PAYER: &str = "payer";
const PAID_BY: &str = "paid_by";
const RECEIPT: &str = "receipt";
const PAYEE: &str = "payee";

/// What of a part is locked.
#[derive(Serialize, Deserialize, Default)]
struct Content {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

impl Place {
    /// What the text of a part is bound to.
    fn bound(self) -> String {
        let Self { owner, resource, part, number } = self;
        format!("pix-gateway locked part v1|{}|{}|{part}|{number}", owner.0, resource.0)
    }

    fn seal(self, key: &str, content: &Content) -> Result<String, StoreError> {
        let refuse = || StoreError::Rejected("personal data can't be locked".to_owned());
        let plain = serde_json::to_vec(content).map_err(|_no_text| refuse())?;
        let nonce = random::<NONCE_BYTES>()?;
        let mut sealed = vec![0; plain.len().saturating_add(TAG_BYTES)];
        let nonce_of = Nonce::try_from(nonce.as_slice()).map_err(|_length| refuse())?;
        let bound = self.bound();
        XChaCha20Poly1305::seal(&secret(key)?, &nonce_of, &plain, Some(bound.as_bytes()), &mut sealed)
            .map_err(|_error| refuse())?;
        Ok(STANDARD.encode([nonce.as_slice(), &sealed].concat()))
    }

    fn open(self, key: &str, sealed: &str) -> Result<Content, StoreError> {
        let refuse = || damaged("locked_parts.sealed", "a text that the key of its person opens");
        let sealed = STANDARD.decode(sealed).map_err(|_no_base64| refuse())?;
        let (nonce, sealed) = sealed.split_at_checked(NONCE_BYTES).ok_or_else(refuse)?;
        let nonce = Nonce::try_from(nonce).map_err(|_length| refuse())?;
        let mut plain = vec![0; sealed.len().checked_sub(TAG_BYTES).ok_or_else(refuse)?];
        let bound = self.bound();
        XChaCha20Poly1305::open(&secret(key)?, &nonce, sealed, Some(bound.as_bytes()), &mut plain)
            .map_err(|_error| refuse())?;
        serde_json::from_slice(&plain).map_err(|_no_content| refuse())
    }
}

fn secret(key: &str) -> Result<SecretKey, StoreError> {
    let refuse = || damaged("people.key", "32 bytes in hexadecimal");
    let digits = key.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    let bytes = digits.collect::<Option<Vec<u8>>>().ok_or_else(refuse)?;
    SecretKey::try_from(bytes.as_slice()).map_err(|_length| refuse())
}

/// The key of a locked part.
type PartKey = (DbId, DbId, String, i64);

/// What is locked of some records, and the keys of those that are not erased.
#[derive(Default)]
pub struct Locked(BTreeMap<PartKey, (String, Option<String>)>);

impl Locked {
    /// Adds what was read.
    pub fn extend(&mut self, rows: Vec<(LockedRow, Option<String>)>) {
        let kept = rows.into_iter().map(|(row, key)| {
            ((row.integrator_id, row.resource_id, row.part, row.number), (row.sealed, key))
        });
        self.0.extend(kept);
    }

    /// A part; `None` when the person is erased.
    fn part(&self, place: Place) -> Result<Option<Content>, StoreError> {
        let Place { owner, resource, part, number } = place;
        match self.0.get(&(owner, resource, part.to_owned(), number)) {
            None => Err(damaged("locked_parts", "there for each part that is locked")),
            Some((_, None)) => Ok(None),
            Some((sealed, Some(key))) => place.open(key, sealed).map(Some),
        }
    }
}

/// A row with personal data.
pub trait Personal {
    /// Which parts it has.
    const PARTS: &'static [&'static str];

    /// Whose record and which, when a part of it is locked.
    fn locked(&self) -> Option<(DbId, DbId)>;

    /// Puts what is locked in its place.
    fn unlock(&mut self, locked: &Locked) -> Result<(), StoreError>;
}

fn is_locked(document: Option<&String>) -> bool {
    document.is_some_and(|document| document == LOCKED)
}

/// A name and a document of a part.
fn restore(content: Option<Content>, name: &mut Option<String>, document: &mut Option<String>) {
    (*name, *document) = match content {
        Some(content) => (content.name, content.document),
        None => (None, Some(ERASED.to_owned())),
    };
}

impl<R: Personal> Personal for Box<R> {
    const PARTS: &'static [&'static str] = R::PARTS;

    fn locked(&self) -> Option<(DbId, DbId)> {
        R::locked(self)
    }

    fn unlock(&mut self, locked: &Locked) -> Result<(), StoreError> {
        R::unlock(self, locked)
    }
}

impl ChargeRow {
    const fn place(&self, part: &'static str) -> Place {
        Place { owner: self.integrator_id, resource: self.id, part, number: 0 }
    }
}

impl Personal for ChargeRow {
    const PARTS: &'static [&'static str] = &[PAYER, PAID_BY];

    fn locked(&self) -> Option<(DbId, DbId)> {
        let either = is_locked(self.payer_document.as_ref()) || is_locked(self.paid_by_document.as_ref());
        either.then_some((self.integrator_id, self.id))
    }

    fn unlock(&mut self, locked: &Locked) -> Result<(), StoreError> {
        if is_locked(self.payer_document.as_ref()) {
            let mut content = locked.part(self.place(PAYER))?;
            let body = match &mut content {
                Some(content) => {
                    (self.payer_email, self.payer_question) = (content.email.take(), content.text.take());
                    content.body.take()
                }
                None => Some(ProviderBody::erased().0),
            };
            // A later answer of the provider stands in the record.
            if self.provider_body.as_deref() == Some("") {
                self.provider_body = body;
            }
            restore(content, &mut self.payer_name, &mut self.payer_document);
        }
        if is_locked(self.paid_by_document.as_ref()) {
            let content = locked.part(self.place(PAID_BY))?;
            restore(content, &mut self.paid_by_name, &mut self.paid_by_document);
        }
        Ok(())
    }
}

impl ReceiptRow {
    const fn place(&self) -> Place {
        Place { owner: self.integrator_id, resource: self.charge_id, part: RECEIPT, number: self.number }
    }
}

impl Personal for ReceiptRow {
    const PARTS: &'static [&'static str] = &[RECEIPT];

    fn locked(&self) -> Option<(DbId, DbId)> {
        is_locked(self.payer_document.as_ref()).then_some((self.integrator_id, self.charge_id))
    }

    fn unlock(&mut self, locked: &Locked) -> Result<(), StoreError> {
        if is_locked(self.payer_document.as_ref()) {
            let content = locked.part(self.place())?;
            restore(content, &mut self.payer_name, &mut self.payer_document);
        }
        Ok(())
    }
}

impl WithdrawalRow {
    const fn place(&self) -> Place {
        Place { owner: self.integrator_id, resource: self.id, part: PAYEE, number: 0 }
    }
}

impl Personal for WithdrawalRow {
    const PARTS: &'static [&'static str] = &[PAYEE];

    fn locked(&self) -> Option<(DbId, DbId)> {
        is_locked(self.payee_document.as_ref()).then_some((self.integrator_id, self.id))
    }

    fn unlock(&mut self, locked: &Locked) -> Result<(), StoreError> {
        if !is_locked(self.payee_document.as_ref()) {
            return Ok(());
        }
        let mut content = locked.part(self.place())?;
        let body = if let Some(content) = &mut content {
            self.payee_key = content.key.take().ok_or_else(|| damaged("locked_parts", "with a PIX key"))?;
            self.description = content.text.take();
            content.body.take()
        } else {
            let key = PixKey::erased();
            (self.payee_key_type, self.payee_key) = (key.kind().as_str().to_owned(), key.as_str().to_owned());
            Some(ProviderBody::erased().0)
        };
        if self.provider_body.as_deref() == Some("") {
            self.provider_body = body;
        }
        restore(content, &mut self.payee_name, &mut self.payee_document);
        Ok(())
    }
}

/// What is about to be locked.
struct OpenPart {
    place: Place,
    subject: String,
    content: Content,
    payee_key: Option<String>,
}

/// Records that are about to be locked: those that can be, as they are to be, and their open parts.
#[derive(Default)]
pub struct Locking {
    /// Charges.
    pub charges: Vec<ChargeRow>,
    /// What was received on them.
    pub receipts: Vec<ReceiptRow>,
    /// Withdrawals.
    pub withdrawals: Vec<WithdrawalRow>,
    parts: Vec<OpenPart>,
}

fn person(column: &str, document: Option<&str>, email: Option<&str>) -> Result<Option<Person>, StoreError> {
    if let Some(document) = document {
        return codec::text(column, document, Document::parse).map(|of| Some(Person::Document(of)));
    }
    let email = codec::optional_text(column, email, Email::parse)?;
    Ok(email.and_then(|email| PixKey::parse(PixKeyType::Email, email.as_str()).ok()).map(Person::Key))
}

fn ended(state: &str) -> bool {
    matches!(state, "paid" | "expired" | "canceled" | "failed" | "completed" | "returned")
}

impl Locking {
    /// Of charges and of what was received on them. Their texts are taken out of them.
    pub fn of_charges(
        rows: Vec<ChargeRow>,
        receipts: Vec<ReceiptRow>,
        untouched_since: Timestamp,
    ) -> Result<Self, StoreError> {
        let mut all = Self::default();
        let can_be = |row: &ChargeRow| {
            ended(&row.state)
                && row.follow_up_at.is_none()
                && row.refund_reserved_cents == 0
                && row.updated_at.0 <= untouched_since
        };
        for mut row in rows.into_iter().filter(can_be) {
            let before = all.parts.len();
            let payer = row.payer_document.as_deref().filter(|document| *document != LOCKED);
            let is_open = !is_locked(row.payer_document.as_ref());
            if is_open && let Some(who) = person("charges.payer_*", payer, row.payer_email.as_deref())? {
                let body = row.provider_body.as_mut().map(std::mem::take);
                let content = Content {
                    name: row.payer_name.take(),
                    document: row.payer_document.replace(LOCKED.to_owned()),
                    email: row.payer_email.take(),
                    text: row.payer_question.take(),
                    body,
                    ..Content::default()
                };
                all.open(row.place(PAYER), &who, content);
            }
            let paid_by = row.paid_by_document.as_deref().filter(|document| *document != LOCKED);
            if let Some(who) = person("charges.paid_by_*", paid_by, None)? {
                let document = row.paid_by_document.replace(LOCKED.to_owned());
                let content = Content { name: row.paid_by_name.take(), document, ..Content::default() };
                all.open(row.place(PAID_BY), &who, content);
            }
            if all.parts.len() > before {
                all.charges.push(row);
            } else if receipts.iter().any(|receipt| receipt.charge_id == row.id) {
                // Only what was received later is open.
                all.charges.push(row);
            }
        }
        let charges: BTreeSet<DbId> = all.charges.iter().map(|row| row.id).collect();
        for mut receipt in receipts.into_iter().filter(|receipt| charges.contains(&receipt.charge_id)) {
            let document = receipt.payer_document.as_deref().filter(|document| *document != LOCKED);
            let Some(who) = person("receipts.payer_*", document, None)? else { continue };
            let document = receipt.payer_document.replace(LOCKED.to_owned());
            let content = Content { name: receipt.payer_name.take(), document, ..Content::default() };
            all.open(receipt.place(), &who, content);
            all.receipts.push(receipt);
        }
        Ok(all)
    }

    /// Of withdrawals.
    pub fn of_withdrawals(rows: Vec<WithdrawalRow>, untouched_since: Timestamp) -> Result<Self, StoreError> {
        let mut all = Self::default();
        let can_be = |row: &WithdrawalRow| {
            ended(&row.state)
                && row.follow_up_at.is_none()
                && row.updated_at.0 <= untouched_since
                && !is_locked(row.payee_document.as_ref())
        };
        for mut row in rows.into_iter().filter(can_be) {
            let key_type = codec::text("withdrawals.payee_key_type", &row.payee_key_type, PixKeyType::parse)?;
            let key =
                codec::text("withdrawals.payee_key", &row.payee_key, |key| PixKey::parse(key_type, key))?;
            let who = match person("withdrawals.payee_*", row.payee_document.as_deref(), None)? {
                Some(who) => who,
                None => Person::of_key(&key),
            };
            let content = Content {
                name: row.payee_name.take(),
                document: row.payee_document.replace(LOCKED.to_owned()),
                text: row.description.take(),
                key: Some(std::mem::take(&mut row.payee_key)),
                body: row.provider_body.as_mut().map(std::mem::take),
                ..Content::default()
            };
            all.open(row.place(), &who, content);
            all.withdrawals.push(row);
        }
        Ok(all)
    }

    fn open(&mut self, place: Place, who: &Person, content: Content) {
        let payee_key = content.key.clone();
        self.parts.push(OpenPart { place, subject: who.subject(), content, payee_key });
    }

    /// How many records are locked by this.
    pub fn records(&self) -> u64 {
        let records: BTreeSet<DbId> = self.parts.iter().map(|part| part.place.resource).collect();
        u64::try_from(records.len()).unwrap_or(u64::MAX)
    }

    /// Whose keys are needed, in one order for all.
    pub fn subjects(&self) -> BTreeSet<String> {
        self.parts.iter().map(|part| part.subject.clone()).collect()
    }

    /// The payees' keys that need pseudonyms, if they have none.
    pub fn payee_keys(&self, people: &[PersonRow]) -> Result<Vec<PayeeKeyRow>, StoreError> {
        let mut keys = BTreeMap::new();
        for part in &self.parts {
            if let Some(key) = &part.payee_key {
                let person = person_of(people, &part.subject)?;
                let row = PayeeKeyRow {
                    integrator_id: part.place.owner,
                    payee_key: key.clone(),
                    pseudonym: DbId(random_id()?),
                    person_id: person.id,
                };
                keys.insert((key.clone(), person.id), row);
            }
        }
        Ok(keys.into_values().collect())
    }

    /// The parts under their keys; and the payees' keys in the rows become their pseudonyms.
    pub fn seal(&mut self, people: &[PersonRow], keys: &[PayeeKeyRow]) -> Result<Vec<LockedRow>, StoreError> {
        let mut sealed = Vec::new();
        for OpenPart { place, subject, content, payee_key } in &self.parts {
            let person = person_of(people, subject)?;
            if let Some(key) = payee_key {
                let same = |row: &&PayeeKeyRow| row.payee_key == *key && row.person_id == person.id;
                let found = keys.iter().find(same);
                let pseudonym = found.ok_or_else(|| overtaken("payee_keys"))?.pseudonym.0.to_string();
                for row in self.withdrawals.iter_mut().filter(|row| row.id == place.resource) {
                    row.payee_key.clone_from(&pseudonym);
                }
            }
            sealed.push(LockedRow {
                integrator_id: place.owner,
                resource_id: place.resource,
                part: place.part.to_owned(),
                number: place.number,
                person_id: person.id,
                sealed: place.seal(&person.key, content)?,
            });
        }
        Ok(sealed)
    }
}

/// The first and the last.
pub fn ends(ids: &[DbId]) -> Option<(DbId, DbId)> {
    ids.first().copied().zip(ids.last().copied())
}

/// What a step over `ids` found.
pub fn walked(ids: &[DbId], limit: u32, found: BTreeMap<DbId, bool>) -> Walked {
    let looked_at = u32::try_from(ids.len()).unwrap_or(u32::MAX);
    Walked {
        found: found.into_iter().map(|(id, locked)| (id.0, locked)).collect(),
        next: ids.last().filter(|_| looked_at >= limit).map(|id| id.0),
        looked_at,
    }
}

fn person_of<'a>(people: &'a [PersonRow], subject: &str) -> Result<&'a PersonRow, StoreError> {
    people.iter().find(|row| row.subject == subject).ok_or_else(|| overtaken("people"))
}

/// Somebody erased the person at this very moment: nothing is locked now.
fn overtaken(table: &str) -> StoreError {
    StoreError::Unavailable(format!("a row of {table} was removed meanwhile"))
}

/// The charges that may hold open parts: what [`Locking::of_charges`] looks at again.
macro_rules! lockable_charges {
    ($received:expr, $untouched_since:expr) => {
        charges::follow_up_at
            .is_null()
            .and(charges::refund_reserved_cents.eq(0))
            .and(charges::updated_at.le(DbTime($untouched_since)))
            .and(charges::state.ne_all(["creating", "pending"]))
            .and(
                charges::id.eq_any($received).or(charges::payer_document
                    .is_null()
                    .and(charges::payer_email.is_not_null())
                    .or(charges::payer_document
                        .is_not_null()
                        .and(charges::payer_document.assume_not_null().ne(LOCKED)))
                    .or(charges::paid_by_document
                        .is_not_null()
                        .and(charges::paid_by_document.assume_not_null().ne(LOCKED)))),
            )
    };
}
pub(crate) use lockable_charges;

/// The withdrawals that hold open parts.
macro_rules! lockable_withdrawals {
    ($untouched_since:expr) => {
        withdrawals::follow_up_at
            .is_null()
            .and(withdrawals::updated_at.le(DbTime($untouched_since)))
            .and(withdrawals::state.eq_any(["completed", "failed", "canceled", "returned"]))
            .and(
                withdrawals::payee_document
                    .is_null()
                    .or(withdrawals::payee_document.assume_not_null().ne(LOCKED)),
            )
    };
}
pub(crate) use lockable_withdrawals;

#[cfg(test)]
mod tests {
    use super::*;

    fn place(part: &'static str) -> Place {
        Place { owner: DbId(Uuid::from_u128(1)), resource: DbId(Uuid::from_u128(2)), part, number: 0 }
    }

    #[test]
    fn a_text_opens_in_its_place_with_its_key_alone() {
        let key =
            |number: u128| PersonRow::new(DbId(Uuid::from_u128(number)), "document:1".into()).unwrap().key;
        let (one, other) = (key(1), key(1));
        assert_ne!(one, other);
        let content = Content { name: Some("Ana Lima".into()), ..Content::default() };
        let sealed = place(PAYER).seal(&one, &content).unwrap();
        assert!(!sealed.contains("Ana") && sealed != place(PAYER).seal(&one, &content).unwrap());
        assert_eq!(place(PAYER).open(&one, &sealed).unwrap().name.as_deref(), Some("Ana Lima"));
        for (place, key, sealed) in [
            (place(PAYER), &other, sealed.as_str()),
            (place(PAID_BY), &one, &sealed),
            (Place { number: 1, ..place(PAYER) }, &one, &sealed),
            (Place { owner: DbId(Uuid::from_u128(2)), ..place(PAYER) }, &one, &sealed),
            (Place { resource: DbId(Uuid::from_u128(3)), ..place(PAYER) }, &one, &sealed),
            (place(PAYER), &one, ""),
            (place(PAYER), &one, "AAAA"),
            (place(PAYER), &one, &sealed[4..]),
            (place(PAYER), &"0".repeat(63), &sealed),
        ] {
            assert!(matches!(place.open(key, sealed), Err(StoreError::Damaged(_))), "{sealed}");
        }
    }
}
