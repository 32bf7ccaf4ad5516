#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Plugins as an administrator meets them: one built outside the tree is dropped in and works, broken ones are listed with their reasons,
# the configuration chooses among them, and a broken configuration takes no running daemon down.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.bash"
trap finish EXIT

plugins=$work/plugins
export PKG_CONFIG_PATH=$(dirname "$(find "$PREFIX" -name edera-plugin.pc)")
cp -r "$(pkg-config --variable=plugindir edera-plugin)" "$plugins"
cp -r "$SRC_DIR/docs/examples/plugin-hello" "$work/hello"
(unset MAKEFLAGS; make -s -C "$work/hello") || { bad "the example builds against the installed headers"; exit 1; }
install -m 0644 "$work/hello/hello.so" "$plugins/hello.so"

sed 's/^\t\.name = "hello"/\t.abi_major = 9, .name = "future"/' "$work/hello/hello.c" >"$work/hello/future.c"
# shellcheck disable=SC2046
cc -w -fPIC -shared $(pkg-config --cflags edera-plugin) "$work/hello/future.c" -o "$plugins/future.so"
cp "$plugins/hello.so" "$plugins/writable.so"
chmod 666 "$plugins/writable.so"
cp "$plugins/hello.so" "$plugins/twin.so"
echo "echo hello" >"$plugins/text.so"

configure() { # KERNEL-VARIANT-SOURCES [MORE]
	cat >"$config" <<CONFIG
[plugins]
directory = "$plugins"
kernel-variant-sources = [$1]
[zone.kernel-variants]
edge = "registry.example/configured:1"
${2:-}
CONFIG
}
# By file: a refused one may claim another's name.
of() { protect plugin list --output json | jq -r --arg path "$plugins/$1.so" '.[] | select(.path == $path) | '"$2"; }
state() { of "$1" .state | tr '[:upper:]' '[:lower:]' | sed 's/.*_//'; }
reason() { of "$1" '.reason // ""'; }
images() { protect image list-kernel-variants --output json | jq -r '.[] | .name + "=" + .image' | sort | tr '\n' ' '; }

hello='[plugin.hello]
variant = "edge"
image = "registry.example/hello:1"'
configure '"config", "hello"' "$hello"
daemon_start || exit 1
same "a plugin from outside the tree" loaded "$(state hello)"
for name in config kvm registry squashfs; do same "the plugin $name" loaded "$(state $name)"; done
contains "the table has its columns" "name" "$(protect plugin list | head -n 3)"
same "a file all may write" error "$(state writable)"
contains "says so" "writable by others than root" "$(reason writable)"
same "a text file" error "$(state text)"
contains "says so" "a text file" "$(reason text)"
same "another ABI" error "$(state future)"
contains "says so" "plugin ABI 9" "$(reason future)"
same "a name twice" error "$(state twin)"
contains "says so" "the name 'hello' is taken" "$(reason twin)"
contains "info knows its license" "Apache-2.0" "$(protect plugin info hello)"
contains "conf knows its value" "registry.example/hello:1" "$(protect plugin conf hello)"
refused "a plugin that is not there" "no plugin 'nonesuch'" protect plugin info nonesuch
same "of two sources the earlier wins" "edge=registry.example/configured:1 " "$(images)"

sed -i 's|hello:1|hello:2|; s|variant = "edge"|variant = "other"|' "$config"
kill -HUP "$daemon"
wait_until 10 eval '[[ $(images) == *hello:2* ]]'
same "a reload reaches the plugin" "edge=registry.example/configured:1 other=registry.example/hello:2 " "$(images)"
cp "$config" "$work/good.toml"
echo 'broken = [' >>"$config"
kill -HUP "$daemon"
wait_until 10 grep -q "not used; the old one stays" "$work/daemon.log"
same "a broken configuration changes nothing" "edge=registry.example/configured:1 other=registry.example/hello:2 " "$(images)"
cp "$work/good.toml" "$config"
install -m 0644 "$work/hello/hello.so" "$plugins/hello.so"
contains "a replaced file is marked" "replaced" "$(reason hello)"
daemon_stop

configure '"hello", "config"' "$hello"
daemon_start || exit 1
same "precedence follows the configuration" "edge=registry.example/hello:1 " "$(images)"
daemon_stop

cannot_start() { # WHAT WORDS
	refused "$1" "$2" protect-daemon --config "$config" --data-dir "$data" --listen "unix://$socket"
}
configure '"config", "nonesuch"'
cannot_start "a source that is not there" "nonesuch.*no plugin provides it; there are: .*registry"
configure '"config"' '[plugin.hello]
variant = 7'
cannot_start "a plugin's key of the wrong type" "daemon.toml:7: plugin.hello.variant: expected a string"
configure '"hello"' '[plugin.hello]
variant = ""'
cannot_start "a plugin that refuses its configuration" "plugin hello is error: its init failed: plugin.hello.variant is empty"
sed -i '/^directory/a hypervisor = "xen"' "$config"
cannot_start "a hypervisor that is not there" "xen.*named by plugins.hypervisor, cannot be used"
chmod 777 "$plugins"
cannot_start "a plugin directory all may write" "writable by others than root"
