//! Typed changes of a pod, as plugins answer them.

use serde_json::Value;

/// One change at an RFC 6901 pointer, with the meaning of the RFC 6902 operation of that name.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// Insert; `-` as the last part appends to a list.
    Add {
        /// Where.
        pointer: String,
        /// What.
        value: Value,
    },
    /// Replace what is there.
    Replace {
        /// Where.
        pointer: String,
        /// What.
        value: Value,
    },
    /// Remove what is there.
    Remove {
        /// Where.
        pointer: String,
    },
}

/// Why a plugin made the changes at and below a pointer, in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// As in the edits; empty for all of them.
    pub pointer: String,
    /// One line.
    pub text: String,
}

impl Rule {
    /// The rule for a change: of those at the pointer or above it the nearest, and of equals the last.
    pub fn of<'a>(rules: &'a [Rule], pointer: &str) -> Option<&'a str> {
        rules
            .iter()
            .filter(|rule| {
                pointer
                    .strip_prefix(rule.pointer.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
            .max_by_key(|rule| rule.pointer.len())
            .map(|rule| rule.text.as_str())
    }
}

impl Edit {
    /// Where the change is made.
    pub fn pointer(&self) -> &str {
        match self {
            Self::Add { pointer, .. } | Self::Replace { pointer, .. } | Self::Remove { pointer } => pointer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_rule_counts() {
        let rule = |pointer: &str, text: &str| Rule {
            pointer: pointer.into(),
            text: text.into(),
        };
        let rules = [
            rule("", "all"),
            rule("/spec/a", "old"),
            rule("/spec/a", "new"),
            rule("/spec/ab", "other"),
        ];
        assert_eq!(Rule::of(&rules, "/spec/a"), Some("new"));
        assert_eq!(Rule::of(&rules, "/spec/a/b"), Some("new"));
        assert_eq!(Rule::of(&rules, "/spec/abc"), Some("all"));
        assert_eq!(Rule::of(&rules[1..], "/spec"), None);
    }
}
