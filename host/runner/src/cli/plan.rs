//! `runner-host plan`: the pod of a request and the origin of each field that a plugin set; without a cluster, or as a
//! running runner would decide it now.

use std::path::PathBuf;

use anyhow::anyhow;
use runner_k8s::volumes::ClaimDefaults;
use serde_json::{Value, json};
use tonic::transport::Uri;

use super::output::{self, Format};
use super::{client, explain, message, operator};
use crate::config::PlanOptions;
use crate::plan::Plan;
use crate::proto::host_v1::{Origin, PlanWorkloadRequest, PlanWorkloadResponse};
use crate::proto::runner_v1::StartWorkloadRequest;
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

    /// Ask the runner whose admin API is at HOST:PORT; then its settings hold, and no flag under Kubernetes and Policy
    #[arg(long, value_name = "ADDR", value_parser = client::address)]
    admin_addr: Option<Uri>,

    /// With --admin-addr: another revision than the active one
    #[arg(long, value_name = "REVISION", requires = "admin_addr")]
    revision: Option<String>,

    #[command(flatten)]
    options: PlanOptions,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let request = message::read_request(&args.file)?;
    let shown = match &args.admin_addr {
        Some(addr) => remote(addr, request, args.revision).await?,
        None => local(request, args.options).await?,
    };
    match args.output {
        Format::Text => print_text(&shown),
        Format::Json => output::json(&json!({
            "revision": shown.revision,
            "pod": shown.pod,
            "claims": shown.claims,
            "secrets": shown.secrets,
            "sidecars": shown.sidecars,
            "origins": shown.origins,
            "conflicts": shown.conflicts,
        })),
    }
}

/// A plan as it is printed, from wherever it came.
struct Shown {
    revision: String,
    pod: Value,
    /// The claims that would be made, should they not exist; one that cannot be made shows its error.
    claims: Vec<Value>,
    /// Names.
    secrets: Vec<String>,
    sidecars: Vec<String>,
    /// `pointer`, `plugin`, and where there is one `old`, `new`, `rule`.
    origins: Vec<Value>,
    /// `pointer`, `first`, `second`.
    conflicts: Vec<Value>,
}

/// Plugins' log lines would mix with the plan; problems come as errors.
async fn local(request: StartWorkloadRequest, options: PlanOptions) -> anyhow::Result<Shown> {
    let config = options.check().map_err(|error| anyhow!("load config: {error}"))?;
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
    shown(plan, revision.id())
}

/// The gRPC code that a caller would see, then the text.
fn refused(error: &runner_core::Error) -> anyhow::Error {
    anyhow!("request refused: {:?}: {error}", error.kind)
}

fn shown(plan: Plan, revision: &str) -> anyhow::Result<Shown> {
    let claims = plan.objects.claims.iter().map(|claim| match &claim.manifest {
        Ok(manifest) => manifest.clone(),
        Err(error) => json!({"name": claim.name, "error": error.to_string()}),
    });
    Ok(Shown {
        revision: revision.to_owned(),
        claims: claims.collect(),
        secrets: plan.objects.secrets.iter().map(|secret| secret.name.clone()).collect(),
        origins: plan
            .origins
            .iter()
            .map(serde_json::to_value)
            .collect::<Result<_, _>>()?,
        conflicts: plan
            .origins
            .conflicts()
            .iter()
            .map(serde_json::to_value)
            .collect::<Result<_, _>>()?,
        sidecars: plan.sidecars,
        pod: plan.objects.pod,
    })
}

/// What the runner decides; its refusal is an error with the code that a caller would see.
async fn remote(addr: &Uri, request: StartWorkloadRequest, revision: Option<String>) -> anyhow::Result<Shown> {
    let mut client = operator::connect(addr).await?;
    let request = PlanWorkloadRequest {
        request: Some(request),
        revision_id: revision.unwrap_or_default(),
    };
    received(client::answer(client.plan_workload(request).await)?)
}

fn received(plan: PlanWorkloadResponse) -> anyhow::Result<Shown> {
    let claims = plan.claims.iter().map(|claim| match claim.error.as_str() {
        "" => serde_json::from_str(&claim.manifest),
        error => Ok(json!({"name": claim.name, "error": error})),
    });
    Ok(Shown {
        pod: serde_json::from_str(&plan.pod)?,
        claims: claims.collect::<Result<_, _>>()?,
        secrets: plan.secrets.into_iter().map(|secret| secret.name).collect(),
        sidecars: plan.sidecars,
        origins: plan.origins.iter().map(origin).collect::<anyhow::Result<_>>()?,
        conflicts: plan
            .conflicts
            .iter()
            .map(|c| json!({"pointer": c.pointer, "first": c.first, "second": c.second}))
            .collect(),
        revision: plan.revision_id,
    })
}

fn origin(of: &Origin) -> anyhow::Result<Value> {
    let mut fields = json!({"pointer": of.pointer, "plugin": of.plugin});
    for (key, text) in [("old", &of.old), ("new", &of.new)] {
        if let (Some(text), Some(fields)) = (text, fields.as_object_mut()) {
            fields.insert(key.to_owned(), serde_json::from_str(text)?);
        }
    }
    if let (false, Some(fields)) = (of.rule.is_empty(), fields.as_object_mut()) {
        fields.insert("rule".to_owned(), json!(of.rule));
    }
    Ok(fields)
}

fn print_text(shown: &Shown) -> anyhow::Result<()> {
    output::text(serde_saphyr::to_string(&shown.pod)?.trim_end());
    for claim in &shown.claims {
        output::text(format!("---\n{}", serde_saphyr::to_string(claim)?.trim_end()));
    }
    // as YAML comments, so that the output stays a document that kubectl reads
    origins(shown)
        .iter()
        .for_each(|line| output::text(format!("# {}", output::plain(line))));
    Ok(())
}

fn origins(shown: &Shown) -> Vec<String> {
    let text = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut lines = vec![format!("revision {}", shown.revision)];
    for origin in &shown.origins {
        let value = |key: &str| origin.get(key).map(ToString::to_string);
        let what = explain::change(value("old").as_deref(), value("new").as_deref());
        let rule = match text(origin, "rule").as_str() {
            "" => String::new(),
            rule => format!("  ({rule})"),
        };
        lines.push(format!(
            "{}  {}  {what}{rule}",
            text(origin, "pointer"),
            text(origin, "plugin")
        ));
    }
    for conflict in &shown.conflicts {
        lines.push(format!(
            "conflict at {}: {} overwrote {}",
            text(conflict, "pointer"),
            text(conflict, "second"),
            text(conflict, "first")
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::host_v1::{Conflict, PlannedClaim};

    #[test]
    fn what_a_runner_answers_is_printed_like_a_local_plan() {
        let plan = PlanWorkloadResponse {
            revision_id: "r".into(),
            pod: r#"{"spec": {}}"#.into(),
            claims: vec![
                PlannedClaim {
                    name: "a".into(),
                    manifest: r#"{"metadata": {"name": "a"}}"#.into(),
                    ..PlannedClaim::default()
                },
                PlannedClaim {
                    name: "b".into(),
                    error: "bad".into(),
                    ..PlannedClaim::default()
                },
            ],
            origins: vec![Origin {
                pointer: "/spec/hostUsers".into(),
                plugin: "p@sha256:1".into(),
                old: Some("true".into()),
                new: Some("false".into()),
                rule: "why".into(),
            }],
            conflicts: vec![Conflict {
                pointer: "/spec/x".into(),
                first: "p".into(),
                second: "q".into(),
            }],
            ..PlanWorkloadResponse::default()
        };
        let shown = received(plan).unwrap();
        assert_eq!(shown.pod, json!({"spec": {}}));
        assert_eq!(
            shown.claims,
            [json!({"metadata": {"name": "a"}}), json!({"name": "b", "error": "bad"})]
        );
        let wanted = [
            "revision r",
            "/spec/hostUsers  p@sha256:1  true -> false  (why)",
            "conflict at /spec/x: q overwrote p",
        ];
        assert_eq!(origins(&shown), wanted);
    }
}
