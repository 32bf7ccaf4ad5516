/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/workload/workload.h"
#include "base/cleanup.h"

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	Protect__Control__V1__StartWorkloadRequest request = PROTECT__CONTROL__V1__START_WORKLOAD_REQUEST__INIT;
	_free_ char *id = NULL;
	int r = cli_resolve_workload(cli, operands->v[0], &id, err);

	if (r)
		return r;
	request.workload_id = id;
	return cli_call(cli, CONTROL, "StartWorkload", &request, NULL, err);
}

const struct command verb_workload_start = {
	.name = "start", .summary = "Start a workload that does not run", .operands = "WORKLOAD", .min = 1, .max = 1, .names = NAMES_WORKLOAD, .run = run,
};
