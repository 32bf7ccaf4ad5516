# SPDX-License-Identifier: Apache-2.0
# For the end-to-end tests: a daemon, a registry and a data directory of the test's own, with real QEMU zones.
#
# Sourced first. Gives $work, $registry (holding zone-kernel:debian and busybox:latest), $config, $data, protect (the command, talking to
# the test's daemon) and the functions below. Whatever a test leaves running is ended.
set -u
export LC_ALL=C.UTF-8
unset CDPATH

skip() { echo "$*"; exit 77; }
[ "$(id -u)" = 0 ] || skip "zones need root"
[ -n "${PREFIX:-}" ] && [ -x "$PREFIX/sbin/protect-daemon" ] || skip "protect is not installed in ${PREFIX:-a prefix}"
command -v "qemu-system-$(uname -m)" >/dev/null || skip "QEMU is missing (Debian: qemu-system-x86)"

PATH=$PREFIX/sbin:$PREFIX/bin:$PATH:/usr/sbin:/sbin
# A short path: sockets have at most 107 characters.
work=$(mktemp -d /var/tmp/pt.XXXXXX)
chmod 755 "$work"
data=$work/data config=$work/daemon.toml socket=$work/daemon.socket
export PROTECT_CONNECTION=unix://$socket PACK_KERNEL=$PREFIX/bin/protect-pack-kernel
daemon=''
failures=0

ok() { printf 'ok   %s\n' "$*"; }
bad() { printf 'FAIL %s\n' "$*"; failures=$((failures + 1)); }
same() { # WHAT EXPECTED GOT
	if [ "$2" = "$3" ]; then ok "$1"; else bad "$1: expected '$2', got '$3'"; fi
}
contains() { # WHAT NEEDLE HAYSTACK
	case $3 in *"$2"*) ok "$1" ;; *) bad "$1: '$2' is not in: $3" ;; esac
}
works() { # WHAT COMMAND...
	local what=$1 output
	shift
	if output=$("$@" 2>&1); then ok "$what"; else bad "$what: $* said: $output"; fi
}
# refused WHAT WORDS COMMAND...: fails, within 30 s, with one sentence that holds WORDS (a | separates alternatives)
refused() {
	local what=$1 words=$2 output code start=$SECONDS
	shift 2
	output=$(timeout 30 "$@" 2>&1 </dev/null)
	code=$?
	if [ $code -eq 0 ]; then bad "$what: $* succeeded: $output"
	elif [ $code -eq 124 ]; then bad "$what: $* still ran after 30 s"
	elif ! grep -qiE -e "$words" <<<"$output"; then bad "$what: no '$words' in: $output"
	else ok "$what ($((SECONDS - start)) s): $(tail -n 1 <<<"$output")"
	fi
}

milliseconds() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }
median() { printf '%s\n' "$@" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

wait_until() { # SECONDS COMMAND...
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}

# --- registry and images ---------------------------------------------------------------------------------------------

push() { skopeo copy -q --dest-tls-verify=false "oci:$1" "docker://$registry/$2" >/dev/null; }

registry_start() {
	registry=$("$SRC_DIR/tests/rigs/registry" start "$work/registry") || exit 1
	push "$("$SRC_DIR/tests/rigs/kernel" oci):debian" zone-kernel:debian || exit 1
	"$SRC_DIR/tests/rigs/busybox-image" "$work/busybox" latest && push "$work/busybox:latest" busybox:latest || exit 1
}

# --- daemon ----------------------------------------------------------------------------------------------------------

config_write() { # [MORE-LINES-OF-[zone.kernel-variants]]
	cat >"$config" <<CONFIG
[daemon]
log-level = "debug"
[zone]
memory-limit-mb = 512
[zone.kernel-variants]
debian = "$registry/zone-kernel:debian"
${1:-}
[oci]
insecure-registries = ["$registry"]
CONFIG
}

answers() { timeout 10 protect host status >/dev/null 2>&1; }

daemon_start() { # [OPTION]...
	local named=(--config "$config")
	[ "$config" != "$data/daemon.toml" ] || named=() # the default, which the daemon writes itself
	protect-daemon "${named[@]}" --data-dir "$data" --listen "unix://$socket" "$@" </dev/null >>"$work/daemon.log" 2>&1 &
	daemon=$!
	wait_until 60 answers && return
	bad "the daemon answers"
	return 1
}
daemon_stop() {
	kill "$daemon" 2>/dev/null
	wait "$daemon" 2>/dev/null
	daemon=''
}
daemon_kill() {
	kill -9 "$daemon"
	wait "$daemon" 2>/dev/null
	daemon=''
}

# --- zones -----------------------------------------------------------------------------------------------------------

launch() { timeout 150 protect zone launch --kernel-variant debian --wait --name "$@" </dev/null; } # NAME [OPTION]...
zone_state() { protect zone list --output json "$1" 2>/dev/null | jq -r '.[0].status.state // empty'; }
zone_names() { protect zone list --output json | jq -r '.[].spec.name'; }
in_zone() { protect zone exec "$@" </dev/null | tr -d '\r'; } # ZONE COMMAND...
machines() { pgrep -f "^[^ ]*qemu-system[^ ]* .*$work" || true; } # pids of this test's virtual machines

finish() {
	local code=$? left
	trap - EXIT
	if [ -z "$daemon" ] && [ -n "$(machines)" ]; then daemon_start >/dev/null 2>&1; fi
	if [ -n "$daemon" ] && answers; then
		for left in $(protect zone list --output json 2>/dev/null | jq -r '.[].id'); do timeout 20 protect zone destroy "$left" >/dev/null 2>&1; done
		wait_until 10 eval '[ -z "$(machines)" ]'
	fi
	[ -z "$daemon" ] || daemon_stop
	left=$(machines)
	[ -z "$left" ] || { bad "virtual machines are left: $left"; kill -9 $left; }
	"$SRC_DIR/tests/rigs/registry" stop "$work/registry"
	if [ $failures -gt 0 ] || [ $code -ne 0 ]; then
		echo "--- the daemon's log"
		tail -n 60 "$work/daemon.log" 2>/dev/null
	fi
	umount -l "$work"/* 2>/dev/null
	rm -rf "$work"
	[ $failures -eq 0 ] || { echo "$failures failed"; exit 1; }
	exit $code
}
trap finish EXIT
trap 'exit 130' INT TERM
