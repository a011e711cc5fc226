# Daemons in the network namespace: each has a log $RUN/logs/NAME.log and a file $RUN/pids/NAME.
# shellcheck shell=bash

in_ns() { nsenter --net="/run/netns/$NS" -- "$@"; }

daemon() { # NAME CMD...
  local name=$1; shift
  # Not through in_ns: a function in the background would leave $! on a subshell. Every word up to the command
  # replaces itself by the next, so $! is the daemon. The lock (9) must not live on in it, nor a proxy's settings.
  nsenter --net="/run/netns/$NS" -- setsid nohup env -i PATH="$PATH" HOME="$RUN" "$@" \
    >"$RUN/logs/$name.log" 2>&1 </dev/null 9>&- &
  echo "$! $(identity $!)" >"$RUN/pids/$name"
}

# A process number alone may be another process by now: the boot and the start time make it certain.
identity() { # PID
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  # shellcheck disable=SC2086 # the fields after the command's name: the first is the state, the 20th the start time
  set -- ${stat##*) }
  [ "$1" != Z ] || return 1
  echo "$(cat /proc/sys/kernel/random/boot_id) ${20}"
}

pid_of() { # NAME: the daemon's process number, if it is still that process
  local pid id
  [ -f "$RUN/pids/$1" ] || return 1
  read -r pid id <"$RUN/pids/$1" || return 1
  [ -n "$id" ] && [ "$(identity "$pid")" = "$id" ] && echo "$pid"
}
alive() { pid_of "$1" >/dev/null; }

stop() { # NAME...: ask all to end, wait for each up to five seconds, then kill
  local name pid
  for name; do
    pid=$(pid_of "$name") || continue
    kill "$pid" 2>/dev/null || true
  done
  for name; do
    await_end 50 alive "$name" || { pid=$(pid_of "$name") && kill -9 "$pid" 2>/dev/null; } || true
    await_end 20 alive "$name" || say "$name does not end"
    rm -f "$RUN/pids/$name"
  done
}

await_end() { # TENTHS CMD...: until CMD fails
  local left=$1; shift
  while "$@"; do
    (( left-- > 0 )) || return 1
    sleep 0.1
  done
}

await() { # SECONDS DAEMON WHAT CMD...: until CMD succeeds; gives up at once when the daemon has died
  local end=$((SECONDS + $1)) daemon=$2 what=$3; shift 3
  until "$@" >/dev/null 2>&1; do
    alive "$daemon" || { tail -n 5 "$RUN/logs/$daemon.log" >&2; die "$daemon has died; see $RUN/logs/$daemon.log"; }
    (( SECONDS < end )) || die "no $what in time; see $RUN/logs/$daemon.log"
    sleep 0.2
  done
}

# Processes of this cluster that no file names any more, after a crash: our binaries, and a containerd or one of its
# shims that was given our paths.
strays() {
  local p exe
  for p in /proc/[0-9]*; do
    exe=$(readlink "$p/exe" 2>/dev/null) || continue
    case $exe in
      "$BIN"/kubectl*) continue ;; # a client of somebody who has not heard yet
      "$BIN"/*) ;;
      */containerd\ * | */containerd | */containerd-shim*) grep -qaF "$RUN/" "$p/cmdline" 2>/dev/null || continue ;;
      *) continue ;;
    esac
    echo "${p#/proc/}"
  done
}

kill_strays() {
  local pid
  for pid in $(strays); do kill -9 "$pid" 2>/dev/null || true; done
  [ -z "$(strays)" ]
}
