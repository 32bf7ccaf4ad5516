/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec.h"
#include "cli/message.h"
#include "cli/pump.h"
#include "cli/terminal.h"

#include <unistd.h>

typedef Protect__Control__V1__ExecuteZoneCommandRequest Request;

static void on_reply(struct pump *pump, const ProtobufCMessage *m, void *user)
{
	const Protect__Control__V1__ExecuteZoneCommandReply *reply = (const void *)m;

	if (reply->reply_case == PROTECT__CONTROL__V1__EXECUTE_ZONE_COMMAND_REPLY__REPLY_OUTPUT) {
		pump_output(pump, STDOUT_FILENO, reply->output->stdout.data, reply->output->stdout.len);
		pump_output(pump, STDERR_FILENO, reply->output->stderr.data, reply->output->stderr.len);
	} else if (reply->reply_case == PROTECT__CONTROL__V1__EXECUTE_ZONE_COMMAND_REPLY__REPLY_EXITED) {
		*(bool *)user = true;
		pump_finish(pump, reply->exited->exit_code);
	}
}

static int send_input(struct grpc_stream *s, const uint8_t *data, size_t n, void *user)
{
	Protect__Control__V1__ExecuteZoneCommandStdin input = PROTECT__CONTROL__V1__EXECUTE_ZONE_COMMAND_STDIN__INIT;
	Request request = PROTECT__CONTROL__V1__EXECUTE_ZONE_COMMAND_REQUEST__INIT;

	input.stdin = (ProtobufCBinaryData){ n, (uint8_t *)data };
	input.closed = !data;
	request.request_case = PROTECT__CONTROL__V1__EXECUTE_ZONE_COMMAND_REQUEST__REQUEST_STDIN;
	request.stdin = &input;
	return grpc_stream_send(s, (const ProtobufCMessage *)&request);
}

static int send_size(struct grpc_stream *s, uint32_t rows, uint32_t columns, void *user)
{
	Protect__Control__V1__TerminalSize size = PROTECT__CONTROL__V1__TERMINAL_SIZE__INIT;
	Protect__Control__V1__ExecuteZoneCommandTerminalResize resize = PROTECT__CONTROL__V1__EXECUTE_ZONE_COMMAND_TERMINAL_RESIZE__INIT;
	Request request = PROTECT__CONTROL__V1__EXECUTE_ZONE_COMMAND_REQUEST__INIT;

	size.rows = rows;
	size.columns = columns;
	resize.size = &size;
	request.request_case = PROTECT__CONTROL__V1__EXECUTE_ZONE_COMMAND_REQUEST__REQUEST_TERMINAL_RESIZE;
	request.terminal_resize = &resize;
	return grpc_stream_send(s, (const ProtobufCMessage *)&request);
}

static int fill_process(Protect__Control__V1__ProcessSpec *p, const struct exec_args *a, const char *const *argv, size_t argc)
{
	uint32_t rows, columns;

	for (size_t i = 0; i < argc; i++)
		message_add_string(&p->command, &p->n_command, argv[i]);
	message_set(&p->working_directory, a->directory);
	if (a->user)
		message_set_user(p, a->user);
	p->tty = a->tty;
	p->stdin = p->stdout = p->stderr = true;
	if (a->tty && terminal_size(&rows, &columns)) {
		p->terminal_size = message_new(&protect__control__v1__terminal_size__descriptor);
		p->terminal_size->rows = rows;
		p->terminal_size->columns = columns;
	}
	return message_add_environment(p, &a->environment);
}

int exec_run(struct cli *cli, const char *zone_id, const char *workload_id, const struct exec_args *a, const char *const *argv, size_t argc, struct edera_error *err)
{
	Request *request _message_ = message_new(&protect__control__v1__execute_zone_command_request__descriptor);
	Protect__Control__V1__ExecuteZoneCommandStart *start = message_new(&protect__control__v1__execute_zone_command_start__descriptor);
	bool exited = false;
	struct pump_spec spec = {
		.service = CONTROL, .method = "ExecuteZoneCommand", .first = request, .send_input = send_input, .reply = on_reply,
		.send_size = a->tty ? send_size : NULL, .raw = a->tty, .user = &exited,
	};
	struct pump_result result;
	int r;

	request->request_case = PROTECT__CONTROL__V1__EXECUTE_ZONE_COMMAND_REQUEST__REQUEST_START;
	request->start = start;
	message_set(&start->zone_id, zone_id);
	message_set(&start->workload_id, workload_id);
	start->process = message_new(&protect__control__v1__process_spec__descriptor);
	r = fill_process(start->process, a, argv, argc);
	if (!r)
		r = pump_whole(cli, &spec, &result, err);
	if (r || result.end != PUMP_DONE)
		return r;
	return exited ? result.value & 0xff : err_set(err, -EPROTO, "the daemon ended the call without the exit status of the command");
}
