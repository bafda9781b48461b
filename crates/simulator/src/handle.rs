//! The control API for the same process: what `/sim` does over HTTP, as methods of [`Simulator`]. It must never know
//! how an effect is decided or stored.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::value::{RawValue, to_raw_value};

use crate::{
    Simulator, control,
    log::LogEntry,
    money::Amount,
    rules::{Attached, ScenarioRule},
    wire::{PayRequest, Refusal, RejectRequest, Settings, SettingsChange},
};

/// Why the simulator does not do what it is told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ControlError {
    /// Why, for programs, such as `invalid_state` or `not_found`.
    pub code: &'static str,
    /// Why, for people.
    pub message: String,
}

impl From<Refusal> for ControlError {
    fn from(refusal: Refusal) -> Self {
        Self { code: refusal.code, message: refusal.message }
    }
}

/// An id below is the provider's or the client's.
impl Simulator {
    /// Attaches a scenario. An error says what would be taken.
    pub fn attach(&self, rule: ScenarioRule) -> Result<Attached, ControlError> {
        Ok(self.shared.rules().attach(rule)?)
    }

    /// What is attached, and how many calls each has met.
    pub fn attached(&self) -> Vec<Attached> {
        self.shared.rules().list()
    }

    /// Takes one off again.
    pub fn detach(&self, id: u64) -> Result<(), ControlError> {
        Ok(self.shared.rules().detach(id)?)
    }

    /// Takes all off, revives a provider that died, and sends callbacks that were held back for another. What a
    /// scenario has begun (a hold, a delay) goes on.
    pub async fn clear_scenarios(&self) -> Result<(), ControlError> {
        Ok(self.shared.clear_scenarios().await?)
    }

    /// The simulator's time.
    pub fn now(&self) -> DateTime<Utc> {
        self.shared.timeline.now()
    }

    /// Moves the simulator's time on: delays, holds and charges end.
    pub fn advance(&self, span: Duration) {
        self.shared.timeline.advance(span);
    }

    /// The switches.
    pub fn settings(&self) -> Settings {
        self.shared.settings()
    }

    /// Turns switches; what is `None` stays.
    pub fn change_settings(&self, change: SettingsChange) -> Settings {
        self.shared.change_settings(change)
    }

    /// Makes every token invalid, as a restart does.
    pub fn revoke_tokens(&self) {
        self.shared.tokens.revoke_all();
    }

    /// Everything it did, in order.
    pub async fn log(&self) -> Result<Vec<LogEntry>, ControlError> {
        Ok(self.shared.log().await?)
    }

    /// A PIX arrives on a charge: this many centavos, else the charge's amount. Returns its end-to-end id.
    pub async fn pay_charge(&self, id: &str, cents: Option<i64>) -> Result<String, ControlError> {
        let request = PayRequest { amount: raw(cents)?, ..PayRequest::default() };
        let (id, callback) = (id.to_owned(), self.shared.settings().callbacks);
        let paid = self.shared.desk.run(move |desk| control::receive(desk, &id, request, callback)).await?;
        Ok(paid.pix.end_to_end_id)
    }

    /// Withdraws a charge.
    pub async fn cancel_charge(&self, id: &str) -> Result<(), ControlError> {
        let id = id.to_owned();
        let canceled = self.shared.desk.run(move |desk| {
            let decision = desk.bank.cancel_charge(&id, desk.now())?;
            desk.carry_out(decision)
        });
        canceled.await?;
        Ok(())
    }

    /// Makes a payment that waits.
    pub async fn settle_payment(&self, id: &str) -> Result<(), ControlError> {
        let id = id.to_owned();
        control::carry_out(&self.shared, move |desk| desk.bank.settle_payment(&id)).await?;
        Ok(())
    }

    /// Refuses a payment that waits for good, with a code.
    pub async fn reject_payment(&self, id: &str, code: &str) -> Result<(), ControlError> {
        let (id, request) = (id.to_owned(), rejection(code));
        control::carry_out(&self.shared, move |desk| desk.bank.reject_payment(&id, request)).await?;
        Ok(())
    }

    /// Sends money of a payment that was made back: this many centavos, else all that is left.
    pub async fn return_payment(&self, id: &str, cents: Option<i64>) -> Result<(), ControlError> {
        let (id, amount) = (id.to_owned(), raw(cents)?);
        control::carry_out(&self.shared, move |desk| desk.bank.return_payment(&id, amount.as_deref()))
            .await?;
        Ok(())
    }

    /// Money of a paid charge is sent back by force, as by MED (BCB): `cents`, else all that is left.
    pub async fn take_back_charge(&self, id: &str, cents: Option<i64>) -> Result<(), ControlError> {
        let (id, amount) = (id.to_owned(), raw(cents)?);
        control::carry_out(&self.shared, move |desk| desk.bank.take_back_charge(&id, amount.as_deref()))
            .await?;
        Ok(())
    }

    /// Makes a refund that waits.
    pub async fn settle_refund(&self, id: &str) -> Result<(), ControlError> {
        let id = id.to_owned();
        control::carry_out(&self.shared, move |desk| desk.bank.settle_refund(&id)).await?;
        Ok(())
    }

    /// Refuses a refund that waits for good, with a code.
    pub async fn reject_refund(&self, id: &str, code: &str) -> Result<(), ControlError> {
        let (id, request) = (id.to_owned(), rejection(code));
        control::carry_out(&self.shared, move |desk| desk.bank.reject_refund(&id, request)).await?;
        Ok(())
    }
}

fn rejection(code: &str) -> RejectRequest {
    RejectRequest { code: Some(code.to_owned()), message: None }
}

fn raw(cents: Option<i64>) -> Result<Option<Box<RawValue>>, Refusal> {
    let amount = cents.map(|cents| to_raw_value(&Amount(cents))).transpose();
    amount.map_err(|error| Refusal::internal(&error.to_string()))
}
