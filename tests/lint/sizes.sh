#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A source file is one idea: at most 800 lines, a plugin's registration file under 150.
cd "$SRC_DIR" || exit 1
git rev-parse --git-dir >/dev/null 2>&1 || { echo "no git tree here"; exit 77; }

git ls-files '*.c' '*.h' '*.cc' '*.cpp' '*.py' '*.sh' check quickstart tools | xargs wc -l |
	awk '$2 != "total" && $1 > 800 { print $2 ": " $1 " lines"; bad = 1 } END { exit bad }' || exit 1
for dir in plugins/*/; do
	name=$(basename "$dir")
	file=$dir$name.c
	[ ! -f "$file" ] || [ "$(wc -l <"$file")" -lt 150 ] || { echo "$file: $(wc -l <"$file") lines, a registration file stays under 150"; exit 1; }
done
