//! What the operator chooses, and what follows from it: problems in the words of the contract, and grants.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::CAPABILITY;

/// Loose where [`Settings::problems`] has texts of its own: the host takes the implementations from an environment
/// variable whose errors have a fixed wording.
pub(crate) const SCHEMA: &str = include_str!("settings.schema.json");

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Settings {
    capability_implementations: BTreeMap<String, String>,
    pod_security: String,
    images: Images,
    /// Run the rootless daemon's pod in a user namespace, with an unmasked `/proc`. Off for clusters that cannot map ids
    /// (W-723).
    pub(crate) host_users: bool,
    /// Of the daemon and its init container; nothing by default (W-724).
    pub(crate) resources: Option<Value>,
    /// Bind the daemon to the pod's loopback, so that no other pod reaches it.
    pub(crate) loopback: bool,
}

#[derive(Debug, Deserialize)]
#[serde(default)]
struct Images {
    rootless: String,
    rootful: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            capability_implementations: BTreeMap::new(),
            pod_security: "none".into(),
            images: Images::default(),
            host_users: true,
            resources: None,
            loopback: false,
        }
    }
}

impl Default for Images {
    fn default() -> Self {
        Self {
            rootless: "docker:27-dind-rootless".into(),
            rootful: "docker:27-dind".into(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Implementation {
    Rootless,
    Privileged,
    KataQemu,
    KataFc,
}

impl Implementation {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "rootless" => Self::Rootless,
            "privileged" => Self::Privileged,
            "kata-qemu" => Self::KataQemu,
            "kata-fc" => Self::KataFc,
            _ => return None,
        })
    }

    pub(crate) fn runtime_class(self) -> Option<&'static str> {
        match self {
            Self::Rootless | Self::Privileged => None,
            Self::KataQemu => Some("kata-qemu"),
            Self::KataFc => Some("kata-fc"),
        }
    }
}

impl Settings {
    /// The configured implementation, if any; the text of one that does not exist is the error.
    pub(crate) fn implementation(&self) -> Result<Option<Implementation>, String> {
        let configured = self
            .capability_implementations
            .iter()
            .find(|(key, _)| key.trim() == CAPABILITY);
        let Some((_, value)) = configured else { return Ok(None) };
        let value = value.trim().to_lowercase();
        Implementation::parse(&value).map(Some).ok_or(value)
    }

    pub(crate) fn image(&self, implementation: Implementation) -> &str {
        match implementation {
            Implementation::Rootless => &self.images.rootless,
            _ => &self.images.rootful,
        }
    }

    /// W-1306: no daemon runs under a security profile. Which profiles there are is not for this plugin to judge.
    pub(crate) fn forbidden(&self) -> bool {
        !self.pod_security.trim().eq_ignore_ascii_case("none")
    }

    /// Whether a request for docker is carried out.
    pub(crate) fn available(&self) -> bool {
        !self.forbidden() && matches!(self.implementation(), Ok(Some(_)))
    }

    /// W-112
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (key, value) in &self.capability_implementations {
            let (key, value) = (key.trim(), value.trim().to_lowercase());
            if key.is_empty() {
                problems.push("invalid CAPABILITY_IMPLEMENTATIONS key".into());
            } else if key != CAPABILITY {
                problems.push(format!("unknown capability implementation \"{key}\""));
            } else if Implementation::parse(&value).is_none() {
                problems.push(format!("invalid docker capability implementation \"{value}\""));
            }
        }
        problems
    }

    /// Just what the configured implementation needs. The host counts privilege escalation to `privileged` for the
    /// rootful daemon and to `unconfined` for the rootless one.
    pub(crate) fn grants(&self) -> Vec<&'static str> {
        let Ok(Some(implementation)) = self.implementation() else {
            return Vec::new();
        };
        if self.forbidden() {
            return Vec::new();
        }
        match implementation {
            Implementation::Rootless => {
                let mut grants = vec!["extra-containers", "host-path", "unconfined"];
                if self.host_users {
                    grants.extend(["host-users", "proc-mount"]);
                }
                grants
            }
            Implementation::Privileged => vec!["extra-containers", "privileged"],
            Implementation::KataQemu | Implementation::KataFc => {
                vec!["extra-containers", "privileged", "runtime-class"]
            }
        }
    }
}
