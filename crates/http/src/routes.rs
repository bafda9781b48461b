//! The endpoints of integrators, and what a key must be good for to use each.
//!
//! Their handlers take a [`TenantCall`], which is no extractor: only a row of [`ENDPOINTS`] makes one of a request, and
//! names the scope with it. So there is no endpoint without one.

use actix_web::web::{self, ServiceConfig};
use actix_web::{Route, guard};
use pix_domain::credentials::Scope;

use crate::extract::{Call, TenantCall};
use crate::server::{read, resource};
use crate::{v1, v2};

/// An endpoint of integrators.
#[derive(Debug)]
pub struct Endpoint {
    /// `GET`, which answers HEAD too, `POST` or `DELETE`.
    pub method: &'static str,
    /// Its path, in which `{…}` stands for one segment.
    pub path: &'static str,
    /// What a key must be good for to use it.
    pub scope: Scope,
    route: fn() -> Route,
}

macro_rules! endpoint {
    (GET $path:literal, $scope:ident, $handler:path) => {
        endpoint!("GET", read(), $path, $scope, $handler)
    };
    (DELETE $path:literal, $scope:ident, $handler:path) => {
        endpoint!("DELETE", web::delete(), $path, $scope, $handler)
    };
    (POST $path:literal, $scope:ident, $handler:path) => {
        endpoint!("POST", web::post(), $path, $scope, $handler)
    };
    ($method:literal, $route:expr, $path:literal, $scope:ident, $handler:path) => {
        Endpoint {
            method: $method,
            path: $path,
            scope: Scope::$scope,
            route: || $route.to(|call: Call| $handler(TenantCall::new(call, Scope::$scope))),
        }
    };
}

/// All of them.
pub static ENDPOINTS: [Endpoint; 38] = [
    endpoint!(POST "/v2/pix/qrcode", ChargesWrite, v2::qrcode::create),
    endpoint!(POST "/v2/pix/payment", WithdrawalsWrite, v2::payment::create),
    endpoint!(POST "/v2/pix/refund", RefundsWrite, v2::refund::create),
    endpoint!(POST "/v2/consult-transaction", Read, v2::consult::consult),
    endpoint!(POST "/v2/balance", BalanceRead, v2::balance::show),
    endpoint!(POST "/api/v1/charges", ChargesWrite, v1::charges::create),
    endpoint!(GET "/api/v1/charges", Read, v1::charges::list),
    endpoint!(GET "/api/v1/charges/{charge}", Read, v1::charges::show),
    endpoint!(DELETE "/api/v1/charges/{charge}", ChargesWrite, v1::charges::cancel),
    endpoint!(GET "/api/v1/charges/{charge}/qrcode.svg", Read, v1::qrcode::svg),
    endpoint!(GET "/api/v1/charges/{charge}/qrcode.png", Read, v1::qrcode::png),
    endpoint!(GET "/api/v1/charges/{charge}/receipt", Read, v1::receipts::of_charge),
    endpoint!(POST "/api/v1/charges/{charge}/refunds", RefundsWrite, v1::refunds::create),
    endpoint!(GET "/api/v1/charges/{charge}/refunds", Read, v1::refunds::list),
    endpoint!(GET "/api/v1/refunds/{refund}", Read, v1::refunds::show),
    endpoint!(GET "/api/v1/refunds/{refund}/evidence", Read, v1::evidence::of_refund),
    endpoint!(POST "/api/v1/withdrawals/quote", WithdrawalsWrite, v1::withdrawals::quote),
    endpoint!(POST "/api/v1/withdrawals", WithdrawalsWrite, v1::withdrawals::create),
    endpoint!(GET "/api/v1/withdrawals", Read, v1::withdrawals::list),
    endpoint!(GET "/api/v1/withdrawals/{withdrawal}", Read, v1::withdrawals::show),
    endpoint!(GET "/api/v1/withdrawals/{withdrawal}/evidence", Read, v1::evidence::of_withdrawal),
    endpoint!(GET "/api/v1/withdrawals/{withdrawal}/receipt", Read, v1::receipts::of_withdrawal),
    endpoint!(GET "/api/v1/splits", Read, v1::splits::list),
    endpoint!(GET "/api/v1/splits/{split}", Read, v1::splits::show),
    endpoint!(POST "/api/v1/transactions/consult", Read, v1::consult::consult),
    endpoint!(GET "/api/v1/balance", BalanceRead, v1::balance::show),
    endpoint!(GET "/api/v1/limits", Read, v1::limits::show),
    endpoint!(GET "/api/v1/statement", Read, v1::statement::list),
    endpoint!(GET "/api/v1/events", Read, v1::events::list),
    endpoint!(GET "/api/v1/events/{event}", Read, v1::events::show),
    endpoint!(GET "/api/v1/events/{event}/deliveries", Read, v1::events::deliveries),
    endpoint!(POST "/api/v1/events/{event}/redeliver", WebhooksWrite, v1::events::redeliver),
    endpoint!(POST "/api/v1/deliveries/replay", WebhooksWrite, v1::postbacks::replay),
    endpoint!(POST "/api/v1/postbacks/test", WebhooksWrite, v1::postbacks::try_out),
    endpoint!(GET "/api/v1/postbacks/splits", Read, v1::postbacks::of_splits),
    endpoint!(POST "/api/v1/postbacks/splits", WebhooksWrite, v1::postbacks::set_of_splits),
    endpoint!(GET "/api/v1/postbacks/endpoints", Read, v1::postbacks::endpoints),
    endpoint!(POST "/api/v1/postbacks/endpoints/{endpoint}/enable", WebhooksWrite, v1::postbacks::enable),
];

/// Registers those whose path begins with `prefix`, without it.
///
/// Where the last part of a path is a word (`/withdrawals/quote`), and another path has any name there
/// (`/withdrawals/{withdrawal}`), what only the other one has a method for is of the record with that name.
pub(crate) fn under(prefix: &'static str) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        let mut paths: Vec<_> =
            ENDPOINTS.iter().filter_map(|endpoint| endpoint.path.strip_prefix(prefix)).collect();
        // Those of one path stand together.
        paths.dedup();
        let its_own = |path: &'static str| {
            ENDPOINTS.iter().filter(move |endpoint| endpoint.path.strip_prefix(prefix) == Some(path))
        };
        for &path in &paths {
            let own: Vec<_> = its_own(path).map(|endpoint| endpoint.method).collect();
            let others = paths.iter().copied().filter(|pattern| *pattern != path && takes(pattern, path));
            let mut named: Vec<_> = others.flat_map(its_own).map(|endpoint| endpoint.method).collect();
            named.retain(|method| !own.contains(method));
            let has = |method| own.contains(&method) || named.contains(&method);
            let allow = match (has("GET"), has("POST"), has("DELETE")) {
                (true, true, _) => "GET, HEAD, POST",
                (true, false, true) => "GET, HEAD, DELETE",
                (true, false, false) => "GET, HEAD",
                _ => "POST",
            };
            let resource = its_own(path)
                .fold(resource(path, allow), |resource, endpoint| resource.route((endpoint.route)()));
            config.service(if named.is_empty() {
                resource
            } else {
                resource.guard(guard::fn_guard(move |request| {
                    let method = request.head().method.as_str();
                    !named.contains(&if method == "HEAD" { "GET" } else { method })
                }))
            });
        }
    }
}

/// Whether `path`, which has no name in its last part, is one that `pattern` takes.
fn takes(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<_>, Vec<_>) = (pattern.split('/').collect(), path.split('/').collect());
    pattern.len() == path.len()
        && pattern.iter().zip(&path).all(|(any, part)| any == part || any.starts_with('{'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoints_of_one_path_stand_together_and_each_is_there_once() {
        let mut seen = Vec::new();
        for (place, endpoint) in ENDPOINTS.iter().enumerate() {
            assert!(!seen.contains(&(endpoint.method, endpoint.path)), "{endpoint:?}");
            let apart = ENDPOINTS[..place].iter().any(|other| other.path == endpoint.path)
                && ENDPOINTS[place - 1].path != endpoint.path;
            assert!(!apart, "{endpoint:?}");
            seen.push((endpoint.method, endpoint.path));
        }
    }

    #[test]
    fn a_path_with_a_word_is_one_that_takes_any_name_there_too() {
        assert!(takes("/withdrawals/{withdrawal}", "/withdrawals/quote"));
        for path in ["/withdrawals", "/withdrawals/quote/receipt", "/charges/quote"] {
            assert!(!takes("/withdrawals/{withdrawal}", path), "{path}");
        }
        assert!(!takes("/withdrawals/quote", "/withdrawals/{withdrawal}"));
    }

    #[test]
    fn what_only_shows_needs_no_right_to_write_and_the_balance_has_one_of_its_own() {
        for endpoint in &ENDPOINTS {
            if endpoint.path.ends_with("/balance") {
                assert_eq!(endpoint.scope, Scope::BalanceRead, "{endpoint:?}");
            } else if endpoint.method == "GET" || endpoint.path.contains("consult") {
                assert_eq!(endpoint.scope, Scope::Read, "{endpoint:?}");
            } else {
                assert!(endpoint.scope.as_str().ends_with(":write"), "{endpoint:?}");
            }
        }
    }
}
