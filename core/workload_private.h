/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files that make up a workload: workload.c (the object), workload_disk.c, workload_run.c (its container). */
#ifndef CORE_WORKLOAD_PRIVATE_H
#define CORE_WORKLOAD_PRIVATE_H

#include "workload.h"

#define WSTATE(name) PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_##name

struct workload *workload_new(struct daemon *, PbWorkload *pb, struct edera_error *); /* takes pb on success */
struct zone *workload_zone(const struct workload *);
void workload_set_state(struct workload *, PB(WorkloadState)); /* saves, tells, answers who waits */
void workload_fail(struct workload *, int code, const char *message);
void workload_forget(struct workload *); /* record, output and object; the workload is gone after */
void workload_unfollow(struct workload *);
void workload_stop_kill_timer(struct workload *);
/* workload_disk.c: out ends in workload_forget, in in workload_attached or workload_fail */
void workload_submit_disk(struct workload *, struct zone *, bool in);
/* workload_run.c */
void workload_attached(struct workload *, const struct buf *image_config);
void workload_set_up(struct workload *);
void workload_lag(void *workload, bool behind);

#endif
