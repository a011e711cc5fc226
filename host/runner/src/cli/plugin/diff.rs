//! `runner-host plugin diff`: the same questions to two plugins, and where their answers differ. Exit code 1 when they do.

use std::path::PathBuf;

use anyhow::bail;
use runner_sandbox::{Engine, Hook, Source};
use serde_json::json;

use super::{Common, input, test};
use crate::cases::{Answer, Ask, Case, Subject, difference};
use crate::cli::failure::Failure;
use crate::cli::message;
use crate::cli::output::{self, Format};
use crate::policy;

/// Show what two plugins decide differently.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A component, or builtin:NAME
    #[arg(value_name = "A", value_parser = super::source)]
    before: Source,

    /// Another one
    #[arg(value_name = "B", value_parser = super::source)]
    after: Source,

    /// Case files, or directories of them; what they expect does not count here
    #[arg(value_name = "CASES", required_unless_present = "request")]
    cases: Vec<PathBuf>,

    /// A StartWorkloadRequest, asked of every hook that both plugins have; may be repeated
    #[arg(short = 'f', long, value_name = "FILE")]
    request: Vec<PathBuf>,

    /// Where the flavors of the requests are looked up
    #[arg(long, value_name = "FILE")]
    catalog: Vec<PathBuf>,

    /// Settings of both plugins for the requests, as YAML or JSON
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
}

pub(super) async fn run(args: &Args, common: &Common) -> anyhow::Result<()> {
    let engine = common.engine()?;
    let builtins = policy::builtins();
    let before = Subject::new(&engine, &builtins, args.before.clone());
    let after = Subject::new(&engine, &builtins, args.after.clone());
    let mut asked = test::read(&args.cases)?;
    asked.extend(questions(args, &engine, [&before, &after]).await?);
    if asked.is_empty() {
        bail!(Failure::Usage("there is nothing to ask both plugins".to_owned()));
    }
    let mut different = Vec::new();
    for case in &asked {
        let mismatches = difference(&before.answer(case).await, &after.answer(case).await);
        if !mismatches.is_empty() {
            different.push((case, mismatches));
        }
    }
    match common.output {
        Format::Json => output::json(&json!({
            "asked": asked.len(),
            "different": different
                .iter()
                .map(|(case, mismatches)| json!({
                    "name": case.name,
                    "parts": mismatches
                        .iter()
                        .map(|m| json!({"part": m.part, "before": m.expected, "after": m.got}))
                        .collect::<Vec<_>>(),
                }))
                .collect::<Vec<_>>(),
        }))?,
        Format::Text => {
            for (case, mismatches) in &different {
                output::text(output::plain(&case.name));
                for mismatch in mismatches {
                    output::text(format!("  {}", mismatch.part));
                    mismatch
                        .lines()
                        .iter()
                        .for_each(|line| output::text(format!("    {}", output::plain(line))));
                }
            }
            output::text(format!(
                "{} asked, {} decided differently",
                asked.len(),
                different.len()
            ));
        }
    }
    if different.is_empty() {
        Ok(())
    } else {
        bail!("the plugins differ")
    }
}

/// What a request is to each hook that both plugins have.
async fn questions(args: &Args, engine: &Engine, plugins: [&Subject<'_>; 2]) -> anyhow::Result<Vec<Case>> {
    let mut asked = Vec::new();
    if args.request.is_empty() {
        return Ok(asked);
    }
    let settings = input::settings(args.settings.as_deref())?;
    let [a, b] = plugins;
    let (a, b) = (a.load(&settings).await?, b.load(&settings).await?);
    let both = |hook: Hook| a.hooks().contains(&hook) && b.hooks().contains(&hook);
    let answers_for = |name: &String| {
        let known = |plugin: &runner_sandbox::Plugin| plugin.capabilities().iter().any(|c| c.name == *name);
        known(&a) && known(&b)
    };
    for file in &args.request {
        let spec = Box::new(input::request(Some(file))?);
        let mut ask = |name: &str, ask: Ask| {
            asked.push(Case {
                name: format!("{} {name}", message::name_of(file)),
                file: file.clone(),
                line: 0,
                settings: settings.clone(),
                ask,
                expect: Answer::default(),
            });
        };
        if both(Hook::FlavorSizing) {
            let flavor = match &spec.flavor {
                Some(name) => Some(input::flavor(engine, name, &args.catalog).await?),
                None => None,
            };
            ask("flavor-sizing", Ask::Size(flavor.map(Box::new), spec.clone()));
        }
        for name in spec.capabilities.iter().filter(|name| answers_for(name)) {
            ask(
                &format!("capability-policy {name}"),
                Ask::Apply(name.clone(), spec.clone(), None),
            );
        }
        if both(Hook::PodMutation) {
            ask("pod-mutation", Ask::Mutate(spec, None));
        }
    }
    Ok(asked)
}
