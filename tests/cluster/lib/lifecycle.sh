# up, down, status, and what they call healthy.
# shellcheck shell=bash

DAEMONS=(etcd containerd apiserver controller-manager scheduler kubelet storage network-policy services)

up() {
  # when all daemons live, an answer may only be late: on a busy machine that is no reason to throw the cluster away
  if all_alive && await_health; then
    say "already up"
    announce
    return
  fi
  check
  build
  if [ -e "$RUN" ] || [ -e "/run/netns/$NS" ]; then
    say "what is left of an earlier cluster is not healthy: starting again (its logs: $CLUSTER_DIR/previous-logs)"
    rm -rf "$CLUSTER_DIR/previous-logs"
    [ ! -d "$RUN/logs" ] || cp -r "$RUN/logs" "$CLUSTER_DIR/previous-logs"
    down
  fi
  start
  announce
}

start() {
  mkdir -p "$RUN"/{logs,pids}
  network_namespace
  certificates
  etcd
  containerd_
  apiserver
  runtime & # imports the images while the API server starts
  local images=$!
  await 120 apiserver "answer from the API server" answers apiserver
  controllers
  wait $images || die "the images could not be imported"
  kubelet
  storage
  await 60 kubelet "registered node" kube get node "$NODE" # kube-router gives up without
  network_policy
  services
  await 120 kubelet "ready node" node_ready
  await 60 controller-manager "default service account" kube get serviceaccount default
  await 60 network-policy "answer" answers network-policy
  await 60 services "answer" answers services
  touch "$RUN/complete"
}

announce() {
  kube get nodes
  echo "kubeconfig: $RUN/admin.conf (inside the namespace; use: $SELF in kubectl get pods -A)"
}

all_alive() {
  local name
  [ -f "$RUN/complete" ] && [ -e "/run/netns/$NS" ] || return 1
  for name in "${DAEMONS[@]}"; do alive "$name" || return 1; done
}

await_health() {
  local end=$((SECONDS + 20)) name
  for name in "${DAEMONS[@]}"; do
    until answers "$name" >/dev/null 2>&1; do
      alive "$name" && (( SECONDS < end )) || { say "$name does not answer"; return 1; }
      sleep 0.5
    done
  done
}

answers() { # NAME: does the daemon do its work? (the API server is ready only with etcd)
  case $1 in
    apiserver) kube get --raw /readyz ;;
    controller-manager) kube --server=https://127.0.0.1:10257 get --raw /healthz ;;
    scheduler) kube --server=https://127.0.0.1:10259 get --raw /healthz ;;
    containerd) has_images ;;
    kubelet) kube get --raw "/api/v1/nodes/$NODE/proxy/healthz" && node_ready ;;
    storage) kube get storageclass local-path ;;
    network-policy) kube --server=http://127.0.0.1:20244 get --raw /healthz ;;
    services) kube --server=http://127.0.0.1:10256 get --raw /livez ;;
    *) alive "$1" ;;
  esac
}

status() {
  local name pid verdict=0 word
  for name in "${DAEMONS[@]}"; do
    pid=$(pid_of "$name") || { pid=-; }
    word=dead
    if [ "$pid" != - ]; then
      word="does not answer"
      ! answers "$name" >/dev/null 2>&1 || word=ok
    fi
    [ "$word" = ok ] || verdict=1
    printf '%-20s %-8s %s\n' "$name" "$pid" "$word"
  done
  [ -f "$RUN/complete" ] || verdict=1
  [ $verdict = 0 ] || { say "not healthy"; return 1; }
  kube get pods -A -o wide
}

down() {
  [ "$(id -u)" = 0 ] || die "missing: root"
  stop services network-policy storage kubelet # first who would start pods again
  await_end 100 pods_left || say "some pods' processes do not end"
  stop containerd scheduler controller-manager apiserver etcd
  kill_strays || await_end 50 strays_left || say "some processes do not end: $(strays)"
  unmount
  ! [ -e "/run/netns/$NS" ] || ip netns del "$NS"
  [ ! -f "$RUN/made-run-netns" ] || remove_run_netns
  await_end 50 cgroups_left || say "some cgroups stay: $(cgroups)"
  rm -rf --one-file-system "$RUN"
  remove_fixed_paths
}

pods_left() { # kills what runs in our cgroups; succeeds while there was something
  local pids
  pids=$(cgroups | xargs -r -I TOP find TOP -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u)
  [ -n "$pids" ] || return 1
  # shellcheck disable=SC2086 # a list of numbers
  kill -9 $pids 2>/dev/null || true
}
strays_left() { ! kill_strays; }
cgroups_left() {
  cgroups | xargs -r -I TOP find TOP -depth -type d -exec rmdir {} \; 2>/dev/null || true
  [ -n "$(cgroups)" ]
}

remove_fixed_paths() { # what is empty, and not what another cluster has mounted on: that would go from there too
  local path
  for path in $FIXED_PATHS; do
    grep -qs " $path " /proc/[0-9]*/mountinfo || rmdir "$path" 2>/dev/null || true
  done
}

unmount() { # below $RUN, the last first; nothing is removed through a mount that will not go
  local path
  while read -r path; do umount "$path" 2>/dev/null || umount -l "$path" || die "cannot unmount $path"; done < <(
    awk -v below="$RUN/" 'index($2, below) == 1 { print $2 }' /proc/mounts | tac)
}

remove_run_netns() { # `ip netns` mounts that directory onto itself; ours, unless others use it by now
  [ -z "$(ls -A /run/netns 2>/dev/null)" ] || return 0
  umount /run/netns 2>/dev/null || true
  rmdir /run/netns 2>/dev/null || true
}
