/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/workload/workload.h"
#include "base/cleanup.h"
#include "cli/wait.h"

struct args {
	bool wait;
	struct strings selectors;
};

static bool is_gone(const Protect__Control__V1__Workload *w)
{
	return !w || workload_state(w) == PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_DESTROYED;
}

static int destroy(struct cli *cli, struct waiter *w, const char *id, struct edera_error *err)
{
	Protect__Control__V1__DestroyWorkloadRequest request = PROTECT__CONTROL__V1__DESTROY_WORKLOAD_REQUEST__INIT;
	Protect__Control__V1__Workload *last _message_ = NULL;
	int r;

	request.workload_id = (char *)id;
	r = cli_call(cli, CONTROL, "DestroyWorkload", &request, NULL, err);
	return r || !w ? r : wait_workload(w, id, is_gone, &last, err);
}

static int destroy_named(struct cli *cli, struct waiter *w, const struct strings *names, struct edera_error *err)
{
	int failed = 0;

	for (size_t i = 0; i < names->n; i++) {
		struct edera_error one = EDERA_ERROR_INIT;
		_free_ char *id = NULL;
		int r = cli_resolve_workload(cli, names->v[i], &id, &one);

		if (!r)
			r = destroy(cli, w, id, &one);
		if (!r)
			continue;
		if (names->n == 1) {
			*err = one;
			return r;
		}
		cli_warn("%s", one.msg);
		failed = 1;
	}
	return failed;
}

static int destroy_selected(struct cli *cli, struct waiter *w, const struct strings *selectors, struct edera_error *err)
{
	struct replies replies _replies_ = { 0 };
	struct list list _list_ = { 0 };
	int r = workload_collect(cli, &replies, &list, err), failed = 0;

	if (!r)
		r = list_select(&list, selectors, &protect__control__v1__workload__descriptor);
	if (r)
		return r;
	for (size_t i = 0; i < list.n; i++) {
		const Protect__Control__V1__Workload *workload = list.rows[i];
		struct edera_error one = EDERA_ERROR_INIT;

		if (destroy(cli, w, workload->id, &one)) {
			cli_warn("workload '%s': %s", workload_name(workload), one.msg);
			failed = 1;
		}
	}
	return failed;
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	struct waiter *w = NULL;
	int r;

	if (!!a->selectors.n == !!operands->n)
		return cli_bad_usage(operands->n ? "name workloads, or choose them by --selector, not both" : "which workload? name it, or give --selector");
	if (a->wait) {
		w = wait_open(cli, err);
		if (!w)
			return -EIO;
	}
	r = operands->n ? destroy_named(cli, w, operands, err) : destroy_selected(cli, w, &a->selectors, err);
	wait_close(w);
	return r;
}

static const struct opt options[] = {
	{ "wait", 'W', OPT_FLAG, AT(struct args, wait), NULL, "return when it is gone" },
	{ "selector", 'l', OPT_LIST, AT(struct args, selectors), "FIELD=VALUE", "all workloads that have this value there, e.g. status.state=completed" },
};

const struct command verb_workload_destroy = {
	.name = "destroy", .summary = "Destroy workloads, running or not", .operands = "[WORKLOAD...]", .max = ANY, .names = NAMES_WORKLOAD,
	OPTIONS(options), .args_size = sizeof(struct args), .run = run,
};
