#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The arrows between folders go one way: include < core/base < core/rpc < core; plugins see the installed headers and core/base;
# no program reaches into another's folder.
cd "$SRC_DIR" || exit 1
git rev-parse --git-dir >/dev/null 2>&1 || { echo "no git tree here"; exit 77; }

git ls-files '*.c' '*.h' '*.cc' '*.cpp' >"${TMPDIR:-/tmp}/includes.$$"
trap 'rm -f "${TMPDIR:-/tmp}/includes.$$"' EXIT
xargs grep -nE '^[[:space:]]*#[[:space:]]*include' <"${TMPDIR:-/tmp}/includes.$$" | awk '
	# The folder that is one piece: a plugin, a program, a layer of core.
	function piece(file,   part, n) {
		n = split(file, part, "/")
		if (part[1] == "plugins") return part[1] "/" part[2]
		if (part[1] == "core" && (part[2] == "base" || part[2] == "rpc")) return part[1] "/" part[2]
		return part[1]
	}
	# The file of ours that an include names, or "": beside the includer, in its piece, in its top folder, in core, installed.
	function find(file, name,   dir) {
		dir = file; sub(/[^\/]*$/, "", dir)
		if ((dir name) in ours) return dir name
		if ((piece(file) "/" name) in ours) return piece(file) "/" name
		if (("core/" name) in ours) return "core/" name
		if (("include/" name) in ours) return "include/" name
		return name in ours ? name : ""
	}
	function allowed(from, to) {
		if (from == to || to == "include") return 1
		if (from == "include" || from == "docs") return 0
		if (to == "core/base") return 1
		if (to == "core/rpc") return from == "core" || from == "zone" || from == "cli" || from == "shim" || from == "cri"
		return 0
	}
	FILENAME != "-" { ours[$0] = 1; next }
	{
		split($0, at, ":")
		file = at[1]
		if (file ~ /^tests\//) next
		name = $0
		if (!sub(/^[^<"]*[<"]/, "", name)) next
		sub(/[>"].*/, "", name)
		if (name ~ /\.\.\//) { print file ":" at[2] ": " name ": a path with .. hides where a header lives"; bad = 1; next }
		target = find(file, name)
		# What `protect plugin check` is made of, in a library of its own.
		if (piece(file) == "cli" && target == "core/plugin/check.h") next
		if (target != "" && !allowed(piece(file), piece(target))) { print file ":" at[2] ": " piece(file) " may not include " target; bad = 1 }
	}
	END { exit bad }' "${TMPDIR:-/tmp}/includes.$$" -
