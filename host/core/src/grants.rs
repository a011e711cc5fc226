//! Powers that an operator may grant to a plugin (`grants` of the plugins file). What each one opens in a pod is the guard's.

/// Prefix of the grants for one Linux capability each, such as `capabilities:NET_ADMIN`.
pub const CAPABILITY_PREFIX: &str = "capabilities:";

/// Every grant with a fixed name.
pub const ALL: [&str; 14] = [
    "privileged",
    "host-path",
    "host-namespaces",
    "host-users",
    "unconfined",
    "proc-mount",
    "runtime-class",
    "service-account",
    "extra-containers",
    "secrets-as-env",
    "security-context",
    "scheduling",
    "images",
    "labels",
];

/// One of [`ALL`], or [`CAPABILITY_PREFIX`] and the name of a Linux capability without `CAP_`.
pub fn is_known(grant: &str) -> bool {
    ALL.contains(&grant) || grant.strip_prefix(CAPABILITY_PREFIX).is_some_and(is_capability)
}

/// [`is_known`], with a reason that names the valid ones.
pub fn check(grant: &str) -> Result<(), String> {
    if is_known(grant) {
        return Ok(());
    }
    Err(format!(
        "unknown grant {grant:?}; valid grants are {}, {CAPABILITY_PREFIX}NAME",
        ALL.join(", ")
    ))
}

fn is_capability(name: &str) -> bool {
    !name.starts_with("CAP_")
        && name.bytes().next().is_some_and(|b| b.is_ascii_uppercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known() {
        for good in ALL.into_iter().chain(["capabilities:NET_ADMIN", "capabilities:ALL"]) {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "root",
            "Privileged",
            "capabilities:",
            "capabilities:net_admin",
            "capabilities:CAP_NET_ADMIN",
        ] {
            assert!(!is_known(bad), "{bad}");
        }
        assert!(
            check("root")
                .unwrap_err()
                .starts_with("unknown grant \"root\"; valid grants are privileged, ")
        );
    }
}
