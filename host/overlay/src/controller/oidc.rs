//! OIDC sessions: code flow with PKCE, authenticated by the client certificate (O-20).
//!
//! The redirect address is never visited: the flow stops at the redirect that names it, with the code in its query.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use http::{Method, Request};
use http_body_util::Full;
use rand::TryRngCore as _;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use url::Url;
use url::form_urlencoded;
use zeroize::Zeroizing;

use super::session::{Auth, Session, renewal};
use super::{Answer, Controllers, place, unreadable};
use crate::error::{Error, Result};
use crate::secret::Secret;

const CLIENT: &str = "native";
const REDIRECT: &str = "http://localhost:8080/auth/callback";
/// Redirects that one step may take.
const HOPS: usize = 6;

#[derive(Deserialize)]
struct Tokens {
    access_token: Secret,
    refresh_token: Secret,
    expires_in: u64,
}

pub(super) async fn authenticate(controllers: &Controllers, controller: &Url, generation: u64) -> Result<Session> {
    let flow = Flow {
        controllers,
        controller,
    };
    let verifier = random(controller)?;
    let state = random(controller)?;
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));

    let mut authorize = flow.url("/oidc/authorize")?;
    authorize
        .query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("scope", "openid offline_access")
        .append_pair("client_id", CLIENT)
        .append_pair("redirect_uri", REDIRECT)
        .append_pair("state", &state)
        .append_pair("nonce", &random(controller)?)
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256");
    let request = flow.auth_request(authorize).await?;
    let (code, returned) = flow.login(&request).await?;
    if returned != *state {
        return Err(flow.unexpected("POST /oidc/login/cert", "another state than the one sent"));
    }
    let form = [
        ("grant_type", "authorization_code"),
        ("client_id", CLIENT),
        ("code", &code),
        ("code_verifier", &verifier),
        ("redirect_uri", REDIRECT),
    ];
    flow.tokens(&form, generation).await
}

/// A new pair of tokens for the same session. A refused refresh token reads as 401: the session is over.
pub(super) async fn renew(controllers: &Controllers, session: &Session, refresh: &str) -> Result<Session> {
    let form = [
        ("grant_type", "refresh_token"),
        ("client_id", CLIENT),
        ("refresh_token", refresh),
    ];
    let flow = Flow {
        controllers,
        controller: &session.controller,
    };
    flow.tokens(&form, session.generation)
        .await
        .map_err(|error| match error {
            Error::Controller {
                controller,
                call,
                status: 400..=499,
                reason,
            } => Error::Controller {
                controller,
                call,
                status: 401,
                reason,
            },
            other => other,
        })
}

struct Flow<'a> {
    controllers: &'a Controllers,
    controller: &'a Url,
}

impl Flow<'_> {
    /// On the controller's host, not under its API.
    fn url(&self, path: &str) -> Result<Url> {
        self.controller
            .join(path)
            .map_err(|e| self.unexpected(path, &e.to_string()))
    }

    fn unexpected(&self, call: &str, reason: &str) -> Error {
        Error::Unreachable {
            controller: place(self.controller),
            call: call.to_owned(),
            reason: reason.to_owned(),
        }
    }

    async fn send(&self, method: Method, url: &Url, form: Option<&[(&str, &str)]>) -> Result<Answer> {
        let call = format!("{method} {}", url.path());
        if url.origin() != self.controller.origin() {
            return Err(self.unexpected(&call, "a redirect to another host"));
        }
        let mut request = Request::builder()
            .method(method)
            .uri(url.as_str())
            .header(ACCEPT, "application/json");
        let body = match form {
            Some(form) => {
                request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
                let text = form_urlencoded::Serializer::new(String::new())
                    .extend_pairs(form)
                    .finish();
                Full::new(Bytes::from(text))
            }
            None => Full::default(),
        };
        let request = request.body(body).map_err(|e| self.unexpected(&call, &e.to_string()))?;
        let answer = self.controllers.exchange(self.controller, &call, request).await?;
        if answer.status.is_client_error() || answer.status.is_server_error() {
            return Err(answer.refused(self.controller, &call));
        }
        Ok(answer)
    }

    fn redirect(&self, from: &Url, answer: &Answer) -> Option<Url> {
        from.join(answer.headers.get(LOCATION)?.to_str().ok()?).ok()
    }

    /// Step 1: the id of the request, from whichever answer of the redirects carries it.
    async fn auth_request(&self, mut url: Url) -> Result<String> {
        for _ in 0..HOPS {
            let answer = self.send(Method::GET, &url, None).await?;
            if let Some(id) = answer.headers.get("auth-request-id").and_then(|id| id.to_str().ok()) {
                return Ok(id.to_owned());
            }
            let Some(next) = self.redirect(&url, &answer) else {
                break;
            };
            url = next;
        }
        Err(self.unexpected("GET /oidc/authorize", "no auth-request-id in the answer"))
    }

    /// Step 2: code and state, from the redirect to the address that is never visited.
    async fn login(&self, request: &str) -> Result<(Zeroizing<String>, String)> {
        let call = "POST /oidc/login/cert";
        let mut url = self.url("/oidc/login/cert")?;
        let form = [
            ("id", request),
            ("sdkType", env!("CARGO_PKG_NAME")),
            ("sdkVersion", env!("CARGO_PKG_VERSION")),
        ];
        let mut answer = self.send(Method::POST, &url, Some(&form)).await?;
        for _ in 0..HOPS {
            let Some(next) = self.redirect(&url, &answer) else {
                break;
            };
            if next.as_str().starts_with(REDIRECT) {
                let find = |key: &str| {
                    next.query_pairs()
                        .find(|(k, _)| k == key)
                        .map(|(_, value)| value.into_owned())
                };
                return find("code")
                    .map(|code| (Zeroizing::new(code), find("state").unwrap_or_default()))
                    .ok_or_else(|| self.unexpected(call, "no code in the redirect"));
            }
            url = next;
            answer = self.send(Method::GET, &url, None).await?;
        }
        Err(self.unexpected(call, "no redirect with a code"))
    }

    /// Step 3, and renewal.
    async fn tokens(&self, form: &[(&str, &str)], generation: u64) -> Result<Session> {
        let url = self.url("/oidc/oauth/token")?;
        let answer = self.send(Method::POST, &url, Some(form)).await?;
        let tokens: Tokens = serde_json::from_slice(&answer.body)
            .map_err(|e| self.unexpected("POST /oidc/oauth/token", &unreadable(&e)))?;
        Ok(Session {
            generation,
            controller: self.controller.clone(),
            renew_at: renewal(Duration::from_secs(tokens.expires_in)),
            auth: Auth::Oidc {
                access: tokens.access_token,
                refresh: tokens.refresh_token,
            },
        })
    }
}

/// 32 random bytes as text.
fn random(controller: &Url) -> Result<Zeroizing<String>> {
    let mut bytes = Zeroizing::new([0; 32]);
    rand::rngs::OsRng
        .try_fill_bytes(bytes.as_mut())
        .map_err(|e| Error::Unreachable {
            controller: place(controller),
            call: "GET /oidc/authorize".into(),
            reason: format!("no randomness from the system: {e}"),
        })?;
    Ok(Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes.as_ref())))
}
