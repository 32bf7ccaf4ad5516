/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/zone/zone.h"
#include "base/cleanup.h"
#include "cli/pump.h"

#include <unistd.h>

struct args {
	bool history;
};

static void on_reply(struct pump *pump, const ProtobufCMessage *m, void *user)
{
	const Protect__Control__V1__ZoneConsoleReply *reply = (const void *)m;

	pump_output(pump, STDOUT_FILENO, reply->data.data, reply->data.len);
}

static int send_input(struct grpc_stream *s, const uint8_t *data, size_t n, void *user)
{
	Protect__Control__V1__ZoneConsoleRequest request = PROTECT__CONTROL__V1__ZONE_CONSOLE_REQUEST__INIT;

	if (!data) {
		grpc_stream_half_close(s);
		return 0;
	}
	request.data = (ProtobufCBinaryData){ n, (uint8_t *)data };
	return grpc_stream_send(s, (const ProtobufCMessage *)&request);
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	Protect__Control__V1__ZoneConsoleRequest request = PROTECT__CONTROL__V1__ZONE_CONSOLE_REQUEST__INIT;
	struct pump_spec spec = { .service = CONTROL, .method = "AttachZoneConsole", .first = &request, .reply = on_reply, .send_input = send_input, .raw = true };
	struct pump_result result;
	_free_ char *id = NULL;
	int r = cli_resolve_zone(cli, operands->v[0], &id, err);

	if (r)
		return r;
	request.zone_id = id;
	request.replay_history = a->history;
	if (isatty(STDIN_FILENO))
		fputs("Ctrl+] leaves the console.\n", stderr);
	return pump_whole(cli, &spec, &result, err);
}

static const struct opt options[] = {
	{ "history", 0, OPT_FLAG, AT(struct args, history), NULL, "first print what the console has shown so far" },
};

const struct command verb_zone_attach = {
	.name = "attach", .summary = "Connect this terminal to the console of a zone", .about = "Ctrl+] leaves it again.",
	.operands = "ZONE", .min = 1, .max = 1, .names = NAMES_ZONE, OPTIONS(options), .args_size = sizeof(struct args), .run = run,
};
