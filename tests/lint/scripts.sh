#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Shell scripts parse with the shell they name, Python ones compile; shellcheck is asked where it is installed.
cd "$SRC_DIR" || exit 1
git rev-parse --git-dir >/dev/null 2>&1 || { echo "no git tree here"; exit 77; }

bad=0
while IFS= read -r file; do
	[ -f "$file" ] || continue
	read -r first <"$file" || continue
	case $first in
	'#!/bin/sh'*) dash -n "$file" 2>/dev/null || sh -n "$file" || bad=1 ;;
	'#!/bin/bash'* | '#!/usr/bin/env bash'*) bash -O extglob -n "$file" || bad=1 ;;
	'#!'*python3*) python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' "$file" || bad=1 ;;
	*) continue ;;
	esac
	[ -x "$file" ] || { echo "$file: begins with #! and is not executable"; bad=1; }
	case $first in *python*) continue ;; esac
	! command -v shellcheck >/dev/null || shellcheck -S error "$file" || bad=1
done < <(git ls-files | grep -v '\.in$')
exit $bad
