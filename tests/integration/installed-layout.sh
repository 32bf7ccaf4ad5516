#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `make install` lays where, into a staging directory as a package's build does it, and that `make uninstall` takes it back.
set -eu
stage=$(mktemp -d "${TMPDIR:-/tmp}/layout.XXXXXX")
trap 'rm -rf "$stage"' EXIT
fail() { echo "FAIL: $*"; exit 1; }

make -s -C "$BUILD_DIR" install DESTDIR="$stage" >"$stage/log" 2>&1 || { tail -n 20 "$stage/log"; fail "make install DESTDIR=..."; }
rm "$stage/log"
top=$stage$PREFIX
[ "$(find "$stage" -type f | wc -l)" = "$(find "$top" -type f | wc -l)" ] || fail "files outside the prefix: $(find "$stage" -type f ! -path "$top/*")"

for file in sbin/protect sbin/protect-daemon sbin/protect-ctl bin/protect-oci-provider bin/protect-pack-kernel lib/edera/protect/zone/initrd \
	lib/edera/plugins/kvm.so lib/edera/plugins/squashfs.so lib/edera/plugins/config.so lib/edera/plugins/registry.so \
	include/edera/plugin.h lib/pkgconfig/edera-plugin.pc lib/systemd/system/protect-daemon.service lib/sysusers.d/protect.conf \
	lib/tmpfiles.d/protect.conf share/man/man1/protect.1 share/man/man8/protect-daemon.8 share/man/man5/daemon.toml.5; do
	[ -e "$top/$file" ] || fail "$file is not installed"
done
[ -z "$(find "$stage" -name '*.la' -o -name '*.a')" ] || fail "libtool's files are installed: $(find "$stage" -name '*.la' -o -name '*.a')"
[ "$(readlink "$top/sbin/protect-ctl")" = protect ] || fail "protect-ctl is no link to protect"
[ -z "$(find "$stage" -perm -o+w ! -type l)" ] || fail "writable by everybody: $(find "$stage" -perm -o+w ! -type l)"
grep -qF "ExecStart=$PREFIX/sbin/protect-daemon" "$top/lib/systemd/system/protect-daemon.service" || fail "the unit starts something else"
for program in "$top"/sbin/* "$top"/bin/*; do
	! strings "$program" 2>/dev/null | grep -qF "$stage" || fail "$program knows the staging directory"
done
size=$(stat -c %s "$top/lib/edera/protect/zone/initrd")
[ "$size" -lt 6000000 ] || fail "the zone initrd has $size bytes"

make -s -C "$BUILD_DIR" uninstall DESTDIR="$stage" >/dev/null 2>&1 || fail "make uninstall"
[ -z "$(find "$stage" ! -type d)" ] || fail "left by make uninstall: $(find "$stage" ! -type d)"
