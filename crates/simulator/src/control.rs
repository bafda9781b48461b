//! The control API under `/sim`: what the outside world does to the provider, its switches and its log. It asks
//! for no credentials, so it belongs on loopback. It must never know how an effect is decided or stored.

use std::time::Duration;

use actix_web::{
    HttpResponse,
    web::{Bytes, Data, Path, ServiceConfig, delete, get, post, resource},
};
use serde::Serialize;

use crate::{
    Shared,
    clock::utc,
    desk::Desk,
    provider::{lost, whole},
    rules::ScenarioRule,
    scenario::SCENARIOS,
    state::{Decision, Subject},
    wire::{
        Answer, ClockChange, Kind, PayAnswer, PayRequest, Refusal, RejectRequest, ReturnRequest,
        SettingsChange, or_empty, read, read_strictly,
    },
};

/// How far the clock may be moved on at once: a year.
const MAX_ADVANCE: Duration = Duration::from_hours(365 * 24);

type Body = Result<Bytes, actix_web::Error>;
type Controlled = Result<HttpResponse, Refusal>;

pub(crate) fn routes(config: &mut ServiceConfig) {
    config
        .service(resource("/sim/charges/{id}/pay").route(post().to(pay)))
        .service(resource("/sim/charges/{id}/cancel").route(post().to(cancel)))
        .service(resource("/sim/charges/{id}/take-back").route(post().to(take_back)))
        .service(resource("/sim/payments/{id}/settle").route(post().to(settle_payment)))
        .service(resource("/sim/payments/{id}/reject").route(post().to(reject_payment)))
        .service(resource("/sim/payments/{id}/return").route(post().to(return_payment)))
        .service(resource("/sim/refunds/{id}/settle").route(post().to(settle_refund)))
        .service(resource("/sim/refunds/{id}/reject").route(post().to(reject_refund)))
        .service(resource("/sim/callbacks/resend/{id}").route(post().to(resend)))
        .service(resource("/sim/tokens/revoke").route(post().to(revoke_tokens)))
        .service(resource("/sim/log").route(get().to(log)))
        .service(resource("/sim/state").route(get().to(state)))
        .service(resource("/sim/settings").route(get().to(settings)).route(post().to(change_settings)))
        .service(resource("/sim/clock").route(get().to(clock)).route(post().to(advance_clock)))
        .service(resource("/sim/scenarios/catalogue").route(get().to(catalogue)))
        .service(resource("/sim/scenarios/{id}").route(delete().to(detach)))
        .service(
            resource("/sim/scenarios")
                .route(get().to(attached))
                .route(post().to(attach))
                .route(delete().to(clear)),
        );
}

async fn pay(shared: Data<Shared>, id: Path<String>, body: Body) -> Controlled {
    let request: PayRequest = read(&whole(body)?)?;
    let callback = request.callback.unwrap_or(true) && shared.settings().callbacks;
    let paid = shared.desk.run(move |desk| receive(desk, &id, request, callback)).await?;
    Ok(Answer::ok(&paid)?.into())
}

/// A PIX on a charge.
pub(crate) fn receive(
    desk: &mut Desk,
    id: &str,
    request: PayRequest,
    callback: bool,
) -> Result<PayAnswer, Refusal> {
    let decision = desk.bank.receive_pix(id, request, &desk.fresh())?;
    let (subject, _) = desk.carry_out(decision)?;
    if callback {
        desk.announce(&subject)?;
    }
    desk.bank.pay_answer(&subject.id, desk.now()).ok_or_else(lost)
}

async fn cancel(shared: Data<Shared>, id: Path<String>) -> Controlled {
    let answer = shared.desk.run(move |desk| {
        let decision = desk.bank.cancel_charge(&id, desk.now())?;
        finish(desk, decision, false)
    });
    Ok(answer.await?.into())
}

async fn settle_payment(shared: Data<Shared>, id: Path<String>) -> Controlled {
    control(&shared, move |desk| desk.bank.settle_payment(&id)).await
}

async fn reject_payment(shared: Data<Shared>, id: Path<String>, body: Body) -> Controlled {
    let request: RejectRequest = read(&whole(body)?)?;
    control(&shared, move |desk| desk.bank.reject_payment(&id, request)).await
}

async fn return_payment(shared: Data<Shared>, id: Path<String>, body: Body) -> Controlled {
    let request: ReturnRequest = read(&whole(body)?)?;
    control(&shared, move |desk| desk.bank.return_payment(&id, request.amount.as_deref())).await
}

async fn take_back(shared: Data<Shared>, id: Path<String>, body: Body) -> Controlled {
    let request: ReturnRequest = read(&whole(body)?)?;
    control(&shared, move |desk| desk.bank.take_back_charge(&id, request.amount.as_deref())).await
}

async fn settle_refund(shared: Data<Shared>, id: Path<String>) -> Controlled {
    control(&shared, move |desk| desk.bank.settle_refund(&id)).await
}

async fn reject_refund(shared: Data<Shared>, id: Path<String>, body: Body) -> Controlled {
    let request: RejectRequest = read(&whole(body)?)?;
    control(&shared, move |desk| desk.bank.reject_refund(&id, request)).await
}

async fn control(
    shared: &Shared,
    decide: impl FnOnce(&Desk) -> Result<Decision, Refusal> + Send + 'static,
) -> Controlled {
    Ok(carry_out(shared, decide).await?.into())
}

/// Carries out what `decide` says and calls the client back.
pub(crate) async fn carry_out(
    shared: &Shared,
    decide: impl FnOnce(&Desk) -> Result<Decision, Refusal> + Send + 'static,
) -> Result<Answer, Refusal> {
    let callbacks = shared.settings().callbacks;
    let answer = shared.desk.run(move |desk| {
        let decision = decide(desk)?;
        finish(desk, decision, callbacks)
    });
    answer.await
}

fn finish(desk: &mut Desk, decision: Decision, callback: bool) -> Result<Answer, Refusal> {
    let (subject, _) = desk.carry_out(decision)?;
    if callback {
        desk.announce(&subject)?;
    }
    Answer::ok(&desk.bank.describe(&subject, desk.now()).ok_or_else(lost)?)
}

/// Calls back once more about a transaction as it is now, whatever the `callbacks` switch and the scenarios say.
async fn resend(shared: Data<Shared>, id: Path<String>) -> Controlled {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Resent {
        transaction_type: Kind,
        id: String,
        queued: bool,
    }
    let answer = shared.desk.run(move |desk| {
        let subject: Option<Subject> = match desk.bank.find(&id) {
            Some(subject) => Some(subject),
            None => desk.bank.find_reference(&id, None)?,
        };
        let subject = subject.ok_or_else(|| Refusal::not_found("transaction not found"))?;
        if !desk.announce_plainly(&subject)? {
            return Err(Refusal::conflict("no_postback_url", "the transaction has no postbackUrl"));
        }
        Answer::ok(&Resent { transaction_type: subject.kind, id: subject.id, queued: true })
    });
    Ok(answer.await?.into())
}

async fn revoke_tokens(shared: Data<Shared>) -> Controlled {
    shared.tokens.revoke_all();
    Ok(HttpResponse::NoContent().finish())
}

async fn log(shared: Data<Shared>) -> Controlled {
    Ok(Answer::ok(&shared.log().await?)?.into())
}

async fn state(shared: Data<Shared>) -> Controlled {
    Ok(Answer::ok(&shared.desk.run(|desk| Ok(desk.bank.state_answer(desk.now()))).await?)?.into())
}

async fn settings(shared: Data<Shared>) -> Controlled {
    Ok(Answer::ok(&shared.settings())?.into())
}

async fn change_settings(shared: Data<Shared>, body: Body) -> Controlled {
    let change: SettingsChange = read_strictly(or_empty(&whole(body)?))?;
    Ok(Answer::ok(&shared.change_settings(change))?.into())
}

async fn clock(shared: Data<Shared>) -> Controlled {
    #[derive(Serialize)]
    struct ClockAnswer {
        now: String,
    }
    Ok(Answer::ok(&ClockAnswer { now: utc(shared.timeline.now()) })?.into())
}

async fn advance_clock(shared: Data<Shared>, body: Body) -> Controlled {
    let change: ClockChange = read_strictly(&whole(body)?)?;
    let span = Duration::try_from_secs_f64(change.advance_seconds).ok().filter(|span| *span <= MAX_ADVANCE);
    let span = span
        .ok_or_else(|| Refusal::invalid("invalid_request", "advance_seconds must be from 0 to 31536000"))?;
    shared.timeline.advance(span);
    clock(shared).await
}

async fn catalogue() -> Controlled {
    Ok(Answer::ok(&SCENARIOS)?.into())
}

async fn attached(shared: Data<Shared>) -> Controlled {
    let attached = shared.rules().list();
    Ok(Answer::ok(&attached)?.into())
}

async fn attach(shared: Data<Shared>, body: Body) -> Controlled {
    let rule: ScenarioRule = read_strictly(&whole(body)?)?;
    let attached = shared.rules().attach(rule)?;
    Ok(Answer::ok(&attached)?.into())
}

async fn detach(shared: Data<Shared>, id: Path<u64>) -> Controlled {
    shared.rules().detach(*id)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn clear(shared: Data<Shared>) -> Controlled {
    shared.clear_scenarios().await?;
    Ok(HttpResponse::NoContent().finish())
}
