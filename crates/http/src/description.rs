//! `/openapi.json` and `/docs`: the description of the interface, the same for everybody, without a token.

use std::sync::LazyLock;

use actix_web::http::StatusCode;
use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, ETAG, HeaderMap, IF_NONE_MATCH, VARY,
};
use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::extract::Answer;
use crate::language::Language;
use crate::openapi::{self, page};

/// How long it may be kept without asking, by whom it may be kept.
const KEPT: &str = "public, max-age=300";

/// How many bytes of a digest an `ETag` shows.
const TAG_BYTES: usize = 16;

/// What is answered alike each time.
pub(crate) struct Asset {
    content_type: &'static str,
    policy: Option<String>,
    /// Of what there is in several.
    language: Option<Language>,
    tag: String,
    body: Bytes,
}

static DOCUMENT: LazyLock<Asset> = LazyLock::new(|| Asset {
    content_type: "application/json",
    policy: None,
    language: None,
    tag: tag(openapi::document()),
    body: Bytes::from_static(openapi::document().as_bytes()),
});

static PAGE: LazyLock<Asset> = LazyLock::new(|| Asset::page(page::html().to_owned(), page::policy(), None));

/// The `OpenAPI` document.
pub(crate) async fn document(request: HttpRequest) -> Answer {
    Ok(DOCUMENT.answer(request.headers()))
}

/// The same to be read.
pub(crate) async fn page(request: HttpRequest) -> Answer {
    Ok(PAGE.answer(request.headers()))
}

impl Asset {
    /// A page of HTML that may load what `policy` says, one of several of which this is in `language`.
    pub(crate) fn page(html: String, policy: String, language: Option<Language>) -> Self {
        let tag = tag(&html);
        Self {
            content_type: "text/html; charset=utf-8",
            policy: Some(policy),
            language,
            tag,
            body: html.into(),
        }
    }

    pub(crate) fn answer(&self, headers: &HeaderMap) -> HttpResponse {
        let known = headers.get_all(IF_NONE_MATCH).filter_map(|value| value.to_str().ok());
        let unchanged = known.flat_map(|value| value.split(',')).any(|tag| self.is(tag.trim()));
        let status = if unchanged { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
        let mut answer = HttpResponse::build(status);
        answer.insert_header((ETAG, self.tag.as_str())).insert_header((CACHE_CONTROL, KEPT));
        if let Some(policy) = &self.policy {
            answer.insert_header((CONTENT_SECURITY_POLICY, policy.as_str()));
        }
        if let Some(language) = self.language {
            answer.insert_header((CONTENT_LANGUAGE, language.tag())).insert_header((VARY, "Accept-Language"));
        }
        if unchanged {
            answer.finish()
        } else {
            answer.content_type(self.content_type).body(self.body.clone())
        }
    }

    /// RFC 9110 §13.1.2: weak comparison, and `*` is anything.
    fn is(&self, tag: &str) -> bool {
        tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == self.tag
    }
}

fn tag(body: &str) -> String {
    let digest = Sha256::digest(body.as_bytes());
    format!("\"{}\"", URL_SAFE_NO_PAD.encode(digest.get(..TAG_BYTES).unwrap_or(&digest)))
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    fn status(asked: &[&str]) -> u16 {
        let mut headers = HeaderMap::new();
        for tag in asked {
            headers.append(IF_NONE_MATCH, HeaderValue::from_str(tag).unwrap());
        }
        DOCUMENT.answer(&headers).status().as_u16()
    }

    #[test]
    fn who_has_it_isnt_sent_it_again() {
        let tag = &DOCUMENT.tag;
        for known in [tag.clone(), format!("W/{tag}"), format!("\"a\", {tag}"), "*".to_owned()] {
            assert_eq!(status(&[&known]), 304, "{known}");
        }
        assert_eq!(status(&["\"a\"", tag]), 304);
        for other in [&[][..], &["\"a\""], &[""], &[&tag[1..]]] {
            assert_eq!(status(other), 200, "{other:?}");
        }
    }
}
