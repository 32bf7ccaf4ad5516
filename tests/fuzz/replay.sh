#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs each fuzz target that was built on its corpus. Automake gives srcdir and starts this in the build directory.
set -eu
for target in tests/fuzz/fuzz_*; do
	case $target in *.o | *.log | *.trs) continue ;; esac
	[ -x "$target" ] && [ ! -d "$target" ] || continue
	name=${target#tests/fuzz/fuzz_}
	printf '%s: ' "$name"
	"$target" "${srcdir:-.}/tests/fuzz/corpus/$name"
done
