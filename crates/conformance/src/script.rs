//! A seeded random script, and what it must observe: the same on every store.
//!
//! One caller, three integrators, some hundred steps through the use cases and past them; every step is written down
//! with its result and the wallet after it. What the reference store observed is kept in `observations/`, and every
//! other must observe the same, line by line.

use std::collections::BTreeMap;
use std::time::Duration;

use pix_domain::charges::service::CreateCharge;
use pix_domain::charges::{Charge, ChargeState, Credited};
use pix_domain::credentials::IntegratorStatus;
use pix_domain::error::{ApplyError, ServiceError, StoreError};
use pix_domain::fees::{FeeRule, FeeSchedule};
use pix_domain::ids::{ChargeId, IntegratorId, ResourceKind, ResourceRef, WithdrawalId};
use pix_domain::list::{Cursor, ListQuery};
use pix_domain::money::Cents;
use pix_domain::ports::Outcome;
use pix_domain::provider::{Payment, Progress, ProviderError};
use pix_domain::reconciler::BATCH;
use pix_domain::refunds::Refund;
use pix_domain::refunds::service::CreateRefund;
use pix_domain::transactions::{ProviderAnswer, Transaction};
use pix_domain::transition::{Step, Transition};
use pix_domain::withdrawals::service::CreateWithdrawal;
use pix_domain::withdrawals::{OutgoingState, Withdrawal};
use uuid::Uuid;

use crate::builders::{
    amount, cents, charge_command, key, name, percent, refund_command, withdrawal_command,
};
use crate::{Answer, Services, StoreHarness, StoreSet};

/// How many steps a script has.
pub const STEPS: u32 = 600;

/// The seeds, and what the script of each observes.
pub const OBSERVATIONS: [(u64, &str); 2] =
    [(1, include_str!("../observations/seed-1.txt")), (2, include_str!("../observations/seed-2.txt"))];

/// Runs the script of one seed on an empty store, and asserts that it observes what it must.
pub async fn assert_observes(harness: &mut dyn StoreHarness, seed: u64) {
    let (_, expected) = OBSERVATIONS.iter().find(|(known, _)| *known == seed).expect("a known seed");
    let observed = Box::pin(observe(harness.stores(), seed)).await;
    for (number, (expected, observed)) in expected.lines().zip(&observed).enumerate() {
        assert_eq!(observed, expected, "line {} of seed {seed}", number + 1);
    }
    assert_eq!(observed.len(), expected.lines().count());
}

/// Runs the script of one seed on an empty store; what it observed, a line each.
pub async fn observe(stores: StoreSet, seed: u64) -> Vec<String> {
    let mut script = Script::new(Services::over(stores, seed), seed);
    for label in ["A", "B", "C"] {
        let id = script.services.integrator().await;
        script.integrators.push(id);
        script.labels.insert(id.0, label.to_owned());
        let funds = script.services.paid_charge(id, 100_000).await;
        script.label(funds.resource());
    }
    for number in 1..=STEPS {
        script.step(number).await;
    }
    script.dump().await;
    assert!(script.services.provider.sent_twice().is_empty(), "something was sent twice");
    script.log
}

/// Random numbers that are the same for ever: `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    fn cents(&mut self, most: i64) -> i64 {
        1 + i64::try_from(self.below(u64::try_from(most).expect("positive"))).expect("within range")
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(from.len()).expect("few");
        (count > 0).then(|| &from[usize::try_from(self.below(count)).expect("few")])
    }
}

/// A request, to be repeated.
#[derive(Clone)]
enum Request {
    Charge(CreateCharge),
    Withdrawal(CreateWithdrawal),
    Refund(CreateRefund),
}

struct Script {
    services: Services,
    random: Random,
    log: Vec<String>,
    labels: BTreeMap<Uuid, String>,
    counts: BTreeMap<(IntegratorId, ResourceKind), u32>,
    integrators: Vec<IntegratorId>,
    charges: Vec<ResourceRef>,
    outgoing: Vec<ResourceRef>,
    requests: Vec<Request>,
    payments: Vec<Payment>,
    /// Decided on, and not applied yet.
    pending: Vec<(String, Transition)>,
}

impl Script {
    fn new(services: Services, seed: u64) -> Self {
        Self {
            services,
            random: Random(seed),
            log: Vec::new(),
            labels: BTreeMap::new(),
            counts: BTreeMap::new(),
            integrators: Vec::new(),
            charges: Vec::new(),
            outgoing: Vec::new(),
            requests: Vec::new(),
            payments: Vec::new(),
            pending: Vec::new(),
        }
    }

    async fn step(&mut self, number: u32) {
        // Never a whole second, so that hardly two things are due at the same instant.
        self.services.wait(Duration::from_micros(1_000_000 + self.random.below(9_000_000)));
        let integrator_id = *self.random.pick(&self.integrators).expect("three of them");
        let said = match self.random.below(100) {
            0..12 => self.new_charge(integrator_id).await,
            12..28 => self.pay().await,
            28..32 => self.pay_elsewhere().await,
            32..48 => self.new_withdrawal(integrator_id).await,
            48..58 => self.new_refund().await,
            58..63 => self.repeat().await,
            63..69 => self.provider_changes_its_mind().await,
            69..73 => self.consult().await,
            73..76 => self.cancel_withdrawal().await,
            76..79 => self.cancel_charge().await,
            79..89 => self.work().await,
            89..92 => self.decide().await,
            92..95 => self.apply_late().await,
            95..97 => self.change_fees(integrator_id).await,
            _ => self.list(integrator_id).await,
        };
        let mut wallets = Vec::new();
        for integrator_id in &self.integrators {
            let wallet = self.services.wallet(*integrator_id).await;
            let owed = if wallet.owed.is_zero() { String::new() } else { format!("-{}", wallet.owed) };
            wallets.push(format!("{}/{}{owed}#{}", wallet.available, wallet.held, wallet.entries));
        }
        self.log.push(format!("{number:03} {said} | {}", wallets.join(" ")));
    }

    fn label(&mut self, resource: ResourceRef) -> String {
        if let Some(label) = self.labels.get(&resource.id) {
            return label.clone();
        }
        let count = self.counts.entry((resource.integrator_id, resource.kind)).or_default();
        *count += 1;
        let owner = self.labels.get(&resource.integrator_id.0).cloned().unwrap_or_default();
        let kind = &resource.kind.as_str()[..1];
        let label = format!("{owner}.{kind}{count}");
        self.labels.insert(resource.id, label.clone());
        match resource.kind {
            ResourceKind::Charge => self.charges.push(resource),
            ResourceKind::Withdrawal | ResourceKind::Refund => self.outgoing.push(resource),
            // No charge of the script has one.
            ResourceKind::Split => {}
        }
        label
    }

    fn charge_text(&mut self, charge: &Charge) -> String {
        let label = self.label(charge.resource());
        let (payments, fee) = charge
            .credited
            .as_ref()
            .map_or((0, Cents::ZERO), |Credited { payments, fee, .. }| (*payments, *fee));
        format!(
            "{label} {} v{} paid {} in {payments} fee {fee} reserved {} refunded {}",
            charge.state.name(),
            charge.version.0,
            charge.amount_paid(),
            charge.refund_reserved,
            charge.refunded
        )
    }

    fn withdrawal_text(&mut self, withdrawal: &Withdrawal) -> String {
        let label = self.label(withdrawal.resource());
        format!(
            "{label} {} v{} {}+{} returned {}",
            outgoing_text(&withdrawal.state),
            withdrawal.version.0,
            withdrawal.amount,
            withdrawal.fee,
            withdrawal.returned
        )
    }

    fn refund_text(&mut self, refund: &Refund) -> String {
        let label = self.label(refund.resource());
        let of = self.labels.get(&refund.charge_id.0).cloned().unwrap_or_default();
        format!(
            "{label} of {of} {} v{} {}+{}",
            outgoing_text(&refund.state),
            refund.version.0,
            refund.amount,
            refund.fee
        )
    }

    fn transaction_text(&mut self, transaction: &Transaction) -> String {
        match transaction {
            Transaction::Charge(charge) => self.charge_text(charge),
            Transaction::Withdrawal(withdrawal) => self.withdrawal_text(withdrawal),
            Transaction::Refund(refund) => self.refund_text(refund),
        }
    }

    fn result<T>(
        &mut self,
        result: Result<Outcome<T>, ServiceError>,
        text: impl FnOnce(&mut Self, &T) -> String,
    ) -> String {
        match result {
            Ok(Outcome::Created(record)) => format!("made {}", text(self, &record)),
            Ok(Outcome::Replayed(record)) => format!("again {}", text(self, &record)),
            Err(error) => refusal(&error),
        }
    }

    async fn request(&mut self, request: Request) -> String {
        match request {
            Request::Charge(command) => {
                let result = self.services.charges.create(command).await;
                self.result(result, Self::charge_text)
            }
            Request::Withdrawal(command) => {
                let result = self.services.withdrawals.create(command).await;
                self.result(result, Self::withdrawal_text)
            }
            Request::Refund(command) => {
                let result = self.services.refunds.create(command).await;
                self.result(result, Self::refund_text)
            }
        }
    }

    fn handles(
        &mut self,
    ) -> (Option<pix_domain::text::ExternalId>, Option<pix_domain::text::IdempotencyKey>) {
        let number = self.requests.len();
        let external_id = self.random.one_in(2).then(|| name(&format!("order {number}")));
        let idempotency_key = self.random.one_in(3).then(|| key(&format!("key-{number}")));
        (external_id, idempotency_key)
    }

    async fn new_charge(&mut self, integrator_id: IntegratorId) -> String {
        if self.random.one_in(4) {
            let answers = [
                Answer::Reject,
                Answer::Unavailable,
                Answer::LostAnswer,
                Answer::LostRequest,
                Answer::Accept,
            ];
            let answer = *self.random.pick(&answers).expect("five of them");
            self.services.provider.answers_next_charge(answer);
        }
        let (external_id, idempotency_key) = self.handles();
        let expires_in = if self.random.one_in(4) { Duration::from_mins(2) } else { Duration::from_mins(50) };
        let command = CreateCharge {
            external_id,
            idempotency_key,
            amount: amount(self.random.cents(50_000)),
            expires_in,
            ..charge_command(integrator_id)
        };
        self.requests.push(Request::Charge(command.clone()));
        let value = command.amount;
        format!("charge {value}: {}", self.request(Request::Charge(command)).await)
    }

    async fn some_charge(&mut self) -> Option<Charge> {
        let resource = *self.random.pick(&self.charges)?;
        self.services.charges.get(resource.integrator_id, ChargeId(resource.id)).await.ok()
    }

    async fn some_withdrawal(&mut self) -> Option<Withdrawal> {
        let withdrawals: Vec<_> = self
            .outgoing
            .iter()
            .filter(|resource| resource.kind == ResourceKind::Withdrawal)
            .copied()
            .collect();
        let resource = *self.random.pick(&withdrawals)?;
        self.services.withdrawals.get(resource.integrator_id, WithdrawalId(resource.id)).await.ok()
    }

    async fn refresh(&mut self, charge: &Charge) -> String {
        match self.services.charges.refresh(charge.integrator_id, charge.id).await {
            Ok((charge, _)) => self.charge_text(&charge),
            Err(error) => refusal(&error),
        }
    }

    async fn pay(&mut self) -> String {
        let Some(charge) = self.some_charge().await else { return "pay nothing".into() };
        let exact = charge.amount.cents().get();
        let value_cents = if self.random.one_in(5) { self.random.cents(2 * exact) } else { exact };
        let payment = self.services.payment(value_cents);
        self.payments.push(payment.clone());
        self.services.provider.receives(charge.id.0, payment);
        format!("pay {}: {}", cents(value_cents), self.refresh(&charge).await)
    }

    /// A PIX that was credited before is told of for another charge.
    async fn pay_elsewhere(&mut self) -> String {
        let payment = self.random.pick(&self.payments).cloned();
        let (Some(charge), Some(payment)) = (self.some_charge().await, payment) else {
            return "pay nothing elsewhere".into();
        };
        self.services.provider.receives(charge.id.0, payment.clone());
        format!("pay {} elsewhere: {}", payment.amount, self.refresh(&charge).await)
    }

    fn answer(&mut self) -> Answer {
        let answers = [
            Answer::Complete,
            Answer::Complete,
            Answer::Complete,
            Answer::Accept,
            Answer::Fail,
            Answer::Reject,
            Answer::Unavailable,
            Answer::LostAnswer,
            Answer::LostRequest,
        ];
        *self.random.pick(&answers).expect("nine of them")
    }

    fn status(&mut self) -> IntegratorStatus {
        if self.random.one_in(20) { IntegratorStatus::Suspended } else { IntegratorStatus::Active }
    }

    async fn new_withdrawal(&mut self, integrator_id: IntegratorId) -> String {
        let answer = self.answer();
        self.services.provider.answers(answer);
        let (external_id, idempotency_key) = self.handles();
        let command = CreateWithdrawal {
            external_id,
            idempotency_key,
            integrator_status: self.status(),
            ..withdrawal_command(integrator_id, self.random.cents(30_000))
        };
        self.requests.push(Request::Withdrawal(command.clone()));
        let value = command.amount;
        format!("withdraw {value} {answer:?}: {}", self.request(Request::Withdrawal(command)).await)
    }

    async fn new_refund(&mut self) -> String {
        let Some(charge) = self.some_charge().await else { return "refund nothing".into() };
        let answer = self.answer();
        self.services.provider.answers(answer);
        let (external_id, idempotency_key) = self.handles();
        let value_cents = self.random.cents(charge.amount.cents().get());
        let command = CreateRefund {
            external_id,
            idempotency_key,
            integrator_status: self.status(),
            amount: (!self.random.one_in(4)).then(|| amount(value_cents)),
            ..refund_command(&charge, value_cents)
        };
        self.requests.push(Request::Refund(command.clone()));
        let label = self.label(charge.resource());
        format!("refund {label} {answer:?}: {}", self.request(Request::Refund(command)).await)
    }

    async fn repeat(&mut self) -> String {
        let Some(mut request) = self.random.pick(&self.requests).cloned() else {
            return "repeat nothing".into();
        };
        let changed = self.random.one_in(3);
        if changed {
            let other = amount(self.random.cents(1_000));
            match &mut request {
                Request::Charge(command) => command.amount = other,
                Request::Withdrawal(command) => command.amount = other,
                Request::Refund(command) => command.amount = Some(other),
            }
        }
        self.services.provider.answers(Answer::Complete);
        let how = if changed { "in other words" } else { "as it was" };
        format!("repeat {how}: {}", self.request(request).await)
    }

    async fn provider_changes_its_mind(&mut self) -> String {
        if self.random.one_in(4) {
            return self.provider_sends_back().await;
        }
        let Some(resource) = self.random.pick(&self.outgoing).copied() else {
            return "nothing to know".into();
        };
        let progress = match self.random.below(6) {
            0 => Progress::Accepted,
            1 => Progress::Failed { code: "late".into(), message: "told so later".into() },
            2 => Progress::Returned(cents(self.random.cents(40_000))),
            _ => Progress::Completed,
        };
        let said = format!("{progress:?}");
        self.services.provider.knows(resource.id, progress);
        format!("provider says {said}: {}", self.ask(resource).await)
    }

    /// The provider was forced to send money of a charge back: a part of what was paid, or all of it.
    async fn provider_sends_back(&mut self) -> String {
        let Some(charge) = self.some_charge().await else { return "nothing to send back".into() };
        let part = 1 + i64::try_from(self.random.below(4)).expect("few");
        let back = cents(charge.amount_paid().get() / part);
        self.services.provider.says_refunded(charge.id.0, back);
        format!("provider sent back {back}: {}", self.ask(charge.resource()).await)
    }

    async fn consult(&mut self) -> String {
        let all: Vec<_> = self.charges.iter().chain(&self.outgoing).copied().collect();
        let Some(resource) = self.random.pick(&all).copied() else { return "consult nothing".into() };
        let deaf = self.random.one_in(4);
        if deaf {
            self.services.provider.questions_fail(Some(ProviderError::Unavailable("told to be".into())));
        }
        let said = self.ask(resource).await;
        self.services.provider.questions_fail(None);
        format!("consult: {said}")
    }

    async fn ask(&mut self, resource: ResourceRef) -> String {
        match self.services.transactions.consult(resource).await {
            Ok((transaction, answer)) => {
                let answer = match answer {
                    ProviderAnswer::Known(_) => "known",
                    ProviderAnswer::NotKnown => "not known",
                    ProviderAnswer::NotAsked(_) => "not asked",
                };
                format!("{answer}, {}", self.transaction_text(&transaction))
            }
            Err(error) => refusal(&error),
        }
    }

    async fn cancel_withdrawal(&mut self) -> String {
        let Some(withdrawal) = self.some_withdrawal().await else { return "cancel no withdrawal".into() };
        let label = self.label(withdrawal.resource());
        let step = withdrawal.cancel(self.services.now());
        format!("cancel {label}: {}", self.apply_step(step).await)
    }

    async fn cancel_charge(&mut self) -> String {
        let Some(charge) = self.some_charge().await else { return "cancel no charge".into() };
        if self.random.one_in(2) {
            self.services.provider.removes(charge.id.0);
            return format!("provider removes: {}", self.refresh(&charge).await);
        }
        let label = self.label(charge.resource());
        let step = charge.cancel(self.services.now());
        format!("cancel {label}: {}", self.apply_step(step).await)
    }

    async fn apply_step(&mut self, step: Step) -> String {
        match step {
            Step::Next(transition) => self.apply(transition).await,
            Step::Already => "already".into(),
            Step::Refused(why) => why.into(),
        }
    }

    async fn apply(&self, transition: Transition) -> String {
        match self.services.stores.domain.transitions.apply(transition).await {
            Ok(()) => "applied".into(),
            Err(ApplyError::Store(StoreError::Rejected(_))) => "rejected".into(),
            Err(error) => error.to_string(),
        }
    }

    /// Time goes on, and the worker does what is due, in the order of ids: that of equally overdue ones is the store's.
    async fn work(&mut self) -> String {
        let horizon = self.random.one_in(2).then_some(Duration::from_mins(3));
        self.services.provider.not_found_is_proof(horizon);
        let answer = self.answer();
        self.services.provider.answers(answer);
        let seconds = 1 + self.random.below(600);
        self.services.wait(Duration::from_secs(seconds));
        let mut said = vec![format!("work after {seconds} s, {answer:?}:")];
        let mut due = Vec::new();
        loop {
            // So that no batch is cut short: which of them are in it would be the store's choice, too.
            let batch = self.services.reconciler.claim(BATCH).await.expect("a claim");
            if batch.is_empty() {
                break;
            }
            due.extend(batch);
        }
        due.sort_by_key(|due| due.resource);
        for item in due {
            let label = self.label(item.resource);
            let done = self.services.reconciler.process(item).await;
            let done = done.map_or_else(|error| refusal(&error), |()| "done".into());
            said.push(format!("{label} {} {done};", item.attempts));
        }
        said.join(" ")
    }

    /// Decides on something now, to be applied later: it may be stale by then, or want money that is gone.
    async fn decide(&mut self) -> String {
        let transition = match self.random.below(4) {
            0 => match self.some_charge().await {
                Some(charge) => charge.cancel(self.services.now()).next(),
                None => None,
            },
            1 => match self.some_withdrawal().await {
                Some(withdrawal) => withdrawal.ask_for_review(self.services.now()).next(),
                None => None,
            },
            2 => match self.some_charge().await {
                Some(charge)
                    if charge.left_to_refund() >= cents(100) && charge.state == ChargeState::Paid =>
                {
                    Some(self.services.refund_intent(&charge, 100))
                }
                _ => None,
            },
            _ => {
                let integrator_id = *self.random.pick(&self.integrators).expect("three of them");
                Some(self.services.withdrawal_intent(integrator_id, self.random.cents(20_000)))
            }
        };
        let Some(transition) = transition else { return "decide nothing".into() };
        let label = self.label(transition.writes[0].record.resource());
        self.pending.push((label.clone(), transition));
        format!("decide on {label}")
    }

    async fn apply_late(&mut self) -> String {
        if self.pending.is_empty() {
            return "apply nothing".into();
        }
        let (label, transition) = self.pending.remove(0);
        format!("apply late {label}: {}", self.apply(transition).await)
    }

    async fn change_fees(&mut self, integrator_id: IntegratorId) -> String {
        let shares = ["0", "0.5", "1.25", "3.3333"];
        let mut rule = || {
            let share = percent(self.random.pick(&shares).expect("four of them"));
            let max = self.random.one_in(3).then_some(cents(500));
            FeeRule::new(cents(self.random.cents(100) - 1), share, cents(self.random.cents(50) - 1), max)
                .expect("a possible rule")
        };
        let schedule = FeeSchedule { version: 0, cash_in: rule(), cash_out: rule(), refund: rule() };
        format!("fees: version {}", self.services.set_fees(integrator_id, schedule).await)
    }

    async fn list(&mut self, integrator_id: IntegratorId) -> String {
        let some = self.random.pick(&self.charges).map(|resource| resource.id);
        let cursor = match (some, self.random.below(3)) {
            (Some(id), 0) => Some(Cursor::OlderThan(id)),
            (Some(id), 1) => Some(Cursor::NewerThan(id)),
            _ => None,
        };
        let states = if self.random.one_in(2) { Vec::new() } else { vec!["paid", "expired", "completed"] };
        let back = Duration::from_secs(self.random.below(7_200));
        let since = self.services.now().micros() - i64::try_from(back.as_micros()).expect("two hours");
        let created_from = self.random.one_in(3).then_some(pix_domain::time::Timestamp::from_micros(since));
        let limit = 1 + u32::try_from(self.random.below(6)).expect("a small number");
        let query = ListQuery { states, cursor, created_from, limit, ..ListQuery::default() };
        let charges = self.services.charges.list(integrator_id, query.clone()).await.expect("a page");
        let withdrawals = self.services.withdrawals.list(integrator_id, query).await.expect("a page");
        let mut said = vec!["list:".to_owned()];
        for charge in &charges.items {
            said.push(self.label(charge.resource()));
        }
        said.push(format!("{} {};", charges.has_older, charges.has_newer));
        for withdrawal in &withdrawals.items {
            said.push(self.label(withdrawal.resource()));
        }
        said.push(format!("{} {}", withdrawals.has_older, withdrawals.has_newer));
        said.join(" ")
    }

    /// Everything that there is in the end.
    async fn dump(&mut self) {
        for integrator_id in self.integrators.clone() {
            let mut book = self.services.stores.books.book(integrator_id).await.expect("a book");
            book.charges.sort_by_key(|charge| charge.id);
            book.withdrawals.sort_by_key(|withdrawal| withdrawal.id);
            book.refunds.sort_by_key(|refund| refund.id);
            for charge in &book.charges {
                let line = self.charge_text(charge);
                self.log.push(line);
            }
            for withdrawal in &book.withdrawals {
                let line = self.withdrawal_text(withdrawal);
                self.log.push(line);
            }
            for refund in &book.refunds {
                let line = self.refund_text(refund);
                self.log.push(line);
            }
            for entry in &book.entries {
                let label = self.label(entry.posting.resource);
                let (reason, amount) = (entry.posting.reason.as_str(), entry.posting.amount);
                let (available, held) = (entry.available_after, entry.held_after);
                self.log.push(format!("{} {reason} {amount} {label} {available}/{held}", entry.number));
            }
            for finding in self.services.stores.books.findings(integrator_id).await.expect("findings") {
                let label = self.label(finding.resource);
                self.log.push(format!("{label} {}: {}", finding.code, finding.detail));
            }
        }
    }
}

fn outgoing_text(state: &OutgoingState) -> String {
    match state {
        OutgoingState::Failed(failure) => format!("failed ({})", failure.code),
        other => other.name().to_owned(),
    }
}

/// An error in words that are the domain's, not the store's.
fn refusal(error: &ServiceError) -> String {
    match error {
        ServiceError::Store(_) => "the store failed".to_owned(),
        other => other.to_string(),
    }
}
