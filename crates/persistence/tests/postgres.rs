//! What is the PostgreSQL store's own: exact rows, damaged ones, several nodes on one database, callers who go away.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pix_conformance::builders::{cents, name, next, payment, ticket};
use pix_conformance::{Services, StoreSet};
use pix_domain::audit::{self, BookStore};
use pix_domain::audit_log::{Action, AuditLogStore, LogEntry, LogHash, Operator};
use pix_domain::callbacks::{Callback, CallbackState, CallbackStore};
use pix_domain::charges::store::ChargeStore;
use pix_domain::charges::{Charge, ChargeState, Credited, Failure};
use pix_domain::credentials::store::{ApiKeyStore, IntegratorStore};
use pix_domain::credentials::{ApiKey, SecretHash};
use pix_domain::error::{ApplyError, StoreError, UniqueKey};
use pix_domain::fees::{FeeSchedule, FeeStore};
use pix_domain::follow_up::{FollowUpStore, LookupStore};
use pix_domain::ids::{IntegratorId, ResourceKind};
use pix_domain::money::MAX_AMOUNT_CENTS;
use pix_domain::party::{Document, PixKey, PixKeyType};
use pix_domain::people::{PersonStore, Walk};
use pix_domain::provider::{Party, ProviderBody, ProviderId, ReceiptKey};
use pix_domain::refunds::Refund;
use pix_domain::refunds::store::RefundStore;
use pix_domain::seals::service::{Sealer, all_heads};
use pix_domain::text::{Description, Email, PayerQuestion, PersonName, PostbackUrl};
use pix_domain::time::Timestamp;
use pix_domain::transition::{EventKind, Guard, Record, Transition, TransitionStore};
use pix_domain::wallet::store::{EntryQuery, WalletStore};
use pix_domain::withdrawals::store::WithdrawalStore;
use pix_domain::withdrawals::{OutgoingState, Payee, Withdrawal};
use pix_persistence::postgres::{PgOptions, PgStore};
use pix_pg_server::PgServer;
use uuid::Uuid;

struct Place {
    store: Arc<PgStore>,
    database: String,
}

fn server() -> &'static PgServer {
    pix_pg_server::shared().unwrap()
}

async fn open(database: &str) -> Arc<PgStore> {
    let patience = Duration::from_secs(30);
    let options = PgOptions {
        migrate: true,
        money_connections: 4,
        read_connections: 4,
        connect_timeout: patience,
        acquire_timeout: patience,
        statement_timeout: patience,
        ..PgOptions::default()
    };
    Arc::new(PgStore::open(&server().url(database), options).await.unwrap())
}

async fn place() -> Place {
    let database = pix_pg_server::fresh_name();
    server().create_database(&database).unwrap();
    Place { store: open(&database).await, database }
}

impl Place {
    fn services(&self) -> Services {
        Services::over(StoreSet::of(self.store.clone()), 0)
    }

    fn sql(&self, sql: &str) -> String {
        server().psql(&self.database, sql).unwrap()
    }

    /// Takes the schema's own rules away, as a broken disk would.
    fn forget_checks(&self) {
        self.sql(
            "DO $$ DECLARE found record; BEGIN \
             FOR found IN SELECT conrelid::regclass AS place, conname FROM pg_constraint \
             WHERE contype = 'c' AND connamespace = 'public'::regnamespace \
             LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', found.place, found.conname); END LOOP; END $$",
        );
    }
}

fn failure() -> Failure {
    Failure { code: "AM04".into(), message: "saldo insuficiente — ção 🍞".into() }
}

fn every_outgoing_state() -> [OutgoingState; 9] {
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

async fn keep(store: &PgStore, integrator_id: IntegratorId, record: Record) {
    let transition = Transition::new(integrator_id, Timestamp::from_micros(1));
    store.apply(transition.write(Guard::Absent, record, EventKind::ChargeCreating, None)).await.unwrap();
}

fn whole_party() -> Party {
    Party {
        name: Some(PersonName::parse("João D'Ávila \"Zé\"; DROP TABLE").unwrap()),
        document: Some(Document::parse("12ABC34501DE35").unwrap()),
    }
}

/// A charge with every optional part there, or none.
fn charge_in(services: &Services, owner: IntegratorId, state: ChargeState, whole: bool) -> Charge {
    let new = services.new_charge(owner);
    let id = services.id();
    let mut charge = pix_domain::charges::state::begin(new, services.now()).charge().unwrap().clone();
    charge.state = state;
    charge.external_id_given = whole;
    charge.payer = if whole { whole_party() } else { Party::default() };
    if whole {
        charge.payer_email = Some(Email::parse("Ana.Souza@Example.com").unwrap());
        charge.payer_question = Some(PayerQuestion::parse("Qual o pedido?").unwrap());
        charge.postback_url = Some(PostbackUrl::parse("https://example.com/x?token=a%20b#c").unwrap());
        charge.fee_version = u32::MAX;
        charge.ticket = Some(ticket(charge.id));
        let paid = payment(id, MAX_AMOUNT_CENTS, Timestamp::from_micros(i64::MAX));
        charge.credited = Some(Credited {
            amount_paid: cents(i64::MAX),
            fee: cents(1),
            first: if id.as_u128().is_multiple_of(2) {
                paid.key
            } else {
                ReceiptKey::Transaction(ProviderId::parse("txn:1/x").unwrap())
            },
            paid_by: whole_party(),
            paid_at: Timestamp::from_micros(i64::MAX),
            late: true,
            payments: u32::MAX,
        });
        charge.refund_reserved = cents(3);
        charge.refunded = cents(4);
        charge.taken_back = cents(5);
    }
    charge.expires_at = Timestamp::from_micros(i64::MIN);
    charge
}

#[tokio::test]
async fn every_field_of_a_charge_comes_back_exactly() {
    let place = place().await;
    let services = place.services();
    let owner = services.integrator().await;
    let states = [
        ChargeState::Creating,
        ChargeState::Pending,
        ChargeState::Paid,
        ChargeState::Expired,
        ChargeState::Canceled,
        ChargeState::Failed(failure()),
    ];
    assert_eq!(states.len(), ChargeState::NAMES.len());
    for (state, whole) in states.iter().flat_map(|state| [(state, true), (state, false)]) {
        let charge = charge_in(&services, owner, state.clone(), whole);
        keep(&place.store, owner, Record::Charge(Box::new(charge.clone()))).await;
        assert_eq!(ChargeStore::find(&*place.store, owner, charge.id).await, Ok(Some(charge)));
    }
}

#[tokio::test]
async fn every_field_of_a_withdrawal_comes_back_exactly() {
    let place = place().await;
    let services = place.services();
    let owner = services.integrator().await;
    let keys = [
        (PixKeyType::Cpf, "52998224725"),
        (PixKeyType::Cnpj, "12ABC34501DE35"),
        (PixKeyType::Phone, "+5511987654321"),
        (PixKeyType::Email, "bruno@example.com"),
        (PixKeyType::Evp, "123e4567-e89b-12d3-a456-426614174000"),
    ];
    for (index, state) in every_outgoing_state().into_iter().enumerate() {
        let (kind, key) = keys[index % keys.len()];
        let accepted = services.withdrawal_intent(owner, 1_000);
        let mut withdrawal: Withdrawal = accepted.withdrawal().unwrap().clone();
        withdrawal.state = state;
        withdrawal.payee = Payee { party: whole_party(), key: PixKey::parse(kind, key).unwrap() };
        if index % 2 == 0 {
            withdrawal.fee = cents(i64::MAX);
            withdrawal.external_id_given = false;
            withdrawal.description = Some(Description::parse("pão").unwrap());
            withdrawal.postback_url = Some(PostbackUrl::parse("http://[::1]:8080/x").unwrap());
            withdrawal.provider_id = ProviderId::parse("abc");
            withdrawal.provider_body = Some(ProviderBody("{\"a\":\"\\u0000\u{1}é\"}".into()));
            withdrawal.end_to_end_id = Some("E…".into());
            withdrawal.returned = cents(999);
            withdrawal.settled_late = true;
            withdrawal.completed_at = Some(Timestamp::from_micros(-1));
        }
        keep(&place.store, owner, Record::Withdrawal(Box::new(withdrawal.clone()))).await;
        assert_eq!(WithdrawalStore::find(&*place.store, owner, withdrawal.id).await, Ok(Some(withdrawal)));
    }
}

#[tokio::test]
async fn every_field_of_a_refund_comes_back_exactly() {
    let place = place().await;
    let services = place.services();
    let owner = services.integrator().await;
    let charge = services.paid_charge(owner, 10_000).await;
    for (index, state) in every_outgoing_state().into_iter().enumerate() {
        let accepted = services.refund_intent(&charge, 10);
        let mut refund: Refund = accepted.refund().unwrap().clone();
        refund.state = state;
        if index % 2 == 0 {
            refund.amount_given = false;
            refund.external_id_given = false;
            refund.fee = cents(7);
            refund.fee_version = 9;
            refund.description = Some(Description::parse("devolução").unwrap());
            refund.provider_id = ProviderId::parse("abc");
            refund.provider_body = Some(ProviderBody("{}".into()));
            refund.return_id = Some("D…".into());
            refund.completed_at = Some(Timestamp::from_micros(5));
        }
        if matches!(refund.state, OutgoingState::Canceled | OutgoingState::Returned) {
            // A refund is never that, and the schema knows.
            let transition = Transition::new(owner, services.now()).write(
                Guard::Absent,
                Record::Refund(Box::new(refund)),
                EventKind::RefundCreated,
                None,
            );
            let answer = place.store.apply(transition).await;
            assert!(matches!(answer, Err(ApplyError::Store(StoreError::Rejected(_)))), "{answer:?}");
            continue;
        }
        keep(&place.store, owner, Record::Refund(Box::new(refund.clone()))).await;
        assert_eq!(RefundStore::find(&*place.store, owner, refund.id).await, Ok(Some(refund)));
    }
}

#[tokio::test]
async fn the_schema_refuses_refunds_above_what_was_paid_though_the_domain_asks_for_them() {
    let place = place().await;
    let services = place.services();
    let owner = services.integrator().await;
    let paid = services.paid_charge(owner, 10_000).await;
    let before = place.store.book(owner).await.unwrap();
    for (reserved, refunded, taken_back) in
        [(10_001, 0, 0), (1, 10_000, 0), (5_000, 0, 5_001), (0, 0, 10_001)]
    {
        let mut charge = paid.clone();
        charge.version = paid.version.next();
        (charge.refund_reserved, charge.refunded, charge.taken_back) =
            (cents(reserved), cents(refunded), cents(taken_back));
        let write = Transition::new(owner, services.now()).write(
            Guard::At(paid.version),
            Record::Charge(Box::new(charge)),
            EventKind::ChargeRefundReserved,
            None,
        );
        let Err(ApplyError::Store(StoreError::Rejected(why))) = place.store.apply(write).await else {
            panic!()
        };
        assert!(why.contains("charges_refunds_within_payment"), "{why}");
        assert_eq!(place.store.book(owner).await.unwrap(), before);
    }
}

#[tokio::test]
async fn a_refund_of_an_unknown_charge_is_rejected() {
    let place = place().await;
    let services = place.services();
    let (owner, other) = (services.integrator().await, services.integrator().await);
    let charge = services.paid_charge(other, 10_000).await;
    let mut refund = services.refund_intent(&charge, 10).refund().unwrap().clone();
    refund.integrator_id = owner;
    let write = Transition::new(owner, services.now()).write(
        Guard::Absent,
        Record::Refund(Box::new(refund)),
        EventKind::RefundCreated,
        None,
    );
    let answer = place.store.apply(write).await;
    assert!(matches!(answer, Err(ApplyError::Store(StoreError::Rejected(_)))), "{answer:?}");
}

#[tokio::test]
async fn a_damaged_row_is_reported_by_its_column_and_never_shown() {
    let place = place().await;
    let services = place.services();
    let owner = services.funded(10_000).await;
    let charge = services.charge(owner, 500).await;
    place.forget_checks();
    for (sql, column) in [
        ("UPDATE charges SET payer_document = 'SECRET'", "charges.payer_*"),
        ("UPDATE charges SET payer_document = NULL, state = 'SECRET'", "charges.state"),
        ("UPDATE charges SET state = 'failed'", "charges.failure_code"),
        ("UPDATE charges SET state = 'pending', amount_cents = -777", "charges.amount_cents"),
        ("UPDATE charges SET amount_cents = 1, version = -777", "charges.version"),
        ("UPDATE charges SET version = 1, qrcode = NULL", "charges.provider_id"),
    ] {
        place.sql(sql);
        let Err(StoreError::Damaged(text)) = ChargeStore::find(&*place.store, owner, charge.id).await else {
            panic!("{sql}")
        };
        assert!(text.starts_with(column) && !text.contains("SECRET") && !text.contains("777"), "{text}");
    }
    place.sql("UPDATE postings SET reason = 'SECRET'");
    let Err(StoreError::Damaged(text)) = place.store.entries(owner, &EntryQuery::after(0, 10)).await else {
        panic!()
    };
    assert_eq!(text, "postings.reason is not a name this program knows");

    place.sql("UPDATE wallets SET available_cents = -777");
    let Err(StoreError::Damaged(text)) = place.store.wallet(owner).await else { panic!() };
    assert_eq!(text, "wallets.available_cents is not a quantity of centavos");
    // Nothing can be taken out of a damaged wallet, and nobody else is hurt.
    assert!(place.store.apply(services.withdrawal_intent(owner, 1)).await.is_err());
    services.funded(10_000).await;
}

#[tokio::test]
async fn a_refused_transition_among_many_touches_none_of_them() {
    let place = place().await;
    let services = place.services();
    let owner = services.funded(10_000).await;
    let mut transitions: Vec<_> = (0..600).map(|_| services.withdrawal_intent(owner, 10)).collect();
    transitions[100] = services.withdrawal_intent(owner, 1_000_000);
    transitions[200] = transitions[199].clone();
    let results = place.store.apply_all(transitions).await;
    for (index, result) in results.iter().enumerate() {
        match index {
            100 => assert_eq!(*result, Err(ApplyError::InsufficientFunds)),
            200 => assert_eq!(*result, Err(ApplyError::Duplicate(UniqueKey::Id))),
            _ => assert_eq!(*result, Ok(()), "{index}"),
        }
    }
    let wallet = place.store.wallet(owner).await.unwrap();
    assert_eq!((wallet.available.get(), wallet.held.get(), wallet.entries), (4_020, 5_980, 599));
    assert_eq!(audit::check(owner, &place.store.book(owner).await.unwrap()), Vec::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_nodes_on_one_database_write_at_the_same_time_without_a_gap() {
    let place = place().await;
    let services = place.services();
    let owner = services.funded(1_000).await;
    let stores = [place.store.clone(), open(&place.database).await];
    // More is asked for than there is, through both doors at once.
    let tasks: Vec<_> = (0..300)
        .map(|turn| {
            let (store, transition) = (stores[turn % 2].clone(), services.withdrawal_intent(owner, 5));
            tokio::spawn(async move { store.apply(transition).await })
        })
        .collect();
    let mut accepted = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(()) => accepted += 1,
            Err(error) => assert_eq!(error, ApplyError::InsufficientFunds),
        }
    }
    assert_eq!(accepted, 200);
    for store in stores {
        let book = store.book(owner).await.unwrap();
        assert_eq!((book.wallet.available.get(), book.withdrawals.len()), (0, 200));
        assert_eq!(audit::check(owner, &book), Vec::new());
    }
}

/// Polls a future, has everybody else go on for so many turns, and drops it.
async fn abandon<T>(future: impl Future<Output = T>, turns: u32) {
    let others = async {
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        _ = future => {}
        () = others => {}
    }
}

#[tokio::test]
async fn callers_who_go_away_never_break_later_calls() {
    let place = place().await;
    let services = place.services();
    let owner = services.funded(10_000).await;
    // In line, on the way to the database, and there.
    for turns in (0..5).cycle().take(100) {
        abandon(place.store.apply(services.withdrawal_intent(owner, 1)), turns).await;
        abandon(place.store.book(owner), turns).await;
        abandon(place.store.wallet(owner), turns).await;
    }
    place.store.apply(services.withdrawal_intent(owner, 1)).await.unwrap();
    assert_eq!(audit::check(owner, &place.store.book(owner).await.unwrap()), Vec::new());
}

#[tokio::test]
async fn a_text_that_only_looks_like_a_pix_id_finds_no_receipt() {
    let place = place().await;
    let services = place.services();
    let owner = services.integrator().await;
    let charge = services.charge(owner, 500).await;
    let mut paid = payment(services.id(), 500, services.now());
    paid.key = ReceiptKey::Transaction(ProviderId::parse("abc").unwrap());
    place.store.apply(services.credit_intent(&charge, paid)).await.unwrap();
    assert_eq!(ChargeStore::find_by_pix_id(&*place.store, owner, "txn:abc").await, Ok(None));
    assert_eq!(ChargeStore::receipts(&*place.store, owner, charge.id).await.unwrap().len(), 1);
    assert_eq!(place.store.locate(Uuid::nil()).await, Ok(None));
    assert_eq!(ChargeStore::find_by_external_id(&*place.store, owner, &name("x")).await, Ok(None));
}

#[tokio::test]
async fn a_text_that_no_column_can_hold_finds_nothing() {
    let place = place().await;
    let owner = place.services().integrator().await;
    let nul = "E12345678\0";
    assert_eq!(ChargeStore::find_by_pix_id(&*place.store, owner, nul).await, Ok(None));
    assert_eq!(WithdrawalStore::find_by_pix_id(&*place.store, owner, nul).await, Ok(None));
    assert_eq!(RefundStore::find_by_pix_id(&*place.store, owner, nul).await, Ok(None));
    assert_eq!(ApiKeyStore::find(&*place.store, nul).await, Ok(None));
    assert_eq!(place.store.revoke(nul, Timestamp::from_micros(1)).await, Ok(false));
}

#[tokio::test]
async fn a_text_that_no_column_can_hold_is_refused_for_sure() {
    let place = place().await;
    let services = place.services();
    let owner = services.integrator().await;
    let mut charge = charge_in(&services, owner, ChargeState::Failed(failure()), false);
    charge.state = ChargeState::Failed(Failure { code: "a\0b".into(), message: "m".into() });
    let write = Transition::new(owner, services.now()).write(
        Guard::Absent,
        Record::Charge(Box::new(charge)),
        EventKind::ChargeCreating,
        None,
    );
    let answer = place.store.apply(write).await;
    assert!(matches!(answer, Err(ApplyError::Store(StoreError::Rejected(_)))), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fact_of_the_deployment_is_kept_until_another_takes_its_place() {
    let place = place().await;
    assert_eq!(place.store.fact("provider").await, Ok(None));
    for value in ["one", "other"] {
        place.store.keep_fact("provider", value.to_owned()).await.unwrap();
        assert_eq!(open(&place.database).await.fact("provider").await, Ok(Some(value.to_owned())));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_claim_at_once_never_claim_the_same_record() {
    let place = place().await;
    let services = place.services();
    let owner = services.funded(1_000).await;
    let mut made = BTreeSet::new();
    for _ in 0..200 {
        let transition = services.withdrawal_intent(owner, 1);
        made.insert(transition.withdrawal().unwrap().id.0);
        place.store.apply(transition).await.unwrap();
    }
    let late = Timestamp::from_micros(i64::MAX / 2);
    let lease = Duration::from_hours(1);
    let mut workers = Vec::new();
    for _ in 0..4 {
        let store = open(&place.database).await;
        workers.push(tokio::spawn(async move {
            let mut claimed = Vec::new();
            loop {
                let batch = FollowUpStore::claim(&*store, late, lease, 7).await.unwrap();
                if batch.is_empty() {
                    return claimed;
                }
                claimed.extend(batch);
            }
        }));
    }
    let mut claimed = Vec::new();
    for worker in workers {
        claimed.extend(worker.await.unwrap());
    }
    let resources: BTreeSet<_> = claimed.iter().map(|follow_up| follow_up.resource).collect();
    assert_eq!(resources.len(), claimed.len());
    assert!(claimed.iter().all(|follow_up| follow_up.attempts == 1));
    let ids: BTreeSet<_> = resources.iter().map(|resource| resource.id).collect();
    assert!(ids.is_superset(&made));
    assert_eq!(FollowUpStore::claim(&*place.store, late, lease, 100).await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_record_that_another_one_holds_is_passed_over_and_not_waited_for() {
    let place = place().await;
    let services = place.services();
    let owner = services.funded(1_000).await;
    let (held, free) = (services.withdrawal_intent(owner, 1), services.withdrawal_intent(owner, 1));
    let (held_id, free_id) = (held.withdrawal().unwrap().id.0, free.withdrawal().unwrap().id.0);
    place.store.apply(held).await.unwrap();
    place.store.apply(free).await.unwrap();

    let (client, connection) =
        tokio_postgres::connect(&server().url(&place.database), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let lock = format!("BEGIN; SELECT 1 FROM withdrawals WHERE id = '{held_id}' FOR UPDATE");
    client.batch_execute(&lock).await.unwrap();
    let late = Timestamp::from_micros(i64::MAX / 2);
    let claim = || FollowUpStore::claim(&*place.store, late, Duration::from_hours(1), 100);
    let ids = |claimed: Vec<pix_domain::follow_up::FollowUp>| -> BTreeSet<Uuid> {
        claimed.iter().map(|follow_up| follow_up.resource.id).collect()
    };
    let first = ids(claim().await.unwrap());
    assert!(first.contains(&free_id) && !first.contains(&held_id));
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(ids(claim().await.unwrap()), BTreeSet::from([held_id]));
}

/// Where programs before migration 13 keep when a charge is due.
#[tokio::test]
async fn a_charge_that_an_older_program_put_off_is_taken_put_off_and_paid() {
    let place = place().await;
    let services = place.services();
    let owner = services.integrator().await;
    let (paid, left) = (services.charge(owner, 10_000).await, services.charge(owner, 10_000).await);
    let moved = "UPDATE charges c SET follow_up_at = f.due_at, follow_up_attempts = f.attempts \
                 FROM charge_follow_ups f WHERE f.integrator_id = c.integrator_id AND f.id = c.id";
    place.sql(moved);
    place.sql("DELETE FROM charge_follow_ups");
    let (late, lease) = (Timestamp::from_micros(i64::MAX / 2), Duration::from_hours(1));
    assert_eq!(place.store.vitals(late).await.unwrap().follow_ups.count, 2);
    let claimed = FollowUpStore::claim(&*place.store, late, lease, 9).await.unwrap();
    assert_eq!(claimed.iter().map(|one| one.resource.id).collect::<Vec<_>>(), [paid.id.0, left.id.0]);
    assert!(claimed.iter().all(|one| one.attempts == 1));
    place.store.postpone(claimed[0], Some(late)).await.unwrap();
    place.store.postpone(claimed[1], None).await.unwrap();
    let again = FollowUpStore::claim(&*place.store, late, lease, 9).await.unwrap();
    assert_eq!(again.iter().map(|one| (one.resource.id, one.attempts)).collect::<Vec<_>>(), [(paid.id.0, 2)]);
    services.apply(services.credit_intent(&paid, services.payment(10_000))).await;
    assert_eq!(place.sql("SELECT count(follow_up_at) FROM charges"), "0");
    // What changes and goes on being due has it in the table of its own.
    place.sql("UPDATE charges SET follow_up_at = 1 WHERE state = 'pending'");
    services.apply(next(left.clone().cancel(services.now()))).await;
    assert_eq!(place.sql("SELECT count(follow_up_at) FROM charges"), "0");
    assert_eq!(place.sql("SELECT id FROM charge_follow_ups"), left.id.0.to_string());
}

/// An older program has changed a charge that a newer one has made: it is due in both places.
#[tokio::test]
async fn a_charge_that_is_due_in_both_places_is_done_with_in_both() {
    let place = place().await;
    let services = place.services();
    let owner = services.integrator().await;
    services.charge(owner, 10_000).await;
    place.sql("UPDATE charges SET follow_up_at = 1");
    let (late, lease) = (Timestamp::from_micros(i64::MAX / 2), Duration::from_hours(1));
    let claim = || FollowUpStore::claim(&*place.store, late, lease, 9);
    let claimed = claim().await.unwrap();
    assert_eq!(claimed.len(), 2);
    place.store.postpone(claimed[0], Some(late)).await.unwrap();
    let claimed = claim().await.unwrap();
    assert_eq!(claimed.iter().map(|one| one.attempts).collect::<Vec<_>>(), [2, 2]);
    for one in claimed {
        place.store.postpone(one, None).await.unwrap();
    }
    let due = "SELECT (SELECT count(follow_up_at) FROM charges) + (SELECT count(*) FROM charge_follow_ups)";
    assert_eq!(place.sql(due), "0");
}

/// Its payer would be named again by what comes late.
#[tokio::test]
async fn the_payer_of_a_charge_that_is_due_is_not_locked() {
    let place = place().await;
    let services = place.services();
    let owner = services.integrator().await;
    let charge = services.charge(owner, 10_000).await;
    let id = charge.id.0;
    services.apply(next(charge.cancel(services.now()))).await;
    assert_eq!(place.sql("SELECT id FROM charge_follow_ups"), id.to_string());
    let late = Timestamp::from_micros(i64::MAX / 2);
    let walk = Walk::of(owner, ResourceKind::Charge);
    let found = async || place.store.lockable(walk, late).await.unwrap().found.len();
    let lock = async || place.store.lock(owner, ResourceKind::Charge, vec![id], late).await.unwrap();
    assert_eq!((found().await, lock().await), (0, 0));
    place.sql("DELETE FROM charge_follow_ups");
    assert_eq!((found().await, lock().await), (1, 1));
}

/// A charge's new version stays on its page, and no index has a further entry: none has what a payment changes.
#[tokio::test]
async fn a_payment_writes_to_no_index_of_charges() {
    let place = place().await;
    let services = place.services();
    let owner = services.integrator().await;
    let mut together = Vec::new();
    for _ in 0..6 {
        let charge = services.charge(owner, 10_000).await;
        together.push(services.credit_intent(&charge, services.payment(10_000)));
    }
    assert_eq!(place.sql("SELECT count(*) FROM charge_follow_ups"), "6");
    let lone = together.pop().unwrap();
    services.apply(lone).await;
    assert_eq!(place.store.apply_all(together).await, vec![Ok(()); 5]);
    assert_eq!(place.sql("SELECT count(*) FROM charge_follow_ups"), "0");
    // Of a row's versions, no index points at one that is heap-only.
    place.sql("CREATE EXTENSION pageinspect");
    let heap_only = "SELECT count(*) FILTER (WHERE t_infomask2 & 32768 <> 0) \
                     FROM generate_series(0, pg_relation_size('charges') / 8192 - 1) page, \
                     heap_page_items(get_raw_page('charges', page::int)) WHERE t_data IS NOT NULL";
    assert_eq!(place.sql(heap_only), "6");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_book_is_one_moment_while_others_write() {
    let place = place().await;
    let services = place.services();
    let owner = services.funded(10_000).await;
    let writes: Vec<_> = (0..200)
        .map(|_| {
            let (store, transition) = (place.store.clone(), services.withdrawal_intent(owner, 1));
            tokio::spawn(async move { store.apply(transition).await })
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(audit::check(owner, &place.store.book(owner).await.unwrap()), Vec::new());
    }
    for write in writes {
        assert_eq!(write.await.unwrap(), Ok(()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn keys_and_fees_that_are_made_at_once_are_numbered_without_a_gap() {
    let place = place().await;
    let owner = place.services().integrator().await;
    let stores = [place.store.clone(), open(&place.database).await];
    let at = Timestamp::from_micros(1);
    let tasks: Vec<_> = (0..16)
        .map(|turn| {
            let store = stores[turn % 2].clone();
            let key = ApiKey::new(format!("key-{turn}"), owner, SecretHash("hash".into()), at);
            tokio::spawn(async move {
                ApiKeyStore::create(&*store, key).await.unwrap();
                store.set(owner, FeeSchedule::free(), at).await.unwrap()
            })
        })
        .collect();
    let mut versions = BTreeSet::new();
    for task in tasks {
        versions.insert(task.await.unwrap());
    }
    assert_eq!(versions, (1..=16).collect());
    assert_eq!(ApiKeyStore::list(&*place.store, owner).await.unwrap().len(), 16);
    assert_eq!(place.sql("SELECT min(number), max(number) FROM api_keys"), "1|16");
}

#[tokio::test]
async fn what_names_no_integrator_or_a_taken_id_is_rejected() {
    let place = place().await;
    let owner = place.services().integrator().await;
    let nobody = IntegratorId(Uuid::nil());
    let at = Timestamp::from_micros(1);
    let key = |owner| ApiKey::new("key", owner, SecretHash("hash".into()), at);
    let rejected = |why: &str| StoreError::Rejected(why.to_owned());
    let unknown = rejected("no such integrator");
    assert_eq!(ApiKeyStore::create(&*place.store, key(nobody)).await, Err(unknown.clone()));
    assert_eq!(place.store.set(nobody, FeeSchedule::free(), at).await, Err(unknown));
    assert_eq!(ApiKeyStore::create(&*place.store, key(owner)).await, Ok(()));
    let taken = rejected("the key's public id is taken");
    assert_eq!(ApiKeyStore::create(&*place.store, key(owner)).await, Err(taken));
    let again = IntegratorStore::find(&*place.store, owner).await.unwrap().unwrap();
    let taken = rejected("the integrator's id is taken");
    assert_eq!(IntegratorStore::create(&*place.store, again).await, Err(taken));
}

fn act(number: u64) -> LogEntry {
    let mut entry = LogEntry {
        number,
        at: Timestamp::from_micros(1),
        operator: Operator::parse("Ana Souza").unwrap(),
        action: Action::FeesSet,
        subject: "loja".into(),
        detail: "pão".into(),
        previous: LogHash::NONE,
        hash: LogHash::NONE,
    };
    entry.hash = entry.computed_hash();
    entry
}

#[tokio::test]
async fn the_schema_refuses_to_change_or_remove_an_act_of_the_journal() {
    let place = place().await;
    assert_eq!(place.store.append(act(1)).await, Ok(true));
    assert_eq!(place.store.append(act(1)).await, Ok(false));
    for sql in [
        "UPDATE audit_log SET detail = 'x'",
        "DELETE FROM audit_log WHERE number = 1",
        "DELETE FROM audit_log",
        "TRUNCATE audit_log",
        "INSERT INTO audit_log TABLE audit_log ON CONFLICT (number) DO UPDATE SET detail = 'x'",
    ] {
        let why = server().psql(&place.database, sql).unwrap_err().to_string();
        assert!(why.contains("the audit log is only ever added to"), "{sql}: {why}");
    }
    assert_eq!(place.store.append(act(2)).await, Ok(true));
    assert_eq!(AuditLogStore::list(&*place.store, 0, 10).await, Ok(vec![act(1), act(2)]));
}

#[tokio::test]
async fn the_schema_refuses_to_change_or_remove_a_seal() {
    let place = place().await;
    let services = place.services();
    services.funded(10).await;
    let sealer = Sealer::new(place.store.clone(), services.clock.clone());
    assert_eq!(sealer.turn(9).await.unwrap().seals, 1);
    let before = all_heads(&*place.store).await.unwrap();
    for sql in [
        "UPDATE seals SET sealed_at = 1",
        "DELETE FROM seals",
        "TRUNCATE seals",
        "INSERT INTO seals TABLE seals ON CONFLICT (integrator_id, number) DO UPDATE SET sealed_at = 1",
    ] {
        let why = server().psql(&place.database, sql).unwrap_err().to_string();
        assert!(why.contains("seals are only ever added to"), "{sql}: {why}");
    }
    assert_eq!(all_heads(&*place.store).await.unwrap(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn acts_that_are_written_at_once_under_one_number_are_one() {
    let place = place().await;
    let stores = [place.store.clone(), open(&place.database).await];
    let tasks: Vec<_> = (0..16)
        .map(|turn| {
            let store = stores[turn % 2].clone();
            let entry = LogEntry { detail: turn.to_string(), ..act(1) };
            tokio::spawn(async move { store.append(entry).await.unwrap() })
        })
        .collect();
    let mut kept = 0;
    for task in tasks {
        kept += usize::from(task.await.unwrap());
    }
    assert_eq!((kept, AuditLogStore::list(&*place.store, 0, 10).await.unwrap().len()), (1, 1));
}

#[tokio::test]
async fn the_schema_knows_that_no_wallet_has_money_beside_a_debt() {
    let place = place().await;
    place.services().funded(10).await;
    for sql in
        ["UPDATE wallets SET owed_cents = 1", "UPDATE wallets SET available_cents = 0, owed_cents = -1"]
    {
        let why = server().psql(&place.database, sql).unwrap_err().to_string();
        assert!(why.contains("wallets_owed_alone"), "{why}");
    }
}

#[tokio::test]
async fn what_comes_to_a_wallet_that_owes_is_not_spent_by_another_one_of_its_group() {
    let place = place().await;
    let services = place.services();
    let (owner, other) = (services.integrator().await, services.funded(1_000).await);
    let back = services.paid_charge(owner, 1_000).await;
    services.apply(services.withdrawal_intent(owner, 1_000)).await;
    let forced = next(back.take_back(cents(400), services.now()));
    assert_eq!(place.store.apply(forced.clone()).await, Err(ApplyError::InsufficientFunds));
    services.apply(forced.fitted_to(place.store.wallet(owner).await.unwrap()).unwrap()).await;

    let charge = services.charge(owner, 300).await;
    let bringing = services.credit_intent(&charge, services.payment(300));
    let spending = services.withdrawal_intent(owner, 300);
    // One group: without the rule the sum of both fits, and nothing would be left of the debt's money.
    let group = vec![bringing.clone(), spending.clone(), services.withdrawal_intent(other, 10)];
    let answers = place.store.apply_all(group).await;
    assert_eq!(answers, [Err(ApplyError::Owing), Err(ApplyError::InsufficientFunds), Ok(())]);

    let fitted = bringing.fitted_to(place.store.wallet(owner).await.unwrap()).unwrap();
    let late = services.withdrawal_intent(other, 10);
    let answers = place.store.apply_all(vec![fitted, spending, late]).await;
    assert_eq!(answers, [Ok(()), Err(ApplyError::InsufficientFunds), Ok(())]);
    let book = place.store.book(owner).await.unwrap();
    assert_eq!(
        (book.wallet.available.get(), book.wallet.held.get(), book.wallet.owed.get()),
        (0, 1_000, 100)
    );
    assert_eq!(audit::check(owner, &book), Vec::new());
}

fn callback(id: u128, body: &str) -> Callback {
    let received_at = Timestamp::from_micros(1);
    Callback { id: Uuid::from_u128(id), received_at, reference: Some(Uuid::from_u128(1)), body: body.into() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callbacks_that_come_at_once_are_kept_once_and_claimed_once() {
    let place = place().await;
    let stores = [place.store.clone(), open(&place.database).await];
    let now = Timestamp::from_micros(5);
    let tasks: Vec<_> = (0..40)
        .map(|turn| {
            let store = stores[turn % 2].clone();
            let callback = callback(100 + u128::try_from(turn).unwrap(), &(turn % 10).to_string());
            tokio::spawn(async move { store.keep(callback, CallbackState::Waiting(now)).await.unwrap() })
        })
        .collect();
    let mut kept = 0;
    for task in tasks {
        kept += usize::from(task.await.unwrap());
    }
    assert_eq!(kept, 10);
    // A statement with repetitions puts off the one that waits by a microsecond.
    assert_eq!(place.sql("SELECT bool_and(due_at BETWEEN 5 AND 8) FROM callbacks"), "t");
    let now = now.plus(Duration::from_micros(3));
    let workers: Vec<_> = (0..8)
        .map(|turn| {
            let store = stores[turn % 2].clone();
            tokio::spawn(async move {
                CallbackStore::claim(&*store, now, Duration::from_hours(1), 3).await.unwrap()
            })
        })
        .collect();
    let mut claimed = CallbackStore::claim(&*place.store, now, Duration::from_hours(1), 100).await.unwrap();
    for worker in workers {
        claimed.extend(worker.await.unwrap());
    }
    let ids: BTreeSet<_> = claimed.iter().map(|claimed| claimed.callback.id).collect();
    assert_eq!((claimed.len(), ids.len()), (ids.len(), 10));
    assert!(claimed.iter().all(|claimed| claimed.attempts == 2));
}

#[tokio::test]
async fn a_callback_with_a_text_that_no_column_can_hold_is_kept_all_the_same() {
    let place = place().await;
    let kept = place.store.keep(callback(7, "a\0b"), CallbackState::Waiting(Timestamp::from_micros(5))).await;
    assert_eq!(kept, Ok(true));
    assert_eq!(place.sql("SELECT body FROM callbacks"), "a\u{fffd}b");
}
