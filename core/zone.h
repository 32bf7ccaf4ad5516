/* SPDX-License-Identifier: Apache-2.0 */
/* A zone: its record (the control protocol's own message), its VM, its console, its agent. Loop thread only.
 *
 * CREATING (a worker makes the VM) → CREATED (it boots) → READY (its agent answers) → DESTROYING → gone. Anything that goes wrong makes it
 * FAILED: its VM is then ended and the record, with the reason, stays until it is destroyed. */
#ifndef CORE_ZONE_H
#define CORE_ZONE_H

#include "agent/agent_client.h"
#include "daemon.h"
#include "output.h"

struct zone {
	struct zone *prev, *next;
	struct daemon *d;
	PbZone *pb;
	uint32_t uid;
	struct worker_queue *queue; /* every operation on its VM, in order */
	struct worker_job *boot;    /* while CREATING */
	struct output *console;
	struct uv_poll_s *console_poll; /* NULL: not open */
	int console_fd;
	uint64_t console_offset;
	struct agent_client *agent; /* from CREATED on */
	uint64_t agent_instance;
	struct uv_timer_s *deadline; /* to be READY by */
	bool reopening, gone;        /* gone: on its way out of memory */
};

/* Checks the spec, records the zone and starts making it. origin is copied. */
int zone_create(struct daemon *, const PbZoneSpec *, const PB(ResourceOrigin) *origin, struct zone **ret, struct edera_error *);
/* Starts ending it; idempotent. It leaves the list when nothing of it is left. */
void zone_destroy(struct zone *);
/* Reads the records, compares with what the backend runs, takes back what runs, reports and cleans up the rest. Blocking, at start. */
int zone_recover(struct daemon *, struct edera_error *);
/* Lets go of everything without ending any VM: the daemon stops. */
void zone_release_all(struct daemon *);

struct zone *zone_by_id(const struct daemon *, const char *id);
/* The live one of that name, else the newest that failed. NULL: none. */
struct zone *zone_by_name(const struct daemon *, const char *name);
PB(ZoneState) zone_state(const struct zone *);
bool zone_ready(const struct zone *);
bool zone_ending(const struct zone *); /* DESTROYING, DESTROYED or FAILED */
/* Why nothing can be done in it now: "the zone 'x' is creating" */
int zone_not_ready(const struct zone *, struct edera_error *);
void zone_fail(struct zone *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void zone_vm_event(struct daemon *, const char *vm_id, enum edera_vm_event, const char *detail);
int zone_console_write(struct zone *, const void *data, size_t len);
const char *zone_state_name(PB(ZoneState));

#endif
