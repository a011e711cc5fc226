//! Settings of several replicas: the Lease by which one of them is elected (WG-25); off unless it has a name.

use clap::Args;
use runner_core::names;
use runner_k8s::lease::Lease;

const NAME: &str = "RUNNER_LEASE_NAME";
const POD: &str = "POD_NAME";

/// Who this replica is among others.
#[derive(Debug, Clone, Default, Args)]
pub struct LeaseOptions {
    /// Lease in the namespace of the workloads by which one of several replicas is elected to report, to be on the overlay and
    /// to sweep; unset: this runner is alone
    #[arg(long, env = NAME, value_name = "NAME", help_heading = "Replicas")]
    pub lease_name: Option<String>,

    /// How this replica is called in the Lease; a random part is added [default: the host's name]
    #[arg(long, env = POD, value_name = "NAME", help_heading = "Replicas")]
    pub pod_name: Option<String>,
}

impl LeaseOptions {
    /// None when it is off.
    pub(super) fn check(self) -> Result<Option<Lease>, String> {
        let not_blank = |text: Option<String>| text.map(|t| t.trim().to_owned()).filter(|t| !t.is_empty());
        let Some(name) = not_blank(self.lease_name) else {
            return Ok(None);
        };
        names::dns_subdomain(&name).map_err(|reason| format!("invalid {NAME}: {reason}"))?;
        let pod = not_blank(self.pod_name)
            .or_else(|| not_blank(std::env::var("HOSTNAME").ok()))
            .unwrap_or_else(|| "runner-host".to_owned());
        // a process that starts anew is not the one whose lease has not run out yet
        let process = uuid::Uuid::new_v4().simple().to_string();
        let holder = format!("{pod}_{}", process.get(..8).unwrap_or_default());
        Ok(Some(Lease::new(name, holder)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: Option<&str>, pod: Option<&str>) -> Result<Option<Lease>, String> {
        LeaseOptions {
            lease_name: name.map(str::to_owned),
            pod_name: pod.map(str::to_owned),
        }
        .check()
    }

    #[test]
    fn values() {
        for off in [None, Some(""), Some(" ")] {
            assert_eq!(check(off, Some("pod-1")), Ok(None));
        }
        let lease = || check(Some(" runner "), Some("pod-1")).unwrap().unwrap();
        let (one, two) = (lease(), lease());
        assert_eq!(one.name, "runner");
        assert!(one.holder.starts_with("pod-1_") && one.holder.len() == 14, "{one:?}");
        assert_ne!(one.holder, two.holder, "two processes of one name are two");
        assert!(!check(Some("runner"), None).unwrap().unwrap().holder.is_empty());
        let error = check(Some("Runner_1"), None).unwrap_err();
        assert!(error.starts_with("invalid RUNNER_LEASE_NAME: "), "{error}");
    }
}
