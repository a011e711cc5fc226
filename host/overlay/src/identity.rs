//! The identity document that enrolment returns: controllers, key, certificate and trust anchors (O-01..O-05).
//!
//! It stays in memory. The text of the key is wiped once it is parsed, and nothing of it is ever printed.

use std::fmt;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;
use url::Url;

use crate::error::{Error, Result};
use crate::secret::Secret;

/// A parsed identity: where its controllers are, and how to show who it is.
#[derive(Clone)]
pub struct Identity {
    pub(crate) controllers: Vec<Url>,
    pub(crate) tls: Arc<ClientConfig>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("controllers", &self.controllers)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(rename = "ztAPI")]
    api: Option<String>,
    #[serde(rename = "ztAPIs")]
    apis: Option<Vec<String>>,
    id: Material,
}

#[derive(Deserialize)]
struct Material {
    key: Secret,
    cert: String,
    ca: Option<String>,
}

impl Identity {
    /// Parse the JSON document. `key`, `cert` and `ca` are `pem:` and the text, or a path (`file://` or bare) that is
    /// read here and now. Keys are RSA or EC (P-256, P-384); without `ca` the roots of the system are trusted.
    pub fn parse(document: &[u8]) -> Result<Self> {
        // serde_json quotes no value of a document whose shape is wrong, except the one of a wrong type: leave that out
        let document: Document = serde_json::from_slice(document).map_err(|e| {
            let kind = if e.is_data() {
                "a member is missing or has the wrong type"
            } else {
                "it is not JSON"
            };
            Error::Identity(format!(
                "{kind} (line {}); expected {{ztAPI, id: {{key, cert, ca}}}}",
                e.line()
            ))
        })?;
        let mut controllers = Vec::new();
        for api in document
            .api
            .iter()
            .chain(document.apis.iter().flatten())
            .filter(|api| !api.trim().is_empty())
        {
            let url = controller(api)?;
            if !controllers.contains(&url) {
                controllers.push(url);
            }
        }
        if controllers.is_empty() {
            return Err(Error::Identity("neither ztAPI nor ztAPIs names a controller".into()));
        }
        Ok(Self {
            controllers,
            tls: Arc::new(client_config(&document.id)?),
        })
    }
}

fn controller(text: &str) -> Result<Url> {
    let url = Url::parse(text.trim().trim_end_matches('/')).map_err(|e| {
        Error::Identity(format!(
            "controller address: {e}; expected https://host:port/edge/client/v1"
        ))
    })?;
    if url.scheme() != "https" || url.host_str().is_none() {
        return Err(Error::Identity(
            "controller address: expected https://host:port/edge/client/v1".into(),
        ));
    }
    Ok(url)
}

fn client_config(material: &Material) -> Result<ClientConfig> {
    let key = PrivateKeyDer::from_pem_slice(text("key", &material.key)?.as_bytes())
        .map_err(|_| Error::Identity("key: no PEM private key in it (PKCS 1, PKCS 8 or SEC 1)".into()))?;
    let chain = certificates("cert", &material.cert)?;
    let mut roots = RootCertStore::empty();
    match material.ca.as_deref().filter(|ca| !ca.trim().is_empty()) {
        Some(ca) => {
            for anchor in certificates("ca", ca)? {
                roots
                    .add(anchor)
                    .map_err(|e| Error::Identity(format!("ca: not usable as a trust anchor: {e}")))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(Error::Identity(
                    "ca is missing and the system has no trusted certificates".into(),
                ));
            }
        }
    }
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::Identity(format!("TLS: {e}")))?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(|e| {
            Error::Identity(format!(
                "key and cert: {e}; RSA and EC keys of the certificate are usable"
            ))
        })
}

fn certificates(member: &str, value: &str) -> Result<Vec<CertificateDer<'static>>> {
    let text = text(member, value)?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|_| Error::Identity(format!("{member}: malformed PEM")))?;
    if found.is_empty() {
        return Err(Error::Identity(format!("{member}: no PEM certificate in it")));
    }
    Ok(found)
}

/// The PEM text behind a member of `id`.
fn text(member: &str, value: &str) -> Result<Secret> {
    let value = value.trim_start();
    if let Some(pem) = value.strip_prefix("pem:") {
        return Ok(pem.to_owned().into());
    }
    if value.is_empty() || value.starts_with("-----") {
        return Err(Error::Identity(format!(
            "{member}: expected pem: and the PEM text, or a path"
        )));
    }
    let path = value.strip_prefix("file://").unwrap_or(value);
    std::fs::read_to_string(path)
        .map(Secret::from)
        .map_err(|e| Error::Identity(format!("{member}: read {path}: {e}; other forms are pem: and file://")))
}

#[cfg(test)]
mod tests;
