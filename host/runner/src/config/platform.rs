//! Settings of the platform side (W-104..W-107, S-803..S-806). With the overlay off they are not looked at, even if wrong.

use std::time::Duration;

use clap::Args;
use runner_core::duration;
use runner_core::secret::Secret;

use super::problems::Problems;
use super::switch;

const ENABLED: &str = "ZITI_ENABLED";
const GATEWAY: &str = "GATEWAY_ADDRESS";
const TOKEN: &str = "SERVICE_TOKEN";
const TIMEOUT: &str = "ZITI_ENROLLMENT_TIMEOUT";
const OPEN_TCP: &str = "RUNNER_OPEN_TCP";

/// How the platform is reached and how it reaches this runner.
#[derive(Debug, Clone, Default, Args)]
pub struct PlatformOptions {
    /// Enrol at the platform and serve on its OpenZiti overlay: true or false
    #[arg(long, env = ENABLED, default_value = "false", value_name = "BOOL", help_heading = "Platform")]
    pub ziti_enabled: Option<String>,

    /// The platform's gateway, HOST:PORT
    #[arg(long, env = GATEWAY, default_value = "gateway:8080", value_name = "ADDR", help_heading = "Platform")]
    pub gateway_address: Option<String>,

    /// The token that the platform gave to this runner; better given as environment variable
    #[arg(long, env = TOKEN, value_name = "TOKEN", hide_env_values = true, help_heading = "Platform")]
    pub service_token: Option<String>,

    /// How long enrolment is tried, a Go duration
    #[arg(long, env = TIMEOUT, default_value = "2m", value_name = "DURATION", help_heading = "Platform")]
    pub ziti_enrollment_timeout: Option<String>,

    /// Serve the whole API on the TCP address too while the overlay is on: true or false; otherwise it answers Ready,
    /// health and reflection there
    #[arg(long, env = OPEN_TCP, default_value = "false", value_name = "BOOL", help_heading = "Platform")]
    pub open_tcp: Option<String>,
}

/// Checked settings of the platform side.
#[derive(Debug, Clone)]
pub struct Platform {
    /// `HOST:PORT`.
    pub gateway: String,
    /// Sent with every call to the gateway.
    pub token: Secret<String>,
    /// For enrolment with all its attempts, and again for the first catalog report.
    pub enrollment_timeout: Duration,
    /// The whole API on TCP too.
    pub open_tcp: bool,
}

impl PlatformOptions {
    /// None when it is off.
    pub(super) fn check(self) -> Result<Option<Platform>, Vec<String>> {
        let mut problems = Problems::default();
        if !problems.value(switch::parse(ENABLED, self.ziti_enabled.as_deref())) {
            return problems.finish(None);
        }
        let trimmed = |text: Option<String>| text.map(|t| t.trim().to_owned()).filter(|t| !t.is_empty());
        let token = trimmed(self.service_token).ok_or_else(|| format!("{TOKEN} is required when {ENABLED} is true"));
        let platform = Platform {
            gateway: trimmed(self.gateway_address).unwrap_or_else(|| "gateway:8080".to_owned()),
            token: Secret::new(problems.value(token)),
            enrollment_timeout: problems.value(timeout(self.ziti_enrollment_timeout)),
            open_tcp: problems.value(switch::parse(OPEN_TCP, self.open_tcp.as_deref())),
        };
        problems.finish(Some(platform))
    }
}

/// W-107
fn timeout(value: Option<String>) -> Result<Duration, String> {
    let text = value.unwrap_or_else(|| "2m".to_owned());
    if text.trim().is_empty() {
        return Err(format!("{TIMEOUT} must be a duration"));
    }
    let nanoseconds = duration::parse(text.trim()).map_err(|reason| format!("invalid {TIMEOUT}: {reason}"))?;
    match u64::try_from(nanoseconds) {
        Ok(positive) if positive > 0 => Ok(Duration::from_nanos(positive)),
        _ => Err(format!("{TIMEOUT} must be greater than 0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(change: impl FnOnce(&mut PlatformOptions)) -> Result<Option<Platform>, String> {
        let mut options = PlatformOptions {
            ziti_enabled: Some("true".into()),
            service_token: Some(" token ".into()),
            ..PlatformOptions::default()
        };
        change(&mut options);
        options.check().map_err(super::super::problems::first)
    }

    /// W-104..W-107
    #[test]
    fn errors() {
        type Change = fn(&mut PlatformOptions);
        let cases: [(Change, &str); 8] = [
            (
                |o| o.ziti_enabled = Some(String::new()),
                "ZITI_ENABLED must be true or false",
            ),
            (|o| o.ziti_enabled = Some("yes".into()), "invalid ZITI_ENABLED: "),
            (
                |o| o.service_token = None,
                "SERVICE_TOKEN is required when ZITI_ENABLED is true",
            ),
            (
                |o| o.service_token = Some(" ".into()),
                "SERVICE_TOKEN is required when ZITI_ENABLED is true",
            ),
            (
                |o| o.ziti_enrollment_timeout = Some(" ".into()),
                "ZITI_ENROLLMENT_TIMEOUT must be a duration",
            ),
            (
                |o| o.ziti_enrollment_timeout = Some("2".into()),
                "invalid ZITI_ENROLLMENT_TIMEOUT: ",
            ),
            (
                |o| o.ziti_enrollment_timeout = Some("0".into()),
                "ZITI_ENROLLMENT_TIMEOUT must be greater than 0",
            ),
            (
                |o| o.ziti_enrollment_timeout = Some("-1s".into()),
                "ZITI_ENROLLMENT_TIMEOUT must be greater than 0",
            ),
        ];
        for (change, wanted) in cases {
            let error = on(change).unwrap_err();
            assert!(error.starts_with(wanted), "{error}");
        }
    }

    /// W-105..W-107, S-804..S-806
    #[test]
    fn defaults() {
        let platform = on(|_| {}).unwrap().unwrap();
        assert_eq!(platform.gateway, "gateway:8080");
        assert_eq!(platform.token.expose(), "token");
        assert_eq!(platform.enrollment_timeout, Duration::from_secs(120));
        assert!(!platform.open_tcp);
        assert!(!format!("{platform:?}").contains("\"token\""), "the token is not shown");
    }

    /// W-107: with the overlay off nothing else is looked at.
    #[test]
    fn off() {
        for off in [None, Some("false".to_owned())] {
            let options = PlatformOptions {
                ziti_enabled: off,
                ziti_enrollment_timeout: Some("wrong".into()),
                open_tcp: Some("wrong".into()),
                ..PlatformOptions::default()
            };
            assert!(options.check().unwrap().is_none());
        }
    }
}
