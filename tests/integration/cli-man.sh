#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The man pages name every command and every option there is, and no option that there is not.
cd "$SRC_DIR" || exit 1
protect=$BUILD_DIR/cli/protect
tab=$(printf '\t')
bad=0

offered() { "$protect" __complete -- "$@" | cut -d"$tab" -f1; }

# Text of one page, without its fonts and escapes.
page() { sed -e 's/\\f[BRI]//g' -e 's/\\-/-/g' -e 's/\\e/\\/g' "man/$1"; }

check() { # PAGE COMMAND...
	text=$(page "$1")
	shift
	echo "$text" | grep -qF "protect $*" || { echo "no man page tells of 'protect $*'"; bad=1; }
	for option in $(offered "$@" -- | sort -u); do
		case $option in --connection | --help | --version) continue ;; esac
		echo "$text" | grep -q -e "$option\b" || { echo "the man page of 'protect $*' does not tell of $option"; bad=1; }
	done
}

[ -n "$(offered zone '')" ] || { echo "__complete offers nothing"; exit 1; }
all='--connection --help --version '
for group in $(offered ''); do
	[ -f "man/protect-$group.1" ] && file=protect-$group.1 || file=protect.1
	for verb in $(offered "$group" ''); do
		inner=$(offered "$group" "$verb" '')
		if [ "$group" = network ]; then
			for last in $inner; do check $file "$group" "$verb" "$last"; done
		else
			check $file "$group" "$verb"
		fi
		all="$all $(offered "$group" "$verb" -- | tr '\n' ' ')"
	done
done
for file in protect.1 protect-zone.1 protect-workload.1 protect-image.1 protect-plugin.1 protect-host.1; do
	for option in $(page $file | grep -oE -e '(^|[^-a-z])--[a-z][a-z-]+' | grep -oE -e '--[a-z-]+' | sort -u); do
		# Another spelling that is understood.
		[ "$option" = --format ] && continue
		case " $all " in *" $option "*) ;; *) echo "man/$file tells of $option, which does not exist"; bad=1 ;; esac
	done
done
exit $bad
