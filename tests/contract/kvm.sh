#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The hypervisor contract on the KVM plugin: real libvirt inside the process, real QEMU, Debian's cloud kernel, and an initrd whose
# init obeys the console.
. "$SRC_DIR/tests/contract/hypervisor.bash"
[ "$(id -u)" = 0 ] || { echo "only root can run virtual machines"; exit 77; }
plugin=$BUILD_DIR/plugins/kvm/.libs/kvm.so
[ -f "$plugin" ] || { echo "built without libvirt"; exit 77; }

kernel=$(echo "$("$SRC_DIR/tests/rigs/kernel" root)"/boot/vmlinuz-*)
mkdir -p "$work/initrd/bin"
cp "$(command -v busybox)" "$work/initrd/bin/"
cat >"$work/initrd/init" <<'EOF'
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
echo THE-GUEST-RUNS
while read -r line; do [ "$line" != off ] || /bin/busybox poweroff -f; done
EOF
chmod 755 "$work/initrd/init"
(cd "$work/initrd" && find . | cpio --quiet -o -H newc) >"$work/initrd.cpio"
chmod 644 "$work/initrd.cpio"
cp "$kernel" "$work/kernel"
chmod 644 "$work/kernel"

contract_run "$plugin" --kernel "$work/kernel" --initrd "$work/initrd.cpio" --cmdline quiet \
	--console-text THE-GUEST-RUNS --power-off off
