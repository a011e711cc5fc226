//! Settings of TLS with client certificates; off unless all three files are given.

use std::path::PathBuf;

use clap::Args;

use super::not_blank;
use crate::listener::tls::Files;

const CERTIFICATE: &str = "RUNNER_TLS_CERT";
const KEY: &str = "RUNNER_TLS_KEY";
const CLIENT_CA: &str = "RUNNER_TLS_CLIENT_CA";

/// Where the certificates are.
#[derive(Debug, Clone, Default, Args)]
pub struct TlsOptions {
    /// Certificate chain for the TCP address, PEM; with it callers need a certificate too. Read again when it changes
    #[arg(long, env = CERTIFICATE, value_name = "FILE", help_heading = "Serving")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of the certificate, PEM
    #[arg(long, env = KEY, value_name = "FILE", help_heading = "Serving")]
    pub tls_key: Option<PathBuf>,

    /// Authorities of the callers' certificates, PEM
    #[arg(long, env = CLIENT_CA, value_name = "FILE", help_heading = "Serving")]
    pub tls_client_ca: Option<PathBuf>,
}

impl TlsOptions {
    /// None when it is off.
    pub(super) fn check(self) -> Result<Option<Files>, String> {
        let files = (
            not_blank(self.tls_cert),
            not_blank(self.tls_key),
            not_blank(self.tls_client_ca),
        );
        match files {
            (None, None, None) => Ok(None),
            (Some(certificate), Some(key), Some(client_authorities)) => Ok(Some(Files {
                certificate,
                key,
                client_authorities,
            })),
            _ => Err(format!(
                "{CERTIFICATE}, {KEY} and {CLIENT_CA} go together: give all three or none"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_or_none() {
        let check = |cert: Option<&str>, key: Option<&str>, ca: Option<&str>| {
            TlsOptions {
                tls_cert: cert.map(PathBuf::from),
                tls_key: key.map(PathBuf::from),
                tls_client_ca: ca.map(PathBuf::from),
            }
            .check()
        };
        assert_eq!(check(None, Some(""), None), Ok(None));
        assert!(check(Some("a"), Some("b"), Some("c")).unwrap().is_some());
        for (cert, key, ca) in [
            (Some("a"), None, None),
            (Some("a"), Some("b"), None),
            (None, Some("b"), Some("c")),
        ] {
            assert!(check(cert, key, ca).unwrap_err().contains("go together"));
        }
    }
}
