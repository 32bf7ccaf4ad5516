/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/workload/workload.h"
#include "base/cleanup.h"

struct args {
	uint64_t timeout;
};

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	Protect__Control__V1__StopWorkloadRequest request = PROTECT__CONTROL__V1__STOP_WORKLOAD_REQUEST__INIT;
	_free_ char *id = NULL;
	int r = cli_resolve_workload(cli, operands->v[0], &id, err);

	if (r)
		return r;
	request.workload_id = id;
	request.timeout = a->timeout;
	return cli_call(cli, CONTROL, "StopWorkload", &request, NULL, err);
}

static const struct opt options[] = {
	{ "timeout", 0, OPT_U64, AT(struct args, timeout), "SECONDS", "how long it may take to end by itself before it is killed", .def = "the daemon's" },
};

const struct command verb_workload_stop = {
	.name = "stop", .summary = "Ask a workload to end, and kill it if it does not", .operands = "WORKLOAD", .min = 1, .max = 1, .names = NAMES_WORKLOAD,
	OPTIONS(options), .args_size = sizeof(struct args), .run = run,
};
