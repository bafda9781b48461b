//! What is the SQLite store's own: exact rows, damaged ones, several stores on one file, callers who go away.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use diesel::connection::{Connection, SimpleConnection};
use diesel::sqlite::SqliteConnection;
use pix_conformance::builders::{cents, name, payment, ticket};
use pix_conformance::{Services, StoreSet};
use pix_domain::audit::{self, BookStore};
use pix_domain::audit_log::{Action, AuditLogStore, LogEntry, LogHash, Operator};
use pix_domain::charges::store::ChargeStore;
use pix_domain::charges::{Charge, ChargeState, Credited, Failure};
use pix_domain::error::{ApplyError, StoreError, UniqueKey};
use pix_domain::follow_up::LookupStore;
use pix_domain::ids::{IntegratorId, ResourceKind};
use pix_domain::list::ListQuery;
use pix_domain::money::MAX_AMOUNT_CENTS;
use pix_domain::party::{Document, PixKey, PixKeyType};
use pix_domain::people::{ERASABLE_AFTER, People, Walk};
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
use pix_persistence::sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;
use uuid::Uuid;

struct Place {
    store: Arc<SqliteStore>,
    path: PathBuf,
    _folder: TempDir,
}

fn open(path: &Path) -> Arc<SqliteStore> {
    let options = SqliteOptions { migrate: true, ..SqliteOptions::default() };
    Arc::new(SqliteStore::open(path, options).unwrap())
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pix-gateway.db");
    Place { store: open(&path), path, _folder: folder }
}

impl Place {
    fn services(&self) -> Services {
        Services::over(StoreSet::of(self.store.clone()), 0)
    }

    /// Changes the file behind the store's back; CHECKs and foreign keys off, as a broken disk would.
    fn damage(&self, sql: &str) {
        let mut conn = SqliteConnection::establish(self.path.to_str().unwrap()).unwrap();
        conn.batch_execute("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF;").unwrap();
        conn.batch_execute(sql).unwrap();
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

async fn keep(store: &SqliteStore, integrator_id: IntegratorId, record: Record) {
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
    let place = place();
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
    let place = place();
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
            withdrawal.provider_body = Some(ProviderBody("{\"a\":\"\u{0}é\"}".into()));
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
    let place = place();
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
    let place = place();
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
    let place = place();
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
    let place = place();
    let services = place.services();
    let owner = services.funded(10_000).await;
    let charge = services.charge(owner, 500).await;
    for (sql, column) in [
        ("UPDATE charges SET payer_document = 'SECRET'", "charges.payer_*"),
        ("UPDATE charges SET payer_document = NULL, state = 'SECRET'", "charges.state"),
        ("UPDATE charges SET state = 'failed'", "charges.failure_code"),
        ("UPDATE charges SET state = 'pending', amount_cents = -777", "charges.amount_cents"),
        ("UPDATE charges SET amount_cents = 1, version = -777", "charges.version"),
        ("UPDATE charges SET version = 1, qrcode = NULL", "charges.provider_id"),
    ] {
        place.damage(sql);
        let Err(StoreError::Damaged(text)) = ChargeStore::find(&*place.store, owner, charge.id).await else {
            panic!("{sql}")
        };
        assert!(text.starts_with(column) && !text.contains("SECRET") && !text.contains("777"), "{text}");
    }
    place.damage("UPDATE postings SET resource_id = 'SECRET-89012345678901234567890123456'");
    let Err(StoreError::Damaged(text)) = place.store.entries(owner, &EntryQuery::after(0, 10)).await else {
        panic!()
    };
    assert_eq!(text, "postings.resource_id is not a value of its type");
    let newest = "(SELECT max(id) FROM charges)";
    place.damage(&format!(
        "UPDATE charges SET id = 'SECRET-89012345678901234567890123456' WHERE id = {newest}"
    ));
    let Err(StoreError::Damaged(text)) = ChargeStore::list(&*place.store, owner, &ListQuery::default()).await
    else {
        panic!()
    };
    assert_eq!(text, "charges.id is not a value of its type");

    place.damage("UPDATE wallets SET available_cents = -777");
    let Err(StoreError::Damaged(text)) = place.store.wallet(owner).await else { panic!() };
    assert_eq!(text, "wallets.available_cents is not a quantity of centavos");
    // A write on a damaged wallet is refused by itself and hurts nobody else.
    let answer = place.store.apply(services.withdrawal_intent(owner, 1)).await;
    assert!(matches!(answer, Err(ApplyError::Store(StoreError::Damaged(_)))), "{answer:?}");
    services.funded(10_000).await;
}

#[tokio::test]
async fn a_refused_transition_among_many_touches_none_of_them() {
    let place = place();
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
async fn two_stores_on_one_file_write_at_the_same_time_without_a_gap() {
    let place = place();
    let services = place.services();
    let owner = services.funded(1_000).await;
    let stores = [place.store.clone(), open(&place.path)];
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

/// Polls a future once and drops it.
async fn abandon<T>(future: impl Future<Output = T>) {
    tokio::select! {
        biased;
        _ = future => {}
        () = std::future::ready(()) => {}
    }
}

#[tokio::test]
async fn callers_who_go_away_never_break_later_calls() {
    let place = place();
    let services = place.services();
    let owner = services.funded(10_000).await;
    let mut ids = Vec::new();
    for _ in 0..100 {
        let transition = services.withdrawal_intent(owner, 1);
        ids.push(transition.withdrawal().unwrap().id);
        abandon(place.store.apply(transition)).await;
        abandon(place.store.book(owner)).await;
        abandon(place.store.wallet(owner)).await;
    }
    // What was handed over was done, whoever waited; this write comes after all of it.
    place.store.apply(services.withdrawal_intent(owner, 1)).await.unwrap();
    for id in ids {
        assert!(WithdrawalStore::find(&*place.store, owner, id).await.unwrap().is_some());
    }
    assert_eq!(audit::check(owner, &place.store.book(owner).await.unwrap()), Vec::new());
}

#[tokio::test]
async fn what_was_answered_is_there_after_the_store_is_dropped_at_once() {
    let Place { store, path, _folder } = place();
    let services = Services::over(StoreSet::of(store.clone()), 0);
    let owner = services.funded(10_000).await;
    let transition = services.withdrawal_intent(owner, 1);
    let id = transition.withdrawal().unwrap().id;
    store.apply(transition).await.unwrap();
    drop((services, store));
    assert!(WithdrawalStore::find(&*open(&path), owner, id).await.unwrap().is_some());
}

#[tokio::test]
async fn a_text_that_only_looks_like_a_pix_id_finds_no_receipt() {
    let place = place();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fact_of_the_deployment_is_kept_until_another_takes_its_place() {
    let place = place();
    assert_eq!(place.store.fact("provider").await, Ok(None));
    for value in ["one", "other"] {
        place.store.keep_fact("provider", value.to_owned()).await.unwrap();
        assert_eq!(open(&place.path).fact("provider").await, Ok(Some(value.to_owned())));
    }
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
    let place = place();
    assert_eq!(place.store.append(act(1)).await, Ok(true));
    assert_eq!(place.store.append(act(1)).await, Ok(false));
    let mut conn = SqliteConnection::establish(place.path.to_str().unwrap()).unwrap();
    for sql in [
        "UPDATE audit_log SET detail = 'x'",
        "DELETE FROM audit_log WHERE number = 1",
        "DELETE FROM audit_log",
        "INSERT OR REPLACE INTO audit_log SELECT number, created_at, operator, action, subject, 'x', previous, hash FROM audit_log",
        "INSERT INTO audit_log SELECT * FROM audit_log WHERE true ON CONFLICT (number) DO UPDATE SET detail = 'x'",
    ] {
        let why = conn.batch_execute(sql).unwrap_err().to_string();
        assert!(why.contains("the audit log is only ever added to"), "{sql}: {why}");
    }
    assert_eq!(place.store.append(act(2)).await, Ok(true));
    assert_eq!(AuditLogStore::list(&*place.store, 0, 10).await, Ok(vec![act(1), act(2)]));
}

#[tokio::test]
async fn the_schema_refuses_to_change_or_remove_a_seal() {
    let place = place();
    let services = place.services();
    services.funded(10).await;
    let sealer = Sealer::new(place.store.clone(), services.clock.clone());
    assert_eq!(sealer.turn(9).await.unwrap().seals, 1);
    let before = all_heads(&*place.store).await.unwrap();
    let mut conn = SqliteConnection::establish(place.path.to_str().unwrap()).unwrap();
    for sql in [
        "UPDATE seals SET sealed_at = 1",
        "DELETE FROM seals",
        "INSERT OR REPLACE INTO seals SELECT * FROM seals",
        "INSERT INTO seals SELECT * FROM seals WHERE true ON CONFLICT DO UPDATE SET sealed_at = 1",
    ] {
        let why = conn.batch_execute(sql).unwrap_err().to_string();
        assert!(why.contains("seals are only ever added to"), "{sql}: {why}");
    }
    assert_eq!(all_heads(&*place.store).await.unwrap(), before);
}

#[tokio::test]
async fn the_schema_knows_that_no_wallet_has_money_beside_a_debt() {
    let place = place();
    place.services().funded(10).await;
    let mut conn = SqliteConnection::establish(place.path.to_str().unwrap()).unwrap();
    for sql in
        ["UPDATE wallets SET owed_cents = 1", "UPDATE wallets SET available_cents = 0, owed_cents = -1"]
    {
        let why = conn.batch_execute(sql).unwrap_err().to_string();
        assert!(why.contains("wallets_owed_alone"), "{why}");
    }
}

/// A damaged record keeps nobody else's from being locked; and what was moved from one record to another opens nowhere.
#[tokio::test]
async fn a_damaged_record_is_passed_over_and_a_locked_part_is_of_its_record() {
    let place = place();
    let services = place.services();
    let owner = services.integrator().await;
    let mut charges = Vec::new();
    for _ in 0..3 {
        charges.push(services.paid_charge(owner, 100).await);
    }
    let id = |number: usize| charges.get(number).unwrap().id;
    place.damage(&format!("UPDATE charges SET payer_document = '?' WHERE id = '{}'", id(1).0));
    let people = People::new(place.store.clone(), &services.stores.domain, services.clock.clone());
    services.wait(ERASABLE_AFTER);
    let walk = Walk::of(owner, ResourceKind::Charge);
    let (locked, looked_at, _) = people.lock_next(walk, services.now(), u64::MAX).await.unwrap();
    assert_eq!((locked, looked_at), (2, 3));
    assert!(matches!(ChargeStore::find(&*place.store, owner, id(1)).await, Err(StoreError::Damaged(_))));
    for number in [0, 2] {
        let found = ChargeStore::find(&*place.store, owner, id(number)).await.unwrap();
        assert_eq!(found.as_ref(), charges.get(number));
    }
    place.damage(&format!(
        "UPDATE locked_parts SET sealed = (SELECT sealed FROM locked_parts WHERE resource_id = '{}' AND part = 'payer') \
         WHERE resource_id = '{}' AND part = 'payer'",
        id(2).0,
        id(0).0
    ));
    assert!(matches!(ChargeStore::find(&*place.store, owner, id(0)).await, Err(StoreError::Damaged(_))));
}

/// A copy has its name only when it is whole and says that it is a copy: until then nobody can serve it by mistake.
#[tokio::test]
async fn a_copy_has_its_name_only_when_it_says_that_it_is_one() {
    let place = place();
    let to = place.path.with_extension("copy");
    let partial = || {
        let all = std::fs::read_dir(place.path.parent().unwrap()).unwrap();
        all.filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().ends_with(".partial"))
            .count()
    };
    SqliteStore::back_up(&place.path, &to, "copy", "1").unwrap();
    assert!(to.exists() && partial() == 0);
    assert_eq!(open(&to).fact("copy").await.unwrap().as_deref(), Some("1"));
    // What is there is not written over.
    let before = std::fs::read(&to).unwrap();
    assert!(SqliteStore::back_up(&place.path, &to, "copy", "2").is_err());
    assert!(std::fs::read(&to).unwrap() == before && partial() == 0);
    // And what can't say that it is a copy gets no name.
    std::fs::remove_file(&to).unwrap();
    place.damage("DROP TABLE facts");
    assert!(SqliteStore::back_up(&place.path, &to, "copy", "1").is_err());
    assert!(!to.exists() && partial() == 0);
}
