//! Every endpoint × every form in which a record can be named × whoever may call: nobody but its owner gets anything of
//! it, and nobody learns that it is there.
//!
//! The endpoints are those of the service's own table, so a new one is in the matrix; one that takes an identifier that
//! isn't known here fails the test until it is.

use std::collections::BTreeSet;
use std::time::Duration;

use pix_domain::credentials::{KeyChange, Scope, Scopes};
use pix_http::{ENDPOINTS, Endpoint};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Answer, Gateway, Request, Tenant, charge_body, withdrawal_body};

/// Nobody has it.
const NOBODYS: Uuid = Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_00ff);
/// Words of the owner's records that no other answer may have.
const CANARY: &str = "Canaria da Silva";
const CANARY_PAYEE: &str = "Canario Pereira";

/// The identifiers of one record, in every form, and of a record that isn't there, in the same forms.
struct Names {
    own: Vec<String>,
    nobodys: Vec<String>,
}

impl Names {
    fn new(uuid: &str, others: &[&str]) -> Self {
        let id = Uuid::try_parse(uuid).unwrap();
        Self { own: forms(id, others), nobodys: forms(NOBODYS, &vec!["nobody-has-this"; others.len()]) }
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.own.iter().map(String::as_str).zip(self.nobodys.iter().map(String::as_str))
    }
}

fn forms(id: Uuid, others: &[&str]) -> Vec<String> {
    let texts = [id.hyphenated().to_string(), id.simple().to_string(), id.to_string().to_uppercase()];
    texts.into_iter().chain(others.iter().map(|other| (*other).to_owned())).collect()
}

/// What one integrator has, by everything that names it.
struct Owned {
    tenant: Tenant,
    charge: Names,
    refund: Names,
    withdrawal: Names,
    split: Names,
    event: Names,
    endpoint: Names,
}

impl Owned {
    async fn new(gateway: &Gateway) -> Self {
        let tenant = gateway.rich().await;
        let mut body = charge_body();
        body["external_id"] = json!("owned-order");
        body["payer"]["name"] = json!(CANARY);
        body["postbackUrl"] = json!("https://owner.example/hook");
        let charge = gateway.post(&tenant, "/api/v1/charges", &body).await.expect(201);
        let charge_uuid = charge.text("uuid");
        let paid = gateway.pay(&tenant, &charge_uuid, 1_550).await.credited.unwrap().first.to_text();
        let mut body = withdrawal_body();
        body["external_id"] = json!("owned-payout");
        body["creditParty"]["name"] = json!(CANARY_PAYEE);
        let withdrawal = gateway.post(&tenant, "/api/v1/withdrawals", &body).await.expect(201);
        let withdrawal_uuid = withdrawal.text("uuid");
        let shown = gateway.get(&tenant, &format!("/api/v1/withdrawals/{withdrawal_uuid}")).await.expect(200);
        let refunds = format!("/api/v1/charges/{charge_uuid}/refunds");
        let refund =
            gateway.post(&tenant, &refunds, &json!({"amount": 1, "external_id": "owned-refund"})).await;
        let refund = refund.expect(201);
        let split = Self::split(gateway, &tenant).await;
        gateway.receiver.fails("refused");
        gateway.deliver().await;
        let events = gateway.get(&tenant, "/api/v1/events").await.expect(200).json();
        let event = events["data"][0]["id"].as_str().unwrap().to_owned();
        let failing = gateway.get(&tenant, "/api/v1/postbacks/endpoints").await.expect(200).json();
        let endpoint = failing["data"][0]["id"].as_str().unwrap().to_owned();
        Self {
            charge: Names::new(&charge_uuid, &["owned-order", &charge.text("pix_id"), &paid]),
            refund: Names::new(&refund.text("uuid"), &["owned-refund", &refund.text("pix_id")]),
            withdrawal: Names::new(
                &withdrawal_uuid,
                &["owned-payout", &withdrawal.text("pix_id"), &shown.text("end_to_end_id")],
            ),
            split: Names::new(&split, &[]),
            event: Names { own: vec![event], nobodys: vec![format!("evt_c{}_2", NOBODYS.simple())] },
            endpoint: Names::new(&endpoint, &[]),
            tenant,
        }
    }

    /// The uuid of a part of somebody else's charge that the tenant has.
    async fn split(gateway: &Gateway, tenant: &Tenant) -> String {
        let place = json!({"postbackUrl": "https://owner.example/splits"});
        gateway.post(tenant, "/api/v1/postbacks/splits", &place).await.expect(200);
        let other = gateway.rich().await;
        let mut body = charge_body();
        body["split"] = json!([{"recipient": tenant.id.to_string(), "percentage": "10"}]);
        let uuid = gateway.post(&other, "/api/v1/charges", &body).await.expect(201).text("uuid");
        gateway.pay(&other, &uuid, 1_550).await;
        let splits = gateway.get(tenant, "/api/v1/splits").await.expect(200).json();
        splits["data"][0]["uuid"].as_str().unwrap().to_owned()
    }

    /// Everything that the owner can see of it, to be compared.
    async fn seen(&self, gateway: &Gateway) -> Vec<Value> {
        let mut seen = Vec::new();
        for path in [
            "/balance",
            "/statement",
            "/charges",
            "/withdrawals",
            "/splits",
            "/events",
            "/postbacks/splits",
            "/postbacks/endpoints",
        ] {
            seen.push(gateway.get(&self.tenant, &format!("/api/v1{path}")).await.expect(200).json());
        }
        seen
    }

    /// Requests of an endpoint that name this, each with one that names what isn't there.
    fn requests(&self, endpoint: &Endpoint) -> Vec<[Named; 2]> {
        let (method, path) = (endpoint.method, endpoint.path);
        let parameter = path.split('/').find(|segment| segment.starts_with('{'));
        if let Some(parameter) = parameter {
            let names = match parameter {
                "{charge}" => &self.charge,
                "{refund}" => &self.refund,
                "{withdrawal}" => &self.withdrawal,
                "{split}" => &self.split,
                "{event}" => &self.event,
                "{endpoint}" => &self.endpoint,
                unknown => panic!("teach the matrix what {unknown} of {path} is"),
            };
            let body = if method == "POST" { json!({}) } else { Value::Null };
            let request = |name: &str| Named { path: path.replace(parameter, name), body: body.clone() };
            return names.pairs().map(|(own, nobodys)| [request(own), request(nobodys)]).collect();
        }
        let all = [&self.charge, &self.refund, &self.withdrawal, &self.split];
        let pairs = || all.iter().flat_map(|names| names.pairs());
        let bodies = |fields: &[&str]| {
            let body = |field: &str, name: &str| Named { path: path.to_owned(), body: json!({field: name}) };
            let of =
                |(own, nobodys)| fields.iter().map(move |field| [body(field, own), body(field, nobodys)]);
            pairs().flat_map(of).collect()
        };
        let queries = |fields: &[&str]| {
            let query =
                |field: &str, name: &str| Named { path: format!("{path}?{field}={name}"), body: Value::Null };
            let of =
                |(own, nobodys)| fields.iter().map(move |field| [query(field, own), query(field, nobodys)]);
            pairs().flat_map(of).collect()
        };
        match (method, path) {
            ("POST", "/v2/consult-transaction" | "/v2/pix/refund") => bodies(&["pix_id"]),
            ("POST", "/api/v1/transactions/consult") => bodies(&["uuid", "external_id", "pix_id"]),
            ("GET", "/api/v1/events" | "/api/v1/statement") => queries(&["uuid"]),
            ("GET", "/api/v1/charges" | "/api/v1/withdrawals") => queries(&["external_id"]),
            // What they make is the caller's own, under the owner's names too; they name nothing that is there.
            ("POST", "/api/v1/charges" | "/v2/pix/qrcode") => self.makes(path, &charge_body()),
            ("POST", "/api/v1/withdrawals" | "/api/v1/withdrawals/quote" | "/v2/pix/payment") => {
                self.makes(path, &withdrawal_body())
            }
            (
                "POST",
                "/api/v1/postbacks/test"
                | "/api/v1/postbacks/splits"
                | "/api/v1/deliveries/replay"
                | "/v2/balance",
            )
            | (
                "GET",
                "/api/v1/splits"
                | "/api/v1/balance"
                | "/api/v1/limits"
                | "/api/v1/postbacks/splits"
                | "/api/v1/postbacks/endpoints",
            ) => {
                let body = match (method, path) {
                    ("GET", _) => Value::Null,
                    (_, "/api/v1/postbacks/test") => json!({"url": "https://somewhere.example/"}),
                    (_, "/api/v1/postbacks/splits") => json!({"postbackUrl": "https://somewhere.example/"}),
                    _ => json!({}),
                };
                vec![[0, 1].map(|_| Named { path: path.to_owned(), body: body.clone() })]
            }
            _ => panic!("teach the matrix how {method} {path} names a record"),
        }
    }

    /// What a creating endpoint is sent: the owner's name for its own, and the owner's record for a twin.
    fn makes(&self, path: &str, body: &Value) -> Vec<[Named; 2]> {
        let with = |field: &str, name: &str| {
            let mut body = body.clone();
            body[field] = json!(name);
            Named { path: path.to_owned(), body }
        };
        let (own, nobodys) = (&self.withdrawal.own[0], &self.withdrawal.nobodys[0]);
        let mut made = vec![[with("external_id", "owned-order"), with("external_id", "nobody-has-this")]];
        if path.contains("withdrawals") || path.contains("payment") {
            made.push([with("allow_duplicate_of", own), with("allow_duplicate_of", nobodys)]);
        }
        made
    }
}

struct Named {
    path: String,
    body: Value,
}

impl Named {
    async fn ask(&self, gateway: &Gateway, endpoint: &Endpoint, tenant: Option<&Tenant>) -> Answer {
        let request = match &self.body {
            Value::Null => Request::new(endpoint.method, &self.path),
            body => Request::post(&self.path, &body.to_string()),
        };
        gateway
            .send(match tenant {
                Some(tenant) => request.token(tenant),
                None => request,
            })
            .await
    }
}

/// Who calls, and whether that is refused before anything is looked up, and how.
struct Caller {
    name: &'static str,
    tenant: Option<Tenant>,
    refused: Option<(u16, &'static str)>,
}

async fn callers(gateway: &Gateway, scope: Scope) -> Vec<Caller> {
    let stranger = gateway.rich().await;
    let expired = gateway.token(stranger.id, &stranger.public_id, Duration::ZERO);
    let revoked = gateway.rich().await;
    let now = gateway.services.now();
    assert!(gateway.services.stores.keys.revoke(&revoked.public_id, now).await.unwrap());
    let narrow = gateway.rich().await;
    let others: Vec<_> = Scope::ALL.into_iter().filter(|other| *other != scope).map(Scope::as_str).collect();
    let scopes = Scopes::parse(&others.join(" ")).ok();
    gateway.change(&narrow, KeyChange { scopes, ..KeyChange::default() }).await;
    let suspended = gateway.rich().await;
    gateway.suspend(&suspended).await;
    let caller = |name, tenant: &Tenant, refused| Caller { name, tenant: Some(tenant.clone()), refused };
    let with = |token: &str| Tenant { token: token.to_owned(), ..stranger.clone() };
    vec![
        Caller { name: "without a token", tenant: None, refused: Some((401, "invalid_token")) },
        caller("with no token of ours", &with("v4.local.AAAA"), Some((401, "invalid_token"))),
        caller("with an expired token", &with(&expired), Some((401, "expired_token"))),
        caller("with a revoked key", &revoked, Some((401, "invalid_token"))),
        caller("with another scope", &narrow, Some((403, "insufficient_scope"))),
        caller("suspended", &suspended, None),
        caller("a stranger", &stranger, None),
    ]
}

/// Whether an answer names anything of the owner's.
fn betrays(answer: &Answer) -> bool {
    [CANARY, CANARY_PAYEE, "owner.example"].iter().any(|canary| answer.body.contains(canary))
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_but_the_owner_gets_anything_by_whatever_name() {
    let gateway = Gateway::with(
        |config| {
            config.rate_api_burst = 100_000;
            config.rate_api_per_minute = 1_000_000;
        },
        None,
    )
    .await;
    let owned = Owned::new(&gateway).await;
    let before = owned.seen(&gateway).await;
    let mut cells: BTreeSet<(&str, &str, String, &str)> = BTreeSet::new();
    for endpoint in &ENDPOINTS {
        let callers = callers(&gateway, endpoint.scope).await;
        for [own, nobodys] in owned.requests(endpoint) {
            for caller in &callers {
                let answer = own.ask(&gateway, endpoint, caller.tenant.as_ref()).await;
                let where_ = format!("{} {} {} as {}", endpoint.method, own.path, own.body, caller.name);
                assert!(!betrays(&answer) && answer.status < 500, "{where_}: {}", answer.body);
                if let Some((status, code)) = caller.refused {
                    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{where_}");
                } else if !matches!(endpoint.path, "/api/v1/charges" | "/api/v1/withdrawals")
                    && !endpoint.path.starts_with("/v2/pix/qr")
                    && !endpoint.path.starts_with("/v2/pix/pay")
                {
                    let other = nobodys.ask(&gateway, endpoint, caller.tenant.as_ref()).await;
                    let (answer, other) = (answer.without_request_id(), other.without_request_id());
                    assert_eq!(unnamed(&answer, &own), unnamed(&other, &nobodys), "{where_}");
                }
                cells.insert((
                    endpoint.method,
                    endpoint.path,
                    format!("{} {}", own.path, own.body),
                    caller.name,
                ));
            }
        }
    }
    assert_eq!(owned.seen(&gateway).await, before, "nobody has changed anything of the owner's");
    println!("{} cells: {} endpoints, 7 kinds of callers", cells.len(), ENDPOINTS.len());
    assert!(cells.len() > 500, "the matrix has shrunk to {} cells", cells.len());
}

/// An answer without what was asked for, which may stand in links.
fn unnamed(answer: &Value, asked: &Named) -> String {
    let query = asked.path.split_once('?').map_or("", |(_, query)| query);
    let answer = answer.to_string();
    if query.is_empty() { answer } else { answer.replace(query, "") }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_gets_it_by_some_name_at_every_endpoint() {
    let gateway = Gateway::with(
        |config| {
            config.rate_api_burst = 100_000;
            config.rate_api_per_minute = 1_000_000;
        },
        None,
    )
    .await;
    for endpoint in &ENDPOINTS {
        let owned = Owned::new(&gateway).await;
        let mut statuses = Vec::new();
        for [own, _] in owned.requests(endpoint) {
            statuses.push(own.ask(&gateway, endpoint, Some(&owned.tenant)).await.status);
        }
        // 409: the name is taken, by another body.
        let found = statuses.iter().any(|status| matches!(status, 200..=202 | 409));
        assert!(found, "{} {}: {statuses:?}", endpoint.method, endpoint.path);
    }
}
