/* SPDX-License-Identifier: Apache-2.0 */
/* A container in the zone: its image mounted below an overlay, its life in crun's hands. */
#ifndef ZONE_WORKLOAD_H
#define ZONE_WORKLOAD_H

#include "agent.h"

/* What pressure.c saw of a group last time. */
struct strain {
	uint64_t at_ms, faults, refaults;
	unsigned times;
};

struct workload *workload_find(struct agent *, const char *id);
struct workload *workload_next(struct agent *, const struct workload *after); /* after NULL: the first */
const char *workload_id(const struct workload *);
struct process *workload_main(const struct workload *);
bool workload_running(const struct workload *);
void workload_ending(struct workload *); /* its first process has just ended */
bool workload_oom(const struct workload *); /* it was, or is just being, killed for want of memory */
void workload_oom_kill(struct workload *);
int workload_oom_score_adj(const struct workload *);
struct strain *workload_strain(struct workload *);
const char *workload_cgroup(const struct workload *); /* its directory */
int workload_stop_signal(const struct workload *);
void workload_kill_all(struct workload *, int signal);
void workload_metrics(struct agent *, Edera__Agent__V1__MetricsReply *);

void workload_list(struct agent *, const ProtobufCMessage *, struct caller);
void workload_create(struct agent *, const ProtobufCMessage *, struct caller);
void workload_start(struct agent *, const ProtobufCMessage *, struct caller);
void workload_delete(struct agent *, const ProtobufCMessage *, struct caller);

#endif
