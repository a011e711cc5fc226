# The node's images: packed from directories into archives below $CLUSTER_DIR/images, imported at every `up`.
# shellcheck shell=bash

PAUSE=registry.k8s.io/pause:3.6
BUSYBOX=docker.io/library/busybox:1.36
USERLAND=runner.test/userland:1
# the names of the real ones: what pods ask for without any setting
DIND=docker.io/library/docker:27-dind
DIND_ROOTLESS=docker.io/library/docker:27-dind-rootless
DIND_CONFIG='{"Entrypoint": ["dockerd-entrypoint.sh"]}'
DIND_ROOTLESS_CONFIG='{"Entrypoint": ["dockerd-entrypoint.sh"], "User": "rootless"}'
IMAGES=$CLUSTER_DIR/images
USERLAND_PACKAGES="base-files bash coreutils dash debianutils diffutils findutils grep gzip hostname libc-bin mawk procps
sed tar util-linux"
# drawn in by dependencies of maintainer scripts, which never run here
NOT_IN_USERLAND='^(perl|lib.*-perl$|libperl|perl-|libdb5|libgdbm|usrmerge|debconf|dpkg|init-system-helpers)'

ctr_() { ctr -a "$SOCK" -n k8s.io "$@"; }
slug() { tr '/:' '__' <<<"$1"; }
short_sum() { cksum | cut -d ' ' -f 1; }

# The names carry what the archive was made from, so that a change of it makes a new one.
pause_tar() { echo "$IMAGES/pause-$(cat "$BIN/pause" "$HERE/image.py" | short_sum).tar"; }
busybox_tar() { echo "$IMAGES/busybox-$(cat "$(command -v busybox)" "$HERE/image.py" | short_sum).tar"; }
userland_tar() { echo "$IMAGES/userland-$(userland_made_from | short_sum).tar"; }
dind_made_from() { cat "$(command -v busybox)" "$HERE/image.py" "$HERE/dockerd-entrypoint.sh"; declare -f dind_root; }
dind_tar() { echo "$IMAGES/dind-$(dind_made_from | short_sum).tar"; }
dind_rootless_tar() { echo "$IMAGES/rootless-$(dind_made_from | short_sum).tar"; }
userland_made_from() {
  echo "$USERLAND_PACKAGES" "$NOT_IN_USERLAND"
  declare -f userland_root userland_packages
  cat "$HERE/image.py"
}

pack_images() {
  mkdir -p "$IMAGES"
  pack "$(pause_tar)" "$PAUSE" pause_root /pause
  pack "$(busybox_tar)" "$BUSYBOX" busybox_root sh
  pack "$(userland_tar)" "$USERLAND" userland_root bash
  IMAGE_CONFIG=$DIND_CONFIG pack "$(dind_tar)" "$DIND" dind_root
  IMAGE_CONFIG=$DIND_ROOTLESS_CONFIG pack "$(dind_rootless_tar)" "$DIND_ROOTLESS" dind_root
}

pack() { # TAR NAME FUNCTION-THAT-FILLS-A-DIRECTORY CMD...
  local tar=$1 name=$2 fill=$3 root; shift 3
  [ ! -f "$tar" ] || return 0
  say "packing $name"
  rm -rf "${tar%-*}"-*.tar "$IMAGES"/{root,debs}.* # of earlier versions, and of one interrupted
  root=$(mktemp -d "$IMAGES/root.XXXXXX")
  mkdir -p "$root"/{etc,tmp,proc,sys,dev,root,run,var/run,var/tmp}
  chmod 755 "$root"
  chmod 1777 "$root/tmp" "$root/var/tmp"
  printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n' >"$root/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
  "$fill" "$root"
  python3 "$HERE/image.py" "$tar" "$name" "$root" "$@"
  rm -rf "$root"
}

pause_root() { cp "$BIN/pause" "$1/pause"; }

busybox_root() {
  local applet
  mkdir -p "$1/bin"
  cp "$(command -v busybox)" "$1/bin/busybox"
  for applet in $(busybox --list); do [ "$applet" = busybox ] || ln -sf busybox "$1/bin/$applet"; done
}

# A script in place of the daemon; users, paths and entry point are those of docker:27-dind and its rootless variant.
dind_root() {
  busybox_root "$1"
  echo 'rootless:x:1000:1000:rootless:/home/rootless:/bin/sh' >>"$1/etc/passwd"
  echo 'rootless:x:1000:' >>"$1/etc/group"
  mkdir -p "$1/usr/local/bin" "$1/home/rootless/.local/share" "$1/run/user/1000"
  touch "$1/etc/subuid" "$1/etc/subgid"
  cp "$HERE/dockerd-entrypoint.sh" "$1/usr/local/bin"
}

userland_root() {
  local root=$1 work deb
  work=$(mktemp -d "$IMAGES/debs.XXXXXX")
  (cd "$work" && userland_packages | xargs apt-get download -qq -o APT::Sandbox::User=root >&2)
  # all of it below /usr, as Debian means it, whether or not the packages still name /bin
  mkdir -p "$root"/usr/{bin,sbin,lib,lib64}
  ln -s usr/bin usr/sbin usr/lib usr/lib64 "$root"
  for deb in "$work"/*.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$root"
  done
  # what maintainer scripts would have done
  [ -e "$root/usr/bin/sh" ] || ln -s dash "$root/usr/bin/sh"
  ln -sf mawk "$root/usr/bin/awk"
  ln -sf which.debianutils "$root/usr/bin/which"
  rm -rf "$work" "$root"/usr/share/{doc,man,info,locale,lintian,bash-completion,bug} "$root"/usr/lib/*/perl*
}

userland_packages() { # with their dependencies: what apt would install on a machine that has nothing
  local nothing
  nothing=$(mktemp)
  # shellcheck disable=SC2086 # a list of names
  apt-get -q -o Dir::State::status="$nothing" -s --no-install-recommends install $USERLAND_PACKAGES |
    awk '/^Inst / { print $2 }' | grep -vE "$NOT_IN_USERLAND"
  rm -f "$nothing"
}

import_images() {
  local tar
  for tar in "$(pause_tar)" "$(busybox_tar)" "$(userland_tar)" "$(dind_tar)" "$(dind_rootless_tar)"; do
    ctr_ images import "$tar" >/dev/null
  done
}

has_images() {
  local name names
  names=$(timeout 5 ctr -a "$SOCK" -n k8s.io images ls -q) || return 1
  for name in "$PAUSE" "$BUSYBOX" "$USERLAND" "$DIND" "$DIND_ROOTLESS"; do grep -qxF "$name" <<<"$names" || return 1; done
}

image() { # NAME ROOTFS CMD...
  [ $# -ge 3 ] && [ -d "$2" ] || die "image: needs NAME:TAG, a directory and the command to run"
  case ${1##*/} in
    *:latest) die "image: pods pull :latest always; choose another tag" ;;
    *:*) ;;
    *) die "image: pods pull a name without a tag always; add one" ;;
  esac
  needs_runtime
  local tar=$RUN/$(slug "$1").tar
  python3 "$HERE/image.py" "$tar" "$@"
  ctr_ images import "$tar"
  rm -f "$tar"
}

load() { # TAR...
  [ $# -gt 0 ] || die "load: which archives?"
  needs_runtime
  local tar
  for tar; do ctr_ images import "$tar"; done
}

needs_runtime() { alive containerd || die "it is not up; run: $SELF up"; }
