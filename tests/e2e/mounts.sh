#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Host paths in a workload: one file and nothing beside it, a directory both ways, a read-only one held so by the host.
. "$SRC_DIR/tests/e2e/lib.bash"
registry_start
config_write
daemon_start || exit
image=$registry/busybox:latest
works "a zone" launch z || exit
mkdir "$work/shared"
echo hello >"$work/shared/file"
printf '#!/bin/sh\necho from a script\n' >"$work/script"
chmod 755 "$work/script"
start_workload() { timeout 60 protect workload launch --zone z "$@"; }
same "one file" "from a script" "$(start_workload --name m1 -a -m "$work/script:/agent-escape.sh" "$image" /agent-escape.sh 2>/dev/null </dev/null)"
same "a directory" hello "$(start_workload --name m2 -a -m "$work/shared:/data" "$image" cat /data/file 2>/dev/null </dev/null)"
works "writes go through" start_workload --name m3 -a -m "$work/shared:/data" "$image" sh -c 'echo back >/data/new' 
same "and are seen on the host" back "$(cat "$work/shared/new")"
refused "a read-only one is not written" "ead-only" protect workload launch --zone z --name m4 -a -m "$work/shared:/data:ro" "$image" sh -c 'echo x >/data/no'
refused "a path that is not there" "nowhere" protect workload launch --zone z --name m5 -a -m "$work/nowhere:/data" "$image" true
daemon_kill
daemon_start || exit
wait_until 20 eval '[ "$(in_zone z echo x 2>/dev/null)" = x ]'
same "after a restart of the daemon too" hello "$(start_workload --name m6 -a -m "$work/shared:/data" "$image" cat /data/file 2>/dev/null </dev/null)"
protect workload destroy m6
for w in m1 m2 m3 m4; do works "destroy $w" protect workload destroy $w; done
same "what shared them is gone" "" "$(pgrep -f "virtiofsd.*$work")"
same "and left nothing on the host" "shared/file shared/new" "$(cd "$work" && echo shared/*)"
