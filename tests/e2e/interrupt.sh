#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ctrl-C during a launch, wherever it hits, leaves nothing behind: no zone, no virtual machine, no half-pulled image.
. "$SRC_DIR/tests/e2e/lib.bash"
registry_start
config_write
daemon_start || exit

quiet() { [ -z "$(zone_names)" ] && [ -z "$(machines)" ] && ! pgrep -f "protect-oci-provider.*$registry" >/dev/null; }
# Background jobs of a script ignore SIGINT from birth, so a terminal's foreground job has to be imitated.
interrupted() { # SECONDS COMMAND...
	local delay=$1
	shift
	timeout --foreground --signal=INT "$delay" env -- "$@" </dev/null >"$work/out" 2>&1
}
for delay in 0.05 0.2 0.5 1 1.5 2 3 4; do
	if interrupted $delay protect zone launch --name gone --kernel-variant debian --wait; then
		ok "a launch of less than $delay s was not interrupted"
	elif wait_until 10 quiet; then ok "interrupted after $delay s, nothing is left"; else
		bad "interrupted after $delay s: zones '$(zone_names)', virtual machines '$(machines)', said: $(tail -n 2 "$work/out")"
	fi
	protect zone destroy --wait gone >/dev/null 2>&1
done
works "the name and the image are usable" launch gone
same "no unfinished image lies about" "" "$(find "$data/cache" -name '*.new' -o -name '*.tmp' -o -name '*.part' | head -n 3)"

interrupted 0.4 protect workload launch --zone gone --name w -a "$registry/busybox:latest" sleep 100
works "a workload whose launch was interrupted can be launched again" eval \
	'protect workload destroy w >/dev/null 2>&1; protect workload launch --zone gone --name w -a "$registry/busybox:latest" echo fine'
