#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mksquashfs.sh DIR: builds the mksquashfs of Debian's development suite as DIR/mksquashfs. Nothing is installed, apt's own lists stay as they are.
set -eu
dir=$(realpath "$1")
work=$dir/build
rm -rf "$work"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
echo 'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian sid main' >"$work/sources.list"
cd "$work"
apt() {
	apt-get -q -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$work/lists" \
		-o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root "$@"
}
apt update
apt source --download-only squashfs-tools
mkdir source
tar -xf squashfs-tools_*.orig.tar.* -C source --strip-components 1
make -C source/squashfs-tools ZSTD_SUPPORT=1 mksquashfs
cp source/squashfs-tools/mksquashfs "$dir/mksquashfs"
rm -rf "$work"
