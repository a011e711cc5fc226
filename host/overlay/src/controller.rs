//! Calls to the controller's client API (O-10..O-19): JSON over HTTPS with the identity's certificate.
//!
//! One call goes to one controller. Which one, and what to do when it fails, is decided by [`keeper`], which owns the
//! API session.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use crate::error::{Error, Result};
use crate::identity::Identity;

pub(crate) mod keeper;
mod oidc;
pub(crate) mod services;
pub(crate) mod session;

use session::Session;

/// For one call, with connecting.
const CALL_LIMIT: Duration = Duration::from_secs(15);
/// Answers are lists of at most 500 services; more than this is not one.
const ANSWER_MAX: usize = 16 * 1024 * 1024;

/// The controllers of an identity.
pub(crate) struct Controllers {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    pub(crate) urls: Vec<Url>,
}

/// An answer as it came.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

#[derive(Deserialize)]
pub(crate) struct Envelope<T> {
    pub(crate) data: T,
    #[serde(default)]
    pub(crate) meta: Meta,
}

#[derive(Default, Deserialize)]
pub(crate) struct Meta {
    pub(crate) pagination: Option<Pagination>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Pagination {
    pub(crate) total_count: usize,
}

impl Controllers {
    pub(crate) fn new(identity: &Identity) -> Self {
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(identity.tls.as_ref().clone())
            .https_only()
            .enable_http1()
            .build();
        Self {
            client: Client::builder(TokioExecutor::new())
                .pool_idle_timeout(Duration::from_secs(60))
                .build(connector),
            urls: identity.controllers.clone(),
        }
    }

    /// One HTTP exchange; any status is an answer. `call` names it in errors, without anything secret.
    async fn exchange(&self, url: &Url, call: &str, request: Request<Full<Bytes>>) -> Result<Answer> {
        let failed = |reason: String| Error::Unreachable {
            controller: place(url),
            call: call.to_owned(),
            reason,
        };
        let exchange = async {
            let response = self.client.request(request).await.map_err(|e| failed(chain(&e)))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_MAX)
                .collect()
                .await
                .map_err(|e| failed(chain(e.as_ref())))?;
            Ok(Answer {
                status: head.status,
                headers: head.headers,
                body: body.to_bytes(),
            })
        };
        tokio::time::timeout(CALL_LIMIT, exchange)
            .await
            .unwrap_or_else(|_| Err(failed(format!("no answer within {CALL_LIMIT:?}"))))
    }

    /// A call of the client API: `path` under the controller's base, with the session's credentials if there is one.
    async fn api<T: DeserializeOwned>(
        &self,
        base: &Url,
        session: Option<&Session>,
        method: Method,
        path: &str,
        body: Option<&Value>,
        more: Option<(&'static str, &str)>,
    ) -> Result<Envelope<T>> {
        let call = format!("{method} {}", path.split('?').next().unwrap_or(path));
        let failed = |reason: String| Error::Unreachable {
            controller: place(base),
            call: call.clone(),
            reason,
        };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", base.as_str().trim_end_matches('/')))
            .header(ACCEPT, "application/json");
        if let Some(session) = session {
            let (name, value) = session.auth.header();
            request = request.header(name, secret(&value).map_err(failed)?);
        }
        if let Some((name, value)) = more {
            request = request.header(name, secret(value).map_err(failed)?);
        }
        let body = match body {
            Some(json) => {
                request = request.header(CONTENT_TYPE, "application/json");
                Full::new(Bytes::from(json.to_string()))
            }
            None => Full::default(),
        };
        let request = request.body(body).map_err(|e| failed(e.to_string()))?;
        let answer = self.exchange(base, &call, request).await?;
        if !answer.status.is_success() {
            return Err(answer.refused(base, &call));
        }
        serde_json::from_slice(&answer.body).map_err(|e| failed(unreadable(&e)))
    }
}

impl Answer {
    /// The controller's code and message; a body that is no such error is not passed on.
    fn refused(&self, url: &Url, call: &str) -> Error {
        #[derive(Default, Deserialize)]
        struct Body {
            #[serde(default)]
            error: Detail,
        }
        #[derive(Default, Deserialize)]
        struct Detail {
            #[serde(default)]
            code: String,
            #[serde(default)]
            message: String,
        }
        let Body { error } = serde_json::from_slice(&self.body).unwrap_or_default();
        let reason: String = format!("{} {}", error.code, error.message)
            .trim()
            .chars()
            .take(500)
            .collect();
        Error::Controller {
            controller: place(url),
            call: call.to_owned(),
            status: self.status.as_u16(),
            reason,
        }
    }
}

/// Host and port, for messages.
pub(crate) fn place(url: &Url) -> String {
    format!(
        "{}:{}",
        url.host_str().unwrap_or("?"),
        url.port_or_known_default().unwrap_or(0)
    )
}

/// A header value that is not shown by `Debug`.
fn secret(value: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(value).map_err(|_| "a session token that is no header value".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// What is wrong and where, without the text itself: answers hold tokens.
fn unreadable(error: &serde_json::Error) -> String {
    format!(
        "an answer that cannot be read, at line {} column {}",
        error.line(),
        error.column()
    )
}

/// An error with its sources: hyper's own text says only that it failed.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(Some(error), |e| e.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
