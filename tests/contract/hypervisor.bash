# SPDX-License-Identifier: Apache-2.0
# For the scripts beside it: runs the contract suite on a hypervisor plugin, after two processes that made a VM each are gone,
# one killed and one stopped as a daemon stops.
#   contract_run PLUGIN.so [OPTION...]
set -eu
work=$(mktemp -d /tmp/contract.XXXXXX)
chmod 755 "$work"

# Whatever happened, no process of ours stays: each names a path below $work, or is the plugin's own business to end.
cleanup() {
	local pid
	for pid in $(grep -zl "$work" /proc/[0-9]*/cmdline 2>/dev/null | sed 's,/proc/\([0-9]*\)/.*,\1,'); do
		[ "$pid" = $$ ] || kill -9 "$pid" 2>/dev/null || true
	done
	rm -rf "$work"
}
trap cleanup EXIT

contract_run() {
	local contract=$BUILD_DIR/tests/contract/contract pid
	: >"$work/left"
	"$contract" "$@" --work "$work" --leave 11111111-1111-4111-8111-111111111111 >"$work/left" &
	pid=$!
	while ! grep -q READY "$work/left"; do
		kill -0 $pid 2>/dev/null || return 1
		sleep 0.05
	done
	kill -9 $pid
	wait $pid 2>/dev/null || true
	"$contract" "$@" --work "$work" --leave 22222222-2222-4222-8222-222222222222 --take-down >/dev/null
	"$contract" "$@" --work "$work"
}
