//! The policies, enforced: what a workload reaches and what it does not, and who reaches it. Each refusal is of something that a pod
//! without the policy reaches, so that it is the policy that refuses.
//!
//! The recipe of the cluster gives the node addresses that stand in for the internet, the overlay and a cloud's metadata service; this
//! process listens there.

use std::net::SocketAddr;

use runner_tests::request::BUSYBOX;
use runner_tests::wait;
use serde_json::json;
use tokio::net::{TcpListener, UdpSocket};
use tokio_util::task::AbortOnDropHandle;

use super::helm::kubectl;
use super::release::Release;

const USERLAND: &str = "runner.test/userland:1";
const INTERNET: &str = "203.0.113.1";
const OVERLAY: &str = "100.64.0.1";
const METADATA: &str = "169.254.169.254";

/// Takes every connection, until it is dropped.
struct Listener {
    addr: SocketAddr,
    _task: AbortOnDropHandle<()>,
}

async fn listen(ip: &str, port: u16) -> Listener {
    let listener = TcpListener::bind((ip, port)).await;
    let listener =
        listener.unwrap_or_else(|error| panic!("{ip}: {error}; it is an address of tests/cluster/cluster's node"));
    let addr = listener.local_addr().unwrap();
    let task = tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    Listener {
        addr,
        _task: AbortOnDropHandle::new(task),
    }
}

/// A UDP echo at the resolver's port.
async fn echo(ip: &str) -> AbortOnDropHandle<()> {
    let socket = UdpSocket::bind((ip, 53)).await.unwrap();
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut buffer = [0; 512];
        while let Ok((size, from)) = socket.recv_from(&mut buffer).await {
            let _ = socket.send_to(&buffer[..size], from).await;
        }
    }))
}

/// A pod beside the workloads: `open` of none of the policies, or one that they let through.
async fn pod(namespace: &str, name: &str, labels: &[(&str, &str)], image: &str, script: &str) -> String {
    let labels: serde_json::Map<String, serde_json::Value> =
        labels.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
    let manifest = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": image, "command": ["sh", "-c", script]}]},
    });
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("pod.json");
    std::fs::write(&path, manifest.to_string()).unwrap();
    kubectl(&["apply", "-f", path.to_str().unwrap()]).await;
    kubectl(&[
        "wait",
        "--namespace",
        namespace,
        "--for=condition=Ready",
        &format!("pod/{name}"),
        "--timeout=60s",
    ])
    .await;
    address(namespace, name).await
}

async fn address(namespace: &str, pod: &str) -> String {
    kubectl(&[
        "get",
        "pod",
        pod,
        "--namespace",
        namespace,
        "-o",
        "jsonpath={.status.podIP}",
    ])
    .await
}

/// What a connection, `IP/PORT`, comes to from inside a pod.
async fn reaches(namespace: &str, pod: &str, target: &str) -> bool {
    let script = format!("timeout 5 bash -c '</dev/tcp/{target}' 2>/dev/null && echo yes || echo no");
    let said = kubectl(&[
        "exec",
        pod,
        "--namespace",
        namespace,
        "-c",
        container(pod),
        "--",
        "bash",
        "-c",
        &script,
    ])
    .await;
    said.trim() == "yes"
}

fn container(pod: &str) -> &'static str {
    if pod.starts_with("workload-") { "main" } else { "c" }
}

async fn asks(namespace: &str, pod: &str, ip: &str) -> bool {
    let script = format!("exec 3<>/dev/udp/{ip}/53; echo name >&3; timeout 2 head -n 1 <&3");
    let said = kubectl(&[
        "exec",
        pod,
        "--namespace",
        namespace,
        "-c",
        container(pod),
        "--",
        "bash",
        "-c",
        &format!("{script} || true"),
    ])
    .await;
    said == "name\n"
}

/// kube-router takes a moment for a new pod, so both answers are waited for.
async fn until(wanted: bool, namespace: &str, pod: &str, target: &str) {
    let what = format!("{pod} {} {target}", if wanted { "to reach" } else { "not to reach" });
    wait::until(&what, async || match reaches(namespace, pod, target).await == wanted {
        true => Ok(()),
        false => Err("the opposite"),
    })
    .await;
}

/// W-1231, C-44, C-46, C-54, R-16
#[tokio::test(flavor = "multi_thread")]
async fn what_a_workload_reaches_and_who_reaches_it() {
    let release = Release::new().await;
    let there = release.workloads.clone();
    let own = json!({"kubernetes.io/metadata.name": there});
    let policy = json!({"workloadEgressNetworkPolicy": {
        "dns": {"namespaceSelector": own, "podSelector": {"k8s-app": "names"}, "nodeLocalIPs": [METADATA]},
        "zitiUnderlay": {"endpoints": [{"name": "control", "namespaceSelector": own, "podSelector": {"app": "control"}, "port": 8443}]},
    }});
    release.upgrade(policy.clone()).await;
    let serve = |ports: &[u16]| {
        let each: String = ports.iter().map(|port| format!("nc -ll -p {port} -e cat & ")).collect();
        format!("{each} sleep 100000")
    };
    let names = pod(&there, "names", &[("k8s-app", "names")], BUSYBOX, &serve(&[53, 8080])).await;
    let control = pod(&there, "control", &[("app", "control")], BUSYBOX, &serve(&[8443, 8080])).await;
    pod(&there, "open", &[], USERLAND, "sleep 100000").await;
    let runner = release
        .kubectl(&["get", "pods", "-o", "jsonpath={.items[0].status.podIP}"])
        .await;
    let node = release
        .kubectl(&[
            "get",
            "nodes",
            "-o",
            r#"jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}"#,
        ])
        .await;
    let (internet, overlay, metadata) = (
        listen(INTERNET, 0).await,
        listen(OVERLAY, 0).await,
        listen(METADATA, 0).await,
    );
    let resolver = (listen(METADATA, 53).await, echo(METADATA).await);

    // the daemon's place: it needs no privileges to listen there
    let id = release.start(BUSYBOX, &serve(&[2375, 2376])).await;
    let daemon = address(&there, &format!("workload-{id}")).await;
    let id = release
        .start(USERLAND, "trap 'exit 0' TERM; while true; do sleep 1; done")
        .await;
    let workload = format!("workload-{id}");

    let target = |listener: &Listener| format!("{}/{}", listener.addr.ip(), listener.addr.port());
    let refused = [
        ("the API server", "10.96.0.1/443".to_owned()),
        ("its address on the node", format!("{node}/6443")),
        ("kubelet", format!("{node}/10250")),
        ("the runner", format!("{runner}/50051")),
        ("another port of the resolver", format!("{names}/8080")),
        ("another port of the controller", format!("{control}/8080")),
        ("another workload", format!("{daemon}/2376")),
        ("the metadata service", target(&metadata)),
    ];
    let allowed = [
        ("the internet", target(&internet)),
        ("the overlay", target(&overlay)),
        ("the resolver", format!("{names}/53")),
        ("the controller", format!("{control}/8443")),
        ("the node's resolver", target(&resolver.0)),
    ];
    for (what, target) in refused.iter().chain(&allowed) {
        assert!(
            reaches(&there, "open", target).await,
            "without a policy: {what}, {target}"
        );
    }
    for (what, target) in &refused {
        until(false, &there, &workload, target).await;
        println!("refused: {what}");
    }
    for (what, target) in &allowed {
        until(true, &there, &workload, target).await;
        println!("allowed: {what}");
    }
    assert!(asks(&there, &workload, METADATA).await, "UDP of the node's resolver");

    // from another pod: all but the daemon's port
    until(false, &there, "open", &format!("{daemon}/2375")).await;
    assert!(reaches(&there, "open", &format!("{daemon}/2376")).await);
    // and with the stronger policy nothing
    let mut closed = policy;
    closed["workloadIngressNetworkPolicy"] = json!({"enabled": true});
    release.upgrade(closed).await;
    until(false, &there, "open", &format!("{daemon}/2376")).await;

    drop((internet, overlay, metadata, resolver));
    release.uninstall().await;
    release.remove().await;
}
