//! The use cases of charges.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pix_domain::charges::service::{ChargeService, CreateCharge};
use pix_domain::charges::store::MockChargeStore;
use pix_domain::charges::{ChargeState, state};
use pix_domain::error::{ApplyError, ServiceError, StoreError};
use pix_domain::ids::ChargeId;
use pix_domain::money::Cents;
use pix_domain::ports::Outcome;
use pix_domain::provider::{
    ChargeReport, MockSettlementProvider, Party, Payment, ProviderBody, ProviderError, Removal, Ticket,
};
use pix_domain::schedule::ENDED_CHARGE_WAITS;
use pix_domain::text::IdempotencyKey;
use pix_domain::time::Timestamp;
use pix_domain::transactions::{Transaction, TransactionService};
use uuid::Uuid;

use crate::samples::*;
use crate::world::{World, Write};

fn command() -> CreateCharge {
    CreateCharge {
        integrator_id: INTEGRATOR,
        external_id: Some(name("c-2")),
        idempotency_key: None,
        amount: amount(PAID_CENTS),
        payer: Party::default(),
        payer_email: None,
        payer_question: None,
        metadata: pix_domain::metadata::Metadata::default(),
        postback_url: None,
        postback_scope: pix_domain::postbacks::events::PostbackScope::Outcomes,
        expires_in: LIFE,
        split: Vec::new(),
    }
}

fn making(answers: Vec<Result<Ticket, ProviderError>>) -> MockSettlementProvider {
    let mut provider = MockSettlementProvider::new();
    let answers = Mutex::new(answers.into_iter());
    provider
        .expect_create_charge()
        .returning(move |_| answers.lock().unwrap().next().expect("the provider was called once too often"));
    provider
}

fn knowing(answer: Result<Option<ChargeReport>, ProviderError>) -> MockSettlementProvider {
    let mut provider = MockSettlementProvider::new();
    provider.expect_consult_charge().returning(move |_| answer.clone());
    provider
}

fn received(payments: Vec<Payment>) -> ChargeReport {
    ChargeReport {
        provider_id: provider_id("chg-1"),
        payments,
        refunded: Cents::ZERO,
        canceled: false,
        body: ProviderBody::default(),
    }
}

fn service(world: &World, provider: MockSettlementProvider) -> ChargeService {
    ChargeService::new(world.ports(provider))
}

fn id() -> ChargeId {
    ChargeId(Uuid::from_u128(2))
}

/// A world with the charge `c-2`, live since [`T0`] under fee version 1.
fn live_world() -> World {
    let world = World::new();
    world.apply(&state::open(new_charge(2), ticket(), T0)).unwrap();
    world.stored().log.clear();
    world
}

/// A world with the charge `c-2`, not confirmed since [`T0`].
fn creating_world() -> World {
    let world = World::new();
    world.apply(&state::begin(new_charge(2), T0)).unwrap();
    world.stored().log.clear();
    world
}

fn only(world: &World) -> pix_domain::charges::Charge {
    let stored = world.stored();
    assert_eq!(stored.book.charges.len(), 1);
    stored.book.charges[0].clone()
}

#[tokio::test]
async fn what_the_provider_says_decides_what_is_stored() {
    for (answer, stored, told) in [
        (Ok(ticket()), Some("pending"), None),
        (Err(unavailable()), None, Some(ServiceError::ProviderUnavailable)),
        (Err(indeterminate()), Some("creating"), Some(ServiceError::ProviderTimeout)),
        (
            Err(rejected()),
            Some("failed"),
            Some(ServiceError::ProviderRejected {
                code: failure().code,
                message: failure().message,
                charge: Some(ChargeId(Uuid::from_u128(0x1000))),
            }),
        ),
    ] {
        let world = World::new();
        let made = service(&world, making(vec![answer])).create(command()).await;
        assert_eq!(made.err(), told);
        let found = world.stored().book.charges.first().map(|charge| charge.state.name());
        assert_eq!(found, stored);
    }
}

#[tokio::test]
async fn a_charge_is_made_again_under_the_same_reference_until_it_is_confirmed() {
    let world = World::new();
    let references = Arc::new(Mutex::new(Vec::new()));
    let mut provider = MockSettlementProvider::new();
    let seen = references.clone();
    provider.expect_create_charge().times(3).returning(move |order| {
        let mut seen = seen.lock().unwrap();
        seen.push(order.reference);
        if seen.len() < 3 { Err(indeterminate()) } else { Ok(ticket()) }
    });
    let service = service(&world, provider);
    for _ in 0..2 {
        assert_eq!(service.create(command()).await, Err(ServiceError::ProviderTimeout));
    }
    let made = service.create(command()).await.unwrap();
    assert!(matches!(made, Outcome::Replayed(charge) if charge.state == ChargeState::Pending));
    let references = references.lock().unwrap();
    assert!(references.iter().all(|reference| *reference == references[0]));
    assert_eq!(only(&world).reference(), references[0]);
}

#[tokio::test]
async fn a_refusal_sticks_to_its_handle() {
    let world = World::new();
    let service = service(&world, making(vec![Err(rejected())]));
    assert!(service.create(command()).await.is_err());
    let again = service.create(command()).await.unwrap();
    assert!(matches!(again, Outcome::Replayed(charge) if matches!(charge.state, ChargeState::Failed(_))));
}

#[tokio::test]
async fn the_same_handle_with_another_body_is_refused() {
    let key = Some(IdempotencyKey::parse("k-1").unwrap());
    for (first, refusal) in [
        (command(), ServiceError::ExternalIdConflict),
        (
            CreateCharge { idempotency_key: key, external_id: None, ..command() },
            ServiceError::IdempotencyMismatch,
        ),
    ] {
        let world = World::new();
        let service = service(&world, making(vec![Ok(ticket())]));
        let made = service.create(first.clone()).await.unwrap().into_inner();
        assert_eq!(service.create(first.clone()).await, Ok(Outcome::Replayed(made)));
        for other in [
            CreateCharge { amount: amount(1), ..first.clone() },
            CreateCharge { expires_in: LIFE * 2, ..first.clone() },
        ] {
            assert_eq!(service.create(other).await, Err(refusal.clone()));
        }
    }
}

#[tokio::test]
async fn of_two_at_once_with_one_name_both_get_the_first() {
    let world = World::new();
    let mut winner = new_charge(5);
    winner.external_id = name("c-2");
    world.script([Write::After(Box::new(move |world| {
        world.apply(&state::open(winner, ticket(), T0)).unwrap();
    }))]);
    let made = service(&world, making(vec![Ok(ticket())])).create(command()).await.unwrap();
    assert_eq!(made, Outcome::Replayed(world.charge(5)));
    assert_eq!(only(&world).id, ChargeId(Uuid::from_u128(5)));
}

#[tokio::test]
async fn a_lost_answer_of_the_store_is_resolved_by_reading() {
    let world = World::new();
    world.script([Write::Lost(Box::new(|_| ()))]);
    let made = service(&world, making(vec![Ok(ticket())])).create(command()).await.unwrap();
    assert_eq!(made, Outcome::Created(only(&world)));
    assert_eq!(world.log(), ["apply charge.pending", "apply evidence"], "a commit after it was acknowledged");

    let lost = || Write::Refused(ApplyError::Store(StoreError::Unknown("connection lost".into())));
    let world = World::new();
    world.script([Write::Lost(Box::new(|_| ())), lost()]);
    let refused = service(&world, making(vec![Ok(ticket())])).create(command()).await;
    assert_eq!(
        refused,
        Err(ServiceError::Store(StoreError::Unknown("the connection was lost".into()))),
        "it is not shown before it is known to stay"
    );

    let world = World::new();
    world.script([Write::Refused(ApplyError::Store(StoreError::Unknown("connection lost".into())))]);
    let refused = service(&world, making(vec![Ok(ticket())])).create(command()).await;
    assert_eq!(refused, Err(ServiceError::Store(StoreError::Unknown("connection lost".into()))));
}

/// Charges of which none can be read by its id.
fn unreadable() -> Arc<MockChargeStore> {
    let mut charges = MockChargeStore::new();
    charges.expect_find_by_external_id().returning(|_, _| Ok(None));
    charges.expect_find().returning(|_, _| Err(StoreError::Unavailable("no connection".into())));
    Arc::new(charges)
}

#[tokio::test]
async fn who_made_a_charge_is_never_told_that_nothing_was_done() {
    for (write, expected) in [
        (Write::Done, None),
        (Write::Lost(Box::new(|_| ())), Some(StoreError::Unknown("the connection was lost".into()))),
    ] {
        let world = World::new();
        world.script([write]);
        let mut ports = world.ports(making(vec![Ok(ticket())]));
        ports.stores.charges = unreadable();
        let told = ChargeService::new(ports).create(command()).await;
        let stored = Outcome::Created(only(&world));
        assert_eq!(told, expected.map_or(Ok(stored), |error| Err(ServiceError::Store(error))));
    }
}

#[tokio::test]
async fn a_payment_is_credited_with_the_fee_that_held_when_the_charge_was_made() {
    let world = live_world();
    let service = service(&world, knowing(Ok(Some(received(vec![payment(1, PAID_CENTS)])))));
    let (charge, _) = service.refresh(INTEGRATOR, id()).await.unwrap();
    assert_eq!(credited(&charge).fee, cents(10), "version 1 takes 10 centavos, version 7 in force takes 70");
    assert_eq!(world.available(), PAID_CENTS - 10);
    let fresh = World::new();
    let made = self::service(&fresh, making(vec![Ok(ticket())])).create(command()).await.unwrap();
    assert_eq!(made.into_inner().fee_version, 7);
}

#[tokio::test]
async fn each_pix_is_credited_once_however_often_it_is_reported() {
    let world = live_world();
    let twice = vec![payment(1, PAID_CENTS), payment(1, PAID_CENTS), payment(2, 500)];
    let service = service(&world, knowing(Ok(Some(received(twice)))));
    for _ in 0..3 {
        let _ = service.refresh(INTEGRATOR, id()).await.unwrap();
    }
    assert_eq!(world.available(), PAID_CENTS + 500 - 20);
    assert_eq!((credited(&only(&world)).payments, world.findings()), (2, vec!["paid_again"]));
}

#[tokio::test]
async fn whoever_dies_between_two_payments_leaves_the_charge_due() {
    let world = live_world();
    let both = vec![payment(1, PAID_CENTS), payment(2, PAID_CENTS)];
    let service = service(&world, knowing(Ok(Some(received(both)))));
    let gone = ApplyError::Store(StoreError::Unavailable("gone".into()));
    world.script([Write::Done, Write::Refused(gone)]);
    service.refresh(INTEGRATOR, id()).await.unwrap_err();
    assert_eq!(world.stored().book.receipts.len(), 1);
    let resource = only(&world).resource();
    assert!(world.stored().follow_ups.contains_key(&resource));
    let _ = service.refresh(INTEGRATOR, id()).await.unwrap();
    assert_eq!(world.stored().book.receipts.len(), 2);
    // After a further payment it is asked about once more; a question that fails settles nothing.
    world.wait(pix_domain::schedule::outgoing(0));
    let silent = Err(ProviderError::Unavailable("no line".into()));
    for (answer, ends) in [(silent, false), (Ok(Some(received(vec![payment(1, PAID_CENTS)]))), true)] {
        let transactions = TransactionService::new(world.ports(knowing(answer)));
        transactions.follow_up(world.claimed(resource, 0)).await.unwrap();
        assert_eq!(world.stored().follow_ups.is_empty(), ends);
    }
}

#[tokio::test]
async fn a_pix_that_another_worker_credits_meanwhile_is_credited_once() {
    let credit = |number: u32| {
        move |world: &World| {
            let paid = world.charge(2).pay(payment(number, PAID_CENTS), &fixed_fee(10), world.now());
            world.apply(&next(paid)).unwrap();
        }
    };
    for (number, write) in [
        (1, Write::After(Box::new(credit(1)))),
        (2, Write::After(Box::new(credit(2)))),
        (1, Write::Lost(Box::new(|_| ()))),
        (2, Write::Lost(Box::new(|_| ()))),
    ] {
        let world = live_world();
        if number == 2 {
            credit(1)(&world);
        }
        let before = world.available();
        world.script([write]);
        let service = service(&world, knowing(Ok(Some(received(vec![payment(number, PAID_CENTS)])))));
        let _ = service.refresh(INTEGRATOR, id()).await.unwrap();
        assert_eq!(world.available() - before, PAID_CENTS - 10);
    }
}

#[tokio::test]
async fn a_payment_is_credited_once_whatever_happens_to_its_charge_while_the_provider_is_asked() {
    type Change = fn(&World);
    let changes: [(Change, u32, bool); 4] = [
        (|_| (), 1, false),
        (
            |world| {
                let paid = world.charge(2).pay(payment(1, PAID_CENTS), &fixed_fee(10), world.now());
                world.apply(&next(paid)).unwrap();
            },
            1,
            false,
        ),
        (
            |world| {
                let paid = world.charge(2).pay(payment(2, PAID_CENTS), &fixed_fee(10), world.now());
                world.apply(&next(paid)).unwrap();
            },
            2,
            false,
        ),
        (|world| world.apply(&next(world.charge(2).cancel(world.now()))).unwrap(), 1, true),
    ];
    for (change, payments, late) in changes {
        let world = live_world();
        let (here, mut provider) = (world.clone(), MockSettlementProvider::new());
        provider.expect_consult_charge().times(1).returning(move |_| {
            change(&here);
            Ok(Some(received(vec![payment(1, PAID_CENTS)])))
        });
        let (charge, _) = service(&world, provider).refresh(INTEGRATOR, id()).await.unwrap();
        assert_eq!(charge, only(&world), "what is answered is what is stored");
        assert_eq!((credited(&charge).payments, credited(&charge).late), (payments, late));
        assert_eq!(world.available(), i64::from(payments) * (PAID_CENTS - 10));
    }
}

#[tokio::test]
async fn to_credit_a_payment_a_charge_is_read_once() {
    let world = live_world();
    let provider = || knowing(Ok(Some(received(vec![payment(1, PAID_CENTS)]))));
    // The second time there is nothing to credit.
    for _ in 0..2 {
        let mut ports = world.ports(provider());
        let (here, mut charges) = (world.clone(), MockChargeStore::new());
        charges.expect_find().times(1).returning(move |_, _| Ok(Some(here.charge(2))));
        ports.stores.charges = Arc::new(charges);
        let (charge, _) = ChargeService::new(ports).refresh(INTEGRATOR, id()).await.unwrap();
        assert_eq!((charge.state, world.available()), (ChargeState::Paid, PAID_CENTS - 10));
    }
    // Whoever has read it already reads nothing.
    let mut ports = world.ports(provider());
    ports.stores.charges = Arc::new(MockChargeStore::new());
    let read = Transaction::Charge(Box::new(world.charge(2)));
    let (shown, _) = TransactionService::new(ports).consult_read(read.clone()).await.unwrap();
    assert_eq!(shown, read);
}

#[tokio::test]
async fn a_pix_of_another_charge_is_not_credited_again() {
    let world = live_world();
    world.paid_charge(1, 500);
    let service = service(&world, knowing(Ok(Some(received(vec![payment(1, PAID_CENTS)])))));
    let (charge, _) = service.refresh(INTEGRATOR, id()).await.unwrap();
    assert_eq!((charge.credited, world.available()), (None, 500));
    assert_eq!(world.findings(), ["receipt_of_another_charge"]);
}

#[tokio::test]
async fn a_pix_that_somebody_else_sent_back_is_credited_and_forced_out_once() {
    for refunded in [1, PAID_CENTS - 10, PAID_CENTS] {
        let world = live_world();
        let back = Cents::new(refunded).unwrap();
        let report = ChargeReport { refunded: back, ..received(vec![payment(1, PAID_CENTS)]) };
        let service = service(&world, knowing(Ok(Some(report))));
        for _ in 0..2 {
            let (charge, _) = service.refresh(INTEGRATOR, id()).await.unwrap();
            assert_eq!((charge.state, charge.taken_back), (ChargeState::Paid, back));
        }
        let (left, owed) = ((PAID_CENTS - 10 - refunded).max(0), (refunded + 10 - PAID_CENTS).max(0));
        let wallet = world.stored().book.wallet;
        assert_eq!((wallet.available.get(), wallet.owed.get()), (left, owed), "the fee is paid all the same");
        assert_eq!(world.findings(), ["taken_back"]);
    }
}

#[tokio::test]
async fn an_answer_about_something_else_is_no_answer_and_an_operator_is_told() {
    let world = live_world();
    let answer = Err(ProviderError::Mismatch("amount"));
    let (charge, _) = service(&world, knowing(answer)).refresh(INTEGRATOR, id()).await.unwrap();
    assert_eq!((charge.state, world.findings()), (ChargeState::Pending, vec!["answer_mismatch"]));
    let world = World::new();
    let made =
        service(&world, making(vec![Err(ProviderError::Mismatch("external_id"))])).create(command()).await;
    assert_eq!(made, Err(ServiceError::ProviderTimeout));
    assert_eq!((only(&world).state, world.findings()), (ChargeState::Creating, vec!["answer_mismatch"]));
}

#[tokio::test]
async fn a_credited_pix_that_is_told_with_another_amount_makes_a_finding() {
    let world = live_world();
    for paid in [PAID_CENTS, PAID_CENTS + 1] {
        let answer = Ok(Some(received(vec![payment(1, paid)])));
        let _ = service(&world, knowing(answer)).refresh(INTEGRATOR, id()).await.unwrap();
    }
    assert_eq!(world.available(), PAID_CENTS - 10);
    assert!(world.findings().contains(&"receipt_changed"));
}

#[tokio::test]
async fn a_charge_made_again_gets_a_code_that_ends_when_the_charge_does() {
    let charge = live_world().charge(2);
    let left = Duration::from_mins(10);
    let now = Timestamp::from_micros(charge.expires_at.micros() - i64::try_from(left.as_micros()).unwrap());
    assert_eq!(charge.order_at(now).expires_in, left);
    assert_eq!(
        charge.order_at(charge.expires_at).expires_in,
        Duration::from_mins(1),
        "what a provider may require"
    );
}

#[tokio::test]
async fn a_late_payment_is_credited_and_a_removal_is_noted() {
    let world = live_world();
    let removed = ChargeReport { canceled: true, ..received(vec![]) };
    let _ = service(&world, knowing(Ok(Some(removed)))).refresh(INTEGRATOR, id()).await.unwrap();
    assert_eq!(world.charge(2).state, ChargeState::Canceled);
    let paid = ChargeReport { canceled: true, ..received(vec![payment(1, PAID_CENTS)]) };
    let _ = service(&world, knowing(Ok(Some(paid)))).refresh(INTEGRATOR, id()).await.unwrap();
    assert_eq!(world.charge(2).state, ChargeState::Paid);
    assert!(credited(&world.charge(2)).late);
}

/// What canceling a charge of `world` comes to, when the provider answers questions and the request to remove it so.
async fn canceling(
    world: &World,
    answers: Vec<Result<Option<ChargeReport>, ProviderError>>,
    removal: Option<Result<Removal, ProviderError>>,
) -> (Result<&'static str, ServiceError>, &'static str) {
    let mut provider = MockSettlementProvider::new();
    let answers = Mutex::new(answers.into_iter());
    provider
        .expect_consult_charge()
        .returning(move |_| answers.lock().unwrap().next().expect("one question"));
    let asked = usize::from(removal.is_some());
    provider.expect_remove_charge().times(asked).returning(move |_| removal.clone().unwrap());
    let canceled = service(world, provider).cancel(INTEGRATOR, id()).await;
    (canceled.map(|charge| charge.state.name()), world.charge(2).state.name())
}

#[tokio::test]
async fn a_charge_is_canceled_when_nobody_has_paid_and_the_provider_was_told() {
    let unpaid = || Ok(Some(received(vec![])));
    let paid = || Ok(Some(received(vec![payment(1, PAID_CENTS)])));
    for done in [Removal::Removed, Removal::NotOffered] {
        let world = live_world();
        assert_eq!(canceling(&world, vec![unpaid()], Some(Ok(done))).await, (Ok("canceled"), "canceled"));
        // Once more changes nothing, and asks for no removal.
        assert_eq!(canceling(&world, vec![unpaid()], None).await, (Ok("canceled"), "canceled"));
        // A code that could still be paid was: that is money.
        let _ = service(&world, knowing(paid())).refresh(INTEGRATOR, id()).await.unwrap();
        assert_eq!(world.charge(2).state, ChargeState::Paid);
        let refused = ServiceError::InvalidState("a paid charge can't be canceled; refund it");
        assert_eq!(canceling(&world, vec![paid()], None).await, (Err(refused), "paid"));
    }
}

#[tokio::test]
async fn a_canceled_charge_is_watched_for_as_long_as_its_code_may_live() {
    let world = live_world();
    let unpaid = Ok(Some(received(vec![])));
    let canceled = canceling(&world, vec![unpaid.clone()], Some(Ok(Removal::NotOffered))).await;
    assert_eq!(canceled, (Ok("canceled"), "canceled"));
    let transactions = TransactionService::new(world.ports(knowing(unpaid)));
    let (end, mut asked) = (world.charge(2).expires_at, Vec::new());
    let due = || world.stored().follow_ups.values().next().copied();
    while let Some(due_at) = due() {
        world.wait(due_at.since(world.now()));
        asked.push(due_at);
        let attempts = u32::try_from(asked.len()).unwrap();
        let claimed = world.claimed(world.charge(2).resource(), attempts);
        transactions.follow_up(claimed).await.unwrap();
    }
    assert!(asked.iter().any(|at| *at < end), "{asked:?}");
    assert!(asked.contains(&end), "{asked:?}");
    let days: Duration = ENDED_CHARGE_WAITS.iter().sum();
    assert_eq!(asked.last(), Some(&end.plus(days)));
}

#[tokio::test]
async fn a_charge_that_was_just_paid_or_can_not_be_asked_about_is_not_canceled() {
    let unpaid = || Ok(Some(received(vec![])));
    let paid = || Ok(Some(received(vec![payment(1, PAID_CENTS)])));
    let refused = |code: &str| {
        let (code, message) = (code.to_owned(), "no".to_owned());
        ProviderError::Rejected { code, message, body: ProviderBody::default() }
    };
    let is_paid = || Err(ServiceError::InvalidState("a paid charge can't be canceled; refund it"));
    let rejected = || {
        Err(ServiceError::ProviderRejected {
            code: "locked".to_owned(),
            message: "no".to_owned(),
            charge: None,
        })
    };
    for (answers, removal, told, state) in [
        (vec![paid()], None, is_paid(), "paid"),
        (vec![Err(unavailable())], None, Err(ServiceError::ProviderUnavailable), "pending"),
        (vec![Err(indeterminate())], None, Err(ServiceError::ProviderTimeout), "pending"),
        (vec![unpaid()], Some(Err(unavailable())), Err(ServiceError::ProviderUnavailable), "pending"),
        (vec![unpaid()], Some(Err(indeterminate())), Err(ServiceError::ProviderTimeout), "pending"),
        // Paid between the question and the removal.
        (vec![unpaid(), paid()], Some(Err(refused("paid"))), is_paid(), "paid"),
        (vec![unpaid(), unpaid()], Some(Err(refused("locked"))), rejected(), "pending"),
    ] {
        let world = live_world();
        assert_eq!(canceling(&world, answers, removal).await, (told, state));
    }
    let world = creating_world();
    let unsure = Err(ServiceError::ProviderTimeout);
    assert_eq!(canceling(&world, vec![Err(indeterminate())], None).await, (unsure, "creating"));
    let world = live_world();
    world.wait(LIFE);
    let late = Err(ServiceError::InvalidState("an expired charge can't be canceled"));
    assert_eq!(canceling(&world, vec![unpaid()], None).await, (late, "expired"));
    let foreign = service(&world, MockSettlementProvider::new()).cancel(OTHER, id()).await;
    assert_eq!(foreign, Err(ServiceError::NotFound));
}

#[tokio::test]
async fn a_charge_expires_only_when_the_provider_was_asked_after_its_time() {
    let ask = async |answer, waited: Duration| {
        let world = live_world();
        world.wait(waited);
        let _ = service(&world, knowing(answer)).refresh(INTEGRATOR, id()).await.unwrap();
        world.charge(2).state.name()
    };
    let just_before = LIFE.checked_sub(Duration::from_micros(1)).unwrap();
    assert_eq!(ask(Ok(Some(received(vec![]))), just_before).await, "pending");
    assert_eq!(ask(Ok(Some(received(vec![]))), LIFE).await, "expired");
    assert_eq!(ask(Ok(None), LIFE).await, "expired");
    assert_eq!(ask(Err(unavailable()), LIFE * 9).await, "pending", "it could not be asked");
    assert_eq!(ask(Ok(Some(received(vec![payment(1, 1)]))), LIFE).await, "paid");
}

#[tokio::test]
async fn an_answer_given_before_its_time_was_over_does_not_expire_a_charge() {
    let world = live_world();
    world.wait(LIFE.checked_sub(Duration::from_secs(1)).unwrap());
    let (here, mut provider) = (world.clone(), MockSettlementProvider::new());
    provider.expect_consult_charge().returning(move |_| {
        here.wait_secs(2);
        Ok(Some(received(vec![])))
    });
    let _ = service(&world, provider).refresh(INTEGRATOR, id()).await.unwrap();
    assert_eq!(world.charge(2).state, ChargeState::Pending);
}

#[tokio::test]
async fn a_charge_that_the_provider_does_not_know_is_made_until_its_time_is_over() {
    for (waited, made, expected) in [
        (Duration::from_secs(5), Some(Ok(ticket())), "pending"),
        (Duration::from_secs(5), Some(Err(rejected())), "failed"),
        // Nobody waits for it: trouble is no error, it is asked again later.
        (Duration::from_secs(5), Some(Err(unavailable())), "creating"),
        (Duration::from_secs(5), Some(Err(indeterminate())), "creating"),
        (LIFE, None, "failed"),
    ] {
        let world = creating_world();
        world.wait(waited);
        let mut provider = making(made.into_iter().collect());
        provider.expect_consult_charge().returning(|_| Ok(None));
        let (charge, _) = service(&world, provider).refresh(INTEGRATOR, id()).await.unwrap();
        assert_eq!(charge.state.name(), expected);
    }
}

#[tokio::test]
async fn a_charge_that_the_provider_made_without_our_knowing_goes_live_and_is_credited() {
    let world = creating_world();
    let mut provider = making(vec![Ok(ticket())]);
    provider.expect_consult_charge().returning(|_| Ok(Some(received(vec![payment(1, PAID_CENTS)]))));
    let (charge, _) = service(&world, provider).refresh(INTEGRATOR, id()).await.unwrap();
    assert_eq!((charge.state, charge.ticket), (ChargeState::Paid, Some(ticket())));
    assert_eq!(world.available(), PAID_CENTS - 10);
}

#[tokio::test]
async fn a_live_charge_is_asked_about_seldom_and_at_its_expiry() {
    let due_after = async |waited_secs: u64, attempts: u32| {
        let world = live_world();
        world.wait_secs(waited_secs);
        let provider = knowing(Ok(Some(received(vec![]))));
        let resource = world.charge(2).resource();
        let service = TransactionService::new(world.ports(provider));
        service.follow_up(world.claimed(resource, attempts)).await.unwrap();
        let due: Option<Timestamp> = world.stored().follow_ups.get(&resource).copied();
        due.map(|due| due.since(world.now()))
    };
    assert_eq!(due_after(60, 1).await, Some(Duration::from_mins(5)));
    assert_eq!(due_after(360, 2).await, Some(Duration::from_mins(15)));
    assert_eq!(due_after(2_940, 3).await, Some(Duration::from_mins(1)), "the code ends in a minute");
    assert_eq!(due_after(3_000, 4).await, Some(Duration::from_hours(1)), "expired: a late payment is money");
}
