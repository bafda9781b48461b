//! Receipts (`comprovantes`) of what is done: one sheet, as HTML that prints on one page, or as PDF.
//!
//! A receipt goes from hand to hand, so it shows names, and of documents and keys as much as a bank's does. It says what is
//! known of the PIX itself, and nothing of the integrator's: no fee, no balance, no metadata.
//!
//! | Module | Room |
//! |---|---|
//! | [`sheet`] | what a receipt says, in Portuguese or English |
//! | [`html`] | the sheet as a page |
//! | [`pdf`] | the sheet as a PDF, with the fonts that every reader has |
//! | [`font`] | which characters those have, and how wide they are |

mod font;
mod html;
mod pdf;
mod sheet;

use actix_web::HttpResponse;
use actix_web::http::header::{
    ACCEPT, CONTENT_DISPOSITION, CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, HeaderMap, VARY,
};
use uuid::Uuid;

use crate::error::ApiError;
use crate::extract::Answer;
use crate::language::quality;
pub(crate) use sheet::{Sheet, of_charge, of_withdrawal};

/// The most ranges of `Accept` that are looked at.
const MAX_RANGES: usize = 32;

/// What a receipt can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Html,
    Pdf,
}

impl Form {
    /// The one that is asked for most (RFC 9110 §12.5.1); HTML, when both are or nothing is said. `None` when neither is
    /// taken.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let fields = headers.get_all(ACCEPT).filter_map(|value| value.to_str().ok());
        let ranges: Vec<&str> = fields.flat_map(|value| value.split(',')).take(MAX_RANGES).collect();
        if ranges.is_empty() {
            return Some(Self::Html);
        }
        let (html, pdf) = (wanted(&ranges, "text", "html"), wanted(&ranges, "application", "pdf"));
        match (html, pdf) {
            (0, 0) => None,
            _ if pdf > html => Some(Self::Pdf),
            _ => Some(Self::Html),
        }
    }
}

/// How much a media type is wanted, in thousandths: the nearest range says it.
fn wanted(ranges: &[&str], kind: &str, subtype: &str) -> u16 {
    let rank = |range: &&str| -> Option<(u8, u16)> {
        let (name, parameters) = range.split_once(';').unwrap_or((*range, ""));
        let (of_kind, of_subtype) = name.trim().split_once('/')?;
        let nearness = match (of_kind, of_subtype) {
            ("*", "*") => 1,
            (of_kind, "*") if of_kind.eq_ignore_ascii_case(kind) => 2,
            (of_kind, of_subtype)
                if of_kind.eq_ignore_ascii_case(kind) && of_subtype.eq_ignore_ascii_case(subtype) =>
            {
                3
            }
            _ => return None,
        };
        Some((nearness, quality(parameters.split(';'))))
    };
    ranges.iter().filter_map(rank).max().map_or(0, |(_, quality)| quality)
}

/// A sheet, in the form that is asked for.
pub(crate) fn answer(headers: &HeaderMap, id: Uuid, sheet: &Sheet) -> Answer {
    let form = Form::of(headers).ok_or_else(|| ApiError::not_acceptable(OFFERED))?;
    let mut answer = HttpResponse::Ok();
    answer
        .insert_header((CONTENT_LANGUAGE, sheet.language.tag()))
        .insert_header((VARY, "Accept, Accept-Language"));
    Ok(match form {
        Form::Html => answer
            .content_type("text/html; charset=utf-8")
            .insert_header((CONTENT_SECURITY_POLICY, html::POLICY.as_str()))
            .body(html::page(sheet)),
        Form::Pdf => {
            let file = pdf::file(sheet).ok_or_else(|| ApiError::not_acceptable(UNWRITABLE))?;
            answer
                .content_type("application/pdf")
                .insert_header((CONTENT_DISPOSITION, format!("inline; filename=\"receipt-{id}.pdf\"")))
                .body(file)
        }
    })
}

const OFFERED: &str = "a receipt comes as text/html or application/pdf";

const UNWRITABLE: &str = "this receipt has characters that its PDF can't show; it comes as text/html";

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;
    use crate::language::Language;

    fn form(accepts: &[&str]) -> Option<Form> {
        let mut headers = HeaderMap::new();
        for accept in accepts {
            headers.append(ACCEPT, HeaderValue::from_str(accept).unwrap());
        }
        Form::of(&headers)
    }

    #[test]
    fn the_form_is_the_one_that_is_asked_for_most() {
        for accept in [
            "*/*",
            "text/html",
            "text/*",
            "text/html, application/pdf, application/problem+json",
            "application/pdf;q=0.5, text/html;q=0.6",
            "application/json, */*;q=0.1",
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            "application/pdf;q=0, */*",
            "TEXT/HTML; charset=utf-8",
        ] {
            assert_eq!(form(&[accept]), Some(Form::Html), "{accept}");
        }
        for accept in [
            "application/pdf",
            "Application/PDF",
            "application/pdf, */*;q=0.5",
            "application/*",
            "text/html;q=0.2, application/pdf;q=0.7",
            "*/*;q=0.9, text/html;q=0.1",
        ] {
            assert_eq!(form(&[accept]), Some(Form::Pdf), "{accept}");
        }
        for accept in ["application/json", "image/*", "text/html;q=0", "*/*;q=0", "nothing", "text/html;q=2"]
        {
            assert_eq!(form(&[accept]), None, "{accept}");
        }
        assert_eq!(form(&[]), Some(Form::Html));
        assert_eq!(form(&["image/png", "application/pdf"]), Some(Form::Pdf));
    }

    #[test]
    fn what_is_not_offered_is_told_in_both_languages() {
        for sentence in [OFFERED, UNWRITABLE, sheet::NO_WITHDRAWAL, sheet::NO_CHARGE] {
            assert_ne!(Language::Portuguese.say(sentence), sentence);
        }
    }
}
