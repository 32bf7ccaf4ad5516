/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/workload/workload.h"
#include "base/cleanup.h"
#include "cli/workload/console.h"

/* Raw mode is for a workload that has a terminal; one without is not to see Ctrl+C as a byte. */
static int has_terminal(struct cli *cli, const char *id, bool *ret, struct edera_error *err)
{
	Protect__Control__V1__GetWorkloadRequest request = PROTECT__CONTROL__V1__GET_WORKLOAD_REQUEST__INIT;
	Protect__Control__V1__GetWorkloadReply *reply _message_ = NULL;
	int r;

	request.workload_id = (char *)id;
	r = cli_call(cli, CONTROL, "GetWorkload", &request, &reply, err);
	if (!r)
		*ret = reply->workload && reply->workload->spec && reply->workload->spec->process && reply->workload->spec->process->tty;
	return r;
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	_free_ char *id = NULL;
	struct console *c;
	bool tty = false;
	int r = cli_resolve_workload(cli, operands->v[0], &id, err);

	if (!r)
		r = has_terminal(cli, id, &tty, err);
	if (r)
		return r;
	c = console_open(cli, id, tty, err);
	if (!c)
		return err->code ? err->code : -EIO;
	r = console_run(c, err);
	console_close(c);
	return r;
}

const struct command verb_workload_attach = {
	.name = "attach", .summary = "Connect stdin, stdout and stderr to a running workload",
	.about = "The exit status is the workload's once it ends. Ctrl+] leaves a workload that has a terminal; an interrupt leaves one that has none.",
	.operands = "WORKLOAD", .min = 1, .max = 1, .names = NAMES_WORKLOAD, .run = run,
};
