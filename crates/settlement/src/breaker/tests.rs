//! A breaker over a provider that fails when told to, with a clock that stands still until it is moved.

use pix_conformance::clock::FixedClock;
use pix_domain::ids::{IntegratorId, ResourceKind, ResourceRef};
use pix_domain::money::Amount;
use pix_domain::party::{PixKey, PixKeyType};
use pix_domain::provider::{MockSettlementProvider, Party, ProviderBody, ProviderId, Reference};
use tokio::sync::Notify;
use uuid::Uuid;

use super::*;

const CONFIG: BreakerConfig = BreakerConfig {
    failures_to_open: 3,
    open_for: Duration::from_secs(10),
    half_open_probes: 2,
    charges_under_way: 4,
};

fn amount() -> Amount {
    Amount::from_cents(1_550).unwrap()
}

fn resource() -> ResourceRef {
    ResourceRef {
        integrator_id: IntegratorId(Uuid::from_u128(1)),
        kind: ResourceKind::Charge,
        id: Uuid::from_u128(2),
    }
}

fn order() -> ChargeOrder {
    ChargeOrder {
        reference: Reference(Uuid::from_u128(2)),
        resource: resource(),
        amount: amount(),
        payer: Party::default(),
        payer_email: None,
        payer_question: None,
        expires_in: Duration::from_mins(1),
    }
}

fn id() -> ProviderId {
    ProviderId::parse("t1").unwrap()
}

fn ticket() -> Ticket {
    Ticket { provider_id: id(), qrcode: "0002".into(), body: ProviderBody::default() }
}

fn lost() -> Result<Ticket, ProviderError> {
    Err(ProviderError::Indeterminate("lost".into()))
}

fn refused() -> Result<Ticket, ProviderError> {
    Err(ProviderError::Rejected { code: "no".into(), message: "no".into(), body: ProviderBody::default() })
}

/// A breaker, and what answers the charges that pass it. How many pass is the length of `answers`: one more fails the
/// test, and so does one less.
fn breaker(answers: Vec<Result<Ticket, ProviderError>>) -> (Breaker, Arc<FixedClock>) {
    let mut provider = MockSettlementProvider::new();
    let calls = answers.len();
    let answers = Mutex::new(answers.into_iter());
    let next = move |_| answers.lock().unwrap().next().unwrap();
    provider.expect_create_charge().times(calls).returning(next);
    let clock = Arc::new(FixedClock::default());
    let shared: Arc<dyn Clock> = Arc::<FixedClock>::clone(&clock);
    (Breaker::new(Arc::new(provider), shared, CONFIG).unwrap(), clock)
}

async fn is_turned_away(breaker: &Breaker) -> bool {
    match breaker.create_charge(order()).await {
        Err(ProviderError::Unavailable(why)) => why.starts_with("it failed too often"),
        _ => false,
    }
}

#[tokio::test]
async fn failures_in_a_row_open_it_and_an_answer_between_does_not() {
    let unavailable = || Err(ProviderError::Unavailable("away".into()));
    let (breaker, _clock) = breaker(vec![
        lost(),
        lost(),
        Ok(ticket()),
        lost(),
        unavailable(),
        refused(),
        lost(),
        lost(),
        unavailable(),
    ]);
    for _ in 0..9 {
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert!(!is_turned_away(&breaker).await);
    }
    assert_eq!(breaker.state(), BreakerState::Open { retry_after: CONFIG.open_for });
    let told = breaker.create_charge(order()).await.unwrap_err();
    let expected = "it failed too often; charges are tried again in 10 s";
    assert_eq!(told, ProviderError::Unavailable(expected.into()));
}

#[tokio::test]
async fn it_stays_open_for_its_time_and_closes_after_as_many_successes_as_it_says() {
    let (breaker, clock) =
        breaker(vec![lost(), lost(), lost(), Ok(ticket()), refused(), lost(), Ok(ticket())]);
    for _ in 0..3 {
        assert!(!is_turned_away(&breaker).await);
    }
    clock.advance(Duration::from_millis(9_500));
    assert!(is_turned_away(&breaker).await);
    assert_eq!(breaker.state(), BreakerState::Open { retry_after: Duration::from_millis(500) });
    clock.advance(Duration::from_millis(500));
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    assert!(!is_turned_away(&breaker).await);
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    assert!(!is_turned_away(&breaker).await);
    assert_eq!(breaker.state(), BreakerState::Closed);
    assert!(!is_turned_away(&breaker).await);
    assert!(!is_turned_away(&breaker).await);
}

#[tokio::test]
async fn a_failure_while_it_is_tried_opens_it_again() {
    let (breaker, clock) = breaker(vec![lost(), lost(), lost(), Ok(ticket()), lost()]);
    for _ in 0..3 {
        assert!(!is_turned_away(&breaker).await);
    }
    clock.advance(CONFIG.open_for);
    assert!(!is_turned_away(&breaker).await);
    assert!(!is_turned_away(&breaker).await);
    assert!(is_turned_away(&breaker).await);
    assert_eq!(breaker.state(), BreakerState::Open { retry_after: CONFIG.open_for });
}

#[tokio::test]
async fn a_clock_that_is_set_back_keeps_it_open_no_longer_than_it_says() {
    let (breaker, clock) = breaker(vec![lost(), lost(), lost(), Ok(ticket())]);
    for _ in 0..3 {
        assert!(!is_turned_away(&breaker).await);
    }
    clock.set(Timestamp::from_micros(0));
    assert!(is_turned_away(&breaker).await);
    clock.advance(CONFIG.open_for);
    assert!(!is_turned_away(&breaker).await);
}

/// A provider whose charges hang until they are let go.
struct Hanging {
    inner: MockSettlementProvider,
    asked: Semaphore,
    go: Notify,
}

#[async_trait]
impl SettlementProvider for Hanging {
    async fn create_charge(&self, _order: ChargeOrder) -> Result<Ticket, ProviderError> {
        self.asked.add_permits(1);
        self.go.notified().await;
        Ok(ticket())
    }

    async fn send_payment(&self, order: PaymentOrder) -> Result<OutgoingReport, ProviderError> {
        self.inner.send_payment(order).await
    }

    async fn refund(&self, order: RefundOrder) -> Result<OutgoingReport, ProviderError> {
        self.inner.refund(order).await
    }

    async fn consult_charge(&self, inquiry: Inquiry) -> Result<Option<ChargeReport>, ProviderError> {
        self.inner.consult_charge(inquiry).await
    }

    async fn consult_payment(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        self.inner.consult_payment(inquiry).await
    }

    async fn consult_refund(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        self.inner.consult_refund(inquiry).await
    }

    async fn remove_charge(&self, inquiry: Inquiry) -> Result<Removal, ProviderError> {
        self.inner.remove_charge(inquiry).await
    }

    async fn balance(&self) -> Result<Option<i64>, ProviderError> {
        self.inner.balance().await
    }

    fn not_found_is_proof_after(&self) -> Option<Duration> {
        self.inner.not_found_is_proof_after()
    }
}

fn hanging() -> (Arc<Hanging>, Arc<Breaker>, Arc<FixedClock>) {
    let mut inner = MockSettlementProvider::new();
    let gone = || Err(ProviderError::Unavailable("inner".into()));
    inner.expect_send_payment().returning(move |_| gone());
    inner.expect_refund().returning(move |_| gone());
    inner.expect_consult_charge().returning(|_| Ok(None));
    inner.expect_consult_payment().returning(|_| Ok(None));
    inner.expect_consult_refund().returning(|_| Ok(None));
    inner.expect_not_found_is_proof_after().return_const(Some(Duration::from_mins(5)));
    let provider = Arc::new(Hanging { inner, asked: Semaphore::new(0), go: Notify::new() });
    let clock = Arc::new(FixedClock::default());
    let inner: Arc<dyn SettlementProvider> = Arc::<Hanging>::clone(&provider);
    let shared: Arc<dyn Clock> = Arc::<FixedClock>::clone(&clock);
    (provider, Arc::new(Breaker::new(inner, shared, CONFIG).unwrap()), clock)
}

/// What is not a charge passes, whatever the state.
async fn assert_others_pass(breaker: &Breaker) {
    let inquiry = Inquiry { reference: order().reference, provider_id: None, amount: amount(), key: None };
    assert_eq!(breaker.consult_charge(inquiry.clone()).await, Ok(None));
    assert_eq!(breaker.consult_payment(inquiry.clone()).await, Ok(None));
    assert_eq!(breaker.consult_refund(inquiry).await, Ok(None));
    let payment = PaymentOrder {
        reference: order().reference,
        resource: resource(),
        amount: amount(),
        key: PixKey::parse(PixKeyType::Email, "ana@example.com").unwrap(),
        payee: Party::default(),
        description: None,
    };
    let refund = RefundOrder {
        reference: order().reference,
        resource: resource(),
        charge_provider_id: id(),
        amount: amount(),
        description: None,
    };
    let inner = Err(ProviderError::Unavailable("inner".into()));
    assert_eq!(breaker.send_payment(payment).await, inner);
    assert_eq!(breaker.refund(refund).await, inner);
    assert_eq!(breaker.not_found_is_proof_after(), Some(Duration::from_mins(5)));
}

#[tokio::test]
async fn charges_that_hang_are_bounded_and_hinder_nothing_else() {
    let (provider, breaker, _clock) = hanging();
    let charges: Vec<_> = (0..CONFIG.charges_under_way)
        .map(|_| {
            let breaker = Arc::clone(&breaker);
            tokio::spawn(async move { breaker.create_charge(order()).await })
        })
        .collect();
    drop(provider.asked.acquire_many(4).await.unwrap());
    let told = breaker.create_charge(order()).await.unwrap_err();
    assert_eq!(told, ProviderError::Unavailable("too many charges are under way".into()));
    assert_eq!(breaker.state(), BreakerState::Closed, "a full house is no failure of the provider");
    assert_others_pass(&breaker).await;
    provider.go.notify_waiters();
    for charge in charges {
        charge.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn an_open_breaker_stops_charges_only_and_one_given_up_leaves_its_place_to_another() {
    let (provider, breaker, clock) = hanging();
    breaker.circuit().turn(Position::Open { since: clock.now() });
    assert!(is_turned_away(&breaker).await);
    assert_others_pass(&breaker).await;

    clock.advance(CONFIG.open_for);
    let spawn = || {
        let breaker = Arc::clone(&breaker);
        tokio::spawn(async move { breaker.create_charge(order()).await })
    };
    let (first, second) = (spawn(), spawn());
    provider.asked.acquire_many(2).await.unwrap().forget();
    assert!(is_turned_away(&breaker).await, "as many try it as may");
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    let third = spawn();
    provider.asked.acquire().await.unwrap().forget();
    provider.go.notify_waiters();
    for charge in [second, third] {
        charge.await.unwrap().unwrap();
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[tokio::test]
async fn what_an_earlier_charge_finds_out_does_not_count() {
    let (breaker, clock) = breaker(vec![lost(), lost(), lost()]);
    let old = breaker.pass().unwrap();
    for _ in 0..3 {
        assert!(!is_turned_away(&breaker).await);
    }
    clock.advance(CONFIG.open_for);
    let probe = breaker.pass().unwrap();
    old.tell(false);
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    probe.tell(true);
    breaker.pass().unwrap().tell(true);
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[test]
fn unusable_settings_are_named_and_the_defaults_are_not() {
    BreakerConfig::default().validate().unwrap();
    let refused = |config: BreakerConfig| config.validate().unwrap_err().to_string();
    assert_eq!(
        refused(BreakerConfig { failures_to_open: 0, ..CONFIG }),
        "failures_to_open of the settlement provider must be from 1 to 1000"
    );
    assert_eq!(
        refused(BreakerConfig { open_for: Duration::ZERO, ..CONFIG }),
        "open_for of the settlement provider must be from 1s to 600s"
    );
    assert!(refused(BreakerConfig { half_open_probes: 0, ..CONFIG }).starts_with("half_open_probes"));
    assert!(refused(BreakerConfig { charges_under_way: 0, ..CONFIG }).starts_with("charges_under_way"));
}

#[test]
fn a_wait_is_told_in_whole_seconds_that_suffice() {
    assert_eq!([0, 1, 1_000, 1_001].map(Duration::from_millis).map(seconds), [0, 1, 1, 2]);
}
