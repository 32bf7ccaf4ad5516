#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The KVM plugin on a libvirtd of the system, where domains of others live too.
. "$SRC_DIR/tests/contract/hypervisor.bash"
[ "$(id -u)" = 0 ] || { echo "only root can run libvirtd"; exit 77; }
plugin=$BUILD_DIR/plugins/kvm/.libs/kvm.so
[ -f "$plugin" ] || { echo "built without libvirt"; exit 77; }
! { pgrep -x libvirtd || pgrep -x virtqemud || pgrep -x virtlogd; } >/dev/null || { echo "a libvirtd runs here; this test starts its own"; exit 77; }

files=$("$SRC_DIR/tests/rigs/kernel" files)
cp "$files/image" "$work/kernel"
mkdir -p "$work/initrd/bin"
cp "$(command -v busybox)" "$work/initrd/bin/"
printf '#!/bin/busybox sh\necho THE-GUEST-RUNS\nexec /bin/busybox sleep 1000000\n' >"$work/initrd/init"
chmod 755 "$work/initrd/init"
(cd "$work/initrd" && find . | cpio --quiet -o -H newc) >"$work/initrd.cpio"
chmod 644 "$work/kernel" "$work/initrd.cpio"

# Whoever starts QEMU must collect it when it ends, or libvirtd waits; an init does that at once, a container's not always.
cat >"$work/daemons.py" <<'EOF'
import ctypes, os, signal, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
started = [subprocess.Popen([name]).pid for name in ("virtlogd", "libvirtd")]
signal.signal(signal.SIGTERM, lambda *_: [os.kill(pid, signal.SIGTERM) for pid in started])
while started:
    pid, _ = os.wait()
    if pid in started:
        started.remove(pid)
EOF
python3 "$work/daemons.py" >"$work/daemons.log" 2>&1 &
daemons=$!
foreign=33333333-3333-4333-8333-333333333333
end_daemons() {
	virsh -q -c qemu:///system destroy $foreign >/dev/null 2>&1 || true
	kill $daemons 2>/dev/null || true
	wait $daemons 2>/dev/null || true
	cleanup
}
trap end_daemons EXIT
for _ in $(seq 100); do
	virsh -q -c qemu:///system list >/dev/null 2>&1 && break
	sleep 0.1
done

cat >"$work/foreign.xml" <<EOF
<domain type='qemu'><name>zone-of-somebody-else</name><uuid>$foreign</uuid><memory unit='MiB'>16</memory>
<os><type arch='x86_64' machine='pc'>hvm</type></os><devices><emulator>/usr/bin/qemu-system-x86_64</emulator></devices></domain>
EOF
virsh -q -c qemu:///system create --paused "$work/foreign.xml"

before=$(stat -c '%u:%g %a' "$work/kernel" "$work/initrd.cpio")
contract_run "$plugin" --set uri=qemu:///system --kernel "$work/kernel" --initrd "$work/initrd.cpio" --cmdline quiet \
	--console-text THE-GUEST-RUNS --foreign $foreign
[ "$(stat -c '%u:%g %a' "$work/kernel" "$work/initrd.cpio")" = "$before" ] || { echo "FAIL: libvirtd gave shared files away"; exit 1; }
