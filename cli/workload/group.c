/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tree.h"
#include "cli/workload/workload.h"

static const struct command *const verbs[] = {
	&workload_launch, &workload_list, &workload_logs, &workload_exec, &workload_attach, &workload_start, &workload_stop, &workload_destroy, NULL,
};

const struct command workload_group = { .name = "workload", .summary = "Workloads: containers that run in zones", .sub = verbs };
