//! Rows of what the provider called back.

use diesel::prelude::Insertable;
use pix_domain::callbacks::{Callback, CallbackEnd, CallbackState};
use pix_domain::error::StoreError;

use crate::codec::{self, DbId, DbTime, damaged};
use crate::schema::callbacks;

/// The state of one that waits.
const WAITING: &str = "waiting";

/// A callback as it is kept.
#[derive(Insertable)]
#[diesel(table_name = callbacks, treat_none_as_default_value = false)]
pub struct CallbackRow {
    pub id: DbId,
    pub reference: Option<DbId>,
    pub body: String,
    pub digest: DbId,
    pub received_at: DbTime,
    pub state: &'static str,
    pub due_at: Option<DbTime>,
    pub attempts: i64,
}

impl CallbackRow {
    /// The row of a new callback. One that waits has one attempt behind it.
    pub fn new(callback: Callback, state: CallbackState) -> Self {
        let (state, due_at) = due_of(state);
        Self {
            id: DbId(callback.id),
            reference: callback.reference.map(DbId),
            digest: DbId(callback.digest()),
            body: callback.body,
            received_at: DbTime(callback.received_at),
            state,
            due_at,
            attempts: due_at.is_some().into(),
        }
    }
}

/// The name of a state, and the time that one which waits is due.
pub const fn due_of(state: CallbackState) -> (&'static str, Option<DbTime>) {
    match state {
        CallbackState::Waiting(until) => (WAITING, Some(DbTime(until))),
        CallbackState::Ended(end) => (end.as_str(), None),
    }
}

/// The state with this name, due at this time.
pub fn state_of(name: &str, due_at: Option<DbTime>) -> Result<CallbackState, StoreError> {
    match (name, due_at) {
        (WAITING, Some(due_at)) => Ok(CallbackState::Waiting(due_at.0)),
        (WAITING, None) => Err(damaged("callbacks.due_at", "there, though the callback waits")),
        _ => codec::named("callbacks.state", name, CallbackEnd::from_name).map(CallbackState::Ended),
    }
}

#[cfg(test)]
mod tests {
    use pix_domain::time::Timestamp;

    use super::*;

    #[test]
    fn every_state_is_read_as_it_was_kept() {
        let waiting = CallbackState::Waiting(Timestamp::from_micros(5));
        for state in CallbackEnd::ALL.map(CallbackState::Ended).into_iter().chain([waiting]) {
            let (name, due_at) = due_of(state);
            assert_eq!(state_of(name, due_at), Ok(state));
        }
    }

    #[test]
    fn a_state_that_is_not_known_is_damaged_and_never_shown() {
        for name in ["SECRET", WAITING] {
            let Err(StoreError::Damaged(text)) = state_of(name, None) else { panic!("{name}") };
            assert!(text.starts_with("callbacks.") && !text.contains("SECRET"), "{text}");
        }
    }
}
