#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A zone is ready when its agent answers, before everything in it is set up: what is asked of it at that instant waits in the zone, and a
# set-up that fails afterwards makes the zone fail, with the reason.
. "$SRC_DIR/tests/e2e/lib.bash"
registry_start
config_write
daemon_start || exit
image=$registry/busybox:latest
works "the workload's image is there" protect image pull "$image"
echo "from the host" >"$work/file"

# All at once, at the instant of READY. What each prints is in $work/out.N.
for round in 1 2 3 4; do
	z=z$round
	works "launch $z" launch $z || exit
	asked=()
	(in_zone $z cat /proc/sys/kernel/hostname >"$work/out.1" 2>&1) &
	asked+=($!)
	(in_zone $z sh -c 'ls -d /lib/modules/*/kernel' >"$work/out.2" 2>&1) &
	asked+=($!)
	(echo "by stdin" | timeout 60 protect zone exec $z cat >"$work/out.3" 2>&1) &
	asked+=($!)
	(timeout 60 protect workload launch --zone $z --name a$round -a "$image" echo "from a workload" >"$work/out.4" 2>/dev/null </dev/null) &
	asked+=($!)
	(echo "by its stdin" | timeout 60 protect workload launch --zone $z --name b$round -a "$image" cat >"$work/out.5" 2>/dev/null) &
	asked+=($!)
	(timeout 60 protect workload launch --zone $z --name c$round -a -m "$work/file:/file:ro" "$image" cat /file >"$work/out.6" 2>/dev/null </dev/null) &
	asked+=($!)
	wait "${asked[@]}"
	same "$z: a command finds the zone set up" $z "$(cat "$work/out.1")"
	same "$z: and its modules" "/lib/modules/$("$SRC_DIR/tests/rigs/kernel" version)/kernel" "$(cat "$work/out.2")"
	same "$z: no input is lost" "by stdin" "$(tr -d '\r' <"$work/out.3")"
	same "$z: a workload" "from a workload" "$(tr -d '\r' <"$work/out.4")"
	same "$z: a workload's input" "by its stdin" "$(tr -d '\r' <"$work/out.5")"
	same "$z: a workload with a mount" "from the host" "$(tr -d '\r' <"$work/out.6")"
	same "$z: it is ready still" ZONE_STATE_READY "$(zone_state $z)"
	works "$z is destroyed with all that is in it" timeout 30 protect zone destroy --wait $z
done

# The daemon dies at that instant: the set-up goes on, or is asked for again.
works "launch k" launch k
daemon_kill
daemon_start || exit
wait_until 30 eval '[ "$(in_zone k cat /proc/sys/kernel/hostname 2>/dev/null)" = k ]'
same "after the daemon was killed at that instant" "k /lib/modules" "$(in_zone k sh -c 'echo $(hostname) $(ls -d /lib/modules/*/kernel | cut -d/ -f1-3)')"
works "k is destroyed" timeout 30 protect zone destroy --wait k

# The node's own kernel, whose addons are no filesystem.
files=$("$SRC_DIR/tests/rigs/kernel" files)
mkdir -p "$data/zone"
cp "$files/image" "$data/zone/kernel"
cp "$PREFIX/lib/edera/protect/zone/initrd" "$data/zone/initrd"
truncate --size=%4 "$data/zone/initrd" # where the next archive may begin
cat "$files/early.cpio" >>"$data/zone/initrd"
head -c 1048576 /dev/zero >"$data/zone/addons.squashfs"
timeout 150 protect zone launch --wait --name broken >/dev/null 2>&1 </dev/null # ready first, or failed already
wait_until 20 eval '[ "$(zone_state broken)" = ZONE_STATE_FAILED ]'
same "broken addons make the zone fail" ZONE_STATE_FAILED "$(zone_state broken)"
contains "with the reason" "cannot mount the disk 'addons'" "$(protect zone list --output json broken | jq -r '.[0].status.error_status.message // .[0].status.errorStatus.message')"
refused "and a command in it is refused with it" "cannot mount the disk 'addons'" protect zone exec broken true
wait_until 10 eval '[ -z "$(machines)" ]'
same "its machine is ended" "" "$(machines)"
works "it is destroyed" timeout 30 protect zone destroy --wait broken
