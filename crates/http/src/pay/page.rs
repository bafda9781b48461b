//! The page as HTML. It is whole without its script and its style, which are within it: nothing else is fetched, and
//! the policy names them by their digests.

use std::sync::LazyLock;

use actix_web::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pix_domain::time::Timestamp;
use sha2::{Digest, Sha256};

use super::language::Words;
use super::shown::{Shown, Stage};
use crate::html::escaped;
use crate::language::Language;
use crate::qr::QrCode;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// How often a page without a script asks again.
const REFRESH_SECONDS: u32 = 10;

/// What the page may do (W3C, Content Security Policy Level 3): run this script, look like that, ask this gateway.
pub(super) static POLICY: LazyLock<String> = LazyLock::new(|| {
    let digest = |text: &str| STANDARD.encode(Sha256::digest(text));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        digest(SCRIPT),
        digest(STYLE)
    )
});

/// The page of a charge.
pub(super) fn charge(language: Language, shown: &Shown, now: Timestamp) -> String {
    let words = language.words();
    let left = shown.left(now);
    let is_live = shown.stage.is_live();
    let ways = shown.code.as_deref().filter(|_| left.is_some()).map(|code| ways(language, shown, code));
    let hint = format!("<noscript><p class=\"hint\">{}</p></noscript>\n", words.refreshes);
    let body = format!(
        "<main data-status=\"{status}\" data-left=\"{left}\"{texts}>\n<h1>{title}</h1>\n<dl>\n{facts}</dl>\n\
         <p id=\"state\" role=\"status\">{state}</p>\n{ways}{hint}</main>\n<script>{SCRIPT}</script>\n",
        status = shown.stage.word(),
        left = left.map_or(0, |left| left.as_millis()),
        texts = texts(words),
        title = words.title,
        facts = facts(language, shown),
        state = state(words, shown, now),
        ways = ways.unwrap_or_default(),
        hint = if is_live { &hint } else { "" },
    );
    let refresh =
        format!("<noscript><meta http-equiv=\"refresh\" content=\"{REFRESH_SECONDS}\"></noscript>\n");
    document(language, words.title, if is_live { &refresh } else { "" }, &body)
}

/// The words of the script, as attributes.
fn texts(words: &Words) -> String {
    let texts = [
        ("creating", words.creating),
        ("pending", words.pending),
        ("over", words.over),
        ("paid", words.paid),
        ("expired", words.expired),
        ("canceled", words.canceled),
        ("failed", words.failed),
        ("left", words.time_left),
        ("copied", words.copied),
        ("not-copied", words.not_copied),
    ];
    texts.map(|(name, text)| [" data-text-", name, "=\"", &escaped(text), "\""].concat()).concat()
}

/// Who is paid, and how much.
fn facts(language: Language, shown: &Shown) -> String {
    let words = language.words();
    let receiver = shown.receiver.as_deref().map(|name| (words.to, "", escaped(name)));
    let amount = (words.amount, " class=\"amount\"", language.money(shown.amount));
    let other = shown.received.filter(|received| *received != shown.amount);
    let other = other.map(|received| (words.received, "", language.money(received)));
    let facts = [receiver, Some(amount), other].into_iter().flatten();
    facts
        .flat_map(|(name, class, value)| {
            ["<dt>", name, "</dt><dd", class, ">", &value, "</dd>\n"].map(str::to_owned)
        })
        .collect()
}

/// What is said of where it stands.
fn state(words: &Words, shown: &Shown, now: Timestamp) -> &'static str {
    match shown.stage {
        Stage::Creating => words.creating,
        Stage::Pending if shown.left(now).is_none() => words.over,
        Stage::Pending => words.pending,
        Stage::Paid => words.paid,
        Stage::Expired => words.expired,
        Stage::Canceled => words.canceled,
        Stage::Failed => words.failed,
    }
}

/// How it can be paid.
fn ways(language: Language, shown: &Shown, code: &str) -> String {
    let words = language.words();
    let picture = QrCode::of(code).map(|picture| picture.svg(words.qr_label)).unwrap_or_default();
    format!(
        "<div id=\"ways\">\n\
         <p>{expires} {moment}</p>\n\
         <p id=\"left\" role=\"timer\" hidden></p>\n\
         <div class=\"qr\">{picture}</div>\n\
         <p class=\"hint\">{how}</p>\n\
         <label for=\"code\">{label}</label>\n\
         <textarea id=\"code\" rows=\"5\" readonly spellcheck=\"false\" autocomplete=\"off\">{code}</textarea>\n\
         <button id=\"copy\" type=\"button\" hidden>{copy}</button>\n\
         <p id=\"copied\" role=\"status\"></p>\n\
         </div>\n",
        expires = words.expires,
        moment = language.moment(shown.expires_at),
        how = words.how,
        label = words.code_label,
        code = escaped(code),
        copy = words.copy,
    )
}

/// What is shown when there is no page to show.
pub(super) fn refusal(language: Language, status: StatusCode) -> String {
    let words = language.words();
    let busy = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let (title, why) = match status {
        StatusCode::NOT_FOUND => (words.not_found, words.not_found_why),
        _ if busy => (words.busy, words.busy_why),
        _ => (words.wrong, words.wrong_why),
    };
    let body = format!("<main>\n<h1>{title}</h1>\n<p>{why}</p>\n</main>\n");
    let refresh = format!("<meta http-equiv=\"refresh\" content=\"{REFRESH_SECONDS}\">\n");
    document(language, title, if busy { &refresh } else { "" }, &body)
}

fn document(language: Language, title: &str, refresh: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"robots\" content=\"noindex\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n{refresh}</head>\n\
         <body>\n{body}</body>\n</html>\n",
        language.tag()
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pix_domain::money::Cents;

    use super::*;

    fn shown(stage: Stage) -> Shown {
        Shown {
            stage,
            amount: Cents::new(123_450).unwrap(),
            received: None,
            code: Some("000201<b>&\"'".into()),
            receiver: Some("ANA & <script>FILHOS".into()),
            expires_at: Timestamp::from_micros(1_791_348_065_000_000),
        }
    }

    fn at(shown: &Shown, before: u64) -> Timestamp {
        Timestamp::from_micros(shown.expires_at.micros() - i64::try_from(before).unwrap() * 1_000_000)
    }

    #[test]
    fn what_others_wrote_is_text_and_never_markup() {
        let shown = shown(Stage::Pending);
        let page = charge(Language::Portuguese, &shown, at(&shown, 60));
        assert!(page.contains("<dd>ANA &amp; &lt;script&gt;FILHOS</dd>"), "{page}");
        assert!(page.contains(">000201&lt;b&gt;&amp;&quot;&#39;</textarea>"), "{page}");
        assert_eq!(page.matches("<script>").count(), 1);
        assert!(page.contains("data-left=\"60000\""));
    }

    #[test]
    fn each_state_says_what_it_is_and_only_a_live_one_can_be_paid() {
        let words = Language::Portuguese.words();
        for (stage, says, live) in [
            (Stage::Creating, words.creating, true),
            (Stage::Pending, words.pending, true),
            (Stage::Paid, words.paid, false),
            (Stage::Expired, words.expired, false),
            (Stage::Canceled, words.canceled, false),
            (Stage::Failed, words.failed, false),
        ] {
            let shown = shown(stage);
            let page = charge(Language::Portuguese, &shown, at(&shown, 60));
            assert!(page.contains(&format!("role=\"status\">{says}</p>")), "{page}");
            assert_eq!(page.contains("http-equiv=\"refresh\""), live, "{stage:?}");
            let payable = stage == Stage::Pending;
            assert_eq!(page.contains("<textarea"), payable, "{stage:?}");
            assert_eq!(page.contains("<svg"), payable, "{stage:?}");
        }
    }

    #[test]
    fn past_its_time_a_live_charge_is_not_offered_any_more() {
        let shown = shown(Stage::Pending);
        let now = shown.expires_at.plus(Duration::from_secs(1));
        for moment in [shown.expires_at, now] {
            let page = charge(Language::English, &shown, moment);
            assert!(page.contains(Language::English.words().over) && !page.contains("<textarea"), "{page}");
            assert!(page.contains("data-left=\"0\"") && page.contains("http-equiv=\"refresh\""));
        }
    }

    #[test]
    fn another_amount_that_came_in_is_told() {
        let paid = Shown { received: Cents::new(100), ..shown(Stage::Paid) };
        let page = charge(Language::English, &paid, at(&paid, 60));
        assert!(page.contains("<dt>Amount received</dt><dd>R$\u{a0}1.00</dd>"), "{page}");
        let paid = Shown { received: Some(paid.amount), ..paid };
        assert!(!charge(Language::English, &paid, at(&paid, 60)).contains("received</dt>"));
    }

    #[test]
    fn a_code_that_is_too_long_for_a_picture_is_still_there_to_copy() {
        let long = Shown { code: Some("x".repeat(3_000)), receiver: None, ..shown(Stage::Pending) };
        let page = charge(Language::English, &long, at(&long, 60));
        assert!(!page.contains("<svg") && page.contains(&"x".repeat(3_000)), "{page}");
        assert!(!page.contains("<dt>To</dt>"));
    }

    #[test]
    fn the_policy_allows_the_very_script_and_style_of_the_page() {
        let page = refusal(Language::English, StatusCode::NOT_FOUND);
        let style = page.split("<style>").nth(1).unwrap().split("</style>").next().unwrap();
        let digest = STANDARD.encode(Sha256::digest(style));
        assert!(POLICY.contains(&format!("style-src 'sha256-{digest}'")), "{}", *POLICY);
        assert!(!SCRIPT.contains("</") && !STYLE.contains("</"), "an end tag would cut it");
    }
}
