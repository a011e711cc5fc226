//! From YAML nodes to a manifest. Unknown keys and wrong types are problems; reading goes on after each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use runner_core::quantity::Quantity;
use runner_core::{grants, names};
use serde_json::{Map, Value};

use super::{Entry, Manifest, Origin, Source};
use crate::limits::Limits;
use crate::problem::{Place, Problem, Problems};
use crate::yaml::{self, Data, Node};

const TOP_KEYS: [&str; 1] = ["plugins"];
const ENTRY_KEYS: [&str; 6] = ["name", "source", "digest", "settings", "grants", "limits"];
const LIMIT_KEYS: [&str; 14] = [
    "time",
    "memory",
    "memories",
    "tables",
    "tableElements",
    "instances",
    "handles",
    "hostCalls",
    "callBytes",
    "outputBytes",
    "edits",
    "valueBytes",
    "logLines",
    "logBytes",
];
const FILE_BYTES: usize = 1 << 20;

pub(super) fn manifest(file: &Path, text: &str) -> Result<Manifest, Problems> {
    let mut reader = Reader {
        file,
        problems: Problems::default(),
    };
    if text.len() > FILE_BYTES {
        reader.problem(Place::default(), "", format!("longer than {FILE_BYTES} bytes"));
        return Err(reader.problems);
    }
    let plugins = match yaml::parse(text) {
        Ok(root) => reader.plugins(&root),
        Err((place, message)) => {
            reader.problem(place, "", message);
            Vec::new()
        }
    };
    reader.problems.or(Manifest { plugins })
}

struct Reader<'a> {
    file: &'a Path,
    problems: Problems,
}

impl Reader<'_> {
    fn problem(&mut self, place: Place, field: &str, message: impl std::fmt::Display) {
        self.problems
            .0
            .push(Problem::new(Some(self.file), place, field.to_owned(), message));
    }

    fn plugins(&mut self, root: &Node) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        let Some(top) = self.mapping(root, "", &TOP_KEYS) else {
            return entries;
        };
        let Some(node) = get(top, "plugins") else {
            self.problem(
                root.place,
                "plugins",
                "is required; write `plugins: []` for a host without plugins",
            );
            return entries;
        };
        for (index, item) in self.list(node, "plugins").iter().enumerate() {
            let field = format!("plugins[{index}]");
            let Some(entry) = self.entry(item, &field) else {
                continue;
            };
            if entries.iter().any(|other| other.name == entry.name) {
                let place = item.locate("/name");
                self.problem(
                    place,
                    &format!("{field}.name"),
                    format!("{:?} is used twice", entry.name),
                );
            }
            entries.push(entry);
        }
        entries
    }

    fn entry(&mut self, node: &Node, field: &str) -> Option<Entry> {
        let map = self.mapping(node, field, &ENTRY_KEYS)?;
        let name = self.required_text(node, map, field, "name");
        let source = self.required_text(node, map, field, "source");
        let mut entry = Entry::new(name.clone().unwrap_or_default(), Source::Path(PathBuf::new()));
        entry.origin = Origin {
            file: Some(self.file.to_owned()),
            field: field.to_owned(),
            node: Some(node.clone()),
        };

        if let Some(name) = &name
            && let Err(reason) = names::dns_label(name)
        {
            self.problem(node.locate("/name"), &format!("{field}.name"), reason);
        }
        match source.as_deref().map(|text| source_of(self.file, text)) {
            Some(Ok(source)) => entry.source = source,
            Some(Err(reason)) => self.problem(node.locate("/source"), &format!("{field}.source"), reason),
            None => {}
        }
        if let Some(digest) = get(map, "digest").and_then(|node| self.text(node, &format!("{field}.digest"))) {
            match is_digest(&digest) {
                true => entry.digest = Some(digest),
                false => self.problem(
                    node.locate("/digest"),
                    &format!("{field}.digest"),
                    format!("{digest:?} is not `sha256:` and 64 lower-case hex digits"),
                ),
            }
        }
        if let Some(settings) = get(map, "settings") {
            entry.settings = self.settings(settings, &format!("{field}.settings"));
        }
        if let Some(grants) = get(map, "grants") {
            entry.grants = Some(self.grants(grants, &format!("{field}.grants")));
        }
        if let Some(limits) = get(map, "limits") {
            entry.limits = self.limits(limits, &format!("{field}.limits"));
        }
        (name.is_some()).then_some(entry)
    }

    fn settings(&mut self, node: &Node, field: &str) -> Map<String, Value> {
        match node.to_json() {
            Value::Object(map) => map,
            Value::Null => Map::new(),
            _ => {
                self.problem(node.place, field, format!("expected a mapping, found {}", node.kind()));
                Map::new()
            }
        }
    }

    fn grants(&mut self, node: &Node, field: &str) -> BTreeSet<String> {
        let mut granted = BTreeSet::new();
        for (index, item) in self.list(node, field).iter().enumerate() {
            let field = format!("{field}[{index}]");
            let Some(grant) = self.text(item, &field) else { continue };
            match grants::check(&grant) {
                Ok(()) => drop(granted.insert(grant)),
                Err(reason) => self.problem(item.place, &field, reason),
            }
        }
        granted
    }

    fn limits(&mut self, node: &Node, field: &str) -> Limits {
        let mut limits = Limits::default();
        let most = Limits::CEILING;
        for (key, place, value) in self.mapping(node, field, &LIMIT_KEYS).unwrap_or_default() {
            let field = format!("{field}.{key}");
            let slot = match key.as_str() {
                "time" => {
                    match duration(value, most.time) {
                        Ok(time) => limits.time = time,
                        Err(reason) => self.problem(*place, &field, reason),
                    }
                    continue;
                }
                "memory" => (&mut limits.memory, most.memory),
                "memories" => (&mut limits.memories, most.memories),
                "tables" => (&mut limits.tables, most.tables),
                "tableElements" => (&mut limits.table_elements, most.table_elements),
                "instances" => (&mut limits.instances, most.instances),
                "handles" => (&mut limits.handles, most.handles),
                "hostCalls" => (&mut limits.host_calls, most.host_calls),
                "callBytes" => (&mut limits.call_bytes, most.call_bytes),
                "outputBytes" => (&mut limits.output_bytes, most.output_bytes),
                "edits" => (&mut limits.edits, most.edits),
                "valueBytes" => (&mut limits.value_bytes, most.value_bytes),
                "logLines" => (&mut limits.log_lines, most.log_lines),
                "logBytes" => (&mut limits.log_bytes, most.log_bytes),
                _ => continue,
            };
            match size(value, slot.1) {
                Ok(number) => *slot.0 = number,
                Err(reason) => self.problem(*place, &field, reason),
            }
        }
        limits
    }

    fn mapping<'n>(&mut self, node: &'n Node, field: &str, known: &[&str]) -> Option<&'n [(String, Place, Node)]> {
        let Data::Map(entries) = &node.data else {
            self.problem(node.place, field, format!("expected a mapping, found {}", node.kind()));
            return None;
        };
        for (key, place, _) in entries {
            if !known.contains(&key.as_str()) {
                let full = if field.is_empty() {
                    key.clone()
                } else {
                    format!("{field}.{key}")
                };
                self.problem(
                    *place,
                    &full,
                    format!("unknown key; valid keys are {}", known.join(", ")),
                );
            }
        }
        Some(entries)
    }

    fn list<'n>(&mut self, node: &'n Node, field: &str) -> &'n [Node] {
        match &node.data {
            Data::List(items) => items,
            _ => {
                self.problem(node.place, field, format!("expected a list, found {}", node.kind()));
                &[]
            }
        }
    }

    fn text(&mut self, node: &Node, field: &str) -> Option<String> {
        match &node.data {
            Data::Text(text) => Some(text.clone()),
            _ => {
                self.problem(node.place, field, format!("expected text, found {}", node.kind()));
                None
            }
        }
    }

    fn required_text(&mut self, node: &Node, map: &[(String, Place, Node)], field: &str, key: &str) -> Option<String> {
        let field = format!("{field}.{key}");
        match get(map, key) {
            Some(value) => self.text(value, &field),
            None => {
                self.problem(node.place, &field, "is required");
                None
            }
        }
    }
}

fn get<'n>(map: &'n [(String, Place, Node)], key: &str) -> Option<&'n Node> {
    map.iter().find(|(name, ..)| name == key).map(|(_, _, node)| node)
}

fn source_of(file: &Path, text: &str) -> Result<Source, String> {
    match text.split_once(':') {
        _ if text.is_empty() => Err("is empty; expected `builtin:NAME` or a path".to_owned()),
        Some(("builtin", name)) => Ok(Source::Builtin(name.to_owned())),
        Some((scheme, _)) if scheme.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            Err(format!("unknown source {scheme:?}; expected `builtin:NAME` or a path"))
        }
        _ => Ok(Source::Path(file.parent().unwrap_or(Path::new("")).join(text))),
    }
}

fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)))
}

/// The value as written, or what it is.
fn shown(node: &Node) -> String {
    match &node.data {
        Data::Text(text) => format!("{text:?}"),
        Data::Number(number) => number.to_string(),
        _ => node.kind().to_owned(),
    }
}

fn duration(node: &Node, most: Duration) -> Result<Duration, String> {
    let bad = || {
        format!(
            "{} is not a time such as 250ms or 2s, at most {}s",
            shown(node),
            most.as_secs()
        )
    };
    let Data::Text(text) = &node.data else {
        return Err(bad());
    };
    let unit = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(unit).ok_or_else(bad)?;
    let number: u64 = number.parse().map_err(|_| bad())?;
    let time = match unit {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        _ => return Err(bad()),
    };
    if time.is_zero() || time > most {
        Err(bad())
    } else {
        Ok(time)
    }
}

/// A whole number; sizes and counts are written alike.
fn size(node: &Node, most: u64) -> Result<u64, String> {
    let bad = || {
        format!(
            "{} is not a whole number from 0 to {most}, such as 1000 or 32Mi",
            shown(node)
        )
    };
    let text = match &node.data {
        Data::Text(text) => text.clone(),
        Data::Number(number) => number.to_string(),
        _ => return Err(bad()),
    };
    let quantity = Quantity::parse(&text).map_err(|_| bad())?;
    let units = u64::try_from(quantity.units()).map_err(|_| bad())?;
    if quantity.is_whole() && units <= most {
        Ok(units)
    } else {
        Err(bad())
    }
}

#[cfg(test)]
mod tests;
