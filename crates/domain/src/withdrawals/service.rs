//! The use cases of withdrawals.
//!
//! Sending money: replay, if its handle is known → one `apply` that stores the intent and holds amount and fee → the
//! call to the provider, under our reference, with no transaction open → a second `apply` with what is known. A call
//! without a known end leaves the money held and is followed up by asking, never by sending again.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join_all;
use uuid::Uuid;

use super::{
    NOT_EXECUTED, NewWithdrawal, OutgoingState, PROVIDER_UNAVAILABLE, Payee, RESOLVED_FAILED, Withdrawal,
    state,
};
use crate::charges::Failure;
use crate::credentials::IntegratorStatus;
use crate::decisions::{Sending, Verdict};
use crate::error::{ApplyError, ServiceError, StoreError, UniqueKey};
use crate::evidence::{Evidence, EvidenceKind, Proof, Seen};
use crate::fees::Operation;
use crate::ids::{IntegratorId, ResourceKind, ResourceRef, WithdrawalId};
use crate::limits::lanes::{LONGEST_IN_LANE, Lanes, Place};
use crate::limits::{self, LimitPolicy, Standing, Windows};
use crate::list::{ListQuery, Page};
use crate::metadata::Metadata;
use crate::money::{Amount, Cents};
use crate::ports::{Applied, MAX_STALE_RETRIES, Outcome, Ports};
use crate::postbacks::events::PostbackScope;
use crate::provider::{Inquiry, OutgoingReport, Progress, ProviderError, Reference, digest};
use crate::restore::{self, Outflow};
use crate::schedule;
use crate::text::{Description, ExternalId, IdempotencyKey, PostbackUrl};
use crate::time::Timestamp;
use crate::transition::{MAX_TWINS, Step, Transition, Twin};
use crate::unrecorded::{Heard, LOOKED_FOR, Submitted};
use crate::wallet::Wallet;

/// How many withdrawals a request with a handle leaves in a twin's key that is full: those that are not done, and of those
/// just done the newest. So the next ones find room, and need not read what the key names.
const TWINS_LEFT: usize = MAX_TWINS / 2;

/// Why nothing is sent that had to wait for too long.
pub(crate) const HELD_UP: &str = "held up for too long to be sent now";

/// What an integrator asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateWithdrawal {
    /// Who asks.
    pub integrator_id: IntegratorId,
    /// Whether it may, as [`IntegratorStore`](crate::credentials::store::IntegratorStore) says now: it is believed, and one that says
    /// `Active` of a suspended integrator sends its money.
    pub integrator_status: IntegratorStatus,
    /// Its name for the withdrawal.
    pub external_id: Option<ExternalId>,
    /// Its handle for the request.
    pub idempotency_key: Option<IdempotencyKey>,
    /// How much the payee gets.
    pub amount: Amount,
    /// Who is paid.
    pub payee: Payee,
    /// What for.
    pub description: Option<Description>,
    /// What the integrator attaches to it.
    pub metadata: Metadata,
    /// Where events go.
    pub postback_url: Option<PostbackUrl>,
    /// Which of them; no part of what makes two requests the same.
    pub postback_scope: PostbackScope,
    /// The earlier withdrawal that this one is like on purpose.
    pub allow_duplicate_of: Option<Uuid>,
}

impl CreateWithdrawal {
    /// Whether it asks for what `withdrawal` is. Each field is named, so that a new one isn't forgotten.
    fn asks_for(&self, withdrawal: &Withdrawal) -> bool {
        let Self {
            integrator_id: _,
            integrator_status: _,
            external_id,
            idempotency_key: _,
            amount,
            payee,
            description,
            metadata,
            postback_url,
            postback_scope: _,
            allow_duplicate_of: _,
        } = self;
        let name = match external_id {
            Some(name) => withdrawal.external_id_given && *name == withdrawal.external_id,
            None => !withdrawal.external_id_given,
        };
        // Of an erased payee nobody knows any more whether it is the same.
        let payee =
            withdrawal.payee_erased || *payee == withdrawal.payee && *description == withdrawal.description;
        name && payee
            && *amount == withdrawal.amount
            && *metadata == withdrawal.metadata
            && *postback_url == withdrawal.postback_url
    }

    fn may_send(&self) -> Result<(), ServiceError> {
        match self.integrator_status {
            IntegratorStatus::Active => Ok(()),
            IntegratorStatus::Suspended => Err(ServiceError::IntegratorSuspended),
        }
    }

    const fn has_handle(&self) -> bool {
        self.external_id.is_some() || self.idempotency_key.is_some()
    }
}

/// What makes a request look like another one: the same key and amount, or the same document and amount.
pub(crate) fn twin_keys(payee: &Payee, amount: Amount) -> Vec<Uuid> {
    let (key, amount) = (&payee.key, amount.cents().get().to_string());
    let mut keys = vec![digest(&["key", key.kind().as_str(), key.as_str(), &amount])];
    if let Some(document) = &payee.party.document {
        keys.push(digest(&["document", document.as_str(), &amount]));
    }
    keys
}

/// What a withdrawal would cost, and whether it would be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    /// How much the payee would get.
    pub amount: Amount,
    /// What it would cost on top.
    pub fee: Cents,
    /// The version of the fee schedule that says so.
    pub fee_version: u32,
    /// The wallet as it is.
    pub wallet: Wallet,
    /// How the limits of what may go out stand, this payee's among them.
    pub limits: Vec<Standing>,
    /// What would become of it.
    pub verdict: QuoteVerdict,
}

impl Quote {
    /// Amount and fee; `None` when that is more than any wallet can hold.
    pub fn total(&self) -> Option<Cents> {
        self.amount.cents().checked_add(self.fee)
    }
}

/// What would become of a withdrawal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuoteVerdict {
    /// It would be accepted, and leave the wallet so.
    Accepted(Wallet),
    /// Its handle stands for this withdrawal, which would be the answer; nothing would be sent.
    Replays(Box<Withdrawal>),
    /// It would be refused.
    Refused(ServiceError),
}

/// The use cases of withdrawals.
#[derive(Clone)]
pub struct WithdrawalService {
    ports: Ports,
    lanes: Lanes,
}

impl WithdrawalService {
    /// A service over `ports`.
    pub fn new(ports: Ports) -> Self {
        Self { ports, lanes: Lanes::default() }
    }

    /// Sends money, or finds the withdrawal its handle stands for.
    pub async fn create(&self, command: CreateWithdrawal) -> Result<Outcome<Withdrawal>, ServiceError> {
        if let Some(withdrawal) = self.replay(&command).await? {
            return Ok(Outcome::Replayed(withdrawal));
        }
        if let Some(withdrawal) = Box::pin(self.recovered(&command)).await? {
            return Ok(Outcome::Created(withdrawal));
        }
        command.may_send()?;
        self.ports.may_go_out()?;
        for _ in 0..MAX_STALE_RETRIES {
            if let Some(outcome) = self.make(&command).await? {
                return Ok(outcome);
            }
        }
        Err(ServiceError::Contention)
    }

    /// Stores the intent and sends it; `None` when another request just like it came in between.
    async fn make(&self, command: &CreateWithdrawal) -> Result<Option<Outcome<Withdrawal>>, ServiceError> {
        let new = self.priced(command).await?;
        let (integrator_id, id) = (new.integrator_id, new.id);
        let Some(place) = self.enter_lanes(command).await? else {
            // One with the same handle may have been before it: that nothing was done would be untrue.
            let winner = self.replay(command).await?;
            let busy =
                || StoreError::Unavailable("too many withdrawals of the same kind are waiting".to_owned());
            return winner.map(|winner| Some(Outcome::Replayed(winner))).ok_or_else(|| busy().into());
        };
        let intent = match self.intent(command, new).await {
            Err(refused @ ServiceError::LimitExceeded(_)) => {
                // Another request with the same handle may just have taken what was left.
                let winner = self.replay(command).await?;
                return winner.map(|winner| Some(Outcome::Replayed(winner))).ok_or(refused);
            }
            intent => intent?,
        };
        let accepted = intent.withdrawal().cloned().ok_or(ServiceError::NotFound)?;
        let attempt_id = intent.evidence.last().map(|attempt| attempt.id);
        let applied = self.ports.stores.transitions.apply(intent).await;
        drop(place);
        match applied {
            Ok(()) => {}
            // An id bound to a handle is taken by another request with that handle only.
            Err(ApplyError::Duplicate(UniqueKey::ExternalId | UniqueKey::IdempotencyKey | UniqueKey::Id)) => {
                let winner = self.replay(command).await?.ok_or(ServiceError::Contention)?;
                return Ok(Some(Outcome::Replayed(winner)));
            }
            Err(ApplyError::Duplicate(UniqueKey::Twin)) => return Ok(None),
            Err(ApplyError::InsufficientFunds) => {
                // Another request with the same handle may just have taken the money.
                let winner = self.replay(command).await?;
                return winner
                    .map(|winner| Some(Outcome::Replayed(winner)))
                    .ok_or(ServiceError::InsufficientBalance);
            }
            Err(ApplyError::Store(StoreError::Unknown(why))) => {
                let unknown = ServiceError::from(StoreError::Unknown(why));
                let heard = attempt_id.map(|id| Heard::NotKept(id, self.ports.clock.now()));
                let forget_nothing = || {
                    if let Some(heard) = &heard {
                        let of = Submitted::Withdrawal(Box::new(accepted.clone()));
                        self.ports.unrecorded.remember(of, heard, &unknown);
                    }
                    unknown.clone()
                };
                // What can't be read, or isn't there yet, may still come to be.
                let stored = self.ports.stores.withdrawals.find(integrator_id, id).await;
                let Ok(Some(stored)) = stored else { return Err(forget_nothing()) };
                let Ok(ours) = self.ports.is_ours(accepted.resource(), attempt_id).await else {
                    return Err(forget_nothing());
                };
                if !ours {
                    // Another request with the same handle made it, at the same moment.
                    let winner = self.replay(command).await?.ok_or(ServiceError::Contention)?;
                    return Ok(Some(Outcome::Replayed(winner)));
                }
                // A follow-up may have gone on with it while nobody knew: what was decided then may rest on its not being
                // sent.
                let kept = if stored.version == accepted.version {
                    self.hold_back(accepted.clone()).await
                } else {
                    forget_nothing();
                    Some(stored)
                };
                return kept.map(|kept| Some(Outcome::Created(kept))).ok_or_else(forget_nothing);
            }
            Err(ApplyError::Store(error)) => return Err(error.into()),
            Err(_) => return Err(ServiceError::Contention),
        }
        // The intent is stored, so from here on this is a withdrawal whose outcome isn't known, never an error: who is
        // told that it failed might ask for another.
        Ok(Some(Outcome::Created(self.send(accepted.clone()).await.unwrap_or(accepted))))
    }

    /// What stores the intent, when nothing but the wallet can stand in its way.
    async fn intent(
        &self,
        command: &CreateWithdrawal,
        new: NewWithdrawal,
    ) -> Result<Transition, ServiceError> {
        let (mut twins, allowed) = self.twins(command, new.id).await?;
        // The moment for which limits are asked is that which counts against them.
        let now = self.ports.clock.now();
        twins.extend(self.within_limits(command, new.id, now).await?);
        let intent =
            state::accept(new, now, self.ports.submit_grace).ok_or(ServiceError::InsufficientBalance)?;
        let accepted = intent.withdrawal().cloned().ok_or(ServiceError::NotFound)?;
        let mut intent = intent.answering(command.idempotency_key.clone()).witness(allowed);
        intent = intent.witness([self.ports.evidence(accepted.resource(), attempt(&accepted))]);
        intent.twins = twins;
        // After the last look at the clock: twins and limits were told by one that was right.
        self.ports.may_go_out()?;
        Ok(intent)
    }

    /// What [`Self::create`] would do with the same command now: the same checks in the same order, up to the moment at
    /// which the intent would be stored. Nothing is stored, held or sent. Errors are those of the store alone: what
    /// `create` would refuse is part of the answer.
    pub async fn quote(&self, command: &CreateWithdrawal) -> Result<Quote, ServiceError> {
        let wallet = self.ports.stores.wallets.wallet(command.integrator_id).await?;
        let new = self.priced(command).await?;
        let (fee, fee_version) = (new.fee, new.fee_version);
        let policy = self.ports.stores.limits.policy(command.integrator_id).await?;
        let limits = self.limits_for(&policy, command, self.ports.clock.now()).await?;
        let quote = |verdict| Quote {
            amount: command.amount,
            fee,
            fee_version,
            wallet,
            limits: limits.clone(),
            verdict,
        };
        match self.replay(command).await {
            Ok(Some(withdrawal)) => return Ok(quote(QuoteVerdict::Replays(Box::new(withdrawal)))),
            Ok(None) => {}
            Err(error) => return error.refusing().map(|refusal| quote(QuoteVerdict::Refused(refusal))),
        }
        let intent = match command.may_send().and_then(|()| self.ports.may_go_out()) {
            Ok(()) => self.intent(command, new).await,
            Err(refused) => Err(refused),
        };
        let after = intent.and_then(|intent| {
            let held = intent.postings.iter().try_fold(wallet, Wallet::after);
            held.map_err(|_lacking| ServiceError::InsufficientBalance)
        });
        match after {
            Ok(after) => Ok(quote(QuoteVerdict::Accepted(after))),
            Err(error) => error.refusing().map(|refusal| quote(QuoteVerdict::Refused(refusal))),
        }
    }

    /// What the request takes of the keys that its twins would take too, and the evidence when it is like another one on
    /// purpose. [`ServiceError::PossibleDuplicate`] with the newest one that is on its way or was just done, when nothing
    /// tells the two apart.
    async fn twins(
        &self,
        command: &CreateWithdrawal,
        id: WithdrawalId,
    ) -> Result<(Vec<Twin>, Option<Evidence>), ServiceError> {
        if self.ports.duplicate_window.is_zero() {
            return Ok((Vec::new(), None));
        }
        let (lookups, owner) = (&self.ports.stores.lookups, command.integrator_id);
        let keys = twin_keys(&command.payee, command.amount).into_iter();
        let keys = try_join_all(
            keys.map(async |key| Ok::<_, StoreError>((key, lookups.find_twins(owner, key).await?))),
        )
        .await?;
        // With a handle nobody is refused here, so what a key names isn't read while there is room.
        let is_read = |named: &[Uuid]| !command.has_handle() || named.len() >= MAX_TWINS;
        let to_read = keys.iter().filter(|(_, named)| is_read(named)).flat_map(|(_, named)| named);
        let others = self.withdrawals(command.integrator_id, to_read.copied().collect()).await?;
        let mut twins = Vec::new();
        let mut newest: Option<&Withdrawal> = None;
        for (key, named) in keys {
            let mut ids = vec![id.0];
            if is_read(&named) {
                for other in named.iter().filter_map(|other| others.get(other)) {
                    let crowds = command.has_handle() && other.state.is_final() && ids.len() >= TWINS_LEFT;
                    if crowds || !self.stands_in_the_way(other) {
                        continue;
                    }
                    ids.push(other.id.0);
                    if newest
                        .is_none_or(|newest| (newest.created_at, newest.id) < (other.created_at, other.id))
                    {
                        newest = Some(other);
                    }
                }
                ids.truncate(MAX_TWINS);
            } else {
                ids.extend(&named);
            }
            twins.push(Twin { key, expected: named.first().copied(), ids });
        }
        let Some(newest) = newest.filter(|_| !command.has_handle()) else { return Ok((twins, None)) };
        if command.allow_duplicate_of != Some(newest.id.0) {
            return Err(ServiceError::PossibleDuplicate(newest.resource()));
        }
        let detail = format!("the request allows that it is like {}", newest.id);
        let seen = Seen::new(EvidenceKind::Decision, Proof::Nothing, &detail);
        let resource = ResourceRef { id: id.0, ..newest.resource() };
        Ok((twins, Some(self.ports.evidence(resource, seen))))
    }

    /// How the limits of an integrator stand now. Those of payees tell no use.
    pub async fn limits(
        &self,
        integrator_id: IntegratorId,
    ) -> Result<(LimitPolicy, Vec<Standing>), ServiceError> {
        let store = &self.ports.stores.limits;
        let policy = store.policy(integrator_id).await?;
        let windows = Windows::at(self.ports.clock.now()).narrowed_to(&policy);
        let sent = if policy.counts_others(&windows) {
            store.sent(integrator_id, &windows).await?
        } else {
            limits::Sent::default()
        };
        let standings = limits::standings(&policy, &windows, sent, None);
        Ok((policy, standings))
    }

    /// How they stand for what is asked for at `now`. Nothing is read that nothing in force needs.
    async fn limits_for(
        &self,
        policy: &LimitPolicy,
        command: &CreateWithdrawal,
        now: Timestamp,
    ) -> Result<Vec<Standing>, ServiceError> {
        let (store, owner) = (&self.ports.stores.limits, command.integrator_id);
        let windows = Windows::at(now).narrowed_to(policy);
        let sent = if policy.counts_others(&windows) {
            store.sent(owner, &windows).await?
        } else {
            limits::Sent::default()
        };
        let sent_to = if policy.names_payees(&windows) {
            Some(store.sent_to(owner, &windows, &command.payee.key).await?)
        } else {
            None
        };
        Ok(limits::standings(policy, &windows, sent, sent_to))
    }

    /// The request's turn among those just like it, and, when other withdrawals count against a limit of the integrator's,
    /// among all of them: one at a time gets what they take of the same key. `None` after [`LONGEST_IN_LANE`].
    async fn enter_lanes(&self, command: &CreateWithdrawal) -> Result<Option<Place>, ServiceError> {
        let owner = command.integrator_id;
        let mut keys = BTreeSet::new();
        if !self.ports.duplicate_window.is_zero() {
            keys.extend(twin_keys(&command.payee, command.amount));
        }
        let since = self.ports.clock.now();
        if self.ports.stores.limits.policy(owner).await?.counts_others(&Windows::at(since)) {
            keys.insert(limits::lane());
        }
        let place = self.lanes.enter(owner, &keys).await;
        Ok((self.ports.clock.now().since(since) <= LONGEST_IN_LANE).then_some(place))
    }

    /// What the request takes of the key that orders the withdrawals of an integrator under limits; nothing where others don't
    /// count. [`ServiceError::LimitExceeded`] with the first limit that it would pass at `now`.
    async fn within_limits(
        &self,
        command: &CreateWithdrawal,
        id: WithdrawalId,
        now: Timestamp,
    ) -> Result<Option<Twin>, ServiceError> {
        let (stores, owner) = (&self.ports.stores, command.integrator_id);
        let policy = stores.limits.policy(owner).await?;
        let place = if policy.counts_others(&Windows::at(now)) {
            // The key before what counts: whatever comes in between makes the key another.
            let newest = stores.lookups.find_twins(owner, limits::lane()).await?.first().copied();
            Some(limits::place(id, newest))
        } else {
            None
        };
        match limits::passed(&self.limits_for(&policy, command, now).await?, command.amount) {
            Some(standing) => Err(ServiceError::LimitExceeded(Box::new(standing))),
            None => Ok(place),
        }
    }

    /// Those of the integrator's withdrawals that are there, read all at once: a store answers many as fast as a few.
    async fn withdrawals(
        &self,
        owner: IntegratorId,
        ids: BTreeSet<Uuid>,
    ) -> Result<BTreeMap<Uuid, Withdrawal>, StoreError> {
        let store = &self.ports.stores.withdrawals;
        let found = try_join_all(ids.into_iter().map(|id| store.find(owner, WithdrawalId(id)))).await?;
        Ok(found.into_iter().flatten().map(|withdrawal| (withdrawal.id.0, withdrawal)).collect())
    }

    fn stands_in_the_way(&self, other: &Withdrawal) -> bool {
        match other.state {
            OutgoingState::Failed(_) | OutgoingState::Canceled => false,
            OutgoingState::Completed | OutgoingState::Returned => {
                let done = other.completed_at.unwrap_or(other.updated_at);
                self.ports.clock.now().since(done) < self.ports.duplicate_window
            }
            _ => true,
        }
    }

    async fn priced(&self, command: &CreateWithdrawal) -> Result<NewWithdrawal, ServiceError> {
        let fees = self.ports.stores.fees.current(command.integrator_id).await?;
        let (name, key) = (command.external_id.as_ref(), command.idempotency_key.as_ref());
        let id: Uuid = self.ports.outgoing_id(command.integrator_id, ResourceKind::Withdrawal, name, key);
        Ok(NewWithdrawal {
            id: WithdrawalId(id),
            integrator_id: command.integrator_id,
            external_id: match &command.external_id {
                Some(name) => name.clone(),
                None => Ports::generated_name("wdr", id)?,
            },
            external_id_given: command.external_id.is_some(),
            amount: command.amount,
            fee: fees.rule(Operation::CashOut).fee(command.amount),
            fee_version: fees.version,
            payee: command.payee.clone(),
            description: command.description.clone(),
            metadata: command.metadata.clone(),
            postback_url: command.postback_url.clone(),
            postback_scope: command.postback_scope,
        })
    }

    async fn replay(&self, command: &CreateWithdrawal) -> Result<Option<Withdrawal>, ServiceError> {
        let stores = &self.ports.stores;
        if let Some(key) = &command.idempotency_key
            && let Some(id) =
                stores.lookups.find_handle(command.integrator_id, ResourceKind::Withdrawal, key).await?
        {
            let found = self.get(command.integrator_id, WithdrawalId(id)).await?;
            return if command.asks_for(&found) {
                Ok(Some(found))
            } else {
                Err(ServiceError::IdempotencyMismatch)
            };
        }
        if let Some(name) = &command.external_id
            && let Some(found) = stores.withdrawals.find_by_external_id(command.integrator_id, name).await?
        {
            return if command.asks_for(&found) {
                Ok(Some(found))
            } else {
                Err(ServiceError::ExternalIdConflict)
            };
        }
        Ok(None)
    }

    /// Calls the provider for a withdrawal whose intent is stored, and applies what is known afterwards.
    async fn send(&self, submitted: Withdrawal) -> Result<Withdrawal, ServiceError> {
        let heard = if self.ports.clock.now().since(submitted.submitted_at) > self.ports.submit_grace {
            // Held up for so long that others may be about to take "not known" for proof.
            Heard::NotSent(Seen::new(EvidenceKind::Answer, Proof::NotSent, HELD_UP))
        } else if let Some(held_back) = self.ports.held_back() {
            Heard::NotSent(held_back)
        } else {
            let asked_at = self.ports.clock.now();
            Heard::Answer(self.ports.provider.send_payment(submitted.order()).await, asked_at)
        };
        let recorded = self.record(&submitted, submitted.clone().into(), &heard).await;
        if let Err(error) = &recorded {
            self.ports.unrecorded.remember(Submitted::Withdrawal(Box::new(submitted)), &heard, error);
        }
        recorded
    }

    /// Applies what became of the sending that `submitted` stands for to `of`, the same record.
    async fn record(
        &self,
        submitted: &Withdrawal,
        of: Known,
        heard: &Heard,
    ) -> Result<Withdrawal, ServiceError> {
        // What was refused, or failed, is that sending and no later one.
        let fail = |code: &str, message: &str| {
            let failure = Failure { code: code.to_owned(), message: message.to_owned() };
            let submitted_at = submitted.submitted_at;
            move |withdrawal: Withdrawal, now| {
                if withdrawal.submitted_at == submitted_at {
                    withdrawal.fail(failure.clone(), now)
                } else {
                    Step::Already
                }
            }
        };
        let (answer, asked_at) = match heard {
            Heard::Answer(answer, asked_at) => (answer, *asked_at),
            Heard::NotSent(seen) => return self.take_back(submitted, of, Some(seen.clone())).await,
            Heard::NotKept(..) => return self.take_back(submitted, of, Some(Seen::read_again())).await,
        };
        let error = match answer {
            Ok(report) => {
                let seen = Seen::report(EvidenceKind::Answer, report);
                return match &report.progress {
                    Progress::Failed { code, message } => {
                        self.advance(of, Some(seen), fail(code, message)).await
                    }
                    _ => self.learn(of, report, asked_at, seen).await,
                };
            }
            Err(error) => error,
        };
        let seen = Some(Seen::failed_call(error));
        match error {
            ProviderError::Rejected { code, message, .. } => {
                self.advance(of, seen, fail(code, message)).await
            }
            ProviderError::Unavailable(_) => self.take_back(submitted, of, seen).await,
            ProviderError::Indeterminate(_) => self.advance(of, seen, Withdrawal::lose_sight).await,
            ProviderError::Mismatch(field) => {
                let withdrawal = self.advance(of, seen, Withdrawal::lose_sight).await?;
                self.ports.tell_mismatch(withdrawal.resource(), field).await?;
                Ok(withdrawal)
            }
        }
    }

    /// Applies what the store could not be told when it was heard, to the record as it is by then; `false` when it is to be
    /// tried again.
    pub(crate) async fn record_late(
        &self,
        submitted: &Withdrawal,
        heard: &Heard,
    ) -> Result<bool, ServiceError> {
        if let Heard::NotKept(attempt, since) = heard {
            let found = self.ports.stores.withdrawals.find(submitted.integrator_id, submitted.id).await?;
            if found.is_none_or(|found| found.version < submitted.version) {
                // It may be on its way still.
                return Ok(self.ports.clock.now().since(*since) >= LOOKED_FOR);
            }
            if !self.ports.is_kept(submitted.resource(), *attempt).await? {
                // It is another request's.
                return Ok(true);
            }
        }
        let of = Known::Named(submitted.integrator_id, submitted.id);
        self.record(submitted, of, heard).await.map(|_| true)
    }

    /// For some time after a restore: the withdrawal that this very request has made in books that were lost, when the
    /// provider knows of one. It is taken on whatever its integrator may do now: the money has left.
    ///
    /// [`ServiceError::ProviderUnavailable`] when the provider can't be asked, and [`ServiceError::Restored`] when the wallet
    /// doesn't hold what has left, of which operators are told: neither is a refusal, and nothing is stored.
    async fn recovered(&self, command: &CreateWithdrawal) -> Result<Option<Withdrawal>, ServiceError> {
        if self.ports.outflow.outflow() == Outflow::Open || !command.has_handle() {
            return Ok(None);
        }
        let new = self.priced(command).await?;
        let (id, asked_at) = (new.id, self.ports.clock.now());
        let inquiry = Inquiry {
            reference: Reference::of(id.0),
            provider_id: None,
            amount: command.amount,
            key: Some(command.payee.key.clone()),
        };
        let answer = self.ports.provider.consult_payment(inquiry).await;
        let seen = Seen::consult(&answer, asked_at);
        let Some(report) = restore::told(answer, command.external_id.is_some())? else { return Ok(None) };
        for _ in 0..MAX_STALE_RETRIES {
            let (twins, _) = self.twins(command, id).await?;
            let now = self.ports.clock.now();
            let intent =
                state::accept(new.clone(), now, self.ports.submit_grace).ok_or(ServiceError::Restored)?;
            let accepted = intent.withdrawal().cloned().ok_or(ServiceError::NotFound)?;
            let known = [self.ports.evidence(accepted.resource(), restore::recovering())];
            let mut intent = intent.answering(command.idempotency_key.clone()).witness(known);
            intent.twins = twins;
            match self.ports.stores.transitions.apply(intent).await {
                Ok(()) => {
                    // It is stored, so from here on it is asked about, and never an error.
                    let learned = self.learn(accepted.clone().into(), &report, asked_at, seen).await;
                    return Ok(Some(learned.unwrap_or(accepted)));
                }
                Err(ApplyError::Duplicate(
                    UniqueKey::ExternalId | UniqueKey::IdempotencyKey | UniqueKey::Id,
                )) => return self.replay(command).await?.ok_or(ServiceError::Contention).map(Some),
                Err(ApplyError::InsufficientFunds) => {
                    self.ports.tell_unfunded(accepted.resource(), accepted.amount).await?;
                    return Err(ServiceError::Restored);
                }
                // Others just like it are asked for again at the same moment.
                Err(ApplyError::Duplicate(UniqueKey::Twin) | ApplyError::Stale | ApplyError::Owing) => {}
                Err(ApplyError::Store(error)) => return Err(error.into()),
                Err(ApplyError::Duplicate(_)) => return Err(ServiceError::Contention),
            }
        }
        Err(ServiceError::Contention)
    }

    /// Counts one as just sent and lost sight of; see [`restore::cast_doubt`].
    pub(crate) async fn doubt(
        &self,
        integrator_id: IntegratorId,
        id: WithdrawalId,
        why: &str,
    ) -> Result<Withdrawal, ServiceError> {
        self.advance(Known::Named(integrator_id, id), Some(restore::doubted(why)), Withdrawal::doubt).await
    }

    /// What `submitted` stands for was definitely not sent. Only that very submission goes back to the queue: a later
    /// one, of another worker, may be on its way.
    async fn take_back(
        &self,
        submitted: &Withdrawal,
        of: Known,
        seen: Option<Seen>,
    ) -> Result<Withdrawal, ServiceError> {
        let submitted_at = submitted.submitted_at;
        self.advance(of, seen, |withdrawal, now| {
            if withdrawal.submitted_at == submitted_at { withdrawal.queue(now) } else { Step::Already }
        })
        .await
    }

    /// See [`Ports::hold_back`].
    async fn hold_back(&self, submitted: Withdrawal) -> Option<Withdrawal> {
        let resource = submitted.resource();
        let queued = self.ports.hold_back(resource, submitted.queue(self.ports.clock.now())).await?;
        queued.withdrawal().cloned()
    }

    async fn learn(
        &self,
        of: Known,
        report: &OutgoingReport,
        asked_at: Timestamp,
        seen: Seen,
    ) -> Result<Withdrawal, ServiceError> {
        let decide = |withdrawal: Withdrawal, now: Timestamp| match &report.progress {
            // Taken first and failed later is no contradiction, in whichever order the answers are heard.
            Progress::Accepted if withdrawal.state.has_failed_since(asked_at, withdrawal.completed_at) => {
                Step::Already
            }
            Progress::Accepted => withdrawal.accepted(report.clone(), now),
            Progress::Completed => withdrawal.complete(report.clone(), now),
            Progress::Returned(total) => withdrawal.come_back(report.clone(), *total, now),
            Progress::Failed { code, message } => {
                withdrawal.fail(Failure { code: code.clone(), message: message.clone() }, now)
            }
        };
        self.advance(of, Some(seen), decide).await
    }

    /// Carries out what operators have decided about a sending. `detail` says who and why.
    pub(crate) async fn decide(
        &self,
        integrator_id: IntegratorId,
        id: WithdrawalId,
        verdict: Verdict,
        of: Sending,
        detail: &str,
    ) -> Result<Withdrawal, ServiceError> {
        let (proof, failure) = decided(verdict);
        let seen = Seen::new(EvidenceKind::Decision, proof, detail);
        let known = Known::Named(integrator_id, id);
        self.advance(known, Some(seen), |withdrawal: Withdrawal, now| match &failure {
            // Meanwhile sent again: nothing was decided about that.
            _ if withdrawal.submitted_at != of.submitted_at => Step::Refused("it was sent again meanwhile"),
            None => withdrawal.decide_completed(now),
            // The provider may have said that it has it, which was asked before.
            Some(_) if withdrawal.version != of.version => {
                Step::Refused("it has changed since the provider was asked: decide again")
            }
            Some(failure) => withdrawal.fail(failure.clone(), now),
        })
        .await
    }

    /// One withdrawal of the integrator.
    pub async fn get(
        &self,
        integrator_id: IntegratorId,
        id: WithdrawalId,
    ) -> Result<Withdrawal, ServiceError> {
        self.ports.stores.withdrawals.find(integrator_id, id).await?.ok_or(ServiceError::NotFound)
    }

    /// A page of the integrator's withdrawals, newest first.
    pub async fn list(
        &self,
        integrator_id: IntegratorId,
        query: ListQuery,
    ) -> Result<Page<Withdrawal>, ServiceError> {
        let (cursor, limit) = (query.cursor, query.limit);
        let one_more = query.for_store(self.ports.ids.as_ref());
        let rows = self.ports.stores.withdrawals.list(integrator_id, &one_more).await?;
        Ok(Page::trim(rows, cursor, limit))
    }

    /// Asks the provider about a withdrawal and applies what it says.
    pub async fn refresh(
        &self,
        integrator_id: IntegratorId,
        id: WithdrawalId,
    ) -> Result<(Withdrawal, Result<Option<OutgoingReport>, ProviderError>), ServiceError> {
        let withdrawal = self.get(integrator_id, id).await?;
        self.refresh_read(withdrawal).await
    }

    /// The same of a withdrawal that was just read.
    pub async fn refresh_read(
        &self,
        withdrawal: Withdrawal,
    ) -> Result<(Withdrawal, Result<Option<OutgoingReport>, ProviderError>), ServiceError> {
        self.refresh_hinted(withdrawal, None).await
    }

    /// The same after a callback, which is kept with what is learnt.
    pub(crate) async fn refresh_hinted(
        &self,
        withdrawal: Withdrawal,
        hint: Option<Seen>,
    ) -> Result<(Withdrawal, Result<Option<OutgoingReport>, ProviderError>), ServiceError> {
        let asked_at = self.ports.clock.now();
        let answer = self.ports.provider.consult_payment(withdrawal.inquiry()).await;
        let seen = Seen::consult(&answer, asked_at).led_to_by(hint);
        let withdrawal = match &answer {
            Ok(Some(report)) => self.learn(withdrawal.into(), report, asked_at, seen).await?,
            Ok(None) => self.not_known(withdrawal, asked_at, seen).await?,
            Err(error) => {
                self.note(&withdrawal, seen).await;
                if let ProviderError::Mismatch(field) = error {
                    self.ports.tell_mismatch(withdrawal.resource(), field).await?;
                }
                withdrawal
            }
        };
        Ok((self.review_if_overdue(withdrawal).await?, answer))
    }

    /// The provider doesn't know it: proof that it wasn't sent only if the adapter says after how long, that has
    /// passed since the last moment at which it could have been sent, the provider never said that it took it, it has
    /// answered so before, and nothing has changed since `withdrawal` was read, before it was asked.
    async fn not_known(
        &self,
        withdrawal: Withdrawal,
        asked_at: Timestamp,
        seen: Seen,
    ) -> Result<Withdrawal, ServiceError> {
        let sent_for = asked_at.since(withdrawal.submitted_at);
        let (resource, sent_at) = (withdrawal.resource(), withdrawal.submitted_at);
        let proof = withdrawal.provider_id.is_none()
            && self.ports.not_known_proves(resource, sent_at, asked_at).await?;
        let version = withdrawal.version;
        match withdrawal.state {
            OutgoingState::Submitting | OutgoingState::Uncertain | OutgoingState::NeedsReview if proof => {
                let failure = Failure {
                    code: NOT_EXECUTED.into(),
                    message: "the settlement provider never received this payment".into(),
                };
                self.advance(withdrawal.into(), Some(seen), |withdrawal, now| {
                    if withdrawal.version == version {
                        withdrawal.fail(failure.clone(), now)
                    } else {
                        Step::Already
                    }
                })
                .await
            }
            OutgoingState::Submitting
                if sent_for >= self.ports.submit_grace && self.ports.is_clock_right() =>
            {
                self.advance(withdrawal.into(), Some(seen), |withdrawal, now| {
                    if withdrawal.version == version { withdrawal.lose_sight(now) } else { Step::Already }
                })
                .await
            }
            _ => {
                self.note(&withdrawal, seen).await;
                Ok(withdrawal)
            }
        }
    }

    /// Keeps what was seen of a withdrawal that isn't final, though it changes nothing.
    async fn note(&self, withdrawal: &Withdrawal, seen: Seen) {
        self.ports.note_seen(withdrawal.resource(), withdrawal.state.is_final(), seen).await;
    }

    async fn review_if_overdue(&self, withdrawal: Withdrawal) -> Result<Withdrawal, ServiceError> {
        let overdue = self.ports.clock.now().since(withdrawal.submitted_at) >= schedule::NEEDS_REVIEW_AFTER;
        let open = withdrawal.state.is_uncertain() || withdrawal.state == OutgoingState::Accepted;
        if overdue && open && self.ports.is_clock_right() {
            let ask = Withdrawal::ask_for_review;
            return self.advance(withdrawal.into(), None, ask).await;
        }
        Ok(withdrawal)
    }

    /// Goes on with a withdrawal that is not final: sends what was definitely not sent, gives that up when it has
    /// waited too long, and asks about all else.
    pub async fn follow_up(
        &self,
        integrator_id: IntegratorId,
        id: WithdrawalId,
    ) -> Result<Withdrawal, ServiceError> {
        let withdrawal = self.get(integrator_id, id).await?;
        if withdrawal.state != OutgoingState::Queued {
            return self.refresh_read(withdrawal).await.map(|(withdrawal, _)| withdrawal);
        }
        // After a restore nothing is sent, or given up, that the provider wasn't asked about.
        if self.ports.outflow.outflow() == Outflow::AskFirst {
            let asked_at = self.ports.clock.now();
            let answer = self.ports.provider.consult_payment(withdrawal.inquiry()).await;
            let seen = Seen::consult(&answer, asked_at);
            match answer {
                Ok(None) => {}
                Ok(Some(report)) => return self.learn(withdrawal.into(), &report, asked_at, seen).await,
                Err(_) => return Ok(withdrawal),
            }
        }
        let now = self.ports.clock.now();
        if self.ports.may_go_out().is_err() {
            return Ok(withdrawal);
        }
        if now.since(withdrawal.created_at) >= schedule::QUEUE_MAX_AGE {
            let failure = Failure {
                code: PROVIDER_UNAVAILABLE.into(),
                message: "the settlement provider could not be reached; nothing was sent".into(),
            };
            return self
                .advance(withdrawal.into(), None, |withdrawal, now| match withdrawal.state {
                    OutgoingState::Queued => withdrawal.fail(failure.clone(), now),
                    _ => Step::Already,
                })
                .await;
        }
        // Only the one whose write takes it out of the queue may send it.
        let Step::Next(transition) = withdrawal.clone().submit(now, self.ports.submit_grace) else {
            return Ok(withdrawal);
        };
        let Some(submitted) = transition.withdrawal().cloned() else { return Ok(withdrawal) };
        let intent = transition.witness([self.ports.evidence(submitted.resource(), attempt(&submitted))]);
        let attempt_id = intent.evidence.last().map(|attempt| attempt.id);
        match self.ports.stores.transitions.apply(intent).await {
            Ok(()) => self.send(submitted).await,
            Err(ApplyError::Store(error)) => {
                let error = ServiceError::from(error);
                if let (ServiceError::Store(StoreError::Unknown(_)), Some(id)) = (&error, attempt_id) {
                    // If it is out of the queue, nobody sends it: this puts it back.
                    let of = Submitted::Withdrawal(Box::new(submitted));
                    self.ports.unrecorded.remember(of, &Heard::NotKept(id, now), &error);
                }
                Err(error)
            }
            Err(_) => Ok(withdrawal),
        }
    }

    /// Decides about a withdrawal and applies that. On one that is at hand nothing but a write is decided, which says what
    /// version it changes: whatever else would come of it is decided again, on the withdrawal as it is by then.
    async fn advance(
        &self,
        of: Known,
        seen: Option<Seen>,
        decide: impl Fn(Withdrawal, Timestamp) -> Step + Send + Sync,
    ) -> Result<Withdrawal, ServiceError> {
        let (integrator_id, id, mut at_hand) = match of {
            Known::Named(integrator_id, id) => (integrator_id, id, None),
            Known::Read(withdrawal) => (withdrawal.integrator_id, withdrawal.id, Some(*withdrawal)),
        };
        for _ in 0..MAX_STALE_RETRIES {
            let is_read = at_hand.is_none();
            let withdrawal = match at_hand.take() {
                Some(withdrawal) => withdrawal,
                None => self.get(integrator_id, id).await?,
            };
            match decide(withdrawal.clone(), self.ports.clock.now()) {
                Step::Next(transition) if !is_read && transition.writes.is_empty() => {}
                Step::Already | Step::Refused(_) if !is_read => {}
                Step::Next(transition) => {
                    let after = transition.withdrawal().cloned();
                    let resource = withdrawal.resource();
                    // What changes no record is told again and again; it is kept once in a while.
                    let changes = !transition.writes.is_empty();
                    let kept = seen.clone().filter(|_| changes);
                    let kept = kept.map(|seen| self.ports.evidence_with_hint(resource, seen));
                    let transition = transition.witness(kept.into_iter().flatten());
                    if let Applied::Done = self.ports.apply_change(transition).await? {
                        if let Some(noted) = seen.filter(|_| !changes) {
                            self.ports.note_seen(resource, false, noted).await;
                        }
                        return Ok(after.unwrap_or(withdrawal));
                    }
                }
                Step::Already | Step::Refused(_) => {
                    if let Some(seen) = seen {
                        self.note(&withdrawal, seen).await;
                    }
                    return Ok(withdrawal);
                }
            }
        }
        Err(ServiceError::Contention)
    }
}

/// A withdrawal that is about to change.
enum Known {
    /// It is read first.
    Named(IntegratorId, WithdrawalId),
    /// As it was read or written a moment ago.
    Read(Box<Withdrawal>),
}

impl From<Withdrawal> for Known {
    fn from(withdrawal: Withdrawal) -> Self {
        Self::Read(Box::new(withdrawal))
    }
}

/// What a verdict proves, and the failure it stands for.
pub(crate) fn decided(verdict: Verdict) -> (Proof, Option<Failure>) {
    match verdict {
        Verdict::Completed => (Proof::Completed, None),
        Verdict::Failed => {
            let message = "operators decided, on evidence of their own, that this was not executed";
            (Proof::Failed, Some(Failure { code: RESOLVED_FAILED.into(), message: message.into() }))
        }
    }
}

/// That a withdrawal is about to be sent, and as what.
fn attempt(submitted: &Withdrawal) -> Seen {
    let order = submitted.order();
    let detail = format!(
        "reference {} body {} version {}",
        order.reference,
        order.digest().simple(),
        submitted.version.0
    );
    Seen::new(EvidenceKind::Attempt, Proof::Nothing, &detail)
}
