#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A plugin built as a third party builds one: outside the tree, from the installed headers and pkg-config file. It is checked with the
# command line, loaded as the daemon loads it, and each header is compiled alone, as C11 and as C++17.
set -eu
work=$(mktemp -d /tmp/plugin-out-of-tree.XXXXXX)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
umask 022

fail() { echo "FAIL: $*" >&2; exit 1; }

make -s -C "$BUILD_DIR" install-ederaincludeHEADERS install-pkgconfigDATA DESTDIR="$work/root" >"$work/install.log" 2>&1 || { cat "$work/install.log"; fail "make install"; }
pc=$(find "$work/root" -name edera-plugin.pc)
[ -n "$pc" ] || fail "no pkg-config file was installed"
export PKG_CONFIG_PATH=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$work/root

[ "$(pkg-config --variable=abi_major edera-plugin)" = 1 ] || fail "abi_major"
case $(pkg-config --variable=plugindir edera-plugin) in */edera/plugins) ;; *) fail "plugindir" ;; esac
cflags=$(pkg-config --cflags edera-plugin)
case $cflags in *"$work/root"*) ;; *) fail "pkg-config names headers outside the staged root: $cflags" ;; esac

headers=$(find "$work/root" -path '*/edera/*.h')
[ -n "$headers" ] || fail "no header was installed"
for header in $headers; do
	# shellcheck disable=SC2086
	gcc -std=c11 -pedantic -Wall -Wextra -Werror -fsyntax-only $cflags -x c "$header" || fail "$header as C11"
	# shellcheck disable=SC2086
	g++ -std=c++17 -pedantic -Wall -Wextra -Werror -fsyntax-only $cflags -x c++ "$header" || fail "$header as C++17"
done

# The example builds without warnings, and installs where pkg-config says.
cp -r "$SRC_DIR/docs/examples/plugin-hello" "$work/hello"
cd "$work/hello"
unset MAKEFLAGS
make CFLAGS="-O2 -Werror" >"$work/make.log" 2>&1 || { cat "$work/make.log"; fail "the example does not build"; }
mkdir "$work/plugins"
install -m 0644 hello.so "$work/plugins/hello.so"
symbols=$(nm -D --defined-only hello.so | awk '{print $3}')
[ "$symbols" = edera_plugin_v1 ] || fail "the plugin exports more than its descriptor: $symbols"

# A C++ plugin works as well, without the C macro.
cat >cpp.cc <<'END'
#include <edera/variant_source.h>
static int list(void *, const edera_call *, uint32_t, int (*)(void *, const edera_variant *), void *, edera_error *) { return 0; }
static const edera_variant_source_ops ops = { sizeof ops, 0, list };
static const edera_provide provides[] = { { EDERA_KIND_VARIANT_SOURCE, 0, "cpp", 0, &ops }, { 0, 0, nullptr, 0, nullptr } };
static int init(const edera_host *, const edera_conf *, void **, edera_error *) { return 0; }
extern "C" EDERA_PLUGIN_EXPORT const edera_plugin edera_plugin_v1 = {
	EDERA_PLUGIN_HEAD, 0, 0, "cpp", "1", "in C++", "Apache-2.0", provides, nullptr, nullptr, nullptr, init, nullptr, nullptr, nullptr, nullptr };
END
# shellcheck disable=SC2086
g++ -std=c++17 -Wall -Wextra -Werror -fPIC -fvisibility=hidden $cflags -shared -Wl,-z,defs cpp.cc -o "$work/plugins/cpp.so" || fail "a plugin in C++"

# As the daemon loads them.
mkdir -p "$work/data"
printf '[plugins]\n[plugin.hello]\nvariant = "edge"\nimage = "registry.example/zone-kernel:7.1"\n' >"$work/daemon.toml"
got=$("$BUILD_DIR/tests/integration/variants-run" "$work/daemon.toml" "$work/plugins/hello.so" "$work/data")
[ "$got" = $'edge\tregistry.example/zone-kernel:7.1\t\t' ] || fail "the example offers: $got"
"$BUILD_DIR/tests/integration/variants-run" "$work/daemon.toml" "$work/plugins/cpp.so" "$work/data" || fail "the plugin in C++ does not load"
printf '[plugin.hello]\nvariant = ""\n' >"$work/daemon.toml"
! "$BUILD_DIR/tests/integration/variants-run" "$work/daemon.toml" "$work/plugins/hello.so" "$work/data" 2>"$work/err" || fail "an empty name is taken"
grep -q 'plugin.hello.variant is empty' "$work/err" || fail "$(cat "$work/err")"

# As a person checks one: the child drops to an unprivileged user, so everything it runs must be within that user's reach.
protect=$(readlink -f "$BUILD_DIR/cli/protect")
[ -x "$protect" ] || fail "there is no $BUILD_DIR/cli/protect"
cp "$protect" "$work/protect"
"$work/protect" plugin check "$work/plugins/hello.so" >"$work/report" || fail "plugin check refuses the example"
grep -q hello "$work/report" || fail "plugin check says: $(cat "$work/report")"

cat >evil.c <<'END'
#include <edera/plugin.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/stat.h>
__attribute__((constructor)) static void build(void)
{
	if (geteuid() == 0 || getegid() == 0 || mkdir(MARK, 0777) == 0)
		mkdir(MARK, 0777);
	WHAT;
}
END
mkdir "$work/private"
chmod 700 "$work/private"
evil() { # NAME WHAT REGEX
	# shellcheck disable=SC2086
	gcc -fPIC -shared -w $cflags -DMARK="\"$work/private/mark\"" "-DWHAT=$2" evil.c -o "$work/plugins/$1.so"
	! "$work/protect" plugin check "$work/plugins/$1.so" >"$work/out" 2>&1 || fail "plugin check takes $1"
	grep -Eq "$3" "$work/out" || fail "plugin check of $1 says: $(cat "$work/out")"
}
evil crash 'abort()' 'signal 6'
evil nothing '(void)0' 'has no symbol edera_plugin_v1'
evil quits '_exit(0)' 'ended the process before it could be looked at'
[ "$(id -u)" != 0 ] || [ ! -e "$work/private/mark" ] || fail "a constructor ran with root's rights"
echo "#!/bin/sh" >"$work/plugins/text.so"
! "$work/protect" plugin check "$work/plugins/text.so" >"$work/out" 2>&1 || fail "plugin check takes a text file"
grep -q 'a text file' "$work/out" || fail "plugin check of a text file says: $(cat "$work/out")"
echo ok
