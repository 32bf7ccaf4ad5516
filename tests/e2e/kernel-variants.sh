#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The user's guide to kernel variants followed line by line, with a registry on loopback in the place of ghcr.io and docker.io.
. "$SRC_DIR/tests/e2e/lib.bash"
registry_start
oci=$("$SRC_DIR/tests/rigs/kernel" oci)
root=$("$SRC_DIR/tests/rigs/kernel" root)
guest=$("$SRC_DIR/tests/rigs/kernel" version)

# Ten minutes with what ships: the first start writes daemon.toml, and its variants are listed.
config=$data/daemon.toml
daemon_start || exit
[ -s "$config" ] && ok "the first start writes daemon.toml" || bad "the first start writes no $config"
same "the table of variants" "┌─────────┬───────────────────────────────────────────────────────────────┐
│ variant ┆ image                                                         │
╞═════════╪═══════════════════════════════════════════════════════════════╡
│ nvidia  ┆ ghcr.io/edera-dev/zone-nvidiagpu-kernel:6.18-nvidia-610.43.02 │
└─────────┴───────────────────────────────────────────────────────────────┘" "$(protect image list-kernel-variants)"
reference=ghcr.io/edera-dev/zone-nvidiagpu-kernel:6.18-nvidia-610.43.02
for format in json json-pretty; do
	same "as $format" "nvidia $reference" "$(protect image list-kernel-variants --output $format | jq -r '.[] | [.name // .variant, .image] | join(" ")')"
done
same "json is one line" 1 "$(protect image list-kernel-variants --output json | wc -l)"
same "json-pretty is not" 1 "$(($(protect image list-kernel-variants --output json-pretty | wc -l) > 1))"
same "as jsonl" "$reference" "$(protect image list-kernel-variants --output jsonl | jq -r .image)"
same "as yaml" "$reference" "$(protect image list-kernel-variants --output yaml | sed -n 's/.*image: *//p' | tr -d "\"'")"
contains "as simple" "nvidia" "$(protect image list-kernel-variants --output simple)"
contains "as simple, with the image" "$reference" "$(protect image list-kernel-variants --output simple)"
contains "as key-value" "image=\"$reference\"" "$(protect image list-kernel-variants --output key-value)"
refused "a format that does not exist" "xml" protect image list-kernel-variants --output xml

# A variant of one's own, and one overridden; both come from the local registry.
"$PACK_KERNEL" --root "$root" --output "$work/mine" --flavor mine --tag 7.1.20 >/dev/null || bad "packing a second kernel"
push "$work/mine:7.1.20" myorg/zone-mykernel:7.1.20
push "$oci:debian" edera-dev/zone-nvidiagpu-kernel:6.18.38-nvidia-610.43.02
digest() { skopeo inspect --tls-verify=false "docker://$registry/$1" | jq -r .Digest; }
nvidia=$(digest edera-dev/zone-nvidiagpu-kernel:6.18.38-nvidia-610.43.02)
mine=$(digest myorg/zone-mykernel:7.1.20)
[ -n "$mine" ] && [ "$mine" != "$nvidia" ] || bad "the two kernels have different digests: $mine $nvidia"
sed -i -e "s|^nvidia = .*|nvidia = \"$registry/edera-dev/zone-nvidiagpu-kernel:6.18.38-nvidia-610.43.02\"|" "$config"
sed -i -e "/^nvidia = /a mykernel = \"$registry/myorg/zone-mykernel:7.1.20\"" "$config"
if grep -q '^# *insecure-registries' "$config"; then sed -i "s|^# *insecure-registries.*|insecure-registries = [\"$registry\"]|" "$config"
elif grep -q '^insecure-registries' "$config"; then sed -i "s|^insecure-registries.*|insecure-registries = [\"$registry\"]|" "$config"
else sed -i "/^\[oci\]/a insecure-registries = [\"$registry\"]" "$config"
fi
works "the file is accepted" protect-daemon --check-config "$config"
daemon_stop
daemon_start || exit
same "after a restart both are listed" "mykernel nvidia " "$(protect image list-kernel-variants --output jsonl | jq -r '.name // .variant' | sort | tr '\n' ' ')"

kernel_of() { protect zone list --output json "$1" | jq -r '.[0].spec.kernel.digest'; }
works "a zone with the variant nvidia" timeout 150 protect zone launch --name zone-gpu --kernel-variant nvidia --wait
same "runs the kernel of that image" "$nvidia" "$(kernel_of zone-gpu)"
same "and not the host's" "$guest" "$(in_zone zone-gpu uname -r)"
works "destroyed" protect zone destroy zone-gpu

works "a zone with mykernel" timeout 150 protect zone launch --name zone-mine --kernel-variant mykernel --wait
same "runs the kernel of mykernel" "$mine" "$(kernel_of zone-mine)"
works "destroyed" protect zone destroy zone-mine

# The deprecated way, and which wins.
timeout 150 protect zone launch --name zone-test --kernel "$registry/edera-dev/zone-nvidiagpu-kernel:6.18.38-nvidia-610.43.02" --wait >"$work/out" 2>&1 &&
	ok "--kernel still works" || bad "--kernel: $(cat "$work/out")"
contains "--kernel warns" deprecated "$(cat "$work/out")"
same "--kernel's image" "$nvidia" "$(kernel_of zone-test)"
protect zone destroy zone-test
timeout 150 protect zone launch --name both --kernel "$registry/edera-dev/zone-nvidiagpu-kernel:6.18.38-nvidia-610.43.02" --kernel-variant mykernel --wait >/dev/null 2>&1
same "--kernel-variant wins over --kernel" "$mine" "$(kernel_of both)"
protect zone destroy both
timeout 150 protect zone launch --name annotated --annotation dev.edera/kernel-variant=mykernel \
	--annotation "dev.edera/kernel=$registry/edera-dev/zone-nvidiagpu-kernel:6.18.38-nvidia-610.43.02" --wait >/dev/null 2>&1
same "dev.edera/kernel-variant wins over dev.edera/kernel" "$guest" "$(in_zone annotated uname -r)"
protect zone destroy --wait annotated

refused "an unknown variant names those that exist" "mykernel.*nvidia|nvidia.*mykernel" protect zone launch --name x --kernel-variant nonesuch --wait
same "and leaves no zone" "" "$(zone_names)"

# SIGHUP is as good as a restart; a broken file changes nothing.
sed -i -e "/^nvidia = /a third = \"$registry/zone-kernel:debian\"" "$config"
kill -HUP "$daemon"
works "SIGHUP brings a new variant" wait_until 10 eval 'protect image list-kernel-variants --output jsonl | grep -q third'
cp "$config" "$work/good"
echo 'this is no toml' >>"$config"
kill -HUP "$daemon"
sleep 1
works "after SIGHUP with a broken file the daemon lives" answers
contains "and knows what it knew" third "$(protect image list-kernel-variants)"
cp "$work/good" "$config"

# Variants that a registry's own annotations name.
cat >>"$config" <<CONFIG
[plugin.registry]
repositories = ["$registry/zone-kernel"]
CONFIG
daemon_stop
daemon_start || exit
contains "the registry source offers what the annotations name" "debian" "$(protect image list-kernel-variants --output simple)"
contains "with --verbose, where from" "registry" "$(protect image list-kernel-variants --verbose)"
works "and a zone boots it" timeout 150 protect zone launch --name registry --kernel-variant debian --wait
same "pinned to its digest" "$(digest zone-kernel:debian)" "$(kernel_of registry)"
protect zone destroy registry
"$SRC_DIR/tests/rigs/registry" stop "$work/registry"
daemon_stop
daemon_start || exit
contains "without the registry the variant is still known" "debian" "$(protect image list-kernel-variants --output simple)"
works "and boots out of the cache" timeout 150 protect zone launch --name offline --kernel-variant debian --wait
