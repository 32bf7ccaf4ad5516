/* SPDX-License-Identifier: Apache-2.0 */
/* A container in the zone: its image mounted below an overlay, its life in crun's hands. */
#ifndef ZONE_WORKLOAD_H
#define ZONE_WORKLOAD_H

#include "agent.h"

struct workload *workload_find(struct agent *, const char *id);
const char *workload_id(const struct workload *);
struct process *workload_main(const struct workload *);
bool workload_running(const struct workload *);
void workload_ending(struct workload *); /* its first process has just ended */
bool workload_oom(const struct workload *);
int workload_stop_signal(const struct workload *);
void workload_kill_all(struct workload *, int signal);
void workload_metrics(struct agent *, Edera__Agent__V1__MetricsReply *);

void workload_list(struct agent *, const ProtobufCMessage *, struct caller);
void workload_create(struct agent *, const ProtobufCMessage *, struct caller);
void workload_start(struct agent *, const ProtobufCMessage *, struct caller);
void workload_delete(struct agent *, const ProtobufCMessage *, struct caller);

#endif
