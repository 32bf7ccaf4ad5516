#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# QEMU alone boots the packed kernel; its early modules load in the order listed, and with them the addons can be mounted.
set -eu
qemu=$(command -v "qemu-system-$(uname -m)") || { echo "QEMU is missing (Debian: qemu-system-x86)"; exit 77; }
[ "$(uname -m)" = x86_64 ] || { echo "the machine is written down for x86_64 only"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/kernel-boots.XXXXXX")
trap 'rm -rf "$work"' EXIT
files=$("$SRC_DIR/tests/rigs/kernel" files)
version=$("$SRC_DIR/tests/rigs/kernel" version)

mkdir -p "$work/root/bin" "$work/root/dev" "$work/root/proc" "$work/root/sys" "$work/root/addons"
cp "$(command -v busybox)" "$work/root/bin/busybox"
cat >"$work/root/init" <<'INIT'
#!/bin/busybox sh
export PATH=/bin
/bin/busybox mount -t proc proc /proc
/bin/busybox --install /bin
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do
	insmod /edera/early/$module || echo "TEST cannot load $module"
done </edera/early/modules.list
echo "TEST kernel $(uname -r)"
echo "TEST loaded $(wc -l </proc/modules)"
sleep 1
mount -t squashfs -o ro /dev/vda /addons && echo "TEST addons $(ls /addons)"
[ -f /addons/modules/modules.dep ] && echo "TEST indexed"
for port in /sys/class/virtio-ports/*/name; do echo "TEST port $(cat $port)"; done
poweroff -f
INIT
chmod 755 "$work/root/init"
(cd "$work/root" && find . | cpio --quiet -o -H newc) >"$work/initrd"
truncate -s %4 "$work/initrd"
cat "$files/early.cpio" >>"$work/initrd"

timeout 120 "$qemu" -machine q35,accel=tcg -cpu max -m 256 -nodefaults -display none -no-reboot -serial "file:$work/console" \
	-kernel "$files/image" -initrd "$work/initrd" -append "console=ttyS0 quiet panic=-1" \
	-drive "file=$files/addons.squashfs,format=raw,if=none,id=a,readonly=on" -device virtio-blk-pci,drive=a,serial=addons \
	-device virtio-serial-pci -chardev null,id=c -device virtserialport,chardev=c,name=test.port || { cat "$work/console"; exit 1; }
tr -d '\r' <"$work/console" | sed -n 's/.*TEST /TEST /p' >"$work/said"
cat "$work/said"

failed=0
expect() { grep -qxF "TEST $1" "$work/said" || { echo "FAIL: the guest did not say: $1"; failed=1; }; }
expect "kernel $version"
expect "loaded $(cpio --quiet -i --to-stdout edera/early/modules.list <"$files/early.cpio" | wc -l)"
expect "addons modules"
expect "indexed"
expect "port test.port"
! grep -q 'TEST cannot load' "$work/said" || failed=1
[ $failed = 0 ] || { tail -n 40 "$work/console"; exit 1; }
