//! Errors, in the form of either generation.

use utoipa::ToSchema;

use super::scalars::Id;
use super::v1::LimitName;

/// An error of v2, and of whatever is outside of v1.
#[derive(ToSchema)]
#[schema(as = V2Error)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct V2Error {
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599, example = 422)]
    statusCode: u16,
    /// What is wrong, for people. No value that was sent, and no personal data.
    #[schema(example = "amount must have at most 2 decimals")]
    message: String,
    /// What is wrong, for programs.
    #[schema(example = "invalid_amount")]
    code: String,
    /// What to tell the operator.
    #[schema(min_length = 1, max_length = 128)]
    requestId: String,
    /// At the token endpoint: the error's name in RFC 6749.
    #[schema(example = "invalid_client", required = false)]
    error: String,
    /// Of `provider_rejected`: why, in the provider's words or ours.
    #[schema(example = "invalid_key", required = false)]
    providerCode: String,
    /// Of `possible_duplicate`: what this one is just like.
    #[schema(required = false)]
    uuid: Id,
    /// Of `limit_exceeded`: which limit.
    #[schema(required = false)]
    limit: LimitName,
}

/// An error of v1: problem details of RFC 9457.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct Problem {
    /// Which kind of problem, as a URI.
    #[schema(format = "uri", example = "https://pix.example/errors/validation")]
    r#type: String,
    /// The kind in words.
    #[schema(example = "Validation failed")]
    title: String,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599, example = 422)]
    status: u16,
    /// What is wrong, for people. No value that was sent, and no personal data.
    #[schema(example = "amount must be greater than zero")]
    detail: String,
    /// What is wrong, for programs.
    #[schema(example = "validation_failed")]
    code: String,
    /// What to tell the operator.
    #[schema(min_length = 1, max_length = 128)]
    requestId: String,
    /// Of `validation_failed`, `invalid_amount` and `invalid_pix_key`: all that is wrong with the fields.
    #[schema(min_items = 1, required = false)]
    errors: Vec<FieldProblem>,
    /// Of `provider_rejected`: why, in the provider's words or ours.
    #[schema(example = "invalid_key", required = false)]
    providerCode: String,
    /// Of `possible_duplicate`: what this one is just like. Of `provider_rejected`: what is `failed` now.
    #[schema(required = false)]
    uuid: Id,
    /// Of `limit_exceeded`: which limit.
    #[schema(required = false)]
    limit: LimitName,
    /// Of `external_id_conflict` of a consultation: the transactions that the name stands for.
    #[schema(min_items = 2, required = false)]
    uuids: Vec<Id>,
}

/// What is wrong with one field.
#[derive(ToSchema)]
pub(in crate::openapi) struct FieldProblem {
    /// Its name, with the names of the objects around it.
    #[schema(example = "creditParty.keyType")]
    field: String,
    /// `required`, `invalid_type`, `invalid_format`, `invalid_characters`, `invalid_amount`, `too_long`, `unknown_value`,
    /// `check_digits`, `mismatch`; of a URL also `not_a_url`, `scheme_not_allowed`,
    /// `address_not_public`, `name_not_public`, `name_not_valid`, `port_not_allowed`, `ambiguous_host`.
    #[schema(example = "unknown_value")]
    code: String,
    /// A sentence that names the field.
    message: String,
}
