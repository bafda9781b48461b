//! The payment page of a charge, for whoever is to pay it: `/pay/{uuid}`, without a token.
//!
//! The charge's id is the capability: nobody guesses it. Whoever has the link sees what a payer may see,
//! which is [`Shown`], and nothing else of the charge ever gets here: not who is to pay, whose charge it is or what the
//! integrator calls it, no fee and no wallet. An id that names no charge, and a text that is none, get the same page
//! at the same cost.
//!
//! | Module | Room |
//! |---|---|
//! | [`shown`] | what a payer may see, and reading it without asking the store for each who looks |
//! | [`stream`] | server-sent events, of which there are so many at once |
//! | [`page`] | the page as HTML, whole without a script |
//! | [`language`] | Portuguese and English |

mod language;
mod page;
mod shown;
mod stream;

use actix_web::dev::HttpServiceFactory;
use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, HeaderName, VARY};
use actix_web::{HttpResponse, HttpResponseBuilder, middleware, web};
use uuid::Uuid;

use crate::error::ApiError;
use crate::extract::{Answer, Call};
use crate::json::Object;
use crate::language::Language;
use crate::server::{not_found, read, resource};
use crate::{limits, overload};
use shown::Shown;
pub(crate) use shown::{Views, receiver};
pub(crate) use stream::Streams;

const ROBOTS: HeaderName = HeaderName::from_static("x-robots-tag");

/// What stands between `/pay/` and the end of a page's path.
pub(crate) fn is_page(path: &str) -> bool {
    path.strip_prefix("/pay/").is_some_and(|rest| !rest.contains('/'))
}

/// The URL of a charge's page.
pub(crate) fn url(base: &str, charge: Uuid) -> String {
    format!("{base}/pay/{charge}")
}

/// What is below `/pay`, but for the limit of requests, which goes around it.
pub(crate) fn routes() -> impl HttpServiceFactory {
    web::scope("")
        .service(resource("/{charge}", "GET, HEAD").route(read().to(show)))
        .service(resource("/{charge}/status", "GET, HEAD").route(read().to(status)))
        .service(resource("/{charge}/events", "GET").route(web::get().to(stream::open)))
        .default_service(web::to(not_found))
        .wrap(middleware::from_fn(overload::pay))
        .wrap(middleware::from_fn(limits::charge))
}

/// The page.
async fn show(call: Call) -> Answer {
    let language = Language::of(call.http.headers(), Language::Portuguese);
    let shown = look(&call).await?;
    let mut answer = dressed(StatusCode::OK, language);
    Ok(answer.body(page::charge(language, &shown, call.state.services.clock.now())))
}

/// Where the charge stands, for a page that can't be told.
async fn status(call: Call) -> Answer {
    let shown = look(&call).await?;
    let mut answer = HttpResponse::Ok();
    answer.insert_header((ROBOTS, "noindex")).content_type("application/json");
    Ok(answer.body(told(&shown)))
}

/// All that is told of where a charge stands.
fn told(shown: &Shown) -> String {
    let expires_at = crate::time::rfc3339(shown.expires_at);
    Object::new().text("status", shown.stage.word()).text("expires_at", &expires_at).end()
}

/// The charge that the path names. What is no id is looked for like one that nothing has.
async fn look(call: &Call) -> Result<std::sync::Arc<Shown>, ApiError> {
    call.state.pay.views.look(&call.state, named(call).await).await
}

async fn named(call: &Call) -> Uuid {
    Uuid::try_parse(&call.path_part().await).unwrap_or_default()
}

/// An answer in HTML, with what makes it safe to show.
fn dressed(status: StatusCode, language: Language) -> HttpResponseBuilder {
    let mut answer = HttpResponse::build(status);
    dress(&mut answer, language);
    answer
}

fn dress(answer: &mut HttpResponseBuilder, language: Language) {
    answer
        .content_type("text/html; charset=utf-8")
        .insert_header((CONTENT_SECURITY_POLICY, page::POLICY.as_str()))
        .insert_header((CONTENT_LANGUAGE, language.tag()))
        .insert_header((VARY, "Accept-Language"))
        .insert_header((ROBOTS, "noindex"));
}

/// The body of an answer that is no success, for a person; `answer` gets what goes with it.
pub(crate) fn refusal(answer: &mut HttpResponseBuilder, status: StatusCode, language: Language) -> String {
    dress(answer, language);
    page::refusal(language, status)
}

/// What the pages of one node share.
pub(crate) struct Pay {
    pub(crate) views: Views,
    pub(crate) streams: Streams,
}

impl Pay {
    pub(crate) fn new(streams: usize) -> Self {
        Self { views: Views::default(), streams: Streams::new(streams) }
    }
}
