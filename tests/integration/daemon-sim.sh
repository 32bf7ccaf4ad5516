#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The daemon and the command line over zones that are local processes (the sim hypervisor with the real agent): everything but the
# kernel is as in a real zone, and it takes seconds. BUILD_DIR may be a tree built with sanitizers.
. "$SRC_DIR/tests/rigs/sim-daemon.bash"

"$SRC_DIR/tests/rigs/busybox-image" "$work/image" latest || exit 1
chmod -R a+rX "$work/image"
start_daemon || exit
has "the sim is the hypervisor" sim "$(protect plugin list --output simple)"
id=$(protect zone launch -n one --wait) || bad "launch"
same "a zone is ready" ready "$(protect zone list --output json one | jq -r '.[0].status.state' | sed 's/ZONE_STATE_//' | tr A-Z a-z)"
same "exec" hi "$(protect zone exec one echo hi </dev/null)"
protect zone exec one sh -c 'exit 9' </dev/null
same "exec's exit code" 9 $?
same "stdin and a megabyte through cat" "$(head -c 1000000 /dev/zero | md5sum)" "$(head -c 1000000 /dev/zero | protect zone exec one cat | md5sum)"
has "a second zone of that name is refused" "exists" "$(protect zone launch -n one 2>&1)"
has "a bad name is refused" "cannot be a zone's name" "$(protect zone launch -n 'a b' 2>&1)"

has "a quiet zone says in its log that all is well" "protect: zone ready, kernel $(uname -r), agent " "$(protect zone logs one)"
same "by the beginning of its id" hi "$(protect zone exec "${id:0:8}" echo hi </dev/null)"
same "in the list too" "$id" "$(protect zone list --output json "${id:0:6}" | jq -r '.[].id')"
has "which must be long enough" "unable to resolve zone '${id:0:5}'" "$(protect zone exec "${id:0:5}" true 2>&1 </dev/null)"
protect zone launch -n doomed --wait >/dev/null && pkill -9 -f "sim-vmm.*$(protect zone resolve doomed)"
until_true "a zone that failed" '[ "$(protect zone list --output json doomed | jq -r ".[0].status.state")" = ZONE_STATE_FAILED ]'
protect zone launch -n doomed --wait >/dev/null || bad "a live zone with a failed one's name"
same "has its name for itself in commands" 2 "$(protect zone list --output json doomed | jq length)"
protect zone destroy --wait doomed || bad "destroy the live one"
same "which leaves the failed one" ZONE_STATE_FAILED "$(protect zone list --output json doomed | jq -r '.[].status.state')"
protect zone destroy --wait doomed || bad "destroy the failed one"
has "more memory than there is here is warned of" "more than the" "$(protect zone launch -n big --wait --target-memory 16000000 2>&1)"
protect zone destroy --wait big || bad "destroy"
has "an impossible size is told with the limits" "asks for 17 MiB of memory, but from 64 MiB to 16777216 MiB" "$(protect zone launch -n small --target-memory 17 2>&1)"
metrics=$(protect zone metrics one --output json)
same "its measures" "memory,cpu,uptime,processes" "$(jq -r '[.children[].name] | join(",")' <<<"$metrics")"
same "are of this kernel" "$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo) * 1024))" "$(jq -r '.children[0].children[0].value' <<<"$metrics")"
has "as a tree" "  memory" "$(protect zone metrics one)"
has "not of one that is not there" "unable to resolve zone 'nonesuch'" "$(protect zone metrics nonesuch 2>&1)"
same "the host's CPUs" "$(nproc --all)" "$(protect host cpu-topology --output json | jq length)"
has "as a table" "thread" "$(protect host cpu-topology)"
same "no devices" "no devices configured" "$(protect device list)"
same "no reservations" "no network reservations found" "$(protect network reservation list)"

image="oci:$work/image:latest"
work_in() { protect workload launch --zone one "$@"; }
same "a workload" out "$(work_in --name w1 -a "$image" echo out </dev/null 2>/dev/null)"
work_in --name w2 -a "$image" sh -c 'exit 5' >/dev/null 2>&1 </dev/null
same "its exit code" 5 $?
same "its stdin" ABC "$(echo abc | work_in --name w3 -a "$image" tr a-z A-Z 2>/dev/null)"
same "its logs" out "$(protect workload logs w1)"
same "five megabytes attached" "$(seq 700000 | md5sum)" "$(work_in --name w4 -a "$image" seq 700000 </dev/null 2>/dev/null | md5sum)"
work_in --name back "$image" sh -c 'i=0; while :; do i=$((i + 1)); echo line $i; sleep 0.05; done' >/dev/null 2>&1 </dev/null || bad "a workload in the background"
same "exec in a workload" /bin/busybox "$(protect workload exec back readlink -f /bin/sh </dev/null)"

# The daemon dies; what runs goes on, and its output is whole. The next one is there before the kernel has quite taken the last away.
sleep 1
kill -9 "$daemon"
start_daemon || exit
until_true "the zone is taken back" '[ "$(protect zone exec one echo again </dev/null 2>/dev/null)" = again ]'
sleep 1
same "its workload still runs" running "$(protect workload list --output json | jq -r '.[] | select(.spec.name == "back").status.state' | sed 's/WORKLOAD_STATE_//' | tr A-Z a-z)"
protect workload logs back >"$work/lines"
same "no line of it is lost or doubled" "" "$(diff <(seq "$(wc -l <"$work/lines")" | sed 's/^/line /') "$work/lines" | head -n 3)"
protect workload stop back >/dev/null 2>&1
until_true "stop" '[ "$(protect workload list --output json | jq -r ".[] | select(.spec.name == \"back\").status.state")" = WORKLOAD_STATE_COMPLETED ]'
protect workload destroy back || bad "destroy a workload"

# Many at once.
for i in $(seq 10); do protect zone launch -n "many$i" --wait >/dev/null 2>>"$work/many.err" & done
wait $(jobs -p | grep -v "^$daemon$")
same "ten zones at once" 11 "$(protect zone list --output json | jq '[.[] | select(.status.state == "ZONE_STATE_READY")] | length')"
same "with eleven domids" 11 "$(protect zone list --output json | jq '[.[].status.domid] | unique | length')"
for i in $(seq 10); do protect zone destroy --wait "many$i" || bad "destroy many$i"; done
for i in $(seq 10); do protect zone launch -n reuse --wait >/dev/null && protect zone destroy reuse || bad "reuse $i"; done

# A VM that ends by itself.
protect zone launch -n dies --wait >/dev/null
pkill -9 -f "sim-vmm.*$(protect zone resolve dies)" || bad "no process of the zone found"
until_true "a zone whose VM ended is failed" '[ "$(protect zone list --output json dies | jq -r ".[0].status.state")" = ZONE_STATE_FAILED ]'
has "exec in it says so" failed "$(protect zone exec dies true 2>&1 </dev/null)"
protect zone destroy --wait dies || bad "destroy a failed zone"

# A destruction that fails: something in the zone's directory cannot be removed.
id=$(protect zone launch -n stuck --wait)
mkdir "$work/run/zones/$id/busy"
mount -t tmpfs none "$work/run/zones/$id/busy"
has "who waits for one that fails is told" "cannot destroy the zone 'stuck' ($id): the zone could not be destroyed" "$(protect zone destroy --wait stuck 2>&1)"
protect zone destroy --wait stuck 2>/dev/null
same "each time" 1 $?
umount "$work/run/zones/$id/busy"
protect zone destroy --wait stuck || bad "that it had failed is not counted against the next attempt"

# A zone that fails while a workload of it is being destroyed.
id=$(protect zone launch -n mute --wait)
protect workload launch --zone mute --name silenced "$image" sleep 1000 >/dev/null 2>&1 </dev/null || bad "a workload"
pkill -STOP -f "protect-zone-agent.*$id"
protect workload destroy --wait silenced & waits=$!
until_true "a workload on its way out" 'protect workload list --output json | grep -q STATE_DESTROYING'
pkill -9 -f "sim-vmm.*$id"
wait $waits || bad "a workload whose zone failed is not gone"
protect zone destroy --wait mute || bad "destroy its zone"
same "the first zone is not touched" fine "$(protect zone exec one echo fine </dev/null)"
protect zone destroy --wait one || bad "destroy"
same "nothing is left listed" "" "$(protect zone list --output simple; protect workload list --output simple)"
same "no process is left" "" "$(pgrep -f "$work/plugins/sim-vmm")"
same "no directory is left" "" "$(ls "$work/run/zones")"

# A second daemon that is not told where to run takes its directory with it, unless something of a zone is in there.
run_dir=$("$BUILD_DIR/protect-daemon" --help | sed -n 's/.*--run-dir.*(default: \(.*\); with --data-dir.*/\1/p')
above=$run_dir
until [ -d "$above" ]; do above=$(dirname "$above"); done
beside() { # COMMAND: while it runs, with $run in its environment
	run=$run_dir unshare --mount --propagation private sh -c '
		mount -t tmpfs tmpfs "$5" && mkdir -p "$2" || exit
		"$0" --config "$1/daemon.toml" --data-dir "$2" >>"$1/log" 2>&1 </dev/null &
		for i in $(seq 200); do PROTECT_CONNECTION="unix://$2/daemon.socket" "$4" host status >/dev/null 2>&1 && break; sleep 0.05; done
		(eval "$3")
		kill $!
		wait $!
		ls -d "$run"/i-* 2>/dev/null | wc -l' "$BUILD_DIR/protect-daemon" "$work" "$work/data2" "$1" "$BUILD_DIR/cli/protect" "$above"
}
same "a second daemon has a directory of its own" "1 0" "$(echo $(beside 'ls -d $run/i-*/zones | wc -l'))"
same "which stays while a zone is in it" 1 "$(beside 'cd $run/i-*/zones && mkdir some')"
