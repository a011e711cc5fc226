//! `runner-host plugin call`: one question to a plugin, and its answer in the form in which cases expect it.

use std::path::PathBuf;

use anyhow::{anyhow, bail};
use clap::ValueEnum;
use runner_sandbox::{Engine, Source};

use super::{Common, input};
use crate::cases::{Answer, Ask, Case, Subject};
use crate::cli::failure::Failure;
use crate::cli::message;
use crate::cli::output::{self, Format};
use crate::policy;

/// Ask a plugin once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A component, or builtin:NAME
    #[arg(value_name = "FILE", value_parser = super::source)]
    plugin: Source,

    /// What to ask
    #[arg(value_enum)]
    hook: HookArg,

    /// A StartWorkloadRequest as protobuf JSON, or the same as YAML; - reads standard input
    #[arg(short = 'f', long, value_name = "FILE")]
    request: Option<PathBuf>,

    /// The pod to look at, as YAML or JSON, in place of the one that the host builds for the request; - reads standard input
    #[arg(long, value_name = "FILE")]
    pod: Option<PathBuf>,

    /// The capability to apply
    #[arg(long, value_name = "NAME", required_if_eq("hook", "capability-policy"))]
    capability: Option<String>,

    /// A catalog document: the input of catalog-mapping; for flavor-sizing, where the flavor of the request is looked up
    #[arg(long, value_name = "FILE")]
    catalog: Vec<PathBuf>,

    /// Settings of the plugin, as YAML or JSON
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,

    /// Print the pod after the edits, too
    #[arg(long)]
    show_pod: bool,
}

/// Names of the interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum HookArg {
    /// Grants and capabilities, with these settings
    Plugin,
    /// The catalog of documents
    CatalogMapping,
    /// Sizes of a workload
    FlavorSizing,
    /// What a capability changes
    CapabilityPolicy,
    /// What else changes
    PodMutation,
}

pub(super) async fn run(args: &Args, common: &Common) -> anyhow::Result<()> {
    let stdin = [args.request.as_ref(), args.pod.as_ref(), args.settings.as_ref()];
    if stdin.iter().flatten().filter(|path| path.as_os_str() == "-").count() > 1 {
        bail!(Failure::Usage("standard input can be only one of the files".to_owned()));
    }
    let engine = common.engine()?;
    let case = Case {
        name: "call".to_owned(),
        file: PathBuf::new(),
        line: 0,
        settings: input::settings(args.settings.as_deref())?,
        ask: ask(args, &engine).await?,
        expect: Answer::default(),
    };
    let builtins = policy::builtins();
    let mut answer = Subject::new(&engine, &builtins, args.plugin.clone())
        .answer(&case)
        .await;
    if !args.show_pod {
        answer.pod = None;
    }
    match common.output {
        Format::Text => output::text(serde_saphyr::to_string(&answer)?.trim_end()),
        Format::Json => output::json(&answer)?,
    }
    match (&answer.rejection, &answer.problems) {
        (Some(rejection), _) => Err(anyhow!("refused: {}: {}", rejection.kind, rejection.code)),
        (_, Some(problems)) => Err(anyhow!(
            "{} problem{}",
            problems.len(),
            if problems.len() == 1 { "" } else { "s" }
        )),
        _ => Ok(()),
    }
}

async fn ask(args: &Args, engine: &Engine) -> anyhow::Result<Ask> {
    let spec = || input::request(args.request.as_deref()).map(Box::new);
    let pod = || args.pod.as_deref().map(message::read_value).transpose();
    Ok(match args.hook {
        HookArg::Plugin => Ask::Describe,
        HookArg::CatalogMapping => Ask::Catalog(input::documents(&args.catalog)?),
        HookArg::FlavorSizing => {
            let spec = spec()?;
            let flavor = match &spec.flavor {
                Some(name) => Some(input::flavor(engine, name, &args.catalog).await?),
                None => None,
            };
            Ask::Size(flavor.map(Box::new), spec)
        }
        HookArg::CapabilityPolicy => Ask::Apply(args.capability.clone().unwrap_or_default(), spec()?, pod()?),
        HookArg::PodMutation => Ask::Mutate(spec()?, pod()?),
    })
}
