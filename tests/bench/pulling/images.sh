#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes images of Debian packages, as the layer tars a builder would push, and each image's tree as one tar.
#
#   images.sh DIR small|debian|python|big...        DIR/IMAGE/layers/NN-NAME.tar and DIR/IMAGE/merged.tar
#
# Each layer is what one script changed in a chroot over the layers below: an overlayfs upper directory. Times later than $epoch become
# $epoch and nothing of the clock, the network or this machine is kept, so that the same packages give the same layers.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
rigs=$here/../../rigs
suite=bookworm
export SOURCE_DATE_EPOCH=1735689600 LC_ALL=C DEBIAN_FRONTEND=noninteractive

die() { echo "images: $*" >&2; exit 1; }

[ $# -ge 2 ] || die "usage: images.sh DIR IMAGE..."
[ "$(id -u)" = 0 ] || die "only root can mount and chroot"
# The mounts go away with the process, however it ends.
[ -n "${IMAGES_NAMESPACE:-}" ] || IMAGES_NAMESPACE=1 exec unshare -m --propagation private "$0" "$@"
mkdir -p "$1"
dir=$(realpath "$1")
shift

layer() { "$here/layer.py" "$1" "$2.new" && mv "$2.new" "$2"; }

lower='' # the layers so far, newest first, as overlayfs wants them
base() { # the layer under debian, python and big
	local tree=$dir/base
	if [ ! -e "$dir/base.tar" ]; then
		rm -rf "$tree"
		debootstrap --variant=minbase $suite "$tree" >"$dir/base.log" 2>&1 || die "debootstrap failed, see $dir/base.log"
		printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d"
		chmod 755 "$tree/usr/sbin/policy-rc.d"
		forget "$tree"
		layer "$tree" "$dir/base.tar"
	fi
	mkdir -p "$1/layers"
	ln -f "$dir/base.tar" "$1/layers/01-base.tar"
	lower=$tree
}

forget() { # what an image has no use for, and what differs from one day to the next
	rm -rf "$1"/var/cache/apt/*.bin "$1"/var/cache/apt/archives/*.deb "$1"/var/lib/apt/lists/* "$1"/var/cache/ldconfig/aux-cache
	rm -rf "$1"/var/log/*.log "$1"/var/log/apt/* "$1"/var/cache/debconf/*-old "$1"/var/lib/dpkg/*-old "$1"/etc/*- "$1"/tmp/* "$1"/var/tmp/*
	rm -f "$1"/etc/resolv.conf "$1"/etc/hostname "$1"/etc/machine-id
}

step() { # IMAGE-DIR NAME, the script on stdin
	local up=$1/up/$2 mount=$1/mnt log=$1/$2.log failed=0
	mkdir -p "$up/u" "$up/w" "$mount"
	mount -t overlay -o "lowerdir=$lower,upperdir=$up/u,workdir=$up/w,redirect_dir=off,metacopy=off,index=off" none "$mount" ||
		die "overlayfs does not take $up as its upper directory"
	cp -L /etc/resolv.conf "$mount/etc/resolv.conf"
	mount -t proc proc "$mount/proc"
	chroot "$mount" /bin/sh -e >"$log" 2>&1 || failed=1
	umount "$mount/proc"
	[ $failed = 0 ] || die "$2 failed, see $log"
	forget "$mount"
	umount "$mount"
	layer "$up/u" "$1/layers/$2.tar"
	lower=$up/u:$lower
}

merged() { # IMAGE-DIR
	mkdir -p "$1/mnt"
	mount -t overlay -o "ro,lowerdir=$lower" none "$1/mnt"
	layer "$1/mnt" "$1/merged.tar"
	umount "$1/mnt"
	rm -rf "$1/up" "$1/mnt" "$1"/*.log
}

packages() { echo "apt-get -qq update; apt-get -qq install -y --no-install-recommends $*"; }

# A static program with 300 links, data, and a layer that deletes and replaces some of it.
make_small() {
	local work=$1/up link
	mkdir -p "$work"/{1,2,3} "$1/layers"
	for package in busybox-static tzdata ca-certificates; do "$rigs/fetch-deb" $package "$dir/deb/$package"; done
	mkdir -p "$work"/1/{bin,dev,etc,home,proc,root,sys,tmp,var/log}
	cp -p "$dir/deb/busybox-static/bin/busybox" "$work/1/bin/busybox"
	for link in $("$work/1/bin/busybox" --list); do [ "$link" = busybox ] || ln "$work/1/bin/busybox" "$work/1/bin/$link"; done
	chmod 1777 "$work/1/tmp"
	echo 'root:x:0:0:root:/root:/bin/sh' >"$work/1/etc/passwd"
	echo 'root:x:0:' >"$work/1/etc/group"
	cp -a "$dir"/deb/tzdata/. "$dir"/deb/ca-certificates/. "$work/2/"
	mkdir -p "$work"/3/{etc,app,usr/share/zoneinfo}
	printf 'root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000::/app:/bin/sh\n' >"$work/3/etc/passwd"
	printf '#!/bin/sh\necho hello\n' >"$work/3/app/run"
	chmod 755 "$work/3/app/run"
	chown -R 1000:1000 "$work/3/app"
	for gone in right posix; do mknod "$work/3/usr/share/zoneinfo/$gone" c 0 0; done
	layer "$work/1" "$1/layers/01-busybox.tar"
	layer "$work/2" "$1/layers/02-data.tar"
	layer "$work/3" "$1/layers/03-app.tar"
	lower=$work/3:$work/2:$work/1
}

# A distribution's base, one program, and a layer that slims it.
make_debian() {
	base "$1"
	step "$1" 02-curl <<<"$(packages ca-certificates curl)"
	step "$1" 03-slim <<-'E'
	rm -rf /usr/share/doc /usr/share/man /usr/share/locale/*
	mkdir -p /usr/share/doc
	echo slim >/usr/share/doc/README
	useradd -m app
	E
}

# An interpreter, numeric libraries, deletions all over them, and an owner changed on many files.
make_python() {
	base "$1"
	step "$1" 02-python <<<"$(packages ca-certificates python3 python3-venv)"
	step "$1" 03-numeric <<<"$(packages python3-numpy python3-pandas python3-pil python3-sqlalchemy python3-lxml python3-cryptography)"
	step "$1" 04-prune <<-'E'
	find /usr/lib/python3 -name tests -type d -prune -exec rm -rf {} +
	rm -rf /usr/share/doc/python3*
	E
	step "$1" 05-app <<-'E'
	python3 -m venv --without-pip /opt/app
	useradd -m app
	chown -R app /opt/app /usr/lib/python3/dist-packages/pandas
	E
}

# A gigabyte in seven layers, most of it small files: compilers, headers, node, perl, and deletions, replacements and mode changes.
make_big() {
	base "$1"
	step "$1" 02-compilers <<<"$(packages gcc g++ make)"
	step "$1" 03-headers <<<"$(packages linux-headers-amd64 linux-source libboost1.81-dev)"
	step "$1" 04-node <<<"$(packages nodejs npm)"
	step "$1" 05-perl <<<"$(packages perl perl-doc libwww-perl libmoose-perl libdatetime-perl python3 python3-django python3-numpy)"
	step "$1" 06-replace <<-'E'
	rm -rf /usr/src/linux-source-*.tar.xz /usr/share/perl/*/pod /usr/share/nodejs/npm/docs /usr/share/doc
	mkdir -p /usr/share/doc
	echo none >/usr/share/doc/README
	chmod -R a-w /usr/share/nodejs/npm
	touch /usr/include/stdio.h
	E
	step "$1" 07-app <<-'E'
	mkdir -p /srv/app
	cp -r /usr/share/nodejs/webpack /srv/app/
	useradd -m app
	chown -R app:app /srv/app
	E
}

for image; do
	[ ! -e "$dir/$image/merged.tar" ] || continue
	rm -rf "${dir:?}/$image"
	mkdir -p "$dir/$image"
	"make_$image" "$dir/$image"
	merged "$dir/$image"
done
