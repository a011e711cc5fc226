//! The validators of the contract (LABEL63, SUBDOMAIN, QNAME, LVALUE, ENVNAME) as plain predicates with a reason.

/// Why a text is not what it should be; `Ok` when it is.
pub type Check = Result<(), String>;

/// DNS-1123 label: at most 63 lower-case letters, digits and hyphens, alphanumeric at both ends.
pub fn dns_label(text: &str) -> Check {
    let ok = text.len() <= 63
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && alphanumeric_ends(text);
    if ok {
        Ok(())
    } else {
        Err(format!(
            "{text:?} must be at most 63 lower-case letters, digits or hyphens, and start and end with a letter or digit"
        ))
    }
}

/// DNS-1123 subdomain: dot-joined labels, at most 253 characters.
pub fn dns_subdomain(text: &str) -> Check {
    if !text.is_empty() && text.len() <= 253 && text.split('.').all(|part| dns_label(part).is_ok()) {
        Ok(())
    } else {
        Err(format!(
            "{text:?} must be dot-joined DNS labels of lower-case letters, digits and hyphens, at most 253 characters"
        ))
    }
}

/// Qualified name: an optional `subdomain/`, then 1 to 63 letters, digits, `-`, `_` or `.`, alphanumeric at both ends.
pub fn qualified_name(text: &str) -> Check {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if let Some(prefix) = prefix {
        dns_subdomain(prefix).map_err(|reason| format!("prefix {reason}"))?;
    }
    if !name.is_empty() && label_value(name).is_ok() {
        Ok(())
    } else {
        Err(format!(
            "name part {name:?} must be 1 to 63 letters, digits, '-', '_' or '.', and start and end with a letter or digit"
        ))
    }
}

/// Label value: empty, or at most 63 letters, digits, `-`, `_` or `.`, alphanumeric at both ends.
pub fn label_value(text: &str) -> Check {
    let ok = text.is_empty()
        || (text.len() <= 63
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
            && alphanumeric_ends(text));
    if ok {
        Ok(())
    } else {
        Err(format!(
            "{text:?} must be empty or at most 63 letters, digits, '-', '_' or '.', and start and end with a letter or digit"
        ))
    }
}

/// Environment variable name: letters, digits, `-`, `_`, `.`; no digit first; not `.`, `..` or beginning with `..`.
pub fn env_name(text: &str) -> Check {
    let ok = text
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && text.bytes().next().is_some_and(|b| !b.is_ascii_digit())
        && text != "."
        && !text.starts_with("..");
    if ok {
        Ok(())
    } else {
        Err(format!(
            "{text:?} must be letters, digits, '-', '_' or '.', must not start with a digit, and must not be '.' or start with '..'"
        ))
    }
}

/// A path that is absolute, not the root, and already clean: no empty, `.` or `..` part, no trailing slash.
pub fn clean_absolute_path(text: &str) -> Check {
    let ok = text.strip_prefix('/').is_some_and(|rest| {
        rest.split('/')
            .all(|part| !part.is_empty() && part != "." && part != "..")
    });
    if ok {
        Ok(())
    } else {
        Err(format!(
            "{text:?} must be an absolute path below /, without empty, '.' or '..' parts"
        ))
    }
}

fn alphanumeric_ends(text: &str) -> bool {
    let mut bytes = text.bytes();
    let first = bytes.next();
    let last = bytes.next_back().or(first);
    matches!((first, last), (Some(a), Some(b)) if a.is_ascii_alphanumeric() && b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels() {
        for good in ["a", "a-b", "0", &"a".repeat(63)] {
            assert!(dns_label(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", "é", &"a".repeat(64), "a\n"] {
            assert!(dns_label(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn qualified_names() {
        for good in ["a", "a/b", "agyn.dev/managed-by", "A_b.c", "x.y/Z"] {
            assert!(qualified_name(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "/x",
            "a/b/c",
            "UP/x",
            "a/",
            &format!("a/{}", "b".repeat(64)),
            "-x",
            "x-",
        ] {
            assert!(qualified_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn label_values() {
        for good in ["", "a", "A.b_c-d"] {
            assert!(label_value(good).is_ok(), "{good}");
        }
        for bad in ["team/default", "a b", "-x", "x-", "é", "a\n"] {
            assert!(label_value(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn env_names() {
        for good in ["A", "_x", "a.b", "a-b", ".x", "-x"] {
            assert!(env_name(good).is_ok(), "{good}");
        }
        for bad in ["", "1A", ".", "..", "..x", "a b", "a=b"] {
            assert!(env_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn paths() {
        for good in ["/a", "/a/b.c", "/a/..b"] {
            assert!(clean_absolute_path(good).is_ok(), "{good}");
        }
        for bad in ["", "/", "a", "/a/", "//a", "/a//b", "/a/./b", "/a/../b"] {
            assert!(clean_absolute_path(bad).is_err(), "{bad}");
        }
    }
}
