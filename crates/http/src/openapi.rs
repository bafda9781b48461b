//! The description of the whole interface: an `OpenAPI` 3.1 document, generated from the code.
//!
//! Operations come from the table of routes; what is said of each stands in `operations`, and a test fails when one of the
//! two has what the other hasn't. Schemas are plain structs in `schemas`, with the bounds and words of the domain; the tests
//! hold every answer of the suite against them.

mod answers;
mod operations;
pub(crate) mod page;
mod parameters;
mod postman;
mod schemas;

pub use self::postman::collection as postman_collection;

use std::sync::LazyLock;
use std::time::Duration;

use pix_domain::credentials::Scope;
use utoipa::openapi::path::{
    HttpMethod, Operation as PathOperation, OperationBuilder, PathItem, PathItemBuilder, Paths, PathsBuilder,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::{ResponseBuilder, ResponsesBuilder};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::{Tag, TagBuilder};
use utoipa::openapi::{
    Components, ComponentsBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, Required,
    ServerBuilder,
};

use self::answers::{Kit, USUAL};
use self::operations::{Operation, PUBLIC, TENANT, Told};
use self::parameters::FIELDS;
use self::schemas::events::{Ping, Postback};
use crate::error::Generation;
use crate::routes::ENDPOINTS;

/// The name of the security scheme of access tokens.
const ACCESS_TOKEN: &str = "accessToken";
/// The name of the security scheme of the token endpoint.
const CLIENT_CREDENTIALS: &str = "clientCredentials";

static MODEL: LazyLock<OpenApi> = LazyLock::new(build);
static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    // It has no map with keys that aren't texts, which is all that could go wrong.
    let mut text = MODEL.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
});

/// The `OpenAPI` 3.1 document of the whole interface, as JSON: what `GET /openapi.json` answers and `pix-gateway openapi`
/// prints.
pub fn document() -> &'static str {
    &DOCUMENT
}

/// The operations with a tag, and what is sent to receivers.
fn tagged<'a>(model: &'a OpenApi, tag: &str) -> Vec<(&'static str, &'a str, &'a PathOperation)> {
    let methods = |item: &'a PathItem| {
        [("GET", item.get.as_ref()), ("POST", item.post.as_ref()), ("DELETE", item.delete.as_ref())]
    };
    let served = model.paths.paths.iter().flat_map(move |(path, item)| {
        methods(item).map(|(method, operation)| (method, path.as_str(), operation))
    });
    let sent = model.webhooks.iter().flat_map(|webhooks| &webhooks.paths);
    let sent = sent.map(|(name, item)| ("sent to you", name.as_str(), item.post.as_ref()));
    let has_it = |operation: &PathOperation| operation.tags.iter().flatten().any(|own| own == tag);
    let all = served.chain(sent).filter_map(|(method, path, operation)| Some((method, path, operation?)));
    all.filter(|(_, _, operation)| has_it(operation)).collect()
}

/// Whole seconds.
const fn seconds(duration: Duration) -> u64 {
    duration.as_secs()
}

fn build() -> OpenApi {
    let mut kit = Kit::default();
    let mut paths = Paths::new();
    for operation in &PUBLIC {
        add(&mut paths, &mut kit, operation, None);
    }
    for endpoint in &ENDPOINTS {
        let told = TENANT.iter().find(|told| (told.method, told.path) == (endpoint.method, endpoint.path));
        // One of which nothing is told fails a test.
        if let Some(operation) = told {
            add(&mut paths, &mut kit, operation, Some(endpoint.scope));
        }
    }
    let webhooks = webhooks(&mut kit);
    let license = LicenseBuilder::new().name("GPL-3.0-or-later").identifier(Some("GPL-3.0-or-later")).build();
    let info = InfoBuilder::new()
        .title("PIX gateway")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(ABOUT))
        .license(Some(license))
        .build();
    let here =
        ServerBuilder::new().url("/").description(Some("The gateway that this document comes from.")).build();
    OpenApiBuilder::new()
        .info(info)
        .servers(Some([here]))
        .paths(paths)
        .webhooks(Some(webhooks))
        .components(Some(components(kit)))
        .tags(Some(tags()))
        .build()
}

const ABOUT: &str = "\
A self-hosted PIX gateway: charges come in by QR code, withdrawals and refunds go out, and every centavo is in a ledger.

There are two generations, side by side, over the same records and the same wallet. **v1** (`/api/v1/…`) is strict, and \
answers errors as `application/problem+json`. **v2** (`/v2/…`) is the classic contract of Brazilian PIX gateways, as their \
clients speak it: liberal in what it takes, exactly 200 for success, and errors as `{statusCode, message, code, requestId}`.

A request that makes something has a handle, `external_id` or `Idempotency-Key`. When it got no answer, or a 5xx, send it again \
with the same handle, never with another one. Statuses, codes and fields are never renamed or removed; new ones may come.";

fn tags() -> Vec<Tag> {
    let tag =
        |name: &str, description: &str| TagBuilder::new().name(name).description(Some(description)).build();
    vec![
        tag("Authentication", "A key is traded for an access token, which every other call carries."),
        tag("Charges", "Money to come in, by a dynamic QR code."),
        tag("Refunds", "Money of a paid charge, sent back to who paid it."),
        tag("Withdrawals", "Money sent out of the wallet."),
        tag("Splits", "Parts of others' charges, paid into your wallet."),
        tag("Transactions", "Charges, withdrawals and refunds alike."),
        tag("Balance", "The wallet, and its book."),
        tag(
            "Payment page",
            "What a payer's browser is shown. It needs no token: whoever has the address may see it.",
        ),
        tag("Events", "What has happened, and what became of telling it."),
        tag("Postbacks", "The receivers of events, and what is sent to them."),
        tag("v2", "The classic contract of Brazilian PIX gateways, for clients that speak it."),
        tag("Health", "For whoever watches the service."),
        tag("Description", "This document."),
    ]
}

fn components(kit: Kit) -> Components {
    let scopes: Vec<String> = Scope::ALL.iter().map(|scope| format!("`{}`", scope.as_str())).collect();
    let access_token = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("PASETO v4.local")
        .description(Some(format!(
            "An access token of `POST /v2/oauth/token`. Each operation names the scope that the key must have, of {}.",
            scopes.join(", ")
        )))
        .build();
    let client_credentials = HttpBuilder::new()
        .scheme(HttpAuthScheme::Basic)
        .description(Some("The key's `public_id` and `secret`. At the token endpoint alone."))
        .build();
    let mut components = ComponentsBuilder::new()
        .schemas_from_iter(kit.schemas)
        .responses_from_iter(kit.responses)
        .security_scheme(ACCESS_TOKEN, SecurityScheme::Http(access_token))
        .security_scheme(CLIENT_CREDENTIALS, SecurityScheme::Http(client_credentials));
    for field in &FIELDS {
        components = components.header(field.name, field.header());
    }
    components.build()
}

fn add(paths: &mut Paths, kit: &mut Kit, operation: &Operation, scope: Option<Scope>) {
    let told = (operation.told)(kit);
    let generation = if operation.path.starts_with("/api/") { Generation::V1 } else { Generation::V2 };
    let method = match operation.method {
        "POST" => HttpMethod::Post,
        "DELETE" => HttpMethod::Delete,
        _ => HttpMethod::Get,
    };
    let refusals = refusals(&told, operation.method, scope);
    let token = operation.path == "/v2/oauth/token";
    let limited = scope.is_some() || token || operation.path.starts_with("/pay/");
    let mut responses = ResponsesBuilder::new();
    let mut all: Vec<_> =
        told.answers.iter().map(|(status, answer)| (*status, answer.clone().into())).collect();
    for (status, codes) in refusals {
        if !all.iter().any(|(taken, _)| *taken == status) {
            all.push((status, kit.refusal(generation, status, codes, limited)));
        }
    }
    all.sort_by_key(|(status, _)| *status);
    for (status, response) in all {
        responses = responses.response(status.to_string(), response);
    }

    let in_path = operation
        .path
        .split('/')
        .filter_map(|segment| parameters::in_path(segment.strip_prefix('{')?.strip_suffix('}')?));
    let of_all = [parameters::request_id()];
    let mut description = told.description;
    let mut built = OperationBuilder::new()
        .operation_id(Some(told.id))
        .tag(told.tag)
        .summary(Some(told.summary))
        .request_body(told.body)
        .responses(responses.build())
        .parameters(Some(in_path.chain(told.parameters).chain(of_all)));
    built = match scope {
        Some(scope) => {
            description = format!("{description}\n\nNeeds the scope `{}`.", scope.as_str());
            built.security(SecurityRequirement::new(ACCESS_TOKEN, [scope.as_str()]))
        }
        None if token => built
            .security(SecurityRequirement::new(CLIENT_CREDENTIALS, [""; 0]))
            .security(SecurityRequirement::default()),
        None => built,
    };
    paths.add_path_operation(operation.path, vec![method], built.description(Some(description)).build());
}

/// What an operation may be refused for: what it says itself, and what every operation of its kind may be.
fn refusals(told: &Told, method: &str, scope: Option<Scope>) -> Vec<(u16, &'static [&'static str])> {
    let of_all: &[u16] = &[431, 500];
    let of_tenants: &[u16] = if scope.is_some() { &[400, 401, 403, 429, 503] } else { &[] };
    let of_bodies: &[u16] = if method == "POST" { &[408, 413] } else { &[] };
    let usual = USUAL.iter().filter(|(status, _)| {
        [of_all, of_tenants, of_bodies].iter().any(|statuses| statuses.contains(status))
    });
    let mut refusals = told.refusals.clone();
    for (status, codes) in usual {
        if !refusals.iter().any(|(told, _)| told == status) {
            refusals.push((*status, codes));
        }
    }
    refusals
}

/// What the gateway sends to a `postbackUrl`.
fn webhooks(kit: &mut Kit) -> Paths {
    let taken = |description: &str| ResponseBuilder::new().description(description).build();
    let responses = || {
        ResponsesBuilder::new()
            .response("2XX", taken("It is taken."))
            .response("410", taken("Nothing more is sent to this URL, whatever its query."))
            .response("429", taken("It is sent again, after `Retry-After` if that is longer."))
            .response("503", taken("It is sent again, after `Retry-After` if that is longer."))
            .response(
                "default",
                taken("It is sent again: ten attempts within four days. Redirects are not followed."),
            )
            .build()
    };
    let item = |id: &str, summary: &str, description: &str, body| -> PathItem {
        let operation = OperationBuilder::new()
            .operation_id(Some(id))
            .tag("Postbacks")
            .summary(Some(summary))
            .description(Some(description))
            .parameters(Some(parameters::of_postback()))
            .request_body(Some(body))
            .responses(responses())
            .build();
        PathItemBuilder::new().operation(HttpMethod::Post, operation).build()
    };
    let body = |content| {
        RequestBodyBuilder::new().content("application/json", content).required(Some(Required::True)).build()
    };
    let postback = body(kit.content::<Postback>(&[]));
    let ping = body(kit.content::<Ping>(&[]));
    PathsBuilder::new()
        .path(
            "postback",
            item(
                "receivePostback",
                "An event has happened",
                "Sent to the `postbackUrl` of the charge or withdrawal, or of a split to the one that `setSplitPostback` has set; at \
                 least once, and in order for each of them. Compute the signature over the bytes as they came, before any JSON is \
                 read. An answer has 15 seconds.",
                postback,
            ),
        )
        .path(
            "ping",
            item(
                "receivePing",
                "A URL is tried out",
                "Sent by `testPostback`, once. It names no transaction.",
                ping,
            ),
        )
        .build()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn everything_that_is_served_is_told_of_and_nothing_else() {
        let served: BTreeSet<_> = ENDPOINTS.iter().map(|endpoint| (endpoint.method, endpoint.path)).collect();
        let told: BTreeSet<_> = TENANT.iter().map(|told| (told.method, told.path)).collect();
        let untold: Vec<_> = served.difference(&told).collect();
        assert!(untold.is_empty(), "say in openapi/operations.rs what these do: {untold:?}");
        let gone: Vec<_> = told.difference(&served).collect();
        assert!(gone.is_empty(), "openapi/operations.rs tells of what isn't served: {gone:?}");
    }

    #[test]
    fn every_parameter_of_a_path_is_told_of() {
        for endpoint in &ENDPOINTS {
            for segment in endpoint.path.split('/').filter(|segment| segment.starts_with('{')) {
                let name = segment.trim_matches(['{', '}']);
                assert!(
                    parameters::in_path(name).is_some(),
                    "say in openapi/parameters.rs what {segment} is"
                );
            }
        }
    }
}
