//! The routes, and serving them on a socket.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use actix_governor::Governor;
use actix_web::body::BoxBody;
use actix_web::dev::{HttpServiceFactory, Server, ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::ALLOW;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, Resource, Route, guard, middleware, web};
use tokio::net::TcpSocket;

use crate::config::HttpConfig;
use crate::connections::Connections;
use crate::error::ApiError;
use crate::extract::Answer;
use crate::state::{Services, State};
use crate::{callbacks, description, edge, health, limits, meanings, overload, pay, routes, token};

/// How many seconds one more than a stop's grace are at the least.
const MIN_SHUTDOWN_SECONDS: u64 = 1;

/// Connections that the kernel completes before the service takes them.
const BACKLOG: u32 = 1024;

/// Takes `address` for a later [`serve`]; port 0 takes a free one, which [`TcpListener::local_addr`] tells. From now on
/// clients can connect, and wait. Must be called on a Tokio runtime.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // A start right after a stop would otherwise have to wait for the last connections to be forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

/// How many connections a thread takes beyond those there may be. Past its own limit it would let them wait unseen,
/// where [`Connections`] closes them.
const BEING_CLOSED: usize = 256;

/// The service on what [`listen`] gave. The server runs while it is polled, on threads of its own; [`Server::handle`]
/// stops it. It leaves signals alone.
///
/// Buckets of the rate limits are pruned by a task on the runtime of `services`, which ends with the server.
pub async fn serve(config: HttpConfig, listener: TcpListener, services: Services) -> io::Result<Server> {
    let runtime = services.runtime.clone();
    let state = Box::pin(State::new(config, services))
        .await
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let pruning = state.limits.prune();
    let state = web::Data::new(state);
    let config = state.config.clone();

    let connections = Arc::new(Connections::new(&config));
    let mut server = HttpServer::new(move || app(state.clone()))
        .on_connect(move |connection, held| connections.admit(connection, held))
        .max_connections(config.connections.saturating_add(BEING_CLOSED))
        .client_request_timeout(config.head_deadline)
        .keep_alive(config.keep_alive)
        .shutdown_timeout(config.shutdown_grace.as_secs().max(MIN_SHUTDOWN_SECONDS))
        .disable_signals();
    if let Some(workers) = config.workers {
        server = server.workers(workers);
    }
    let server = match &config.tls {
        None => server.listen(listener)?,
        Some(certificate) => {
            let tls = certificate.server_config().map_err(io::Error::other)?;
            server.listen_rustls_0_23(listener, tls)?
        }
    };
    runtime.spawn(pruning);
    Ok(server.run())
}

/// The application of one worker thread.
fn app(
    state: web::Data<State>,
) -> App<
    impl ServiceFactory<
        ServiceRequest,
        Config = (),
        Response = ServiceResponse<BoxBody>,
        Error = actix_web::Error,
        InitError = (),
    >,
> {
    let (token_limit, api_limit) = (Governor::new(&state.limits.token), Governor::new(&state.limits.api));
    let (v1_limit, pay_limit) = (Governor::new(&state.limits.api), Governor::new(&state.limits.api));
    App::new()
        .app_data(state)
        .service(
            web::scope("/v2/oauth/token")
                .service(post("", web::post().to(token::issue)).wrap(middleware::from_fn(limits::charge)))
                .default_service(web::to(not_found))
                .wrap(token_limit),
        )
        .service(web::scope("/v2").service(endpoints("/v2")).wrap(api_limit))
        .service(web::scope("/api/v1").service(endpoints("/api/v1")).wrap(v1_limit))
        .service(web::scope("/pay").service(pay::routes()).wrap(pay_limit))
        // Another method is answered like an unknown path: nobody is to learn where the secret goes.
        .service(
            web::resource("/callbacks/{secret}")
                .route(web::post().to(callbacks::receive))
                .default_service(web::to(not_found)),
        )
        .service(get("/openapi.json", read().to(description::document)))
        .service(get("/docs", read().to(description::page)))
        .service(get("/errors/{error}", read().to(meanings::show)))
        .service(get("/health/live", read().to(health::live)))
        .service(get("/health/ready", read().to(health::ready)).wrap(middleware::from_fn(overload::health)))
        .default_service(web::to(not_found))
        .wrap(middleware::from_fn(edge::edge))
        // Base URLs are configured with a slash at the end, and joined to paths that begin with one.
        .wrap(middleware::NormalizePath::trim())
}

/// The endpoints whose path begins with `prefix`. Inside of actix-governor, which takes a scope as it is and nothing that is
/// wrapped: what wraps last is passed first.
fn endpoints(prefix: &'static str) -> impl HttpServiceFactory {
    web::scope("")
        .configure(routes::under(prefix))
        .default_service(web::to(not_found))
        .wrap(middleware::from_fn(overload::api))
        .wrap(middleware::from_fn(limits::charge))
}

/// GET and HEAD.
pub(crate) fn read() -> Route {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}

fn get(path: &str, route: Route) -> Resource {
    resource(path, "GET, HEAD").route(route)
}

fn post(path: &str, route: Route) -> Resource {
    resource(path, "POST").route(route)
}

/// A path, and what it answers to methods it has no route for.
pub(crate) fn resource(path: &str, allow: &'static str) -> Resource {
    web::resource(path).default_service(web::to(move |request: HttpRequest| async move {
        if *request.method() == Method::OPTIONS {
            Ok(HttpResponse::NoContent().insert_header((ALLOW, allow)).finish())
        } else {
            Err(ApiError::method_not_allowed(allow))
        }
    }))
}

pub(crate) async fn not_found() -> Answer {
    Err(ApiError::not_found())
}
