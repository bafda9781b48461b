//! What was done and heard about an outgoing movement is kept, in order, and shown to its integrator alone.

use std::time::Duration;

use pix_domain::evidence::{Evidence, EvidenceKind, MIN_REPEAT_GAP, Proof};
use pix_domain::ids::ResourceRef;
use pix_domain::transition::Transition;

use crate::builders::{refund_command, withdrawal_command};
use crate::{Answer, Services, StoreHarness, services};

async fn story(services: &Services, resource: ResourceRef) -> Vec<(EvidenceKind, Proof)> {
    let known = services.stores.domain.evidence.list(resource).await.expect("the evidence");
    known.iter().map(|evidence| (evidence.kind, evidence.proof)).collect()
}

async fn after(services: &Services, span: Duration) {
    services.wait(span);
    services.reconciler.run_once().await.expect("a round");
}

/// The attempt is written before the call, the lost answer after it, and the answer to the question that ended it.
pub async fn the_story_of_a_withdrawal_is_kept_in_order(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    services.provider.answers_next(Answer::LostAnswer);
    let created = services.withdrawals.create(withdrawal_command(integrator_id, 4_000)).await;
    let withdrawal = created.expect("a withdrawal").into_inner();
    let sent = [(EvidenceKind::Attempt, Proof::Nothing), (EvidenceKind::Answer, Proof::Unknown)];
    assert_eq!(story(&services, withdrawal.resource()).await, sent);
    after(&services, Duration::from_secs(5)).await;
    let known = services.stores.domain.evidence.list(withdrawal.resource()).await.expect("the evidence");
    assert_eq!(known.len(), 3);
    assert_eq!((known[2].kind, known[2].proof), (EvidenceKind::Consult, Proof::Completed));
    assert!(known[0].detail.starts_with(&format!("reference {}", withdrawal.reference())), "{known:?}");
    assert_eq!(known[2].at.since(known[0].at), Duration::from_secs(5));

    let foreign = ResourceRef { integrator_id: services.integrator().await, ..withdrawal.resource() };
    assert_eq!(story(&services, foreign).await, []);
}

/// The same for a refund that is refused.
pub async fn the_story_of_a_refund_is_kept_in_order(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    services.provider.answers_next(Answer::Unavailable);
    let created = services.refunds.create(refund_command(&charge, 4_000)).await;
    let refund = created.expect("a refund").into_inner();
    services.provider.answers_next(Answer::Reject);
    after(&services, Duration::from_secs(5)).await;
    let expected = [
        (EvidenceKind::Attempt, Proof::Nothing),
        (EvidenceKind::Answer, Proof::NotSent),
        (EvidenceKind::Attempt, Proof::Nothing),
        (EvidenceKind::Answer, Proof::Failed),
    ];
    assert_eq!(story(&services, refund.resource()).await, expected);
}

/// Whoever asks every second adds one line in a while.
pub async fn a_repeated_answer_is_kept_once_in_a_while(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    services.provider.answers_next(Answer::LostRequest);
    let created = services.withdrawals.create(withdrawal_command(integrator_id, 4_000)).await;
    let withdrawal = created.expect("a withdrawal").into_inner();
    let before = story(&services, withdrawal.resource()).await.len();
    for _ in 0..3 {
        services.transactions.consult(withdrawal.resource()).await.expect("a consult");
    }
    assert_eq!(story(&services, withdrawal.resource()).await.len(), before + 1);
    services.wait(MIN_REPEAT_GAP);
    services.transactions.consult(withdrawal.resource()).await.expect("a consult");
    let known = story(&services, withdrawal.resource()).await;
    assert_eq!(known.len(), before + 2);
    assert_eq!(known.last(), Some(&(EvidenceKind::Consult, Proof::NotKnown)));
}

/// Evidence alone is a transition too; applied twice, it is kept once; and a refused transition keeps none.
pub async fn evidence_is_kept_once_and_with_its_transition(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(1_000).await;
    let intent = services.withdrawal_intent(integrator_id, 1_000);
    let resource = intent.withdrawal().expect("a withdrawal").resource();
    let seen = |detail: &str| Evidence {
        id: services.id(),
        resource,
        at: services.now(),
        kind: EvidenceKind::Callback,
        proof: Proof::Nothing,
        detail: detail.into(),
    };
    let alone = Transition::new(integrator_id, services.now()).witness([seen("ção 🍞 'x'"), seen("")]);
    services.apply(alone.clone()).await;
    services.apply(alone.clone()).await;
    let known = services.stores.domain.evidence.list(resource).await.expect("the evidence");
    assert_eq!(known, alone.evidence);

    let too_much = services.withdrawal_intent(integrator_id, 1_001).witness([seen("refused")]);
    services.stores.domain.transitions.apply(too_much).await.expect_err("too little money");
    assert_eq!(story(&services, resource).await.len(), 2);

    let foreign = Transition::new(services.integrator().await, services.now()).witness([seen("foreign")]);
    services.stores.domain.transitions.apply(foreign).await.expect_err("another's record");
}
