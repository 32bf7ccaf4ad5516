# SPDX-License-Identifier: Apache-2.0
# Sourced by tests: a daemon of their own, whose zones are local processes (the sim hypervisor with the real agent), and words to check what it does.
# $work is where it lives; start_daemon starts it, and the end of the test takes all of it away. BUILD_DIR may be a tree built with sanitizers.
set -u
[ "$(id -u)" = 0 ] || { echo "namespaces need root"; exit 77; }
id edera-oci >/dev/null 2>&1 || { echo "the system user edera-oci is missing: make install makes it"; exit 77; }
for tool in umoci mksquashfs crun jq; do command -v $tool >/dev/null || { echo "$tool is missing"; exit 77; }; done

work=$(mktemp -d /var/tmp/ps.XXXXXX)
chmod 755 "$work"
failures=0
ok() { printf 'ok   %s\n' "$*"; }
bad() { printf 'FAIL %s\n' "$*"; failures=$((failures + 1)); }
same() { if [ "$2" = "$3" ]; then ok "$1"; else bad "$1: expected '$2', got '$3'"; fi; }
has() { case $3 in *"$2"*) ok "$1" ;; *) bad "$1: '$2' is not in: $3" ;; esac; }
until_true() { local n=0; until eval "$2"; do n=$((n + 1)); [ $n -lt 200 ] || { bad "$1: never '$2'"; return 1; }; sleep 0.05; done; ok "$1"; }

mkdir -p "$work/plugins" "$work/data/zone"
cp "$BUILD_DIR"/plugins/{config,registry,squashfs}/.libs/*.so "$BUILD_DIR/tests/plugins/sim/.libs/sim.so" "$work/plugins/"
cp "$BUILD_DIR/tests/plugins/sim/sim-vmm" "$work/plugins/"
: >"$work/data/zone/kernel"
: >"$work/data/zone/initrd"
: >"$work/log"
cat >"$work/daemon.toml" <<CONFIG
[daemon]
log-level = "debug"
[plugins]
directory = "$work/plugins"
hypervisor = "sim"
[plugin.sim]
agent = "$BUILD_DIR/zone/protect-zone-agent"
vmm = "$work/plugins/sim-vmm"
CONFIG
export PROTECT_CONNECTION=unix://$work/socket PROTECT_OCI_PROVIDER=$BUILD_DIR/provider/protect-oci-provider
[ -x "$PROTECT_OCI_PROVIDER" ] || PROTECT_OCI_PROVIDER=$BUILD_DIR/protect-oci-provider
protect() { timeout 60 "$BUILD_DIR/cli/protect" "$@"; }
daemon=''
start_daemon() {
	"$BUILD_DIR/protect-daemon" --config "$work/daemon.toml" --data-dir "$work/data" --run-dir "$work/run" --listen "unix://$work/socket" >>"$work/log" 2>&1 </dev/null &
	daemon=$!
	until_true "the daemon answers" 'protect host status >/dev/null 2>&1'
}
finish() {
	local status=$?
	protect zone list --output json 2>/dev/null | jq -r '.[].id' | while read -r id; do protect zone destroy --wait "$id" >/dev/null 2>&1; done
	[ -z "$daemon" ] || { kill "$daemon"; wait "$daemon"; } 2>/dev/null
	pkill -9 -f "$work/plugins/sim-vmm" 2>/dev/null
	[ $failures -eq 0 ] || tail -n 60 "$work/log"
	grep -q 'runtime error\|AddressSanitizer\|LeakSanitizer' "$work/log" && { bad "a sanitizer spoke"; grep -A30 'runtime error\|AddressSanitizer\|LeakSanitizer' "$work/log" | head -60; }
	sleep 0.2
	umount -l $(grep -o " $work[^ ]*" /proc/mounts) 2>/dev/null
	rm -rf "$work"
	[ $failures -eq 0 ] || exit 1
	exit $status
}
trap finish EXIT

