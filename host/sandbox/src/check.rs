//! Checks of answers: what a plugin says is input. Each error is a reason in one line that names the offending part.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use runner_core::capability::Capability;
use runner_core::catalog::Catalog;
use runner_core::flavor::Resources;
use runner_core::names;
use runner_core::quantity::Quantity;
use serde_json::Value;

use crate::error::{Failure, one_line};
use crate::limits::{LimitExceeded, Limits};
use crate::store::Used;

const SHOWN: usize = 200;

/// Counts the texts and edits of one answer on top of what the call has used.
pub(crate) struct Output<'a> {
    limits: &'a Limits,
    used: &'a mut Used,
}

impl<'a> Output<'a> {
    pub(crate) fn new(limits: &'a Limits, used: &'a mut Used) -> Self {
        Self { limits, used }
    }

    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.used.output_bytes = self.used.output_bytes.saturating_add(text.len() as u64);
        if self.used.output_bytes > self.limits.output_bytes {
            return Err(LimitExceeded::bytes("outputBytes", self.limits.output_bytes).into());
        }
        Ok(())
    }

    pub(crate) fn edits(&mut self, count: usize) -> Result<(), Failure> {
        self.used.edits = count as u64;
        if self.used.edits > self.limits.edits {
            return Err(LimitExceeded::new("edits", self.limits.edits).into());
        }
        Ok(())
    }

    pub(crate) fn pointer(&mut self, pointer: &str) -> Result<(), Failure> {
        self.text(pointer)?;
        jsonptr::Pointer::parse(pointer)
            .map(drop)
            .map_err(|error| Failure::from(format!("not an RFC 6901 pointer: {error}")).at(edit(pointer)))
    }

    pub(crate) fn value(&mut self, pointer: &str, value: &str) -> Result<Value, Failure> {
        self.pointer(pointer)?;
        if value.len() as u64 > self.limits.value_bytes {
            return Err(Failure::from(LimitExceeded::bytes("valueBytes", self.limits.value_bytes)).at(edit(pointer)));
        }
        self.text(value)?;
        serde_json::from_str(value)
            .map_err(|error| Failure::from(format!("the value is not JSON: {error}")).at(edit(pointer)))
    }
}

fn edit(pointer: &str) -> String {
    format!("edit at {:?}", one_line(pointer, SHOWN))
}

/// Resource names and quantities as a map; each parses and is not negative.
pub(crate) fn quantities(
    of: &str,
    what: &str,
    list: Vec<(String, String)>,
) -> Result<IndexMap<String, String>, String> {
    let mut map = IndexMap::with_capacity(list.len());
    for (name, quantity) in list {
        names::qualified_name(&name).map_err(|reason| format!("{of}: resource name {reason}"))?;
        Quantity::parse(&quantity).map_err(|reason| format!("{of}: {name} {what} {reason}"))?;
        if quantity.starts_with('-') {
            return Err(format!("{of}: {name} {what} {quantity:?} is negative"));
        }
        if map.insert(name.clone(), quantity).is_some() {
            return Err(format!("{of}: {name} {what} is given twice"));
        }
    }
    Ok(map)
}

/// No request is above its limit (W-804).
pub(crate) fn resources(of: &str, resources: &Resources) -> Result<(), String> {
    for (name, request) in &resources.requests {
        let Some(limit) = resources.limits.get(name) else {
            continue;
        };
        let over = Quantity::parse(request)
            .ok()
            .zip(Quantity::parse(limit).ok())
            .is_some_and(|(r, l)| r > l);
        if over {
            return Err(format!("{of}: {name} request {request} exceeds limit {limit}"));
        }
    }
    Ok(())
}

/// Trimmed, without blanks and duplicates.
pub(crate) fn clean_names(names: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names
        .iter()
        .map(|name| name.trim())
        .filter(|name| !name.is_empty() && seen.insert((*name).to_owned()))
        .map(str::to_owned)
        .collect()
}

/// What the platform accepts as a name (W-904).
fn name(what: &str, name: &str) -> Result<(), String> {
    let ok = (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if ok {
        Ok(())
    } else {
        Err(format!(
            "{what} {:?} must be 1 to 64 lower-case letters, digits or hyphens",
            one_line(name, SHOWN)
        ))
    }
}

/// Names, uniqueness, defaults, and sizes.
pub(crate) fn catalog(catalog: &Catalog) -> Result<(), String> {
    entries("flavor", catalog.flavors.iter().map(|f| (f.name.as_str(), f.default)))?;
    entries(
        "storage class",
        catalog.storage_classes.iter().map(|c| (c.name.as_str(), c.default)),
    )?;
    for flavor in &catalog.flavors {
        let of = format!("flavor {:?}", flavor.name);
        resources(&of, &flavor.main)?;
        if let Some(sidecar) = &flavor.sidecar {
            resources(&format!("{of}: sidecar"), sidecar)?;
        }
        for device in &flavor.devices {
            names::qualified_name(&device.name).map_err(|reason| format!("{of}: device {reason}"))?;
        }
    }
    for class in &catalog.storage_classes {
        if let Some(class_name) = &class.class_name {
            names::dns_subdomain(class_name)
                .map_err(|reason| format!("storage class {:?}: class name {reason}", class.name))?;
        }
    }
    Ok(())
}

fn entries<'a>(what: &str, list: impl Iterator<Item = (&'a str, bool)>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let mut defaults = 0usize;
    for (name, default) in list {
        self::name(what, name)?;
        if !seen.insert(name) {
            return Err(format!("{what} {name:?} is declared more than once"));
        }
        defaults += usize::from(default);
    }
    if defaults > 1 {
        return Err(format!("at most one {what} may be default, got {defaults}"));
    }
    Ok(())
}

/// Names are as requests spell them, each once.
pub(crate) fn capabilities(list: &[Capability]) -> Result<(), String> {
    entries(
        "capability",
        list.iter().map(|capability| (capability.name.as_str(), false)),
    )
}

#[cfg(test)]
mod tests {
    use runner_core::catalog::StorageClass;
    use runner_core::flavor::{Device, Flavor};

    use super::*;
    use crate::error::Cause;

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn quantities_are_checked() {
        assert!(quantities("main", "limit", pairs(&[("cpu", "500m"), ("example.com/gpu", "0")])).is_ok());
        for (list, expected) in [
            (
                pairs(&[("cpu", "lots")]),
                "main: cpu limit \"lots\" is not a Kubernetes quantity",
            ),
            (pairs(&[("cpu", "-1m")]), "main: cpu limit \"-1m\" is negative"),
            (pairs(&[("c u", "1")]), "main: resource name name part \"c u\""),
            (pairs(&[("cpu", "1"), ("cpu", "2")]), "main: cpu limit is given twice"),
        ] {
            let reason = quantities("main", "limit", list).unwrap_err();
            assert!(reason.starts_with(expected), "{reason}");
        }
    }

    #[test]
    fn a_request_above_its_limit() {
        let sizes = |request: &str, limit: &str| Resources {
            requests: pairs(&[("cpu", request)]).into_iter().collect(),
            limits: pairs(&[("cpu", limit)]).into_iter().collect(),
        };
        assert!(resources("main", &sizes("1", "1000m")).is_ok());
        assert_eq!(
            resources("main", &sizes("2", "1")).unwrap_err(),
            "main: cpu request 2 exceeds limit 1"
        );
    }

    #[test]
    fn catalogs() {
        let flavor = |name: &str, default| Flavor {
            name: name.into(),
            default,
            deprecated: false,
            main: Resources::default(),
            sidecar: None,
            devices: vec![],
            supplemental_groups: vec![],
        };
        let class = |name: &str, class_name: Option<&str>| StorageClass {
            name: name.into(),
            class_name: class_name.map(Into::into),
            default: false,
            deprecated: false,
        };
        let of = |flavors: Vec<Flavor>, storage_classes: Vec<StorageClass>| {
            catalog(&Catalog {
                flavors,
                storage_classes,
                capabilities: vec![],
            })
        };
        assert!(
            of(
                vec![flavor("a", true), flavor("b-1", false)],
                vec![class("a", Some("x.y"))]
            )
            .is_ok()
        );
        let mut device = flavor("a", false);
        device.devices.push(Device {
            name: "no good".into(),
            count: 1,
        });
        for (flavors, classes, expected) in [
            (vec![flavor("A", false)], vec![], "flavor \"A\" must be"),
            (vec![flavor("", false)], vec![], "flavor \"\" must be"),
            (vec![flavor(&"a".repeat(65), false)], vec![], "flavor \"aaa"),
            (
                vec![flavor("a", false), flavor("a", false)],
                vec![],
                "flavor \"a\" is declared more than once",
            ),
            (
                vec![flavor("a", true), flavor("b", true)],
                vec![],
                "at most one flavor may be default, got 2",
            ),
            (vec![], vec![class("a b", None)], "storage class \"a b\" must be"),
            (vec![], vec![class("a", Some("A"))], "storage class \"a\": class name"),
            (vec![device], vec![], "flavor \"a\": device"),
        ] {
            let reason = of(flavors, classes).unwrap_err();
            assert!(reason.starts_with(expected), "{reason}");
        }
        assert_eq!(
            clean_names(vec![" a ".into(), "".into(), "a".into(), "b".into()]),
            ["a", "b"]
        );
    }

    #[test]
    fn edits() {
        let limits = Limits {
            value_bytes: 10,
            output_bytes: 30,
            edits: 2,
            ..Limits::default()
        };
        let output = |pointer: &str, value: &str| Output::new(&limits, &mut Used::default()).value(pointer, value);
        assert!(output("/a~1b/0", "{}").is_ok());
        let value = |pointer: &str, value: &str| output(pointer, value).unwrap_err();
        for (pointer, text, reason) in [
            ("a", "1", "edit at \"a\": not an RFC 6901 pointer"),
            ("/~2", "1", "edit at \"/~2\": not an RFC 6901 pointer"),
            ("/a", "{", "edit at \"/a\": the value is not JSON"),
        ] {
            let failure = value(pointer, text);
            assert!(failure.reason.starts_with(reason), "{}", failure.reason);
            assert_eq!(failure.cause, Cause::Answer);
        }
        let limit = |failure: Failure| (failure.cause, failure.reason);
        assert_eq!(
            limit(value("/a", "\"123456789\"")),
            (
                Cause::Limit("valueBytes"),
                "edit at \"/a\": valueBytes limit of 10 bytes exceeded".to_owned()
            )
        );
        assert_eq!(
            limit(value(&format!("/{}", "a".repeat(30)), "1")),
            (
                Cause::Limit("outputBytes"),
                "outputBytes limit of 30 bytes exceeded".to_owned()
            )
        );
        let mut used = Used {
            output_bytes: 28,
            ..Used::default()
        };
        assert!(
            Output::new(&limits, &mut used).value("/a", "1").is_err(),
            "on top of the rules"
        );
        let many = Output::new(&limits, &mut Used::default()).edits(3).unwrap_err();
        assert_eq!(
            limit(many),
            (Cause::Limit("edits"), "edits limit of 2 exceeded".to_owned())
        );
        let deep = Output::new(&Limits::default(), &mut Used::default())
            .value("/a", &"[".repeat(1000))
            .unwrap_err();
        assert!(deep.reason.contains("not JSON"));
    }
}
