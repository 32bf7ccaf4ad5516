/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/workload/workload.h"
#include "base/cleanup.h"
#include "cli/destroy.h"

struct args {
	bool wait;
	struct strings selectors;
};

typedef Protect__Control__V1__Workload Workload;

static bool is_over(const Workload *w)
{
	return !w || workload_state(w) == PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_DESTROYED || workload_state(w) == PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_FAILED;
}

int workload_destroy(struct cli *cli, struct waiter *w, const char *id, struct edera_error *err)
{
	Protect__Control__V1__DestroyWorkloadRequest request = PROTECT__CONTROL__V1__DESTROY_WORKLOAD_REQUEST__INIT;
	Workload *last _message_ = NULL;
	int r;

	request.workload_id = (char *)id;
	r = cli_call(cli, CONTROL, "DestroyWorkload", &request, NULL, err);
	if (!r && w)
		r = wait_workload(w, id, is_over, &last, err);
	if (!r && last && workload_state(last) == PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_FAILED)
		r = err_set(err, -EIO, "cannot destroy the workload '%s' (%s): %s", workload_name(last), id,
			*workload_failure(last) ? workload_failure(last) : "the daemon gives no reason");
	return r;
}

static const char *row_id(const void *row) { return ((const Workload *)row)->id; }
static const char *row_name(const void *row) { return workload_name(row); }

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	static const struct destroyable workloads = { "workload", &protect__control__v1__workload__descriptor, cli_resolve_workload, workload_collect, row_id, row_name, workload_destroy };
	const struct args *a = args;

	if (!!a->selectors.n == !!operands->n)
		return cli_bad_usage(operands->n ? "name workloads, or choose them by --selector, not both" : "which workload? name it, or give --selector");
	return destroy_run(cli, &workloads, a->wait, operands, &a->selectors, err);
}

static const struct opt options[] = {
	{ "wait", 'W', OPT_FLAG, AT(struct args, wait), NULL, "return when it is gone" },
	{ "selector", 'l', OPT_LIST, AT(struct args, selectors), "FIELD=VALUE", "all workloads that have this value there, e.g. status.state=completed" },
};

const struct command verb_workload_destroy = {
	.name = "destroy", .summary = "Destroy workloads, running or not", .operands = "[WORKLOAD...]", .max = ANY, .names = NAMES_WORKLOAD,
	OPTIONS(options), .args_size = sizeof(struct args), .run = run,
};
