#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# daemon.sh: the daemon at rest, with all default plugins loaded and no zone: its memory, and the round trip of `protect zone list`.
# Run as ./check runs the end-to-end tests: SRC_DIR, BUILD_DIR and PREFIX set.
. "$SRC_DIR/tests/e2e/lib.bash"
registry=127.0.0.1:1
config_write
daemon_start || exit

protect plugin list
awk '/^Rss|^Pss:|^Pss_Anon|^Private_Dirty/ { printf "%s %.1f MiB\n", $1, $2 / 1024 }' "/proc/$daemon/smaps_rollup"

trip() { # COMMAND...: median milliseconds of 50 runs
	local took=() begin
	for _ in $(seq 50); do
		begin=${EPOCHREALTIME/[.,]/}
		"$@" >/dev/null || exit 1
		took+=($((${EPOCHREALTIME/[.,]/} - begin)))
	done
	awk -v us="$(median "${took[@]}")" 'BEGIN { printf "%.1f", us / 1000 }'
}
echo "round trip of protect zone list: $(trip protect zone list) ms; of protect --version, which asks no daemon: $(trip protect --version) ms"
ticks() { awk '{ print $14 + $15 }' "/proc/$daemon/stat"; }
before=$(ticks)
sleep 10
echo "processor time in 10 s at rest: $((($(ticks) - before) * 10)) ms"
