//! The servers that are compared over HTTP, each in a process of its own: the same actix, the same body, the same answer.

use std::io::Write;

use actix_web::web::{Bytes, Data, post};
use actix_web::{App, HttpResponse, HttpServer, Route};
use anyhow::Context;
use clap::ValueEnum;
use pix_domain::charges::Charge;
use pix_domain::ids::{ChargeId, IntegratorId};
use pix_domain::ports::Stores;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::lab::{Applying, stores};
use crate::ops::{Op, World, fee_rule, now, order, payment, payout, provider_id, qrcode, slot_of};
use crate::plain::{Order, Paid, Payout, Plain};

/// What is asked of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// A charge is made; the provider has answered.
    Create,
    /// A payment is credited.
    Settle,
    /// A withdrawal takes its money; the provider would be asked next.
    Withdraw,
    /// A charge is shown.
    Consult,
    /// A wallet is shown.
    Balance,
}

impl Command {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Create, Self::Settle, Self::Withdraw, Self::Consult, Self::Balance];

    /// Where it is asked.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Create => "/create",
            Self::Settle => "/settle",
            Self::Withdraw => "/withdraw",
            Self::Consult => "/consult",
            Self::Balance => "/balance",
        }
    }
}

/// How a server does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Handler {
    /// Nothing: the limit of the HTTP stack.
    Constant,
    /// What most gateways do.
    Plain,
    /// Reads what it has to, asks the state machine, applies in groups.
    Grouped,
    /// As that, and a payment with the charge as it was made: the `apply` alone.
    Applied,
}

impl Handler {
    /// As the command line names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Plain => "plain",
            Self::Grouped => "grouped",
            Self::Applied => "applied",
        }
    }
}

/// What it is about: a charge, its payment, a withdrawal, or a wallet.
#[derive(Debug, Deserialize)]
struct Told {
    #[serde(deserialize_with = "uuid")]
    integrator: Uuid,
    #[serde(deserialize_with = "uuid")]
    id: Uuid,
    end_to_end_id: String,
    amount_cents: i64,
}

fn uuid<'de, D: Deserializer<'de>>(from: D) -> Result<Uuid, D::Error> {
    Uuid::try_parse(<&str>::deserialize(from)?).map_err(D::Error::custom)
}

/// The body that tells of it; what a command has no use for is read all the same.
pub fn told(integrator: Uuid, id: Uuid, end_to_end_id: &str, cents: i64) -> String {
    format!(
        "{{\"integrator\":\"{integrator}\",\"id\":\"{id}\",\"end_to_end_id\":\"{end_to_end_id}\",\
         \"amount_cents\":{cents}}}"
    )
}

/// A charge that was asked for.
#[derive(Serialize)]
struct ShownCharge<'a> {
    external_id: &'a str,
    state: &'a str,
    amount_cents: i64,
    qrcode: Option<&'a str>,
}

/// A wallet that was asked for.
#[derive(Serialize)]
struct ShownWallet {
    available_cents: i64,
    held_cents: i64,
}

fn received() -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body("{\"received\":true}")
}

/// What was done, or why not.
fn answer(done: anyhow::Result<HttpResponse>) -> HttpResponse {
    done.unwrap_or_else(|error| HttpResponse::InternalServerError().body(error.to_string()))
}

async fn constant(body: Bytes) -> HttpResponse {
    answer(serde_json::from_slice(&body).map(|_told: Told| received()).map_err(Into::into))
}

/// What most gateways do.
async fn plainly(command: Command, plain: &Plain, body: &[u8]) -> anyhow::Result<HttpResponse> {
    let told: Told = serde_json::from_slice(body)?;
    let (integrator_id, id, amount_cents) = (told.integrator, told.id, told.amount_cents);
    let slot = slot_of(id);
    match command {
        Command::Create => {
            let (external_id, provider_id, qrcode) = (order(slot), provider_id(slot), qrcode(slot));
            plain
                .create(&Order { integrator_id, id, external_id, amount_cents, provider_id, qrcode })
                .await?;
        }
        Command::Settle => {
            let end_to_end_id = told.end_to_end_id;
            plain.settle(&Paid { integrator_id, charge_id: id, end_to_end_id, amount_cents }).await?;
        }
        Command::Withdraw => {
            plain.reserve(&Payout { integrator_id, id, external_id: payout(slot), amount_cents }).await?;
        }
        Command::Consult => {
            let (external_id, state, amount_cents, qrcode) = plain.consult(integrator_id, id).await?;
            let qrcode = qrcode.as_deref();
            let charge = ShownCharge { external_id: &external_id, state: &state, amount_cents, qrcode };
            return Ok(HttpResponse::Ok().json(charge));
        }
        Command::Balance => {
            let (available_cents, held_cents) = plain.balance(integrator_id).await?;
            return Ok(HttpResponse::Ok().json(ShownWallet { available_cents, held_cents }));
        }
    }
    Ok(received())
}

/// What the handlers over the store share.
struct Ours {
    stores: Stores,
    world: World,
    /// Whether the charge that is paid is read.
    reads: bool,
}

impl Ours {
    async fn does(&self, command: Command, body: &[u8]) -> anyhow::Result<HttpResponse> {
        let told: Told = serde_json::from_slice(body)?;
        match command {
            Command::Create => self.applies(Op::Create, told.id).await,
            Command::Withdraw => self.applies(Op::Reserve, told.id).await,
            Command::Settle if self.reads => self.credits(self.charge(&told).await?, &told).await,
            Command::Settle => self.credits(self.world.pending(slot_of(told.id))?, &told).await,
            Command::Consult => {
                let charge = self.charge(&told).await?;
                Ok(HttpResponse::Ok().json(ShownCharge {
                    external_id: charge.external_id.as_str(),
                    state: charge.state.name(),
                    amount_cents: charge.amount.cents().get(),
                    qrcode: charge.ticket.as_ref().map(|ticket| ticket.qrcode.as_str()),
                }))
            }
            Command::Balance => {
                let wallet = self.stores.wallets.wallet(IntegratorId(told.integrator)).await?;
                let (available_cents, held_cents) = (wallet.available.get(), wallet.held.get());
                Ok(HttpResponse::Ok().json(ShownWallet { available_cents, held_cents }))
            }
        }
    }

    async fn charge(&self, told: &Told) -> anyhow::Result<Charge> {
        let found = self.stores.charges.find(IntegratorId(told.integrator), ChargeId(told.id)).await?;
        found.context("there is no such charge")
    }

    async fn credits(&self, charge: Charge, told: &Told) -> anyhow::Result<HttpResponse> {
        let step = charge.pay(payment(&told.end_to_end_id, told.amount_cents)?, &fee_rule()?, now());
        self.stores.transitions.apply(step.next().context("the charge is not to be paid")?).await?;
        Ok(received())
    }

    async fn applies(&self, op: Op, id: Uuid) -> anyhow::Result<HttpResponse> {
        self.stores.transitions.apply(self.world.transition(op, slot_of(id))?).await?;
        Ok(received())
    }
}

fn route(handler: Handler, command: Command) -> Route {
    match handler {
        Handler::Constant => post().to(constant),
        Handler::Plain => post().to(move |plain: Data<Plain>, body: Bytes| async move {
            answer(plainly(command, &plain, &body).await)
        }),
        Handler::Grouped | Handler::Applied => post()
            .to(move |ours: Data<Ours>, body: Bytes| async move { answer(ours.does(command, &body).await) }),
    }
}

/// Serves until the process is killed. Its first line is the port.
pub fn run(handler: Handler, database: &str, wallets: u32) -> anyhow::Result<()> {
    let runtime = Runtime::new()?;
    let world = World { wallets };
    let ours = match handler {
        Handler::Grouped | Handler::Applied => {
            let stores = runtime.block_on(stores(database, Applying::Grouped))?;
            Some(Data::new(Ours { stores, world, reads: handler == Handler::Grouped }))
        }
        Handler::Constant | Handler::Plain => None,
    };
    let plain = (handler == Handler::Plain).then(|| Plain::new(database)).transpose()?.map(Data::new);
    actix_web::rt::System::new().block_on(async move {
        let server = HttpServer::new(move || {
            let mut app = App::new();
            if let Some(ours) = ours.clone() {
                app = app.app_data(ours);
            }
            if let Some(plain) = plain.clone() {
                app = app.app_data(plain);
            }
            for command in Command::ALL {
                app = app.route(command.path(), route(handler, command));
            }
            app
        })
        .bind(("127.0.0.1", 0))?;
        let address = server.addrs().first().copied().context("the server has no address")?;
        println!("{}", address.port());
        std::io::stdout().flush()?;
        Ok(server.run().await?)
    })
}
