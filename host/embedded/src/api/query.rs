//! Paths and queries, decoded once.

use crate::status::{ApiError, Result};

/// The query's parameters in order; `command` of exec repeats.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(&key.replace('+', " ")), decode(&value.replace('+', " ")))
        };
        Self(text.split('&').filter(|part| !part.is_empty()).map(pair).collect())
    }

    /// The first value, if it is not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.0
            .iter()
            .filter(|(key, _)| key == name)
            .map(|(_, value)| value.clone())
            .collect()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "1" | "True"))
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        let parse = |text: &str| {
            text.parse()
                .map_err(|_| ApiError::bad_request(format!("strconv: parsing \"{text}\": invalid {name}")))
        };
        self.get(name).map(parse).transpose()
    }

    pub(crate) fn dry_run(&self) -> Result<bool> {
        match self.get("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => Err(ApiError::bad_request(format!(
                "Invalid value: \"{other}\": dryRun: Unsupported value: supported values: \"All\""
            ))),
        }
    }
}

pub(crate) fn segments(path: &str) -> Result<Vec<String>> {
    let path = path.trim_matches('/');
    let segments: Vec<String> = path.split('/').map(decode).collect();
    if segments
        .iter()
        .any(|segment| segment == "." || segment == ".." || segment.is_empty())
    {
        return Err(ApiError::unknown_path());
    }
    Ok(segments)
}

/// Percent-decodes; what is not a valid escape stays.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = (first == b'%').then(|| after.get(..2)).flatten();
        match escaped
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|d| u8::from_str_radix(d, 16).ok())
        {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding() {
        assert_eq!(segments("/api/v1/a%2Fb").unwrap(), ["api", "v1", "a/b"]);
        assert!(segments("/api/../x").is_err() && segments("/api/%2e%2e/x").is_err() && segments("/a//b").is_err());
        let query = Query::parse("command=sh&command=-c&command=a+b%2B%zz&watch=true&limit=");
        assert_eq!(query.all("command"), ["sh", "-c", "a b+%zz"]);
        assert!(query.flag("watch") && query.get("limit").is_none());
        assert!(Query::parse("limit=x").number::<u32>("limit").is_err());
    }
}
