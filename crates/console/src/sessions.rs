//! Who is signed in: kept in memory, so a restart ends all of them, and bounded in number and in time.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pix_domain::audit_log::Operator;
use pix_domain::time::Timestamp;
use sha2::{Digest, Sha256};

use crate::operators::hex;

/// How many there may be at once; one more ends the one that was idle for the longest.
pub const MAX_SESSIONS: usize = 64;
/// How long a session lives without being used.
pub const IDLE_LIMIT: Duration = Duration::from_mins(30);
/// How long a session lives.
pub const ABSOLUTE_LIMIT: Duration = Duration::from_hours(12);
/// Within how long failed sign-ins are counted.
pub const FAILURES_WINDOW: Duration = Duration::from_mins(1);
/// How many of them there may be; whoever comes then is turned away, until the window ends.
pub const MAX_FAILURES: u32 = 10;

/// What an operator is told on the next page: whether it was done, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) is_done: bool,
    pub(crate) words: String,
}

/// A session, as a page sees it.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    /// What it is found by: never its id.
    key: [u8; 32],
    /// Whose it is.
    pub(crate) operator: Operator,
    /// What every form of it holds.
    pub(crate) csrf: String,
}

struct Kept {
    operator: Operator,
    csrf: String,
    begun_at: Timestamp,
    used_at: Timestamp,
    notice: Option<Notice>,
}

impl Kept {
    /// A clock that was set back ends it: nobody knows how old it is.
    fn is_live(&self, now: Timestamp) -> bool {
        self.begun_at <= now
            && now.since(self.begun_at) < ABSOLUTE_LIMIT
            && now.since(self.used_at) < IDLE_LIMIT
    }
}

/// All of them.
#[derive(Default)]
pub(crate) struct Sessions {
    kept: Mutex<BTreeMap<[u8; 32], Kept>>,
}

impl Sessions {
    fn kept(&self) -> MutexGuard<'_, BTreeMap<[u8; 32], Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins one; the text for the cookie.
    pub(crate) fn begin(&self, random: [u8; 32], operator: Operator, now: Timestamp) -> String {
        let id = hex(&random);
        let fresh = Kept { operator, csrf: csrf_of(&id), begun_at: now, used_at: now, notice: None };
        let mut kept = self.kept();
        kept.retain(|_, session| session.is_live(now));
        if kept.len() >= MAX_SESSIONS
            && let Some(idlest) = kept.iter().min_by_key(|(_, session)| session.used_at).map(|(key, _)| *key)
        {
            kept.remove(&idlest);
        }
        kept.insert(key_of(&id), fresh);
        id
    }

    /// The live session of a cookie. With `is_use`, it is used now.
    pub(crate) fn find(&self, id: &str, now: Timestamp, is_use: bool) -> Option<Session> {
        let key = key_of(id);
        let mut kept = self.kept();
        let session = kept.get_mut(&key)?;
        if !session.is_live(now) {
            kept.remove(&key);
            return None;
        }
        if is_use {
            session.used_at = now;
        }
        Some(Session { key, operator: session.operator.clone(), csrf: session.csrf.clone() })
    }

    /// Ends one.
    pub(crate) fn end(&self, session: &Session) {
        self.kept().remove(&session.key);
    }

    /// Keeps what its next page says, in place of what it would have said.
    pub(crate) fn leave(&self, session: &Session, notice: Notice) {
        if let Some(kept) = self.kept().get_mut(&session.key) {
            kept.notice = Some(notice);
        }
    }

    /// What is to be said now.
    pub(crate) fn take_notice(&self, session: &Session) -> Option<Notice> {
        self.kept().get_mut(&session.key)?.notice.take()
    }
}

/// Looked up by a digest, so that the time it takes tells nothing of an id.
fn key_of(id: &str) -> [u8; 32] {
    Sha256::digest(id.as_bytes()).into()
}

/// A function of the session's id, from which that can't be had.
fn csrf_of(id: &str) -> String {
    hex(&Sha256::digest(format!("pix-console csrf {id}").as_bytes()))
}

/// How many sign-ins have failed lately, whoever tried: over a tunnel all come from one address.
#[derive(Default)]
pub(crate) struct Failures {
    window: Mutex<Option<(Timestamp, u32)>>,
}

impl Failures {
    /// How long nobody can sign in; `None` when one can.
    pub(crate) fn wait(&self, now: Timestamp) -> Option<Duration> {
        let window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let (begun_at, count) = (*window)?;
        let age = now.since(begun_at);
        (begun_at <= now && age < FAILURES_WINDOW && count >= MAX_FAILURES)
            .then(|| FAILURES_WINDOW.saturating_sub(age))
    }

    /// One more has failed.
    pub(crate) fn count(&self, now: Timestamp) {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        *window = match *window {
            Some((begun_at, count)) if begun_at <= now && now.since(begun_at) < FAILURES_WINDOW => {
                Some((begun_at, count.saturating_add(1)))
            }
            _ => Some((now, 1)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

    fn ana() -> Operator {
        Operator::parse("ana").unwrap()
    }

    #[test]
    fn a_session_ends_when_it_is_idle_and_when_it_is_old() {
        let sessions = Sessions::default();
        let id = sessions.begin([1; 32], ana(), START);
        assert!(sessions.find("other", START, true).is_none());
        let nearly = IDLE_LIMIT.saturating_sub(Duration::from_secs(1));
        let looked = sessions.find(&id, START.plus(nearly), false).unwrap();
        assert_eq!(looked.operator, ana());
        assert!(sessions.find(&id, START.plus(IDLE_LIMIT), true).is_none(), "a look is no use");
        let id = sessions.begin([2; 32], ana(), START);
        let mut now = START;
        while now.since(START) + nearly < ABSOLUTE_LIMIT {
            now = now.plus(nearly);
            assert!(sessions.find(&id, now, true).is_some());
        }
        assert!(sessions.find(&id, START.plus(ABSOLUTE_LIMIT), true).is_none());
        let id = sessions.begin([3; 32], ana(), START);
        assert!(sessions.find(&id, START.minus(Duration::from_secs(1)), true).is_none(), "set back");
    }

    #[test]
    fn one_session_too_many_ends_the_idlest() {
        let sessions = Sessions::default();
        let ids: Vec<_> = (0..=MAX_SESSIONS)
            .map(|n| {
                let at = START.plus(Duration::from_secs(u64::try_from(n).unwrap()));
                sessions.begin([u8::try_from(n).unwrap(); 32], ana(), at)
            })
            .collect();
        let now = START.plus(Duration::from_mins(2));
        assert!(sessions.find(&ids[0], now, true).is_none());
        assert!(ids[1..].iter().all(|id| sessions.find(id, now, true).is_some()));
    }

    #[test]
    fn what_is_to_be_said_is_said_once_and_to_one() {
        let sessions = Sessions::default();
        let ids = [sessions.begin([1; 32], ana(), START), sessions.begin([2; 32], ana(), START)];
        let [one, other] = ids.map(|id| sessions.find(&id, START, true).unwrap());
        assert_ne!(one.csrf, other.csrf);
        let notice = Notice { is_done: true, words: "done".into() };
        sessions.leave(&one, notice.clone());
        assert_eq!(sessions.take_notice(&other), None);
        assert_eq!((sessions.take_notice(&one), sessions.take_notice(&one)), (Some(notice), None));
        sessions.end(&one);
        assert_eq!(sessions.kept().len(), 1);
    }

    #[test]
    fn failures_are_bounded_in_a_window() {
        let failures = Failures::default();
        for _ in 0..MAX_FAILURES {
            assert_eq!(failures.wait(START), None);
            failures.count(START);
        }
        assert_eq!(failures.wait(START.plus(Duration::from_secs(20))), Some(Duration::from_secs(40)));
        let later = START.plus(FAILURES_WINDOW);
        assert_eq!(failures.wait(later), None);
        failures.count(later);
        assert_eq!(failures.wait(later), None, "a new window");
    }
}
