//! Services, Bind sessions and the edge routers of a session (O-14..O-18).

use std::collections::HashMap;

use http::Method;
use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::Controllers;
use super::session::Session;
use crate::channel::hello::Endpoint;
use crate::error::{Error, Result};
use crate::secret::Secret;

/// Services in one answer; the controller allows no more.
const PAGE: usize = 500;

/// A service as this identity sees it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Service {
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) permissions: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) encryption_required: bool,
}

impl Service {
    pub(crate) fn may_be_bound(&self) -> bool {
        self.permissions.iter().flatten().any(|permission| permission == "Bind")
    }
}

/// A Bind session: the right to host one listener, and where.
pub(crate) struct BindSession {
    pub(crate) id: String,
    pub(crate) token: Secret,
    pub(crate) routers: Vec<Endpoint>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Detail {
    #[serde(default)]
    id: String,
    #[serde(default)]
    token: Option<Secret>,
    #[serde(default)]
    edge_routers: Option<Vec<Router>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Router {
    #[serde(default)]
    name: String,
    #[serde(default)]
    supported_protocols: Option<HashMap<String, String>>,
}

impl Controllers {
    /// All services of the identity.
    pub(crate) async fn services(&self, session: &Session) -> Result<Vec<Service>> {
        let mut all: Vec<Service> = Vec::new();
        loop {
            let path = format!("/services?limit={PAGE}&offset={}", all.len());
            let page = self
                .api::<Option<Vec<Service>>>(&session.controller, Some(session), Method::GET, &path, None, None)
                .await?;
            let services = page.data.unwrap_or_default();
            let total = page.meta.pagination.map_or(0, |pagination| pagination.total_count);
            let last = services.is_empty();
            all.extend(services);
            if last || all.len() >= total {
                return Ok(all);
            }
        }
    }

    /// The service of that name, if it may be bound.
    pub(crate) async fn bindable(&self, session: &Session, name: &str) -> Result<Service> {
        let missing = || Error::Service { name: name.to_owned() };
        let services = self.services(session).await?;
        services
            .into_iter()
            .find(|service| service.name == name && service.may_be_bound())
            .ok_or_else(missing)
    }

    /// A new Bind session; each listener needs one of its own (O-17).
    pub(crate) async fn bind_session(&self, session: &Session, service: &Service) -> Result<BindSession> {
        let body = json!({"serviceId": service.id, "type": "Bind"});
        let detail = self
            .api::<Detail>(
                &session.controller,
                Some(session),
                Method::POST,
                "/sessions",
                Some(&body),
                None,
            )
            .await
            .map_err(|error| match error {
                // the service is gone, or the right to bind it
                Error::Controller { status: 404 | 400, .. } => Error::Service {
                    name: service.name.clone(),
                },
                other => other,
            })?
            .data;
        let routers = endpoints(detail.edge_routers);
        let token = detail.token.ok_or_else(|| Error::Unreachable {
            controller: super::place(&session.controller),
            call: "POST /sessions".into(),
            reason: "no token in the answer".into(),
        })?;
        Ok(BindSession {
            id: detail.id,
            token,
            routers,
        })
    }

    /// The edge routers of a Bind session as they are now.
    pub(crate) async fn routers(&self, session: &Session, bind: &BindSession, service: &str) -> Result<Vec<Endpoint>> {
        // a session whose token is a JWT cannot be looked up by its id under OIDC (O-18)
        let (path, token) = if bind.token.starts_with("ey") {
            (
                format!("/services/{service}/edge-routers"),
                Some(("session-token", &*bind.token)),
            )
        } else {
            (format!("/sessions/{}", bind.id), None)
        };
        let answer = self
            .api::<Detail>(&session.controller, Some(session), Method::GET, &path, None, token)
            .await?;
        Ok(endpoints(answer.data.edge_routers))
    }
}

/// Routers that can be reached over TLS, each once, in the order of the controller. What cannot be read is left out.
fn endpoints(routers: Option<Vec<Router>>) -> Vec<Endpoint> {
    let mut found: Vec<Endpoint> = Vec::new();
    for router in routers.into_iter().flatten() {
        let address = router.supported_protocols.as_ref().and_then(|all| all.get("tls"));
        if let Some((host, port)) = address.and_then(|address| host_and_port(address)) {
            let endpoint = Endpoint {
                router: router.name,
                host,
                port,
            };
            if !found.contains(&endpoint) {
                found.push(endpoint);
            }
        }
    }
    found
}

/// `tls://host:port` or `tls:host:port`.
fn host_and_port(address: &str) -> Option<(String, u16)> {
    let rest = address.strip_prefix("tls:")?;
    let url = Url::parse(&format!("tls://{}", rest.trim_start_matches('/'))).ok()?;
    let host = url.host_str()?.trim_start_matches('[').trim_end_matches(']').to_owned();
    Some((host, url.port()?))
}

#[cfg(test)]
mod tests;
