//! Names of WIT interfaces as components spell them, and which of them this host knows.

/// The package of our interfaces.
pub(crate) const PACKAGE: &str = "runner:policy";
/// Its version in this host. Every 0.1.x plugin keeps loading.
pub(crate) const VERSION: &str = "0.1.0";

/// `package/interface@version`; parts that are not there are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WitName<'a> {
    pub(crate) package: &'a str,
    pub(crate) interface: &'a str,
    pub(crate) version: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Our package in a version that we serve.
    Ours,
    /// Our package in a version that we do not serve.
    OtherVersion,
    Wasi,
    Foreign,
}

impl<'a> WitName<'a> {
    pub(crate) fn parse(name: &'a str) -> Self {
        let (path, version) = name.split_once('@').unwrap_or((name, ""));
        let (package, interface) = path.split_once('/').unwrap_or(("", path));
        Self {
            package,
            interface,
            version,
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        match self.package {
            PACKAGE if self.version.starts_with("0.1.") => Standing::Ours,
            PACKAGE => Standing::OtherVersion,
            package if package.starts_with("wasi:") => Standing::Wasi,
            _ => Standing::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, standing) in [
            ("runner:policy/log@0.1.0", Standing::Ours),
            ("runner:policy/log@0.1.7", Standing::Ours),
            ("runner:policy/log@0.2.0", Standing::OtherVersion),
            ("runner:policy/log@0.10.0", Standing::OtherVersion),
            ("runner:policy/log", Standing::OtherVersion),
            ("wasi:cli/exit@0.2.6", Standing::Wasi),
            ("init", Standing::Foreign),
        ] {
            assert_eq!(WitName::parse(name).standing(), standing, "{name}");
        }
    }
}
