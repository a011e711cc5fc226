//! `runner-host config check`: each setting with its value and where that is from, and all problems in one answer.

use anyhow::bail;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args as _};
use serde_json::json;

use crate::cli::output::{self, Format};
use crate::cli::serve;
use crate::config::{Config, PlanConfig};
use crate::{listener, policy};

/// Print the settings that serve would have, and everything that is wrong with them.
#[derive(Debug, clap::Args)]
// the flags of serve are a group of the same name
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    serve: serve::Args,

    /// Form of the output
    #[arg(short, long, value_enum, default_value_t, help_heading = "Output")]
    output: Format,
}

/// Blank is a value of these; for others it is the same as unset, or a problem.
const BLANK_COUNTS: [&str; 2] = ["ADMIN_ADDR", "WORKLOAD_ALLOWED_CAPABILITIES"];

#[derive(Debug, PartialEq, Eq)]
struct Setting {
    variable: String,
    flag: String,
    /// None: unset.
    value: Option<String>,
    source: &'static str,
}

pub(super) async fn run(args: Args, matches: &ArgMatches) -> anyhow::Result<()> {
    let command = serve::Args::augment_args(clap::Command::new("serve"));
    let mut settings: Vec<Setting> = (command.get_arguments())
        .filter_map(|arg| setting(arg, matches))
        .collect();
    let problems = match args.serve.checked() {
        Ok((config, embedded)) => {
            computed(&mut settings, &config);
            files(&config, embedded).await
        }
        Err(problems) => problems,
    };
    match args.output {
        Format::Text => {
            let cell = |value: Option<String>| value.map(|v| if v.is_empty() { "\"\"".to_owned() } else { v });
            let rows = settings.into_iter().map(|s| {
                let value = cell(s.value).unwrap_or_default();
                [s.variable, s.flag, value, s.source.to_owned()]
            });
            output::table(["VARIABLE", "FLAG", "VALUE", "SOURCE"], rows);
            for problem in &problems {
                output::text(format!("\n{problem}"));
            }
        }
        Format::Json => {
            let settings: Vec<_> = (settings.into_iter())
                .map(|s| json!({"variable": s.variable, "flag": s.flag, "value": s.value, "source": s.source}))
                .collect();
            output::json(&json!({"settings": settings, "problems": problems}))?;
        }
    }
    match problems.len() {
        0 => Ok(()),
        1 => bail!("1 problem"),
        n => bail!("{n} problems"),
    }
}

fn setting(arg: &Arg, matches: &ArgMatches) -> Option<Setting> {
    let variable = arg.get_env()?.to_string_lossy().into_owned();
    let id = arg.get_id().as_str();
    let given = matches.get_raw(id).and_then(|mut values| values.next());
    let given = given.map(|value| value.to_string_lossy().trim().to_owned());
    let default = arg
        .get_default_values()
        .first()
        .map(|value| value.to_string_lossy().into_owned());
    let source = match matches.value_source(id) {
        Some(ValueSource::CommandLine) => "flag",
        Some(ValueSource::EnvVariable) => "environment",
        _ => "default",
    };
    let unset = given.as_deref().is_none_or(str::is_empty) && !BLANK_COUNTS.contains(&variable.as_str());
    let (value, source) = if unset { (default, "default") } else { (given, source) };
    // what a shell's history or a screen should not show
    let value = match value {
        Some(_) if arg.is_hide_env_values_set() => Some("(hidden)".to_owned()),
        value => value,
    };
    let flag = arg.get_long().map(|long| format!("--{long}")).unwrap_or_default();
    Some(Setting {
        variable,
        flag,
        value,
        source,
    })
}

/// Defaults that depend on the machine.
fn computed(settings: &mut [Setting], config: &Config) {
    let cache = config
        .plan
        .policy
        .plugin_cache
        .as_ref()
        .map(|path| path.display().to_string());
    let holder = config.lease.as_ref().map(|lease| lease.holder.clone());
    for setting in settings.iter_mut().filter(|setting| setting.value.is_none()) {
        setting.value = match setting.variable.as_str() {
            "RUNNER_PLUGIN_CACHE" => cache.clone(),
            "POD_NAME" => holder.clone(),
            _ => None,
        };
    }
}

/// What only the files tell: certificates, kubeconfig, plugins and catalog.
async fn files(config: &Config, embedded: bool) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(files) = &config.tls
        && let Err(problem) = listener::tls::check(files)
    {
        problems.push(format!("TLS: {problem}"));
    }
    if !embedded && let Err(error) = serve::connect(config).await {
        problems.push(format!("{error:#}"));
    }
    problems.extend(policy_problems(&config.plan).await);
    problems
}

async fn policy_problems(config: &PlanConfig) -> Vec<String> {
    let engine = match policy::engine(&config.policy) {
        Ok(engine) => engine,
        Err(error) => return vec![error],
    };
    match policy::check(&engine, &config.policy).await {
        Ok(_) => Vec::new(),
        Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
    }
}
