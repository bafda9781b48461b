//! What each error means, for a person: `/errors/{name}`, where the `type` of a problem leads (RFC 9457 §3.1.1 has it name the kind
//! of problem, and §4 asks for documentation there). The same for everybody, without a token, for errors of either generation.
//!
//! What is said here stands in docs/API.md and docs/pt-BR/API.md too; a test compares them.

use std::fmt::Write;
use std::sync::LazyLock;

use actix_web::http::header::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::description::Asset;
use crate::error::{ApiError, TITLES, slug};
use crate::extract::{Answer, Call};
use crate::html::{escaped, line};
use crate::language::Language;

const STYLE: &str = include_str!("meanings/style.css");

/// One thing that some codes stand for.
struct Meaning {
    status: u16,
    codes: &'static [&'static str],
    /// In English and Portuguese.
    when: [&'static str; 2],
    /// Whether the request may be sent again: in English and Portuguese.
    again: [&'static str; 2],
}

const fn of(
    status: u16,
    codes: &'static [&'static str],
    when: [&'static str; 2],
    again: [&'static str; 2],
) -> Meaning {
    Meaning { status, codes, when, again }
}

const NO: [&str; 2] = ["no", "não"];
const YES: [&str; 2] = ["yes", "sim"];
const LATER: [&str; 2] = ["later", "mais tarde"];
const SAME_HANDLE: [&str; 2] = ["yes, with the same handle", "sim, com a mesma chave de idempotência"];
const OTHER_HANDLE: [&str; 2] = ["with another handle", "com outra chave de idempotência"];

/// All of them, in the order of the documents.
const MEANINGS: [Meaning; 29] = [
    of(
        400,
        &["malformed_request"],
        [
            "not a JSON object; a field, a parameter of the query, `Authorization` or `Idempotency-Key` twice; not UTF-8",
            "não é um objeto JSON; um campo, um parâmetro da consulta, `Authorization` ou `Idempotency-Key` em duplicidade; não é UTF-8",
        ],
        NO,
    ),
    of(
        400,
        &["unsupported_grant_type"],
        [
            "token endpoint: `grant_type` is there and is not `client_credentials`",
            "endpoint de token: `grant_type` está presente e não é `client_credentials`",
        ],
        NO,
    ),
    of(
        401,
        &["invalid_credentials"],
        [
            "token endpoint: no key, an unknown one, a wrong secret, or one that is revoked or over",
            "endpoint de token: nenhuma chave, uma desconhecida, um segredo errado, ou uma chave revogada ou vencida",
        ],
        NO,
    ),
    of(
        401,
        &["invalid_token", "expired_token"],
        [
            "no token, one that isn't of this gateway or whose key is revoked; one whose time is over",
            "nenhum token, um que não é deste gateway ou cuja chave foi revogada; um que já venceu",
        ],
        ["with a new token", "com um token novo"],
    ),
    of(
        403,
        &["insufficient_scope"],
        [
            "the key isn't good for that: `WWW-Authenticate` names the scope",
            "a chave não pode fazer isso: `WWW-Authenticate` diz o escopo que falta",
        ],
        NO,
    ),
    of(
        403,
        &["ip_not_allowed"],
        ["the key may not be used from this address", "a chave não pode ser usada a partir deste endereço"],
        NO,
    ),
    of(
        403,
        &["integrator_suspended"],
        [
            "money can't be sent, nor given to others by a split",
            "não é possível enviar dinheiro, nem dá-lo a outros por um split",
        ],
        NO,
    ),
    of(
        404,
        &["not_found"],
        [
            "also what belongs to another integrator, and unknown paths",
            "também o que pertence a outro integrador, e caminhos desconhecidos",
        ],
        NO,
    ),
    of(405, &["method_not_allowed"], ["with `Allow`", "com `Allow`"], NO),
    of(408, &["request_timeout"], ["the body came too slowly", "o corpo chegou devagar demais"], YES),
    of(
        409,
        &["external_id_conflict"],
        [
            "the name stands for something else; or names both a charge and a withdrawal",
            "o nome já designa outra coisa; ou designa ao mesmo tempo uma cobrança e um saque",
        ],
        NO,
    ),
    of(
        409,
        &["possible_duplicate"],
        [
            "a withdrawal or refund without a handle is just like another one: see idempotency",
            "um saque ou uma devolução sem chave de idempotência é igual a outro: veja idempotência",
        ],
        ["with a handle, if it is another one", "com uma chave de idempotência, se for outra operação"],
    ),
    of(
        409,
        &["invalid_state"],
        [
            "such as a refund of what isn't paid, a picture of a code that isn't there, a receipt of what isn't done",
            "como a devolução do que não foi pago, a imagem de um código que não existe, ou o comprovante do que não foi concluído",
        ],
        NO,
    ),
    of(
        409,
        &["invalid_state"],
        ["a charge with a split while something is owed", "uma cobrança com split enquanto houver dívida"],
        LATER,
    ),
    of(413, &["payload_too_large"], ["more than 64 KiB", "mais de 64 KiB"], NO),
    of(
        422,
        &["validation_failed", "invalid_amount", "invalid_pix_key"],
        [
            "`invalid_amount` or `invalid_pix_key` when that is the only problem, else `validation_failed`; in v1 read `errors`",
            "`invalid_amount` ou `invalid_pix_key` quando esse é o único problema, senão `validation_failed`; na v1 leia `errors`",
        ],
        NO,
    ),
    of(
        422,
        &["idempotency_mismatch"],
        [
            "the `Idempotency-Key` was used for another request",
            "a `Idempotency-Key` já foi usada em outra requisição",
        ],
        NO,
    ),
    of(
        422,
        &["insufficient_balance"],
        [
            "less available than amount and fee; always so while something is owed",
            "o disponível é menor que valor e tarifa; sempre assim enquanto houver dívida",
        ],
        LATER,
    ),
    of(
        422,
        &["limit_exceeded"],
        ["it would pass a limit, which `limit` names", "ultrapassaria um limite, que `limit` nomeia"],
        ["when the limit lets it", "quando o limite permitir"],
    ),
    of(
        422,
        &["refund_exceeds_paid", "refund_window_closed"],
        [
            "more than is left; more than 90 days after the payment",
            "mais do que resta; mais de 90 dias depois do pagamento",
        ],
        NO,
    ),
    of(
        422,
        &["provider_rejected"],
        [
            "refused for good; `providerCode` says why. v1 gives the `uuid` of what is `failed` now",
            "recusado em definitivo; `providerCode` diz por quê. A v1 dá o `uuid` do que agora está `failed`",
        ],
        OTHER_HANDLE,
    ),
    of(
        406,
        &["provider_rejected"],
        ["the same for `POST /v2/pix/payment`", "o mesmo, em `POST /v2/pix/payment`"],
        OTHER_HANDLE,
    ),
    of(
        406,
        &["not_acceptable"],
        ["a receipt in a form that receipts don't come in", "um comprovante numa forma em que não existe"],
        ["with another `Accept`", "com outro `Accept`"],
    ),
    of(
        429,
        &["rate_limited"],
        [
            "too many requests: `Retry-After` says when to come back",
            "requisições demais: `Retry-After` diz quando voltar",
        ],
        YES,
    ),
    of(
        431,
        &["headers_too_large"],
        ["more than 16 KiB of header fields", "mais de 16 KiB de cabeçalhos"],
        NO,
    ),
    of(
        500,
        &["internal"],
        [
            "something went wrong here; the operator finds it by `requestId`",
            "algo deu errado aqui; o operador o encontra por `requestId`",
        ],
        SAME_HANDLE,
    ),
    of(
        503,
        &["overloaded"],
        [
            "too much to do, or the store can't be used; `Retry-After`",
            "há trabalho demais, ou o armazenamento está inacessível; `Retry-After`",
        ],
        YES,
    ),
    of(
        503,
        &["provider_unavailable"],
        ["charges: nothing was sent; `Retry-After`", "cobranças: nada foi enviado; `Retry-After`"],
        YES,
    ),
    of(
        504,
        &["provider_timeout"],
        ["charges: no usable answer in time", "cobranças: nenhuma resposta utilizável a tempo"],
        SAME_HANDLE,
    ),
];

/// What frames the meanings, in a language.
struct Frame {
    status: &'static str,
    when: &'static str,
    again: &'static str,
    interface: &'static str,
}

const ENGLISH: Frame =
    Frame { status: "Status", when: "When", again: "Send again?", interface: "The whole interface" };

const PORTUGUESE: Frame = Frame {
    status: "Status",
    when: "Quando",
    again: "Repetir?",
    interface: "A interface inteira (em inglês)",
};

/// What is said in a language.
const fn in_words([english, portuguese]: [&'static str; 2], language: Language) -> &'static str {
    match language {
        Language::English => english,
        Language::Portuguese => portuguese,
    }
}

/// The pages, each with its name and language.
static PAGES: LazyLock<Vec<(String, Language, Asset)>> = LazyLock::new(|| {
    let named = TITLES.iter().flat_map(|(code, title)| {
        [Language::English, Language::Portuguese].map(|language| {
            (slug(code), language, Asset::page(page(language, code, title), policy(), Some(language)))
        })
    });
    named.collect()
});

/// The page of the error that the path names.
pub(crate) async fn show(call: Call) -> Answer {
    let name = call.path_part().await;
    find(&name, call.http.headers())
        .map(|page| page.answer(call.http.headers()))
        .ok_or_else(ApiError::not_found)
}

fn find(name: &str, headers: &HeaderMap) -> Option<&'static Asset> {
    let wanted = Language::of(headers, Language::English);
    PAGES.iter().find(|(slug, language, _)| slug == name && *language == wanted).map(|(_, _, page)| page)
}

/// What a page may load: its own style, by its digest, and nothing else (Content Security Policy, level 3).
fn policy() -> String {
    let digest = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

fn page(language: Language, code: &str, title: &str) -> String {
    let Frame { status, when, again, interface } = match language {
        Language::English => ENGLISH,
        Language::Portuguese => PORTUGUESE,
    };
    let title = escaped(&language.say(title));
    let mut rows = String::new();
    for meaning in MEANINGS.iter().filter(|meaning| meaning.codes.contains(&code)) {
        let _ = writeln!(
            rows,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            meaning.status,
            line(in_words(meaning.when, language)),
            line(in_words(meaning.again, language))
        );
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
         <p><code>{code}</code></p>\n<table>\n<thead><tr><th scope=\"col\">{status}</th><th scope=\"col\">{when}</th>\
         <th scope=\"col\">{again}</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n\
         <p><a href=\"../docs\">{interface}</a></p>\n</main>\n</body>\n</html>\n",
        language.tag()
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use actix_web::http::header::{ACCEPT_LANGUAGE, HeaderValue};

    use super::*;

    /// A text of a document without the addresses of its links.
    fn plain(cell: &str) -> String {
        let mut text = String::new();
        let mut rest = cell.trim();
        while let Some((before, after)) = rest.split_once('[') {
            let (words, after) = after.split_once("](").unwrap();
            let (_, after) = after.split_once(')').unwrap();
            text = text + before + words;
            rest = after;
        }
        text + rest
    }

    #[test]
    fn the_documents_say_the_same() {
        for (language, document, heading) in [
            (Language::English, "docs/API.md", "## Errors"),
            (Language::Portuguese, "docs/pt-BR/API.md", "## Erros"),
        ] {
            let path = format!("{}/../../{document}", env!("CARGO_MANIFEST_DIR"));
            let text = fs::read_to_string(path).unwrap();
            let section = text.split(heading).nth(1).unwrap().split("\n## ").next().unwrap();
            let documented: Vec<[String; 4]> = section
                .lines()
                .filter(|line| line.starts_with("| 4") || line.starts_with("| 5"))
                .map(|line| {
                    let cells: Vec<_> = line.trim_matches('|').split('|').map(plain).collect();
                    cells.try_into().unwrap()
                })
                .collect();
            let meant: Vec<[String; 4]> = MEANINGS
                .iter()
                .map(|meaning| {
                    let codes: Vec<_> = meaning.codes.iter().map(|code| format!("`{code}`")).collect();
                    let (when, again) = (in_words(meaning.when, language), in_words(meaning.again, language));
                    [meaning.status.to_string(), codes.join(", "), when.to_owned(), again.to_owned()]
                })
                .collect();
            assert_eq!(documented, meant, "{document}");
        }
    }

    #[test]
    fn every_code_has_a_page_and_no_other() {
        let told: BTreeSet<_> = MEANINGS.iter().flat_map(|meaning| meaning.codes).copied().collect();
        let all: BTreeSet<_> = TITLES.iter().map(|(code, _)| *code).collect();
        assert_eq!(told, all);
        let mut headers = HeaderMap::new();
        for code in all {
            assert!(find(&slug(code), &headers).is_some(), "{code}");
        }
        for other in ["", "validation-failed", "NOT-FOUND", "not_found", "error"] {
            assert!(find(other, &headers).is_none(), "{other}");
        }
        headers.insert(ACCEPT_LANGUAGE, HeaderValue::from_static("pt-BR"));
        assert!(find("not-found", &headers).is_some());
    }
}
