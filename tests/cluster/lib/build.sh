# Binaries from Go modules, each version once, in $BIN. A stamp $BIN/.NAME-VERSION says that one is finished.
# shellcheck shell=bash

KUBERNETES=1.34.4 # the last minor release whose kubelet accepts cgroup v1
ETCD=v3.6.4       # with Debian's 3.4 this API server refuses some watches ("Too large resource version")
LOCAL_PATH_PROVISIONER=v0.0.30
KUBE_ROUTER=v2.1.0
HELM=v3.22.0 # a client only, for the chart
COMPONENTS=(kube-apiserver kube-controller-manager kube-scheduler kubelet)

build() {
  mkdir -p "$BIN"
  build_etcd
  build_kubernetes "kubernetes-$KUBERNETES" "${COMPONENTS[@]}"
  build_kubernetes "kubectl-$KUBERNETES" kubectl # Debian's own is years older
  build_kubernetes "kube-proxy-$KUBERNETES" kube-proxy
  install_command local-path-provisioner "$LOCAL_PATH_PROVISIONER" github.com/rancher/local-path-provisioner
  install_command kube-router "$KUBE_ROUTER" github.com/cloudnativelabs/kube-router/v2/cmd/kube-router
  helm_
  build_pause
  pack_images
}

helm_() { install_command helm "$HELM" helm.sh/helm/v3/cmd/helm; }

all_built() {
  local c
  for c in "${COMPONENTS[@]}" kubectl kube-proxy; do [ -x "$BIN/$c" ] || return 1; done
  [ -f "$BIN/.kubernetes-$KUBERNETES" ] && [ -f "$BIN/.kubectl-$KUBERNETES" ] &&
    [ -f "$BIN/.kube-proxy-$KUBERNETES" ] && built helm "$HELM" && built etcd "$ETCD" && built local-path-provisioner "$LOCAL_PATH_PROVISIONER" && built kube-router "$KUBE_ROUTER" &&
    [ -x "$BIN/pause" ] && [ -f "$(userland_tar)" ]
}

built() { # NAME VERSION: there, of that version? Without a stamp, the binary itself says what it was made from.
  [ -x "$BIN/$1" ] || return 1
  [ -f "$BIN/.$1-$2" ] && return
  go version -m "$BIN/$1" 2>/dev/null | grep "$1.*[[:space:]]$2\b" >/dev/null && touch "$BIN/.$1-$2"
}

quietly() { CGO_ENABLED=0 GOWORK=off nice -n 10 "$@"; } # leave the processor to whoever works beside it

build_kubernetes() { # STAMP COMMAND...
  local stamp=$1 c; shift
  [ -f "$BIN/.$stamp" ] && [ -x "$BIN/$1" ] && return
  local src=$CLUSTER_DIR/src/${stamp%-*}
  kubernetes_module "$src" "$@"
  local package flags="-s -w" v="v$KUBERNETES" numbers=${KUBERNETES%.*}
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags+=" -X $package.gitVersion=$v -X $package.gitMajor=${numbers%.*} -X $package.gitMinor=${numbers#*.}"
    flags+=" -X $package.gitTreeState=clean"
  done
  for c; do
    say "building $c"
    (cd "$src" && quietly go build -trimpath -ldflags "$flags" -o "$BIN/$c" "k8s.io/kubernetes/cmd/$c")
  done
  touch "$BIN/.$stamp"
}

# k8s.io/kubernetes replaces its staging modules by relative paths; as a dependency they are the published modules.
kubernetes_module() { # DIRECTORY COMMAND...
  local src=$1 upstream c; shift
  mkdir -p "$src"
  upstream=$(cd "$CLUSTER_DIR" && quietly go mod download -json "k8s.io/kubernetes@v$KUBERNETES" |
    sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
  {
    printf 'module cluster\ngo %s.0\nrequire k8s.io/kubernetes v%s\nreplace (\n' "$GO_NEEDED" "$KUBERNETES"
    sed -n 's#^\(replace \)\{0,1\}[[:space:]]*\(k8s.io/[^ ]*\) => \./staging.*#\2 => \2 v0.'"${KUBERNETES#1.}"'#p' "$upstream"
    echo ")"
  } >"$src/go.mod"
  {
    printf '//go:build tools\npackage tools\nimport (\n'
    for c; do printf '_ "k8s.io/kubernetes/cmd/%s"\n' "$c"; done
    echo ")"
  } >"$src/tools.go"
  (cd "$src" && quietly go mod tidy)
}

build_etcd() {
  built etcd "$ETCD" && return
  say "building etcd"
  local src=$CLUSTER_DIR/src/etcd
  mkdir -p "$src"
  printf 'module cluster-etcd\n\ngo %s.0\n\nrequire go.etcd.io/etcd/server/v3 %s\n' "$GO_NEEDED" "$ETCD" >"$src/go.mod"
  cat >"$src/main.go" <<'G'
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
G
  (cd "$src" && quietly go mod tidy && quietly go build -trimpath -ldflags "-s -w" -o "$BIN/etcd" .)
  touch "$BIN/.etcd-$ETCD"
}

install_command() { # NAME VERSION PACKAGE
  built "$1" "$2" && return
  say "building $1"
  GOBIN=$BIN quietly go install -trimpath -ldflags "-s -w" "$3@$2"
  touch "$BIN/.$1-$2"
}

build_pause() { [ "$BIN/pause" -nt "$HERE/pause.c" ] || cc -static -Os -o "$BIN/pause" "$HERE/pause.c"; }
