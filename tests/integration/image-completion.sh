#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The shells complete what protect-oci-provider takes: every option of --help, verbs, values, files.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
provider=$BUILD_DIR/protect-oci-provider
failures=0

same() {
	if [ "$2" = "$3" ]; then echo "ok: $1"; else echo "NOT OK: $1: expected '$2', got '$3'"; failures=$((failures + 1)); fi
}

# What bash offers for the last of these words.
offers() {
	COMP_WORDS=("$provider" "$@")
	COMP_CWORD=$#
	_protect_oci_provider
	printf '%s\n' "${COMPREPLY[@]}" | sort | paste -sd' '
}

source "$SRC_DIR/conf/completions/protect-oci-provider.bash" || exit 1
mkdir "$work/dir"
touch "$work/file"
cd "$work" || exit 1
same "verbs and kinds" "archive: docker-archive: inspect oci-archive: oci: pull tags" "$(offers '')"
same "a verb" tags "$(offers t)"
same "after an option's value" "pull" "$(offers --format erofs p)"
same "after a verb" "archive: docker-archive: oci-archive: oci:" "$(offers inspect '')"
same "formats" "directory erofs squashfs tar" "$(offers --format '')"
same "with an equals sign" "directory" "$(offers --format = d)"
same "right behind it" "auto json none" "$(offers --progress =)"
same "files" "dir file" "$(offers --output '')"
same "directories" "dir" "$(offers --blobs '')"
same "files of a kind" "dir file" "$(offers oci : '')"
same "no number" "" "$(offers --max-size '')"
same "an option" "--platform" "$(offers --pl)"
# Each is one: the program would say so if it were none.
options=$(offers --)
same "how many options" "$("$provider" --help | grep -oE -- '--[a-z-]+' | sort -u | wc -l)" "$(wc -w <<<"$options")"
for option in $options; do
	case $option in --help | --version) continue ;; esac
	"$provider" "$option" >/dev/null 2>"$work/err"
	grep -q "'$option' is no option, or lacks its value" "$work/err" && "$provider" "$option" x >/dev/null 2>"$work/err"
	grep -q "is no option" "$work/err" && same "$option" "an option" "$(cat "$work/err")"
done
if command -v fish >/dev/null; then
	mkdir "$work/bin"
	ln -s "$provider" "$work/bin/protect-oci-provider"
	fish_offers() {
		HOME=$work PATH=$work/bin:$PATH fish --no-config -c "source '$SRC_DIR/conf/completions/protect-oci-provider.fish'; complete -C 'protect-oci-provider $1'" 2>&1 | cut -f1 | sort | paste -sd' '
	}
	same "fish: an option" "--max-entries --max-file --max-size" "$(fish_offers --max)"
	same "fish: formats" "directory erofs squashfs tar" "$(fish_offers '--format ')"
	same "fish: a verb" "inspect" "$(fish_offers ins)"
fi
echo "$failures failures"
exit $((failures > 0))
