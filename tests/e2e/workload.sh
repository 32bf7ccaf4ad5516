#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What scripts rely on: where output goes, what a launch waits for, exit codes, and that a workload sees its zone and not the host.
. "$SRC_DIR/tests/e2e/lib.bash"
registry_start
config_write "
[plugin.squashfs]
mkfs-erofs = \"$work/mkfs.erofs\""
daemon_start || exit
image=$registry/busybox:latest
works "a zone" launch z || exit

start_workload() { timeout 60 protect workload launch --zone z "$@"; }

same "attached with a tty, output is on stdout and the program's last" "hello from inside" \
	"$(start_workload --name w1 -t -a "$image" echo hello from inside 2>/dev/null </dev/null | tr -d '\r' | awk 'NF { last = $0 } END { print last }')"
same "attached without a tty, stdout holds the output alone" "only this" "$(start_workload --name w2 -a "$image" echo only this 2>/dev/null </dev/null)"
same "stdin reaches it" "ABC" "$(echo abc | start_workload --name w3 -a "$image" tr a-z A-Z 2>/dev/null)"
same "a separator before the command is allowed" "x" "$(start_workload --name w4 -a "$image" -- echo x 2>/dev/null </dev/null)"
start_workload --name w5 -a "$image" sh -c 'exit 7' >/dev/null 2>&1 </dev/null
same "its exit code is the command's" 7 $?
start_workload --name w6 -a "$image" sh -c 'echo out; echo err >&2' >"$work/out" 2>"$work/err" </dev/null
same "stdout and stderr are kept apart" "out err" "$(cat "$work/out") $(grep -x err "$work/err")"
big=$(start_workload --name w7 -a "$image" sh -c 'seq 100000' 2>/dev/null </dev/null | md5sum)
same "100000 lines arrive whole" "$(seq 100000 | md5sum)" "$big"
contains "finished workloads stay listed" w5 "$(protect workload list --output simple)"
same "with their state" WORKLOAD_STATE_COMPLETED "$(protect workload list --output json | jq -r '.[] | select(.spec.name == "w1") | .status.state')"
same "and their logs" "only this" "$(protect workload logs w2 | tr -d '\r')"
works "until destroyed" protect workload destroy w5
refused "twice is once too often" w5 protect workload destroy w5

start=$SECONDS
start_workload --name back "$image" sleep 60 >/dev/null </dev/null
[ $((SECONDS - start)) -lt 20 ] && ok "without -a a launch returns once the workload runs" || bad "a launch without -a took $((SECONDS - start)) s"
same "it runs" WORKLOAD_STATE_RUNNING "$(protect workload list --output json | jq -r '.[] | select(.spec.name == "back") | .status.state')"
works "a running one is destroyed" protect workload destroy back

# The same image as an erofs.
refused "erofs without a program that makes it" "cannot use '$work/mkfs.erofs'" protect image pull -s erofs "$image"
refused "a workload from it" "cannot use '$work/mkfs.erofs'" protect workload launch --zone z --name e0 --image-format erofs "$image" true
if mkfs=$("$SRC_DIR/tests/rigs/erofs-utils"); then
	ln -s "$mkfs" "$work/mkfs.erofs"
	same "a workload is launched from an erofs image" "erofs" \
		"$(start_workload --name e1 -a --image-format erofs "$image" sh -c 'echo erofs' 2>"$work/err" </dev/null | tr -d '\r')$(cat "$work/err")"
	contains "which the zone mounts as one" " erofs ro" "$(in_zone z cat /proc/mounts)"
	contains "it is listed beside the squashfs" erofs "$(protect image list --output json | jq -r '.[].format')"
	same "one owner, one digest" "1 1" "$(protect image list --output json | jq -r '.[] | select(.format | test("EROFS|erofs")) | .digest' | sort -u | wc -l) $(find "$data/cache/images" -name image -path '*.erofs/*' -user root -perm 644 | wc -l)"
	refused "it is in use" "\(erofs\) is in use by the workload e1 in the zone z" protect image remove --format erofs "$image"
	works "until that is destroyed" protect workload destroy e1
	works "it is removed alone" protect image remove --format erofs "$image"
	same "the squashfs stays" "0" "$(find "$data/cache/images" -maxdepth 1 -name '*.erofs' | wc -l)"
else
	echo "no mkfs.erofs that reads a tar: erofs images are not tested"
fi

inside() { start_workload --name i$RANDOM$RANDOM -a "$image" "$@" 2>"$work/err" </dev/null | tr -d '\r'; [ "${PIPESTATUS[0]}" = 0 ] || echo "failed: $(cat "$work/err")" >&2; }
[ "$(inside uname -r)" = "$("$SRC_DIR/tests/rigs/kernel" version)" ] && ok "the zone's kernel" || bad "the workload runs on $(inside uname -r)"
hostname=$(inside cat /etc/hostname)
[ -n "$hostname" ] && [ "$hostname" != "$(cat /etc/hostname 2>/dev/null)" ] && ok "another hostname" || bad "the hostname is '$hostname'"
processes=$(inside ps | grep -c .)
[ "$processes" -gt 1 ] && [ "$processes" -lt 10 ] && ok "few processes" || bad "ps prints $processes lines"
devices=$(inside ls /dev | grep -c .)
[ "$devices" -gt 5 ] && [ "$devices" -lt "$(ls /dev | wc -l)" ] && ok "few devices" || bad "it sees $devices devices"
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do inside true || break; done 2>"$work/lines"
same "fifteen more workloads start" "" "$(cat "$work/lines")"
works "its root is writable" start_workload --name write -a "$image" sh -c 'echo x >/file && grep -q x /file'
same "what it wrote is not in the next workload's root" none "$(inside sh -c '[ -e /file ] || echo none')"
refused "a command that is not there" "nonesuch" protect workload launch --zone z --name none -a "$image" nonesuch
refused "an image that is not there" "nosuchimage" protect workload launch --zone z --name none2 -a "$registry/nosuchimage:1" true
refused "a zone that is not there" "nozone" protect workload launch --zone nozone --name none3 -a "$image" true

# A workload cannot stop the zone's agent from answering.
start_workload --name hog "$image" sh -c 'while :; do dd if=/dev/zero bs=1M count=100000 2>/dev/null | tail -c 1000000000; done' >/dev/null 2>&1 </dev/null
start_workload --name flood "$image" yes >/dev/null 2>&1 </dev/null
start_workload --name spin "$image" sh -c 'while :; do :; done' >/dev/null 2>&1 </dev/null
sleep 2
start=$SECONDS
same "the zone answers under load" fine "$(timeout 30 protect zone exec z echo fine </dev/null | tr -d '\r')"
[ $((SECONDS - start)) -lt 10 ] || bad "it took $((SECONDS - start)) s to answer under load"
protect zone exec z sh -c 'exit 3' </dev/null
same "zone exec gives the command's exit code" 3 $?
same "zone exec passes stdin" abc "$(echo abc | protect zone exec z cat)"
works "zone logs shows the console" eval 'protect zone logs z >"$work/console"'
