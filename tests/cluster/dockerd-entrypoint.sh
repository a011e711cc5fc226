#!/bin/sh
# In place of the daemon in images of the shape of docker:27-dind. Says what it found in its container, a fact a line, on
# its output and to whoever asks at the address where the daemon would listen.
set -eu

home=/var/lib/docker
[ "$(id -u)" = 0 ] || home=/home/rootless/.local/share

facts() {
  echo "uid $(id -u)"
  echo "tls ${DOCKER_TLS_CERTDIR-unset}."
  [ "$#" = 0 ] || echo "args $*"
  # where, the mount's own options, the file system
  sed -n 's/^[^ ]* [^ ]* [^ ]* [^ ]* \([^ ]*\) \([^ ,]*\)[^ ]* .*- \([^ ]*\) .*/mount \1 \2 \3/p' /proc/self/mountinfo
  for dir in "$home" /run/user/1000; do
    if [ -d "$dir" ] && touch "$dir/.written"; then echo "writable $dir"; fi
  done
  if [ -c /dev/net/tun ]; then echo "tun character-device"; fi
  for file in /etc/subuid /etc/subgid; do
    if [ -f "$file" ]; then sed "s|^|$file |" "$file"; fi
  done
  sed -n 's/^\(CapEff\|NoNewPrivs\|Seccomp\):[[:space:]]*/\1 /p' /proc/self/status
  echo "devices $(ls /dev | wc -l)"
}

listen=0.0.0.0:2375
for argument; do
  case $argument in --host=tcp://*) listen=${argument#--host=tcp://} ;; esac
done

mkdir -p "$home/report"
facts "$@" >"$home/report/facts"
cat "$home/report/facts"
echo "listening $listen"
# a first process without a handler would not hear of its end
trap 'kill "$daemon"; exit 0' TERM
httpd -f -p "$listen" -h "$home/report" &
daemon=$!
wait "$daemon"
