//! Every way in which the simulated provider spoils the answer to a payment: what the adapter takes for known, against
//! what the provider's log says.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

use std::time::Duration;

use pix_domain::ids::{IntegratorId, ResourceKind, ResourceRef};
use pix_domain::money::Amount;
use pix_domain::party::{PixKey, PixKeyType};
use pix_domain::provider::{
    Inquiry, OutgoingReport, Party, PaymentOrder, Progress, ProviderError, Reference, SettlementProvider,
};
use pix_settlement::{ClassicV2Config, ClassicV2Provider};
use pix_simulator::{
    Operation, Parameters, Part, SCENARIOS, Scenario, ScenarioRule, Simulator, SimulatorConfig,
};
use uuid::Uuid;

/// What an answer proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Done,
    Refused,
    NotSent,
    Unknown,
}

fn known(result: &Result<OutgoingReport, ProviderError>) -> Known {
    match result {
        Ok(_) => Known::Done,
        Err(ProviderError::Rejected { .. }) => Known::Refused,
        Err(ProviderError::Unavailable(_)) => Known::NotSent,
        Err(ProviderError::Indeterminate(_) | ProviderError::Mismatch(_)) => Known::Unknown,
    }
}

/// What is expected to be known. Whatever is not listed is unknown.
fn expected(scenario: Scenario) -> Known {
    match scenario {
        Scenario::Refused => Known::Refused,
        // The repetition with a new token is executed; the others are late, and nobody is in a hurry here.
        Scenario::Unauthorized
        | Scenario::AnswersLate
        | Scenario::DrippingAnswer
        | Scenario::ExecutesLate => Known::Done,
        _ => Known::Unknown,
    }
}

async fn provider(simulator: &Simulator) -> ClassicV2Provider {
    let mut config = ClassicV2Config::new(simulator.base_url(), "simulator", "simulator-secret".into());
    config.call_timeout = Duration::from_secs(2);
    let provider = ClassicV2Provider::new(config).unwrap();
    // It has a token from now on.
    assert_eq!(provider.consult_payment(inquiry()).await, Ok(None));
    provider
}

const REFERENCE: Reference = Reference(Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_00ff));

fn inquiry() -> Inquiry {
    Inquiry { reference: REFERENCE, provider_id: None, amount: Amount::from_cents(1_550).unwrap(), key: None }
}

fn payment() -> PaymentOrder {
    PaymentOrder {
        reference: REFERENCE,
        resource: ResourceRef {
            integrator_id: IntegratorId(Uuid::from_u128(1)),
            kind: ResourceKind::Withdrawal,
            id: REFERENCE.0,
        },
        amount: Amount::from_cents(1_550).unwrap(),
        key: PixKey::parse(PixKeyType::Email, "ana@example.com").unwrap(),
        payee: Party::default(),
        description: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_spoiled_answer_is_taken_for_a_no_and_the_provider_tells_the_truth_later() {
    for info in SCENARIOS.iter().filter(|info| info.part == Part::Answer) {
        let scenario = info.scenario;
        if !info.operations.contains(&Operation::Payment) {
            continue;
        }
        let simulator = Simulator::start(SimulatorConfig::default()).await.unwrap();
        let provider = provider(&simulator).await;
        let takes_seconds = info.parameters.iter().any(|parameter| parameter.name == "seconds");
        let short = !matches!(scenario, Scenario::NeverAnswers | Scenario::ExecutesThenNeverAnswers);
        let seconds = (takes_seconds && short).then_some(0.0);
        let rule = ScenarioRule::next(scenario, 1).of(Operation::Payment);
        simulator.attach(rule.with(Parameters { seconds, ..Parameters::default() })).unwrap();

        let result = provider.send_payment(payment()).await;
        assert_eq!(known(&result), expected(scenario), "{scenario:?}: {result:?}");
        let executed = simulator.log().await.unwrap().iter().any(|entry| entry.event.moves_money_out());
        assert!(known(&result) != Known::Done || executed, "{scenario:?}");
        assert!(known(&result) != Known::Refused || !executed, "{scenario:?}");
        assert_ne!(known(&result), Known::NotSent, "{scenario:?}");

        let told = provider.consult_payment(inquiry()).await.unwrap();
        let progress = told.map(|report| report.progress);
        assert_eq!(progress, executed.then_some(Progress::Completed), "{scenario:?}");
        assert_eq!(simulator.log().await.unwrap().len(), usize::from(executed), "{scenario:?}: sent once");
        simulator.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_balance_is_that_of_the_account_after_what_left_it() {
    let simulator = Simulator::start(SimulatorConfig::default()).await.unwrap();
    let provider = provider(&simulator).await;
    let before = provider.balance().await.unwrap().unwrap();
    assert!(before > 0, "{before}");
    provider.send_payment(payment()).await.unwrap();
    assert_eq!(provider.balance().await, Ok(Some(before - 1_550)));
    simulator.stop().await;
    assert!(matches!(provider.balance().await, Err(ProviderError::Unavailable(_))));
}
