//! Reads the operator's YAML catalog: which flavors, storage classes and capabilities exist.
//!
//! Everything that can be said about a catalog is said when it is loaded: every problem of every document in one answer,
//! each with its place. `tree.rs` and `yaml.rs` read YAML, `flavors.rs` and `storage.rs` hold the rules of an entry, `quantities.rs`
//! and `devices.rs` those of its sizes.

mod devices;
mod flavors;
mod problems;
mod quantities;
mod storage;
mod tree;
mod yaml;

use plugin_sdk::catalog::{Catalog, CatalogMapping, Diagnostic, Document};
use plugin_sdk::{Description, Plugin};

use problems::Problems;
use yaml::Root;

pub struct CatalogYaml;

plugin_sdk::export!(CatalogYaml: catalog_mapping);

const SETTINGS_SCHEMA: &str = r#"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {},
  "additionalProperties": false
}"#;

impl Plugin for CatalogYaml {
    fn describe() -> Description {
        Description {
            name: "catalog-yaml".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Reads flavors, storage classes and capabilities from YAML documents.".into(),
            settings_schema: SETTINGS_SCHEMA.into(),
            grants: Vec::new(),
        }
    }

    fn check_settings() -> Result<(), Vec<String>> {
        Ok(())
    }
}

impl CatalogMapping for CatalogYaml {
    fn load(documents: Vec<Document>) -> Result<Catalog, Vec<Diagnostic>> {
        let (answer, notes) = load(&documents);
        notes.iter().for_each(|note| plugin_sdk::log::debug(note));
        answer
    }
}

const KEYS: &[&str] = &["flavors", "storageClasses", "capabilities"];

/// The catalog or its problems, and notes for whoever wonders why a key has no effect. Flavors come first in both, then
/// storage classes (W-903).
fn load(documents: &[Document]) -> (Result<Catalog, Vec<Diagnostic>>, Vec<String>) {
    let mut problems = Problems::default();
    let mut roots = Vec::new();
    for document in documents {
        match yaml::parse(document) {
            Ok(parsed) => roots.extend(parsed),
            Err(diagnostic) => problems.push(diagnostic),
        }
    }
    roots.retain(|root| root.is_catalog(&mut problems));
    for root in &roots {
        root.as_node().note_unknown_keys(KEYS, &mut problems.notes);
    }

    let catalog = Catalog {
        flavors: flavors::read(&roots, &mut problems),
        storage_classes: storage::read(&roots, &mut problems),
        capabilities: capabilities(&roots, &mut problems),
    };
    let Problems { found, notes } = problems;
    (if found.is_empty() { Ok(catalog) } else { Err(found) }, notes)
}

/// W-904: cleaned, not refused.
fn capabilities(roots: &[Root<'_>], problems: &mut Problems) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for root in roots {
        for item in root.as_node().list("capabilities", problems) {
            let name = item.text("a capability", problems).trim();
            if !name.is_empty() && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
    }
    names
}

/// W-904, as the platform checks it.
fn is_valid_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

const NAME_RULE: &str = "name must be 1 to 64 characters of a-z, 0-9 and -";

#[cfg(test)]
mod tests;
