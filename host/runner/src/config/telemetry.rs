//! Settings of metrics and traces; both are off unless given.

use clap::Args;

const METRICS_ADDRESS: &str = "RUNNER_METRICS_ADDRESS";
/// Standard names of OpenTelemetry.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";

const DEFAULT_SERVICE_NAME: &str = "runner-host";

/// Where metrics and traces go.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Telemetry")]
pub struct TelemetryOptions {
    /// Address to serve Prometheus metrics on, at /metrics: HOST:PORT, or :PORT for all interfaces; unset or empty is off
    #[arg(long, env = METRICS_ADDRESS, value_name = "ADDR")]
    pub metrics_address: Option<String>,

    /// OpenTelemetry collector to send traces to, OTLP over gRPC: http://HOST:PORT; unset or empty is off
    #[arg(long, env = ENDPOINT, value_name = "URL")]
    pub otlp_endpoint: Option<String>,

    /// Name of this service in traces [default: runner-host]
    #[arg(long, env = SERVICE_NAME, value_name = "NAME")]
    pub otel_service_name: Option<String>,
}

/// Checked settings of metrics and traces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TelemetrySettings {
    /// As given; none when metrics are off.
    pub metrics_address: Option<String>,
    /// None when traces are off.
    pub traces: Option<TraceSettings>,
}

/// Checked settings of traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceSettings {
    /// URL of the collector.
    pub endpoint: String,
    /// What this service is called there.
    pub service_name: String,
}

impl TelemetryOptions {
    pub(super) fn check(self) -> Result<TelemetrySettings, String> {
        let Self {
            metrics_address,
            otlp_endpoint,
            otel_service_name,
        } = self;
        let given = |text: Option<String>| text.map(|t| t.trim().to_owned()).filter(|t| !t.is_empty());
        let traces = match given(otlp_endpoint) {
            None => None,
            Some(endpoint) => Some(TraceSettings {
                endpoint: checked(endpoint)?,
                service_name: given(otel_service_name).unwrap_or_else(|| DEFAULT_SERVICE_NAME.to_owned()),
            }),
        };
        Ok(TelemetrySettings {
            metrics_address: given(metrics_address),
            traces,
        })
    }
}

fn checked(endpoint: String) -> Result<String, String> {
    let uri: Option<http::Uri> = endpoint.parse().ok();
    match uri.as_ref().and_then(|uri| uri.scheme_str().zip(uri.host())) {
        Some(("http", _)) => Ok(endpoint),
        _ => Err(format!(
            "invalid {ENDPOINT}: {endpoint:?} is not http://HOST:PORT; TLS is not spoken to a collector, which is to be \
             one in the cluster or on the machine"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(endpoint: &str, name: &str, metrics: &str) -> Result<TelemetrySettings, String> {
        let options = TelemetryOptions {
            metrics_address: Some(metrics.to_owned()),
            otlp_endpoint: Some(endpoint.to_owned()),
            otel_service_name: Some(name.to_owned()),
        };
        options.check()
    }

    #[test]
    fn values() {
        let off = TelemetrySettings::default();
        assert_eq!(TelemetryOptions::default().check().unwrap(), off);
        assert_eq!(check(" ", "name", "").unwrap(), off);
        let on = check("http://collector:4317", " ", " :9090 ").unwrap();
        assert_eq!(on.metrics_address.as_deref(), Some(":9090"));
        let traces = on.traces.unwrap();
        assert_eq!(
            (traces.endpoint.as_str(), traces.service_name.as_str()),
            ("http://collector:4317", "runner-host")
        );
        let named = check("http://collector:4317", "east", "").unwrap().traces.unwrap();
        assert_eq!(named.service_name, "east");
        for bad in ["collector:4317", "https://collector:4317", "collector", "http://", "/x"] {
            let error = check(bad, "", "").unwrap_err();
            assert!(
                error.starts_with("invalid OTEL_EXPORTER_OTLP_ENDPOINT: "),
                "{bad}: {error}"
            );
        }
    }
}
