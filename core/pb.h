/* SPDX-License-Identifier: Apache-2.0 */
/* Short names for the control protocol's messages, and what C needs to fill them. */
#ifndef CORE_PB_H
#define CORE_PB_H

#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "edera/node/v1/node.pb-c.h"
#include "protect/control/v1/control.pb-c.h"

#define PB(name) Protect__Control__V1__##name
#define PB_DESC(name) (&protect__control__v1__##name##__descriptor)

typedef PB(Zone) PbZone;
typedef PB(ZoneSpec) PbZoneSpec;
typedef PB(ZoneStatus) PbZoneStatus;
typedef PB(Workload) PbWorkload;
typedef PB(WorkloadSpec) PbWorkloadSpec;
typedef PB(OciImageSpec) PbImageSpec;

/* Strings of a message are malloc'd or protobuf-c's shared empty string. Sets a copy; NULL = "". Out of memory aborts: the daemon's
 * state may not silently differ from what it answers. */
void pb_set(char **field, const char *value);
/* A deep copy through the wire format; NULL only for NULL. */
void *pb_copy(const void *message);
void pb_free(void *message);
void pb_pack(const void *message, struct buf *out);
Google__Protobuf__Timestamp *pb_now(void);
const char *pb_annotation(Protect__Control__V1__AnnotationSpec *const *list, size_t n, const char *key); /* NULL if absent */
void *pb_xcalloc(size_t n, size_t size); /* aborts when there is no memory */

#endif
