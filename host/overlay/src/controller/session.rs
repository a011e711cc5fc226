//! API sessions: how they begin, how long they live, and how they are renewed (O-10..O-13, O-20).

use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use url::Url;

use super::{Controllers, oidc, place};
use crate::error::{Error, Result};
use crate::secret::Secret;

/// For a session that does not say how long it lives.
const USUAL_LIFE: Duration = Duration::from_secs(5 * 60);

/// An API session at one controller.
pub(crate) struct Session {
    /// Grows with each authentication; a renewal keeps it.
    pub(crate) generation: u64,
    pub(crate) controller: Url,
    pub(crate) auth: Auth,
    pub(crate) renew_at: Instant,
}

/// What proves the session. Never printed.
#[derive(Clone)]
pub(crate) enum Auth {
    Classic { token: Secret },
    Oidc { access: Secret, refresh: Secret },
}

impl Auth {
    /// What an edge router wants to see in the hello.
    pub(crate) fn token(&self) -> &str {
        match self {
            Self::Classic { token } => token,
            Self::Oidc { access, .. } => access,
        }
    }

    /// Name and value of the HTTP header.
    pub(crate) fn header(&self) -> (&'static str, Secret) {
        match self {
            Self::Classic { token } => ("zt-session", token.clone()),
            Self::Oidc { access, .. } => ("authorization", format!("Bearer {}", &**access).into()),
        }
    }
}

#[derive(Deserialize)]
struct Version {
    #[serde(default)]
    capabilities: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Detail {
    token: Secret,
    #[serde(default)]
    expiration_seconds: Option<f64>,
    #[serde(default)]
    expires_at: Option<Timestamp>,
    #[serde(default)]
    auth_queries: Option<Vec<Value>>,
}

impl Detail {
    /// The relative time wins: the clocks of the two sides may differ.
    fn life(&self) -> Duration {
        let seconds = self
            .expiration_seconds
            .filter(|seconds| *seconds > 0.0)
            .map(Duration::from_secs_f64);
        let until = self
            .expires_at
            .and_then(|at| Duration::try_from(at.duration_since(Timestamp::now())).ok());
        seconds.or(until).unwrap_or(USUAL_LIFE)
    }

    fn session(self, generation: u64, controller: &Url) -> Session {
        let renew_at = renewal(self.life());
        Session {
            generation,
            controller: controller.clone(),
            auth: Auth::Classic { token: self.token },
            renew_at,
        }
    }
}

/// When to renew what lives this long from now: in time, also when the first attempt fails.
pub(super) fn renewal(life: Duration) -> Instant {
    let margin = (life / 5).max(Duration::from_secs(10));
    Instant::now() + life.saturating_sub(margin).max(life / 2)
}

/// Begin a session at one controller, of the kind that it offers.
pub(crate) async fn authenticate(controllers: &Controllers, controller: &Url, generation: u64) -> Result<Session> {
    let version = controllers
        .api::<Version>(controller, None, Method::GET, "/version", None, None)
        .await?
        .data;
    let begun = if version
        .capabilities
        .is_some_and(|all| all.iter().any(|one| one == "OIDC_AUTH"))
    {
        oidc::authenticate(controllers, controller, generation).await
    } else {
        classic(controllers, controller, generation).await
    };
    begun.map_err(|error| match error {
        Error::Controller {
            controller,
            status: 401,
            reason,
            ..
        } => Error::Refused { controller, reason },
        other => other,
    })
}

async fn classic(controllers: &Controllers, controller: &Url, generation: u64) -> Result<Session> {
    let about = json!({
        "sdkInfo": {"type": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")},
        "envInfo": {"os": std::env::consts::OS, "arch": std::env::consts::ARCH},
        "configTypes": [],
    });
    let detail = controllers
        .api::<Detail>(
            controller,
            None,
            Method::POST,
            "/authenticate?method=cert",
            Some(&about),
            None,
        )
        .await?
        .data;
    if detail.auth_queries.as_ref().is_some_and(|queries| !queries.is_empty()) {
        return Err(Error::Refused {
            controller: place(controller),
            reason: "a second factor is asked for, which a service cannot give".into(),
        });
    }
    Ok(detail.session(generation, controller))
}

/// The same session, living longer. 401 says that it is over.
pub(crate) async fn renew(controllers: &Controllers, session: &Session) -> Result<Session> {
    match &session.auth {
        Auth::Classic { .. } => current(controllers, session).await,
        Auth::Oidc { refresh, .. } => oidc::renew(controllers, session, refresh).await,
    }
}

async fn current(controllers: &Controllers, session: &Session) -> Result<Session> {
    let path = "/current-api-session";
    let detail = controllers
        .api::<Detail>(&session.controller, Some(session), Method::GET, path, None, None)
        .await?;
    Ok(detail.data.session(session.generation, &session.controller))
}
