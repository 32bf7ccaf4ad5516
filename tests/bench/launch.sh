#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# launch.sh [PAIRS]: what protect adds to a start of the same domain by libvirt alone.
#
# Ours: `protect zone launch --wait`, from exec to its return. The peer: bare-libvirt, from before virDomainCreateXML until the first
# process of the guest prints a line; same XML, kernel and initrd, with an init that does nothing else. In turn, after one unmeasured
# launch of each. Run as ./check runs the end-to-end tests: SRC_DIR, BUILD_DIR and PREFIX set.
. "$SRC_DIR/tests/e2e/lib.bash"
pairs=${1:-10}
bare=$BUILD_DIR/tests/bench/bare-libvirt
[ -x "$bare" ] || skip "bare-libvirt was not built (make $bare)"
registry_start
config_write
daemon_start --run-dir "$work/run" || exit

# The first launch pulls, and its domain is the one the peer starts.
launch first >/dev/null || exit
status=$(ls "$work"/run/libvirt/run/qemu/*.xml | head -n 1)
id=$(protect zone resolve first)
mkdir -p "$work/bare/root/etc" "$work/bare/vm"
cp "$work/run/libvirt/etc/qemu.conf" "$work/bare/root/etc/"
chmod -R a+rX "$work/bare"

cat >"$work/bare/init.c" <<'INIT'
#include <unistd.h>
int main(void) { write(1, "BARE-INIT-RUNS\n", 15); for (;;) pause(); }
INIT
mkdir "$work/bare/cpio"
gcc -static -O1 -o "$work/bare/cpio/bare-init" "$work/bare/init.c" 2>/dev/null || exit 1
sed -n '/<domain /,/<\/domain>/p' "$status" >"$work/domain.xml"
initrd=$(sed -n 's/.*<initrd>\(.*\)<\/initrd>.*/\1/p' "$work/domain.xml")
cp "$initrd" "$work/bare/initrd"
truncate -s %4 "$work/bare/initrd"
(cd "$work/bare/cpio" && echo bare-init | cpio --quiet -o -H newc) >>"$work/bare/initrd"
chmod 644 "$work/bare/initrd"
vm=$(sed -n "s|.*path='\([^']*\)/console.sock'.*|\1|p" "$work/domain.xml" | head -n 1)
uid=$(sed -n 's/.*<label>+\([0-9]*\):.*/\1/p' "$work/domain.xml" | head -n 1)
sed -i -e "s|$initrd|$work/bare/initrd|; s|$vm/|$work/bare/vm/|g; s|$id|$(cat /proc/sys/kernel/random/uuid)|g" \
	-e 's|\(<cmdline>[^<]*\)|\1 rdinit=/bare-init|' -e "s|<domain \([^>]*\) id='[0-9]*'|<domain \1|; s|pid='[0-9]*'||" "$work/domain.xml"
chown "$uid" "$work/bare/vm"
protect zone destroy --wait first

coproc peer { exec "$bare" "$work/bare/root" "$work/domain.xml" "$work/bare/vm/console.sock" BARE-INIT-RUNS 2>"$work/peer.log"; }
once_bare() { echo >&"${peer[1]}"; read -r -t 150 took <&"${peer[0]}" || { bad "the peer: $(cat "$work/peer.log")"; exit; }; }
once_ours() {
	local begin=${EPOCHREALTIME/[.,]/}
	protect zone launch --name bench --kernel-variant debian --wait >/dev/null || exit
	took=$(awk -v us=$((${EPOCHREALTIME/[.,]/} - begin)) 'BEGIN { printf "%.1f", us / 1000 }')
	protect zone destroy --wait bench
}
once_bare
once_ours
ours=() theirs=() added=()
for _ in $(seq "$pairs"); do
	once_bare
	theirs+=("$took")
	once_ours
	ours+=("$took")
	added+=("$(awk -v a="${ours[-1]}" -v b="${theirs[-1]}" 'BEGIN { printf "%.1f", a - b }')")
	echo "bare ${theirs[-1]} ms, protect ${ours[-1]} ms, added ${added[-1]} ms"
done
echo "median of $pairs pairs: bare $(median "${theirs[@]}") ms, protect $(median "${ours[@]}") ms, added $(median "${added[@]}") ms, ratio $(awk -v a="$(median "${ours[@]}")" -v b="$(median "${theirs[@]}")" 'BEGIN { printf "%.3f", a / b }')"
exec {peer[1]}>&-
