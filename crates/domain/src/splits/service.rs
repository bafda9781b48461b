//! The use cases of splits: making sure that there is somebody to pay, reading, and the second side of every transition
//! that gives or takes back.

use super::store::SplitStore;
use super::{NewShare, Share, Side, Split, check, complete};
use crate::audit::Difference;
use crate::charges::Charge;
use crate::charges::store::ChargeStore;
use crate::credentials::IntegratorStatus;
use crate::error::{ApplyError, ServiceError, StoreError};
use crate::ids::{IntegratorId, SplitId};
use crate::invalid::Invalid;
use crate::list::{ListQuery, Page};
use crate::money::Cents;
use crate::ports::Ports;
use crate::transition::Transition;

/// Why whoever owes gets no charge with a split.
const OWES: &str = "an integrator that owes can't share its payments: what comes in pays what is owed first";

/// How often a charge and its splits are read, to see both as they were at one time.
const MAX_READS: u32 = 8;

/// Reads a recipient's splits.
#[derive(Clone)]
pub struct SplitService {
    ports: Ports,
}

impl SplitService {
    /// A service over `ports`.
    pub const fn new(ports: Ports) -> Self {
        Self { ports }
    }

    /// One split of the integrator.
    pub async fn get(&self, integrator_id: IntegratorId, id: SplitId) -> Result<Split, ServiceError> {
        self.ports.stores.splits.find(integrator_id, id).await?.ok_or(ServiceError::NotFound)
    }

    /// A page of the integrator's splits, newest first.
    pub async fn list(
        &self,
        integrator_id: IntegratorId,
        query: ListQuery,
    ) -> Result<Page<Split>, ServiceError> {
        let (cursor, limit) = (query.cursor, query.limit);
        // An id is made with the charge, and the split when that is paid.
        let one_more = ListQuery { least_id: None, ..query.for_store(self.ports.ids.as_ref()) };
        let rows = self.ports.stores.splits.list(integrator_id, &one_more).await?;
        Ok(Page::trim(rows, cursor, limit))
    }
}

impl Ports {
    /// The shares of a charge to be made, of which a payment brings `net`.
    ///
    /// [`ServiceError::IntegratorSuspended`] for an owner who may not move money out; [`ServiceError::InvalidState`] for one
    /// who owes: what comes in pays that first.
    pub(crate) async fn shares(
        &self,
        owner: IntegratorId,
        asked: &[NewShare],
        net: Cents,
    ) -> Result<Vec<Share>, ServiceError> {
        let refuse = |problem| ServiceError::Invalid { field: "split", problem };
        check(owner, asked, net).map_err(refuse)?;
        if self.status_of(owner).await? == Some(IntegratorStatus::Suspended) {
            return Err(ServiceError::IntegratorSuspended);
        }
        if !self.stores.wallets.wallet(owner).await?.owed.is_zero() {
            return Err(ServiceError::InvalidState(OWES));
        }
        let mut shares = Vec::with_capacity(asked.len());
        for (index, new) in asked.iter().enumerate() {
            if self.status_of(new.recipient).await? != Some(IntegratorStatus::Active) {
                let message = format!("split.{index} names no integrator that can be paid");
                return Err(refuse(Invalid::new(Invalid::UNKNOWN_VALUE, message)));
            }
            shares.push(Share::new(SplitId(self.ids.next()), new.clone()));
        }
        Ok(shares)
    }

    async fn status_of(&self, id: IntegratorId) -> Result<Option<IntegratorStatus>, ServiceError> {
        Ok(self.stores.integrators.find(id).await?.map(|integrator| integrator.status))
    }

    /// `transition` with the recipients' side of what its charge gives or takes back.
    pub(crate) async fn with_recipients(&self, transition: Transition) -> Result<Transition, ApplyError> {
        let shares = transition.charge().map(|charge| charge.split.clone()).unwrap_or_default();
        let mut sides = Vec::with_capacity(shares.len());
        for share in shares {
            let split = self.stores.splits.find(share.recipient, share.split_id).await?;
            let postback_url = match split {
                Some(_) => None,
                None => {
                    self.stores.integrators.find(share.recipient).await?.and_then(|one| one.split_postback)
                }
            };
            let available = self.stores.wallets.wallet(share.recipient).await?.available;
            sides.push(Side { split, available, postback_url });
        }
        complete(transition, &sides)
    }
}

/// Whether every share of a charge is what its recipient's split says; what differs. Read until the charge has stood still
/// meanwhile, since both change while they are read.
pub async fn compare(
    charges: &dyn ChargeStore,
    splits: &dyn SplitStore,
    mut charge: Charge,
) -> Result<Vec<Difference>, StoreError> {
    for _ in 0..MAX_READS {
        let mut differences = Vec::new();
        for share in &charge.split {
            let split = splits.find(share.recipient, share.split_id).await?;
            let of_charge = split
                .as_ref()
                .is_none_or(|split| (split.from, split.charge_id) == (charge.integrator_id, charge.id));
            let has =
                split.as_ref().map_or((Cents::ZERO, Cents::ZERO), |split| (split.amount, split.taken_back));
            if !of_charge || has != (share.amount, share.taken_back) {
                let (amount, taken_back) = has;
                differences.push(Difference {
                    integrator_id: charge.integrator_id,
                    resource: Some(charge.resource()),
                    what: format!(
                        "it gave {} and took back {} as the split {}, whose recipient got {amount} and gave {taken_back}",
                        share.amount, share.taken_back, share.split_id
                    ),
                });
            }
        }
        if differences.is_empty() {
            return Ok(differences);
        }
        match charges.find(charge.integrator_id, charge.id).await? {
            Some(now) if now.version != charge.version => charge = now,
            _ => return Ok(differences),
        }
    }
    Err(StoreError::Unavailable("a charge changed each time it was compared with its splits".to_owned()))
}

/// Whether a recipient's split belongs to a charge that gave it: what is wrong, if anything.
pub async fn trace(charges: &dyn ChargeStore, split: &Split) -> Result<Option<Difference>, StoreError> {
    let charge = charges.find(split.from, split.charge_id).await?;
    let gave = charge.is_some_and(|charge| {
        let mut shares = charge.split.iter();
        shares.any(|share| share.split_id == split.id && share.recipient == split.integrator_id)
    });
    Ok((!gave).then(|| Difference {
        integrator_id: split.integrator_id,
        resource: Some(split.resource()),
        what: "no charge gave it".to_owned(),
    }))
}
