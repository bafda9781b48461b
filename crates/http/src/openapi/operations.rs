//! What there is to say of each operation: of those in the table of routes, and of those that anybody may use.

mod public;
mod v1;
mod v1_events;
mod v2;

use utoipa::openapi::path::Parameter;
use utoipa::openapi::request_body::RequestBody;
use utoipa::openapi::response::Response;

use super::answers::Kit;

/// What is said of an operation. Its path parameters, its scope and what every operation may be refused for are added to it.
pub(super) struct Told {
    /// Its name for generators of clients.
    pub(super) id: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<RequestBody>,
    pub(super) answers: Vec<(u16, Response)>,
    /// Statuses and codes beside the usual ones.
    pub(super) refusals: Vec<(u16, &'static [&'static str])>,
}

impl Told {
    fn new(id: &'static str, tag: &'static str, summary: &'static str, description: &str) -> Self {
        Self {
            id,
            tag,
            summary,
            description: description.to_owned(),
            parameters: Vec::new(),
            body: None,
            answers: Vec::new(),
            refusals: Vec::new(),
        }
    }

    fn with(mut self, parameters: impl IntoIterator<Item = Parameter>) -> Self {
        self.parameters.extend(parameters);
        self
    }

    fn body(mut self, body: RequestBody) -> Self {
        self.body = Some(body);
        self
    }

    fn answers(mut self, status: u16, response: impl Into<Response>) -> Self {
        self.answers.push((status, response.into()));
        self
    }

    fn refuses(mut self, status: u16, codes: &'static [&'static str]) -> Self {
        self.refusals.push((status, codes));
        self
    }
}

/// An operation by its method and path.
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) told: fn(&mut Kit) -> Told,
}

const fn of(method: &'static str, path: &'static str, told: fn(&mut Kit) -> Told) -> Operation {
    Operation { method, path, told }
}

/// Those that anybody may use. They stand before the others.
pub(super) const PUBLIC: [Operation; 9] = [
    of("POST", "/v2/oauth/token", public::token),
    of("GET", "/health/live", public::live),
    of("GET", "/health/ready", public::ready),
    of("GET", "/openapi.json", public::document),
    of("GET", "/docs", public::reference),
    of("GET", "/errors/{error}", public::error),
    of("GET", "/pay/{uuid}", public::payment_page),
    of("GET", "/pay/{uuid}/status", public::payment_status),
    of("GET", "/pay/{uuid}/events", public::payment_events),
];

/// Those of integrators, each of which is in the table of routes too, which says where it stands and what scope it needs.
pub(super) const TENANT: [Operation; 38] = [
    of("POST", "/v2/pix/qrcode", v2::qrcode),
    of("POST", "/v2/pix/payment", v2::payment),
    of("POST", "/v2/pix/refund", v2::refund),
    of("POST", "/v2/consult-transaction", v2::consult),
    of("POST", "/v2/balance", v2::balance),
    of("POST", "/api/v1/charges", v1::create_charge),
    of("GET", "/api/v1/charges", v1::list_charges),
    of("GET", "/api/v1/charges/{charge}", v1::charge),
    of("DELETE", "/api/v1/charges/{charge}", v1::cancel_charge),
    of("GET", "/api/v1/charges/{charge}/qrcode.svg", v1::qrcode_svg),
    of("GET", "/api/v1/charges/{charge}/qrcode.png", v1::qrcode_png),
    of("GET", "/api/v1/charges/{charge}/receipt", v1::charge_receipt),
    of("POST", "/api/v1/charges/{charge}/refunds", v1::create_refund),
    of("GET", "/api/v1/charges/{charge}/refunds", v1::list_refunds),
    of("GET", "/api/v1/refunds/{refund}", v1::refund),
    of("GET", "/api/v1/refunds/{refund}/evidence", v1::refund_evidence),
    of("POST", "/api/v1/withdrawals", v1::create_withdrawal),
    of("POST", "/api/v1/withdrawals/quote", v1::quote_withdrawal),
    of("GET", "/api/v1/withdrawals", v1::list_withdrawals),
    of("GET", "/api/v1/withdrawals/{withdrawal}", v1::withdrawal),
    of("GET", "/api/v1/withdrawals/{withdrawal}/evidence", v1::withdrawal_evidence),
    of("GET", "/api/v1/withdrawals/{withdrawal}/receipt", v1::withdrawal_receipt),
    of("GET", "/api/v1/splits", v1::list_splits),
    of("GET", "/api/v1/splits/{split}", v1::split),
    of("POST", "/api/v1/transactions/consult", v1::consult),
    of("GET", "/api/v1/balance", v1::balance),
    of("GET", "/api/v1/limits", v1::limits),
    of("GET", "/api/v1/statement", v1::statement),
    of("GET", "/api/v1/events", v1_events::list),
    of("GET", "/api/v1/events/{event}", v1_events::event),
    of("GET", "/api/v1/events/{event}/deliveries", v1_events::deliveries),
    of("POST", "/api/v1/events/{event}/redeliver", v1_events::redeliver),
    of("POST", "/api/v1/deliveries/replay", v1_events::replay),
    of("POST", "/api/v1/postbacks/test", v1_events::try_out),
    of("GET", "/api/v1/postbacks/splits", v1_events::split_postback),
    of("POST", "/api/v1/postbacks/splits", v1_events::set_split_postback),
    of("GET", "/api/v1/postbacks/endpoints", v1_events::endpoints),
    of("POST", "/api/v1/postbacks/endpoints/{endpoint}/enable", v1_events::enable),
];
