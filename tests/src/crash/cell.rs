//! How a cell is run: the operation, the kill, the start after it, the healing, and the five minutes. It owns the order
//! of these and what the client does; what is right afterwards is in `check`.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::check::{self, Problem};
use super::plan::{Cell, Operation};
use super::world::{Beginning, Life, World, cents};
use crate::text;

/// The client's name for what it asks for.
pub(super) const HANDLE: &str = "matrix-1";
/// The amounts: of what goes out, of what comes in, and of a second PIX, in centavos and as text.
pub(super) const OUT: (i64, &str) = (725, "7.25");
const IN: &str = "12.34";
const AGAIN: &str = "5.67";
/// What both of these are together, in centavos.
const BOTH_IN: i64 = 1801;

/// How time passes while the provider still misbehaves, in seconds; enough for each of the first questions.
const BEFORE_HEALING: &[u32] = &[6, 16, 61];
/// How time passes until a record is in need of review.
const UNTIL_REVIEW: &[u32] = &[6, 16, 61, 301, 901, 901, 901, 901, 301];
/// The five minutes after healing.
const AFTER_HEALING: &[u32] = &[6, 15, 30, 60, 60, 60, 69];
/// After a review, with the five minutes: twice the longest wait between two questions, 15 minutes.
const AFTER_REVIEW: &[u32] = &[601, 901];
/// Longer than the longest precautionary hold.
const PAST_HOLDS: u32 = 7300;
/// Longer than a worker's lease.
const AFTER_LEASE: u32 = 61;
/// How often the client asks before it gives up.
const MAX_ASKED: usize = 20;

/// What the client was told of its request or its record.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub status: u16,
    pub body: Value,
}

/// How a cell ended.
#[derive(Debug)]
pub struct Outcome {
    /// Whether the gateway was killed at the step.
    pub killed: bool,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// A cell that runs.
pub(super) struct Run<'a> {
    pub world: &'a mut World,
    pub beginning: &'a Beginning,
    pub cell: &'a Cell,
    pub told: Vec<Told>,
    killed: bool,
    /// The provider's name for the charge.
    pix_id: Option<String>,
    paid: bool,
    /// Since when, in seconds, nothing is attached and nothing was killed.
    well_for: Option<u32>,
}

/// Runs one cell from the beginning.
pub async fn run(world: &mut World, beginning: &Beginning, cell: &Cell) -> anyhow::Result<Outcome> {
    let life = world.begin(&cell.step)?;
    ensure!(life == Life::Alive, "{} was reached before anything was asked", cell.step);
    let (told, well_for) = (Vec::new(), None);
    let mut run = Run { world, beginning, cell, told, killed: false, pix_id: None, paid: false, well_for };
    let problems = run.all().await;
    run.world.end();
    let problems = problems.with_context(|| format!("told {:?}", run.told))?;
    Ok(Outcome { killed: run.killed, problems })
}

impl Run<'_> {
    async fn all(&mut self) -> anyhow::Result<Vec<Problem>> {
        if self.cell.operation == Operation::Payment {
            while self.pix_id.is_none() && self.told.len() < MAX_ASKED {
                self.ask().await?;
            }
            self.told.clear();
        }
        for rule in &self.cell.rules {
            self.world.control("/sim/scenarios", rule).await?;
        }
        self.act().await?;
        let review = self.is_for_review();
        for span in if review { UNTIL_REVIEW } else { BEFORE_HEALING } {
            if self.is_settled().await? && !self.waits_for_expiry() {
                break;
            }
            self.pass(*span).await?;
        }
        self.world.heal().await?;
        self.well_for = Some(0);
        self.act().await?;
        self.get_well(review).await?;
        if self.cell.operation == Operation::Charge {
            self.pay_at_last().await?;
        }
        let mut problems = check::check(self).await?;
        if self.is_held_on_purpose() && problems.is_empty() {
            if self.pass(PAST_HOLDS).await? == Life::Killed {
                // What the dead one had claimed is free again when its lease ends.
                self.pass(AFTER_LEASE).await?;
            }
            self.look().await?;
            problems = check::check(self).await?;
            problems.extend(check::still_open(self).await?);
        }
        Ok(problems)
    }

    /// What is asked for is asked for again until it is answered; then five minutes pass, in steps while it is open.
    async fn get_well(&mut self, review: bool) -> anyhow::Result<()> {
        let mut spans = AFTER_HEALING.iter();
        while !self.is_settled().await? {
            let Some(span) = spans.next() else { break };
            if self.pass(*span).await? == Life::Killed {
                spans = AFTER_HEALING.iter();
            }
            self.act().await?;
        }
        for span in AFTER_REVIEW.iter().filter(|_| review) {
            self.pass(*span).await?;
        }
        // Nothing more may happen, but what the provider does late.
        let rest = AFTER_HEALING.iter().sum::<u32>().saturating_sub(self.well_for.unwrap_or_default());
        if rest > 0 && self.pass(rest).await? == Life::Killed {
            self.pass(rest).await?;
        }
        self.look().await
    }

    /// Whether the provider holds it for longer than the cell lasts, so that it is open rightly.
    pub(super) fn is_held_on_purpose(&self) -> bool {
        self.cell.behaviour == "precautionary_hold"
    }

    /// Whether it is left alone until somebody is to look at it.
    pub(super) fn is_for_review(&self) -> bool {
        self.cell.base().ends_with(".needs_review")
    }

    fn waits_for_expiry(&self) -> bool {
        self.cell.base() == "charge.expired"
    }

    /// Passes time; a gateway that is killed meanwhile is started again, and the client asks again.
    async fn pass(&mut self, seconds: u32) -> anyhow::Result<Life> {
        let life = self.world.pass(seconds).await?;
        self.well_for = self.well_for.map(|well| well + seconds);
        if life == Life::Killed {
            self.start_again()?;
            self.act().await?;
        }
        Ok(life)
    }

    fn start_again(&mut self) -> anyhow::Result<()> {
        ensure!(!self.killed, "the gateway was killed twice");
        self.killed = true;
        self.well_for = self.well_for.map(|_| 0);
        self.world.start_again()
    }

    /// The client asks, unless it knows enough; or somebody pays.
    async fn act(&mut self) -> anyhow::Result<()> {
        match self.cell.operation {
            Operation::Payment => self.pay().await,
            _ => self.ask().await,
        }
    }

    /// Asks once, and again when the gateway was killed meanwhile.
    async fn ask(&mut self) -> anyhow::Result<()> {
        let known = self.told.iter().any(|told| matches!(told.status, 200 | 201 | 400..=407 | 410..=428));
        if known || self.told.len() >= MAX_ASKED {
            return Ok(());
        }
        let (path, body) = self.request();
        for _ in 0..2 {
            let Ok((status, body)) = self.world.post(&path, &body).await else {
                self.world.killed()?;
                self.start_again()?;
                continue;
            };
            if self.cell.operation == Operation::Charge || self.cell.operation == Operation::Payment {
                self.pix_id = text(&body, "/pix_id").ok().or(self.pix_id.take());
            }
            self.told.push(Told { status, body });
            break;
        }
        let canceled = self.cell.base() == "charge.canceled";
        if let Some(pix_id) = self.pix_id.as_ref().filter(|_| canceled) {
            self.world.control(&format!("/sim/charges/{pix_id}/cancel"), &json!({})).await?;
        }
        Ok(())
    }

    fn request(&self) -> (String, Value) {
        let body = json!({"external_id": HANDLE, "amount": OUT.1});
        let with = |mut body: Value, name: &str, value: Value| {
            if let Some(fields) = body.as_object_mut() {
                fields.insert(name.to_owned(), value);
            }
            body
        };
        match self.cell.operation {
            Operation::Withdrawal => {
                let party = json!({"name": "Ana Lima", "keyType": "EMAIL", "key": "ana@example.com", "taxId": "52998224725"});
                ("/api/v1/withdrawals".to_owned(), with(body, "creditParty", party))
            }
            Operation::Refund => (format!("/api/v1/charges/{}/refunds", self.beginning.paid_charge), body),
            Operation::Charge | Operation::Payment => {
                let payer = json!({"name": "Ana Lima", "document": "52998224725"});
                let body = with(with(body, "payer", payer), "amount", Value::from(IN));
                let seconds = if self.waits_for_expiry() { 60 } else { 3000 };
                ("/api/v1/charges".to_owned(), with(body, "expiration", Value::from(seconds)))
            }
        }
    }

    /// Somebody pays, once; a second time when the step is about that.
    async fn pay(&mut self) -> anyhow::Result<()> {
        if self.paid {
            return Ok(());
        }
        self.paid = true;
        let id = self.pix_id.clone().context("no charge to pay")?;
        let pay = format!("/sim/charges/{id}/pay");
        self.world.control(&pay, &json!({})).await?;
        if self.cell.base() == "charge.paid_again" {
            self.world.control(&pay, &json!({"amount": AGAIN})).await?;
        }
        Ok(())
    }

    /// When all is well: what the client was told of can be paid.
    async fn pay_at_last(&mut self) -> anyhow::Result<()> {
        let (Some(record), Some(id)) = (self.record().await?, self.pix_id.clone()) else { return Ok(()) };
        if !matches!(text(&record, "/status")?.as_str(), "pending" | "expired" | "canceled") {
            return Ok(());
        }
        self.paid = true;
        self.world.control(&format!("/sim/charges/{id}/pay"), &json!({"late": true})).await?;
        self.consult().await
    }

    /// The client has the provider asked.
    async fn consult(&mut self) -> anyhow::Result<()> {
        let Some(record) = self.record().await? else { return Ok(()) };
        let body = json!({"uuid": text(&record, "/uuid")?});
        for _ in 0..2 {
            if self.world.post("/api/v1/transactions/consult", &body).await.is_ok() {
                return Ok(());
            }
            self.world.killed()?;
            self.start_again()?;
        }
        Ok(())
    }

    /// The client looks at what it asked for; money that came back is learnt of by asking when no callback said so.
    async fn look(&mut self) -> anyhow::Result<()> {
        if matches!(self.cell.behaviour.as_str(), "returned_after_completion" | "callback_never") {
            self.consult().await?;
        }
        if let Some(body) = self.record().await? {
            self.told.push(Told { status: 200, body });
        }
        Ok(())
    }

    /// The record, asked for again when the gateway was killed meanwhile.
    pub(super) async fn record(&mut self) -> anyhow::Result<Option<Value>> {
        let path = match self.cell.operation {
            Operation::Withdrawal => "withdrawals",
            Operation::Refund => "refunds",
            Operation::Charge | Operation::Payment => "charges",
        };
        for _ in 0..2 {
            match self.world.get(&format!("/api/v1/{path}/{HANDLE}")).await {
                Ok((200, record)) => return Ok(Some(record)),
                Ok((404, _)) => return Ok(None),
                Ok((status, body)) => anyhow::bail!("GET of the record: {status} {body}"),
                Err(_) => {
                    self.world.killed()?;
                    self.start_again()?;
                }
            }
        }
        anyhow::bail!("the record can't be read")
    }

    /// What was done and heard about what goes out.
    pub(super) async fn evidence(&self) -> anyhow::Result<Value> {
        let path = match self.cell.operation {
            Operation::Withdrawal => "withdrawals",
            Operation::Refund => "refunds",
            Operation::Charge | Operation::Payment => return Ok(Value::Null),
        };
        Ok(self.world.get(&format!("/api/v1/{path}/{HANDLE}/evidence")).await?.1)
    }

    /// Whether the record has come to its end, as far as this cell goes.
    async fn is_settled(&mut self) -> anyhow::Result<bool> {
        let Some(record) = self.record().await? else { return Ok(false) };
        let status = text(&record, "/status")?;
        let step = self.cell.base();
        Ok(match (self.cell.operation, status.as_str()) {
            (Operation::Withdrawal | Operation::Refund, "completed" | "failed" | "returned") => true,
            (Operation::Withdrawal | Operation::Refund, _) => {
                // What is left to be looked at is at its end only as long as nobody can be asked.
                self.well_for.is_none()
                    && self.is_for_review()
                    && text(&record, "/substatus")? == "needs_review"
            }
            (Operation::Charge, "pending") => !matches!(step, "charge.expired" | "charge.canceled"),
            (Operation::Charge, status) => status != "creating",
            (Operation::Payment, "paid") => {
                step != "charge.paid_again" || cents(&record, "amount_paid")? == BOTH_IN
            }
            (Operation::Payment, _) => false,
        })
    }
}
