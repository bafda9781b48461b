//! The classic v2 endpoints of the family: liberal in what they take, success is exactly 200, and what the provider
//! answered passes through under the contract's own fields.

pub(crate) mod balance;
pub(crate) mod consult;
pub(crate) mod payment;
pub(crate) mod qrcode;
pub(crate) mod refund;
pub(crate) mod transaction;

use pix_domain::error::ServiceError;
use pix_domain::text::ExternalId;

use crate::error::ApiError;
use crate::fields::{Form, Problems};

/// The longest `pix_id` that can name anything.
const MAX_PIX_ID_CHARS: usize = 128;

/// The integrator's own name, or nothing: never one made by us, never `null`.
fn own_name(external_id: &ExternalId, given: bool) -> &str {
    if given { external_id.as_str() } else { "" }
}

/// The `pix_id` of a body, in either of its spellings.
fn pix_id(form: &Form<'_>, problems: &mut Problems) -> Option<String> {
    let mut read = |name| {
        let text = form.optional(name, |text| Ok(Some(text.trim().to_owned())), problems);
        text.filter(|text| !text.is_empty())
    };
    let id = read("pix_id").or_else(|| read("pix_Id"));
    if id.is_none() {
        problems.add("pix_id", "required", "pix_id is required");
        return None;
    }
    id
}

/// A text that no id can be names nothing, and is not worth a question to the store.
fn nameable(pix_id: String) -> Result<String, ApiError> {
    let fits = pix_id.len() <= MAX_PIX_ID_CHARS && pix_id.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { Ok(pix_id) } else { Err(ServiceError::NotFound.into()) }
}
