/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/workload/workload.h"
#include "base/cleanup.h"
#include "cli/pump.h"

#include <unistd.h>

struct args {
	bool follow;
};

static void on_reply(struct pump *pump, const ProtobufCMessage *m, void *user)
{
	const Edera__Node__V1__ReadWorkloadLogsReply *reply = (const void *)m;

	pump_output(pump, STDOUT_FILENO, reply->stdout.data, reply->stdout.len);
	pump_output(pump, STDERR_FILENO, reply->stderr.data, reply->stderr.len);
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	Edera__Node__V1__ReadWorkloadLogsRequest request = EDERA__NODE__V1__READ_WORKLOAD_LOGS_REQUEST__INIT;
	struct pump_spec spec = { .service = NODE, .method = "ReadWorkloadLogs", .first = &request, .reply = on_reply, .guard = true };
	struct pump_result result;
	_free_ char *id = NULL;
	int r = cli_resolve_workload(cli, operands->v[0], &id, err);

	if (r)
		return r;
	request.workload_id = id;
	request.follow = a->follow;
	return pump_whole(cli, &spec, &result, err);
}

static const struct opt options[] = {
	{ "follow", 'f', OPT_FLAG, AT(struct args, follow), NULL, "go on with what comes, until the workload ends or an interrupt" },
};

const struct command verb_workload_logs = {
	.name = "logs", .summary = "Print what a workload has said",
	.about = "Its stdout goes to stdout and its stderr to stderr. On a terminal, bytes that would command it, colours apart, are shown as \\xNN.",
	.operands = "WORKLOAD", .min = 1, .max = 1, .names = NAMES_WORKLOAD, OPTIONS(options), .args_size = sizeof(struct args), .run = run,
};
