//! Label and field selectors: what an object must have to be listed or watched.

use serde_json::Value;

use crate::json;
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::validate::names;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    /// As in Kubernetes, an absent label is not in any set.
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<(String, String, bool)>,
}

impl Selector {
    pub(crate) fn parse(resource: Resource, labels: &str, fields: &str) -> Result<Self> {
        Ok(Self {
            labels: parse_labels(labels)?,
            fields: parse_fields(resource, fields)?,
        })
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        let label = |key: &str| {
            object
                .pointer("/metadata/labels")
                .and_then(|labels| labels.get(key))
                .and_then(Value::as_str)
        };
        let has = |key: &str, values: &[String]| label(key).is_some_and(|value| values.iter().any(|v| v == value));
        self.labels.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => has(key, values),
            Requirement::NotIn(key, values) => !has(key, values),
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::Absent(key) => label(key).is_none(),
        }) && self.fields.iter().all(|(field, value, equal)| {
            let pointer = format!("/{}", field.replace('.', "/"));
            (json::text(object, &pointer) == value) == *equal
        })
    }
}

fn bad(text: &str, why: &str) -> ApiError {
    ApiError::bad_request(format!("unable to parse requirement: {why} in \"{text}\""))
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>> {
    split_outside_parentheses(text)
        .into_iter()
        .map(|part| parse_label(part.trim()))
        .collect()
}

/// `a in (x,y),b` -> `a in (x,y)` and `b`.
fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .filter(|part| !part.trim().is_empty())
    .collect()
}

fn parse_label(part: &str) -> Result<Requirement> {
    let key = |name: &str| -> Result<String> {
        let name = name.trim();
        match names::qualified_name(name) {
            Ok(()) => Ok(name.to_owned()),
            Err(why) => Err(bad(part, &why)),
        }
    };
    let value = |text: &str| -> Result<String> {
        let text = text.trim();
        match names::label_value(text) {
            Ok(()) => Ok(text.to_owned()),
            Err(why) => Err(bad(part, &why)),
        }
    };
    if let Some(name) = part.strip_prefix('!') {
        return Ok(Requirement::Absent(key(name)?));
    }
    if let Some((name, one)) = part.split_once("!=") {
        return Ok(Requirement::NotIn(key(name)?, vec![value(one)?]));
    }
    if let Some((name, set)) = part.split_once('(') {
        let set = set.strip_suffix(')').ok_or_else(|| bad(part, "missing ')'"))?;
        let values = set.split(',').map(value).collect::<Result<Vec<_>>>()?;
        let name = name.trim_end();
        return if let Some(name) = name.strip_suffix(" notin") {
            Ok(Requirement::NotIn(key(name)?, values))
        } else if let Some(name) = name.strip_suffix(" in") {
            Ok(Requirement::In(key(name)?, values))
        } else {
            Err(bad(part, "expected 'in' or 'notin'"))
        };
    }
    if let Some((name, one)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(Requirement::In(key(name)?, vec![value(one)?]));
    }
    Ok(Requirement::Exists(key(part)?))
}

fn parse_fields(resource: Resource, text: &str) -> Result<Vec<(String, String, bool)>> {
    split_unescaped(text)
        .into_iter()
        .filter(|part| !part.trim().is_empty())
        .map(|part| parse_field(resource, part))
        .collect()
}

/// At commas without a backslash before them.
fn split_unescaped(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c: char| {
        let separates = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        separates
    })
    .collect()
}

/// A backslash gives the character after it no meaning; only the two separators and itself may follow.
fn unescape(value: &str) -> Result<String> {
    let (mut plain, mut rest) = (String::with_capacity(value.len()), value.chars());
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                _ => {
                    return Err(ApiError::bad_request(format!(
                        "invalid field selector: invalid escape sequence in: {value}"
                    )));
                }
            },
            '=' => {
                return Err(ApiError::bad_request(format!(
                    "invalid field selector: unescaped character in value: {value}"
                )));
            }
            c => plain.push(c),
        }
    }
    Ok(plain)
}

fn parse_field(resource: Resource, part: &str) -> Result<(String, String, bool)> {
    let (field, value, equal) = if let Some((field, value)) = part.split_once("!=") {
        (field, value, false)
    } else if let Some((field, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        (field, value, true)
    } else {
        return Err(ApiError::bad_request(format!(
            "invalid selector: '{part}'; can't understand '{part}'"
        )));
    };
    let known = match field {
        "metadata.name" | "metadata.namespace" => true,
        "status.phase" | "spec.nodeName" | "spec.restartPolicy" | "status.podIP" => resource == Resource::Pods,
        "type" => matches!(resource, Resource::Events | Resource::Secrets),
        "reason" => resource == Resource::Events,
        other => {
            resource == Resource::Events
                && matches!(
                    other.strip_prefix("involvedObject."),
                    Some("kind" | "namespace" | "name" | "uid" | "apiVersion" | "resourceVersion" | "fieldPath")
                )
        }
    };
    if !known {
        return Err(ApiError::bad_request(format!("field label not supported: {field}")));
    }
    Ok((field.to_owned(), unescape(value)?, equal))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels() {
        let object = json!({"metadata": {"labels": {"app": "web", "x.io/tier": "1", "empty": ""}}});
        for (selector, matches) in [
            ("", true),
            ("app=web", true),
            ("app==web,x.io/tier=1", true),
            ("app=db", false),
            ("app!=db", true),
            ("missing!=db", true),
            ("app in (db, web),x.io/tier", true),
            ("app in (db)", false),
            ("app notin (db,cache)", true),
            ("missing notin (db)", true),
            ("app", true),
            ("missing", false),
            ("!missing", true),
            ("! app", false),
            ("empty=", true),
        ] {
            assert_eq!(
                Selector::parse(Resource::Pods, selector, "").unwrap().matches(&object),
                matches,
                "{selector}"
            );
        }
        for selector in ["app in db", "a b=c", "app in (x", "app=under score", "=x"] {
            assert_eq!(
                Selector::parse(Resource::Pods, selector, "").unwrap_err().code,
                400,
                "{selector}"
            );
        }
    }

    #[test]
    fn fields() {
        let pod = json!({"metadata": {"name": "a", "namespace": "n"}, "status": {"phase": "Running"}});
        let matches = |fields: &str| Selector::parse(Resource::Pods, "", fields).unwrap().matches(&pod);
        assert!(matches("metadata.name=a,status.phase==Running"));
        assert!(!matches("status.phase!=Running"));
        let event = json!({"involvedObject": {"name": "a"}, "reason": "Started"});
        let selector = Selector::parse(Resource::Events, "", "involvedObject.name=a,reason=Started").unwrap();
        assert!(selector.matches(&event));
        assert!(Selector::parse(Resource::Secrets, "", "status.phase=x").is_err());
        let odd = json!({"involvedObject": {"name": "a,b=c\\"}, "reason": "R"});
        let escaped = "involvedObject.name=a\\,b\\=c\\\\,reason=R";
        assert!(Selector::parse(Resource::Events, "", escaped).unwrap().matches(&odd));
        for wrong in ["reason=a\\b", "reason=a=b", "reason=a\\"] {
            assert_eq!(
                Selector::parse(Resource::Events, "", wrong).unwrap_err().code,
                400,
                "{wrong}"
            );
        }
    }
}
