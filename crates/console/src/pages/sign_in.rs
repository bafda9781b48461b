//! Signing in and out.

use actix_web::http::StatusCode;
use actix_web::http::header::{RETRY_AFTER, SET_COOKIE};
use actix_web::{HttpRequest, HttpResponse};

use super::Page;
use crate::door::{Failed, Knock, Posted, console, see, set_cookie};
use crate::html::{Markup, button, el, field, text, void};
use crate::operators::OperatorToken;
use crate::page::document;
use crate::{NoRandomness, PATH};

const WRONG: &str = "This token is nobody's. Tokens begin with pixop_ and are made by the command below.";

/// The form.
pub(super) async fn show(request: HttpRequest) -> Page {
    console(&request)?;
    Ok(form(StatusCode::OK, None))
}

fn form(status: StatusCode, wrong: Option<&str>) -> HttpResponse {
    let alert = wrong.map_or_else(Markup::none, |wrong| {
        el("p", &[("class", "notice wrong"), ("role", "alert")], [text(wrong)])
    });
    let token = field(
        "Operator token",
        "token",
        &[("type", "password"), ("autocomplete", "current-password"), ("required", ""), ("autofocus", "")],
    );
    // What keeps tokens asks for a name beside each: who it is stands in the token.
    let name = void(
        "input",
        &[("type", "text"), ("value", "operator"), ("autocomplete", "username"), ("hidden", "")],
    );
    let form = el(
        "form",
        &[("method", "post"), ("action", &format!("{PATH}/sign-in")), ("class", "stack card")],
        [name, token, button("Sign in")],
    );
    let hint = el(
        "p",
        &[("class", "hint")],
        [
            text("A token is made with "),
            crate::html::code("pix-gateway operator token NAME"),
            text(" and let in by the setting "),
            crate::html::code("PIX_CONSOLE_OPERATORS"),
            text("."),
        ],
    );
    let main = el("main", &[("class", "narrow")], [el("h1", &[], [text("Console")]), alert, form, hint]);
    document(status, "Sign in", Markup::none(), [main])
}

/// Signs in.
pub(super) async fn sign_in(request: HttpRequest, knock: Knock) -> Page {
    let Knock { console, fields, before } = knock;
    let now = console.now();
    if let Some(wait) = console.failures.wait(now) {
        let mut answer = form(
            StatusCode::TOO_MANY_REQUESTS,
            Some("Too many sign-ins have failed. Try again in a minute."),
        );
        answer.headers_mut().insert(RETRY_AFTER, wait.as_secs().saturating_add(1).into());
        return Ok(answer);
    }
    let token = fields.get("token").and_then(|token| OperatorToken::parse(token));
    let Some(operator) = token.and_then(|token| console.config.operators.owner(&token).cloned()) else {
        console.failures.count(now);
        tracing::warn!(peer = ?request.peer_addr(), "a sign-in to the console failed");
        return Ok(form(StatusCode::FORBIDDEN, Some(WRONG)));
    };
    let random = console.ports.random.bytes().map_err(|NoRandomness| Failed::NoRandomness)?;
    tracing::info!(operator = operator.as_str(), "signed in to the console");
    // Nobody can sign out of it any more: the browser forgets its cookie now.
    if let Some(before) = before {
        console.sessions.end(&before);
    }
    let id = console.sessions.begin(random, operator, now);
    Ok(HttpResponse::SeeOther()
        .insert_header((actix_web::http::header::LOCATION, PATH))
        .insert_header((SET_COOKIE, set_cookie(&console, Some(&id))))
        .finish())
}

/// Signs out.
pub(super) async fn sign_out(posted: Posted) -> Page {
    let console = &posted.visit.console;
    console.sessions.end(&posted.visit.session);
    tracing::info!(operator = posted.visit.session.operator.as_str(), "signed out of the console");
    let mut answer = see(&format!("{PATH}/sign-in"));
    if let Ok(cookie) = set_cookie(console, None).parse() {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(answer)
}
