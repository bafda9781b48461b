//! The control API under `/sim`: what the outside world does to the provider, its switches and its log. It asks
//! for no credentials, so it belongs on loopback. It must never know how an effect is decided or stored.

use actix_web::{
    HttpResponse,
    web::{Bytes, Data, Path, ServiceConfig, get, post, resource},
};
use serde::Serialize;

use crate::{
    Shared,
    desk::Desk,
    log::read_log,
    provider::{lost, whole},
    state::{Decision, Subject},
    wire::{Answer, Kind, PayRequest, Refusal, RejectRequest, ReturnRequest, SettingsChange, read},
};

type Body = Result<Bytes, actix_web::Error>;
type Controlled = Result<HttpResponse, Refusal>;

pub(crate) fn routes(config: &mut ServiceConfig) {
    config
        .service(resource("/sim/charges/{id}/pay").route(post().to(pay)))
        .service(resource("/sim/charges/{id}/cancel").route(post().to(cancel)))
        .service(resource("/sim/payments/{id}/settle").route(post().to(settle_payment)))
        .service(resource("/sim/payments/{id}/reject").route(post().to(reject_payment)))
        .service(resource("/sim/payments/{id}/return").route(post().to(return_payment)))
        .service(resource("/sim/refunds/{id}/settle").route(post().to(settle_refund)))
        .service(resource("/sim/refunds/{id}/reject").route(post().to(reject_refund)))
        .service(resource("/sim/callbacks/resend/{id}").route(post().to(resend)))
        .service(resource("/sim/tokens/revoke").route(post().to(revoke_tokens)))
        .service(resource("/sim/log").route(get().to(log)))
        .service(resource("/sim/state").route(get().to(state)))
        .service(resource("/sim/settings").route(get().to(settings)).route(post().to(change_settings)));
}

async fn pay(shared: Data<Shared>, id: Path<String>, body: Body) -> Controlled {
    let request: PayRequest = read(&whole(body)?)?;
    let callback = request.callback.unwrap_or(true) && shared.settings().callbacks;
    let answer = shared.desk.run(move |desk| {
        let decision = desk.bank.receive_pix(&id, request, &desk.fresh())?;
        let (subject, _) = desk.carry_out(decision)?;
        if callback {
            desk.announce(&subject)?;
        }
        Answer::ok(&desk.bank.pay_answer(&subject.id, desk.now()).ok_or_else(lost)?)
    });
    Ok(answer.await?.into())
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

async fn settle_refund(shared: Data<Shared>, id: Path<String>) -> Controlled {
    control(&shared, move |desk| desk.bank.settle_refund(&id)).await
}

async fn reject_refund(shared: Data<Shared>, id: Path<String>, body: Body) -> Controlled {
    let request: RejectRequest = read(&whole(body)?)?;
    control(&shared, move |desk| desk.bank.reject_refund(&id, request)).await
}

/// Carries out what `decide` says and calls the client back.
async fn control(
    shared: &Shared,
    decide: impl FnOnce(&Desk) -> Result<Decision, Refusal> + Send + 'static,
) -> Controlled {
    let callbacks = shared.settings().callbacks;
    let answer = shared.desk.run(move |desk| {
        let decision = decide(desk)?;
        finish(desk, decision, callbacks)
    });
    Ok(answer.await?.into())
}

fn finish(desk: &mut Desk, decision: Decision, callback: bool) -> Result<Answer, Refusal> {
    let (subject, _) = desk.carry_out(decision)?;
    if callback {
        desk.announce(&subject)?;
    }
    Answer::ok(&desk.bank.describe(&subject, desk.now()).ok_or_else(lost)?)
}

/// Calls back once more about a transaction as it is now, whatever the `callbacks` switch says.
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
        if !desk.announce(&subject)? {
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
    let in_memory = shared.desk.run(|desk| Ok(desk.entries_in_memory())).await?;
    let entries = match (in_memory, shared.log_path.clone()) {
        (Some(entries), _) => entries,
        (None, None) => Vec::new(),
        (None, Some(path)) => {
            let failed = || Refusal::internal("the log cannot be read");
            let read = tokio::task::spawn_blocking(move || read_log(&path)).await;
            read.ok().and_then(Result::ok).ok_or_else(failed)?
        }
    };
    Ok(Answer::ok(&entries)?.into())
}

async fn state(shared: Data<Shared>) -> Controlled {
    Ok(Answer::ok(&shared.desk.run(|desk| Ok(desk.bank.state_answer(desk.now()))).await?)?.into())
}

async fn settings(shared: Data<Shared>) -> Controlled {
    Ok(Answer::ok(&shared.settings())?.into())
}

async fn change_settings(shared: Data<Shared>, body: Body) -> Controlled {
    let change: SettingsChange = read(&whole(body)?)?;
    Ok(Answer::ok(&shared.change_settings(&change))?.into())
}
