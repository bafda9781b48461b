//! Secrets of API keys: made from the operating system's generator, kept as argon2id hashes.
//!
//! Owns the form of secrets and public ids, how much hashing happens at once, and what a check costs. Never knows who a
//! secret belongs to.
//!
//! # What a check costs
//!
//! | secret | cost |
//! |---|---|
//! | starts with `pixsk_` and its checksum is wrong | nothing: no such secret was ever made, whoever asks |
//! | right, and found right within the last [`VERIFIED_TTL`] | microseconds |
//! | anything else, with a known or an unknown id | one argon2id hash |
//!
//! So the clock tells a well-formed wrong secret from an unknown id in no way, as long as the stored hash has the
//! configured parameters. That a key has two secrets makes no difference: the second one is hashed with the salt and the
//! parameters of the first, and one computation is compared with both. Secrets made here are random, so that what they
//! share says nothing of either. Hashing takes 12 ms and 19 MiB with the default ones (OWASP Password Storage Cheat Sheet:
//! argon2id, m = 19456, t = 2, p = 1): it runs on blocking threads, [`HasherConfig::permits`] at once, and beyond
//! [`HasherConfig::max_waiting`] waiting calls the next is turned away.

mod form;
mod verified;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use argon2::password_hash::CustomizedPasswordHasher;
use argon2::{Argon2, Params, PasswordHash, PasswordHasher};
use async_trait::async_trait;
use pix_domain::credentials::{HashError, PlainSecret, SecretHash, SecretHasher};
use thiserror::Error;
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

pub use form::{PUBLIC_ID_PREFIX, SECRET_PREFIX};
pub use verified::{MAX_VERIFIED, VERIFIED_TTL};

use verified::Verified;

/// Memory of one hash by default (OWASP).
pub const DEFAULT_MEMORY_KIB: u32 = 19_456;
/// The least memory argon2 works with in one lane.
pub const MIN_MEMORY_KIB: u32 = 8;
/// The most memory of one hash, configured or stored.
pub const MAX_MEMORY_KIB: u32 = 1_048_576;
/// Passes over the memory by default (OWASP).
pub const DEFAULT_ITERATIONS: u32 = 2;
/// The most passes, configured or stored.
pub const MAX_ITERATIONS: u32 = 64;
/// How many hashes run at once by default.
pub const DEFAULT_PERMITS: usize = 2;
/// The most hashes that may run at once.
pub const MAX_PERMITS: usize = 256;
/// How many calls wait for a permit by default.
pub const MAX_WAITING: usize = 64;
/// The most calls that may be let wait.
pub const MAX_MAX_WAITING: usize = 65_536;
/// Lanes of a hash: one hash is work for one thread. Stored hashes with more are honoured up to this many.
const MAX_LANES: u32 = 64;

/// How secrets are hashed. [`HasherConfig::default`] is for production; less is for tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HasherConfig {
    /// Memory of one hash in KiB, from [`MIN_MEMORY_KIB`] to [`MAX_MEMORY_KIB`]; [`DEFAULT_MEMORY_KIB`] by default.
    pub memory_kib: u32,
    /// Passes over that memory, from 1 to [`MAX_ITERATIONS`]; [`DEFAULT_ITERATIONS`] by default.
    pub iterations: u32,
    /// How many hashes run at once, from 1 to [`MAX_PERMITS`]; [`DEFAULT_PERMITS`] by default.
    pub permits: usize,
    /// How many calls may wait for a permit, from 0 to [`MAX_MAX_WAITING`]; [`MAX_WAITING`] by default.
    pub max_waiting: usize,
}

impl Default for HasherConfig {
    fn default() -> Self {
        Self {
            memory_kib: DEFAULT_MEMORY_KIB,
            iterations: DEFAULT_ITERATIONS,
            permits: DEFAULT_PERMITS,
            max_waiting: MAX_WAITING,
        }
    }
}

/// Why a hasher can't be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HasherConfigError {
    /// A setting is out of its bounds.
    #[error("{setting} of the secret hasher must be from {min} to {max}")]
    OutOfBounds {
        /// The field of [`HasherConfig`].
        setting: &'static str,
        /// The least it may be.
        min: usize,
        /// The most it may be.
        max: usize,
    },
    /// The first hash failed, or the operating system gave no random bytes.
    #[error("the secret hasher does not work: {0}")]
    Broken(String),
}

/// The work itself, apart from when it may run.
struct Engine {
    params: Params,
    /// Hashes computed so far.
    computed: AtomicU64,
}

/// Hashes and checks secrets with argon2id.
pub struct Argon2Hasher {
    config: HasherConfig,
    engine: Arc<Engine>,
    /// Calls that run or wait.
    admitted: Arc<Semaphore>,
    /// Calls that run.
    running: Arc<Semaphore>,
    verified: Verified,
    /// The hash of a secret that nobody has: what unknown ids are checked against.
    dummy: SecretHash,
}

impl Argon2Hasher {
    /// A hasher of `config`. Computes one hash: it blocks for that long.
    pub fn new(config: HasherConfig) -> Result<Self, HasherConfigError> {
        check_bounds(&config)?;
        let broken = |error: &dyn fmt::Display| HasherConfigError::Broken(error.to_string());
        let params =
            Params::new(config.memory_kib, config.iterations, 1, None).map_err(|error| broken(&error))?;
        let engine = Engine { params, computed: AtomicU64::new(0) };
        let nobodys = form::random::<32>().map_err(|error| broken(&error))?;
        let dummy = engine.hash(nobodys.as_slice()).map_err(|error| broken(&error))?;
        Ok(Self {
            engine: Arc::new(engine),
            admitted: Arc::new(Semaphore::new(config.permits + config.max_waiting)),
            running: Arc::new(Semaphore::new(config.permits)),
            verified: Verified::new(form::random::<64>().map_err(|error| broken(&error))?),
            dummy,
            config,
        })
    }

    /// How many hashes were computed since the start, the dummy's own included.
    pub fn hashes_computed(&self) -> u64 {
        self.engine.computed.load(Ordering::Relaxed)
    }

    /// Runs `work` on a blocking thread once there is a permit. The permit is the thread's: a caller who goes away
    /// doesn't make room for one more hash while its own still runs.
    async fn run<T, W>(&self, work: W) -> Result<T, HashError>
    where
        T: Send + 'static,
        W: FnOnce(&Engine) -> Result<T, HashError> + Send + 'static,
    {
        let Ok(admitted) = Arc::clone(&self.admitted).try_acquire_owned() else {
            return Err(HashError::Overloaded);
        };
        let running = Arc::clone(&self.running).acquire_owned().await;
        let running = running.map_err(|error| HashError::Failed(error.to_string()))?;
        let engine = Arc::clone(&self.engine);
        let done = tokio::task::spawn_blocking(move || {
            let _permits = (admitted, running);
            work(&engine)
        });
        done.await.map_err(|error| {
            let how = if error.is_panic() { "panicked" } else { "was cancelled" };
            HashError::Failed(format!("the hashing task {how}"))
        })?
    }
}

#[async_trait]
impl SecretHasher for Argon2Hasher {
    /// `pixsk_`, 32 random bytes in hexadecimal and a checksum.
    ///
    /// # Panics
    /// If the operating system's generator fails: there is no safe secret to go on with.
    fn generate(&self) -> PlainSecret {
        form::new_secret()
    }

    /// `pixpk_` and 20 random characters of Crockford's base 32, in lower case (100 bits).
    ///
    /// # Panics
    /// If the operating system's generator fails.
    fn generate_public_id(&self) -> String {
        form::new_public_id()
    }

    fn is_malformed(&self, secret: &PlainSecret) -> bool {
        form::is_garbage(&secret.0)
    }

    /// Hashes any secret, imported ones too; but one that starts with `pixsk_` and has a wrong checksum fails, because
    /// [`SecretHasher::verify`] would never accept it. Beside another hash, with the salt and the parameters of that.
    async fn hash(&self, secret: PlainSecret, beside: Option<SecretHash>) -> Result<SecretHash, HashError> {
        let secret = Zeroizing::new(secret.0);
        if form::is_garbage(&secret) {
            return Err(HashError::Failed(format!(
                "a secret that starts with {SECRET_PREFIX} must be one made here, and its checksum is wrong"
            )));
        }
        self.run(move |engine| match beside {
            None => engine.hash(secret.as_bytes()),
            Some(beside) => {
                let computed = engine.compute(secret.as_bytes(), &readable(&beside)?)?;
                Ok(SecretHash(computed.to_string()))
            }
        })
        .await
    }

    async fn verify(&self, secret: PlainSecret, hashes: Vec<SecretHash>) -> Result<Option<usize>, HashError> {
        let secret = Zeroizing::new(secret.0);
        if form::is_garbage(&secret) {
            return Ok(None);
        }
        let known = !hashes.is_empty();
        let hashes = if known { hashes } else { vec![self.dummy.clone()] };
        let seals: Vec<_> = hashes.iter().map(|hash| self.verified.seal(hash, &secret)).collect();
        let now = Instant::now();
        let remembered = seals.iter().position(|seal| self.verified.contains(seal, now));
        let result = if remembered.is_some() { "hit" } else { "miss" };
        metrics::counter!("pix_cache_lookups_total", "cache" => "sign_ins", "result" => result).increment(1);
        if let Some(place) = remembered {
            return Ok(known.then_some(place));
        }
        let right = self.run(move |engine| engine.find(secret.as_bytes(), &hashes)).await?;
        let right = right.filter(|_| known);
        if let Some(seal) = right.and_then(|place| seals.get(place)) {
            self.verified.insert(*seal, Instant::now());
        }
        Ok(right)
    }
}

impl Engine {
    fn hash(&self, secret: &[u8]) -> Result<SecretHash, HashError> {
        self.computed.fetch_add(1, Ordering::Relaxed);
        let hash = Argon2::from(&self.params).hash_password(secret);
        hash.map(|hash| SecretHash(hash.to_string())).map_err(|error| HashError::Failed(error.to_string()))
    }

    /// The place of the hash that is `secret`'s. What has the salt and the parameters of an earlier one is compared with
    /// what was computed for that.
    fn find(&self, secret: &[u8], hashes: &[SecretHash]) -> Result<Option<usize>, HashError> {
        let mut computed: Vec<PasswordHash> = Vec::new();
        for (place, hash) in hashes.iter().enumerate() {
            let hash = readable(hash)?;
            let known = computed.iter().find(|known| is_same_work(known, &hash)).cloned();
            let known = match known {
                Some(known) => known,
                None => self.compute(secret, &hash)?,
            };
            // Compares in constant time.
            if known.hash == hash.hash {
                return Ok(Some(place));
            }
            computed.push(known);
        }
        Ok(None)
    }

    /// The hash of `secret` with the salt and the parameters that `like` names, so that configured ones may change.
    fn compute(&self, secret: &[u8], like: &PasswordHash) -> Result<PasswordHash, HashError> {
        let params = Params::try_from(like).map_err(|error| unusable(&error))?;
        let Some(salt) = &like.salt else { return Err(unusable(&"it has no salt")) };
        if params.m_cost() > MAX_MEMORY_KIB || params.t_cost() > MAX_ITERATIONS || params.p_cost() > MAX_LANES
        {
            return Err(unusable(&"its parameters are beyond what is accepted"));
        }
        self.computed.fetch_add(1, Ordering::Relaxed);
        let (argon2, algorithm) = (Argon2::from(&self.params), Some(like.algorithm.as_str()));
        argon2
            .hash_password_customized(secret, salt, algorithm, like.version, params)
            .map_err(|error| unusable(&error))
    }
}

/// Whether a secret's hash for the one is its hash for the other too.
fn is_same_work(one: &PasswordHash, other: &PasswordHash) -> bool {
    let length = |hash: &PasswordHash| hash.hash.as_ref().map(argon2::password_hash::phc::Output::len);
    one.algorithm == other.algorithm
        && one.version == other.version
        && one.params == other.params
        && one.salt == other.salt
        && length(one) == length(other)
}

fn readable(hash: &SecretHash) -> Result<PasswordHash, HashError> {
    let hash = PasswordHash::new(&hash.0).map_err(|error| unusable(&error))?;
    if hash.salt.is_none() || hash.hash.is_none() {
        return Err(unusable(&"it has no salt or no output"));
    }
    Ok(hash)
}

fn unusable(why: &dyn fmt::Display) -> HashError {
    HashError::Failed(format!("the stored hash is unusable: {why}"))
}

/// The settings and how much was done; no secret and no hash.
impl fmt::Debug for Argon2Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Argon2Hasher")
            .field("config", &self.config)
            .field("hashes_computed", &self.hashes_computed())
            .finish_non_exhaustive()
    }
}

fn check_bounds(config: &HasherConfig) -> Result<(), HasherConfigError> {
    let size = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
    let settings = [
        ("memory_kib", size(config.memory_kib), size(MIN_MEMORY_KIB), size(MAX_MEMORY_KIB)),
        ("iterations", size(config.iterations), 1, size(MAX_ITERATIONS)),
        ("permits", config.permits, 1, MAX_PERMITS),
        ("max_waiting", config.max_waiting, 0, MAX_MAX_WAITING),
    ];
    for (setting, value, min, max) in settings {
        if !(min..=max).contains(&value) {
            return Err(HasherConfigError::OutOfBounds { setting, min, max });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
