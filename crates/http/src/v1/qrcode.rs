//! `/api/v1/charges/{charge}/qrcode.svg` and `.png`.

use actix_web::HttpResponse;
use actix_web::http::header::{CACHE_CONTROL, ETAG, EntityTag, Header, IfNoneMatch, VARY};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pix_domain::charges::Charge;
use pix_domain::error::ServiceError;
use pix_domain::invalid::Invalid;
use sha2::{Digest, Sha256};

use super::{charges, list};
use crate::error::ApiError;
use crate::extract::{Answer, TenantCall};
use crate::qr::QrCode;

/// How many pixels a PNG is wide and high when nothing else is asked for.
pub(crate) const DEFAULT_SIZE: u32 = 512;
/// The fewest that may be asked for.
pub(crate) const MIN_SIZE: u32 = 128;
/// The most that may be asked for.
pub(crate) const MAX_SIZE: u32 = 1024;

/// For whoever asked, and not for long: what a charge's code is never changes, but who may see it does.
const CACHED: &str = "private, max-age=300";

/// What the SVG is, for whoever can't see it.
const LABEL: &str = "QR Code Pix";

/// The code as an SVG.
pub(crate) async fn svg(call: TenantCall) -> Answer {
    let charge = asked(&call).await?;
    let (text, code) = code(&charge)?;
    Ok(picture(&call, "image/svg+xml", &["svg", text], || code.svg(LABEL).into_bytes()))
}

/// The code as a PNG of `?size=` pixels.
pub(crate) async fn png(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let size = size(call.http.query_string())?;
    let charge = charges::named(&call, &caller, call.path_part().await).await?;
    let (text, code) = code(&charge)?;
    let file = code.png(size).ok_or_else(|| {
        let least = code.side();
        out_of_bounds(format!("size must be at least {least} for this code"))
    })?;
    Ok(picture(&call, "image/png", &["png", &size.to_string(), text], || file))
}

async fn asked(call: &TenantCall) -> Result<Charge, ApiError> {
    let caller = call.caller().await?;
    charges::named(call, &caller, call.path_part().await).await
}

/// The text of a charge's code, and the code. A charge that the provider has not made has none: it is there, but not in
/// a state to be paid.
fn code(charge: &Charge) -> Result<(&str, QrCode), ApiError> {
    let none = || ApiError::from(ServiceError::InvalidState("this charge has no QR code"));
    let text = charge.ticket.as_ref().map(|ticket| ticket.qrcode.as_str()).ok_or_else(none)?;
    let code = QrCode::of(text);
    code.map(|code| (text, code)).ok_or_else(none)
}

fn size(query: &str) -> Result<u32, ApiError> {
    let values = list::values(query)?;
    let Some(text) = values.get("size") else { return Ok(DEFAULT_SIZE) };
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let size = text.parse().ok().filter(|size| digits && (MIN_SIZE..=MAX_SIZE).contains(size));
    size.ok_or_else(|| out_of_bounds(format!("size must be a whole number from {MIN_SIZE} to {MAX_SIZE}")))
}

fn out_of_bounds(message: String) -> ApiError {
    ApiError::invalid_field("size", Invalid::INVALID_FORMAT, message)
}

/// The picture, or 304 to whoever has it: `what` it is made of says which one it is.
fn picture(
    call: &TenantCall,
    kind: &'static str,
    what: &[&str],
    file: impl FnOnce() -> Vec<u8>,
) -> HttpResponse {
    let digest = Sha256::digest(what.join("\n"));
    let tag = EntityTag::new_strong(URL_SAFE_NO_PAD.encode(digest));
    let known = match IfNoneMatch::parse(&call.http) {
        Ok(IfNoneMatch::Any) => true,
        Ok(IfNoneMatch::Items(tags)) => tags.iter().any(|known| known.weak_eq(&tag)),
        Err(_not_a_tag) => false,
    };
    let mut answer = if known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    answer
        .insert_header((ETAG, tag.to_string()))
        .insert_header((CACHE_CONTROL, CACHED))
        .insert_header((VARY, "Authorization"));
    if known { answer.finish() } else { answer.content_type(kind).body(file()) }
}
