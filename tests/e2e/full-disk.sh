#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A disk that fills up during a pull: the error says so, nothing half-written stays, and with space it works.
. "$SRC_DIR/tests/e2e/lib.bash"
mkdir "$data"
mount -t tmpfs -o size=24m tmpfs "$data" || skip "no tmpfs can be mounted here"
registry_start
config_write
daemon_start || exit

refused "a kernel that does not fit" "space" protect zone launch --name full --kernel-variant debian --wait
same "no zone is left" "" "$(protect zone list --output json | jq -r '.[] | select(.status.state != "ZONE_STATE_FAILED") | .spec.name')"
same "no image is listed" 0 "$(protect image list --output json | jq length)"
works "the space is free again" wait_until 5 eval '[ "$(df --output=used -m "$data" | tail -n 1)" -lt 5 ]'
dd if=/dev/zero of="$data/filler" bs=1M status=none 2>/dev/null
works "with no byte left the daemon answers" answers
rm "$data/filler"
mount -o remount,size=512m "$data"
works "with space it works" launch full
