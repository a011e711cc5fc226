//! Typed reading of YAML nodes that know their place. Scalars are kept as written: a size is passed on to Kubernetes in
//! the operator's own words, whether quoted or a bare number.

use std::rc::Rc;

use plugin_sdk::catalog::{Diagnostic, Document};
use saphyr_parser::Marker;

use crate::problems::Problems;
use crate::tree::{self, Data, Item};

/// How deep `<<` is followed. A catalog needs one; without an end, merged lists of merged lists take forever.
const MERGE_DEPTH: usize = 4;

/// One YAML document.
pub(crate) struct Root<'d> {
    document: &'d str,
    item: Rc<Item>,
}

/// A place in a document and what is there.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    document: &'a str,
    item: &'a Item,
}

/// Several YAML documents in one file count like several files.
pub(crate) fn parse(document: &Document) -> Result<Vec<Root<'_>>, Diagnostic> {
    match tree::parse(&document.text) {
        Ok(items) => Ok(items
            .into_iter()
            .map(|item| Root {
                document: &document.name,
                item,
            })
            .collect()),
        Err((at, message)) => Err(diagnostic(&document.name, at, true, message)),
    }
}

impl Root<'_> {
    pub(crate) fn as_node(&self) -> Node<'_> {
        Node {
            document: self.document,
            item: &self.item,
        }
    }

    /// An empty document is an empty catalog; anything else but a mapping is none.
    pub(crate) fn is_catalog(&self, problems: &mut Problems) -> bool {
        let node = self.as_node();
        if !node.is_null() && node.entries().is_none() {
            problems.shape(
                node,
                "a catalog must be a mapping with flavors, storageClasses and capabilities",
            );
            return false;
        }
        true
    }
}

impl<'a> Node<'a> {
    pub(crate) fn diagnostic(self, malformed: bool, message: String) -> Diagnostic {
        diagnostic(self.document, self.item.start, malformed, message)
    }

    fn at(self, item: &'a Item) -> Self {
        Node { item, ..self }
    }

    /// The value under a key; also one merged in with `<<`, which the keys of the mapping itself go before.
    pub(crate) fn get(self, key: &str) -> Option<Node<'a>> {
        self.get_merged(key, MERGE_DEPTH)
    }

    fn get_merged(self, key: &str, depth: usize) -> Option<Node<'a>> {
        let under = |wanted: &str| {
            self.entries()?
                .find(|(name, _)| *name == wanted)
                .map(|(_, value)| value)
        };
        under(key).or_else(|| {
            let depth = depth.checked_sub(1)?;
            let merged = under("<<")?;
            match merged.items() {
                Some(mut several) => several.find_map(|one| one.get_merged(key, depth)),
                None => merged.get_merged(key, depth),
            }
        })
    }

    /// Keys and values of a mapping; keys that are no scalars are unknown keys and left out.
    pub(crate) fn entries(self) -> Option<impl Iterator<Item = (&'a str, Node<'a>)>> {
        let Data::Map(entries) = &self.item.data else {
            return None;
        };
        Some(
            entries
                .iter()
                .filter_map(move |(key, value)| Some((key.scalar()?, self.at(value)))),
        )
    }

    fn items(self) -> Option<impl Iterator<Item = Node<'a>>> {
        let Data::List(items) = &self.item.data else {
            return None;
        };
        Some(items.iter().map(move |item| self.at(item)))
    }

    /// The items of the list under a key; an absent or empty value is an empty list.
    pub(crate) fn list(self, key: &str, problems: &mut Problems) -> Vec<Node<'a>> {
        let Some(value) = self.get(key).filter(|value| !value.is_null()) else {
            return Vec::new();
        };
        let Some(items) = value.items() else {
            problems.shape(value, format!("{key} must be a list"));
            return Vec::new();
        };
        items.collect()
    }

    /// The items of such a list that are mappings.
    pub(crate) fn mappings(self, key: &str, problems: &mut Problems) -> Vec<Node<'a>> {
        let mut items = self.list(key, problems);
        items.retain(|item| {
            let is_mapping = item.entries().is_some();
            if !is_mapping {
                problems.shape(*item, format!("an item of {key} must be a mapping"));
            }
            is_mapping
        });
        items
    }

    /// Text under a key, empty when absent.
    pub(crate) fn text_of(self, key: &str, problems: &mut Problems) -> &'a str {
        self.get(key).map_or("", |value| value.text(key, problems))
    }

    /// The node's text, empty for null.
    pub(crate) fn text(self, what: &str, problems: &mut Problems) -> &'a str {
        if self.is_null() {
            return "";
        }
        self.scalar().unwrap_or_else(|| {
            problems.shape(self, format!("{what} must be text"));
            ""
        })
    }

    /// A flag under a key, false when absent.
    pub(crate) fn flag(self, key: &str, problems: &mut Problems) -> bool {
        let Some(value) = self.get(key).filter(|value| !value.is_null()) else {
            return false;
        };
        match value.scalar() {
            Some("true" | "True" | "TRUE") => true,
            Some("false" | "False" | "FALSE") => false,
            _ => {
                problems.shape(value, format!("{key} must be true or false"));
                false
            }
        }
    }

    pub(crate) fn note_unknown_keys(self, known: &[&str], notes: &mut Vec<String>) {
        let unknown = self
            .entries()
            .into_iter()
            .flatten()
            .filter(|(key, _)| *key != "<<" && !known.contains(key));
        for (key, value) in unknown {
            let line = value.item.start.line();
            notes.push(format!("{}:{line}: unknown key {key:?} is ignored", self.document));
        }
    }

    /// Nothing, or text of white space only.
    pub(crate) fn is_blank(self) -> bool {
        self.is_null() || self.scalar().is_some_and(|text| text.trim().is_empty())
    }

    fn is_null(self) -> bool {
        matches!(&self.item.data, Data::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    pub(crate) fn scalar(self) -> Option<&'a str> {
        self.item.scalar()
    }
}

/// Lines and columns count from 1; the parser's columns from 0.
fn diagnostic(document: &str, at: Marker, malformed: bool, message: String) -> Diagnostic {
    Diagnostic {
        document: document.to_owned(),
        line: number(at.line()),
        column: number(at.col().saturating_add(1)),
        malformed,
        message,
    }
}

fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
