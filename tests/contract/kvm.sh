#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The hypervisor contract on the KVM plugin: real libvirt inside the process, real QEMU, Debian's cloud kernel, and an initrd whose
# init obeys the console.
. "$SRC_DIR/tests/contract/hypervisor.bash"
[ "$(id -u)" = 0 ] || { echo "only root can run virtual machines"; exit 77; }
plugin=$BUILD_DIR/plugins/kvm/.libs/kvm.so
[ -f "$plugin" ] || { echo "built without libvirt"; exit 77; }

files=$("$SRC_DIR/tests/rigs/kernel" files)
cp "$files/image" "$work/kernel"
mkdir -p "$work/initrd/bin"
cp "$(command -v busybox)" "$work/initrd/bin/"
cat >"$work/initrd/init" <<'EOF'
#!/bin/busybox sh
/bin/busybox mkdir -p /proc
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
echo THE-GUEST-RUNS
while read -r line; do
	case $line in
	off) /bin/busybox poweroff -f ;;
	panic) echo c >/proc/sysrq-trigger ;;
	esac
done
EOF
chmod 755 "$work/initrd/init"
(cd "$work/initrd" && find . | cpio --quiet -o -H newc) >"$work/console.cpio"
cp "$BUILD_DIR/zone/initrd" "$work/agent.cpio"
truncate --size=%4 "$work/agent.cpio" # where the next archive may begin
cat "$files/early.cpio" >>"$work/agent.cpio"
chmod 644 "$work/kernel" "$work"/*.cpio

status=0
contract_run "$plugin" --kernel "$work/kernel" --initrd "$work/console.cpio" --cmdline "quiet panic=-1" \
	--console-text THE-GUEST-RUNS --power-off off --panic panic || status=1
contract_run "$plugin" --kernel "$work/kernel" --initrd "$work/agent.cpio" --cmdline quiet --agent --only 'a[dg]*' || status=1
exit $status
