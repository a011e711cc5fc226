# The parts of the cluster, in the order in which they start.
# shellcheck shell=bash

# Where containerd and kubelet write whatever their configuration says: they get file systems of their own there.
FIXED_PATHS="/var/lib/kubelet /var/lib/cni /var/log/containers /run/containerd"

kube() { in_ns "$BIN/kubectl" --kubeconfig "$RUN/admin.conf" --request-timeout=10s "$@"; }

network_namespace() {
  local address
  [ -d /run/netns ] || touch "$RUN/made-run-netns"
  ip netns add "$NS"
  ip -n "$NS" link set lo up
  ip -n "$NS" link add node0 type bridge
  ip -n "$NS" addr add "$NODE_IP/24" dev node0
  ip -n "$NS" link set node0 up
  # nothing beyond: whoever looks up a name or pulls an image is told at once instead of waiting for an answer
  ip -n "$NS" route add unreachable default
  # what stands in for the rest of the world: the internet, the overlay, the metadata service of a cloud; tests listen there
  for address in "${OUTSIDE[@]}"; do ip -n "$NS" addr add "$address/32" dev node0; done
  # a process on the node looks for a route before its packet is sent on from the Service to a pod
  ip -n "$NS" route add "$SERVICE_NET" dev node0
  # Pods are told that names are served at $DNS_IP. Nobody serves them, but where nothing has the address a resolver
  # waits 15 seconds; where somebody has it and does not listen, it is refused at once.
  ip -n "$NS" addr add "$DNS_IP/32" dev node0
  # the one Service without endpoints, by which a pod finds the API server
  in_ns iptables -w -t nat -A PREROUTING -d "$API_IP" -p tcp --dport 443 -j DNAT --to-destination "$NODE_IP:6443"
  # /proc/sys/net shows the namespace of whoever opens it
  # icmp_ratelimit: refusals are not rationed, or the second one would be waited for again
  in_ns sh -c 'cd /proc/sys/net; echo 1 >ipv4/ip_forward; echo 0 >ipv4/icmp_ratelimit
    [ ! -f bridge/bridge-nf-call-iptables ] || echo 1 >bridge/bridge-nf-call-iptables'
}

certificates() (
  mkdir -p "$RUN/pki"
  cd "$RUN/pki"
  umask 077
  openssl req -x509 "${NEW_KEY[@]}" -days 365 -keyout ca.key -out ca.crt -subj /CN=cluster-ca 2>/dev/null
  openssl genrsa -out sa.key 2048 2>/dev/null
  openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
  certificate apiserver /CN=kube-apiserver "DNS:kubernetes.default,DNS:kubernetes.default.svc,IP:$NODE_IP,IP:$API_IP"
  certificate kubelet "/O=system:nodes/CN=system:node:$NODE" "DNS:$NODE,IP:$NODE_IP"
  certificate admin /O=system:masters/CN=admin
  certificate controller-manager /CN=system:kube-controller-manager
  certificate scheduler /CN=system:kube-scheduler
  local user
  for user in admin kubelet controller-manager scheduler; do kubeconfig "$user" >"$RUN/$user.conf"; done
)
NEW_KEY=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)

certificate() { # NAME SUBJECT [ALTERNATIVE-NAMES]
  openssl req "${NEW_KEY[@]}" -keyout "$1.key" -out "$1.csr" -subj "$2" 2>/dev/null
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -out "$1.crt" -extfile <(
    echo "subjectAltName=DNS:localhost,IP:127.0.0.1${3:+,$3}"
    echo "basicConstraints=CA:FALSE"
    echo "extendedKeyUsage=serverAuth,clientAuth"
  ) 2>/dev/null
}

kubeconfig() { # USER
  cat <<Y
apiVersion: v1
kind: Config
clusters:
- name: local
  cluster: {server: "https://127.0.0.1:6443", certificate-authority-data: $(base64 -w0 ca.crt)}
users:
- name: $1
  user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}
contexts:
- name: default
  context: {cluster: local, user: $1}
current-context: default
Y
}

etcd() {
  daemon etcd "$BIN/etcd" --data-dir "$RUN/etcd" --unsafe-no-fsync --listen-client-urls http://127.0.0.1:2379 \
    --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380
}

apiserver() {
  local pki=$RUN/pki
  daemon apiserver "$BIN/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --bind-address=0.0.0.0 \
    --advertise-address=$NODE_IP --endpoint-reconciler-type=none --service-cluster-ip-range=$SERVICE_NET \
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true \
    --client-ca-file="$pki/ca.crt" --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$pki/sa.pub" \
    --service-account-signing-key-file="$pki/sa.key" --kubelet-preferred-address-types=InternalIP \
    --kubelet-certificate-authority="$pki/ca.crt" --kubelet-client-certificate="$pki/admin.crt" \
    --kubelet-client-key="$pki/admin.key"
}

controllers() {
  local pki=$RUN/pki
  control controller-manager --service-account-private-key-file="$pki/sa.key" --root-ca-file="$pki/ca.crt" \
    --use-service-account-credentials=true --flex-volume-plugin-dir="$RUN/volume-plugins" \
    --kube-api-qps=200 --kube-api-burst=400
  control scheduler
}
control() { # NAME FLAGS...: one that talks to the API server; alone, so without electing a leader
  local name=$1; shift
  daemon "$name" "$BIN/kube-$name" --kubeconfig="$RUN/$name.conf" --authentication-kubeconfig="$RUN/$name.conf" \
    --authorization-kubeconfig="$RUN/$name.conf" --tls-cert-file="$RUN/pki/$name.crt" \
    --tls-private-key-file="$RUN/pki/$name.key" --leader-elect=false "$@"
}

# containerd makes a mount namespace that kubelet joins: all that pods have mounted ends with their last process.
containerd_() {
  mkdir -p "$RUN/cni" "$RUN/containerd"
  cat >"$RUN/cni/10-bridge.conflist" <<J
{"cniVersion":"0.4.0","name":"$NS","plugins":[
 {"type":"bridge","bridge":"cni0","isGateway":true,"hairpinMode":true,
  "ipam":{"type":"host-local","dataDir":"$RUN/cni-addresses","ranges":[[{"subnet":"$POD_NET"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
 {"type":"loopback"}]}
J
  # restrict_oom_score_adj: works without CAP_SYS_RESOURCE too
  cat >"$RUN/containerd.toml" <<T
version = 2
root = "$RUN/containerd/root"
state = "$RUN/containerd/state"
[grpc]
  address = "$SOCK"
[plugins."io.containerd.internal.v1.opt"]
  path = "$RUN/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$PAUSE"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$RUN/cni"
T
  # shellcheck disable=SC2086 # a list of paths
  mkdir -p $FIXED_PATHS
  # shellcheck disable=SC2016 # expanded inside
  daemon containerd unshare --mount --propagation slave -- sh -euc '
    mount --make-rshared /
    for path in $1; do mount -t tmpfs none "$path"; done
    exec containerd -c "$2"' sh "$FIXED_PATHS" "$RUN/containerd.toml"
}

runtime() { # once containerd answers
  await 60 containerd "container runtime" ctr_ version
  import_images
}

# A cgroup of our own above kubelet's kubepods: whatever runs in it is a pod of this cluster and of no other.
cgroups() { find /sys/fs/cgroup -mindepth 1 -maxdepth 2 -type d -name "$NS" 2>/dev/null; }
make_cgroups() {
  local top controller
  while read -r top; do
    mkdir -p "$top/$NS"
    # version 2: a controller works only where the parent passes it on
    for controller in cpuset cpu io memory pids hugetlb; do
      [ ! -f "$top/cgroup.subtree_control" ] || echo "+$controller" >"$top/cgroup.subtree_control" || true
    done 2>/dev/null
    # version 1: a new cpuset is empty and takes no process
    [ ! -f "$top/cpuset.cpus" ] || cat "$top/cpuset.cpus" >"$top/$NS/cpuset.cpus"
    [ ! -f "$top/cpuset.mems" ] || cat "$top/cpuset.mems" >"$top/$NS/cpuset.mems"
  done < <(awk '$3 ~ /^cgroup2?$/ && $2 ~ "^/sys/fs/cgroup" { print $2 }' /proc/mounts)
}

kubelet() {
  make_cgroups
  echo "nameserver 127.0.0.1" >"$RUN/resolv.conf" # for pods that want the node's; the real one is not theirs
  # Tests make many short-lived pods: no limits on events and requests, no images thrown away on a full disk.
  cat >"$RUN/kubelet.yaml" <<Y
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $NODE_IP
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $RUN/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $RUN/pki/kubelet.crt
tlsPrivateKeyFile: $RUN/pki/kubelet.key
cgroupDriver: cgroupfs
cgroupRoot: /$NS
failSwapOn: false
failCgroupV1: false
containerRuntimeEndpoint: unix://$SOCK
clusterDNS: [$DNS_IP]
clusterDomain: cluster.local
resolvConf: $RUN/resolv.conf
podLogsDir: $RUN/pod-logs
volumePluginDir: $RUN/volume-plugins
evictionHard: {memory.available: 50Mi, nodefs.available: "1%", imagefs.available: "1%", nodefs.inodesFree: "1%"}
imageGCHighThresholdPercent: 100
enforceNodeAllocatable: []
maxPods: 250
syncFrequency: 10s
serializeImagePulls: false
registryPullQPS: 0
eventRecordQPS: 0
kubeAPIQPS: 200
kubeAPIBurst: 400
Y
  daemon kubelet nsenter --mount="/proc/$(pid_of containerd)/ns/mnt" -- "$BIN/kubelet" --config="$RUN/kubelet.yaml" \
    --kubeconfig="$RUN/kubelet.conf" --hostname-override=$NODE --node-ip=$NODE_IP --root-dir="$RUN/kubelet"
}

node_ready() { # Ready, and without the taint that keeps pods away until a controller has seen it ready
  [ "$(kube get node "$NODE" -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}{.spec.taints}')" = True ]
}

storage() { # dynamic claims: local-path-provisioner, run beside the pods instead of in one
  local d=$RUN/storage
  mkdir -p "$d/volumes"
  cat >"$d/config.json" <<J
{"nodePathMap":[{"node":"DEFAULT_PATH_FOR_NON_LISTED_NODES","paths":["$d/volumes"]}]}
J
  kube apply -f - >/dev/null <<Y
apiVersion: v1
kind: Namespace
metadata: {name: local-path-storage}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: local-path, namespace: local-path-storage}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: local-path-config, namespace: local-path-storage}
data:
  config.json: '$(cat "$d/config.json")'
  setup: |
    #!/bin/sh
    set -eu
    mkdir -m 0777 -p "\$VOL_DIR"
  teardown: |
    #!/bin/sh
    set -eu
    rm -rf "\$VOL_DIR"
  helperPod.yaml: |
    apiVersion: v1
    kind: Pod
    metadata: {name: helper-pod}
    spec: {containers: [{name: helper-pod, image: $BUSYBOX, imagePullPolicy: IfNotPresent}]}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local-path, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: rancher.io/local-path
volumeBindingMode: WaitForFirstConsumer
Y
  daemon storage "$BIN/local-path-provisioner" start --kubeconfig "$RUN/admin.conf" --config "$d/config.json" \
    --namespace local-path-storage --configmap-name local-path-config --service-account-name local-path \
    --helper-image $BUSYBOX --provisioner-name rancher.io/local-path
}

network_policy() { # enforcement: the firewall half of kube-router (iptables and ipset)
  daemon network-policy env NODE_NAME=$NODE "$BIN/kube-router" --kubeconfig "$RUN/admin.conf" \
    --hostname-override=$NODE --run-router=false --run-service-proxy=false --run-loadbalancer=false \
    --run-firewall=true --service-cluster-ip-range=$SERVICE_NET --health-port=20244 --metrics-port=0
}

services() { # addresses of Services, by iptables; sysctls of connection tracking are the machine's, so they are left alone
  daemon services "$BIN/kube-proxy" --kubeconfig="$RUN/admin.conf" --hostname-override=$NODE --proxy-mode=iptables \
    --cluster-cidr=$POD_NET --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 \
    --conntrack-tcp-timeout-close-wait=0 --healthz-bind-address=127.0.0.1:10256 --metrics-bind-address=127.0.0.1:10249
}
