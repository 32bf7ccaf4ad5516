#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The daemon is killed while a zone and a workload run. Its successor finds both as they were, and their output whole.
. "$SRC_DIR/tests/e2e/lib.bash"
registry_start
config_write
daemon_start || exit

works "a zone is launched" launch one || exit
works "a workload starts" protect workload launch --zone one --name count "$registry/busybox:latest" \
	sh -c 'i=0; while :; do echo "line $i"; i=$((i + 1)); sleep 0.05; done'
before=$(machines)
id=$(protect zone resolve one)
boot=$(in_zone one cat /proc/sys/kernel/random/boot_id)

for round in 1 2 3; do
	daemon_kill
	sleep 0.7
	daemon_start || exit
	same "round $round: the same virtual machine runs" "$before" "$(machines)"
	works "round $round: the zone is ready" wait_until 10 eval '[ "$(zone_state one)" = ZONE_STATE_READY ]'
	same "round $round: under the same id" "$id" "$(protect zone resolve one)"
	same "round $round: it answers, and has not been booted again" "$boot" "$(in_zone one cat /proc/sys/kernel/random/boot_id)"
	same "round $round: the workload is listed as running" WORKLOAD_STATE_RUNNING \
		"$(protect workload list --output json | jq -r '.[] | select(.spec.name == "count") | .status.state')"
done

sofar=$(protect workload logs count | wc -l)
works "output goes on" wait_until 20 eval '[ "$(protect workload logs count | wc -l)" -gt $((sofar + 20)) ]'
protect workload logs count >"$work/lines"
tr -d '\r' <"$work/lines" | awk '$1 != "line" || $2 != NR - 1 { print "at line " NR ": " $0; exit 1 }' >"$work/gap" &&
	ok "no line of the workload's output is lost or doubled ($(wc -l <"$work/lines") lines)" || bad "output has a gap: $(cat "$work/gap")"

daemon_stop
same "a daemon that is asked to stop leaves the zone running" "$before" "$(machines)"
daemon_start || exit
works "and its successor destroys it" protect zone destroy --wait one
works "so that no virtual machine is left" wait_until 5 eval '[ -z "$(machines)" ]'
same "and no zone listed" "" "$(zone_names)"

# A zone whose virtual machine died while nobody looked.
works "another zone" launch two
daemon_kill
kill -9 $(machines)
daemon_start || exit
works "a zone that died meanwhile is not called ready" wait_until 10 eval '[ "$(zone_state two)" != ZONE_STATE_READY ]'
works "and its name is free" launch two
