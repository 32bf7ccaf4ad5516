#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# protect-pack-kernel on Debian's kernel, held against skopeo, cpio, unsquashfs and modprobe.
set -eu
pack=$BUILD_DIR/tools/protect-pack-kernel
rigs=$SRC_DIR/tests/rigs
work=$(mktemp -d "${TMPDIR:-/tmp}/pack-kernel.XXXXXX")
trap 'rm -rf "$work"' EXIT
export TMPDIR="$work/tmp"
mkdir "$TMPDIR"
PATH=$PATH:/usr/sbin:/sbin

fail() { echo "FAIL: $*"; exit 1; }
same() { [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"; }
no_leftovers() { [ -z "$(ls -A "$TMPDIR")" ] || fail "left behind after $1: $(ls -A "$TMPDIR")"; }

# refuses MESSAGE ARG... : one sentence that holds MESSAGE, a failing status, nothing left
refuses() {
	message=$1
	shift
	if "$pack" "$@" >"$work/out" 2>"$work/err"; then fail "accepted: $*"; fi
	same "lines of the error of $*" 1 "$(wc -l <"$work/err")"
	grep -qF -e "$message" "$work/err" || fail "$* said: $(cat "$work/err")"
	no_leftovers "$*"
}

root=$("$rigs/kernel" root)
version=$("$rigs/kernel" version)

# The same input gives the same digest; a name of its own changes it.
first=$("$pack" --root "$root" --output "$work/a")
second=$("$pack" --root "$root" --output "$work/b")
no_leftovers "a run that worked"
same "digest of a second run" "${first##* }" "${second##* }"
tag=${first%% *}
tag=${tag##*:}

# skopeo reads it and pushes it whole.
skopeo copy -q "oci:$work/a:$tag" "dir:$work/dir"
same "digest" "${first##* }" "sha256:$(sha256sum "$work/dir/manifest.json" | cut -d' ' -f1)"
same "annotations" "zone $tag 1" "$(jq -r '.annotations | [."dev.edera.kernel.flavor", ."dev.edera.kernel.version", ."dev.edera.kernel.format"] | join(" ")' "$work/dir/manifest.json")"
same "annotation nobody asked for" null "$(jq '.annotations."dev.edera.kernel.variant"' "$work/dir/manifest.json")"
same "diff id" "$(jq -r '.rootfs.diff_ids[0]' "$work/dir/$(jq -r '.config.digest' "$work/dir/manifest.json" | cut -d: -f2)")" \
	"sha256:$(gzip -dc "$work/dir/$(jq -r '.layers[0].digest' "$work/dir/manifest.json" | cut -d: -f2)" | sha256sum | cut -d' ' -f1)"
mkdir "$work/layer"
tar -C "$work/layer" -xzf "$work/dir/$(jq -r '.layers[0].digest' "$work/dir/manifest.json" | cut -d: -f2)"
cd "$work/layer/kernel"
same "files" "addons.squashfs config.gz early.cpio image metadata" "$(ls | tr '\n' ' ' | sed 's/ $//')"

# The kernel is an ELF file, and the one that was asked for.
same "magic" 7f454c46 "$(od -An -tx1 -N4 image | tr -d ' \n')"
grep -aqF "Linux version $version " image || fail "image is not $version"
. ./metadata
same "KERNEL_UNAME_R" "$version" "$KERNEL_UNAME_R"
same "KERNEL_VERSION" "$tag" "$KERNEL_VERSION"
same "KERNEL_FLAVOR" zone "$KERNEL_FLAVOR"
same "KERNEL_CONFIG" "sha256:$(sha256sum <"$root/boot/config-$version" | cut -d' ' -f1)" "$KERNEL_CONFIG"
gzip -dc config.gz | cmp - "$root/boot/config-$version"

# All modules are in the addons, with the indexes that modprobe wants.
same "modules" "$(find "$root/lib/modules/$version" -name '*.ko*' | wc -l)" "$(unsquashfs -lc addons.squashfs | grep -c '\.ko')"
unsquashfs -q -n -d "$work/addons" addons.squashfs >/dev/null
[ -f "$work/addons/modules/modules.dep.bin" ] || fail "no modules.dep.bin in the addons"

# Early modules: modprobe agrees with the order, and what is listed is there.
mkdir -p "$work/mod/lib/modules" "$work/early"
ln -s "$work/addons/modules" "$work/mod/lib/modules/$version"
(cd "$work/early" && cpio --quiet -id <"$work/layer/kernel/early.cpio")
list=$work/early/edera/early/modules.list
while read -r file; do
	[ -f "$work/early/edera/early/$file" ] || fail "$file is listed and not there"
	[ "$(head -c 4 "$work/early/edera/early/$file" | od -An -tx1 | tr -d ' \n')" = 7f454c46 ] || fail "$file is not a plain module"
	modprobe -d "$work/mod" -S "$version" --show-depends "${file%.ko}" | sed -n 's/^insmod .*\/\([^ ]*\).*/\1/p' | while read -r needed; do
		head -n "$(grep -nxF "$file" "$list" | cut -d: -f1)" "$list" | grep -qxF "$needed" || fail "$file is loaded before $needed"
	done
done <"$list"
for module in virtio_pci virtio_console virtio_blk virtio_scsi sd_mod squashfs overlay; do
	grep -qx "$module.ko" "$list" || grep -q "/$module.ko" "$root/lib/modules/$version/modules.builtin" || fail "$module is not among the early modules"
done

# A name of its own, a tag, a compressed module, and the node's own kernel.
cp -a "$root" "$work/root"
find "$work/root/lib/modules" -name 'virtio_pci.ko' -exec xz {} + -o -name squashfs.ko -exec zstd -q --rm {} +
echo "an initrd" >"$work/initrd"
third=$("$pack" --root "$work/root" --output "$work/c" --variant=mine --flavor other --tag t1 --install="$work/data" --initrd "$work/initrd" 2>"$work/err")
same "messages" "" "$(cat "$work/err")"
case $third in "oci:$work/c:t1 sha256:"*) ;; *) fail "printed: $third" ;; esac
same "variant" mine "$(skopeo inspect --raw "oci:$work/c:t1" | jq -r '.annotations."dev.edera.kernel.variant"')"
same "installed" "addons.squashfs initrd kernel" "$(ls "$work/data/zone" | tr '\n' ' ' | sed 's/ $//')"
same "initrd's first part" "an initrd" "$(head -n 1 "$work/data/zone/initrd")"
rm -rf "$work/early"
mkdir "$work/early"
(cd "$work/early" && tail -c +13 "$work/data/zone/initrd" | cpio --quiet -id) # 10 bytes, padded to 12
for module in virtio_pci squashfs; do
	same "decompressed $module" "$(find "$root/lib/modules" -name "$module.ko" -exec sha256sum {} + | cut -d' ' -f1)" \
		"$(sha256sum "$work/early/edera/early/$module.ko" | cut -d' ' -f1)"
done
no_leftovers "--install"

# What it refuses.
mkdir -p "$work/empty" "$work/two/lib/modules/1.0" "$work/two/lib/modules/2.0"
echo "text" >"$work/text"
refuses "nothing to make"
refuses "unknown argument '--nonsense'" --nonsense
refuses "--tag needs a value" --tag
refuses "--variant 'a/b' may hold only" --output "$work/x" --variant a/b
refuses "--tag '\"' may hold only" --output "$work/x" --tag '"'
refuses "no lib/modules in $work/empty" --root "$work/empty" --output "$work/x"
refuses "name one with --version: 1.0 2.0" --root "$work/two" --output "$work/x"
refuses "no kernel: neither" --root "$work/two" --version 1.0 --output "$work/x"
refuses "no modules in" --root "$work/two" --version 3.0 --output "$work/x"
refuses "is not a kernel's name" --root "$work/two" --version ../etc --output "$work/x"
refuses "cannot unpack $work/text" --deb "$work/text" --output "$work/x"
refuses "is not an empty directory" --root "$root" --output "$work/a"
refuses "no zone initrd at /nowhere" --root "$root" --install="$work/data" --initrd /nowhere
[ ! -e "$work/x" ] || fail "a failed run left $work/x"
