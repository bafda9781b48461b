//! Statements of the books: what all wallets come to and the heads of all chains, of a day, signed with Ed25519 (RFC 8032).
//!
//! A statement is a file of one JSON object: the payload as a text, and a signature of the very bytes of that text. So it is
//! verified without writing any JSON in a canonical form, by this program or another, without a database or settings.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use ed25519_compact::{KeyPair, PublicKey, Seed, Signature};
use pix_domain::audit_log::LogHash;
use pix_domain::error::StoreError;
use pix_domain::provider::{ProviderError, SettlementProvider};
use pix_domain::seals::service::{Sealer, all_heads};
use pix_domain::seals::{Head, root};
use pix_domain::time::{Clock, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::gateway;
use crate::keyfile;
use crate::store::Store;
use crate::system::{SystemClock, random_hex};

/// What a file says it is.
const FORMAT: &str = "pix-gateway/books/1";
/// The length of a key, in bytes.
const KEY_BYTES: usize = 32;
/// The length of a signature, in bytes.
const SIGNATURE_BYTES: usize = 64;
/// Why a statement doesn't say what the provider holds.
const NO_PROVIDER_BALANCE: &str = "the provider has no call that tells its balance";
/// The same.
const BALANCE_NOT_TOLD: &str = "the provider was asked for its balance and gave no answer";

/// What statements are signed with.
pub struct SigningKey(KeyPair);

impl SigningKey {
    /// Makes a key in a new file that only its owner can read.
    pub fn make(path: &Path) -> anyhow::Result<Self> {
        keyfile::make_new(path, &format!("{}\n", random_hex(KEY_BYTES)?))?;
        Self::read(path)
    }

    /// Reads a key. No error says anything of what the file holds.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = keyfile::read_private(path)?;
        let seed = unhex(text.trim()).and_then(|bytes| <[u8; KEY_BYTES]>::try_from(bytes).ok());
        let pair = seed.and_then(|seed| KeyPair::try_from_seed(Seed::new(seed)).ok());
        pair.map(Self).with_context(|| {
            format!("{} holds no key: `pix-gateway books key FILE` makes one", path.display())
        })
    }

    /// What statements are verified with, as hexadecimal digits.
    pub fn public(&self) -> String {
        hex(&*self.0.pk)
    }

    fn sign(&self, payload: String) -> Signed {
        let signature = hex(&*self.0.sk.sign(&payload, None));
        Signed { format: FORMAT.to_owned(), public_key: self.public(), signature, payload }
    }
}

/// Reads what `books key` prints.
pub fn public_key(text: &str) -> anyhow::Result<PublicKey> {
    let key = unhex(text).and_then(|bytes| PublicKey::from_slice(&bytes).ok());
    key.context("--public-key takes 64 hexadecimal digits, as `books key` prints them")
}

/// A signed statement, as it is in its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signed {
    format: String,
    public_key: String,
    signature: String,
    payload: String,
}

impl Signed {
    /// Reads a file.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("{shown} can't be read"))?;
        Self::parse(&text).with_context(|| shown.to_string())
    }

    /// Reads what a file holds.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let signed: Self =
            serde_json::from_str(text).context("this is no statement of the books, or was changed")?;
        ensure!(signed.format == FORMAT, "this is of the form {:?}, and not {FORMAT:?}", signed.format);
        Ok(signed)
    }

    /// What it says, whoever signed it.
    pub fn statement(&self) -> anyhow::Result<Value> {
        serde_json::from_str(&self.payload).context("the payload is no JSON")
    }

    /// What it says, when `public_key` (64 hexadecimal digits) has signed just that.
    pub fn verify(&self, public_key: &str) -> anyhow::Result<Value> {
        let key = self::public_key(public_key)?;
        let signature = unhex(&self.signature).filter(|bytes| bytes.len() == SIGNATURE_BYTES);
        let signature = signature.and_then(|bytes| Signature::from_slice(&bytes).ok());
        let is_good = signature.is_some_and(|signature| key.verify(&self.payload, &signature).is_ok());
        if !is_good && self.public_key != hex(&*key) {
            bail!("it says that it was signed with another key, {}", self.public_key);
        }
        ensure!(is_good, "the signature is not that of the payload: the file was changed");
        self.statement()
    }
}

/// As it is in its file.
impl fmt::Display for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string_pretty(self).map_err(|_never| fmt::Error)?;
        writeln!(f, "{text}")
    }
}

/// The day of an instant, in UTC: `2026-11-22`.
pub fn day(at: Timestamp) -> String {
    let time = chrono::DateTime::from_timestamp_micros(at.micros());
    time.map(|time| time.date_naive().to_string()).unwrap_or_default()
}

/// Seals what waits, and signs what the books are then, with what `provider` says is in our account, for the day `date`.
pub async fn sign(
    store: &Store,
    url: &str,
    key: &SigningKey,
    date: &str,
    provider: &dyn SettlementProvider,
) -> anyhow::Result<Signed> {
    let sealer = Sealer::new(store.seals.clone(), Arc::new(SystemClock));
    crate::sealing::tell(&sealer.all().await?);
    let balance = provider.balance().await;
    let statement = statement(store, url, date, SystemClock.now(), balance).await?;
    Ok(key.sign(statement.to_string()))
}

/// What should be in our account at the provider by the seals, in centavos: `available + held + fees - owed` of all books.
/// Nothing is counted that isn't sealed yet; what is on its way out is counted as held.
pub async fn cash_expected(store: &Store) -> Result<i128, StoreError> {
    Ok(Sums::of_seals(&all_heads(&*store.seals).await?).cash_expected())
}

/// Signs the statement of today into `folder`, unless it is there. A file that is there is never written to.
pub async fn write_todays(
    store: &Store,
    url: &str,
    key: &SigningKey,
    folder: &Path,
    provider: &dyn SettlementProvider,
) -> anyhow::Result<()> {
    let date = day(SystemClock.now());
    let path = folder.join(format!("books-{date}.json"));
    if tokio::fs::try_exists(&path).await? {
        return Ok(());
    }
    let text = sign(store, url, key, &date, provider).await?.to_string();
    let shown = path.display().to_string();
    let folder = folder.to_owned();
    let written = tokio::task::spawn_blocking(move || {
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("the folder {} can't be made", folder.display()))?;
        keyfile::make(&path, &text)
    });
    written.await??;
    tracing::info!(file = shown, "the books of the day were signed");
    Ok(())
}

/// Sums over all integrators, in centavos: more than fits into one wallet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sums {
    available: i128,
    held: i128,
    owed: i128,
    fees: i128,
    clearing: i128,
    entries: u64,
}

impl Sums {
    fn of_seals(heads: &[Head]) -> Self {
        let mut sums = Self::default();
        for seal in heads.iter().filter_map(|head| head.newest) {
            let wallet = seal.reckoning.wallet;
            sums.available += i128::from(wallet.available.get());
            sums.held += i128::from(wallet.held.get());
            sums.owed += i128::from(wallet.owed.get());
            sums.fees += i128::from(seal.reckoning.fees);
            sums.clearing += i128::from(seal.reckoning.clearing);
            sums.entries = sums.entries.saturating_add(wallet.entries);
        }
        sums
    }

    const fn cash_expected(&self) -> i128 {
        self.available + self.held + self.fees - self.owed
    }
}

async fn statement(
    store: &Store,
    url: &str,
    date: &str,
    now: Timestamp,
    balance: Result<Option<i64>, ProviderError>,
) -> anyhow::Result<Value> {
    let heads = all_heads(&*store.seals).await?;
    let vitals = store.vitals.vitals(now).await?;
    let open = store.records.follow_ups.open_movements().await?;
    let newest = store.records.audit_log.newest().await?;
    let differences = store.seals.differences(pix_domain::seals::service::MAX_DIFFERENCES).await?;
    let provider = store.facts.fact(gateway::PROVIDER_FACT).await?;
    let sums = Sums::of_seals(&heads);
    let expected = sums.cash_expected();
    let told = balance.as_ref().ok().copied().flatten().map(i128::from);
    let untold = match balance {
        Ok(Some(_)) => None,
        Ok(None) => Some(NO_PROVIDER_BALANCE),
        Err(_) => Some(BALANCE_NOT_TOLD),
    };
    let unsealed = heads.iter().fold(0_u64, |sum, head| sum.saturating_add(head.unsealed()));
    let sealed = heads.iter().filter_map(|head| head.newest);
    let chain = sealed.clone().map(|seal| {
        json!({
            "integrator": seal.integrator_id.to_string(),
            "seal": seal.number,
            "entry": seal.through(),
            "hash": seal.hash.to_string(),
        })
    });
    let in_flight = open.iter().map(|open| {
        let held = reais(open.held_cents.into());
        json!({"kind": open.kind.as_str(), "state": open.state, "count": open.count, "held": held})
    });
    Ok(json!({
        "format": FORMAT,
        "date": date,
        "made_at": crate::commands::rfc3339(now),
        "deployment": {"url": url, "provider": provider, "version": env!("CARGO_PKG_VERSION")},
        "sealed": {
            "available": reais(sums.available),
            "held": reais(sums.held),
            "owed": reais(sums.owed),
            "fees": reais(sums.fees),
            "clearing": reais(sums.clearing),
            "entries": sums.entries,
            "integrators": sealed.clone().count(),
        },
        "cash_expected": reais(expected),
        "provider_balance": told.map(reais),
        "provider_balance_reason": untold,
        "provider_difference": told.map(|told| reais(told - expected)),
        "wallets": {
            "available": reais(vitals.available_cents.into()),
            "held": reais(vitals.held_cents.into()),
            "owed": reais(vitals.owed_cents.into()),
        },
        "unsealed_entries": unsealed,
        "differences": differences.len(),
        "in_flight": in_flight.collect::<Vec<_>>(),
        "chain": {"root": root(sealed).to_string(), "heads": chain.collect::<Vec<_>>()},
        "audit_log": {
            "entries": newest.as_ref().map_or(0, |entry| entry.number),
            "hash": newest.map_or(LogHash::NONE, |entry| entry.hash).to_string(),
        },
    }))
}

/// Centavos as reais, with a sign when there is less than nothing: `-15.50`.
fn reais(cents: i128) -> String {
    let (sign, cents) = (if cents < 0 { "-" } else { "" }, cents.unsigned_abs());
    format!("{sign}{}.{:02}", cents / 100, cents % 100)
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    let places = (0..text.len()).step_by(2);
    places.map(|place| u8::from_str_radix(text.get(place..place + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8032, 7.1, test 1.
    const SEED: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    const PUBLIC: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

    fn key(text: &str) -> (tempfile::TempDir, anyhow::Result<SigningKey>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("books.key");
        keyfile::make_new(&path, text).unwrap();
        let key = SigningKey::read(&path);
        (folder, key)
    }

    #[test]
    fn the_published_key_signs_as_published() {
        let (_folder, key) = key(SEED);
        let key = key.unwrap();
        assert_eq!(key.public(), PUBLIC);
        let published = "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b";
        assert_eq!(key.sign(String::new()).signature, published);
    }

    #[test]
    fn what_is_signed_is_verified_and_whatever_is_changed_is_not() {
        let (_folder, key) = key(SEED);
        let signed = key.unwrap().sign(r#"{"sealed":{"available":"10.00"}}"#.to_owned());
        assert_eq!(signed.verify(PUBLIC).unwrap()["sealed"]["available"], "10.00");
        let read: Signed = serde_json::from_str(&signed.to_string()).unwrap();
        assert_eq!(read, signed);
        let changed = Signed { payload: signed.payload.replace("10", "11"), ..signed.clone() };
        assert!(changed.verify(PUBLIC).unwrap_err().to_string().contains("was changed"));
        let cut = Signed { signature: signed.signature[2..].to_owned(), ..signed.clone() };
        assert!(cut.verify(PUBLIC).is_err());
        let (_folder, other) = self::key(&SEED.replace("9d", "9e"));
        let other = other.unwrap().public();
        assert!(signed.verify(&other).unwrap_err().to_string().contains("another key"));
        // Who puts his own key into the file has still not signed with ours.
        let claimed = Signed { public_key: other.clone(), ..changed };
        assert!(claimed.verify(PUBLIC).is_err());
        for no_key in ["", "zz", &PUBLIC[2..], &"0".repeat(64)] {
            assert!(signed.verify(no_key).is_err(), "{no_key}");
        }
    }

    #[test]
    fn a_file_without_a_key_is_refused_without_showing_it() {
        for text in ["", "hunter2", &"g".repeat(64), &SEED[2..]] {
            let (_folder, key) = key(text);
            let refused = format!("{:#}", key.err().unwrap());
            assert!(refused.contains("holds no key") && !refused.contains("hunter2"), "{refused}");
        }
    }

    #[test]
    fn money_has_its_sign() {
        for (cents, text) in
            [(0, "0.00"), (5, "0.05"), (-5, "-0.05"), (-1_550, "-15.50"), (123_456, "1234.56")]
        {
            assert_eq!(reais(cents), text);
        }
    }

    #[test]
    fn a_day_is_that_of_utc() {
        assert_eq!(day(Timestamp::from_micros(1_795_391_999_999_999)), "2026-11-22");
    }
}
