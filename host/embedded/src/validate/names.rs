//! The name grammars of Kubernetes. The error is the real server's explanation.

type Check = Result<(), String>;

fn lower_or_digit(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    text.starts_with(lower_or_digit)
        && text.ends_with(lower_or_digit)
        && text.chars().all(|c| lower_or_digit(c) || c == '-')
}

pub(crate) fn label(text: &str) -> Check {
    if text.len() > 63 {
        return Err("must be no more than 63 characters".into());
    }
    if is_label(text) {
        return Ok(());
    }
    Err(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
         with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            .into(),
    )
}

pub(crate) fn subdomain(text: &str) -> Check {
    if text.len() > 253 {
        return Err("must be no more than 253 characters".into());
    }
    if text.split('.').all(is_label) {
        return Ok(());
    }
    Err(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
         start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            .into(),
    )
}

fn is_word(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(edge) && text.ends_with(edge) && text.chars().all(|c| edge(c) || matches!(c, '-' | '_' | '.'))
}

/// A label or annotation key: an optional DNS prefix and a name.
pub(crate) fn qualified_name(text: &str) -> Check {
    let name = match text.split_once('/') {
        Some((prefix, name)) => {
            subdomain(prefix).map_err(|why| format!("prefix part {why}"))?;
            name
        }
        None => text,
    };
    if name.is_empty() {
        return Err("name part must be non-empty".into());
    }
    if name.len() > 63 {
        return Err("name part must be no more than 63 characters".into());
    }
    if is_word(name) {
        return Ok(());
    }
    Err(
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
         alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            .into(),
    )
}

pub(crate) fn label_value(text: &str) -> Check {
    if text.len() > 63 {
        return Err("must be no more than 63 characters".into());
    }
    if text.is_empty() || is_word(text) {
        return Ok(());
    }
    Err(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
         and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
         validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            .into(),
    )
}

/// Any printable ASCII but `=`, as newer servers allow.
pub(crate) fn env(text: &str) -> Check {
    if !text.is_empty() && text.chars().all(|c| (' '..='~').contains(&c) && c != '=') {
        return Ok(());
    }
    Err("a valid environment variable name must consist only of printable ASCII characters other than '='".into())
}

pub(crate) fn data_key(text: &str) -> Check {
    let fits = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if !text.is_empty() && text.len() <= 253 && fits && text != "." && !text.starts_with("..") {
        return Ok(());
    }
    Err(
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
         'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grammars() {
        assert!(label("a-1").is_ok() && label("a.b").is_err() && label("-a").is_err() && label("").is_err());
        assert!(subdomain("a.b-c.1").is_ok() && subdomain("a..b").is_err() && subdomain("../x").is_err());
        assert!(qualified_name("x.io/Name_1").is_ok() && qualified_name("x.io/").is_err());
        assert!(qualified_name("X.io/a").is_err() && qualified_name("a/b/c").is_err());
        assert!(label_value("").is_ok() && label_value("a b").is_err() && label_value(&"a".repeat(64)).is_err());
        assert!(env("A.b-c d").is_ok() && env("A=B").is_err() && env("").is_err());
        assert!(data_key(".a").is_ok() && data_key("..a").is_err() && data_key("a/b").is_err());
    }
}
