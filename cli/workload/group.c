/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tree.h"
#include "cli/workload/workload.h"

static const struct command *const verbs[] = {
	&verb_workload_launch, &verb_workload_list, &verb_workload_logs, &verb_workload_exec, &verb_workload_attach, &verb_workload_start, &verb_workload_stop, &verb_workload_destroy, NULL,
};

const struct command workload_group = { .name = "workload", .summary = "Workloads: containers that run in zones", .sub = verbs };
