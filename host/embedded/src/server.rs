//! The HTTP side: accepts connections on loopback, asks for the bearer token, applies faults and hands requests to the
//! API. Connections live in a set of their own and end with the shutdown token.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures::{StreamExt, stream};
use http::{Request, header};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::faults::{Action, CutAfter, Faults, OnlyV4};
use crate::kubelet::Registry;
use crate::status::ApiError;
use crate::store::Store;
use crate::{api, json};

/// What every request can reach.
pub(crate) struct Server {
    pub(crate) store: Arc<Store>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) faults: Faults,
    pub(crate) token: String,
    pub(crate) storage_class: Option<String>,
    pub(crate) shutdown: CancellationToken,
    /// Exec sessions, which outlive the connection task that upgraded.
    pub(crate) tasks: TaskTracker,
}

/// The connection is closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the answer was lost on purpose")]
struct Lost;

pub(crate) async fn run(server: Arc<Server>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    let mut away = server.faults.away();
    loop {
        tokio::select! {
            () = server.shutdown.cancelled() => break,
            Some(_) = connections.join_next() => {}
            Ok(()) = away.changed() => connections.shutdown().await,
            accepted = listener.accept() => match accepted {
                // the port stays taken, so that it is still there when the server comes back
                Ok(_) if *away.borrow() => {}
                Ok((stream, _)) => {
                    connections.spawn(connection(server.clone(), stream));
                }
                Err(error) => {
                    tracing::warn!(%error, "embedded API server: accept failed");
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            },
        }
    }
    connections.shutdown().await;
}

async fn connection(server: Arc<Server>, stream: TcpStream) {
    // Watches and exec send small pieces that someone waits for.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "embedded API server: nodelay");
    }
    let service = hyper::service::service_fn(move |request| answer(server.clone(), request));
    let served = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "embedded API server: connection");
    }
}

async fn answer(server: Arc<Server>, request: Request<hyper::body::Incoming>) -> Result<Response, Lost> {
    let mut request = request.map(Body::new);
    if !authorized(&server, &request) {
        return Ok(ApiError::new(401, "Unauthorized", "Unauthorized").response());
    }
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str())
        .to_owned();
    match server.faults.take(request.method().as_str(), &path) {
        None => Ok(api::handle(&server, request).await),
        Some(Action::Status {
            code,
            reason,
            message,
            retry_after,
        }) => {
            let mut error = ApiError::new(code, &reason, message);
            error.retry_after = retry_after;
            Ok(error.response())
        }
        Some(Action::LoseAnswer) => {
            drop(api::handle(&server, request).await);
            Err(Lost)
        }
        Some(Action::Hang) => {
            server.shutdown.cancelled().await;
            Err(Lost)
        }
        Some(Action::CutStream { after }) => {
            request.extensions_mut().insert(CutAfter(after));
            Ok(api::handle(&server, request).await.map(|body| cut(body, after, true)))
        }
        Some(Action::ExecV4) => {
            request.extensions_mut().insert(OnlyV4);
            Ok(api::handle(&server, request).await)
        }
        Some(Action::EndStream { after }) => {
            Ok(api::handle(&server, request).await.map(|body| cut(body, after, false)))
        }
    }
}

fn authorized(server: &Server, request: &Request<Body>) -> bool {
    let sent = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    sent.and_then(|sent| sent.strip_prefix("Bearer ")) == Some(server.token.as_str())
}

/// Ends after so many bytes, whether or not more would come; broken by an error, which makes the connection close without
/// the final chunk, or as if this were all.
fn cut(body: Body, after: usize, broken: bool) -> Body {
    let begin = (body.into_data_stream(), after, false);
    Body::from_stream(stream::unfold(begin, move |(mut pieces, left, ended)| async move {
        if ended {
            return None;
        }
        let next = if left == 0 { None } else { pieces.next().await };
        match next {
            Some(Ok(piece)) => {
                let part = piece.slice(..piece.len().min(left));
                let left = left - part.len();
                Some((Ok(part), (pieces, left, false)))
            }
            Some(Err(error)) => Some((Err(error), (pieces, left, true))),
            None if broken => {
                // what was allowed goes out first: an error at once would drop what is not flushed yet
                tokio::task::yield_now().await;
                Some((Err(axum::Error::new(Lost)), (pieces, left, true)))
            }
            None => None,
        }
    }))
}

/// A kubeconfig for this server.
pub(crate) fn kubeconfig(url: &str, token: &str, namespace: &str) -> serde_json::Value {
    let mut config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "preferences": {},
        "clusters": [{"name": "embedded", "cluster": {"server": url}}],
        "users": [{"name": "embedded", "user": {"token": token}}],
        "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": "embedded"}}],
    });
    json::set(&mut config, &[], "current-context", "embedded");
    for context in json::each_mut(&mut config, "/contexts") {
        json::set(context, &["context"], "namespace", namespace);
    }
    config
}

/// Streams end with the server, whatever they wait for.
pub(crate) fn until_shutdown(server: &Server, stream: impl futures::Stream<Item = Bytes> + Send + 'static) -> Body {
    let (shutdown, open) = (server.shutdown.clone(), server.faults.open_stream());
    let stream = stream.take_until(async move { shutdown.cancelled().await });
    Body::from_stream(stream.map(move |piece| {
        open.sent(piece.len());
        Ok::<_, Infallible>(piece)
    }))
}
