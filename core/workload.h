/* SPDX-License-Identifier: Apache-2.0 */
/* A workload: a container in a zone. Loop thread only.
 *
 * CREATING (image attached, container made; waits for its zone to be READY) → CREATED → RUNNING → COMPLETED | OOMKILLED; FAILED at any time;
 * DESTROYING → gone. It stays listed until it is destroyed. */
#ifndef CORE_WORKLOAD_H
#define CORE_WORKLOAD_H

#include "agent/agent_client.h"
#include "daemon.h"
#include "output.h"

/* Told once how an operation went: err NULL = well. Never from within the call that was given it. */
struct workload_waiter {
	struct workload_waiter *next;
	void (*told)(struct workload_waiter *, struct workload *, const struct edera_error *err); /* frees the waiter */
	void *user;
	enum workload_wait { WORKLOAD_WAIT_CREATED, WORKLOAD_WAIT_STARTED, WORKLOAD_WAIT_ENDED, WORKLOAD_WAIT_GONE } what;
};

struct workload {
	struct workload *prev, *next;
	struct daemon *d;
	PbWorkload *pb;
	char serial[21]; /* of its disk */
	struct output *output;
	struct agent_process *process; /* its first process, followed; NULL: not now */
	struct workload_waiter *waiters;
	struct workload_writer *writers; /* who waits to write to its stdin again */
	struct uv_timer_s *kill_timer;
	int error_code;  /* of a FAILED one: negative errno */
	bool unmake;     /* its destruction was interrupted: do it once the zone answers */
	bool start_wanted, setting_up, attached; /* attached: its disk is in the zone */
};

/* Someone with bytes for the workload's stdin that were not taken (agent_process_write said -EAGAIN). */
struct workload_writer {
	struct workload_writer *prev, *next;
	void (*writable)(struct workload_writer *);
};

int workload_create(struct daemon *, const PbWorkloadSpec *, const PB(ResourceOrigin) *, struct workload **ret, struct edera_error *);
/* CREATED → RUNNING. Where it is still CREATING, it starts as soon as it can. */
int workload_start(struct workload *, struct edera_error *);
/* SIGTERM, after timeout_s SIGKILL. */
int workload_stop(struct workload *, uint64_t timeout_s, struct edera_error *);
void workload_destroy(struct workload *);
void workload_wait(struct workload *, struct workload_waiter *);
void workload_unwait(struct workload *, struct workload_waiter *);
void workload_add_writer(struct workload *, struct workload_writer *);
void workload_remove_writer(struct workload *, struct workload_writer *);

struct workload *workload_by_id(const struct daemon *, const char *id);
struct workload *workload_by_name(const struct daemon *, const char *name); /* a live one first, else the newest */
PB(WorkloadState) workload_state(const struct workload *);
bool workload_ended(const struct workload *); /* COMPLETED, OOMKILLED, FAILED or on its way out */
const char *workload_state_name(PB(WorkloadState));
/* Who needs that image: "zone web", "workload db". NULL-ended, for a message's field; NULL if there is nobody. */
char **workload_image_users(const struct daemon *, const char *digest, uint32_t format, size_t *ret_n);

/* What zones tell their workloads. */
void workload_zone_ready(struct zone *);
void workload_zone_failed(struct zone *, const char *why);
void workload_zone_ending(struct zone *);
void workload_zone_gone(struct zone *);
/* A record found at start; takes pb. */
int workload_recover(struct daemon *, PbWorkload *pb, struct edera_error *);
void workload_release_all(struct daemon *);

#endif
