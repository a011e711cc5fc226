//! Images are names only. Two kinds of name fail, so that the failures can be tried: a name that is no image
//! reference, and one whose repository lies under `missing.invalid/` or `missing/`, which cannot be pulled.

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pull {
    Pulled,
    Missing(String),
    Invalid(String),
}

pub(super) fn pull(image: &str) -> Pull {
    if !is_reference(image) {
        return Pull::Invalid(format!(
            "Failed to apply default image tag \"{image}\": couldn't parse image name \"{image}\": invalid reference format"
        ));
    }
    if image.starts_with("missing.invalid/") || image.starts_with("missing/") {
        return Pull::Missing(format!(
            "failed to pull and unpack image \"{image}\": failed to resolve reference \"{image}\": {image}: not found"
        ));
    }
    Pull::Pulled
}

/// `[registry[:port]/]path[:tag][@digest]`.
fn is_reference(image: &str) -> bool {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    if let Some(digest) = digest {
        let hex = digest.strip_prefix("sha256:").unwrap_or_default();
        if hex.len() != 64 || !hex.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')) {
            return false;
        }
    }
    let slash = name.rfind('/').map_or(0, |at| at + 1);
    let tag_at = name.get(slash..).and_then(|last| last.find(':')).map(|at| slash + at);
    let (path, tag) = tag_at.map_or((name, None), |at| {
        (name.get(..at).unwrap_or_default(), name.get(at + 1..))
    });
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if let Some(tag) = tag
        && !(tag.starts_with(word) && tag.len() <= 128 && tag.chars().all(|c| word(c) || matches!(c, '.' | '-')))
    {
        return false;
    }
    let path = match path.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => {
            if !host
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-'))
            {
                return false;
            }
            path
        }
        _ => path,
    };
    path.split('/').all(|part| {
        let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(edge) && part.ends_with(edge) && part.chars().all(|c| edge(c) || matches!(c, '.' | '_' | '-'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references() {
        let digest = format!("a@sha256:{}", "0".repeat(64));
        for image in [
            "alpine",
            "alpine:3.19",
            "ghcr.io/a/b-c:V1.0",
            "localhost:5000/x",
            "a/b__c",
            &digest,
        ] {
            assert!(is_reference(image), "{image}");
        }
        for image in ["Alpine", "a b", "a:", "a//b", "a@sha256:1", "/a", "a:t:u", ""] {
            assert!(!is_reference(image), "{image}");
        }
        assert!(matches!(pull("missing.invalid/x:1"), Pull::Missing(_)));
        assert!(matches!(pull("missing/x"), Pull::Missing(_)));
        assert!(matches!(pull("missingno/x"), Pull::Pulled));
        assert!(matches!(pull("UPPER"), Pull::Invalid(_)));
    }
}
