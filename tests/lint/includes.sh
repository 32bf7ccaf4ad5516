#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The arrows between folders go one way: include < core/base < core/rpc < core; plugins see the installed headers and core/base;
# no program reaches into another's folder.
cd "$SRC_DIR" || exit 1
git ls-files '*.c' '*.h' '*.cc' '*.cpp' 2>/dev/null | grep . >/dev/null || { echo "no git tree here"; exit 77; }

git ls-files '*.c' '*.h' '*.cc' '*.cpp' | xargs grep -nE '^[[:space:]]*#[[:space:]]*include' | awk -F: '
	# What FILE may include, as a list of folders: a name that begins with none of the known folders is a system header,
	# a header beside the file, or generated.
	function allowed(file) {
		if (file ~ /^include\//) return " edera "
		if (file ~ /^core\/base\//) return " edera base "
		if (file ~ /^core\/rpc\//) return " edera base rpc proto "
		if (file ~ /^core\//) return " edera base rpc proto core "
		if (file ~ /^plugins\//) { split(file, part, "/"); return " edera base plugins/" part[2] " " }
		if (file ~ /^(provider|tools)\//) { split(file, part, "/"); return " edera base " part[1] " " }
		if (file ~ /^(zone|cli|shim|cri)\//) { split(file, part, "/"); return " edera base rpc proto " part[1] " " }
		if (file ~ /^docs\/examples\//) return " edera "
		return ""
	}
	function folder(name) {
		if (name ~ /^edera\/.*pb-c\.h$/ || name ~ /^protect\/.*pb-c\.h$/ || name ~ /^ttrpc\.pb-c/) return "proto"
		if (name ~ /^edera\//) return "edera"
		if (name ~ /^base\//) return "base"
		if (name ~ /^rpc\//) return "rpc"
		if (name ~ /^(link|agent|conf|plugin|zone|image|workload|net|state)\//) return "core"
		if (name ~ /^plugins\//) { split(name, part, "/"); return "plugins/" part[2] }
		if (name ~ /^(core|provider|tools|cli|shim|cri)\//) { split(name, part, "/"); return part[1] }
		return ""
	}
	{
		line = $0; sub(/^[^:]*:[^:]*:/, "", line)
		if (line !~ /[<"]/) next
		name = line; sub(/^[^<"]*[<"]/, "", name); sub(/[>"].*/, "", name)
		may = allowed($1)
		if (may == "") next
		if (name ~ /\.\.\//) { print $1 ":" $2 ": includes " name ": paths with .. hide where a header lives"; bad = 1; next }
		from = folder(name)
		if (from != "" && index(may, " " from " ") == 0) { print $1 ":" $2 ": may not include " name " (" from ")"; bad = 1 }
	}
	END { exit bad }'
