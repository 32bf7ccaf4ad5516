/* SPDX-License-Identifier: Apache-2.0 */
/* The OCI runtime configuration of a workload, from its image's configuration and the request. Pure: what it needs to know of
 * the zone is in the input. */
#ifndef ZONE_CONTAINER_H
#define ZONE_CONTAINER_H

#include <json.h>
#include "agent.h"
#include "image_config.h"
#include "users.h"

struct container_input {
	const Edera__Agent__V1__CreateWorkloadRequest *q;
	const struct image_config *image;
	const struct user *user;
	const char *dir;               /* has rootfs/, hosts, hostname, resolv.conf, scratch-N/ */
	char *const *mount_sources;    /* one for each of q->mounts: a path in the zone */
	const char *hostname;
	bool cgroups;
	uint64_t max_files;            /* hard limit of open files that may be given; 0: leave it */
};

json_object *container_config(const struct container_input *, struct edera_error *); /* NULL on failure; json_object_put */
/* The "process" of an exec: that of the container with what the request says otherwise. */
json_object *container_exec(const json_object *process, const Protect__Control__V1__ProcessSpec *, const struct user *, struct edera_error *);

/* workload.c: writes it for this workload's container. */
int container_write_exec(struct workload *, const Protect__Control__V1__ProcessSpec *, const char *path, struct edera_error *);

#endif
