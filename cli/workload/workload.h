/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_WORKLOAD_H
#define CLI_WORKLOAD_H

#include "cli/cli.h"

struct waiter;

extern const struct command verb_workload_launch, verb_workload_list, verb_workload_logs, verb_workload_exec, verb_workload_attach, verb_workload_start, verb_workload_stop, verb_workload_destroy;

/* view.c: a Workload as a row; the context is a struct list of Zones, for their names. */
extern const struct list_view workload_view;
const char *workload_name(const Protect__Control__V1__Workload *);
Protect__Control__V1__WorkloadState workload_state(const Protect__Control__V1__Workload *);
const char *workload_failure(const Protect__Control__V1__Workload *);
int workload_collect(struct cli *, struct replies *, struct list *, struct edera_error *);
/* destroy.c: and sees it gone, unless the waiter is NULL. -EIO when it could not be. */
int workload_destroy(struct cli *, struct waiter *, const char *id, struct edera_error *);

#endif
