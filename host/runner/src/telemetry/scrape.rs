//! Metrics for Prometheus: the recorder behind the `metrics` facade, and a listener of its own that answers scrapes.
//!
//! Without a recorder the facade does nothing. Labels are names of the API, of Kubernetes and of the operator's own files,
//! never ids of workloads and never text that somebody sends.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_util::MetricKindMask;
use tokio::net::TcpListener;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{Sources, names};

/// Where scrapes are answered.
const PATH: &str = "/metrics";
/// The text format of Prometheus.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// How often measured times are folded into their buckets, so that they do not pile up when nobody scrapes.
const UPKEEP: Duration = Duration::from_secs(5);
/// Gauges that no scrape has set for so long are of plugins and revisions that are gone.
const FORGET: Duration = Duration::from_secs(600);
/// For a scrape under way at the end.
const DRAIN: Duration = Duration::from_secs(1);

/// Of plugin calls and of swaps, which take microseconds.
const MICROSECONDS: [f64; 18] = [
    0.000_010, 0.000_025, 0.000_050, 0.000_075, 0.000_100, 0.000_150, 0.000_250, 0.000_500, 0.001, 0.002_5, 0.005,
    0.010, 0.025, 0.050, 0.100, 0.250, 0.500, 2.0,
];
/// Of calls over a network.
const MILLISECONDS: [f64; 14] = [
    0.001, 0.002_5, 0.005, 0.010, 0.025, 0.050, 0.100, 0.250, 0.500, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// Count from now on, for the whole process; again is the same.
pub fn install() -> Result<PrometheusHandle, String> {
    static HANDLE: OnceLock<Result<PrometheusHandle, String>> = OnceLock::new();
    HANDLE
        .get_or_init(|| {
            let recorder = builder().map_err(|error| error.to_string())?.build_recorder();
            let handle = recorder.handle();
            metrics::set_global_recorder(recorder).map_err(|error| error.to_string())?;
            names::describe();
            runner_sandbox::describe_metrics();
            runner_k8s::describe_metrics();
            Ok(handle)
        })
        .clone()
}

fn builder() -> Result<PrometheusBuilder, BuildError> {
    let micro = |name: &str| Matcher::Full(name.to_owned());
    PrometheusBuilder::new()
        .set_buckets(&MILLISECONDS)?
        .set_buckets_for_metric(micro("runner_plugin_call_seconds"), &MICROSECONDS)?
        .set_buckets_for_metric(micro(names::SWAP_SECONDS), &MICROSECONDS)
        .map(|builder| builder.idle_timeout(MetricKindMask::GAUGE, Some(FORGET)))
}

/// A listener for scrapes.
pub struct Endpoint {
    /// Bound by whoever starts the server.
    pub listener: TcpListener,
    /// Of [`install`].
    pub recorder: PrometheusHandle,
}

struct Scraped {
    recorder: PrometheusHandle,
    sources: Sources,
}

impl Endpoint {
    /// Answer scrapes until the shutdown.
    pub(crate) async fn serve(self, sources: Sources, shutdown: CancellationToken) -> Result<(), String> {
        let Self { listener, recorder } = self;
        let addr = listener.local_addr().map(|a| a.to_string()).unwrap_or_default();
        let scraped = Arc::new(Scraped {
            recorder: recorder.clone(),
            sources,
        });
        let routes = Router::new().route(PATH, get(scrape)).with_state(scraped);
        info!(addr, path = PATH, "metrics starting");
        let mut upkeep = tokio::time::interval(UPKEEP);
        upkeep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let keep = async {
            loop {
                upkeep.tick().await;
                recorder.run_upkeep();
            }
        };
        let cut = async {
            shutdown.cancelled().await;
            tokio::time::sleep(DRAIN).await;
        };
        let server = axum::serve(listener, routes).with_graceful_shutdown(shutdown.clone().cancelled_owned());
        tokio::select! {
            served = server => served.map_err(|error| format!("serve metrics: {error}")),
            () = keep => Ok(()),
            () = cut => Ok(()),
        }
    }
}

async fn scrape(State(scraped): State<Arc<Scraped>>) -> ([(axum::http::HeaderName, &'static str); 1], String) {
    scraped.sources.read();
    ([(CONTENT_TYPE, TEXT)], scraped.recorder.render())
}
