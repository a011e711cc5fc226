//! A plugin with modes: `{"mode": "spin", "where": "mutate"}`. `where` names the function that misbehaves (default: every
//! one but describe, check-settings and capabilities); elsewhere it is well-behaved. `{"mode": "ok"}` behaves everywhere.

#[allow(clippy::all)]
mod bindings {
    wit_bindgen::generate!({ path: "../../../wit", world: "runner:policy/every-hook" });
}

/// The one function of WASI that hands out handles without asking for anything.
#[allow(clippy::all)]
mod wasi {
    wit_bindgen::generate!({
        inline: r#"
            package test:handles;

            world handles {
                import wasi:clocks/monotonic-clock@0.2.6;
            }

            package wasi:io@0.2.6 {
                interface poll {
                    resource pollable {
                        ready: func() -> bool;
                        block: func();
                    }
                    poll: func(in: list<borrow<pollable>>) -> list<u32>;
                }
            }

            package wasi:clocks@0.2.6 {
                interface monotonic-clock {
                    use wasi:io/poll@0.2.6.{pollable};
                    type instant = u64;
                    type duration = u64;
                    now: func() -> instant;
                    resolution: func() -> duration;
                    subscribe-instant: func(when: instant) -> pollable;
                    subscribe-duration: func(when: duration) -> pollable;
                }
            }
        "#,
        generate_all,
    });
}

mod modes;

use bindings::exports::runner::policy::{capability_policy, catalog_mapping, flavor_sizing, plugin, pod_mutation};
use bindings::runner::policy::settings;
use bindings::runner::policy::types::{Edit, Rejection, RejectionKind, Resources, Workload, Write};
use serde_json::Value;

struct Misbehave;

#[cfg(target_arch = "wasm32")]
bindings::export!(Misbehave with_types_in bindings);

/// The mode for a function: `calm` unless the settings say that this function misbehaves.
fn mode(function: &str) -> String {
    let settings: Value = serde_json::from_str(&settings::get()).unwrap_or_default();
    let at_load = ["describe", "check-settings", "capabilities"].contains(&function);
    let here = settings["where"].as_str().map_or(!at_load, |wanted| wanted == function);
    if here {
        settings["mode"].as_str().unwrap_or("ok").to_owned()
    } else {
        "calm".to_owned()
    }
}

fn reject(code: &str, message: &str) -> Rejection {
    Rejection {
        kind: RejectionKind::FailedPrecondition,
        code: code.to_owned(),
        message: message.to_owned(),
    }
}

fn rejection(mode: &str) -> Option<Rejection> {
    match mode {
        "reject" => Some(reject("not_today", "come back later")),
        "reject-dirty" => Some(reject("not_today", &format!("a\nb\u{1b}[31m{}", "x".repeat(5000)))),
        "bad-code" => Some(reject("Not A Token", "")),
        _ => None,
    }
}

impl plugin::Guest for Misbehave {
    fn describe() -> plugin::Description {
        let mode = mode("describe");
        modes::act(&mode);
        let schema = match mode.as_str() {
            "no-schema" => "{",
            _ => r#"{"type":"object","properties":{"mode":{"type":"string"},"where":{"type":"string"},"shared":{}}}"#,
        };
        let grants = match mode.as_str() {
            "bad-grant" => vec!["root".to_owned()],
            _ => vec!["privileged".to_owned()],
        };
        plugin::Description {
            name: "misbehave".to_owned(),
            version: "1.2.3".to_owned(),
            summary: "Does wrong what it is asked to.".to_owned(),
            settings_schema: schema.to_owned(),
            grants,
        }
    }

    fn check_settings() -> Result<(), Vec<String>> {
        let mode = mode("check-settings");
        modes::act(&mode);
        let settings: Value = serde_json::from_str(&settings::get()).unwrap_or_default();
        match settings["shared"].as_str() {
            Some("bad") => Err(vec![
                "invalid shared thing \"bad\"".to_owned(),
                "and another".to_owned(),
            ]),
            _ => Ok(()),
        }
    }
}

impl catalog_mapping::Guest for Misbehave {
    fn load(
        documents: Vec<catalog_mapping::Document>,
    ) -> Result<catalog_mapping::Catalog, Vec<catalog_mapping::Diagnostic>> {
        let mode = mode("load");
        modes::act(&mode);
        let diagnostic = |malformed, line, column, message: &str| catalog_mapping::Diagnostic {
            document: documents.first().map(|d| d.name.clone()).unwrap_or_default(),
            line,
            column,
            malformed,
            message: message.to_owned(),
        };
        match mode.as_str() {
            "diagnostics" => {
                return Err(vec![
                    diagnostic(true, 3, 7, "not a list"),
                    diagnostic(false, 0, 0, "flavor name is empty"),
                ]);
            }
            "no-diagnostics" => return Err(vec![]),
            _ => {}
        }
        let flavor = |name: &str| catalog_mapping::Flavor {
            name: name.to_owned(),
            default: false,
            deprecated: false,
            main: sizes("1", "2"),
            sidecar: None,
            devices: vec![],
            supplemental_groups: vec![],
        };
        let flavors = match mode.as_str() {
            "bad-name" => vec![flavor("Bad Name")],
            "duplicate" => vec![flavor("a"), flavor("a")],
            _ => documents.iter().map(|document| flavor(document.text.trim())).collect(),
        };
        Ok(catalog_mapping::Catalog {
            flavors,
            storage_classes: vec![],
            capabilities: vec![],
        })
    }
}

fn sizes(request: &str, limit: &str) -> Resources {
    Resources {
        requests: vec![("cpu".to_owned(), request.to_owned())],
        limits: vec![("cpu".to_owned(), limit.to_owned())],
    }
}

impl flavor_sizing::Guest for Misbehave {
    fn size(flavor: Option<flavor_sizing::Flavor>, workload: Workload) -> Result<flavor_sizing::Sizing, Rejection> {
        let mode = mode("size");
        modes::act(&mode);
        if let Some(rejection) = rejection(&mode) {
            return Err(rejection);
        }
        let resources = match mode.as_str() {
            "bad-quantity" => sizes("lots", "2"),
            "over-limit" => sizes("4", "2"),
            _ => flavor
                .as_ref()
                .map_or_else(|| sizes("1", "2"), |flavor| flavor.main.clone()),
        };
        let by_role = workload
            .containers
            .iter()
            .map(|c| flavor_sizing::RoleResources {
                role: c.role,
                resources: resources.clone(),
            })
            .collect();
        let stranger = flavor_sizing::ContainerResources {
            name: "stranger".to_owned(),
            resources,
        };
        let by_name = if mode == "stranger" { vec![stranger] } else { vec![] };
        Ok(flavor_sizing::Sizing {
            by_role,
            by_name,
            supplemental_groups: flavor.map(|flavor| flavor.supplemental_groups).unwrap_or_default(),
        })
    }
}

impl capability_policy::Guest for Misbehave {
    fn capabilities() -> Vec<capability_policy::Capability> {
        let mode = mode("capabilities");
        modes::act(&mode);
        let name = if mode == "bad-name" { "Wrong Name" } else { "trouble" };
        vec![capability_policy::Capability {
            name: name.to_owned(),
            available: true,
        }]
    }

    fn apply(capability: String, _workload: Workload) -> Result<capability_policy::Applied, Rejection> {
        let mode = mode("apply");
        modes::act(&mode);
        match rejection(&mode) {
            Some(rejection) => Err(rejection),
            None => {
                let name = if mode == "bad-sidecar" {
                    "Not A Name".to_owned()
                } else {
                    capability
                };
                Ok(capability_policy::Applied {
                    edits: modes::edits(&mode),
                    sidecars: vec![name],
                })
            }
        }
    }
}

impl pod_mutation::Guest for Misbehave {
    fn mutate(_workload: Workload) -> Result<Vec<Edit>, Rejection> {
        let mode = mode("mutate");
        modes::act(&mode);
        match rejection(&mode) {
            Some(rejection) => Err(rejection),
            None => Ok(modes::edits(&mode)),
        }
    }
}

fn write(pointer: &str, value: impl Into<String>) -> Write {
    Write {
        pointer: pointer.to_owned(),
        value: value.into(),
    }
}
