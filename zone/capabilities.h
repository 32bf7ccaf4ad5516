/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZONE_CAPABILITIES_H
#define ZONE_CAPABILITIES_H

#include <json.h>
#include "agent.h"

/* Adds "capabilities" to an OCI process: the usual default set, raised and dropped as asked; all that the kernel has when privileged. */
int capabilities_add(json_object *process, const Protect__Control__V1__WorkloadSecuritySpec *, char *const *more, size_t n_more, struct edera_error *);

#endif
