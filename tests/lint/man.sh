#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# groff has nothing to complain about in the man pages, and every installed program has one.
cd "$SRC_DIR" || exit 1
command -v man >/dev/null || { echo "man is missing (Debian: man-db)"; exit 77; }

bad=0
pages=$(find man "$BUILD_DIR/man" -name '*.[1-8]' 2>/dev/null)
for page in $pages; do
	complaints=$(MANWIDTH=80 MANROFFSEQ='' man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
	[ -z "$complaints" ] || { echo "$page: $complaints"; bad=1; }
	[ "$(sed -n 's/^\.TH [^ ]* \([0-9]\).*/\1/p' "$page" | head -n 1)" = "${page##*.}" ] || { echo "$page: .TH names another section"; bad=1; }
done
for program in $(make -s --no-print-directory -C "$BUILD_DIR" list-programs); do
	echo "$pages" | grep -q "/${program##*/}\.[18]\$" || { echo "${program##*/} has no man page"; bad=1; }
done
exit $bad
