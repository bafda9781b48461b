//! The frame around a page. It is whole without a script, and its style is within it: nothing else is fetched, and the
//! policy names the style by its digest.

use std::sync::LazyLock;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::PATH;
use crate::door::{AUTO, CSRF_FIELD, Visit};
use crate::html::{Attributes, Markup, button, el, hidden, link, raw, text, void};
use crate::sessions::Notice;

const STYLE: &str = include_str!("style.css");

/// How often a page that is watched loads itself again.
pub(crate) const REFRESH_SECONDS: u32 = 10;

/// What a page may do (W3C, Content Security Policy Level 3): look like that, and send its forms here. No script at all.
pub(crate) static POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; style-src 'sha256-{}'; img-src data:; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'",
        STANDARD.encode(Sha256::digest(STYLE))
    )
});

/// The pages that every page leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Overview,
    Uncertain,
    Findings,
    Postbacks,
    Integrators,
    AuditLog,
    /// None of those.
    Elsewhere,
}

impl Place {
    const ALL: [(Self, &'static str, &'static str); 6] = [
        (Self::Overview, "", "Overview"),
        (Self::Uncertain, "/uncertain", "Uncertain"),
        (Self::Findings, "/findings", "Findings"),
        (Self::Postbacks, "/postbacks", "Postbacks"),
        (Self::Integrators, "/integrators", "Integrators"),
        (Self::AuditLog, "/audit-log", "Audit log"),
    ];
}

/// A page for somebody who is signed in.
pub(crate) fn page(
    visit: &Visit,
    place: Place,
    title: &str,
    body: impl IntoIterator<Item = Markup>,
) -> HttpResponse {
    framed(visit, place, title, Markup::none(), search(visit), body)
}

/// The same, which loads itself again.
pub(crate) fn watched(
    visit: &Visit,
    place: Place,
    title: &str,
    body: impl IntoIterator<Item = Markup>,
) -> HttpResponse {
    let again = format!("{REFRESH_SECONDS};url=?{AUTO}=1");
    let refresh = void("meta", &[("http-equiv", "refresh"), ("content", &again)]);
    // What is being typed in would be lost when the page loads itself again.
    let search = el("a", &[("href", &format!("{PATH}/search")), ("accesskey", "s")], [text("Search")]);
    framed(visit, place, title, refresh, search, body)
}

fn framed(
    visit: &Visit,
    place: Place,
    title: &str,
    head: Markup,
    search: Markup,
    body: impl IntoIterator<Item = Markup>,
) -> HttpResponse {
    let notice = visit.console.sessions.take_notice(&visit.session).map_or_else(Markup::none, notice);
    let heading = el("h1", &[], [text(title)]);
    let inner = [notice, heading].into_iter().chain(body);
    let main = el("main", &[("id", "main")], inner);
    let skip = el("a", &[("class", "skip"), ("href", "#main")], [text("To the content")]);
    document(StatusCode::OK, title, head, [skip, bar(visit, place, search), main])
}

fn notice(notice: Notice) -> Markup {
    let (class, role) = if notice.is_done { ("notice", "status") } else { ("notice wrong", "alert") };
    el("p", &[("class", class), ("role", role)], [text(notice.words)])
}

/// The form by which anything is looked for.
fn search(visit: &Visit) -> Markup {
    el(
        "form",
        &[("method", "post"), ("action", &format!("{PATH}/search")), ("class", "row"), ("role", "search")],
        [
            hidden(CSRF_FIELD, &visit.session.csrf),
            el("label", &[("for", "q"), ("class", "unseen")], [text("Any identifier")]),
            void(
                "input",
                &[
                    ("id", "q"),
                    ("name", "q"),
                    ("type", "search"),
                    ("placeholder", "Any identifier"),
                    ("value", &visit.sought),
                    ("accesskey", "s"),
                ],
            ),
            button("Search"),
        ],
    )
}

/// What is at the top of each page.
fn bar(visit: &Visit, place: Place, search: Markup) -> Markup {
    let items = Place::ALL.into_iter().map(|(each, path, words)| {
        let href = format!("{PATH}{path}");
        let attributes: Attributes<'_> =
            if each == place { &[("href", &href), ("aria-current", "page")] } else { &[("href", &href)] };
        el("li", &[], [el("a", attributes, [text(words)])])
    });
    let nav = el("nav", &[("aria-label", "Console")], [el("ul", &[], items)]);
    let out = form(visit, &format!("{PATH}/sign-out"), "", [button("Sign out")]);
    let operator = visit.session.operator.as_str();
    let who = el("div", &[("class", "who")], [text(operator), out]);
    let brand = el("span", &[("class", "brand")], [text("pix-gateway")]);
    el("header", &[], [el("div", &[("class", "bar")], [brand, nav, search, who])])
}

/// A form that does something, with the token of the session.
pub(crate) fn form(
    visit: &Visit,
    action: &str,
    class: &str,
    fields: impl IntoIterator<Item = Markup>,
) -> Markup {
    let token = hidden(CSRF_FIELD, &visit.session.csrf);
    el(
        "form",
        &[("method", "post"), ("action", action), ("class", class)],
        std::iter::once(token).chain(fields),
    )
}

/// A page without a session: one that was refused.
pub(crate) fn plain(status: StatusCode, words: &str) -> HttpResponse {
    let main = [el("h1", &[], [text("Console")]), text_paragraph(words), link(PATH, "To the console")];
    document(status, "Console", Markup::none(), [el("main", &[("class", "narrow")], main)])
}

fn text_paragraph(words: &str) -> Markup {
    el("p", &[("role", "alert")], [text(words)])
}

/// A whole document.
pub(crate) fn document(
    status: StatusCode,
    title: &str,
    head: Markup,
    body: impl IntoIterator<Item = Markup>,
) -> HttpResponse {
    let head = el(
        "head",
        &[],
        [
            void("meta", &[("charset", "utf-8")]),
            void("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]),
            void("meta", &[("name", "color-scheme"), ("content", "light dark")]),
            el("title", &[], [text(format!("{title} · pix-gateway"))]),
            void("link", &[("rel", "icon"), ("href", "data:,")]),
            raw("style", STYLE),
            head,
        ],
    );
    let html = el("html", &[("lang", "en")], [head, el("body", &[], body)]);
    HttpResponse::build(status)
        .content_type("text/html; charset=utf-8")
        .body(["<!doctype html>\n", &html.into_string(), "\n"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_is_not_cut_by_an_end_tag() {
        assert!(!STYLE.contains("</") && !POLICY.contains("script"));
    }
}
