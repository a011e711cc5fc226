//! From YAML nodes to a manifest; `limits.rs` reads the numbers. Unknown keys and wrong types are problems; reading goes
//! on after each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use runner_core::{grants, names};
use serde_json::{Map, Value};

use super::{Entry, Manifest, OnFailure, Origin, Source};
use crate::problem::{Place, Problem, Problems};
use crate::yaml::{self, Data, Node};

const TOP_KEYS: [&str; 2] = ["plugins", "chain"];
const ENTRY_KEYS: [&str; 9] = [
    "name",
    "source",
    "digest",
    "settings",
    "grants",
    "limits",
    "breaker",
    "onFailure",
    "cases",
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
    let manifest = match yaml::parse(text) {
        Ok(root) => reader.top(&root),
        Err((place, message)) => {
            reader.problem(place, "", message);
            Manifest::default()
        }
    };
    reader.problems.or(manifest)
}

mod limits;

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

    fn top(&mut self, root: &Node) -> Manifest {
        let mut manifest = Manifest::default();
        let Some(top) = self.mapping(root, "", &TOP_KEYS) else {
            return manifest;
        };
        match get(top, "plugins") {
            Some(node) => manifest.plugins = self.plugins(node),
            None => self.problem(
                root.place,
                "plugins",
                "is required; write `plugins: []` for a host without plugins",
            ),
        }
        if let Some(chain) = get(top, "chain") {
            manifest.chain = self.chain(chain, "chain");
        }
        manifest
    }

    fn plugins(&mut self, node: &Node) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
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
        if let Some(breaker) = get(map, "breaker") {
            entry.breaker = self.breaker(breaker, &format!("{field}.breaker"));
        }
        if let Some(choice) = get(map, "onFailure") {
            let field = format!("{field}.onFailure");
            match self.text(choice, &field).as_deref() {
                Some("reject") => entry.on_failure = OnFailure::Reject,
                Some("builtin") => entry.on_failure = OnFailure::Builtin,
                Some(other) => self.problem(
                    node.locate("/onFailure"),
                    &field,
                    format!("{other:?} is neither `reject` nor `builtin`"),
                ),
                None => {}
            }
        }
        if let Some(cases) = get(map, "cases") {
            entry.cases = self.cases(cases, &format!("{field}.cases"));
        }
        (name.is_some()).then_some(entry)
    }

    /// Files, relative to the plugins file.
    fn cases(&mut self, node: &Node, field: &str) -> Vec<PathBuf> {
        let base = self.file.parent().unwrap_or(Path::new("")).to_owned();
        let mut files = Vec::new();
        for (index, item) in self.list(node, field).iter().enumerate() {
            if let Some(path) = self.text(item, &format!("{field}[{index}]")) {
                files.push(base.join(path));
            }
        }
        files
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
        Some(("oci", _)) => {
            Err("an OCI registry is not supported in this version; expected `builtin:NAME` or a path".to_owned())
        }
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

#[cfg(test)]
mod tests;
