#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What quickstart writes into daemon.toml: its lines in their places, nothing else changed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
eval "$(sed -n -e '/^set_key()/,/^}/p' -e '/^allow_registry()/,/^}/p' "$SRC_DIR/quickstart")"
config=$work/daemon.toml registry=127.0.0.1:5000
failures=0
check() { # WHAT DIFFERENCES
	got=$(diff "$work/before" "$config" | grep '^[0-9<>]' || true)
	if [ "$got" = "$2" ]; then echo "ok   $1"; else echo "FAIL $1: $got"; failures=$((failures + 1)); fi
}
sample=$SRC_DIR/conf/daemon.toml.sample
line=$(grep -n '^# insecure-registries = ' "$sample" | cut -d: -f1)

cp "$sample" "$config"
cp "$config" "$work/before"
allow_registry
check "in place of the default that is shown" "${line}c$line
< # insecure-registries = []
> insecure-registries = [\"$registry\"]"
cp "$config" "$work/before"
allow_registry
check "once" ""
registry=127.0.0.1:5001
allow_registry
check "beside another" "${line}c$line
< insecure-registries = [\"127.0.0.1:5000\"]
> insecure-registries = [\"127.0.0.1:5001\", \"127.0.0.1:5000\"]"
printf '[zone]\n# key = 1\n[oci]\na = 1\n[zone.kernel-variants]\n' >"$config"
cp "$config" "$work/before"
allow_registry
check "at the top of the section, where no default is shown" "3a4
> insecure-registries = [\"$registry\"]"
printf '[zone]\n# insecure-registries = []\n' >"$config"
cp "$config" "$work/before"
allow_registry
check "in a section of its own" "2a3,5
> 
> [oci]
> insecure-registries = [\"$registry\"]"
printf '[oci]\n# key = 1\nkey = 2\n' >"$config"
cp "$config" "$work/before"
set_key oci key 3
check "in place of what was set" "3c3
< key = 2
> key = 3"
[ $failures = 0 ]
