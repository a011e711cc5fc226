//! YAML as a tree of JSON-like nodes that know their place. Leaves the meaning of the nodes to `manifest.rs`.

use saphyr::{LoadableYamlNode, MarkedYaml, Marker, Scalar, YamlData};
use serde_json::{Map, Number, Value};

use crate::problem::Place;

/// Deeper trees are refused, so that no walk over them can exhaust the stack.
const MAX_DEPTH: usize = 64;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) data: Data,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Data {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Place, Node)>),
}

/// The one document of a text, or where and why there is none.
pub(crate) fn parse(text: &str) -> Result<Node, (Place, String)> {
    if let Some(place) = too_deep(text) {
        return Err((place, format!("more than {MAX_DEPTH} brackets are open")));
    }
    let documents =
        MarkedYaml::load_from_str(text).map_err(|e| (place(e.marker()), format!("not YAML: {}", e.info())))?;
    match documents.as_slice() {
        [] => Ok(Node {
            place: Place { line: 1, column: 1 },
            data: Data::Null,
        }),
        [document] => convert(document, 0),
        [_, second, ..] => Err((place(&second.span.start), "only one YAML document is read".to_owned())),
    }
}

/// The parser itself recurses over flow collections only in depth of brackets; count them before it does.
fn too_deep(text: &str) -> Option<Place> {
    let (mut line, mut open) = (1u32, 0usize);
    for c in text.chars() {
        match c {
            '\n' => line = line.saturating_add(1),
            '[' | '{' => open += 1,
            ']' | '}' => open = open.saturating_sub(1),
            _ => {}
        }
        if open > MAX_DEPTH {
            return Some(Place { line, column: 0 });
        }
    }
    None
}

fn place(marker: &Marker) -> Place {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Place {
        line: number(marker.line()),
        column: number(marker.col().saturating_add(1)),
    }
}

fn convert(yaml: &MarkedYaml<'_>, depth: usize) -> Result<Node, (Place, String)> {
    let here = place(&yaml.span.start);
    if depth > MAX_DEPTH {
        return Err((here, format!("nested more than {MAX_DEPTH} levels deep")));
    }
    let data = match &yaml.data {
        YamlData::Value(Scalar::Null) => Data::Null,
        YamlData::Value(Scalar::Boolean(value)) => Data::Bool(*value),
        YamlData::Value(Scalar::Integer(value)) => Data::Number((*value).into()),
        YamlData::Value(Scalar::FloatingPoint(value)) => Number::from_f64(value.into_inner())
            .map(Data::Number)
            .ok_or_else(|| (here, "not a finite number".to_owned()))?,
        YamlData::Value(Scalar::String(text)) => Data::Text(text.to_string()),
        YamlData::Sequence(items) => Data::List(
            items
                .iter()
                .map(|item| convert(item, depth + 1))
                .collect::<Result<_, _>>()?,
        ),
        YamlData::Mapping(entries) => {
            let mut map = Vec::with_capacity(entries.len());
            for (key, value) in entries {
                let at = place(&key.span.start);
                let YamlData::Value(Scalar::String(name)) = &key.data else {
                    return Err((at, "a key must be text; put it in quotes".to_owned()));
                };
                map.push((name.to_string(), at, convert(value, depth + 1)?));
            }
            Data::Map(map)
        }
        YamlData::Tagged(tag, _) => return Err((here, format!("tag {}{} is not known", tag.handle, tag.suffix))),
        YamlData::Representation(..) | YamlData::Alias(_) | YamlData::BadValue => {
            return Err((here, "not a YAML value".to_owned()));
        }
    };
    Ok(Node { place: here, data })
}

impl Node {
    /// What it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self.data {
            Data::Null => "nothing",
            Data::Bool(_) => "a boolean",
            Data::Number(_) => "a number",
            Data::Text(_) => "text",
            Data::List(_) => "a list",
            Data::Map(_) => "a mapping",
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        match &self.data {
            Data::Null => Value::Null,
            Data::Bool(value) => Value::Bool(*value),
            Data::Number(value) => Value::Number(value.clone()),
            Data::Text(value) => Value::String(value.clone()),
            Data::List(items) => items.iter().map(Node::to_json).collect(),
            Data::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|(key, _, value)| (key.clone(), value.to_json()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    /// The place of the node at an RFC 6901 pointer, or of the nearest node above it.
    pub(crate) fn locate(&self, pointer: &str) -> Place {
        let mut node = self;
        let mut place = self.place;
        for part in pointer.split('/').skip(1) {
            let part = part.replace("~1", "/").replace("~0", "~");
            let below = match &node.data {
                Data::Map(entries) => entries
                    .iter()
                    .find(|(key, ..)| *key == part)
                    .map(|(_, at, value)| (*at, value)),
                Data::List(items) => part
                    .parse::<usize>()
                    .ok()
                    .and_then(|index| items.get(index))
                    .map(|item| (item.place, item)),
                _ => None,
            };
            let Some((at, value)) = below else { break };
            (place, node) = (at, value);
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let node = parse("a:\n  b:\n    - 1\n    - x/y: 2\n").unwrap();
        assert_eq!(node.locate("/a/b"), Place { line: 2, column: 3 });
        assert_eq!(node.locate("/a/b/1/x~1y"), Place { line: 4, column: 7 });
        assert_eq!(node.locate("/a/b/7"), Place { line: 2, column: 3 });
        assert_eq!(node.to_json(), serde_json::json!({"a": {"b": [1, {"x/y": 2}]}}));
    }

    #[test]
    fn refused() {
        for (text, part) in [
            ("a: [", "not YAML"),
            ("a: 1\na: 2\n", "not YAML"),
            ("1: x", "key must be text"),
            ("a: .inf", "finite"),
            ("a: 1\n---\nb: 2\n", "one YAML document"),
            (&"[".repeat(100_000), "brackets"),
            (&format!("{}x", "- ".repeat(100)), "nested"),
            ("a: &a [*a]", ""),
        ] {
            let (place, message) = parse(text).unwrap_err();
            assert!(message.contains(part) && place.line > 0, "{text:.20}: {message}");
        }
    }
}
