//! The hook catalog-mapping: turns the operator's catalog documents into the catalog, or tells all that is wrong with them.
//! The format is the plugin's own. Here: JSON such as `{"flavors": [{"name": "small", "cpu": "1", "memory": "1Gi"}]}`.

use serde::Deserialize;

use crate::ThisPlugin;
use crate::bindings::exports::runner::policy::catalog_mapping::{
    Catalog, Diagnostic, Document, Flavor, Guest,
};
use crate::host::Resources;

impl Guest for ThisPlugin {
    fn load(documents: Vec<Document>) -> Result<Catalog, Vec<Diagnostic>> {
        load(&documents)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    flavors: Vec<Size>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Size {
    name: String,
    cpu: String,
    memory: String,
}

/// Every problem of every document: the operator sees them all at once.
fn load(documents: &[Document]) -> Result<Catalog, Vec<Diagnostic>> {
    let mut catalog = Catalog {
        flavors: Vec::new(),
        storage_classes: Vec::new(),
        capabilities: Vec::new(),
    };
    let mut problems = Vec::new();
    for document in documents {
        match serde_json::from_str::<File>(&document.text) {
            Ok(file) => catalog.flavors.extend(file.flavors.into_iter().map(flavor)),
            Err(error) => problems.push(Diagnostic {
                document: document.name.clone(),
                line: u32::try_from(error.line()).unwrap_or(0),
                column: u32::try_from(error.column()).unwrap_or(0),
                malformed: true,
                message: error.to_string(),
            }),
        }
    }
    if problems.is_empty() {
        Ok(catalog)
    } else {
        Err(problems)
    }
}

fn flavor(size: Size) -> Flavor {
    let amounts = vec![
        ("cpu".to_owned(), size.cpu),
        ("memory".to_owned(), size.memory),
    ];
    Flavor {
        name: size.name,
        default: false,
        deprecated: false,
        main: Resources {
            requests: amounts.clone(),
            limits: amounts,
        },
        sidecar: None,
        devices: Vec::new(),
        supplemental_groups: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(name: &str, text: &str) -> Document {
        Document {
            name: name.into(),
            text: text.into(),
        }
    }

    #[test]
    fn documents_are_joined_and_all_problems_told() {
        let good = document(
            "a.json",
            r#"{"flavors": [{"name": "small", "cpu": "1", "memory": "1Gi"}]}"#,
        );
        assert_eq!(
            load(&[good.clone(), good.clone()]).unwrap().flavors.len(),
            2
        );
        let problems =
            load(&[document("b.json", "{"), good, document("c.json", "{}")]).unwrap_err();
        let names: Vec<_> = problems
            .iter()
            .map(|problem| problem.document.as_str())
            .collect();
        assert_eq!(names, ["b.json", "c.json"]);
    }
}
