#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The installed headers compile alone, in C11 and C++17, with nothing of the build around them.
cd "$SRC_DIR" || exit 1
bad=0
for header in include/edera/*.h; do
	for compiler in "${CC:-gcc} -std=c11 -xc -Wpedantic -Wstrict-prototypes" "${CXX:-g++} -std=c++17 -xc++"; do
		echo "#include <edera/${header##*/}>" | $compiler -Wall -Wextra -Werror -fsyntax-only -Iinclude - || {
			echo "$header does not compile alone with $compiler"
			bad=1
		}
	done
done
exit $bad
