//! Every field of every record comes back exactly: each record once with all that may be absent and odd texts in it,
//! once with nothing that may be absent, in every state.

use std::time::Duration;

use pix_domain::charges::{Charge, ChargeState, Credited, Failure, Receipt};
use pix_domain::ids::{ChargeId, IntegratorId, RefundId, Version, WithdrawalId};
use pix_domain::list::ListQuery;
use pix_domain::metadata::{MAX_PAIRS, Metadata};
use pix_domain::money::{Amount, Cents, MAX_AMOUNT_CENTS};
use pix_domain::party::{Document, PixKey, PixKeyType};
use pix_domain::provider::{
    MAX_PROVIDER_BODY_BYTES, Party, Payment, ProviderBody, ProviderId, ReceiptKey, Ticket,
};
use pix_domain::refunds::Refund;
use pix_domain::text::{Description, Email, ExternalId, PayerQuestion, PersonName, PostbackUrl};
use pix_domain::time::Timestamp;
use pix_domain::transition::{EventKind, Guard, Record, Transition};
use pix_domain::wallet::{Posting, Reason};
use pix_domain::withdrawals::{OutgoingState, Payee, Withdrawal};

use crate::builders::{amount, cents, end_to_end_id, name, some_fees};
use crate::{Services, StoreHarness, services};

/// What a provider may say, kept as it said it.
const ODD: &str =
    "Zoë 'q' \"d\" \\ / % _ ; -- $1 ?1 {} <b>&amp; 🍞 漢字 e\u{301} \u{202E}txt\t\r\n\u{10FFFF} end ";
/// What an integrator may send.
const NAME: &str = "Pão 'q' \"d\" \\ / % _ ; -- $1 ?1 {} <b>&amp; 🍞 漢字 e\u{301} end";
/// Not in the form a program would write it, and with a name twice.
const BODY: &str = "{\"b\":1, \"a\" : 1.50,\n\t\"a\":\"\\u00e9 é\",\"z\":[]}  ";

fn failure() -> Failure {
    Failure { code: format!("code {ODD}"), message: format!("message {ODD}") }
}

/// An instant with microseconds.
fn instant(services: &Services, number: u64) -> Timestamp {
    services.now().plus(Duration::from_micros(number * 1_000_001))
}

fn party(document: &str) -> Party {
    Party {
        name: Some(PersonName::parse(NAME).expect("a name")),
        document: Some(Document::parse(document).expect("a document")),
    }
}

fn external_id(id: uuid::Uuid) -> ExternalId {
    name(&format!("{} {NAME}", id.simple()))
}

fn postback_url() -> PostbackUrl {
    PostbackUrl::parse("https://example.com:8443/pix?token=%20a&b=ção'\"#frag").expect("a URL")
}

fn description() -> Description {
    Description::parse(NAME).expect("a description")
}

fn full_provider_id() -> ProviderId {
    ProviderId::parse(&format!("{}'\"%_\\", "x".repeat(100))).expect("visible ASCII")
}

fn empty_charge(services: &Services, integrator_id: IntegratorId, state: ChargeState) -> Charge {
    let id = ChargeId(services.id());
    Charge {
        id,
        integrator_id,
        version: Version::FIRST,
        external_id: name(&id.0.simple().to_string()),
        external_id_given: false,
        amount: amount(1),
        payer: Party::default(),
        payer_email: None,
        payer_question: None,
        payer_erased: false,
        metadata: Metadata::default(),
        postback_url: None,
        postback_scope: pix_domain::postbacks::events::PostbackScope::Outcomes,
        fee_version: 0,
        state,
        ticket: None,
        credited: None,
        refund_reserved: Cents::ZERO,
        refunded: Cents::ZERO,
        taken_back: Cents::ZERO,
        split: Vec::new(),
        expires_at: services.now(),
        created_at: services.now(),
        updated_at: services.now(),
    }
}

fn full_charge(services: &Services, integrator_id: IntegratorId, state: ChargeState) -> Charge {
    let empty = empty_charge(services, integrator_id, state);
    let credited = Credited {
        amount_paid: amount(MAX_AMOUNT_CENTS).cents(),
        fee: cents(123_456_789_012),
        first: ReceiptKey::EndToEnd(end_to_end_id(empty.id.0)),
        paid_by: party("12ABC34501DE35"),
        paid_at: instant(services, 3),
        late: true,
        payments: 70_000,
    };
    Charge {
        external_id: external_id(empty.id.0),
        external_id_given: true,
        amount: amount(MAX_AMOUNT_CENTS),
        payer: party("52998224725"),
        payer_email: Some(Email::parse("Ana.O'Souza+pix@exämple.com").expect("an e-mail address")),
        payer_question: Some(PayerQuestion::parse(NAME).expect("a question")),
        metadata: full_metadata(),
        postback_url: Some(postback_url()),
        postback_scope: pix_domain::postbacks::events::PostbackScope::All,
        fee_version: 1,
        ticket: Some(ticket()),
        taken_back: cents(if empty.state == ChargeState::Paid { 123 } else { 0 }),
        credited: (empty.state == ChargeState::Paid).then_some(credited),
        expires_at: instant(services, 2),
        updated_at: instant(services, 1),
        ..empty
    }
}

/// As much as there may be.
fn full_metadata() -> Metadata {
    let mut metadata = Metadata::default();
    for number in 0..MAX_PAIRS {
        let (key, value) = (format!("Key_{number}-x.y"), format!("{NAME} {number} \"'\\ {{}}"));
        metadata.insert(&key, &value).expect("a pair");
    }
    metadata
}

fn ticket() -> Ticket {
    Ticket { provider_id: full_provider_id(), qrcode: format!("qr {ODD}"), body: ProviderBody(BODY.into()) }
}

/// Writes a charge as it is, with the postings and the receipt that its sums call for.
fn write_charge(services: &Services, charge: &Charge, guard: Guard) -> Transition {
    let (record, resource) = (Record::Charge(Box::new(charge.clone())), charge.resource());
    let mut transition = Transition::new(charge.integrator_id, services.now()).write(
        guard,
        record,
        EventKind::ChargePending,
        None,
    );
    if let Some(credited) = &charge.credited {
        transition = transition
            .post(Posting::of(Reason::ChargePaid, credited.amount_paid, resource))
            .post(Posting::of(Reason::ChargeFee, credited.fee, resource))
            .post(Posting::of(Reason::ForcedDebit, charge.taken_back, resource));
        let payment = Payment {
            key: credited.first.clone(),
            amount: Amount::from_cents(credited.amount_paid.get()).expect("a possible amount"),
            paid_at: credited.paid_at,
            payer: credited.paid_by.clone(),
        };
        let (integrator_id, charge_id) = (charge.integrator_id, charge.id);
        transition.receipt = Some(Receipt { integrator_id, charge_id, payment });
    }
    transition
}

async fn assert_charge_is_kept(services: &Services, charge: &Charge) {
    let (charges, integrator_id) = (&services.stores.domain.charges, charge.integrator_id);
    let expected = Ok(Some(charge.clone()));
    assert_eq!(charges.find(integrator_id, charge.id).await, expected);
    assert_eq!(charges.find_by_external_id(integrator_id, &charge.external_id).await, expected);
    let external_id = Some(charge.external_id.clone());
    let states = vec![charge.state.name()];
    let query = ListQuery { external_id, states, limit: 9, ..ListQuery::default() };
    assert_eq!(charges.list(integrator_id, &query).await, Ok(vec![charge.clone()]));
    let book = services.stores.books.book(integrator_id).await.expect("a book");
    assert!(book.charges.contains(charge));
    let Some(credited) = &charge.credited else { return };
    let receipts = charges.receipts(integrator_id, charge.id).await.expect("receipts");
    let [receipt] = &receipts[..] else { panic!("{receipts:?}") };
    assert_eq!((receipt.integrator_id, receipt.charge_id), (integrator_id, charge.id));
    assert_eq!(
        (&receipt.payment.key, receipt.payment.amount.cents()),
        (&credited.first, credited.amount_paid)
    );
    assert_eq!((&receipt.payment.payer, receipt.payment.paid_at), (&credited.paid_by, credited.paid_at));
    assert!(book.receipts.contains(receipt));
}

fn charge_states() -> [ChargeState; 6] {
    [
        ChargeState::Creating,
        ChargeState::Pending,
        ChargeState::Paid,
        ChargeState::Expired,
        ChargeState::Canceled,
        ChargeState::Failed(failure()),
    ]
}

/// Charges, in every state, with everything and with nothing.
pub async fn charges_come_back_exactly(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    services.set_fees(integrator_id, some_fees()).await;
    for state in charge_states() {
        let full = full_charge(&services, integrator_id, state.clone());
        let mut empty = empty_charge(&services, integrator_id, state);
        if empty.state == ChargeState::Paid {
            empty.credited = Some(Credited {
                amount_paid: cents(1),
                fee: Cents::ZERO,
                first: ReceiptKey::Transaction(full_provider_id()),
                paid_by: Party::default(),
                paid_at: services.now(),
                late: false,
                payments: 1,
            });
        }
        for charge in [full, empty] {
            services.apply(write_charge(&services, &charge, Guard::Absent)).await;
            assert_charge_is_kept(&services, &charge).await;
        }
    }
}

/// A change of a charge writes all that may change.
pub async fn a_changed_charge_comes_back_exactly(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let empty = empty_charge(&services, integrator_id, ChargeState::Creating);
    services.apply(write_charge(&services, &empty, Guard::Absent)).await;
    let full = full_charge(&services, integrator_id, ChargeState::Paid);
    let changed = Charge {
        version: empty.version.next(),
        state: full.state,
        ticket: full.ticket,
        credited: full.credited,
        updated_at: full.updated_at,
        ..empty.clone()
    };
    services.apply(write_charge(&services, &changed, Guard::At(empty.version))).await;
    assert_charge_is_kept(&services, &changed).await;
    let failed = empty_charge(&services, integrator_id, ChargeState::Creating);
    services.apply(write_charge(&services, &failed, Guard::Absent)).await;
    let state = ChargeState::Failed(failure());
    let changed = Charge { version: failed.version.next(), state, ..failed.clone() };
    services.apply(write_charge(&services, &changed, Guard::At(failed.version))).await;
    assert_charge_is_kept(&services, &changed).await;
}

fn outgoing_states() -> [OutgoingState; 9] {
    [
        OutgoingState::Queued,
        OutgoingState::Submitting,
        OutgoingState::Accepted,
        OutgoingState::Uncertain,
        OutgoingState::NeedsReview,
        OutgoingState::Completed,
        OutgoingState::Failed(failure()),
        OutgoingState::Canceled,
        OutgoingState::Returned,
    ]
}

/// PIX keys of every type, one for each number.
fn pix_key(number: usize) -> PixKey {
    let keys = [
        (PixKeyType::Cpf, "52998224725"),
        (PixKeyType::Cnpj, "12ABC34501DE35"),
        (PixKeyType::Phone, "+5511987654321"),
        (PixKeyType::Email, "bruno+pix@example.com"),
        (PixKeyType::Evp, "123e4567-e89b-42d3-a456-426614174000"),
    ];
    let (kind, text) = keys[number % keys.len()];
    PixKey::parse(kind, text).expect("a PIX key")
}

fn empty_withdrawal(
    services: &Services,
    integrator_id: IntegratorId,
    state: OutgoingState,
    key: PixKey,
) -> Withdrawal {
    let id = WithdrawalId(services.id());
    let returned = if state == OutgoingState::Returned { cents(1) } else { Cents::ZERO };
    Withdrawal {
        id,
        integrator_id,
        version: Version::FIRST,
        external_id: name(&id.0.simple().to_string()),
        external_id_given: false,
        amount: amount(1),
        fee: Cents::ZERO,
        fee_version: 0,
        payee: Payee { party: Party::default(), key },
        description: None,
        metadata: Metadata::default(),
        postback_url: None,
        postback_scope: pix_domain::postbacks::events::PostbackScope::Outcomes,
        state,
        provider_id: None,
        provider_body: None,
        end_to_end_id: None,
        returned,
        payee_erased: false,
        settled_late: false,
        submitted_at: services.now(),
        completed_at: None,
        created_at: services.now(),
        updated_at: services.now(),
    }
}

fn full_withdrawal(
    services: &Services,
    integrator_id: IntegratorId,
    state: OutgoingState,
    key: PixKey,
) -> Withdrawal {
    let empty = empty_withdrawal(services, integrator_id, state, key);
    let returned = match empty.state {
        OutgoingState::Returned => 1_000,
        OutgoingState::Completed => 999,
        _ => 0,
    };
    Withdrawal {
        external_id: external_id(empty.id.0),
        external_id_given: true,
        amount: amount(1_000),
        fee: cents(50),
        fee_version: 1,
        payee: Payee { party: party("11222333000181"), key: empty.payee.key.clone() },
        description: Some(description()),
        metadata: full_metadata(),
        postback_url: Some(postback_url()),
        postback_scope: pix_domain::postbacks::events::PostbackScope::All,
        provider_id: Some(full_provider_id()),
        provider_body: Some(ProviderBody(BODY.into())),
        end_to_end_id: Some(format!("end to end {ODD}")),
        returned: cents(returned),
        settled_late: empty.state == OutgoingState::Canceled,
        submitted_at: instant(services, 1),
        completed_at: Some(instant(services, 2)),
        updated_at: instant(services, 3),
        ..empty
    }
}

/// Writes a withdrawal as it is, with the postings that its state calls for.
fn write_withdrawal(services: &Services, record: &Withdrawal) -> Transition {
    let (amount, resource) = (record.amount.cents(), record.resource());
    let transition = Transition::new(record.integrator_id, services.now())
        .write(
            Guard::Absent,
            Record::Withdrawal(Box::new(record.clone())),
            EventKind::WithdrawalCreated,
            None,
        )
        .post(Posting::of(Reason::WithdrawalHold, record.total(), resource));
    match &record.state {
        OutgoingState::Completed | OutgoingState::Returned => transition
            .post(Posting::of(Reason::WithdrawalSettle, amount, resource))
            .post(Posting::of(Reason::WithdrawalFee, record.fee, resource))
            .post(Posting::of(Reason::WithdrawalReturn, record.returned, resource)),
        OutgoingState::Failed(_) | OutgoingState::Canceled => {
            let late = if record.settled_late { amount } else { Cents::ZERO };
            transition
                .post(Posting::of(Reason::WithdrawalRelease, record.total(), resource))
                .post(Posting::of(Reason::ForcedDebit, late, resource))
        }
        _ => transition,
    }
}

async fn assert_withdrawal_is_kept(services: &Services, withdrawal: &Withdrawal) {
    let (withdrawals, integrator_id) = (&services.stores.domain.withdrawals, withdrawal.integrator_id);
    let expected = Ok(Some(withdrawal.clone()));
    assert_eq!(withdrawals.find(integrator_id, withdrawal.id).await, expected);
    assert_eq!(withdrawals.find_by_external_id(integrator_id, &withdrawal.external_id).await, expected);
    let external_id = Some(withdrawal.external_id.clone());
    let states = vec![withdrawal.state.name()];
    let query = ListQuery { external_id, states, limit: 9, ..ListQuery::default() };
    assert_eq!(withdrawals.list(integrator_id, &query).await, Ok(vec![withdrawal.clone()]));
    let book = services.stores.books.book(integrator_id).await.expect("a book");
    assert!(book.withdrawals.contains(withdrawal));
}

/// Withdrawals, in every state and to every type of key, with everything and with nothing.
pub async fn withdrawals_come_back_exactly(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(1_000_000).await;
    services.set_fees(integrator_id, some_fees()).await;
    for (number, state) in outgoing_states().into_iter().enumerate() {
        let full = full_withdrawal(&services, integrator_id, state.clone(), pix_key(number));
        let empty = empty_withdrawal(&services, integrator_id, state, pix_key(number + 1));
        for withdrawal in [full, empty] {
            services.apply(write_withdrawal(&services, &withdrawal)).await;
            assert_withdrawal_is_kept(&services, &withdrawal).await;
        }
    }
}

/// A change of a withdrawal writes all that may change.
pub async fn a_changed_withdrawal_comes_back_exactly(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(1_000_000).await;
    for state in outgoing_states() {
        let born = empty_withdrawal(&services, integrator_id, OutgoingState::Submitting, pix_key(0));
        services.apply(write_withdrawal(&services, &born)).await;
        let full = full_withdrawal(&services, integrator_id, state, pix_key(0));
        let returned = if full.state == OutgoingState::Returned { cents(1) } else { Cents::ZERO };
        let changed = Withdrawal {
            version: born.version.next(),
            state: full.state,
            provider_id: full.provider_id,
            provider_body: full.provider_body,
            end_to_end_id: full.end_to_end_id,
            returned,
            submitted_at: full.submitted_at,
            completed_at: full.completed_at,
            updated_at: full.updated_at,
            ..born.clone()
        };
        let mut transition = write_withdrawal(&services, &changed);
        transition.writes[0].guard = Guard::At(born.version);
        transition.postings.remove(0);
        services.apply(transition).await;
        assert_withdrawal_is_kept(&services, &changed).await;
    }
}

fn empty_refund(services: &Services, charge: &Charge, state: OutgoingState) -> Refund {
    let id = RefundId(services.id());
    Refund {
        id,
        integrator_id: charge.integrator_id,
        version: Version::FIRST,
        charge_id: charge.id,
        charge_provider_id: full_provider_id(),
        external_id: name(&id.0.simple().to_string()),
        external_id_given: false,
        amount: amount(1),
        amount_given: false,
        fee: Cents::ZERO,
        fee_version: 0,
        description: None,
        state,
        provider_id: None,
        provider_body: None,
        return_id: None,
        submitted_at: services.now(),
        completed_at: None,
        created_at: services.now(),
        updated_at: services.now(),
    }
}

fn full_refund(services: &Services, charge: &Charge, state: OutgoingState) -> Refund {
    let empty = empty_refund(services, charge, state);
    Refund {
        external_id: external_id(empty.id.0),
        external_id_given: true,
        amount: amount(1_000),
        amount_given: true,
        fee: cents(25),
        fee_version: 1,
        description: Some(description()),
        provider_id: Some(full_provider_id()),
        provider_body: Some(ProviderBody(BODY.into())),
        return_id: Some(format!("return {ODD}")),
        submitted_at: instant(services, 1),
        completed_at: Some(instant(services, 2)),
        updated_at: instant(services, 3),
        ..empty
    }
}

/// Writes a refund as it is, with the postings that its state calls for, and its charge beside it, which is returned.
fn write_refund(services: &Services, refund: &Refund, charge: &Charge) -> (Transition, Charge) {
    let (amount, resource) = (refund.amount.cents(), refund.resource());
    let guard = Guard::At(charge.version);
    let mut charge = Charge { version: charge.version.next(), ..charge.clone() };
    let mut transition = Transition::new(refund.integrator_id, services.now()).post(Posting::of(
        Reason::RefundHold,
        refund.total(),
        resource,
    ));
    match &refund.state {
        OutgoingState::Completed => {
            charge.refunded = charge.refunded.checked_add(amount).expect("a small sum");
            transition = transition
                .post(Posting::of(Reason::RefundSettle, amount, resource))
                .post(Posting::of(Reason::RefundFee, refund.fee, resource));
        }
        OutgoingState::Failed(_) => {
            transition = transition.post(Posting::of(Reason::RefundRelease, refund.total(), resource));
        }
        _ => charge.refund_reserved = charge.refund_reserved.checked_add(amount).expect("a small sum"),
    }
    let record = Record::Refund(Box::new(refund.clone()));
    let transition = transition.write(Guard::Absent, record, EventKind::RefundCreated, None).write(
        guard,
        Record::Charge(Box::new(charge.clone())),
        EventKind::ChargeRefundReserved,
        None,
    );
    (transition, charge)
}

async fn assert_refund_is_kept(services: &Services, refund: &Refund) {
    let (refunds, integrator_id) = (&services.stores.domain.refunds, refund.integrator_id);
    let expected = Ok(Some(refund.clone()));
    assert_eq!(refunds.find(integrator_id, refund.id).await, expected);
    assert_eq!(refunds.find_by_external_id(integrator_id, &refund.external_id).await, expected);
    let of_charge = refunds.list_of_charge(integrator_id, refund.charge_id).await.expect("refunds");
    assert!(of_charge.contains(refund));
    let book = services.stores.books.book(integrator_id).await.expect("a book");
    assert!(book.refunds.contains(refund));
}

/// Refunds, in every state they can have, with everything and with nothing.
pub async fn refunds_come_back_exactly(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let mut charge = services.paid_charge(integrator_id, 1_000_000).await;
    services.set_fees(integrator_id, some_fees()).await;
    for state in outgoing_states() {
        if matches!(state, OutgoingState::Canceled | OutgoingState::Returned) {
            continue;
        }
        for refund in
            [full_refund(&services, &charge, state.clone()), empty_refund(&services, &charge, state)]
        {
            let (transition, after) = write_refund(&services, &refund, &charge);
            services.apply(transition).await;
            assert_refund_is_kept(&services, &refund).await;
            assert_charge_is(&services, &after).await;
            charge = after;
        }
    }
}

async fn assert_charge_is(services: &Services, charge: &Charge) {
    let kept = services.charges.get(charge.integrator_id, charge.id).await;
    assert_eq!(kept.as_ref(), Ok(charge));
}

/// A change of a refund writes all that may change.
pub async fn a_changed_refund_comes_back_exactly(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    let born = empty_refund(&services, &charge, OutgoingState::Submitting);
    let (transition, charge) = write_refund(&services, &born, &charge);
    services.apply(transition).await;
    let full = full_refund(&services, &charge, OutgoingState::Failed(failure()));
    let changed = Refund {
        version: born.version.next(),
        state: full.state,
        provider_id: full.provider_id,
        provider_body: full.provider_body,
        return_id: full.return_id,
        submitted_at: full.submitted_at,
        completed_at: full.completed_at,
        updated_at: full.updated_at,
        ..born.clone()
    };
    let (mut transition, _) = write_refund(&services, &changed, &charge);
    transition.writes[0].guard = Guard::At(born.version);
    transition.postings.remove(0);
    if let Record::Charge(charge) = &mut transition.writes[1].record {
        charge.refund_reserved = Cents::ZERO;
    }
    services.apply(transition).await;
    assert_refund_is_kept(&services, &changed).await;
}

/// The longest texts that the domain lets in are kept whole.
pub async fn the_longest_texts_come_back_exactly(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(1_000_000).await;
    let mut withdrawal = empty_withdrawal(&services, integrator_id, OutgoingState::Accepted, pix_key(0));
    withdrawal.external_id = name(&"🍞".repeat(120));
    withdrawal.description = Some(Description::parse(&"é".repeat(140)).expect("a description"));
    withdrawal.payee.party.name = Some(PersonName::parse(&"漢".repeat(200)).expect("a name"));
    let url = format!("https://example.com/{}", "a".repeat(2_028));
    withdrawal.postback_url = Some(PostbackUrl::parse(&url).expect("a URL"));
    withdrawal.provider_id = ProviderId::parse(&"x".repeat(128));
    withdrawal.provider_body = Some(ProviderBody("é".repeat(MAX_PROVIDER_BODY_BYTES / 2)));
    services.apply(write_withdrawal(&services, &withdrawal)).await;
    assert_withdrawal_is_kept(&services, &withdrawal).await;
    let key = crate::builders::key(&"k".repeat(255));
    let intent = services.withdrawal_intent(integrator_id, 1).answering(Some(key.clone()));
    let id = intent.withdrawal().map(|withdrawal| withdrawal.id.0);
    services.apply(intent).await;
    let kind = pix_domain::ids::ResourceKind::Withdrawal;
    assert_eq!(services.stores.domain.lookups.find_handle(integrator_id, kind, &key).await, Ok(id));
}
