#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every file that can hold a comment names the licence within its first three lines.
cd "$SRC_DIR" || exit 1
git rev-parse --git-dir >/dev/null 2>&1 || { echo "no git tree here"; exit 77; }

bad=0
for file in $(git ls-files); do
	[ -f "$file" ] && [ -s "$file" ] || continue
	case $file in
	*.c | *.h | *.cc | *.cpp | *.hpp | *.proto | *.am | *.ac | *.m4 | *.sh | *.py | *.in | *.service | *.conf) ;;
	*.[1-8] | quickstart | check | .ci/run) ;;
	*)
		# Scripts without an ending; data of tests and documents need none.
		[ "$(head -c 2 "$file" | tr -d '\0')" = '#!' ] || continue
		;;
	esac
	head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || { echo "$file: no SPDX line"; bad=1; }
done
exit $bad
