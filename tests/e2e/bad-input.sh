#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Mistakes people make: each is refused at once, with a sentence that says what is wrong.
. "$SRC_DIR/tests/e2e/lib.bash"
registry_start

# Configuration. --check-config and a start say the same.
broken() { # WHAT WORDS TEXT: file, line and reason
	printf '%s\n' "$3" >"$work/broken.toml"
	refused "check-config: $1" "$2" protect-daemon --check-config "$work/broken.toml"
	grep -q "broken.toml" <<<"$(protect-daemon --check-config "$work/broken.toml" 2>&1)" || bad "$1: the file is not named"
	refused "start: $1" "$2" protect-daemon --config "$work/broken.toml" --data-dir "$work/d2" --listen "unix://$work/s2"
}
broken "no TOML" "broken.toml:2" '[zone]
this is no toml'
broken "an unknown key" "2.*memory-limit-mb|memory-limit-mb.*2" '[zone]
memory-limit-mbb = 100'
broken "an unknown section" "zonee" '[zonee]
x = 1'
broken "a wrong type" "memory-limit-mb" '[zone]
memory-limit-mb = "much"'
broken "out of range" "memory-limit-mb" '[zone]
memory-limit-mb = -5'
broken "a variant that is no reference" "3.*|bad" '[zone.kernel-variants]
good = "ghcr.io/a/b:1"
bad = "not a reference//"'
broken "a hypervisor that is not there" "hyper-nonesuch" '[plugins]
hypervisor = "hyper-nonesuch"'
refused "a configuration that is not there" "nowhere.toml" protect-daemon --check-config "$work/nowhere.toml"

config_write "missing = \"$registry/nothere:1\"
nokernel = \"$registry/busybox:latest\"
unreachable = \"127.0.0.1:1/zone-kernel:1\"
wrong = \"$registry/zone-kernel@sha256:0000000000000000000000000000000000000000000000000000000000000000\""
daemon_start || exit

launch_refused() { refused "$1" "$2" protect zone launch --name bad --wait "${@:3}"; }
launch_refused "an unknown variant" "debian" --kernel-variant nonesuch
launch_refused "a bad reference" "reference|not a reference" --kernel 'UPPER//case'
launch_refused "an image that the registry does not have" "nothere" --kernel-variant missing
launch_refused "an unreachable registry" "^protect: cannot pull '127.0.0.1:1/" --kernel-variant unreachable
launch_refused "a digest that is not there" "0000" --kernel-variant wrong
launch_refused "a kernel image without a kernel" "kernel/image" --kernel-variant nokernel
same "no zone is left by any of them" "" "$(protect zone list --output json | jq -r '.[] | select(.status.state != "ZONE_STATE_FAILED") | .spec.name')"
for id in $(protect zone list --output json | jq -r '.[].id'); do protect zone destroy "$id" >/dev/null; done

refused "pull of a bad reference" "reference" protect image pull 'a b c'
refused "pull from an unreachable registry" "^protect: cannot pull '127.0.0.1:1/" protect image pull 127.0.0.1:1/a/b:1
refused "removal of what is not there" "sha256:1111" protect image remove sha256:1111111111111111111111111111111111111111111111111111111111111111
refused "removal of what is no digest" "digest|image" protect image remove zzz
refused "an unknown command" "frobnicate" protect frobnicate
refused "an unknown option" "frobnicate" protect zone list --frobnicate
refused "a launch with a number that is none" "abc" protect zone launch --name n --target-memory abc
refused "too little memory for the kernel" "128 MiB or more" protect zone launch --name tiny --kernel-variant debian --target-memory 64 --wait
refused "more memory than there is" "memory" protect zone launch --name n --kernel-variant debian --max-memory 99999999 --target-memory 99999999 --wait
refused "a zone name that cannot be one" "name" protect zone launch --name "$(printf 'x%.0s' $(seq 300))" --kernel-variant debian --wait
refused "no daemon" "daemon" env PROTECT_CONNECTION=unix:///nonexistent/socket protect zone list

# A blob whose bytes are not what its digest says.
mkdir -p "$work/tampered"
cp -r "$work/busybox/." "$work/tampered"
push "$work/tampered:latest" tampered:latest
blob=$(find "$work/registry/storage" -path '*blobs*' -name data -size +100k -print0 | xargs -0 ls -S | tail -n 1)
layer=$(skopeo inspect --tls-verify=false "docker://$registry/tampered:latest" | jq -r '.Layers[0]' | cut -d: -f2)
blob=$work/registry/storage/docker/registry/v2/blobs/sha256/${layer:0:2}/$layer/data
cp "$blob" "$work/blob"
printf 'XXXX' | dd of="$blob" bs=1 seek=5000 conv=notrunc status=none
refused "a layer with wrong bytes" "digest|sha256" protect image pull "$registry/tampered:latest"
cp "$work/blob" "$blob"
works "and the right ones are taken afterwards" protect image pull "$registry/tampered:latest"

# Plugins.
mkdir -p "$PREFIX/check"
echo "just text" >"$PREFIX/check/text.so"
refused "a text file as a plugin" "ELF|not a shared object|plugin" protect plugin check "$PREFIX/check/text.so"
refused "a library that is no plugin" "descriptor|edera_plugin|symbol" protect plugin check "$(ldconfig -p | sed -n 's/.*=> \(.*libz\.so\.1\)$/\1/p' | head -n 1)"
refused "no file at all" "nowhere.so" protect plugin check "$PREFIX/check/nowhere.so"
rm -rf "$PREFIX/check"

# Zones.
works "a zone" launch one
refused "its name again" "one" protect zone launch --name one --kernel-variant debian --wait
works "destroyed" protect zone destroy one
refused "exec in a zone that is gone" "one" protect zone exec one true
works "another" launch two
kill -9 $(machines)
refused "exec in a zone that died" "zone|two" protect zone exec two true
works "is not called ready" wait_until 10 eval '[ "$(zone_state two)" != ZONE_STATE_READY ]'
contains "says why in the list" "FAILED" "$(zone_state two)"
works "its name is free for another" launch two
works "the daemon has lived through all of it" answers
