/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec.h"
#include "base/cleanup.h"
#include "cli/workload/workload.h"

#include <string.h>

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	Protect__Control__V1__GetWorkloadRequest request = PROTECT__CONTROL__V1__GET_WORKLOAD_REQUEST__INIT;
	Protect__Control__V1__GetWorkloadReply *reply _message_ = NULL;
	_free_ char *id = NULL;
	int r = cli_resolve_workload(cli, operands->v[0], &id, err);

	if (r)
		return r;
	request.workload_id = id;
	r = cli_call(cli, CONTROL, "GetWorkload", &request, &reply, err);
	if (r)
		return r;
	if (!reply->workload || !reply->workload->spec)
		return err_set(err, -ENOENT, "unable to resolve workload '%s'", operands->v[0]);
	return exec_run(cli, reply->workload->spec->zone_id, id, args, operands->v + 1, operands->n - 1, err);
}

static const struct opt options[] = { EXEC_OPTIONS(struct exec_args) };

static const struct example examples[] = {
	{ "protect workload exec hello cat /etc/os-release", NULL },
	{ "protect workload exec -t hello sh", NULL },
	{ 0 },
};

const struct command verb_workload_exec = {
	.name = "exec", .summary = "Run a command in a running workload",
	.about = "Everything behind the workload's name belongs to the command. stdin, stdout and stderr are connected; the exit status is the command's. "
		 "With --tty, Ctrl+] leaves the command behind.",
	.operands = "WORKLOAD COMMAND...", .min = 2, .max = ANY, .end_after = 1, .names = NAMES_WORKLOAD, OPTIONS(options), .args_size = sizeof(struct exec_args),
	.run = run, .examples = examples,
};
