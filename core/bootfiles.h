/* SPDX-License-Identifier: Apache-2.0 */
/* The files a zone boots from. */
#ifndef CORE_BOOTFILES_H
#define CORE_BOOTFILES_H

#include "boot.h"

struct boot_files {
	char kernel[PATH_CAP], initrd[PATH_CAP];
	char addons[PATH_CAP]; /* "": the kernel brings none */
};

/* Of the kernel image b->kernel_digest names, or (empty) the node's own zone kernel in the data directory. A kernel image's early
 * modules are appended to the zone initrd once and kept in the cache. Blocking. */
int boot_files_find(struct boot *, const struct edera_call *, struct boot_files *ret);

#endif
