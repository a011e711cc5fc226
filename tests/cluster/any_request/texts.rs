//! What the fields are filled with: the usual, simplest first, which is where shrinking ends; then the odd.
//!
//! Odd is not wrong: Kubernetes may take it. That the runner knows which is what the test is about.

/// The usual and the odd.
pub(super) type Texts = (&'static [&'static str], &'static [&'static str]);

macro_rules! a64 {
    () => {
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    };
}
const A64: &str = a64!();
const A256: &str = concat!(a64!(), a64!(), a64!(), a64!());

#[rustfmt::skip]
mod tables {
    use super::{A64, A256, Texts};

    pub(crate) const ID: Texts = (
        &["", "0123456789abcdef0123456789abcdef", "e789b0de-2d7d-4d5a-8a8f-2ef93c28e511"],
        &["x", "E789B0DE-2D7D-4D5A-8A8F-2EF93C28E511", "urn:uuid:e789b0de-2d7d-4d5a-8a8f-2ef93c28e511", "../x"],
    );
    pub(crate) const LABEL_KEY: Texts = (
        &["team", "workload_key", "a.b/c-d_e", "volume_key", "pod-security.kubernetes.io/enforce"],
        &["", "a/b/c", "-x", "agyn.io/workload-id", "é", "/x", "a b", "A.b/c", A64, "a\n"],
    );
    pub(crate) const LABEL_VALUE: Texts = (
        &["blue", "", "A_b.c-9", "x"],
        &["a b", "-x", "team/x", "é", "x.", A64, "a\n"],
    );
    pub(crate) const CAPABILITY: Texts = (&["docker", " Docker "], &["", "gpu", "compute-resources"]);
    pub(crate) const FLAVOR: Texts = (&["", "ram-2gb", "ram-4gb"], &["huge", " "]);

    pub(crate) const VOLUME: Texts = (
        &["data", "cache", "v-1", "inline-files", "0"],
        &["", "A", "a.b", "docker-data", "docker-run", "-", A64],
    );
    pub(crate) const CLAIM: Texts = (&["", "claim-a", "claim-b", "0"], &["Claim", "a.b", "a/b", "-c", A64]);
    pub(crate) const CLAIM_SIZE: Texts = (
        &["", "1Gi", "16Mi", "1.5Gi", "1e9", "100", "0.5Gi"],
        &["0", "-1Gi", "big", "1Zi", "1n", "1e99", "9223372036854775808", "+1Gi", ".5Gi", "1.Gi", "1 Gi",
            "1m", "1E", "1e"],
    );
    pub(crate) const STORAGE_CLASS: Texts = (&["", "default"], &["fast", " "]);
    pub(crate) const OTHER_VOLUME: Texts = (&["other", "inline-files"], &[""]);
    pub(crate) const MOUNT_PATH: Texts = (
        &["/data", "/home/me", "/data/deep/", "/tmp", "/run/user/1000", "/etc/file"],
        &["", "data", "/a:b", "/", "//", "/a/../b", "..", "/var/lib/docker", "/dev/net/tun", "/a b", "/proc"],
    );
    pub(crate) const FILE_PATH: Texts = (
        &["/etc/app.conf", "/home/me/.config/x", "/a", "/etc/é"],
        &["", "etc", "/", "/a/", "/a/../b", "//a", "/a:b", "/a b", "/proc/1"],
    );

    pub(crate) const CONTAINER: Texts = (
        &["", "", "", "", "helper", "docker"],
        &["main", "docker-daemon", "A", "a.b", "-", "docker-subid-init", A64],
    );
    pub(crate) const IMAGE: Texts = (
        &["busybox:1.36", "docker.io/library/busybox:1.36", "r.example.com:5000/a/b@sha256:00"],
        &["", " ", "UPPER", "a b", ":", "a:b:c", "http://a/b", " a ", A256],
    );
    pub(crate) const ARGUMENT: Texts = (&["-c", "sleep 60", ""], &["\0", "$(A)"]);
    pub(crate) const ENTRYPOINT: Texts = (&["", "/bin/sh", "sh"], &["/bin/sh -c", "/", "\0"]);
    pub(crate) const WORKING_DIR: Texts = (&["", "/tmp", "relative"], &["/a:b", "\0", "..", "~"]);
    pub(crate) const ENV_NAME: Texts = (
        &["A", "PATH", "_x", "a.b-c", "DOCKER_HOST"],
        &["", "1A", "a b", "a=b", "..", "é", "..a", "A\n"],
    );
    pub(crate) const ENV_VALUE: Texts = (
        &["", "x", "$(A)", "é\n", "$$", "{\"a\": 1}"],
        &["\0", "\u{202e}", "\u{fffd}", "\r"],
    );
    pub(crate) const LINUX_CAPABILITY: Texts = (
        &["NET_BIND_SERVICE", "SYS_PTRACE"],
        &["", "ALL", "all", "CAP_SYS_ADMIN", "x y", "net_admin", "SYS_ADMIN"],
    );
    pub(crate) const PROPERTY: &[&str] = &["restart_policy", "read_only_root_filesystem", "other"];
    pub(crate) const PROPERTY_VALUE: &[&str] = &["", "Never", "true", "false", "Always", "maybe"];

    const ODD_QUANTITIES: &[&str] =
        &["", "0", "-1", "1e99", "1n", "100u", "0.0001", "x", "1Zi", "9223372036854775808", " 1", "1E",
            "1e", "1.", ".5"];
    pub(crate) const REQUESTS_CPU: Texts = (&["100m", "0.5", "1"], ODD_QUANTITIES);
    pub(crate) const REQUESTS_MEMORY: Texts = (&["64Mi", "1e8", "0.5Gi"], ODD_QUANTITIES);
    pub(crate) const LIMITS_CPU: Texts = (&["1", "1500m", "2e0"], ODD_QUANTITIES);
    pub(crate) const LIMITS_MEMORY: Texts = (&["1Gi", "2Gi", "1.5Gi"], ODD_QUANTITIES);

    pub(crate) const NAME_SERVER: Texts = (
        &["10.96.0.10", "1.1.1.1", "2001:db8::1"],
        &["", "dns.example.com", "1.1.1", "fe80::1%eth0", " 1.1.1.1", "010.1.1.1", "1.1.1.1:53",
            "::ffff:1.1.1.1", "::", "256.1.1.1"],
    );
    pub(crate) const SEARCH: Texts = (
        &["svc.cluster.local", "example.com", "a", "b.c", "example.org.", "_tcp.local"],
        &["", "UPPER.com", "-x", "a..b", "x_y.com", ".", "a b", " a", "*.a", "a_b", "a_", "_", "__a", A64, A256],
    );
    pub(crate) const REGISTRY: Texts = (
        &["r.example.com:5000", "https://index.docker.io/v1/", "ghcr.io"],
        &["", " ", "https://", "\"", "a b"],
    );
    pub(crate) const USERNAME: Texts = (&["me", "é:x"], &["", " ", "\0"]);
    pub(crate) const PASSWORD: Texts = (&["hunter2", "\"\\"], &["", " ", "\0"]);
}

pub(super) use tables::*;
