//! Names of Linux capabilities, and which of them containers may add (W-1307).

use std::collections::BTreeSet;

use plugin_sdk::Rejection;

/// Trimmed, upper case, without `CAP_`.
pub(crate) fn normal(name: &str) -> String {
    let name = name.trim().to_uppercase();
    name.strip_prefix("CAP_").unwrap_or(&name).to_owned()
}

/// Can this be one capability? `ALL` is not one.
pub(crate) fn is_one(name: &str) -> bool {
    let name = normal(name);
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        && name != "ALL"
}

/// The capabilities of a container in normal form, each once; the first one that is not allowed refuses the request.
pub(crate) fn check<'a>(
    added: impl Iterator<Item = &'a str>,
    allowed: &BTreeSet<String>,
) -> Result<Vec<String>, Rejection> {
    let mut names: Vec<String> = Vec::new();
    for name in added.map(normal) {
        if !allowed.contains(&name) {
            return Err(Rejection::invalid_argument("required_capability_not_allowed", name));
        }
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}
