//! Reads case files. What is wrong with one comes with its place; requests pass the checks of StartWorkload here, so that a
//! case cannot ask what a caller could not.

use std::fmt;
use std::path::{Path, PathBuf};

use indexmap::IndexSet;
use runner_core::flavor::Flavor as CoreFlavor;
use runner_core::workload::WorkloadSpec;
use runner_sandbox::{Document, Hook};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use serde_saphyr::Spanned;

use super::answer::{Answer, Flavor};
use crate::cli::message;
use crate::convert;

/// One case.
#[derive(Debug, Clone)]
pub struct Case {
    /// Unique in its file.
    pub name: String,
    /// Where it is written.
    pub file: PathBuf,
    /// From 1.
    pub line: u64,
    /// Settings of the plugin.
    pub settings: Map<String, Value>,
    /// What the plugin is asked.
    pub ask: Ask,
    /// What it has to answer.
    pub expect: Answer,
}

/// What a plugin is asked; a variant a hook.
#[derive(Debug, Clone)]
pub enum Ask {
    /// Its grants and capabilities, or what is wrong with the settings.
    Describe,
    /// The catalog of these documents.
    Catalog(Vec<Document>),
    /// The sizes of a workload, by a flavor or without.
    Size(Option<Box<CoreFlavor>>, Box<WorkloadSpec>),
    /// A capability in a pod: the one given, or the one that the host builds for the request.
    Apply(String, Box<WorkloadSpec>, Option<Value>),
    /// The changes of a pod: the one given, or the one that the host builds for the request.
    Mutate(Box<WorkloadSpec>, Option<Value>),
}

impl Ask {
    /// The hook that answers; none for what every plugin has.
    pub fn hook(&self) -> Option<Hook> {
        match self {
            Self::Describe => None,
            Self::Catalog(_) => Some(Hook::CatalogMapping),
            Self::Size(..) => Some(Hook::FlavorSizing),
            Self::Apply(..) => Some(Hook::CapabilityPolicy),
            Self::Mutate(..) => Some(Hook::PodMutation),
        }
    }
}

/// What is wrong with a case file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// From 1; 0 when the file cannot be read.
    pub line: u64,
    /// From 1; 0 when the file cannot be read.
    pub column: u64,
    /// What is wrong, and what would be valid.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if self.line > 0 {
            write!(f, "{}:{}:", self.line, self.column)?;
        }
        write!(f, " {}", self.message)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
    cases: Vec<Spanned<Written>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    hook: WrittenHook,
    #[serde(default)]
    settings: Map<String, Value>,
    documents: Option<Vec<WrittenDocument>>,
    flavor: Option<Flavor>,
    capability: Option<String>,
    request: Option<Map<String, Value>>,
    pod: Option<Value>,
    expect: Answer,
}

/// The name of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WrittenHook {
    Plugin,
    CatalogMapping,
    FlavorSizing,
    CapabilityPolicy,
    PodMutation,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenDocument {
    name: String,
    text: String,
}

/// The case files of a path: itself, or the `.yaml` files of a directory in order of their names.
pub fn find(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let file = entry?.path();
        if file.extension().is_some_and(|e| e == "yaml" || e == "yml") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// The cases of several files, or every problem of all of them.
pub fn read_all(files: &[PathBuf]) -> Result<Vec<Case>, Vec<Problem>> {
    let (mut cases, mut problems) = (Vec::new(), Vec::new());
    for file in files {
        match std::fs::read_to_string(file) {
            Ok(text) => match read(file, &text) {
                Ok(read) => cases.extend(read),
                Err(found) => problems.extend(found),
            },
            Err(error) => problems.push(Problem {
                file: file.clone(),
                line: 0,
                column: 0,
                message: error.to_string(),
            }),
        }
    }
    if problems.is_empty() { Ok(cases) } else { Err(problems) }
}

/// The cases of a file's text, or its problems. A text that is not of this shape has one, else every case may have one.
pub fn read(file: &Path, text: &str) -> Result<Vec<Case>, Vec<Problem>> {
    let problem = |(line, column): (u64, u64), message: String| Problem {
        file: file.to_owned(),
        line,
        column,
        message,
    };
    // `y` and `on` are text, as in the plugins file
    let options = serde_saphyr::options! { strict_booleans: true };
    let written: CaseFile = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let at = error.location().map_or((0, 0), |at| (at.line(), at.column()));
        vec![problem(at, without_place(&error.without_snippet().to_string()))]
    })?;
    let (mut cases, mut problems) = (Vec::new(), Vec::new());
    let mut names = IndexSet::new();
    for Spanned { value, referenced, .. } in written.cases {
        let at = (referenced.line(), referenced.column());
        if !names.insert(value.name.clone()) {
            problems.push(problem(at, format!("case {:?}: the name is used twice", value.name)));
        }
        let name = value.name.clone();
        match case(file, at.0, value) {
            Ok(case) => cases.push(case),
            Err(reason) => problems.push(problem(at, format!("case {name:?}: {reason}"))),
        }
    }
    if problems.is_empty() { Ok(cases) } else { Err(problems) }
}

/// The parser says the place at the end, and we at the start.
fn without_place(message: &str) -> String {
    let cut = message.rfind(" at line ").or_else(|| message.rfind(" (line "));
    let line = cut.and_then(|cut| message.get(..cut)).unwrap_or(message);
    line.replace('\n', " ")
}

fn case(file: &Path, line: u64, written: Written) -> Result<Case, String> {
    let Written {
        name,
        hook,
        settings,
        documents,
        flavor,
        capability,
        request,
        pod,
        expect,
    } = written;
    if expect.is_empty() {
        return Err("expect says nothing".to_owned());
    }
    let given = [
        ("documents", documents.is_some()),
        ("flavor", flavor.is_some()),
        ("capability", capability.is_some()),
        ("request", request.is_some()),
        ("pod", pod.is_some()),
    ];
    let (named, used): (&str, &[&str]) = match hook {
        WrittenHook::Plugin => ("plugin", &[]),
        WrittenHook::CatalogMapping => ("catalog-mapping", &["documents"]),
        WrittenHook::FlavorSizing => ("flavor-sizing", &["flavor", "request"]),
        WrittenHook::CapabilityPolicy => ("capability-policy", &["capability", "request", "pod"]),
        WrittenHook::PodMutation => ("pod-mutation", &["request", "pod"]),
    };
    if let Some((key, _)) = given.iter().find(|(key, given)| *given && !used.contains(key)) {
        return Err(match used {
            [] => format!("{key} is no input of the hook {named}, which has none"),
            _ => format!(
                "{key} is no input of the hook {named}; its inputs are {}",
                used.join(", ")
            ),
        });
    }
    let spec = || spec(request.unwrap_or_default()).map(Box::new);
    let ask = match hook {
        WrittenHook::Plugin => Ask::Describe,
        WrittenHook::CatalogMapping => Ask::Catalog(
            documents
                .unwrap_or_default()
                .into_iter()
                .map(|document| Document {
                    name: document.name,
                    text: document.text,
                })
                .collect(),
        ),
        WrittenHook::FlavorSizing => Ask::Size(flavor.map(|flavor| Box::new(flavor.into())), spec()?),
        WrittenHook::CapabilityPolicy => Ask::Apply(capability.ok_or("capability is required")?, spec()?, pod),
        WrittenHook::PodMutation => Ask::Mutate(spec()?, pod),
    };
    Ok(Case {
        name,
        file: file.to_owned(),
        line,
        settings,
        ask,
        expect,
    })
}

/// A StartWorkloadRequest as protobuf JSON. A case rarely cares for the id and the image: these may be left out.
pub(crate) fn spec(mut request: Map<String, Value>) -> Result<WorkloadSpec, String> {
    const ID: &str = "00000000-0000-4000-8000-000000000000";
    const IMAGE: &str = "registry.example/main:1";
    if !request.contains_key("workloadId") && !request.contains_key("workload_id") {
        request.insert("workloadId".to_owned(), json!(ID));
    }
    let main = request.entry("main").or_insert_with(|| json!({}));
    if let Value::Object(main) = main {
        main.entry("image").or_insert_with(|| json!(IMAGE));
    }
    let request = message::request_of(Value::Object(request)).map_err(|error| format!("request: {error:#}"))?;
    convert::start::spec(request).map_err(|error| format!("request: {error}"))
}

#[cfg(test)]
mod tests;
