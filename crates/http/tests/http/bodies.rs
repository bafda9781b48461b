//! What postbacks say, over every kind of event and every state of its record.

use std::sync::Arc;

use pix_conformance::builders::{amount, cents};
use pix_conformance::{Services, StoreSet, builders};
use pix_domain::charges::{Charge, ChargeState, Credited, Failure};
use pix_domain::ids::{ChargeId, IntegratorId, ResourceKind, SplitId, Version};
use pix_domain::money::Cents;
use pix_domain::party::{Document, PixKey, PixKeyType};
use pix_domain::postbacks::events::{EventKey, ListedEvent, Snapshot, StoredEvent};
use pix_domain::postbacks::relay::PostbackBodies;
use pix_domain::provider::{Party, ProviderId, ReceiptKey};
use pix_domain::refunds::Refund;
use pix_domain::splits::Split;
use pix_domain::text::{Email, ExternalId, PersonName};
use pix_domain::transition::{EventKind, Record};
use pix_domain::withdrawals::{OutgoingState, Payee, Withdrawal};
use pix_http::Bodies;
use pix_memory::MemoryStore;
use serde_json::{Value, json};
use uuid::Uuid;

/// More than any receiver of the family has been seen to refuse.
const MAX_BODY_BYTES: usize = 20_000;

const OURS: IntegratorId = IntegratorId(Uuid::from_u128(7));

fn services() -> Services {
    Services::over(StoreSet::of(Arc::new(MemoryStore::new())), 3)
}

fn failure() -> Failure {
    Failure { code: "invalid_key".into(), message: "key not found".into() }
}

/// An event of that kind, right after which the record was as it is.
fn listed(kind: EventKind, record: Record, moved: Cents, related: Option<Uuid>) -> ListedEvent {
    let event = StoredEvent {
        number: 12,
        key: EventKey { resource: record.resource(), sequence: record.version() },
        kind,
        at: builders::integrator(OURS).created_at,
        moved,
        related,
        snapshot: Snapshot::of(&record),
    };
    ListedEvent { event, record, delivery: None }
}

fn charge(services: &Services) -> Charge {
    services.charge_intent(OURS).charge().unwrap().clone()
}

fn withdrawal(services: &Services) -> Withdrawal {
    let made = services.withdrawal_intent(OURS, 1_000);
    made.withdrawal().unwrap().clone()
}

fn refund(services: &Services, charge: &Charge) -> Refund {
    let refund = services.refund_intent(charge, 400);
    refund.refund().unwrap().clone()
}

fn credited(paid: Cents) -> Credited {
    Credited {
        amount_paid: paid,
        fee: Cents::ZERO,
        first: ReceiptKey::Transaction(ProviderId::parse("p-1").unwrap()),
        paid_by: builders::payer(),
        paid_at: builders::integrator(OURS).created_at,
        late: false,
        payments: 1,
    }
}

/// Everything as long as it can be.
fn longest_party() -> Party {
    Party {
        name: Some(PersonName::parse(&"𝔄".repeat(200)).unwrap()),
        document: Some(Document::parse("12ABC34501DE35").unwrap()),
    }
}

fn charges(services: &Services) -> Vec<Charge> {
    let plain = charge(services);
    let paid = Charge { state: ChargeState::Paid, credited: Some(credited(cents(10_000))), ..plain.clone() };
    let longest = Charge {
        external_id: ExternalId::parse(&"\u{1d504}".repeat(120)).unwrap(),
        amount: amount(999_999_999_999),
        payer: longest_party(),
        payer_email: Some(Email::parse(&format!("{}@{}.example", "a".repeat(64), "b".repeat(60))).unwrap()),
        credited: Some(Credited { paid_by: longest_party(), ..credited(cents(999_999_999_999)) }),
        ticket: plain.ticket.clone().map(|mut ticket| {
            ticket.provider_id = ProviderId::parse(&"\"".repeat(128)).unwrap();
            ticket
        }),
        ..paid.clone()
    };
    let mut all = vec![
        paid.clone(),
        longest,
        Charge { refunded: cents(10_000), ..paid.clone() },
        Charge { taken_back: cents(500), ..paid.clone() },
        Charge { external_id_given: false, ticket: None, ..paid },
    ];
    for state in [
        ChargeState::Creating,
        ChargeState::Pending,
        ChargeState::Expired,
        ChargeState::Canceled,
        ChargeState::Failed(failure()),
    ] {
        all.push(Charge { state, external_id_given: false, ..plain.clone() });
    }
    all
}

fn outgoing_states() -> Vec<OutgoingState> {
    vec![
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

fn withdrawals(services: &Services) -> Vec<Withdrawal> {
    let plain = withdrawal(services);
    let longest = Withdrawal {
        external_id: ExternalId::parse(&"𝔄".repeat(120)).unwrap(),
        amount: amount(999_999_999_999),
        payee: Payee {
            party: longest_party(),
            key: PixKey::parse(PixKeyType::Email, &format!("{}@{}.example", "a".repeat(50), "b".repeat(18)))
                .unwrap(),
        },
        provider_id: Some(ProviderId::parse(&"\"".repeat(128)).unwrap()),
        ..plain.clone()
    };
    let mut all = vec![longest];
    for state in outgoing_states() {
        for settled_late in [false, true] {
            for external_id_given in [false, true] {
                all.push(Withdrawal {
                    state: state.clone(),
                    settled_late,
                    external_id_given,
                    ..plain.clone()
                });
            }
        }
    }
    all
}

fn refunds(services: &Services) -> Vec<Refund> {
    let charge =
        Charge { state: ChargeState::Paid, credited: Some(credited(cents(10_000))), ..charge(services) };
    let plain = refund(services, &charge);
    let states = outgoing_states().into_iter();
    states.map(|state| Refund { state, external_id_given: false, ..plain.clone() }).collect()
}

fn split() -> Split {
    let made_at = builders::integrator(OURS).created_at;
    Split {
        id: SplitId(Uuid::from_u128(0x51)),
        integrator_id: OURS,
        version: Version::FIRST,
        from: IntegratorId(Uuid::from_u128(8)),
        charge_id: ChargeId(Uuid::from_u128(0xc4a)),
        amount: cents(5_000),
        taken_back: Cents::ZERO,
        postback_url: None,
        created_at: made_at,
        updated_at: made_at,
    }
}

/// Every event that there could be: every kind, over every record of its kind.
fn all_events() -> Vec<ListedEvent> {
    let services = services();
    let records: Vec<Record> = charges(&services)
        .into_iter()
        .map(|charge| Record::Charge(Box::new(charge)))
        .chain(withdrawals(&services).into_iter().map(|one| Record::Withdrawal(Box::new(one))))
        .chain(refunds(&services).into_iter().map(|refund| Record::Refund(Box::new(refund))))
        .chain(
            [Cents::ZERO, cents(4_999), cents(5_000)]
                .map(|taken_back| Record::Split(Box::new(Split { taken_back, ..split() }))),
        )
        .collect();
    let mut all = Vec::new();
    for kind in EventKind::ALL {
        let of_kind = kind.as_str().split('.').next().unwrap();
        for record in records.iter().filter(|record| record.resource().kind.as_str() == of_kind) {
            for related in [None, Some(Uuid::from_u128(5))] {
                all.push(listed(kind, record.clone(), cents(1_234), related));
            }
        }
    }
    all
}

fn body(event: &ListedEvent) -> Option<Value> {
    Bodies.body(event).map(|text| {
        assert!(text.len() <= MAX_BODY_BYTES, "{} bytes: {:?}", text.len(), event.event.kind);
        serde_json::from_str(&text).unwrap()
    })
}

#[test]
fn no_event_is_taken_for_another() {
    let mut told = 0;
    for event in all_events() {
        let kind = event.event.kind;
        let Some(mut body) = body(&event) else {
            assert_eq!(kind.public_name(), None, "{kind:?} has no body");
            continue;
        };
        told += 1;
        let wrapped = body.as_object_mut().unwrap().remove("requestBody").unwrap();
        assert_eq!(wrapped, body, "{kind:?}");
        let is_payment = kind == EventKind::ChargePaid;
        assert_eq!(body["transactionType"] == "RECEIVEPIX", is_payment, "{kind:?}: {body}");
        assert_eq!(body.to_string().contains("RECEIVEPIX"), is_payment, "{kind:?}: {body}");
        assert!(body["external_id"].is_string(), "{kind:?}: {body}");
        assert!(body["transactionId"].is_string(), "{kind:?}: {body}");
        assert_eq!(body["event"].as_str(), kind.public_name());
        assert_eq!(body["eventId"], event.event.key.public_id());
        assert_eq!(body["sequence"], event.event.key.sequence.0);
        assert_eq!(body["uuid"], event.record.resource().id.hyphenated().to_string());
        assert_eq!(body.get("refundId").is_some(), event.event.related.is_some(), "{kind:?}");
        let status = match kind {
            EventKind::WithdrawalCompleted | EventKind::WithdrawalSettledLate => Some(1),
            EventKind::WithdrawalFailed | EventKind::WithdrawalCanceled => Some(3),
            _ => None,
        };
        let found = body.get("statusCode").map(|code| code["statusId"].as_i64().unwrap());
        assert_eq!(found, status, "{kind:?}: {body}");
        for (name, value) in body.as_object().unwrap() {
            assert!(!value.is_null() || name == "dateApproval", "{kind:?}: {name} is null");
        }
    }
    assert!(told > 200, "hardly an event: {told}");
}

#[test]
fn what_goes_out_has_a_type_of_its_own_beside_the_outcomes() {
    let mut types = std::collections::BTreeMap::new();
    for event in all_events() {
        if event.event.kind.postback_scope().is_some() {
            let body = body(&event).unwrap();
            let name = body["event"].as_str().unwrap().to_owned();
            types.insert(name, body["transactionType"].as_str().unwrap().to_owned());
        }
    }
    let types: Vec<(&str, &str)> = types.iter().map(|(name, word)| (name.as_str(), word.as_str())).collect();
    assert_eq!(
        types,
        [
            ("cashin.canceled", "CANCELEDPIX"),
            ("cashin.confirmed", "RECEIVEPIX"),
            ("cashin.created", "CREATEDPIX"),
            ("cashin.expired", "EXPIREDPIX"),
            ("cashin.failed", "FAILEDPIX"),
            ("cashin.paid_again", "ADDITIONALPIX"),
            ("cashin.refund_failed", "PIXREVERSALFAILED"),
            ("cashin.refunded", "PIXREVERSAL"),
            ("cashin.taken_back", "DISPUTEPIX"),
            ("cashout.canceled", "PAYMENT"),
            ("cashout.confirmed", "PAYMENT"),
            ("cashout.failed", "PAYMENT"),
            ("cashout.returned", "REVERTPIX"),
            ("cashout.settled_late", "PAYMENT"),
            ("split.received", "SPLIT"),
            ("split.taken_back", "SPLITREVERSAL"),
        ]
    );
}

#[test]
fn a_confirmed_payment_says_what_came_in_and_not_what_was_asked_for() {
    let services = services();
    let asked = charge(&services);
    let paid = Charge {
        state: ChargeState::Paid,
        credited: Some(credited(cents(9_950))),
        external_id_given: false,
        ..asked
    };
    let then = Record::Charge(Box::new(paid.clone()));
    let mut event = listed(EventKind::ChargePaid, then, cents(9_950), None);
    // What became of the charge since is none of the event's.
    let now = Charge { refunded: cents(9_950), taken_back: Cents::ZERO, ..paid.clone() };
    event.record = Record::Charge(Box::new(now));
    let simple = paid.id.0.simple().to_string();
    let flat = json!({
        "transactionType": "RECEIVEPIX", "transactionId": format!("fake-{simple}"), "external_id": "",
        "amount": 99.5, "paymentType": "PIX", "status": "PAID", "dateApproval": "2026-01-15 09:00:00",
        "creditParty": {"name": "Ana Souza", "taxId": "52998224725", "email": ""},
        "debitParty": {"name": "Ana Souza", "taxId": "52998224725"}, "amount_paid": 99.5,
        "event": "cashin.confirmed", "eventId": format!("evt_c{simple}_1"), "sequence": 1, "uuid": paid.id.to_string()
    });
    let mut told = flat.clone();
    told["requestBody"] = flat;
    assert_eq!(body(&event).unwrap(), told);
    assert!(Bodies.body(&event).unwrap().starts_with(r#"{"requestBody":{"transactionType":"RECEIVEPIX","#));
}

#[test]
fn amounts_are_what_moved_where_something_did() {
    let services = services();
    let paid =
        Charge { state: ChargeState::Paid, credited: Some(credited(cents(10_000))), ..charge(&services) };
    let sent = Withdrawal { state: OutgoingState::Completed, ..withdrawal(&services) };
    let charge = Record::Charge(Box::new(paid));
    let withdrawal = Record::Withdrawal(Box::new(sent));
    let split = Record::Split(Box::new(split()));
    let back = Some(Uuid::from_u128(5));
    for (kind, record, told) in [
        (EventKind::ChargePaid, &charge, json!(12.34)),
        (EventKind::ChargePaidAgain, &charge, json!(12.34)),
        (EventKind::ChargeRefunded, &charge, json!(12.34)),
        (EventKind::ChargeRefundReleased, &charge, json!(12.34)),
        (EventKind::ChargeTakenBack, &charge, json!(12.34)),
        (EventKind::ChargeExpired, &charge, json!(100)),
        (EventKind::ChargeCanceled, &charge, json!(100)),
        (EventKind::WithdrawalReturned, &withdrawal, json!(12.34)),
        (EventKind::SplitReceived, &split, json!(12.34)),
        (EventKind::SplitTakenBack, &split, json!(12.34)),
        (EventKind::WithdrawalCompleted, &withdrawal, json!(10)),
        (EventKind::WithdrawalFailed, &withdrawal, json!(10)),
        (EventKind::WithdrawalSettledLate, &withdrawal, json!(10)),
    ] {
        let body = body(&listed(kind, record.clone(), cents(1_234), back)).unwrap();
        assert_eq!(body["amount"], told, "{kind:?}");
        assert_eq!(body["refundId"], "00000000-0000-0000-0000-000000000005");
        let paid = body.get("amount_paid").cloned();
        let is_charge = record.resource().kind == ResourceKind::Charge;
        assert_eq!(paid, is_charge.then(|| json!(100)), "{kind:?}");
    }
}

#[test]
fn a_split_is_told_of_without_the_charge_and_its_payer() {
    let told = |kind, split: &Split| {
        let record = Record::Split(Box::new(split.clone()));
        body(&listed(kind, record, cents(5_000), None)).unwrap()
    };
    let whole = split();
    let simple = whole.id.0.simple().to_string();
    let flat = json!({
        "transactionType": "SPLIT", "transactionId": simple, "external_id": whole.id.to_string(), "amount": 50,
        "paymentType": "PIX", "status": "PAID", "dateApproval": "2026-01-15 09:00:00", "creditParty": {},
        "debitParty": {}, "event": "split.received", "eventId": format!("evt_s{simple}_1"), "sequence": 1,
        "uuid": whole.id.to_string()
    });
    let mut wrapped = flat.clone();
    wrapped["requestBody"] = flat;
    assert_eq!(told(EventKind::SplitReceived, &whole), wrapped);
    assert!(!wrapped.to_string().contains(&whole.charge_id.0.simple().to_string()));
    let back =
        |taken_back| told(EventKind::SplitTakenBack, &Split { taken_back: cents(taken_back), ..split() });
    assert_eq!((&back(4_999)["status"], &back(5_000)["status"]), (&json!("PAID"), &json!("REFUNDED")));
}

#[test]
fn a_withdrawal_that_left_after_all_is_paid() {
    let services = services();
    let late = |returned| Withdrawal {
        state: OutgoingState::Failed(failure()),
        settled_late: true,
        returned,
        ..withdrawal(&services)
    };
    let told = |kind, withdrawal| {
        let event = listed(kind, Record::Withdrawal(Box::new(withdrawal)), cents(1_000), None);
        let body = body(&event).unwrap();
        (body["status"].clone(), body["dateApproval"].is_string(), body["statusCode"].clone())
    };
    let paid = json!({"statusId": 1, "description": "Paid"});
    assert_eq!(told(EventKind::WithdrawalSettledLate, late(Cents::ZERO)), (json!("PAID"), true, paid));
    assert_eq!(
        told(EventKind::WithdrawalReturned, late(cents(1_000))),
        (json!("REFUNDED"), true, Value::Null)
    );
    let failed = Withdrawal { settled_late: false, ..late(Cents::ZERO) };
    let code = json!({"statusId": 3, "description": "Failed"});
    assert_eq!(told(EventKind::WithdrawalFailed, failed), (json!("FAILED"), false, code));
}

#[test]
fn an_event_whose_record_is_of_another_kind_has_no_body() {
    let services = services();
    let mut event =
        listed(EventKind::ChargePaid, Record::Charge(Box::new(charge(&services))), cents(1), None);
    event.record = Record::Withdrawal(Box::new(withdrawal(&services)));
    assert_eq!(Bodies.body(&event), None);
}

#[test]
fn a_trial_names_no_transaction() {
    let at = builders::integrator(OURS).created_at;
    let body: Value = serde_json::from_str(&Bodies.ping("evt_ping_1", at)).unwrap();
    let flat = json!({
        "transactionType": "PING", "event": "ping", "eventId": "evt_ping_1", "sent_at": "2026-01-15T12:00:00.000000Z"
    });
    let mut told = flat.clone();
    told["requestBody"] = flat;
    assert_eq!(body, told);
}
