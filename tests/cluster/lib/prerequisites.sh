# What the machine must have: `deps` installs it where it can, `check` names what is missing.
# shellcheck shell=bash

GO_NEEDED=1.24

# command or file, and the Debian package it comes from
NEEDED="
containerd containerd
ctr containerd
containerd-shim-runc-v2 containerd
runc runc
/usr/lib/cni/bridge containernetworking-plugins
busybox busybox-static
iptables iptables
ipset ipset
conntrack conntrack
ip iproute2
nsenter util-linux
flock util-linux
openssl openssl
python3 python3
"
# only while something is left to build
NEEDED_TO_BUILD="
cc gcc
/etc/ssl/certs/ca-certificates.crt ca-certificates
apt-get apt
dpkg-deb dpkg
"

deps() {
  local packages
  packages=$(awk 'NF { print $2 }' <<<"$NEEDED$NEEDED_TO_BUILD" | sort -u)
  packages+=" libc6-dev"    # the static C library, which gcc only recommends
  packages+=" python3-venv" # for ../python, which says itself when it is missing
  [ "$(id -u)" = 0 ] && grep -qsE '^ID(_LIKE)?=.*(debian|ubuntu)' /etc/os-release && command -v apt-get >/dev/null || {
    missing_report || true
    die "deps installs packages only as root on Debian or Ubuntu; here they would be: ${packages//$'\n'/ }"
  }
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q
  # shellcheck disable=SC2086 # a list of names
  apt-get install -q -y --no-install-recommends --no-upgrade $packages
  check
}

check() { missing_report || exit 1; }

missing_report() { # what is missing, one a line; fails when there is any
  local found
  found=$(missing)
  [ -n "$found" ] || return 0
  while IFS= read -r line; do say "missing: $line"; done <<<"$found"
  ! grep -q 'Debian package' <<<"$found" || say "to install the Debian packages: $SELF deps"
  return 1
}

missing() {
  [ "$(id -u)" = 0 ] || echo "root (it makes namespaces, mounts and cgroups)"
  missing_of <<<"$NEEDED"
  # a dynamic busybox would not run alone in its image
  ! ldd "$(command -v busybox)" >/dev/null 2>&1 || echo "a static busybox (Debian package busybox-static)"
  missing_of_kernel
  all_built || { missing_of <<<"$NEEDED_TO_BUILD"; missing_go; }
}

missing_of() { # the lines of a table whose command or file is not there
  local what package
  while read -r what package; do
    [ -z "$what" ] || [ -f "$what" ] || command -v "$what" >/dev/null || echo "$what (Debian package $package)"
  done
}

missing_of_kernel() {
  modprobe -qa overlay br_netfilter ip_set 2>/dev/null || true # often built in, or no modprobe at all
  grep -qw overlay /proc/filesystems || echo "overlay file systems in the kernel"
  [ -d /sys/fs/cgroup ] || echo "cgroups mounted at /sys/fs/cgroup"
}

missing_go() {
  local version
  version=$(go env GOVERSION 2>/dev/null) || true
  version=${version#go}
  [ "$(printf '%s\n' "$GO_NEEDED" "${version:-0}" | sort -V | head -1)" = "$GO_NEEDED" ] ||
    echo "Go $GO_NEEDED or newer to build Kubernetes $KUBERNETES (found: ${version:-none})"
}
