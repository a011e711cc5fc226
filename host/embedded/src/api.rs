//! Routes: which request means what. Paths are matched by their decoded segments, so an escaped slash in a name stays
//! part of the name and fails its validation.

mod discovery;
mod exec;
mod list;
mod logs;
mod objects;
mod query;
mod watch;

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::{Method, Request};

use crate::resource::{COORDINATION, Key, Resource};
use crate::server::Server;
use crate::status::{ApiError, Result, text_response};

pub(crate) use query::Query;

/// The largest request body read, as on a real server.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

pub(crate) async fn handle(server: &Arc<Server>, request: Request<Body>) -> Response {
    match route(server, request).await {
        Ok(response) => response,
        Err(error) => error.response(),
    }
}

async fn route(server: &Arc<Server>, request: Request<Body>) -> Result<Response> {
    let segments = query::segments(request.uri().path())?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let query = Query::parse(request.uri().query().unwrap_or_default());
    match segments.as_slice() {
        ["readyz" | "healthz" | "livez"] => Ok(text_response("ok")),
        ["version"] => Ok(discovery::version()),
        ["api"] => Ok(discovery::versions()),
        ["apis"] => Ok(discovery::groups()),
        ["api", "v1"] => Ok(discovery::resources()),
        ["apis", COORDINATION, "v1"] => Ok(discovery::coordination()),
        ["api", "v1", path @ ..] => core(server, path, request, &query).await,
        ["apis", COORDINATION, "v1", path @ ..] => of_group(server, COORDINATION, path, request, &query).await,
        _ => Err(ApiError::unknown_path()),
    }
}

/// What only the core group has, and all that any group has.
async fn core(server: &Arc<Server>, path: &[&str], request: Request<Body>, query: &Query) -> Result<Response> {
    match (request.method().clone(), path) {
        (_, ["namespaces"]) => collection(server, Resource::Namespaces, None, request, query).await,
        (Method::GET, ["namespaces", name]) => {
            objects::get(server, &Key::new(Resource::Namespaces, "", name), &request)
        }
        (_, ["namespaces", _]) => Err(ApiError::method_not_allowed()),
        (Method::GET, ["namespaces", namespace, "pods", name, "log"]) => {
            logs::read(server, &Key::new(Resource::Pods, namespace, name), query).await
        }
        (method, ["namespaces", namespace, "pods", name, "exec"]) => match method {
            Method::GET => exec::start(server, &Key::new(Resource::Pods, namespace, name), request, query).await,
            Method::POST => Err(ApiError::bad_request(
                "unable to upgrade: only WebSocket is served here",
            )),
            _ => Err(ApiError::method_not_allowed()),
        },
        _ => of_group(server, "", path, request, query).await,
    }
}

async fn of_group(
    server: &Arc<Server>,
    group: &str,
    path: &[&str],
    request: Request<Body>,
    query: &Query,
) -> Result<Response> {
    let known = |plural: &str| Resource::from_plural(group, plural).ok_or_else(ApiError::unknown_path);
    let method = request.method().clone();
    match path {
        [plural] => collection(server, known(plural)?, None, request, query).await,
        ["namespaces", namespace, plural] => collection(server, known(plural)?, Some(namespace), request, query).await,
        ["namespaces", namespace, plural, name] => {
            let key = Key::new(known(plural)?, namespace, name);
            match method {
                Method::GET => objects::get(server, &key, &request),
                Method::PUT => objects::replace(server, &key, false, request, query).await,
                Method::PATCH => objects::patch(server, &key, false, request, query).await,
                Method::DELETE => objects::delete(server, &key, request, query).await,
                _ => Err(ApiError::method_not_allowed()),
            }
        }
        ["namespaces", namespace, plural, name, "status"] => {
            let resource = known(plural)?;
            if !resource.has_status() {
                return Err(ApiError::unknown_path());
            }
            let key = Key::new(resource, namespace, name);
            match method {
                Method::GET => objects::get(server, &key, &request),
                Method::PUT => objects::replace(server, &key, true, request, query).await,
                Method::PATCH => objects::patch(server, &key, true, request, query).await,
                _ => Err(ApiError::method_not_allowed()),
            }
        }
        _ => Err(ApiError::unknown_path()),
    }
}

async fn collection(
    server: &Arc<Server>,
    resource: Resource,
    namespace: Option<&str>,
    request: Request<Body>,
    query: &Query,
) -> Result<Response> {
    match (request.method(), namespace) {
        (&Method::GET, _) if query.flag("watch") => watch::watch(server, resource, namespace, &request, query),
        (&Method::GET, _) => list::list(server, resource, namespace, &request, query),
        (&Method::POST, Some(namespace)) => objects::create(server, resource, namespace, request, query).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

async fn read_body(request: Request<Body>) -> Result<axum::body::Bytes> {
    axum::body::to_bytes(request.into_body(), BODY_LIMIT)
        .await
        .map_err(|error| {
            ApiError::new(
                413,
                "RequestEntityTooLarge",
                format!("Request entity too large: limit is {BODY_LIMIT}: {error}"),
            )
        })
}
