//! The servers that are compared over HTTP, each in a process of its own: the same actix, the same body, the same answer.

use std::io::Write;
use std::sync::Arc;

use actix_web::web::{Bytes, Data, post};
use actix_web::{App, HttpResponse, HttpServer};
use anyhow::Context;
use clap::ValueEnum;
use pix_domain::charges::Charge;
use pix_domain::ids::{ChargeId, IntegratorId};
use pix_domain::ports::Stores;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::lab::{Applying, stores};
use crate::ops::{World, fee_rule, now, payment, slot_of};
use crate::plain::{Paid, Plain};

/// What a server does with a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Handler {
    /// Nothing: the limit of the HTTP stack.
    Constant,
    /// What most gateways do.
    Plain,
    /// Reads the charge, asks the state machine, applies in groups.
    Grouped,
    /// As that, with the charge as it was made: the `apply` alone.
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

/// A payment, as it is told.
#[derive(Debug, Deserialize)]
struct Told {
    #[serde(deserialize_with = "uuid")]
    integrator: Uuid,
    #[serde(deserialize_with = "uuid")]
    charge: Uuid,
    end_to_end_id: String,
    amount_cents: i64,
}

fn uuid<'de, D: Deserializer<'de>>(from: D) -> Result<Uuid, D::Error> {
    Uuid::try_parse(<&str>::deserialize(from)?).map_err(D::Error::custom)
}

impl Told {
    fn read(body: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(body).map_err(|error| error.to_string())
    }
}

/// The body that tells of a payment.
pub fn told(integrator: Uuid, charge: Uuid, end_to_end_id: &str, cents: i64) -> String {
    format!(
        "{{\"integrator\":\"{integrator}\",\"charge\":\"{charge}\",\"end_to_end_id\":\"{end_to_end_id}\",\
         \"amount_cents\":{cents}}}"
    )
}

fn received() -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body("{\"received\":true}")
}

fn refused(why: String) -> HttpResponse {
    HttpResponse::BadRequest().body(why)
}

fn failed(error: impl std::fmt::Display) -> HttpResponse {
    HttpResponse::InternalServerError().body(error.to_string())
}

async fn constant(body: Bytes) -> HttpResponse {
    Told::read(&body).map_or_else(refused, |_told| received())
}

async fn plain(plain: Data<Plain>, body: Bytes) -> HttpResponse {
    let told = match Told::read(&body) {
        Ok(told) => told,
        Err(why) => return refused(why),
    };
    let paid = Paid {
        integrator_id: told.integrator,
        charge_id: told.charge,
        end_to_end_id: told.end_to_end_id,
        amount_cents: told.amount_cents,
    };
    plain.settle(&paid).await.map_or_else(failed, |()| received())
}

/// What the handlers over the store share.
struct Ours {
    stores: Stores,
    world: World,
}

async fn grouped(ours: Data<Ours>, body: Bytes) -> HttpResponse {
    let told = match Told::read(&body) {
        Ok(told) => told,
        Err(why) => return refused(why),
    };
    let found = ours.stores.charges.find(IntegratorId(told.integrator), ChargeId(told.charge)).await;
    match found {
        Ok(Some(charge)) => credit(&ours, charge, &told).await,
        Ok(None) => HttpResponse::NotFound().finish(),
        Err(error) => failed(error),
    }
}

async fn applied(ours: Data<Ours>, body: Bytes) -> HttpResponse {
    let told = match Told::read(&body) {
        Ok(told) => told,
        Err(why) => return refused(why),
    };
    match ours.world.pending(slot_of(told.charge)) {
        Ok(charge) => credit(&ours, charge, &told).await,
        Err(error) => failed(error),
    }
}

async fn credit(ours: &Ours, charge: Charge, told: &Told) -> HttpResponse {
    let decide = || {
        let step = charge.pay(payment(&told.end_to_end_id, told.amount_cents)?, &fee_rule()?, now());
        step.next().context("the charge is not to be paid")
    };
    let transition = match decide() {
        Ok(transition) => transition,
        Err(error) => return failed(error),
    };
    ours.stores.transitions.apply(transition).await.map_or_else(failed, |()| received())
}

/// Serves until the process is killed. Its first line is the port.
pub fn run(handler: Handler, database: &str, wallets: u32) -> anyhow::Result<()> {
    let runtime = Runtime::new()?;
    let world = World { wallets };
    let ours = match handler {
        Handler::Grouped | Handler::Applied => {
            Some(Data::new(Ours { stores: runtime.block_on(stores(database, Applying::Grouped))?, world }))
        }
        Handler::Constant | Handler::Plain => None,
    };
    let simple = (handler == Handler::Plain).then(|| Plain::new(database)).transpose()?.map(Data::new);
    let make = Arc::new(move || {
        let app = App::new();
        (app, ours.clone(), simple.clone())
    });
    actix_web::rt::System::new().block_on(async move {
        let server = HttpServer::new(move || {
            let (mut app, ours, simple) = make();
            if let Some(ours) = ours {
                app = app.app_data(ours);
            }
            if let Some(simple) = simple {
                app = app.app_data(simple);
            }
            let route = match handler {
                Handler::Constant => post().to(constant),
                Handler::Plain => post().to(plain),
                Handler::Grouped => post().to(grouped),
                Handler::Applied => post().to(applied),
            };
            app.route("/settle", route)
        })
        .bind(("127.0.0.1", 0))?;
        let address = server.addrs().first().copied().context("the server has no address")?;
        println!("{}", address.port());
        std::io::stdout().flush()?;
        Ok(server.run().await?)
    })
}
