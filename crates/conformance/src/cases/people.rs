//! Personal data: locked without anybody noticing, and erased without a trace but the money's.

use std::time::Duration;

use pix_domain::audit::{Book, check};
use pix_domain::charges::Receipt;
use pix_domain::error::{ServiceError, StoreError};
use pix_domain::ids::{ChargeId, IntegratorId, ResourceKind, ResourceRef};
use pix_domain::limits::Windows;
use pix_domain::list::ListQuery;
use pix_domain::party::{Document, PixKey, PixKeyType};
use pix_domain::people::{ERASABLE_AFTER, Erased, Held, KINDS, People, Person, Walk};
use pix_domain::ports::Outcome;
use pix_domain::provider::{Party, Payment, ProviderBody};
use pix_domain::text::{Description, Email, PayerQuestion, PersonName};
use pix_domain::withdrawals::Withdrawal;
use pix_domain::withdrawals::service::CreateWithdrawal;
use uuid::Uuid;

use super::races::all_at_once;
use crate::builders::{amount, charge_command, key, name, payee, payer, refund_command, withdrawal_command};
use crate::{Answer, Durability, Services, StoreHarness, services};

/// Longer than anything looks back.
const LATER: Duration = Duration::from_hours(72);

fn people(services: &Services) -> People {
    People::new(services.stores.people.clone(), &services.stores.domain, services.clock.clone())
}

/// Who pays in all cases.
fn ana() -> Person {
    Person::Document(payer().document.expect("a document"))
}

/// Who is paid in all cases, by the key alone.
fn bruno() -> Person {
    Person::Key(payee().key)
}

fn carla() -> Party {
    Party {
        name: Some(PersonName::parse("Carla Dias").expect("a name")),
        document: Some(Document::parse("11144477735").expect("a CPF")),
    }
}

/// Time goes on, and whatever the provider is to be asked about is asked about.
async fn settle(services: &Services) {
    for _ in 0..4 {
        services.wait(LATER / 4);
        services.reconciler.run_once().await.expect("a turn");
    }
    services.wait(LATER);
}

/// Locks all there is to lock, two records in a step. How many records were.
async fn lock_all(services: &Services, integrator_id: IntegratorId) -> u64 {
    let (people, mut locked) = (people(services), 0);
    let mut walk = Some(Walk { limit: 2, ..Walk::of(integrator_id, KINDS[0]) });
    while let Some(next) = walk {
        let untouched_since = services.now().minus(ERASABLE_AFTER);
        let (done, _, following) = people.lock_next(next, untouched_since, 1).await.expect("a step");
        (locked, walk) = (locked + done, following);
    }
    locked
}

/// The records that name a person.
async fn held(services: &Services, integrator_id: IntegratorId, person: &Person) -> Vec<ResourceRef> {
    let (people, mut found) = (people(services), Vec::new());
    let mut walk = Some(Walk { limit: 2, ..Walk::of(integrator_id, KINDS[0]) });
    while let Some(next) = walk {
        let page = people.held(person, next).await.expect("a page");
        found.extend(page.held.iter().map(Held::resource));
        walk = page.next;
    }
    found
}

/// Everything that can be read of one integrator.
async fn all_reads(services: &Services, integrator_id: IntegratorId) -> (Book, Vec<String>) {
    let stores = &services.stores.domain;
    let book = services.stores.books.book(integrator_id).await.expect("a book");
    let mut reads = Vec::new();
    for charge in &book.charges {
        let found = stores.charges.find(integrator_id, charge.id).await.expect("a read");
        assert_eq!(found.as_ref(), Some(charge));
        let named = stores.charges.find_by_external_id(integrator_id, &charge.external_id).await;
        assert_eq!(named.expect("a read").as_ref(), Some(charge));
        let pix_id = charge.ticket.as_ref().expect("a ticket").provider_id.as_str().to_owned();
        let found = stores.charges.find_by_pix_id(integrator_id, &pix_id).await;
        assert_eq!(found.expect("a read").as_ref(), Some(charge));
        reads.push(format!("{:?}", stores.charges.receipts(integrator_id, charge.id).await));
    }
    for withdrawal in &book.withdrawals {
        let found = stores.withdrawals.find(integrator_id, withdrawal.id).await.expect("a read");
        assert_eq!(found.as_ref(), Some(withdrawal));
        let named = stores.withdrawals.find_by_external_id(integrator_id, &withdrawal.external_id).await;
        assert_eq!(named.expect("a read").as_ref(), Some(withdrawal));
        if let Some(pix_id) = &withdrawal.provider_id {
            let found = stores.withdrawals.find_by_pix_id(integrator_id, pix_id.as_str()).await;
            assert_eq!(found.expect("a read").as_ref(), Some(withdrawal));
        }
    }
    let query = ListQuery { limit: 100, ..ListQuery::default() };
    let charges = stores.charges.list(integrator_id, &query).await.expect("a list");
    assert_eq!(charges.iter().rev().collect::<Vec<_>>(), book.charges.iter().collect::<Vec<_>>());
    let withdrawals = stores.withdrawals.list(integrator_id, &query).await.expect("a list");
    assert_eq!(withdrawals.iter().rev().collect::<Vec<_>>(), book.withdrawals.iter().collect::<Vec<_>>());
    let query = pix_domain::postbacks::events::EventQuery { limit: 100, ..Default::default() };
    let events = services.stores.postbacks.events.events(integrator_id, query).await.expect("events");
    reads.extend(events.iter().map(|listed| format!("{:?}", listed.record)));
    (book, reads)
}

fn assert_audited(book: &Book, integrator_id: IntegratorId) {
    assert_eq!(check(integrator_id, book), Vec::new());
}

/// A charge with everything that a payer can have, paid by two; and one refunded in part.
async fn charges(services: &Services, integrator_id: IntegratorId) -> ChargeId {
    let mut command = charge_command(integrator_id);
    command.external_id = Some(name("full"));
    command.payer_email = Some(Email::parse("Ana@Example.com").expect("an e-mail"));
    command.payer_question = Some(PayerQuestion::parse("Which flat?").expect("a question"));
    let full = services.charges.create(command).await.expect("a charge").into_inner();
    services.pay(&full, services.payment(10_000)).await;
    let second = Payment { payer: carla(), ..services.payment(500) };
    services.pay(&full, second).await;
    let refunded = services.paid_charge(integrator_id, 7_000).await;
    services.provider.answers_next(Answer::Complete);
    services.refunds.create(refund_command(&refunded, 1_000)).await.expect("a refund");
    let mut command = charge_command(integrator_id);
    command.payer = Party { document: None, ..payer() };
    command.payer_email = Some(Email::parse("Ana@Example.com").expect("an e-mail"));
    let by_email = services.charges.create(command).await.expect("a charge").into_inner();
    services.pay(&by_email, Payment { payer: Party::default(), ..services.payment(10_000) }).await;
    full.id
}

async fn withdraw(services: &Services, command: CreateWithdrawal, answer: Answer) -> Withdrawal {
    services.provider.answers_next(answer);
    services.withdrawals.create(command).await.expect("a withdrawal").into_inner()
}

fn described(integrator_id: IntegratorId) -> CreateWithdrawal {
    let mut command = withdrawal_command(integrator_id, 2_000);
    command.external_id = Some(name("described"));
    command.idempotency_key = Some(key("described"));
    command.payee.party = carla();
    command.description = Some(Description::parse("For Carla").expect("a description"));
    command
}

/// What has ended is locked, once; all reads go on answering the same, also from another node and after reopening.
pub async fn what_is_locked_reads_as_it_was(harness: &mut dyn StoreHarness) {
    let (integrator_id, before) = {
        let services = services(harness);
        let integrator_id = services.funded(1_000_000).await;
        charges(&services, integrator_id).await;
        withdraw(&services, described(integrator_id), Answer::Complete).await;
        withdraw(&services, withdrawal_command(integrator_id, 3_000), Answer::Fail).await;
        let before = all_reads(&services, integrator_id).await;
        assert_eq!(lock_all(&services, integrator_id).await, 0, "it has only just ended");
        settle(&services).await;
        assert_eq!(lock_all(&services, integrator_id).await, 4 + 2);
        assert_eq!(lock_all(&services, integrator_id).await, 0, "once is enough");
        assert_eq!(all_reads(&services, integrator_id).await, before);
        let who = Person::Document(carla().document.expect("a document"));
        assert_eq!(held(&services, integrator_id, &who).await.len(), 2);
        assert_eq!(held(&services, integrator_id, &ana()).await.len(), 3);
        assert_eq!(held(&services, integrator_id, &bruno()).await.len(), 1);
        let email = PixKey::parse(PixKeyType::Email, "ana@example.com").expect("a key");
        assert_eq!(held(&services, integrator_id, &Person::Key(email)).await.len(), 1);
        (integrator_id, before)
    };
    if harness.reopen().await == Durability::Durable {
        let services = services(harness);
        assert_eq!(all_reads(&services, integrator_id).await, before);
    }
}

/// What goes on is left alone, and so is what has ended lately.
pub async fn what_goes_on_is_not_locked(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(1_000_000).await;
    let live = services.charge(integrator_id, 100).await;
    let accepted = withdraw(&services, withdrawal_command(integrator_id, 1_000), Answer::Accept).await;
    let refunded = services.paid_charge(integrator_id, 7_000).await;
    services.provider.answers_next(Answer::Accept);
    services.refunds.create(refund_command(&refunded, 1_000)).await.expect("a refund");
    settle(&services).await;
    let accepted = services.withdrawal(&accepted).await;
    // The charge that the money came from.
    assert_eq!(lock_all(&services, integrator_id).await, 1);
    let ids: Vec<Uuid> = vec![live.id.0, refunded.id.0];
    let store = &services.stores.people;
    let now = services.now();
    assert_eq!(store.lock(integrator_id, ResourceKind::Charge, ids.clone(), now).await, Ok(0));
    assert_eq!(store.lock(integrator_id, ResourceKind::Withdrawal, vec![accepted.id.0], now).await, Ok(0));
    assert_eq!(store.lock(integrator_id, ResourceKind::Withdrawal, ids, now).await, Ok(0));
    assert_eq!(store.lock(integrator_id, ResourceKind::Refund, vec![live.id.0], now).await, Ok(0));
    let nobody = IntegratorId(services.id());
    assert_eq!(store.lock(nobody, ResourceKind::Charge, vec![live.id.0], now).await, Ok(0));
    let not_yet = people(&services).erase(integrator_id, &bruno()).await;
    assert_eq!(not_yet, Ok(Erased { records: Vec::new(), open: vec![accepted.resource()] }));
    let not_yet = people(&services).erase(integrator_id, &ana()).await.expect("an answer");
    assert_eq!((not_yet.records, not_yet.open), (Vec::new(), vec![live.resource(), refunded.resource()]));
    assert_eq!(services.withdrawal(&accepted).await, accepted, "nothing was done");
    assert_eq!(held(&services, integrator_id, &ana()).await.len(), 3, "of nobody");
}

/// A change of what is locked loses nothing, and it is locked again later.
pub async fn what_is_locked_can_change(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(1_000_000).await;
    let full = charges(&services, integrator_id).await;
    settle(&services).await;
    lock_all(&services, integrator_id).await;
    let charge = services.charges.get(integrator_id, full).await.expect("a charge");
    services.provider.answers_next(Answer::Complete);
    services.refunds.create(refund_command(&charge, 400)).await.expect("a refund of what is locked");
    let third = Payment { payer: carla(), ..services.payment(700) };
    let changed = services.pay(&charge, third).await;
    assert_eq!((&changed.payer, &changed.payer_question), (&charge.payer, &charge.payer_question));
    assert_eq!(changed.ticket, charge.ticket);
    let before = all_reads(&services, integrator_id).await;
    assert_audited(&before.0, integrator_id);
    settle(&services).await;
    assert_eq!(lock_all(&services, integrator_id).await, 1);
    assert_eq!(all_reads(&services, integrator_id).await, before);
}

/// Who locks and who changes at the same moment: the change is kept, and the person.
pub async fn locking_and_changing_at_once_loses_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(1_000_000).await;
    let mut made = Vec::new();
    for _ in 0..8 {
        made.push(services.paid_charge(integrator_id, 7_000).await);
    }
    settle(&services).await;
    let charges = made.clone();
    all_at_once(&services, 24, move |services, number| {
        let charge = charges[number % 8].clone();
        async move {
            if number % 3 == 0 {
                lock_all(&services, integrator_id).await;
            } else {
                let payment = services.payment(100);
                services.pay(&charge, payment).await;
            }
        }
    })
    .await;
    for charge in made {
        let now = services.charges.get(integrator_id, charge.id).await.expect("a charge");
        assert_eq!((now.payer, now.payer_erased), (payer(), false));
        let receipts = services.stores.domain.charges.receipts(integrator_id, charge.id).await;
        let receipts: Vec<Receipt> = receipts.expect("receipts");
        assert_eq!(receipts.len(), 3);
        assert!(receipts.iter().all(|receipt| receipt.payment.payer == payer()));
    }
    let (book, _) = all_reads(&services, integrator_id).await;
    assert_audited(&book, integrator_id);
}

/// A person is erased while others lock, and payments of the same one come in: no money is lost or made, and erasing again days later
/// ends with a person whom nothing names.
pub async fn erasing_and_changing_at_once_ends_with_nobody_named(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(1_000_000).await;
    let mut made = Vec::new();
    for _ in 0..8 {
        made.push(services.paid_charge(integrator_id, 7_000).await);
    }
    settle(&services).await;
    let charges = made.clone();
    all_at_once(&services, 32, move |services, number| {
        let charge = charges[number % 8].clone();
        async move {
            match number % 4 {
                0 => {
                    // Two who erase at once, or whoever locks, may be in the way: then it is said, and done again.
                    match people(&services).erase(integrator_id, &ana()).await {
                        Ok(_) | Err(StoreError::Unavailable(_)) => {}
                        Err(error) => panic!("erasing: {error}"),
                    }
                }
                1 => match people(&services)
                    .lock_next(Walk::of(integrator_id, KINDS[0]), services.now(), 99)
                    .await
                {
                    Ok(_) | Err(StoreError::Unavailable(_)) => {}
                    Err(error) => panic!("locking: {error}"),
                },
                _ => {
                    let payment = services.payment(100);
                    services.pay(&charge, payment).await;
                }
            }
        }
    })
    .await;
    settle(&services).await;
    let erased = people(&services).erase(integrator_id, &ana()).await.expect("erased");
    assert_eq!(erased.open, Vec::new());
    assert_eq!(held(&services, integrator_id, &ana()).await, []);
    let mut received = 0;
    for charge in made {
        let now = services.charges.get(integrator_id, charge.id).await.expect("a charge");
        let receipts =
            services.stores.domain.charges.receipts(integrator_id, charge.id).await.expect("receipts");
        let further = i64::try_from(receipts.len()).expect("few") - 1;
        assert_eq!(now.amount_paid().get(), 7_000 + 100 * further);
        assert!(receipts.iter().all(|receipt| receipt.payment.payer == Party::default()));
        assert_eq!(now.credited.expect("a credit").paid_by, Party::default());
        received += further;
    }
    assert_eq!(received, 16);
    let (book, _) = all_reads(&services, integrator_id).await;
    assert_audited(&book, integrator_id);
}

/// Of an erased person nothing is left but what was paid: handles go on answering, books are as they were, and nobody else
/// loses anything.
pub async fn an_erased_person_is_gone(harness: &mut dyn StoreHarness) {
    let (integrator_id, other, after) = {
        let services = services(harness);
        let integrator_id = services.funded(1_000_000).await;
        let other = services.funded(5_000).await;
        let full = charges(&services, integrator_id).await;
        let mut by_key = withdrawal_command(integrator_id, 3_000);
        by_key.idempotency_key = Some(key("by-key"));
        let to_bruno = withdraw(&services, by_key.clone(), Answer::Complete).await;
        let to_carla = withdraw(&services, described(integrator_id), Answer::Complete).await;
        settle(&services).await;
        let (before, _) = all_reads(&services, integrator_id).await;
        let others = all_reads(&services, other).await;

        let people = people(&services);
        let erased = people.erase(integrator_id, &ana()).await.expect("erased");
        assert_eq!((erased.records.len(), erased.open), (3, Vec::new()));
        assert_eq!(people.erase(integrator_id, &ana()).await, Ok(Erased::default()), "once is enough");
        let of_bruno = Erased { records: vec![to_bruno.resource()], open: Vec::new() };
        assert_eq!(people.erase(integrator_id, &bruno()).await, Ok(of_bruno));
        assert_eq!(held(&services, integrator_id, &ana()).await, []);
        assert_eq!(held(&services, integrator_id, &bruno()).await, []);

        let charge = services.charges.get(integrator_id, full).await.expect("a charge");
        assert!(charge.payer_erased);
        assert_eq!(
            (&charge.payer, &charge.payer_email, &charge.payer_question),
            (&Party::default(), &None, &None)
        );
        assert_eq!(charge.credited.as_ref().expect("a credit").paid_by, Party::default());
        assert_eq!(charge.ticket.as_ref().expect("a ticket").body, ProviderBody::erased());
        let receipts = services.stores.domain.charges.receipts(integrator_id, full).await.expect("receipts");
        let payers: Vec<_> = receipts.into_iter().map(|receipt| receipt.payment.payer).collect();
        assert_eq!(payers, [Party::default(), carla()], "the other one who paid is still there");
        let withdrawal = services.withdrawal(&to_bruno).await;
        assert_eq!((&withdrawal.payee.party, &withdrawal.payee.key), (&Party::default(), &PixKey::erased()));
        assert!(withdrawal.payee_erased && withdrawal.person().is_none());
        assert_eq!(services.withdrawal(&to_carla).await, to_carla);
        assert_eq!(all_reads(&services, other).await, others, "another integrator's are apart");

        let (after, _) = all_reads(&services, integrator_id).await;
        assert_audited(&after, integrator_id);
        let told = after.refunds.iter().map(|refund| refund.provider_body.clone());
        assert_eq!(told.collect::<Vec<_>>(), [Some(ProviderBody::erased())], "what was told of a refund");
        assert_eq!(
            (&after.wallet, &after.entries, &after.events),
            (&before.wallet, &before.entries, &before.events)
        );
        // The same request is still the same, and another one under its name is not.
        let again = services.withdrawals.create(by_key.clone()).await.expect("the same withdrawal");
        assert!(matches!(&again, Outcome::Replayed(found) if found.id == to_bruno.id), "{again:?}");
        let mut command = charge_command(integrator_id);
        command.external_id = Some(name("full"));
        let again = services.charges.create(command.clone()).await.expect("the same charge");
        assert!(matches!(&again, Outcome::Replayed(found) if found.id == full), "{again:?}");
        command.amount = amount(1);
        let other_charge = services.charges.create(command).await;
        assert!(matches!(other_charge, Err(ServiceError::ExternalIdConflict)), "{other_charge:?}");
        // It can still be refunded; and who pays or is paid again is a person again.
        services.provider.answers_next(Answer::Complete);
        services.refunds.create(refund_command(&charge, 400)).await.expect("a refund");
        settle(&services).await;
        lock_all(&services, integrator_id).await;
        let charge = services.charges.get(integrator_id, full).await.expect("a charge");
        assert!(charge.payer_erased && charge.payer == Party::default());
        let paid = services.pay(&charge, services.payment(300)).await;
        assert!(paid.payer_erased && paid.payer == Party::default());
        let new = withdraw(&services, withdrawal_command(integrator_id, 3_000), Answer::Complete).await;
        assert_eq!(new.payee, payee());
        settle(&services).await;
        assert_eq!(lock_all(&services, integrator_id).await, 2);
        assert_eq!(services.withdrawal(&new).await, new);
        (integrator_id, other, all_reads(&services, integrator_id).await)
    };
    if harness.reopen().await == Durability::Durable {
        let services = services(harness);
        assert_eq!(all_reads(&services, integrator_id).await, after);
        assert_eq!(held(&services, other, &ana()).await.len(), 1);
    }
}

/// A payee who is locked counts for limits as before, and one who is erased is not known any more.
pub async fn limits_know_who_is_locked(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(1_000_000).await;
    withdraw(&services, withdrawal_command(integrator_id, 3_000), Answer::Complete).await;
    settle(&services).await;
    let limits = services.stores.domain.limits.clone();
    let windows = Windows { day: services.now().minus(LATER * 3), ..Windows::at(services.now()) };
    let before = limits.sent_to(integrator_id, &windows, &payee().key).await.expect("a read");
    assert!(before.day == 3_000 && before.is_known, "{before:?}");
    assert_eq!(lock_all(&services, integrator_id).await, 2);
    assert_eq!(limits.sent_to(integrator_id, &windows, &payee().key).await, Ok(before));
    withdraw(&services, withdrawal_command(integrator_id, 500), Answer::Complete).await;
    let both = limits.sent_to(integrator_id, &windows, &payee().key).await.expect("a read");
    assert_eq!((both.day, both.is_known), (3_500, true));
    settle(&services).await;
    people(&services).erase(integrator_id, &bruno()).await.expect("erased");
    let day = services.now().minus(LATER * 6);
    let windows = Windows { day, from: day, ..Windows::at(services.now()) };
    let none = limits.sent_to(integrator_id, &windows, &payee().key).await.expect("a read");
    assert_eq!((none.day, none.is_known), (0, false));
    assert_eq!(limits.sent(integrator_id, &windows).await.expect("a read").day, 3_500, "the money has gone");
}

/// Who was erased leaves no key by which a double of an old request could be told, and a double is still told of who is there.
pub async fn twins_of_the_erased_are_forgotten(harness: &mut dyn StoreHarness) {
    let services = services(harness).guarding_twins(LATER * 10);
    let integrator_id = services.funded(1_000_000).await;
    withdraw(&services, withdrawal_command(integrator_id, 3_000), Answer::Complete).await;
    let mut to_carla = withdrawal_command(integrator_id, 3_000);
    to_carla.payee.key = PixKey::parse(PixKeyType::Phone, "+5511987654321").expect("a key");
    withdraw(&services, to_carla.clone(), Answer::Complete).await;
    settle(&services).await;
    lock_all(&services, integrator_id).await;
    people(&services).erase(integrator_id, &bruno()).await.expect("erased");
    let double = services.withdrawals.create(to_carla).await;
    assert!(matches!(double, Err(ServiceError::PossibleDuplicate(_))), "{double:?}");
    services.provider.answers_next(Answer::Complete);
    let made = services.withdrawals.create(withdrawal_command(integrator_id, 3_000)).await;
    assert!(matches!(made, Ok(Outcome::Created(_))), "{made:?}");
}

/// A key that two persons are paid by, and what is asked for at the very moment: whoever is erased, a double of the other's is told.
pub async fn a_double_is_told_whoever_is_erased(harness: &mut dyn StoreHarness) {
    let services = services(harness).guarding_twins(LATER * 10);
    let integrator_id = services.funded(1_000_000).await;
    let mut of_carla = withdrawal_command(integrator_id, 3_000);
    of_carla.external_id = Some(name("carla's"));
    of_carla.payee.party = carla();
    withdraw(&services, of_carla, Answer::Complete).await;
    settle(&services).await;
    let mut later = withdrawal_command(integrator_id, 3_000);
    later.external_id = Some(name("bruno's"));
    let later = withdraw(&services, later, Answer::Complete).await;
    let who = Person::Document(carla().document.expect("a document"));
    let erased = people(&services).erase(integrator_id, &who).await.expect("erased");
    assert_eq!((erased.records.len(), erased.open), (1, Vec::new()));
    let double = services.withdrawals.create(withdrawal_command(integrator_id, 3_000)).await;
    assert_eq!(double, Err(ServiceError::PossibleDuplicate(later.resource())));
}

/// Nothing is found of nobody, and nothing of a kind that names nobody.
pub async fn nobody_is_found_nowhere(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(1_000).await;
    let store = &services.stores.people;
    let nobody = Person::Document(Document::parse("39053344705").expect("a CPF"));
    assert_eq!(held(&services, integrator_id, &nobody).await, []);
    assert_eq!(people(&services).erase(integrator_id, &nobody).await, Ok(Erased::default()));
    for kind in [ResourceKind::Refund, ResourceKind::Split] {
        let walked = store.naming(Walk::of(integrator_id, kind), &ana()).await.expect("a walk");
        assert_eq!((walked.found, walked.next), (Vec::new(), None));
        let walked = store.lockable(Walk::of(integrator_id, kind), services.now()).await.expect("a walk");
        assert_eq!((walked.found, walked.next), (Vec::new(), None));
    }
    let stranger = IntegratorId(services.id());
    assert_eq!(held(&services, stranger, &ana()).await, []);
    assert_eq!(people(&services).erase(stranger, &ana()).await, Ok(Erased::default()));
}
