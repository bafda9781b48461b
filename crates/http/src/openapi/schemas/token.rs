//! The token endpoint, and whether the service runs.

use utoipa::ToSchema;

/// The same fields in each form of a body. Each has a name of its own: generators of clients tell them apart by it.
macro_rules! credentials {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(ToSchema)]
        pub(in crate::openapi) struct $name {
            /// `client_credentials`, if it is there at all.
            #[schema(example = "client_credentials", pattern = "^(client_credentials)?$", required = false)]
            grant_type: String,
            /// The key's public id.
            #[schema(example = "pixpk_…", required = false)]
            public_id: String,
            /// The key's secret.
            #[schema(example = "pixsk_…", format = Password, required = false)]
            secret: String,
            /// Another name for `public_id`.
            #[schema(required = false)]
            client_id: String,
            /// Another name for `secret`.
            #[schema(format = Password, required = false)]
            client_secret: String,
            /// Changes nothing: a token is good for all that its key is. The answer then has a `scope`.
            #[schema(required = false)]
            scope: String,
        }
    };
}

credentials! {
    /// Credentials, as JSON. Everything may be left out when they are in the `Authorization` header; what is empty is left out.
    TokenRequest
}
credentials! {
    /// Credentials, as a form. Everything may be left out when they are in the `Authorization` header; what is empty is left out.
    TokenForm
}
credentials! {
    /// Credentials, as a form of several parts. Everything may be left out when they are in the `Authorization` header; what is empty is left out.
    TokenMultipart
}

/// An access token.
#[derive(ToSchema)]
#[expect(clippy::struct_field_names, reason = "as on the wire")]
pub(in crate::openapi) struct Token {
    /// For `Authorization: Bearer …`: a PASETO of version 4.
    #[schema(example = "v4.local.…")]
    access_token: String,
    /// `Bearer`.
    #[schema(pattern = "^Bearer$", example = "Bearer")]
    token_type: String,
    /// For how many seconds it is good.
    #[schema(minimum = 0, example = 3600)]
    expires_in: u32,
    /// What it is good for, if the request had a `scope`: names of scopes, with blanks between them.
    #[schema(example = "charges:write read", required = false)]
    scope: String,
}

/// Whether it runs.
#[derive(ToSchema)]
pub(in crate::openapi) struct Live {
    /// `live`.
    #[schema(pattern = "^live$", example = "live")]
    status: String,
}

/// Whether it can do its work.
#[derive(ToSchema)]
pub(in crate::openapi) struct Ready {
    /// `ready`.
    #[schema(pattern = "^ready$", example = "ready")]
    status: String,
}

/// It can't do its work.
#[derive(ToSchema)]
#[serde(untagged)]
pub(in crate::openapi) enum Unready {
    Store(Unavailable),
    Places(super::errors::V2Error),
}

/// The store doesn't answer.
#[derive(ToSchema)]
pub(in crate::openapi) struct Unavailable {
    /// `unavailable`.
    #[schema(pattern = "^unavailable$", example = "unavailable")]
    status: String,
}
