/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/workload/console.h"
#include "cli/alloc.h"
#include "cli/interrupt.h"
#include "cli/pump.h"
#include "cli/wait.h"
#include "cli/workload/workload.h"

#include <signal.h>
#include <unistd.h>

typedef Protect__Control__V1__WorkloadConsoleRequest Request;

struct console {
	struct cli *cli;
	const char *id;
	Request first;
	struct pump_spec spec;
	struct pump *pump;
	struct waiter *waiter;
};

static void on_reply(struct pump *pump, const ProtobufCMessage *m, void *user)
{
	const Protect__Control__V1__WorkloadConsoleReply *reply = (const void *)m;

	pump_output(pump, STDOUT_FILENO, reply->stdout.data, reply->stdout.len);
	pump_output(pump, STDERR_FILENO, reply->stderr.data, reply->stderr.len);
}

static int send_input(struct grpc_stream *s, const uint8_t *data, size_t n, void *user)
{
	Request request = PROTECT__CONTROL__V1__WORKLOAD_CONSOLE_REQUEST__INIT;

	request.stdin = (ProtobufCBinaryData){ n, (uint8_t *)data };
	request.stdin_closed = !data;
	return grpc_stream_send(s, (const ProtobufCMessage *)&request);
}

static int send_size(struct grpc_stream *s, uint32_t rows, uint32_t columns, void *user)
{
	Protect__Control__V1__TerminalSize size = PROTECT__CONTROL__V1__TERMINAL_SIZE__INIT;
	Request request = PROTECT__CONTROL__V1__WORKLOAD_CONSOLE_REQUEST__INIT;

	size.rows = rows;
	size.columns = columns;
	request.terminal_resize = &size;
	return grpc_stream_send(s, (const ProtobufCMessage *)&request);
}

struct console *console_open(struct cli *cli, const char *id, bool tty, struct edera_error *err)
{
	struct console *c = need(calloc(1, sizeof *c));

	c->cli = cli;
	c->id = id;
	protect__control__v1__workload_console_request__init(&c->first);
	c->first.workload_id = (char *)id;
	c->spec = (struct pump_spec){
		.service = CONTROL, .method = "AttachWorkloadConsole", .first = &c->first, .send_input = send_input, .send_size = tty ? send_size : NULL,
		.reply = on_reply, .raw = tty,
	};
	c->waiter = wait_open(cli, err);
	if (c->waiter)
		c->pump = pump_open(cli, &c->spec, err);
	if (!c->pump) {
		console_close(c);
		return NULL;
	}
	return c;
}

static bool has_ended(const Protect__Control__V1__Workload *w)
{
	switch (w ? workload_state(w) : PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_DESTROYED) {
	case PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_UNKNOWN:
	case PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_CREATING:
	case PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_CREATED:
	case PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_RUNNING:
		return false;
	default:
		return true;
	}
}

static int exit_status(struct console *c, struct edera_error *err)
{
	Protect__Control__V1__Workload *w _message_ = NULL;
	int r = wait_workload(c->waiter, c->id, has_ended, &w, err);

	if (r)
		return r;
	if (!w)
		return err_set(err, -ECANCELED, "the workload %s was destroyed while it ran", c->id);
	if (workload_state(w) == PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_OOMKILLED)
		cli_warn("the workload was ended because it used up its memory");
	if (w->status->exit_status)
		return w->status->exit_status->code & 0xff;
	if (*workload_failure(w))
		return err_set(err, -EIO, "the workload failed: %s", workload_failure(w));
	return err_set(err, -EIO, "the workload %s ended without an exit status", c->id);
}

int console_run(struct console *c, struct edera_error *err)
{
	struct pump_result result;
	int r = pump_run(c->pump, &result, err);

	if (r)
		return r;
	/* A terminal that goes away leaves a workload running, as Ctrl+] does. */
	if (result.end == PUMP_SIGNAL && result.value == SIGHUP)
		interrupts_done(c->cli);
	if (result.end == PUMP_SIGNAL)
		return 128 + result.value;
	if (result.end == PUMP_DETACHED) {
		fputs("\ndetached; the workload goes on\n", stderr);
		return 0;
	}
	return exit_status(c, err);
}

void console_close(struct console *c)
{
	pump_close(c->pump);
	wait_close(c->waiter);
	free(c);
}
