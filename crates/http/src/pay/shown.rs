//! What a payer may see of a charge, and reading it: many who look at one charge at the same time ask the store once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use actix_web::web;
use pix_domain::brcode;
use pix_domain::charges::{Charge, ChargeState};
use pix_domain::error::ServiceError;
use pix_domain::ids::{ChargeId, IntegratorId, ResourceKind};
use pix_domain::money::Cents;
use pix_domain::time::Timestamp;
use uuid::Uuid;

use crate::error::ApiError;
use crate::state::State;

/// How long what was read is shown, to whoever else looks, without reading it again.
const FRESH: Duration = Duration::from_secs(1);

/// The most charges of which something is remembered. Past that, a charge that nobody else looks at is read each time.
const MAX_REMEMBERED: usize = 4096;

/// Where a charge stands, for its payer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There is no code yet.
    Creating,
    /// It can be paid.
    Pending,
    /// It is paid.
    Paid,
    /// Its time is over.
    Expired,
    /// It was removed.
    Canceled,
    /// It was never made.
    Failed,
}

impl Stage {
    /// The word of v1 for it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Pending => "pending",
            Self::Paid => "paid",
            Self::Expired => "expired",
            Self::Canceled => "canceled",
            Self::Failed => "failed",
        }
    }

    /// Whether a page waits for something else.
    pub(crate) const fn is_live(self) -> bool {
        matches!(self, Self::Creating | Self::Pending)
    }
}

/// All that a payer may see of a charge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) stage: Stage,
    /// What is asked for.
    pub(crate) amount: Cents,
    /// What came in, if something did.
    pub(crate) received: Option<Cents>,
    /// The text of the code, once there is one.
    pub(crate) code: Option<String>,
    /// Who is paid, as the code says.
    pub(crate) receiver: Option<String>,
    pub(crate) expires_at: Timestamp,
}

impl Shown {
    pub(crate) fn of(charge: &Charge) -> Self {
        let stage = match charge.state {
            ChargeState::Creating => Stage::Creating,
            ChargeState::Pending => Stage::Pending,
            ChargeState::Paid => Stage::Paid,
            ChargeState::Expired => Stage::Expired,
            ChargeState::Canceled => Stage::Canceled,
            ChargeState::Failed(_) => Stage::Failed,
        };
        let code = charge.ticket.as_ref().map(|ticket| ticket.qrcode.clone());
        Self {
            stage,
            amount: charge.amount.cents(),
            received: charge.credited.as_ref().map(|credited| credited.amount_paid),
            code,
            receiver: receiver(charge),
            expires_at: charge.expires_at,
        }
    }

    /// How long it can still be paid; nothing if it can't.
    pub(crate) fn left(&self, now: Timestamp) -> Option<Duration> {
        let left = self.expires_at.since(now);
        (self.stage == Stage::Pending && !left.is_zero()).then_some(left)
    }
}

/// Who is paid, as the code of a charge says.
pub(crate) fn receiver(charge: &Charge) -> Option<String> {
    let code = brcode::decode(&charge.ticket.as_ref()?.qrcode).ok()?;
    let name = code.merchant_name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// What was last read of one charge.
struct Read {
    at: Instant,
    /// Known from the first time on: by then, no other integrator's records need be looked through.
    owner: Option<IntegratorId>,
    answer: Result<Arc<Shown>, ApiError>,
}

impl Read {
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < FRESH
    }
}

/// Whoever holds it reads; the others wait, and are told the same.
type Slot = Arc<tokio::sync::Mutex<Option<Read>>>;

/// What was read lately.
#[derive(Default)]
pub(crate) struct Views(Mutex<HashMap<Uuid, Slot>>);

impl Views {
    /// The charge with that id, whosever it is, as it was within the last second.
    pub(crate) async fn look(&self, state: &web::Data<State>, id: Uuid) -> Result<Arc<Shown>, ApiError> {
        let slot = self.slot(id);
        let mut read = slot.lock().await;
        if let Some(read) = read.as_ref().filter(|read| read.is_fresh()) {
            return read.answer.clone();
        }
        let owner = read.as_ref().and_then(|read| read.owner);
        let found = find(state, owner, id).await;
        let owner = found.as_ref().ok().map(|(owner, _)| *owner).or(owner);
        let answer = found.map(|(_, shown)| Arc::new(shown));
        *read = Some(Read { at: Instant::now(), owner, answer: answer.clone() });
        answer
    }

    fn slot(&self, id: Uuid) -> Slot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(&id) {
            return slot.clone();
        }
        if slots.len() >= MAX_REMEMBERED {
            // One that is locked is being read.
            slots.retain(|_, slot| {
                slot.try_lock().map_or(true, |read| read.as_ref().is_some_and(Read::is_fresh))
            });
        }
        let slot = Slot::default();
        if slots.len() < MAX_REMEMBERED {
            slots.insert(id, slot.clone());
        }
        slot
    }
}

async fn find(
    state: &web::Data<State>,
    owner: Option<IntegratorId>,
    id: Uuid,
) -> Result<(IntegratorId, Shown), ApiError> {
    let services = &state.services;
    let (transactions, charges) = (services.transactions.clone(), services.charges.clone());
    let work = async move {
        let owner = match owner {
            Some(owner) => owner,
            None => match transactions.locate(id).await? {
                Some(found) if found.kind == ResourceKind::Charge => found.integrator_id,
                _ => return Err(ServiceError::NotFound),
            },
        };
        charges.get(owner, ChargeId(id)).await.map(|charge| (owner, Shown::of(&charge)))
    };
    state.run(work).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let views = Views::default();
        let held = views.slot(Uuid::from_u128(0));
        let reading = held.try_lock().unwrap();
        for number in 1..=u128::try_from(MAX_REMEMBERED).unwrap() + 1 {
            let slot = views.slot(Uuid::from_u128(number));
            let answer = Err(ApiError::not_found());
            // However slow this machine is, it is fresh for as long as the test takes.
            let at = Instant::now() + Duration::from_hours(1);
            *slot.try_lock().unwrap() = Some(Read { at, owner: None, answer });
            assert!(views.0.lock().unwrap().len() <= MAX_REMEMBERED);
        }
        let last = Uuid::from_u128(u128::MAX);
        assert!(!Arc::ptr_eq(&views.slot(last), &views.slot(last)), "while all are fresh there is no room");
        assert!(Arc::ptr_eq(&views.slot(Uuid::from_u128(1)), &views.slot(Uuid::from_u128(1))));
        drop(reading);
        assert!(Arc::ptr_eq(&views.slot(last), &views.slot(last)), "nobody reads the first any more");
    }

    #[test]
    fn what_is_no_longer_fresh_makes_room() {
        let views = Views::default();
        for number in 0..u128::try_from(MAX_REMEMBERED).unwrap() {
            views.slot(Uuid::from_u128(number));
        }
        let newcomer = Uuid::from_u128(u128::MAX);
        assert!(Arc::ptr_eq(&views.slot(newcomer), &views.slot(newcomer)));
        assert_eq!(views.0.lock().unwrap().len(), 1, "nothing was read of the others");
    }
}
