//! Workloads with `docker` on the real node, up to the image: one of the shape of docker:27-dind, whose entry point says what
//! it found in its container (dockerd-entrypoint.sh), to the log and to main at the address that main is given.
//!
//! containerd 1.6 has no user namespaces for pods, so the rootless one runs with the plugin's setting `hostUsers` off; that
//! the API server takes it with `hostUsers: false` is in `combinations`.

use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use runner_tests::runner::{Backend, Builder, Runner};
use runner_tests::{request, wait};

/// Asks the daemon as a client would, by its variable; then at the pod's own address, where other pods would ask.
const MAIN: &str = r#"
address=${DOCKER_HOST#tcp://}
host=${address%:*} port=${address##*:}
ask() { printf 'GET /facts HTTP/1.0\r\n\r\n' | nc "$1" "$port"; }
until ask "$host" >/tmp/answer; do sleep 0.1; done
echo "DOCKER_HOST $DOCKER_HOST"
echo "ids $(awk 'NR == 1 { print $3 }' /proc/self/uid_map)"
if ask "$(hostname -i)" >/dev/null; then echo "by address open"; else echo "by address closed"; fi
cat /tmp/answer
echo END
trap 'exit 0' TERM
while :; do sleep 1; done
"#;

/// What the daemon and main said, a fact a line.
struct Facts {
    daemon: Vec<String>,
    main: Vec<String>,
}

impl Facts {
    async fn of(runner: &Runner) -> Self {
        let mut request = request::shell(MAIN);
        request.capabilities = vec!["docker".to_owned()];
        let id = runner.begin(request).await;
        let pods = runner.api::<Pod>();
        let name = format!("workload-{id}");
        let log = async |container: &str| {
            let params = LogParams {
                container: Some(container.to_owned()),
                ..LogParams::default()
            };
            pods.logs(&name, &params).await
        };
        let main = wait::until("main to hear of the daemon", async || match log("main").await {
            Ok(text) if text.contains("\nEND\n") => Ok(text),
            other => Err((other, log("docker-daemon").await)),
        })
        .await;
        let daemon = log("docker-daemon").await.unwrap();
        let lines = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect();
        let facts = Self {
            daemon: lines(&daemon),
            main: lines(&main),
        };
        let told = facts.daemon.iter().take_while(|fact| !fact.starts_with("listening "));
        for fact in told {
            assert!(facts.main.contains(fact), "main was not told {fact:?}: {main}");
        }
        assert!(
            facts.main.contains(&"DOCKER_HOST tcp://localhost:2375".to_owned()),
            "{main}"
        );
        facts
    }

    fn has(&self, fact: &str) {
        assert!(
            self.daemon.iter().any(|f| f == fact),
            "no {fact:?} in {:#?}",
            self.daemon
        );
    }

    /// The rest of the only fact with this beginning.
    fn the(&self, beginning: &str) -> &str {
        let mut found = self.daemon.iter().filter_map(|fact| fact.strip_prefix(beginning));
        match (found.next(), found.next()) {
            (Some(rest), None) => rest,
            _ => panic!("not one {beginning:?} in {:#?}", self.daemon),
        }
    }

    fn mount(&self, place: &str, options: &str) {
        let mount = self.the(&format!("mount {place} "));
        assert!(mount.starts_with(&format!("{options} ")), "{place}: {mount}");
    }

    fn main_says(&self, fact: &str) {
        assert!(self.main.iter().any(|f| f == fact), "no {fact:?} in {:#?}", self.main);
    }
}

const SYS_ADMIN: u64 = 1 << 21;

/// W-704, W-710..W-714 of the privileged daemon; every pod of the cluster reaches it.
#[tokio::test(flavor = "multi_thread")]
async fn the_privileged_daemon_starts() {
    let runner = Builder::new(Backend::Kubeconfig).docker("privileged").start().await;
    let facts = Facts::of(&runner).await;
    for fact in [
        "uid 0",
        "tls .",
        "writable /var/lib/docker",
        "NoNewPrivs 0",
        "Seccomp 0",
    ] {
        facts.has(fact);
    }
    facts.mount("/var/lib/docker", "rw");
    // nothing of the kernel's is hidden, and the node's devices are there without a volume
    facts.mount("/sys", "rw");
    facts.has("tun character-device");
    let hidden: Vec<_> = facts.daemon.iter().filter(|f| f.starts_with("mount /proc/")).collect();
    assert!(hidden.is_empty(), "{hidden:?}");
    let capabilities = u64::from_str_radix(facts.the("CapEff "), 16).unwrap();
    assert_ne!(capabilities & SYS_ADMIN, 0, "{capabilities:x}");
    assert!(
        !facts.daemon.iter().any(|f| f.starts_with("args ")),
        "{:?}",
        facts.daemon
    );
    facts.main_says("by address open");
    runner.stop().await;
}

/// W-711..W-714, W-720, W-721, W-723 of the rootless daemon.
#[tokio::test(flavor = "multi_thread")]
async fn the_rootless_daemon_starts() {
    let plugins = "plugins:\n  - name: docker\n    source: builtin:docker-capability\n    \
                   settings: {capabilityImplementations: {docker: rootless}, hostUsers: false}\n";
    let runner = Builder::new(Backend::Kubeconfig)
        .no_capabilities()
        .catalog(None)
        .plugins(plugins)
        .start()
        .await;
    let facts = Facts::of(&runner).await;
    for fact in [
        "uid 1000",
        "tls .",
        "writable /home/rootless/.local/share",
        "writable /run/user/1000",
        "tun character-device",
        "NoNewPrivs 0",
        "Seccomp 0",
        "CapEff 0000000000000000",
    ] {
        facts.has(fact);
    }
    for (place, options) in [
        ("/home/rootless/.local/share", "rw"),
        ("/run/user/1000", "rw"),
        ("/dev/net/tun", "rw"),
        ("/etc/subuid", "ro"),
        ("/etc/subgid", "ro"),
    ] {
        facts.mount(place, options);
    }
    // the script of the init container: all ids of the pod but 0 and the daemon's own
    let ids: u64 = facts
        .main
        .iter()
        .find_map(|f| f.strip_prefix("ids "))
        .unwrap()
        .parse()
        .unwrap();
    assert!(ids > 1002, "a node with so few ids has another table");
    for file in ["/etc/subuid", "/etc/subgid"] {
        let lines: Vec<_> = facts
            .daemon
            .iter()
            .filter_map(|f| f.strip_prefix(&format!("{file} ")))
            .collect();
        assert_eq!(
            lines,
            ["rootless:1:999".to_owned(), format!("rootless:1001:{}", ids - 1 - 1000)]
        );
    }
    facts.main_says("by address open");
    runner.stop().await;
}

/// R-16: with `loopback` main reaches the daemon, and nobody by the pod's address.
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_on_loopback_is_the_pods_own() {
    let plugins = "plugins:\n  - name: docker\n    source: builtin:docker-capability\n    \
                   settings: {capabilityImplementations: {docker: privileged}, loopback: true}\n";
    let runner = Builder::new(Backend::Kubeconfig)
        .no_capabilities()
        .catalog(None)
        .plugins(plugins)
        .start()
        .await;
    let facts = Facts::of(&runner).await;
    facts.has("args dockerd --host=unix:///var/run/docker.sock --host=tcp://127.0.0.1:2375");
    facts.main_says("by address closed");
    runner.stop().await;
}
