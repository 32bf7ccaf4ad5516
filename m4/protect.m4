# SPDX-License-Identifier: Apache-2.0
# What protect needs of the build machine. Every miss is collected and reported at once, with the Debian package that brings it.

# PROTECT_PKG(VARIABLE, MODULE, DEBIAN-PACKAGE)
AC_DEFUN([PROTECT_PKG],
  [PKG_CHECK_MODULES([$1], [$2], [], [protect_missing="$protect_missing
  $2 (Debian: $3)"])])

# PROTECT_TOOL(VARIABLE, PROGRAM, DEBIAN-PACKAGE)
AC_DEFUN([PROTECT_TOOL],
  [AC_PATH_PROG([$1], [$2], [], [$PATH:/usr/sbin:/sbin])
   AS_IF([test "x$$1" = x], [protect_missing="$protect_missing
  the program $2 (Debian: $3)"])])

# PROTECT_OPTIONAL(NAME, VARIABLE, MODULES, DEBIAN-PACKAGE, HELP): --with-NAME=yes|no|auto
AC_DEFUN([PROTECT_OPTIONAL],
  [AC_ARG_WITH([$1], [AS_HELP_STRING([--without-$1], [$5])], [], [with_$1=auto])
   have_$1=no
   AS_IF([test "x$with_$1" != xno],
     [PKG_CHECK_MODULES([$2], [$3], [have_$1=yes],
        [AS_IF([test "x$with_$1" = xyes], [protect_missing="$protect_missing
  $3 (Debian: $4)"])])])
   AS_IF([test "$have_$1" = yes], [AC_DEFINE([HAVE_$2], [1], [$5])])
   AM_CONDITIONAL([HAVE_$2], [test "$have_$1" = yes])])

AC_DEFUN([PROTECT_OPTIONS],
  [AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [treat compiler warnings as errors])], [], [enable_werror=no])
   AC_ARG_ENABLE([sanitizers], [AS_HELP_STRING([--enable-sanitizers], [build with AddressSanitizer and UndefinedBehaviorSanitizer])], [], [enable_sanitizers=no])
   AC_ARG_ENABLE([fuzzers], [AS_HELP_STRING([--enable-fuzzers], [build the fuzz targets against libFuzzer (needs clang); without it they replay their corpus])], [], [enable_fuzzers=no])
   PROTECT_CFLAGS="-Wall -Wextra -Wno-unused-parameter -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla -Wformat=2 -fno-strict-aliasing"
   PROTECT_CXXFLAGS="-Wall -Wextra -std=c++17"
   PROTECT_LDFLAGS=""
   AS_IF([test "x$enable_werror" = xyes], [PROTECT_CFLAGS="$PROTECT_CFLAGS -Werror" PROTECT_CXXFLAGS="$PROTECT_CXXFLAGS -Werror"])
   AS_IF([test "x$enable_sanitizers" = xyes],
     [protect_san="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g"
      PROTECT_CFLAGS="$PROTECT_CFLAGS $protect_san" PROTECT_CXXFLAGS="$PROTECT_CXXFLAGS $protect_san" PROTECT_LDFLAGS="-fsanitize=address,undefined"
      AC_DEFINE([PROTECT_SANITIZED], [1], [built with sanitizers])],
     [PROTECT_CFLAGS="$PROTECT_CFLAGS -fstack-protector-strong" PROTECT_LDFLAGS="-Wl,-z,relro -Wl,-z,now"])
   AS_IF([test "x$enable_fuzzers" = xyes],
     [PROTECT_CFLAGS="$PROTECT_CFLAGS -fsanitize=fuzzer-no-link -g" PROTECT_CXXFLAGS="$PROTECT_CXXFLAGS -fsanitize=fuzzer-no-link"])
   AC_SUBST([PROTECT_CFLAGS])
   AC_SUBST([PROTECT_CXXFLAGS])
   AC_SUBST([PROTECT_LDFLAGS])
   AM_CONDITIONAL([FUZZERS], [test "x$enable_fuzzers" = xyes])
   AM_CONDITIONAL([SANITIZED], [test "x$enable_sanitizers" = xyes])])

AC_DEFUN([PROTECT_DEPENDENCIES],
  [protect_missing=""
   PROTECT_PKG([CONFUSE], [libconfuse], [libconfuse-dev])
   PROTECT_PKG([CURL], [libcurl], [libcurl4-openssl-dev])
   PROTECT_PKG([JSON], [json-c], [libjson-c-dev])
   PROTECT_PKG([SQFS], [libsquashfs1], [libsquashfs-dev])
   PROTECT_PKG([UV], [libuv], [libuv1-dev])
   PROTECT_PKG([PROTOBUF_C], [libprotobuf-c], [libprotobuf-c-dev])
   PROTECT_PKG([NGHTTP2], [libnghttp2], [libnghttp2-dev])
   PROTECT_PKG([SQLITE], [sqlite3], [libsqlite3-dev])
   PROTECT_PKG([TOMLPP], [tomlplusplus], [libtomlplusplus-dev])
   PROTECT_PKG([YAML], [yaml-0.1], [libyaml-dev])
   PROTECT_PKG([LZMA], [liblzma], [liblzma-dev])
   AC_CHECK_HEADER([bzlib.h], [], [protect_missing="$protect_missing
  bzlib.h (Debian: libbz2-dev)"])
   AC_SUBST([BZ2_LIBS], [-lbz2])
   PROTECT_PKG([ZSTD], [libzstd], [libzstd-dev])
   PROTECT_PKG([CRYPTO], [libcrypto], [libssl-dev])
   PROTECT_PKG([SECCOMP], [libseccomp], [libseccomp-dev])
   PKG_CHECK_MODULES([ZLIB], [zlib], [], [protect_missing="$protect_missing
  zlib (Debian: zlib1g-dev)"])
   PROTECT_TOOL([PROTOC], [protoc], [protobuf-compiler])
   PROTECT_TOOL([PROTOC_C], [protoc-c], [protobuf-c-compiler])
   AS_IF([test -e /usr/include/google/protobuf/timestamp.proto], [],
     [protect_missing="$protect_missing
  google/protobuf/timestamp.proto (Debian: libprotobuf-dev)"])
   PROTECT_TOOL([CRUN], [crun], [crun])
   PROTECT_TOOL([CPIO], [cpio], [cpio])
   PROTECT_TOOL([BUSYBOX], [busybox], [busybox-static])
   PROTECT_TOOL([ZSTD_TOOL], [zstd], [zstd])
   PROTECT_OPTIONAL([libvirt], [LIBVIRT], [libvirt libvirt-qemu], [libvirt-dev], [the KVM hypervisor plugin, through libvirt])
   PROTECT_OPTIONAL([xen], [XEN], [xencontrol xenguest xenstore xentoollog], [libxen-dev], [the Xen hypervisor plugin, through libxenctrl])
   PROTECT_OPTIONAL([isal], [ISAL], [libisal], [libisal-dev], [ISA-L for fast gzip])
   PROTECT_OPTIONAL([cunit], [CUNIT], [cunit], [libcunit1-dev], [the unit tests])
   AS_IF([test "x$protect_missing" != x], [AC_MSG_ERROR([missing on this machine:$protect_missing])])])

# The zone agent is linked statically where every library it uses can be: the first program of a machine spends longer on loading
# libraries than on all it does until it answers.
AC_DEFUN([PROTECT_STATIC_AGENT],
  [PKG_CHECK_MODULES([UV_STATIC], [libuv-static], [static_agent=yes], [static_agent=no])
   AS_IF([test "x$enable_sanitizers" = xyes], [static_agent=no])
   AS_IF([test "$static_agent" = yes],
     [protect_save_LIBS=$LIBS protect_save_LDFLAGS=$LDFLAGS protect_save_CFLAGS=$CFLAGS
      CFLAGS="$CFLAGS $UV_STATIC_CFLAGS $PROTOBUF_C_CFLAGS $JSON_CFLAGS $ZLIB_CFLAGS"
      LIBS="$UV_STATIC_LIBS $PROTOBUF_C_LIBS $JSON_LIBS $ZLIB_LIBS" LDFLAGS="$LDFLAGS -static"
      AC_MSG_CHECKING([whether the zone agent can be static])
      AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <json.h>
#include <protobuf-c/protobuf-c.h>
#include <uv.h>
#include <zlib.h>]], [[json_object_new_object(); protobuf_c_version(); uv_default_loop(); zlibVersion();]])], [], [static_agent=no])
      AC_MSG_RESULT([$static_agent])
      # libuv can look users up, which the agent never does and the linker warns of.
      STATIC_AGENT_LDFLAGS=-Wl,--no-warnings LDFLAGS="$LDFLAGS $STATIC_AGENT_LDFLAGS"
      AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [], [STATIC_AGENT_LDFLAGS=])
      LIBS=$protect_save_LIBS LDFLAGS=$protect_save_LDFLAGS CFLAGS=$protect_save_CFLAGS])
   AC_SUBST([STATIC_AGENT_LDFLAGS])
   AM_CONDITIONAL([STATIC_AGENT], [test "$static_agent" = yes])])

AC_DEFUN([PROTECT_SUMMARY],
  [AC_MSG_NOTICE([
  protect $PACKAGE_VERSION
    prefix            $prefix
    plugin ABI        $ABI_MAJOR.$ABI_MINOR
    KVM (libvirt)     $have_libvirt
    Xen (libxenctrl)  $have_xen
    ISA-L gzip        $have_isal
    static zone agent $static_agent
    unit tests        $have_cunit
    warnings = errors $enable_werror
    sanitizers        $enable_sanitizers
    fuzzers           $enable_fuzzers
])])
