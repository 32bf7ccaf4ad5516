/* SPDX-License-Identifier: Apache-2.0 */
/* `protect plugin check FILE.so`: says whether the daemon would take a plugin, without a daemon. The file is loaded in a child that
 * runs as an unprivileged user with limits, because loading a .so runs its constructors. */
#ifndef PLUGIN_CHECK_H
#define PLUGIN_CHECK_H

#include "base/buf.h"
#include "base/error.h"

/* Runs `self plugin check --child FILE` (self: absolute path of the running program) and collects its report: lines "key<TAB>value"
 * (name, version, summary, license, abi, provides, needs, conf) appended to `report`. 0: the plugin is fine.
 * Otherwise a negative errno and the reason. Owner and mode of the file are no failure, but a line "note". */
int plugin_check(const char *self, const char *path, struct buf *report, struct edera_error *);
/* What the child does: prints the report on stdout, or the reason on stderr. Returns the exit status. The plugin arrives as
 * descriptor 3, so that it need not be readable for the unprivileged user by its path. */
int plugin_check_child(const char *path);

#endif
