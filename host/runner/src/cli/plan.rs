//! `runner-host plan`: the pod of a request and the origin of each field that a plugin set, without a cluster.

use std::path::PathBuf;

use anyhow::anyhow;
use runner_k8s::volumes::ClaimDefaults;
use serde_json::{Value, json};

use super::message;
use super::output::{self, Format};
use crate::config::PlanOptions;
use crate::plan::Plan;
use crate::{convert, policy};

/// Print the pod that a request would become.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A StartWorkloadRequest as protobuf JSON, or the same as YAML; - reads standard input
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,

    /// Form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,

    #[command(flatten)]
    options: PlanOptions,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    // plugins' log lines would mix with the plan; problems come as errors
    let config = args.options.check().map_err(|error| anyhow!("load config: {error}"))?;
    let request = message::read_request(&args.file)?;
    let engine = policy::engine(&config.policy).map_err(|error| anyhow!("load config: {error}"))?;
    let revision = policy::load(&engine, &config.policy)
        .await
        .map_err(|error| anyhow!("load config: {error}"))?;
    let spec = convert::start::spec(request).map_err(|error| refused(&error))?;
    let namespace = config.namespace.as_deref().unwrap_or("default");
    let claim_defaults: &ClaimDefaults = &config.claim_defaults;
    let settings = crate::plan::Settings {
        namespace,
        claim_defaults,
    };
    let plan = crate::plan::plan(spec, &revision, settings)
        .await
        .map_err(|error| refused(&error))?;
    match args.output {
        Format::Text => print_text(&plan, revision.id()),
        Format::Json => print_json(&plan, revision.id()),
    }
}

/// The gRPC code that a caller would see, then the text.
fn refused(error: &runner_core::Error) -> anyhow::Error {
    anyhow!("request refused: {:?}: {error}", error.kind)
}

/// The claims that would be made, should they not exist; one that cannot be made shows its error.
fn claims(plan: &Plan) -> Vec<Value> {
    plan.objects
        .claims
        .iter()
        .map(|claim| match &claim.manifest {
            Ok(manifest) => manifest.clone(),
            Err(error) => json!({"name": claim.name, "error": error.to_string()}),
        })
        .collect()
}

fn print_text(plan: &Plan, revision: &str) -> anyhow::Result<()> {
    output::text(serde_saphyr::to_string(&plan.objects.pod)?.trim_end());
    for claim in claims(plan) {
        output::text(format!("---\n{}", serde_saphyr::to_string(&claim)?.trim_end()));
    }
    output::text(origins(plan, revision));
    Ok(())
}

/// As YAML comments, so that the output stays a document that kubectl reads.
pub(crate) fn origins(plan: &Plan, revision: &str) -> String {
    let mut lines = vec![format!("# revision {revision}")];
    for origin in plan.origins.iter() {
        let what = match (&origin.old, &origin.new) {
            (None, Some(new)) => format!("set to {}", short(new)),
            (Some(old), Some(new)) => format!("{} -> {}", short(old), short(new)),
            (_, None) => "removed".to_owned(),
        };
        lines.push(format!("# {}  {}  {what}", origin.pointer, origin.plugin));
    }
    for conflict in plan.origins.conflicts() {
        lines.push(format!(
            "# conflict at {}: {} overwrote {}",
            conflict.pointer, conflict.second, conflict.first
        ));
    }
    lines.join("\n")
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(100) {
        None => text,
        Some((cut, _)) => format!("{}…", text.get(..cut).unwrap_or_default()),
    }
}

fn print_json(plan: &Plan, revision: &str) -> anyhow::Result<()> {
    output::json(&json!({
        "revision": revision,
        "pod": plan.objects.pod,
        "claims": claims(plan),
        "secrets": plan.objects.secrets.iter().map(|s| &s.name).collect::<Vec<_>>(),
        "sidecars": plan.sidecars,
        "origins": plan.origins.iter().collect::<Vec<_>>(),
        "conflicts": plan.origins.conflicts(),
    }))
}
