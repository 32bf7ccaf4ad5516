#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# quickstart twice and its undoing, on a throw-away layer over this machine's file system and in process and mount namespaces of its own.
set -u
[ "$(id -u)" = 0 ] || { echo "zones need root"; exit 77; }

if [ "${1:-}" != inside ]; then
	layers=$(mktemp -d /var/tmp/pq.XXXXXX)
	mkdir "$layers/usr" "$layers/etc" "$layers/var"
	unshare --mount --propagation private sh -c 'mkdir "$1/try" "$1/work" && mount -t overlay overlay -o lowerdir=/etc,upperdir="$1/try",workdir="$1/work" /etc' try "$layers" 2>/dev/null || {
		rm -rf "$layers"
		echo "overlayfs cannot be mounted over /etc here"
		exit 77
	}
	rm -rf "$layers/try" "$layers/work"
	trap 'rm -rf "$layers"' EXIT
	unshare --mount --pid --fork --kill-child --mount-proc --propagation private "$0" inside "$layers"
	exit $?
fi

layers=$2
for dir in usr etc var; do
	mkdir -p "$layers/$dir/up" "$layers/$dir/work"
done
mount -t tmpfs tmpfs /run || exit 1
# Layers under /var must not be looked at through the layer over it.
mkdir /run/layers && mount --bind "$layers" /run/layers || exit 1
for dir in usr etc var; do
	mount -t overlay overlay -o "lowerdir=/$dir,upperdir=/run/layers/$dir/up,workdir=/run/layers/$dir/work" "/$dir" || exit 1
done
rm -rf /var/lib/edera
[ "${PROTECT_TEST_CACHE:-}" = "" ] || { mkdir -p /var/lib/edera/quickstart/cache; cp -a "$PROTECT_TEST_CACHE"/linux-image-* /var/lib/edera/quickstart/cache/ 2>/dev/null; }

failures=0
ok() { printf 'ok   %s\n' "$*"; }
bad() { printf 'FAIL %s\n' "$*"; failures=$((failures + 1)); }
cd "$SRC_DIR" || exit 1

find /usr /etc -xdev | sort >/run/before
for round in first second; do
	if ./quickstart >/run/out 2>&1; then ok "the $round run"; else bad "the $round run: $(cat /run/out; tail -n 60 /var/log/edera-quickstart.log)"; break; fi
	grep -q "^    workload .* $(sed -n 's/^    zone *\([^ ]*\).*/\1/p' /run/out) " /run/out && ok "it shows the workload's kernel" || bad "what ran where is not shown: $(cat /run/out)"
done
cat /run/out
[ "$(grep -c '^debian = ' /var/lib/edera/protect/daemon.toml)" = 1 ] && ok "one variant in daemon.toml" || bad "daemon.toml: $(cat /var/lib/edera/protect/daemon.toml)"
sed -n 's/^    \(protect .*[a-z]\)\( *#.*\)\{0,1\}$/\1/p' /run/out | grep -v -e ' -t -a ' -e '^protect zone destroy' | while IFS= read -r command; do
	timeout 150 bash -c "$command" >/run/said 2>&1 </dev/null && echo "ok   suggested: $command" || { echo "FAIL suggested: $command: $(tail -n 3 /run/said)"; echo x >>/run/failed; }
done
[ ! -e /run/failed ] || failures=$((failures + $(wc -l </run/failed)))

if ./quickstart --undo >/run/out 2>&1; then bad "undo with another zone running is not refused"; else ok "undo is refused while another zone runs: $(tail -n 1 /run/out)"; fi
protect zone destroy second # one that is going does not stop it
if ./quickstart --undo >/run/out 2>&1; then ok "undo"; else bad "undo: $(cat /run/out; tail -n 20 /var/log/edera-quickstart.log)"; fi
find /usr /etc -xdev | sort >/run/after
added=$(comm -13 /run/before /run/after | grep -vE '^/etc/(passwd|group|shadow|gshadow|subuid|subgid|ld\.so\.cache)' | head -n 20)
[ -z "$added" ] && ok "nothing new is left in /usr and /etc" || bad "left behind: $added"
[ ! -e /var/lib/edera ] && ok "nothing is left in /var/lib/edera" || bad "left behind: $(find /var/lib/edera | head)"
[ -z "$(pgrep -f 'protect-daemon|qemu-system|docker-registry')" ] && ok "no process is left" || bad "still running: $(pgrep -af 'protect-daemon|qemu-system|docker-registry')"
[ $failures -eq 0 ] || { echo "$failures failed"; exit 1; }
