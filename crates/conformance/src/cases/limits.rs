//! Limits of what may go out: kept by version, and never passed.

use std::time::Duration;

use pix_domain::charges::Failure;
use pix_domain::error::{ApplyError, ServiceError, StoreError, UniqueKey};
use pix_domain::ids::IntegratorId;
use pix_domain::limits::{
    HOUR, LimitKind, LimitPolicy, Most, NEW_PAYEE_FOR, RAISE_AFTER, Sent, SentTo, Standing, Windows,
};
use pix_domain::party::{PixKey, PixKeyType};
use pix_domain::ports::Outcome;
use pix_domain::provider::Progress;
use pix_domain::time::Timestamp;
use pix_domain::transition::{Record, Transition};
use pix_domain::withdrawals::state::accept;
use pix_domain::withdrawals::{OutgoingState, Withdrawal};

use super::races::{CROWD, all_at_once};
use crate::builders::{cents, name, next, payee, report, withdrawal_command};
use crate::{Services, StoreHarness, services};

#[expect(clippy::unnecessary_wraps, reason = "as a limit is set")]
fn most(kind: LimitKind, value: i64) -> Option<Most> {
    Some(Most::new(kind, value).expect("a possible limit"))
}

async fn set(services: &Services, owner: IntegratorId, limits: &[(LimitKind, i64)]) {
    let store = &services.stores.domain.limits;
    let before = store.policy(owner).await.expect("a policy");
    let change = |policy: LimitPolicy, (kind, value): &(LimitKind, i64)| {
        policy.set(*kind, most(*kind, *value), services.now())
    };
    let policy = limits.iter().fold(before, change);
    assert!(store.set_policy(owner, &policy, services.now()).await.expect("kept").is_some());
}

/// Where none was ever set, nothing is limited.
pub async fn nothing_is_limited_until_limits_are_set(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let limits = &services.stores.domain.limits;
    assert_eq!(limits.policy(integrator_id).await, Ok(LimitPolicy::off()));
    let nobody = IntegratorId(services.id());
    assert_eq!(limits.policy(nobody).await, Ok(LimitPolicy::off()));
    let set = limits.set_policy(nobody, &LimitPolicy::off(), services.now()).await;
    assert!(matches!(set, Err(StoreError::Rejected(_))), "{set:?}");
}

/// Every value, raise and bound comes back, and who changed an older version is told so.
pub async fn limits_come_back_and_old_ones_change_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (integrator_id, other) = (services.integrator().await, services.integrator().await);
    let limits = &services.stores.domain.limits;
    let now = services.now();
    let all = LimitKind::ALL
        .into_iter()
        .fold(LimitPolicy::off(), |policy, kind| policy.set(kind, most(kind, kind.highest()), now));
    assert_eq!(limits.set_policy(integrator_id, &all, now).await, Ok(Some(1)));
    let kept = limits.policy(integrator_id).await.expect("a policy");
    assert_eq!(kept, LimitPolicy::new(1, all.limits()));
    let raised = kept
        .clone()
        .set(LimitKind::PerDay, most(LimitKind::PerDay, 0), now)
        .set(LimitKind::AtNight, most(LimitKind::AtNight, 100), now)
        .set(LimitKind::AtNight, most(LimitKind::AtNight, 200), now)
        .set(LimitKind::PerHour, None, now);
    assert_eq!(limits.set_policy(integrator_id, &raised, now).await, Ok(Some(2)));
    assert_eq!(limits.policy(integrator_id).await, Ok(LimitPolicy::new(2, raised.limits())));
    for old in [&LimitPolicy::off(), &kept] {
        assert_eq!(limits.set_policy(integrator_id, old, now).await, Ok(None));
    }
    assert_eq!(limits.policy(integrator_id).await, Ok(LimitPolicy::new(2, raised.limits())));
    assert_eq!(limits.policy(other).await, Ok(LimitPolicy::off()), "another's limits are another's");
}

/// A withdrawal as it is in `state`, made at `at`.
async fn kept(services: &Services, owner: IntegratorId, cents: i64, state: &OutgoingState) -> Withdrawal {
    let intent = services.withdrawal_intent(owner, cents);
    let made = intent.withdrawal().cloned().expect("a withdrawal");
    services.apply(intent).await;
    let failure = Failure { code: "no".into(), message: "no".into() };
    let now = services.now();
    let step = match state {
        OutgoingState::Failed(_) => made.clone().fail(failure, now),
        OutgoingState::Uncertain => made.clone().lose_sight(now),
        OutgoingState::Completed => made.clone().decide_completed(now),
        OutgoingState::NeedsReview => made.clone().ask_for_review(now),
        OutgoingState::Accepted => made.clone().accepted(report(made.id.0, Progress::Accepted), now),
        OutgoingState::Queued | OutgoingState::Canceled => made.clone().queue(now),
        _ => return made,
    };
    services.apply(next(step)).await;
    if *state == OutgoingState::Canceled {
        services.apply(next(services.withdrawal(&made).await.cancel(now))).await;
    }
    made
}

/// What went to one key is told apart from what went to another, also where the two are of one text.
pub async fn what_counts_for_a_payee_is_what_went_to_that_key(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let owner = services.funded(1_000_000).await;
    let digits = "52998224725";
    let keys = [
        PixKey::parse(PixKeyType::Cpf, digits),
        PixKey::parse(PixKeyType::Email, "ana@example.com"),
        PixKey::parse(PixKeyType::Phone, "+5511987654321"),
    ]
    .map(|key| key.expect("a key"));
    for (key, value_cents) in keys.iter().zip([1, 20, 300]) {
        let mut new = services.new_withdrawal(owner, value_cents);
        new.payee.key = key.clone();
        let (now, grace) = (services.now(), Duration::from_secs(20));
        services.apply(accept(new, now, grace).expect("an intent")).await;
    }
    let windows = Windows::at(services.now());
    let limits = &services.stores.domain.limits;
    for (key, value_cents) in keys.iter().zip([1, 20, 300]) {
        let to = limits.sent_to(owner, &windows, key).await.expect("what was sent");
        assert_eq!((to.day, to.lately, to.is_known), (value_cents, value_cents, false));
    }
    let nobody = PixKey::parse(PixKeyType::Email, "bia@example.com").expect("a key");
    assert_eq!(limits.sent_to(owner, &windows, &nobody).await, Ok(SentTo::default()));
    let later = Windows::at(services.now().plus(NEW_PAYEE_FOR));
    assert!(limits.sent_to(owner, &later, &keys[0]).await.expect("what was sent").is_known);
    assert!(!limits.sent_to(owner, &later, &nobody).await.expect("what was sent").is_known);
}

/// Of a crowd with one handle and room for one, each gets the one that was made.
pub async fn one_handle_is_one_withdrawal_also_where_a_limit_has_room_for_one(
    harness: &mut dyn StoreHarness,
) {
    let services = services(harness);
    let owner = services.funded(1_000_000).await;
    set(&services, owner, &[(LimitKind::PerDay, 1_000)]).await;
    let results = all_at_once(&services, CROWD, move |services, _| async move {
        let mut command = withdrawal_command(owner, 1_000);
        command.external_id = Some(name("one"));
        services.withdrawals.create(command).await
    })
    .await;
    let made = results.iter().filter(|result| matches!(result, Ok(Outcome::Created(_)))).count();
    let replayed = results.iter().filter(|result| matches!(result, Ok(Outcome::Replayed(_)))).count();
    assert_eq!((made, replayed), (1, CROWD - 1), "{results:?}");
}

/// A crowd that a limit has room for is let through, all of it.
pub async fn a_crowd_within_a_limit_is_let_through(harness: &mut dyn StoreHarness) {
    const MANY: usize = 4 * CROWD;
    let services = services(harness);
    let owner = services.funded(1_000_000).await;
    set(&services, owner, &[(LimitKind::PerDay, 1_000_000)]).await;
    let results = all_at_once(&services, MANY, move |services, number| async move {
        let mut command = withdrawal_command(owner, 10);
        command.external_id = Some(name(&format!("crowd {number}")));
        services.withdrawals.create(command).await
    })
    .await;
    let refused: Vec<_> =
        results.iter().filter(|result| !matches!(result, Ok(Outcome::Created(_)))).collect();
    assert!(refused.is_empty(), "{} of {MANY}: {:?}", refused.len(), refused.first());
}

async fn asked(services: &Services, owner: IntegratorId, at: Timestamp) -> (Sent, SentTo) {
    let limits = &services.stores.domain.limits;
    let windows = Windows::at(at);
    let sent = limits.sent(owner, &windows).await.expect("what was sent");
    (sent, limits.sent_to(owner, &windows, &payee().key).await.expect("what was sent to one"))
}

/// What is on its way, uncertain or done counts, and what left in spite of its failure; what definitely failed or was canceled
/// doesn't, and another's never.
pub async fn what_counts_is_what_may_have_gone(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, other) = (services.funded(9_000_000).await, services.funded(1_000_000).await);
    let failed = OutgoingState::Failed(Failure { code: String::new(), message: String::new() });
    for (cents, state) in [
        (1, OutgoingState::Submitting),
        (20, OutgoingState::Uncertain),
        (300, OutgoingState::Completed),
        (4_000, OutgoingState::Accepted),
        (50_000, OutgoingState::NeedsReview),
        (600_000, OutgoingState::Queued),
        (7_000_000, failed),
        (80_000, OutgoingState::Canceled),
    ] {
        kept(&services, owner, cents, &state).await;
    }
    kept(&services, other, 50_000, &OutgoingState::Submitting).await;
    let now = services.now();
    let (sent, to) = asked(&services, owner, now).await;
    assert_eq!((sent.day, sent.hour), (654_321, 6));
    assert_eq!(to, SentTo { day: 654_321, lately: 654_321, is_known: false });

    let late = kept(&services, owner, 9, &OutgoingState::Submitting).await;
    let failure = Failure { code: "no".into(), message: "no".into() };
    services.apply(next(late.clone().fail(failure, now))).await;
    assert_eq!(asked(&services, owner, now).await.0.day, 654_321);
    let left = services.withdrawal(&late).await.complete(report(late.id.0, Progress::Completed), now);
    services.apply(next(left)).await;
    assert_eq!(asked(&services, owner, now).await.0.day, 654_330, "it has left after all");
    let returned = kept(&services, owner, 70, &OutgoingState::Completed).await;
    let back = services.withdrawal(&returned).await.give_back(cents(70), now);
    services.apply(next(back)).await;
    assert_eq!(asked(&services, owner, now).await.0.day, 654_400, "what came back had gone");
    let (others, _) = asked(&services, other, now).await;
    assert_eq!((others.day, others.hour), (50_000, 1));
    let nobody = asked(&services, IntegratorId(services.id()), now).await;
    assert_eq!(nobody, (Sent::default(), SentTo::default()));
}

/// An hour passes, a day begins, a night begins and ends, and a payee is known after a day.
pub async fn what_counts_is_forgotten_with_its_window(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let owner = services.funded(1_000_000).await;
    let first = kept(&services, owner, 700, &OutgoingState::Completed).await.created_at;
    let just_before = |at: Timestamp| Timestamp::from_micros(at.micros() - 1);
    assert_eq!(asked(&services, owner, just_before(first.plus(HOUR))).await.0.hour, 1);
    assert_eq!(asked(&services, owner, first.plus(HOUR)).await.0.hour, 0);
    let known_from = first.plus(NEW_PAYEE_FOR);
    let new = asked(&services, owner, just_before(known_from)).await.1;
    assert_eq!((new.lately, new.is_known), (700, false));
    let known = asked(&services, owner, known_from).await.1;
    assert_eq!((known.lately, known.is_known), (0, true));

    let day = Windows::at(first).day;
    let tomorrow = day.plus(Duration::from_hours(24));
    assert_eq!(asked(&services, owner, just_before(tomorrow)).await.0.day, 700);
    assert_eq!(asked(&services, owner, tomorrow).await.0.day, 0);
    // From here on it is 21:30 of the same day: within the night, and not within its late part.
    services.wait(day.plus(Duration::from_mins(21 * 60 + 30)).since(services.now()));
    kept(&services, owner, 50, &OutgoingState::Completed).await;
    services.wait(Duration::from_hours(1));
    kept(&services, owner, 6, &OutgoingState::Completed).await;
    let sent = asked(&services, owner, services.now()).await.0;
    assert_eq!((sent.day, sent.night, sent.late_night), (756, 56, 6));
    let small_hours = tomorrow.plus(Duration::from_hours(5));
    let sent = asked(&services, owner, small_hours).await.0;
    assert_eq!((sent.day, sent.night, sent.late_night, sent.hour), (0, 56, 6, 0), "it is still that night");
    let sent = asked(&services, owner, small_hours.plus(HOUR)).await.0;
    assert_eq!((sent.night, sent.late_night), (0, 0), "the night is over");
}

/// However many ask at once, on however many nodes: what is accepted never passes a limit.
pub async fn no_limit_is_passed_by_any_crowd(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    for (kind, value) in [
        (LimitKind::PerDay, 10_950),
        (LimitKind::PerPayee, 10_000),
        (LimitKind::NewPayee, 10_000),
        (LimitKind::PerHour, 10),
    ] {
        let owner = services.funded(10_000_000).await;
        set(&services, owner, &[(kind, value)]).await;
        let results = all_at_once(&services, CROWD, move |services, number| async move {
            let mut command = withdrawal_command(owner, 1_000);
            command.external_id = Some(name(&format!("crowd {number}")));
            services.withdrawals.create(command).await
        })
        .await;
        let made = results.iter().filter(|result| matches!(result, Ok(Outcome::Created(_)))).count();
        assert_eq!(made, 10, "{kind:?}");
        let refused = results.iter().filter(|result| match result {
            Err(ServiceError::LimitExceeded(limit)) => limit.kind == kind,
            _ => false,
        });
        assert_eq!(refused.count(), CROWD - 10, "{kind:?}: {results:?}");
        assert_eq!(services.balances(owner).await.0, 10_000_000 - 10 * 1_000, "{kind:?}");
    }
}

/// What was refused burnt nothing, a failure gives back what it took, and a limit that is raised holds a day later.
pub async fn a_limit_is_given_back_by_a_definite_failure_only(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let owner = services.funded(1_000_000).await;
    set(&services, owner, &[(LimitKind::PerDay, 1_000)]).await;
    let uncertain = kept(&services, owner, 900, &OutgoingState::Uncertain).await;
    let mut command = withdrawal_command(owner, 200);
    command.external_id = Some(name("later"));
    let refused = services.withdrawals.create(command.clone()).await;
    assert!(matches!(refused, Err(ServiceError::LimitExceeded(_))), "{refused:?}");
    let stored = services.withdrawal(&uncertain).await;
    let failure = Failure { code: "no".into(), message: "no".into() };
    services.apply(next(stored.fail(failure, services.now()))).await;
    let made = services.withdrawals.create(command.clone()).await;
    assert!(matches!(made, Ok(Outcome::Created(_))), "{made:?}");

    command.external_id = Some(name("much later"));
    command.amount = crate::builders::amount(5_000);
    set(&services, owner, &[(LimitKind::PerDay, 9_000)]).await;
    services.wait(RAISE_AFTER.saturating_sub(Duration::from_micros(1)));
    let early = services.withdrawals.create(command.clone()).await;
    assert!(matches!(early, Err(ServiceError::LimitExceeded(_))), "{early:?}");
    services.wait(Duration::from_micros(1));
    let made = services.withdrawals.create(command).await;
    assert!(matches!(made, Ok(Outcome::Created(_))), "{made:?}");
}

/// A quote says what the same request would be told, and takes nothing of the limit.
pub async fn a_quote_takes_nothing_of_a_limit(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let owner = services.funded(1_000_000).await;
    set(&services, owner, &[(LimitKind::PerDay, 1_000), (LimitKind::PerPayee, 600)]).await;
    let command = withdrawal_command(owner, 600);
    for _ in 0..3 {
        let quote = services.withdrawals.quote(&command).await.expect("a quote");
        let left: Vec<_> = quote.limits.iter().map(|limit| (limit.kind, limit.left())).collect();
        assert_eq!(left, [(LimitKind::PerDay, Some(1_000)), (LimitKind::PerPayee, Some(600))]);
    }
    let (policy, standings) = services.withdrawals.limits(owner).await.expect("limits");
    assert_eq!(policy.version, 1);
    assert_eq!(standings.iter().map(|limit| limit.used).collect::<Vec<_>>(), [Some(0), None]);
    let lane = || services.stores.domain.lookups.find_twins(owner, pix_domain::limits::lane());
    assert_eq!(lane().await, Ok(Vec::new()));
    let made = services.withdrawals.create(command).await.expect("a withdrawal").into_inner();
    assert_eq!(lane().await, Ok(vec![made.id.0]), "each takes the key that puts them in order");
    let quote = services.withdrawals.quote(&withdrawal_command(owner, 1)).await.expect("a quote");
    let left: Vec<_> = quote.limits.iter().map(Standing::left).collect();
    assert_eq!(left, [Some(400), Some(0)]);
}

/// Of two who found the same newest one, one is made: also where the limit itself would let both pass.
pub async fn who_found_another_newest_one_has_to_look_again(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let owner = services.funded(1_000_000).await;
    let place = |intent: Transition, newest| {
        let id = intent.withdrawal().expect("a withdrawal").id;
        Transition { twins: vec![pix_domain::limits::place(id, newest)], ..intent }
    };
    let first = place(services.withdrawal_intent(owner, 10), None);
    let first_id = first.writes.iter().find_map(|write| match &write.record {
        Record::Withdrawal(withdrawal) => Some(withdrawal.id.0),
        _ => None,
    });
    services.apply(first).await;
    let late = place(services.withdrawal_intent(owner, 10), None);
    let refused = services.stores.domain.transitions.apply(late).await;
    assert_eq!(refused, Err(ApplyError::Duplicate(UniqueKey::Twin)));
    services.apply(place(services.withdrawal_intent(owner, 10), first_id)).await;
    let late = place(services.withdrawal_intent(owner, 10), first_id);
    let refused = services.stores.domain.transitions.apply(late).await;
    assert_eq!(refused, Err(ApplyError::Duplicate(UniqueKey::Twin)));
    assert_eq!(services.balances(owner).await, (1_000_000 - 20, 20));
}
