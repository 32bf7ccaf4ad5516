/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of a workload: its root filesystem put together from the image and a writable tmpfs, its files, crun's config.json.
 *   image/ upper/{upper,work,scratch-N}/ rootfs/ mounts/N/ hosts hostname resolv.conf config.json pid */
#ifndef ZONE_BUNDLE_H
#define ZONE_BUNDLE_H

#include <json.h>
#include "agent.h"

/* Where the share of mount i is to be mounted before the bundle is made. */
int bundle_mount_path(const char *dir, size_t i, char ret[PATH_CAP], struct edera_error *);
/* The disks and shares are there. *ret_process: the container's process for later exec (json_object_put); *ret_stop_signal: what the
 * image wants to be stopped with, untouched if it does not say. On failure bundle_remove is still due. */
int bundle_make(struct agent *, const char *dir, const Edera__Agent__V1__CreateWorkloadRequest *, json_object **ret_process, int *ret_stop_signal,
		struct edera_error *);
void bundle_remove(const char *dir, size_t n_mounts);

#endif
