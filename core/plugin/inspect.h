/* SPDX-License-Identifier: Apache-2.0 */
/* From a file to a checked descriptor. Nothing of the plugin but its constructors has run when these return. */
#ifndef PLUGIN_INSPECT_H
#define PLUGIN_INSPECT_H

#include <edera/plugin.h>
#include "base/error.h"

/* Owner, mode, parents, plain regular file. */
int plugin_check_file(const char *path, struct edera_error *);
/* ELF shared object for this machine. `name` is for messages. */
int plugin_check_elf(int fd, const char *name, struct edera_error *);
/* dlopen, symbol, descriptor. *ret is a copy of the descriptor, as large as ours: what an older plugin lacks is zero. */
int plugin_open(const char *path, const char *name, struct edera_plugin *ret, struct edera_error *);
/* The descriptor's promises: sizes, names, op tables against capability bits, configuration keys. */
int plugin_check_descriptor(const struct edera_plugin *, struct edera_error *);

const char *plugin_kind_name(uint32_t kind); /* "hypervisor", "image-store", "variant-source" */

#endif
