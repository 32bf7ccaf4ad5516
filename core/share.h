/* SPDX-License-Identifier: Apache-2.0 */
/* Host paths mounted into a workload: shared with its zone by the hypervisor, mounted there by the agent. Blocking: for workers. */
#ifndef CORE_SHARE_H
#define CORE_SHARE_H

#include "base/path.h"
#include "pb.h"
#include "plugin/plugin_host.h"

#define SHARE_TAG_CAP 32

struct share {
	const struct plugin_provider *hv;
	const char *run_dir, *zone_id, *workload_id;
	size_t index; /* of the mount in the workload's spec */
};

void share_tag(const struct share *, char dst[SHARE_TAG_CAP]);
/* The name of the one file a share of `host_path` holds, or NULL where it is a directory. */
const char *share_file(const char *host_path);
/* A directory is shared as it is. Of a file nothing but the file itself is shared: it is bound into a directory of its own, for a zone
 * that has left its kernel's rules behind must not reach what lies beside it. */
int share_add(const struct share *, const struct edera_call *, const PB(MountSpec) *, struct edera_error *);
/* What is bound below the directory of a VM that has ended; without this its directory could not be removed. */
void share_remove_all(const char *vm_dir);
/* Idempotent. */
int share_remove(const struct share *, const struct edera_call *, struct edera_error *);

#endif
