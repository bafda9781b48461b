//! What nobody knows is decided by two operators, after the provider was asked, and written down before it is done.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::audit_log::{Action, AuditLog, AuditLogStore, LogEntry, Operator};
use pix_domain::callbacks::Callback;
use pix_domain::decisions::{
    Decided, Decision, DecisionService, FORGOTTEN_FOR, PROPOSAL_LIFETIME, REASON_CHARS, Seen, Verdict,
};
use pix_domain::error::{ServiceError, StoreError};
use pix_domain::evidence::{EvidenceKind, MAX_SILENCE, MIN_REPEAT_GAP, Proof};
use pix_domain::ids::{IntegratorId, ResourceRef};
use pix_domain::provider::{Progress, ProviderError};
use pix_domain::transactions::TransactionService;
use pix_domain::withdrawals::{OutgoingState, Withdrawal};
use uuid::Uuid;

use crate::builders::{next, refund_command, withdrawal_command};
use crate::harness::SUBMIT_GRACE;
use crate::{Answer, FakeProvider, Services, StoreHarness, services};

fn operator(name: &str) -> Operator {
    Operator::parse(name).expect("a name")
}

async fn decide(services: &Services, id: Uuid, verdict: Verdict, who: &str) -> Result<Decided, ServiceError> {
    let reason = format!("{who} has seen the bank's statement");
    let seen = Seen::NotLooked;
    services.decisions.decide(&Decision { id, verdict, reason, operator: operator(who), seen }).await
}

fn log(services: &Services) -> AuditLog {
    AuditLog::new(services.stores.domain.audit_log.clone(), services.clock.clone())
}

async fn actions(services: &Services, id: Uuid) -> Vec<Action> {
    let about = log(services).about(&id.to_string(), 100).await.expect("entries");
    about.iter().rev().map(|entry| entry.action).collect()
}

/// An integrator with 100.00, and a withdrawal of 40.00 that nobody knows about.
async fn lost(services: &Services) -> (IntegratorId, Withdrawal) {
    let integrator_id = services.funded(10_000).await;
    services.provider.answers_next(Answer::LostRequest);
    let created = services.withdrawals.create(withdrawal_command(integrator_id, 4_000)).await;
    (integrator_id, created.expect("a withdrawal").into_inner())
}

/// One operator proposes, another confirms; only then does money move, and the evidence names both.
pub async fn two_operators_decide(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    for (verdict, proof, state, balances) in [
        (Verdict::Failed, Proof::Failed, "failed", (10_000, 0)),
        (Verdict::Completed, Proof::Completed, "completed", (6_000, 0)),
    ] {
        let (integrator_id, withdrawal) = lost(&services).await;
        let id = withdrawal.id.0;
        let proposed = decide(&services, id, verdict, "ana").await.expect("a proposal");
        let until = services.now().plus(PROPOSAL_LIFETIME);
        assert_eq!(proposed, Decided::Proposed(withdrawal.resource(), until, None));
        for herself in ["ana", "Ana"] {
            let alone = decide(&services, id, verdict, herself).await;
            assert!(matches!(alone, Err(ServiceError::InvalidState(why)) if why.contains("second operator")));
        }
        assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Uncertain);
        assert_eq!(services.balances(integrator_id).await, (6_000, 4_000));
        let done = decide(&services, id, verdict, "rui").await.expect("a decision");
        assert!(matches!(done, Decided::Done(_)), "{done:?}");
        assert_eq!(services.withdrawal(&withdrawal).await.state.name(), state);
        assert_eq!(services.balances(integrator_id).await, balances);
        let seen = services.transactions.evidence(withdrawal.resource()).await.expect("evidence");
        let decision = seen.iter().find(|seen| seen.kind == EvidenceKind::Decision).expect("a decision");
        assert_eq!(decision.proof, proof);
        assert!(decision.detail.contains("ana") && decision.detail.contains("rui"), "{}", decision.detail);
        let expected = match verdict {
            Verdict::Completed => [Action::CompletedProposed, Action::CompletedConfirmed],
            Verdict::Failed => [Action::FailedProposed, Action::FailedConfirmed],
        };
        assert_eq!(actions(&services, id).await, expected);
        assert!(matches!(decide(&services, id, verdict, "rui").await, Ok(Decided::ByEvidence(_))));
    }
    assert_eq!(log(&services).verify().await.map(|chain| chain.map(|(count, _)| count)), Ok(Ok(4)));
}

/// Whether it may be on its way just now, and how old a proposal is, is told by the clock: while that isn't right, nobody decides.
pub async fn nothing_is_decided_by_a_clock_that_is_not_right(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (_, withdrawal) = lost(&services).await;
    let id = withdrawal.id.0;
    services.clock.right_for(None);
    for verdict in [Verdict::Failed, Verdict::Completed] {
        let refused = decide(&services, id, verdict, "ana").await;
        assert!(
            matches!(refused, Err(ServiceError::InvalidState(why)) if why.contains("clock")),
            "{refused:?}"
        );
    }
    assert!(actions(&services, id).await.is_empty());
    services.clock.right_for(Some(Duration::ZERO));
    let proposed = decide(&services, id, Verdict::Failed, "ana").await;
    assert!(matches!(proposed, Ok(Decided::Proposed(..))), "{proposed:?}");
}

/// Evidence goes before opinion: what the provider knows is not decided, and what it has is never called failed.
pub async fn evidence_goes_before_opinion(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (integrator_id, withdrawal) = lost(&services).await;
    let id = withdrawal.id.0;
    services.provider.knows(id, Progress::Accepted);
    let refused = decide(&services, id, Verdict::Failed, "ana").await;
    assert!(matches!(refused, Err(ServiceError::InvalidState(why)) if why.contains("provider has it")));
    services.provider.knows(id, Progress::Completed);
    assert!(matches!(decide(&services, id, Verdict::Failed, "ana").await, Ok(Decided::ByEvidence(_))));
    assert_eq!(services.balances(integrator_id).await, (6_000, 0));
    assert_eq!(actions(&services, id).await, []);
    services.provider.answers_next(Answer::Unavailable);
    let created = services.withdrawals.create(withdrawal_command(integrator_id, 100)).await;
    let queued = created.expect("a withdrawal").into_inner();
    let refused = decide(&services, queued.id.0, Verdict::Completed, "ana").await;
    assert!(matches!(refused, Err(ServiceError::InvalidState(why)) if why.contains("not sent")));
    let charge = services.charge(integrator_id, 100).await;
    let refused = decide(&services, charge.id.0, Verdict::Failed, "ana").await;
    assert!(matches!(refused, Err(ServiceError::InvalidState(_))));
    assert_eq!(decide(&services, services.id(), Verdict::Failed, "ana").await, Err(ServiceError::NotFound));
}

/// What the provider once took can't be called failed, though it can't be asked now; and what may just be on its way can't
/// be decided.
pub async fn what_was_taken_or_is_on_its_way_is_not_decided(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (integrator_id, withdrawal) = lost(&services).await;
    let id = withdrawal.id.0;
    services.provider.knows(id, Progress::Accepted);
    services.transactions.consult(withdrawal.resource()).await.expect("a consult");
    services.provider.questions_fail(Some(ProviderError::Unavailable("x".into())));
    let refused = decide(&services, id, Verdict::Failed, "ana").await;
    assert!(matches!(refused, Err(ServiceError::InvalidState(why)) if why.contains("provider has it")));
    let intent = services.withdrawal_intent(integrator_id, 100);
    let sending = intent.withdrawal().cloned().expect("a withdrawal");
    services.apply(intent).await;
    let refused = decide(&services, sending.id.0, Verdict::Failed, "ana").await;
    assert!(matches!(refused, Err(ServiceError::InvalidState(why)) if why.contains("on its way")));
    assert_eq!(services.balances(integrator_id).await, (5_900, 4_100));
    services.wait(SUBMIT_GRACE);
    let proposed = decide(&services, sending.id.0, Verdict::Failed, "ana").await;
    assert!(matches!(proposed, Ok(Decided::Proposed(..))), "{proposed:?}");
}

/// What the provider took and has not known for a day can be called failed; not sooner, not while it can't be asked, and not
/// when it has known it again, called back about it or said nothing in between.
pub async fn what_the_provider_has_forgotten_for_a_day_is_decided(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (integrator_id, withdrawal) = lost(&services).await;
    let (id, resource) = (withdrawal.id.0, withdrawal.resource());
    let consult = async || services.transactions.consult(resource).await.expect("a consult");
    // Asked as the gateway does, more than once an hour.
    let asked_for = async |span: Duration| {
        let gap = MAX_SILENCE / 2;
        for _ in 0..span.as_secs() / gap.as_secs() {
            services.wait(gap);
            consult().await;
        }
    };
    let refused = async |why: &str| {
        let refused = decide(&services, id, Verdict::Failed, "ana").await;
        assert!(
            matches!(refused, Err(ServiceError::InvalidState(said)) if said.contains(why)),
            "{refused:?}"
        );
    };
    let forgotten = "had it, and doesn't know it now";
    // Not known before it was taken, which is no forgetting.
    consult().await;
    asked_for(FORGOTTEN_FOR).await;
    services.provider.knows(id, Progress::Accepted);
    consult().await;
    services.provider.forgets(id);
    refused(forgotten).await;
    asked_for(FORGOTTEN_FOR.saturating_sub(MAX_SILENCE)).await;
    refused(forgotten).await;
    services.provider.knows(id, Progress::Accepted);
    services.wait(MIN_REPEAT_GAP);
    refused("provider has it").await;
    services.provider.forgets(id);
    services.wait(MIN_REPEAT_GAP);
    refused(forgotten).await;
    // Two answers and a day without any between them are no day of not knowing.
    services.wait(FORGOTTEN_FOR);
    refused(forgotten).await;
    asked_for(FORGOTTEN_FOR / 2).await;
    let callback =
        Callback { id: services.id(), received_at: services.now(), reference: Some(id), body: "{}".into() };
    services.transactions.called_back(resource, &callback).await;
    asked_for(FORGOTTEN_FOR / 2).await;
    refused(forgotten).await;
    asked_for(FORGOTTEN_FOR / 2 + MAX_SILENCE).await;
    services.provider.questions_fail(Some(ProviderError::Unavailable("x".into())));
    refused("can't be asked now").await;
    services.provider.questions_fail(None);
    assert_eq!(services.balances(integrator_id).await, (6_000, 4_000));
    assert!(matches!(decide(&services, id, Verdict::Failed, "ana").await, Ok(Decided::Proposed(..))));
    // It has it after all, before the second operator confirms.
    services.provider.knows(id, Progress::Accepted);
    let late = decide(&services, id, Verdict::Failed, "rui").await;
    assert!(matches!(late, Err(ServiceError::InvalidState(why)) if why.contains("provider has it")));
    services.provider.forgets(id);
    services.wait(MIN_REPEAT_GAP);
    consult().await;
    asked_for(FORGOTTEN_FOR).await;
    assert!(matches!(decide(&services, id, Verdict::Failed, "ana").await, Ok(Decided::Proposed(..))));
    assert!(matches!(decide(&services, id, Verdict::Failed, "rui").await, Ok(Decided::Done(_))));
    assert_eq!(services.withdrawal(&withdrawal).await.state.name(), "failed");
    assert_eq!(services.balances(integrator_id).await, (10_000, 0));
    // It left all the same: it is taken from the wallet.
    services.provider.knows(id, Progress::Completed);
    consult().await;
    assert_eq!(services.balances(integrator_id).await, (6_000, 0));
}

/// Who disagrees makes a proposal of their own, and a proposal nobody confirms ends.
pub async fn who_disagrees_confirms_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (integrator_id, withdrawal) = lost(&services).await;
    let id = withdrawal.id.0;
    for (verdict, who, in_place_of) in [
        (Verdict::Failed, "ana", None),
        (Verdict::Completed, "rui", Some("ana")),
        (Verdict::Failed, "eva", Some("rui")),
    ] {
        let Ok(Decided::Proposed(_, _, replaced)) = decide(&services, id, verdict, who).await else {
            panic!("nothing is proposed");
        };
        assert_eq!(replaced.as_ref().map(Operator::as_str), in_place_of);
    }
    services.wait(PROPOSAL_LIFETIME);
    assert!(matches!(decide(&services, id, Verdict::Failed, "rui").await, Ok(Decided::Proposed(..))));
    assert_eq!(services.balances(integrator_id).await, (6_000, 4_000));
    services.wait(PROPOSAL_LIFETIME.saturating_sub(Duration::from_secs(1)));
    assert!(matches!(decide(&services, id, Verdict::Failed, "ana").await, Ok(Decided::Done(_))));
    assert_eq!(services.balances(integrator_id).await, (10_000, 0));
}

/// Who was told that a proposal moves nothing confirms none, though another operator has proposed the same meanwhile.
pub async fn who_has_not_seen_a_proposal_confirms_none(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (integrator_id, withdrawal) = lost(&services).await;
    let id = withdrawal.id.0;
    let decide = async |who: &str, seen: Seen| {
        let (verdict, reason) = (Verdict::Failed, "the bank's statement".to_owned());
        services.decisions.decide(&Decision { id, verdict, reason, operator: operator(who), seen }).await
    };
    let changed = |came: Result<Decided, ServiceError>| matches!(came, Err(ServiceError::InvalidState(why)) if why.contains("changed"));
    assert!(changed(decide("rui", Seen::Proposal(1)).await));
    assert!(matches!(decide("rui", Seen::Nothing).await, Ok(Decided::Proposed(..))));
    assert!(changed(decide("ana", Seen::Nothing).await));
    assert_eq!(services.balances(integrator_id).await, (6_000, 4_000));
    let about = log(&services).about(&id.to_string(), 1).await.expect("entries");
    let number = about.first().expect("a proposal").number;
    assert!(changed(decide("ana", Seen::Proposal(number.saturating_add(1))).await));
    assert_eq!(actions(&services, id).await, [Action::FailedProposed]);
    assert!(matches!(decide("ana", Seen::Proposal(number)).await, Ok(Decided::Done(_))));
    assert_eq!(services.balances(integrator_id).await, (10_000, 0));
}

/// A reason stands in lines beside others: it is of what can be seen, and of no line of its own.
pub async fn a_reason_that_could_look_like_another_line_is_refused(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (_, withdrawal) = lost(&services).await;
    let decide = async |reason: &str| {
        let (id, operator) = (withdrawal.id.0, operator("ana"));
        let (reason, seen) = (reason.to_owned(), Seen::NotLooked);
        services.decisions.decide(&Decision { id, verdict: Verdict::Failed, reason, operator, seen }).await
    };
    let longest = "ã".repeat(*REASON_CHARS.end());
    for reason in [
        "",
        "  no  ",
        &format!("{longest}a"),
        "ok\n   999  rui  ok",
        "ok \u{1b}[31m",
        "ok \0",
        "ok \u{202e}ana",
    ] {
        let refused = decide(reason).await;
        assert!(
            matches!(refused, Err(ServiceError::InvalidState(why)) if why.starts_with("the reason must")),
            "{reason:?}: {refused:?}"
        );
    }
    assert_eq!(actions(&services, withdrawal.id.0).await, []);
    assert!(matches!(decide(&format!(" {longest} ")).await, Ok(Decided::Proposed(..))));
}

/// Whoever died between the journal and the money is finished by the same command, by anybody.
pub async fn a_confirmed_decision_is_finished(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (integrator_id, withdrawal) = lost(&services).await;
    let id = withdrawal.id.0;
    assert!(matches!(decide(&services, id, Verdict::Failed, "ana").await, Ok(Decided::Proposed(..))));
    let (log, subject) = (log(&services), id.to_string());
    let detail = "decided by ana (a) and rui (b)";
    let confirmed = log.record(&operator("rui"), Action::FailedConfirmed, &subject, detail).await;
    confirmed.expect("an entry");
    assert_eq!(services.balances(integrator_id).await, (6_000, 4_000));
    assert!(matches!(decide(&services, id, Verdict::Failed, "ana").await, Ok(Decided::Done(_))));
    assert_eq!(services.balances(integrator_id).await, (10_000, 0));
    assert_eq!(actions(&services, id).await, [Action::FailedProposed, Action::FailedConfirmed]);
}

/// A decision is about the sending that it was made about, and about no later one.
pub async fn a_decision_holds_for_its_sending_only(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (integrator_id, withdrawal) = lost(&services).await;
    let id = withdrawal.id.0;
    assert!(matches!(decide(&services, id, Verdict::Failed, "ana").await, Ok(Decided::Proposed(..))));
    services.wait(Duration::from_secs(1));
    let queued = next(services.withdrawal(&withdrawal).await.queue(services.now()));
    services.apply(queued).await;
    services.provider.answers_next(Answer::LostRequest);
    services.wait(Duration::from_secs(5));
    services.reconciler.run_once().await.expect("a round");
    assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Uncertain);
    assert!(matches!(decide(&services, id, Verdict::Failed, "rui").await, Ok(Decided::Proposed(..))));
    assert_eq!(services.balances(integrator_id).await, (6_000, 4_000));
    services.wait(Duration::from_secs(1));
    assert!(matches!(decide(&services, id, Verdict::Failed, "ana").await, Ok(Decided::Done(_))));
}

/// A journal in which nobody confirms before the provider has taken what is decided about.
struct TakenMeanwhile {
    log: Arc<dyn AuditLogStore>,
    provider: Arc<FakeProvider>,
    transactions: TransactionService,
    of: ResourceRef,
}

#[async_trait]
impl AuditLogStore for TakenMeanwhile {
    async fn append(&self, entry: LogEntry) -> Result<bool, StoreError> {
        if entry.action == Action::FailedConfirmed {
            self.provider.knows(self.of.id, Progress::Accepted);
            self.transactions.consult(self.of).await.expect("a consult");
        }
        self.log.append(entry).await
    }

    async fn list(&self, after: u64, limit: u32) -> Result<Vec<LogEntry>, StoreError> {
        self.log.list(after, limit).await
    }

    async fn newest(&self) -> Result<Option<LogEntry>, StoreError> {
        self.log.newest().await
    }

    async fn about(&self, subject: &str, limit: u32) -> Result<Vec<LogEntry>, StoreError> {
        self.log.about(subject, limit).await
    }
}

/// What the provider says that it has after the second operator's question, and before the decision is carried out, is not called
/// failed.
pub async fn what_the_provider_takes_meanwhile_is_not_called_failed(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (integrator_id, withdrawal) = lost(&services).await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    services.provider.answers_next(Answer::LostRequest);
    let refund =
        services.refunds.create(refund_command(&charge, 3_000)).await.expect("a refund").into_inner();
    let balances = services.balances(integrator_id).await;
    for of in [withdrawal.resource(), refund.resource()] {
        let log = services.stores.domain.audit_log.clone();
        let (provider, transactions) = (services.provider.clone(), services.transactions.clone());
        let mut ports = services.ports.clone();
        ports.stores.audit_log = Arc::new(TakenMeanwhile { log, provider, transactions, of });
        let decisions = DecisionService::new(ports);
        let failed = |who: &str| Decision {
            id: of.id,
            verdict: Verdict::Failed,
            reason: "not in the statement".into(),
            operator: operator(who),
            seen: Seen::NotLooked,
        };
        assert!(matches!(decisions.decide(&failed("ana")).await, Ok(Decided::Proposed(..))));
        let refused = decisions.decide(&failed("rui")).await;
        assert!(
            matches!(refused, Err(ServiceError::InvalidState(why)) if why.contains("has changed")),
            "{refused:?}"
        );
        let refused = decide(&services, of.id, Verdict::Failed, "rui").await;
        assert!(matches!(refused, Err(ServiceError::InvalidState(why)) if why.contains("provider has it")));
    }
    assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Accepted);
    assert_eq!(services.balances(integrator_id).await, balances);
}

/// A refund is decided as a withdrawal is, with its charge.
pub async fn a_refund_is_decided_with_its_charge(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    for (verdict, sums) in [(Verdict::Failed, (0, 0)), (Verdict::Completed, (0, 3_000))] {
        services.provider.answers_next(Answer::LostRequest);
        let created = services.refunds.create(refund_command(&charge, 3_000)).await;
        let refund = created.expect("a refund").into_inner();
        assert!(matches!(decide(&services, refund.id.0, verdict, "ana").await, Ok(Decided::Proposed(..))));
        assert!(matches!(decide(&services, refund.id.0, verdict, "rui").await, Ok(Decided::Done(_))));
        let charge = services.charges.get(integrator_id, charge.id).await.expect("the charge");
        assert_eq!((charge.refund_reserved.get(), charge.refunded.get()), sums);
    }
    assert_eq!(services.balances(integrator_id).await, (7_000, 0));
}

/// What leaves after it was decided not to is taken from the wallet, and an operator is told.
pub async fn a_wrong_decision_is_paid_for(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (integrator_id, withdrawal) = lost(&services).await;
    for who in ["ana", "rui"] {
        decide(&services, withdrawal.id.0, Verdict::Failed, who).await.expect("a decision");
    }
    assert_eq!(services.balances(integrator_id).await, (10_000, 0));
    services.provider.knows(withdrawal.id.0, Progress::Completed);
    services.transactions.consult(withdrawal.resource()).await.expect("a consult");
    assert_eq!(services.balances(integrator_id).await, (6_000, 0));
    let found = services.stores.books.findings(integrator_id).await.expect("findings");
    assert_eq!(found.len(), 1);
}

/// The journal has no gaps, is read from any number on, and a taken number is refused.
pub async fn the_journal_is_a_chain(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (log, store) = (log(&services), services.stores.domain.audit_log.clone());
    assert_eq!(store.newest().await, Ok(None));
    let mut written = Vec::new();
    for (number, subject) in ["a", "b", "a"].into_iter().enumerate() {
        services.wait(Duration::from_secs(1));
        let who = operator(&format!("operator {number}"));
        written.push(log.record(&who, Action::FeesSet, subject, "çé 'x' \"y\"").await.expect("an entry"));
    }
    assert_eq!(store.list(0, 100).await.as_ref(), Ok(&written));
    assert_eq!(store.list(1, 1).await, Ok(vec![written[1].clone()]));
    assert_eq!(store.newest().await, Ok(Some(written[2].clone())));
    assert_eq!(store.about("a", 100).await, Ok(vec![written[2].clone(), written[0].clone()]));
    assert_eq!(store.about("a", 1).await, Ok(vec![written[2].clone()]));
    assert_eq!(store.append(LogEntry { number: 2, ..written[2].clone() }).await, Ok(false));
    assert_eq!(store.list(0, 100).await, Ok(written.clone()));
    assert_eq!(log.verify().await, Ok(Ok((3, written[2].hash))));
}

/// Those who write at the same time are put in one order, and none is lost.
pub async fn many_write_the_journal_at_once(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let tasks: Vec<_> = (0..12)
        .map(|number| {
            let log = log(&services);
            tokio::spawn(async move {
                let who = operator(&format!("operator {number}"));
                log.record(&who, Action::KeyCreated, "k", "").await.expect("an entry").number
            })
        })
        .collect();
    let mut numbers = Vec::new();
    for task in tasks {
        numbers.push(task.await.expect("a task"));
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=12).collect::<Vec<u64>>());
    assert_eq!(log(&services).verify().await.map(|chain| chain.map(|(count, _)| count)), Ok(Ok(12)));
}
