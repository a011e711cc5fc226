//! Settings: flags and environment in one struct, checked once into values that the server uses (W-101..W-116).
//!
//! Error texts are the contract's; the caller puts `load config: ` before them (W-210). A variable that is set but
//! blank counts as unset where the contract does not say otherwise.

use std::path::PathBuf;

use clap::Args;
use runner_core::quantity::Quantity;
use runner_k8s::lease::Lease;
use runner_k8s::volumes::ClaimDefaults;
use runner_sandbox::Document;
use serde_json::{Map, Value};

use self::problems::{Problems, first};
use crate::listener::tls::Files;

mod executions;
mod lease;
mod platform;
mod policy_env;
mod problems;
mod revisions;
mod sweep;
mod switch;
mod telemetry;
mod tls;

pub use lease::LeaseOptions;
pub use platform::{Platform, PlatformOptions};
pub use policy_env::PolicyEnv;
pub use revisions::{Block, RevisionOptions, Revisions};
pub use sweep::{Sweep, SweepOptions};
pub use telemetry::{TelemetryOptions, TelemetrySettings, TraceSettings};
pub use tls::TlsOptions;

const CHECKED_VOLUMES: &str = "WORKLOAD_CHECKED_VOLUMES";

/// What `serve` takes.
#[derive(Debug, Clone, Default, Args)]
pub struct Options {
    /// Address to serve gRPC on: HOST:PORT, or :PORT for all interfaces
    #[arg(
        long,
        env = "GRPC_ADDR",
        default_value = ":50051",
        value_name = "ADDR",
        help_heading = "Serving"
    )]
    pub grpc_addr: Option<String>,

    /// Log level: debug, info, warn or error; anything else is info
    #[arg(
        long,
        env = "LOG_LEVEL",
        default_value = "info",
        value_name = "LEVEL",
        help_heading = "Serving"
    )]
    pub log_level: Option<String>,

    /// Metrics and traces.
    #[command(flatten)]
    pub telemetry: TelemetryOptions,

    /// Certificates.
    #[command(flatten)]
    pub tls: TlsOptions,

    /// The platform side.
    #[command(flatten)]
    pub platform: PlatformOptions,

    /// Several replicas.
    #[command(flatten)]
    pub lease: LeaseOptions,

    /// How many executions may run at the same time
    #[arg(long, env = executions::NAME, default_value = "10000", value_name = "N", help_heading = "Serving")]
    pub max_executions: Option<String>,

    /// Kubeconfig file; unset uses the service account of the pod, then ~/.kube/config
    #[arg(long, env = "KUBECONFIG", value_name = "FILE", help_heading = "Kubernetes")]
    pub kubeconfig: Option<PathBuf>,

    /// List volumes with their identities and remove them only by these: true or false
    #[arg(long, env = CHECKED_VOLUMES, default_value = "false", value_name = "BOOL", help_heading = "Kubernetes")]
    pub checked_volumes: Option<String>,

    /// The secret sweeper.
    #[command(flatten)]
    pub sweep: SweepOptions,

    /// How the policy changes while serving.
    #[command(flatten)]
    pub revisions: RevisionOptions,

    /// What decides a workload.
    #[command(flatten)]
    pub plan: PlanOptions,
}

/// What decides a workload: all that `plan` takes.
#[derive(Debug, Clone, Default, Args)]
pub struct PlanOptions {
    /// Namespace of the workloads; required to serve on a real cluster
    #[arg(long, env = "KUBE_NAMESPACE", value_name = "NAME", help_heading = "Kubernetes")]
    pub namespace: Option<String>,

    /// StorageClass of claims that name none; unset leaves it to the cluster
    #[arg(long, env = "PVC_STORAGE_CLASS", value_name = "CLASS", help_heading = "Kubernetes")]
    pub pvc_storage_class: Option<String>,

    /// Size of claims that name none, a Kubernetes quantity
    #[arg(
        long,
        env = "PVC_STORAGE_SIZE",
        default_value = "10Gi",
        value_name = "QUANTITY",
        help_heading = "Kubernetes"
    )]
    pub pvc_storage_size: Option<String>,

    /// Catalog document for the catalog plugin; a missing file is an empty catalog
    #[arg(long, env = "CATALOG_PATH", value_name = "FILE", help_heading = "Policy")]
    pub catalog: Option<PathBuf>,

    /// Plugins file; unset serves with the built-in plugins
    #[arg(long, env = "RUNNER_PLUGINS", value_name = "FILE", help_heading = "Policy")]
    pub plugins: Option<PathBuf>,

    /// Directory for compiled plugins [default: runner-host in the user's cache directory, if there is one]
    #[arg(long, env = "RUNNER_PLUGIN_CACHE", value_name = "DIR", help_heading = "Policy")]
    pub plugin_cache: Option<PathBuf>,

    /// Implementations of capabilities: a JSON object from capability to implementation, for the built-in plugins
    #[arg(
        long,
        env = "CAPABILITY_IMPLEMENTATIONS",
        value_name = "JSON",
        help_heading = "Policy"
    )]
    pub capability_implementations: Option<String>,

    /// Optional features of every workload.
    #[command(flatten)]
    pub policy_env: PolicyEnv,
}

/// Settings of the policy: plugins and catalog.
#[derive(Debug, Clone, Default)]
pub struct PolicyConfig {
    /// The catalog document; a missing file is an empty catalog (W-901).
    pub catalog: Option<PathBuf>,
    /// Catalog documents that are given, not read; without a `catalog`.
    pub documents: Vec<Document>,
    /// The plugins file.
    pub plugins: Option<PathBuf>,
    /// Where compiled plugins are kept.
    pub plugin_cache: Option<PathBuf>,
    /// Settings from the environment, for the built-in plugins whose schema knows them.
    pub shared_settings: Map<String, Value>,
}

/// Checked settings of `serve`.
#[derive(Debug, Clone)]
pub struct Config {
    /// As given; bound by the server.
    pub grpc_addr: String,
    /// How many executions may run at the same time.
    pub max_executions: usize,
    /// Kubeconfig file.
    pub kubeconfig: Option<PathBuf>,
    /// Volumes are listed with their identities and removed only by them (W-1322).
    pub checked_volumes: bool,
    /// None when it is off.
    pub sweep: Option<Sweep>,
    /// None: this runner is alone.
    pub lease: Option<Lease>,
    /// Where the admin API is served; none when it is off.
    pub admin_addr: Option<String>,
    /// How the policy changes while serving.
    pub revisions: Revisions,
    /// None when the overlay is off.
    pub platform: Option<Platform>,
    /// Metrics and traces.
    pub telemetry: TelemetrySettings,
    /// None: plain TCP.
    pub tls: Option<Files>,
    /// What decides a workload.
    pub plan: PlanConfig,
}

/// Checked settings of what decides a workload.
#[derive(Debug, Clone, Default)]
pub struct PlanConfig {
    /// None when not given.
    pub namespace: Option<String>,
    /// For claims that say nothing themselves.
    pub claim_defaults: ClaimDefaults,
    /// Plugins and catalog.
    pub policy: PolicyConfig,
}

impl Options {
    /// Check everything, in the contract's order; the first problem wins. `embedded` makes the namespace optional.
    pub fn check(self, embedded: bool) -> Result<Config, String> {
        self.check_all(embedded).map_err(first)
    }

    /// The same with every problem.
    pub fn check_all(self, embedded: bool) -> Result<Config, Vec<String>> {
        let mut problems = Problems::default();
        // whole, so that a new option cannot be forgotten here; the log level is used before, see telemetry
        let Self {
            grpc_addr,
            log_level: _,
            telemetry,
            tls,
            platform,
            lease,
            max_executions,
            kubeconfig,
            checked_volumes,
            sweep,
            revisions,
            plan,
        } = self;
        if plan.namespace.as_deref().is_none_or(|n| n.trim().is_empty()) && !embedded {
            problems.value(Err("KUBE_NAMESPACE is required".to_owned()))
        }
        let platform = problems.values(platform.check());
        let plan = problems.values(plan.check_all());
        let (admin_addr, revisions) = problems.values(revisions.check());
        let config = Config {
            grpc_addr: grpc_addr
                .filter(|a| !a.trim().is_empty())
                .unwrap_or_else(|| ":50051".to_owned()),
            max_executions: problems.value(executions::parse(max_executions.as_deref())),
            kubeconfig: not_blank(kubeconfig),
            checked_volumes: problems.value(switch::parse(CHECKED_VOLUMES, checked_volumes.as_deref())),
            sweep: problems.values(sweep.check()),
            lease: problems.value(lease.check()),
            admin_addr,
            revisions,
            platform,
            telemetry: problems.value(telemetry.check()),
            tls: problems.value(tls.check()),
            plan,
        };
        problems.finish(config)
    }
}

impl PlanOptions {
    /// Check everything, in the contract's order; the first problem wins.
    pub fn check(self) -> Result<PlanConfig, String> {
        self.check_all().map_err(first)
    }

    /// The same with every problem.
    pub fn check_all(self) -> Result<PlanConfig, Vec<String>> {
        let mut problems = Problems::default();
        let Self {
            namespace,
            pvc_storage_class,
            pvc_storage_size,
            catalog,
            plugins,
            plugin_cache,
            capability_implementations,
            policy_env,
        } = self;
        let namespace = namespace.map(|n| n.trim().to_owned()).filter(|n| !n.is_empty());
        if let Some(name) = &namespace {
            let checked = runner_core::names::dns_label(name);
            problems.value(checked.map_err(|reason| format!("invalid KUBE_NAMESPACE: {reason}")));
        }
        let claim_defaults = ClaimDefaults {
            storage_class: pvc_storage_class.map(|c| c.trim().to_owned()).filter(|c| !c.is_empty()),
            size: problems.value(storage_size(pvc_storage_size)),
        };
        let shared_settings = problems.values(policy_env.settings(capability_implementations.as_deref()));
        let config = PlanConfig {
            namespace,
            claim_defaults,
            policy: PolicyConfig {
                catalog: not_blank(catalog),
                documents: Vec::new(),
                plugins: not_blank(plugins),
                plugin_cache: not_blank(plugin_cache).or_else(default_plugin_cache),
                shared_settings,
            },
        };
        problems.finish(config)
    }
}

fn not_blank(path: Option<PathBuf>) -> Option<PathBuf> {
    path.filter(|p| !p.as_os_str().is_empty())
}

/// W-110
fn storage_size(value: Option<String>) -> Result<String, String> {
    let text = value.unwrap_or_else(|| "10Gi".to_owned());
    match Quantity::parse(text.trim()) {
        Ok(quantity) if quantity.is_positive() => Ok(text.trim().to_owned()),
        Ok(_) => Err(format!("invalid PVC_STORAGE_SIZE: {text:?} must be greater than zero")),
        Err(error) => Err(format!("invalid PVC_STORAGE_SIZE: {error}")),
    }
}

fn default_plugin_cache() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("runner-host").join("plugins"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut Options)) -> Result<Config, String> {
        let plan = PlanOptions {
            namespace: Some("ns".into()),
            ..PlanOptions::default()
        };
        let mut options = Options {
            plan,
            ..Options::default()
        };
        change(&mut options);
        options.check(false)
    }

    /// W-102..W-112
    #[test]
    fn errors() {
        type Change = fn(&mut Options);
        let cases: [(&str, Change, &str); 8] = [
            (
                "no namespace",
                |o| o.plan.namespace = None,
                "KUBE_NAMESPACE is required",
            ),
            (
                "blank namespace",
                |o| o.plan.namespace = Some(" ".into()),
                "KUBE_NAMESPACE is required",
            ),
            (
                "bad ziti",
                |o| o.platform.ziti_enabled = Some("yes".into()),
                "invalid ZITI_ENABLED: ",
            ),
            (
                "bad size",
                |o| o.plan.pvc_storage_size = Some("10Gb".into()),
                "invalid PVC_STORAGE_SIZE: ",
            ),
            (
                "empty size",
                |o| o.plan.pvc_storage_size = Some(String::new()),
                "invalid PVC_STORAGE_SIZE: ",
            ),
            (
                "zero size",
                |o| o.plan.pvc_storage_size = Some("0".into()),
                "invalid PVC_STORAGE_SIZE: ",
            ),
            (
                "not an object",
                |o| o.plan.capability_implementations = Some("[]".into()),
                "invalid CAPABILITY_IMPLEMENTATIONS: ",
            ),
            (
                "not text",
                |o| o.plan.capability_implementations = Some(r#"{"a":1}"#.into()),
                "invalid CAPABILITY_IMPLEMENTATIONS: ",
            ),
        ];
        for (name, change, wanted) in cases {
            let error = check(change).unwrap_err();
            assert!(error.starts_with(wanted), "{name}: {error}");
        }
    }

    /// W-102, W-108..W-112
    #[test]
    fn defaults() {
        let config = check(|o| {
            o.grpc_addr = Some(String::new());
            o.plan.catalog = Some("/does/not/exist".into());
            o.plan.capability_implementations = Some("{}".into());
            o.plan.pvc_storage_class = Some(String::new());
        })
        .unwrap();
        assert_eq!(config.grpc_addr, ":50051");
        assert!(config.plan.policy.shared_settings.is_empty());
        assert_eq!(config.admin_addr.as_deref(), Some("127.0.0.1:50052"));
        assert_eq!(config.plan.claim_defaults.size, "10Gi");
        assert_eq!(config.plan.claim_defaults.storage_class, None);
    }
}
