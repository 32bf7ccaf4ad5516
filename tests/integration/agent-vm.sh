#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The agent as PID 1 of a machine of its own: QEMU alone, Debian's kernel, the initrd of the build. What a workload can do to stop it
# from answering, and the channel over virtio-serial.
set -u
qemu=$(command -v qemu-system-x86_64) || { echo "QEMU is missing (Debian: qemu-system-x86)"; exit 77; }
command -v mksquashfs >/dev/null || { echo "mksquashfs is missing (Debian: squashfs-tools)"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/agent-vm.XXXXXX")
trap 'kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; rm -rf "$work"' EXIT
files=$("$SRC_DIR/tests/rigs/kernel" files) || exit 1
failed=0

cp "$BUILD_DIR/zone/initrd" "$work/initrd"
truncate -s %4 "$work/initrd"
cat "$files/early.cpio" >>"$work/initrd"
mkdir -p "$work/image/bin" "$work/image/etc" "$work/image/tmp"
cp "$(command -v busybox)" "$work/image/bin/busybox"
for applet in sh awk cat cut echo head id sleep yes; do ln -s busybox "$work/image/bin/$applet"; done
head -c 32000000 /dev/urandom >"$work/image/big"
mksquashfs "$work/image" "$work/image.squashfs" -all-root -quiet -no-progress >/dev/null

"$qemu" -machine q35,accel=tcg -cpu max -m 256 -nodefaults -display none -no-reboot -serial "file:$work/console" \
	-kernel "$files/image" -initrd "$work/initrd" -append "console=ttyS0 quiet panic=-1 edera.agent=virtio:test.agent" \
	-device virtio-serial-pci -chardev "socket,id=c,path=$work/s,server=on,wait=off" -device virtserialport,chardev=c,name=test.agent \
	-device virtio-scsi-pci -drive "file=$files/addons.squashfs,format=raw,if=none,id=a,readonly=on" -device scsi-hd,drive=a,serial=addons \
	-drive "file=$work/image.squashfs,format=raw,if=none,id=i,readonly=on" -device scsi-hd,drive=i,serial=image 2>"$work/qemu" &
pid=$!
for _ in $(seq 100); do [ -S "$work/s" ] && break; sleep 0.05; done

drive() { timeout 120 "$BUILD_DIR/tests/integration/agent-drive" "$work/s" "$@"; }
say() { printf '%s\n' "$*"; }
fail() { say "FAIL: $*"; failed=1; }
is() { [ "$1" = "$2" ] || fail "$3: expected '$1', got '$2'"; }
field() { sed -n "s/.*\b$1=\([0-9]*\).*/\1/p"; }
# Status within SECONDS, whatever is going on
answers() {
	timeout "$1" "$BUILD_DIR/tests/integration/agent-drive" "$work/s" status >"$work/status" || fail "no answer within $1 s: $2"
}

say "boot"
drive status >"$work/status" || { tail -n 30 "$work/console"; cat "$work/qemu"; exit 1; }
cat "$work/status"
! grep -q ^warning "$work/status" || fail "warnings at boot"
is "tmpfs" "$(drive exec -- sh -c "sed -n 's/^[^ ]* \/ \([^ ]*\) .*/\1/p' /proc/mounts | tail -n 1")" "the root's filesystem"
is "-1000 -10" "$(drive exec -- sh -c 'echo $(cat /proc/1/oom_score_adj) $(cut -d" " -f19 /proc/1/stat)')" "the agent's protection"
is "0 0" "$(drive exec -- sh -c 'echo $(cat /proc/self/oom_score_adj) $(cut -d" " -f19 /proc/self/stat)')" "that of others"
is "" "$(drive exec -- ls /edera 2>/dev/null)" "early modules left in memory"

say "configure: host name, addons, a module"
is "" "$(drive configure --hostname box --serial addons -- vsock)" "warnings"
is "box" "$(drive exec -- hostname)" "host name"
is 1 "$(drive exec -- sh -c 'grep -c ^vsock /proc/modules')" "a module of the addons"
drive configure --hostname box --serial addons -- no-such-module | grep -q "cannot load the kernel module 'no-such-module'" || fail "a module that is not there"

say "a workload"
drive create --serial image w -- /bin/sh -c 'cat /proc/self/oom_score_adj; cut -d" " -f19 /proc/self/stat; echo $$' && drive start w
is "0 0 1" "$(drive attach w | tr '\n' ' ' | sed 's/ $//')" "a workload's own protection, and its process namespace"
drive delete w

say "a fork bomb"
drive create --serial image bomb -- /bin/sh -c 'f() { f | f & }; f; sleep 1000' && drive start bomb
sleep 4
answers 5 "a fork bomb"
is "in" "$(drive exec -- echo in)" "exec while a fork bomb runs"
drive delete bomb || fail "a fork bomb is not deleted"

say "a memory hog"
hog='BEGIN { while (1) a[n++] = sprintf("%1000000d", 1) }'
drive create --serial image hog -- /bin/awk "$hog" && drive start hog
answers 10 "a memory hog"
drive attach hog >/dev/null 2>"$work/err"; is 137 $? "a memory hog's end"
grep -q "out of memory" "$work/err" || fail "its end does not say why"
answers 5 "after a memory hog"
drive delete hog
drive create --serial image --limit memory.max=20000000 hog -- /bin/awk "$hog" && drive start hog
drive attach hog >/dev/null 2>&1; is 137 $? "the end of one with a limit of its own"
drive delete hog
# Whether the kernel ends one or lets it read its own text for ever hangs on a few pages: alone, with these limits, it did the latter.
for l in 20200000 20300000; do
	drive create --serial image --limit memory.max=$l hog -- /bin/awk "$hog" && drive start hog
	timeout 60 "$BUILD_DIR/tests/integration/agent-drive" "$work/s" attach hog >/dev/null 2>&1; is 137 $? "the end of one with $l bytes"
	drive delete hog
done
reader='BEGIN { while (n < 12) a[n++] = sprintf("%1000000d", 1); while (i++ < 6) system("cat /big >/dev/null"); print "read" }'
drive create --serial image --limit memory.max=20000000 reader -- /bin/awk "$reader" && drive start reader
is "read" "$(drive attach reader 2>&1)" "one that reads much, with little room for it"
drive delete reader
drive create --serial image hog -- /bin/sh -c 'head -c 1000000000 /dev/zero >/full; echo $?' && drive start hog
answers 10 "a writer of files without end"
drive attach hog >"$work/out" 2>&1
drive delete hog
drive exec -- awk "$hog" >/dev/null 2>&1; is 137 $? "a memory hog in the zone itself"
answers 5 "memory hogs"

say "output nobody reads"
drive create --serial image flood -- /bin/yes && drive start flood
sleep 1
answers 5 "a flood"
[ "$(drive metrics | field memory_available)" -gt 50000000 ] || fail "it takes memory: $(drive metrics)"
drive delete flood

say "the channel cut 200 times under load"
seq 30000 | sed 's/$/ of the output/' >"$work/lines"
is "$(md5sum <"$work/lines")" "$(drive exec --close 200 --close-every 15 -- sh -c 'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); echo "$i of the output"; done' 2>"$work/err" | md5sum)" "output over cuts"
cat "$work/err"
head -c 8000000 /dev/urandom >"$work/random"
is "$(md5sum <"$work/random")" "$(drive exec --stdin --close 200 --close-every 10 -- cat <"$work/random" 2>"$work/err" | md5sum)" "input and output over cuts"
cat "$work/err"
is 8388608 "$(drive exec -- head -c 8388608 /dev/zero | wc -c)" "8 MiB, then exit"

say "shutdown"
drive metrics
drive shutdown || fail "shutdown was refused"
for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
! kill -0 "$pid" 2>/dev/null || fail "the machine still runs"
grep -q "Power down" "$work/console" || fail "it did not power off"
[ $failed = 0 ] || tail -n 30 "$work/console"
exit $failed
