#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The cache as people keep it: list, remove and prune, with what is in use; on another file system, behind a symlink, and on a full disk.
. "$SRC_DIR/tests/rigs/sim-daemon.bash"

# The cache is a symlink to another file system.
mkdir "$work/elsewhere"
mount -t tmpfs -o size=24m,mode=755 tmpfs "$work/elsewhere" || { rm -rf "$work"; trap - EXIT; echo "no tmpfs can be mounted here"; exit 77; }
ln -s "$work/elsewhere" "$work/data/cache"
cat >>"$work/daemon.toml" <<CONFIG
[zone.kernel-variants]
ordinary = "example.com/kernel:1"
CONFIG
start_daemon || exit

# Images that differ in one file; the tag is their name.
"$SRC_DIR/tests/rigs/busybox-image" "$work/image" one || exit 1
make_image() { # TAG BYTES
	mkdir "$work/add"
	head -c "$2" /dev/urandom >"$work/add/data"
	umoci new --image "$work/image:$1" && umoci insert --image "$work/image:$1" "$work/add" /data
	rm -r "$work/add"
} >/dev/null 2>&1
for n in two three four; do make_image $n 300000; done
make_image huge 60000000
chmod -R a+rX "$work/image"
name() { echo "oci:$work/image:$1"; }
declare -A digest
for n in one two three four; do
	digest[$n]=$(protect image pull "$(name $n)" 2>/dev/null) || bad "pull $n"
	sleep 1.1 # creation is kept in seconds
done
listed() { protect image list --output json | jq -r '[.[].names[0] // "" | split(":") | last] | sort | join(" ")'; }
same "all are there" "four one three two" "$(listed)"
same "in the other file system" 4 "$(find "$work/elsewhere/images" -name '*.squashfs' -prune | wc -l)"

protect zone launch -n web --wait >/dev/null || bad "launch"
protect workload launch --zone web --name db "$(name one)" sleep 1000 >/dev/null || bad "a workload"

same "a workload by the digest of its image" hi "$(protect workload launch --zone web --name bydigest -a "${digest[one]}" echo hi 2>/dev/null </dev/null)"
protect workload destroy bydigest >/dev/null || bad "destroy it"
has "a kernel by a digest that is not there" "a digest alone names no registry" "$(protect zone launch -n other --kernel "sha256:$(printf '0%.0s' $(seq 64))" 2>&1)"

# list, in every format
table=$(protect image list)
for word in digest names format size age "in use" "${digest[one]:0:19}" "$(name one)" squashfs KiB second yes no; do has "the table has $word" "$word" "$table"; done
same "json: who uses it" "true workload db in the zone web" "$(protect image list --output json | jq -r --arg d "${digest[one]}" '.[] | select(.digest == $d) | "\(.inUse) \(.usedBy[0])"')"
same "json: or nobody" "false null" "$(protect image list --output json | jq -r --arg d "${digest[two]}" '.[] | select(.digest == $d) | "\(.inUse) \(.usedBy)"')"
same "json: digest, names, bytes and age of all" 4 "$(protect image list --output json-pretty | jq '[.[] | select(.digest and .names[0] and (.bytes | tonumber) > 100000 and (now - (.created | tonumber)) < 100)] | length')"
same "jsonl" "$(protect image list --output json | jq -c '.[]')" "$(protect image list --output jsonl)"
same "yaml" 4 "$(protect image list --output yaml | grep -c 'inUse: \(true\|false\)')"
has "key-value" "digest=${digest[two]}" "$(protect image list --output key-value | tr -d '"' | sed 's/: /=/')"
same "simple" "squashfs no $(name two)" "$(protect image list --output simple | grep "${digest[two]}" | awk '{ print $2, $5, $6 }')"
same "selected" "$(name one)" "$(protect image list --selector in_use=true --output json | jq -r '.[].names[0]')"

# remove
has "what is in use stays, and one sees for whom" "(squashfs) is in use by the workload db in the zone web; destroy it first" "$(protect image remove "$(name one)" 2>&1)"
out=$(protect image remove "${digest[one]}" "${digest[two]:7:8}" nonesuch "$(name three)" 2>"$work/err")
same "of several the others go" 1 $?
same "and are printed" "${digest[two]} ${digest[three]}" "$(echo $out)"
same "a sentence for each that did not" 2 "$(grep -c '^protect: ' "$work/err")"
same "the rest is there" "four one" "$(listed)"
has "a beginning that is too short" "six digits or more" "$(protect image remove "${digest[four]:7:4}" 2>&1)"
protect image remove "${digest[four]}" >/dev/null || bad "remove by digest"

# completion
protect image pull --format tar "$(name one)" >/dev/null 2>&1 || bad "pull as tar"
same "names in two formats are offered once" 1 "$(protect __complete -- image remove "$(name one)" | wc -l)"
same "with --variant no images" "" "$(protect __complete -- image pull --variant oci:)"
has "but kernel variants" "$(protect image list-kernel-variants --output simple | head -n 1 | cut -f 1)" "$(protect __complete -- image pull --variant '')"
out=$(protect image remove "$(name one)" 2>"$work/err")
has "which format stays is said" "(squashfs) is in use" "$(cat "$work/err")"
protect image remove --format tar "$(name one)" >/dev/null 2>&1

# prune
for n in two three four; do protect image pull "$(name $n)" >/dev/null 2>&1 || bad "pull $n again"; sleep 1.1; done
prune() { protect image prune "$@" 2>"$work/err" | wc -l; }
same "what has a name stays" 0 "$(prune)"
same "without a trace of doing" "0 images removed, 0 B freed" "$(cat "$work/err")"
same "a dry run" 3 "$(prune --all --dry-run)"
has "says what it would free" "3 images would be removed, " "$(cat "$work/err")"
same "and frees nothing" "four one three two" "$(listed)"
same "younger than an age" 0 "$(prune --all --keep 1h -n)"
same "the newest two" 1 "$(prune --all --keep 2 -n)"
same "by name" 2 "$(prune --all --keep "$(name two)" -n)"
same "by a pattern" 1 "$(prune --all --keep '*:t*' -n)"
same "by digest" 2 "$(prune --all --keep "${digest[three]}" -n)"
same "by size: more than all" 0 "$(prune --all --keep 1GiB -n)"
same "by size: room for none" 3 "$(prune --all --keep 1K -n)"
bytes=$(protect image list --output json | jq -r --arg d "${digest[four]}" '.[] | select(.digest == $d).bytes')
same "by size: room for one" 2 "$(prune --all --keep $((bytes * 3 / 2 / 1024))K -n)"
for word in "1 GIB" 1gb 1Gi 1gib 2M 1TiB "7 days" 7days 2weeks 48hours 30min; do same "--keep $word" 0 "$(prune --all --keep "$word" -n)"; done
same "of two ages the longer" 0 "$(prune --all --keep 1h --keep 1s -n)"
same "of two sizes the larger" 0 "$(prune --all --keep 1GiB --keep 1K -n)"
same "of two numbers the larger" 1 "$(prune --all --keep 2 --keep 1 -n)"
same "by the beginning of a digest" 2 "$(prune --all --keep "${digest[three]:7:12}" -n)"
for word in 7dayz 2h30m 5x 1GiBs 99999999999999999d 4294967295000TiB; do
	protect image prune --all --keep "$word" 2>"$work/err" >&2
	same "--keep $word is bad usage" 2 $?
	has "and says what there is" "--keep '$word' is no age" "$(cat "$work/err")"
done
for word in nonesuch 'nonesuch/*' abcdef012345; do
	protect image prune --all --keep "$word" 2>"$work/err" >&2
	same "--keep $word, which nothing is called" 1 $?
	has "says so" "nothing was removed" "$(cat "$work/err")"
done
same "and nothing is gone" "four one three two" "$(listed)"
has "nonsense" "--keep takes" "$(protect image prune --keep '' 2>&1)"
protect image prune --all --keep 1 2>"$work/err" >"$work/out"
same "those that are old go, and are printed" "$(printf '%s\n' "${digest[two]}" "${digest[three]}" | sort)" "$(sort "$work/out")"
has "with what that freed" "2 images removed, " "$(cat "$work/err")"
same "the newest and what is in use stay" "four one" "$(listed)"
same "nothing of the others is left" 2 "$(find "$work/elsewhere/images" -name '*.squashfs' -prune | wc -l)"

# an image that lost its name to a newer one
make_image four 310000
chmod -R a+rX "$work/image"
protect image pull --update "$(name four)" >/dev/null 2>&1 || bad "pull of a moved tag"
same "what lost its name goes" "${digest[four]}" "$(protect image prune 2>/dev/null)"
same "the new one stays" "four one" "$(listed)"

# a full disk
before=$(df --output=used -k "$work/elsewhere" | tail -n 1)
error=$(protect image pull --progress none "$(name huge)" 2>&1)
has "a full disk is named" "No space left on device" "$error"
same "in one sentence" 1 "$(wc -l <<<"$error")"
for _ in $(seq 50); do [ $(($(df --output=used -k "$work/elsewhere" | tail -n 1) - before)) -lt 64 ] && break; sleep 0.1; done
same "and nothing of it is left" "0 0" "$(find "$work/elsewhere/images/.work" -mindepth 1 | wc -l) $((($(df --output=used -k "$work/elsewhere" | tail -n 1) - before) / 64))"
same "what was there is there" "four one" "$(listed)"
mount -o remount,size=256m "$work/elsewhere"
protect image pull --progress none "$(name huge)" >/dev/null || bad "with room it is pulled"

# what uses an image is gone
protect workload destroy db >/dev/null || bad "destroy"
for _ in $(seq 50); do protect image remove "$(name one)" >/dev/null 2>&1 && break; sleep 0.1; done
same "free to go" "four huge" "$(listed)"
protect zone destroy --wait web
