/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/zone/zone.h"
#include "base/cleanup.h"
#include "cli/pump.h"

#include <unistd.h>

struct args {
	bool follow;
};

static void on_reply(struct pump *pump, const ProtobufCMessage *m, void *user)
{
	const Protect__Control__V1__ZoneConsoleReply *reply = (const void *)m;

	pump_output(pump, STDOUT_FILENO, reply->data.data, reply->data.len);
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	Protect__Control__V1__ZoneConsoleRequest request = PROTECT__CONTROL__V1__ZONE_CONSOLE_REQUEST__INIT;
	/* The console ends after its history once we say that we send nothing; while we might, it goes on. */
	struct pump_spec spec = { .service = CONTROL, .method = "AttachZoneConsole", .first = &request, .reply = on_reply, .guard = true, .hold_open = a->follow };
	struct pump_result result;
	_free_ char *id = NULL;
	int r = cli_resolve_zone(cli, operands->v[0], &id, err);

	if (r)
		return r;
	request.zone_id = id;
	request.replay_history = true;
	return pump_whole(cli, &spec, &result, err);
}

static const struct opt options[] = {
	{ "follow", 'f', OPT_FLAG, AT(struct args, follow), NULL, "go on with what comes, until the zone ends or an interrupt" },
};

static const struct example examples[] = {
	{ "protect zone logs web", NULL },
	{ "protect zone logs --follow web", NULL },
	{ 0 },
};

const struct command verb_zone_logs = {
	.name = "logs", .summary = "Print what the console of a zone has shown",
	.about = "On a terminal, bytes that would command it, colours apart, are shown as \\xNN; in a pipe or a file they are as they came.",
	.operands = "ZONE", .min = 1, .max = 1, .names = NAMES_ZONE, OPTIONS(options), .args_size = sizeof(struct args), .run = run, .examples = examples,
};
