/* SPDX-License-Identifier: Apache-2.0 */
/* Attaching to a zone's console and to a workload, and reading a workload's kept output. All three view an output; the first two write. */
#include "service.h"
#include "feed.h"
#include "workload.h"
#include "zone.h"

#include <stdlib.h>
#include <string.h>

struct attach {
	struct grpc_call *call;
	struct output_viewer *viewer;
	char id[40]; /* of the zone or workload: looked up at each use, for it may go before the call does */
	struct feed feed;
	struct workload_writer writer;
	bool writing, half_closed, history;
};

static bool writable(void *user) { return grpc_call_writable(((struct attach *)user)->call); }

static void ended(void *user)
{
	struct attach *a = user;

	a->viewer = NULL;
	grpc_call_finish(a->call, RPC_OK, NULL);
}

static struct attach *begin(struct grpc_call *call, const char *id)
{
	struct attach *a = pb_xcalloc(1, sizeof *a);

	a->call = a->feed.call = call;
	snprintf(a->id, sizeof a->id, "%s", id);
	grpc_call_set_user(call, a);
	return a;
}

static struct workload *workload_of(const struct attach *a) { return workload_by_id(SERVICE_DAEMON(a->call), a->id); }

static void closed(struct grpc_call *call)
{
	struct attach *a = grpc_call_user(call);
	struct workload *w;

	if (!a)
		return;
	w = a->writing ? workload_of(a) : NULL;
	if (w)
		workload_remove_writer(w, &a->writer);
	output_viewer_free(a->viewer);
	feed_clear(&a->feed);
	free(a);
}

static void pump(struct grpc_call *call)
{
	struct attach *a = grpc_call_user(call);

	if (a)
		output_viewer_pump(a->viewer);
}

static void not_found(struct grpc_call *call, const char *what, const char *id)
{
	struct edera_error err = EDERA_ERROR_INIT;

	err_set(&err, -ENOENT, "there is no %s with the id '%.100s'", what, id);
	grpc_call_finish_error(call, &err);
}

/* ---- a zone's console ---- */

static void console_chunk(void *user, int stream, const void *data, size_t len)
{
	PB(ZoneConsoleReply) reply = PROTECT__CONTROL__V1__ZONE_CONSOLE_REPLY__INIT;

	(void)stream;
	reply.data = (ProtobufCBinaryData){ len, (uint8_t *)data };
	grpc_call_send(((struct attach *)user)->call, &reply.base);
}

static const struct output_viewer_ops console_ops = { writable, console_chunk, ended };

void service_zone_console(struct grpc_call *call, const ProtobufCMessage *m)
{
	const PB(ZoneConsoleRequest) *q = (const void *)m;
	struct attach *a = grpc_call_user(call);
	struct zone *z = zone_by_id(SERVICE_DAEMON(call), a ? a->id : q->zone_id);

	if (!z) {
		if (!a)
			not_found(call, "zone", q->zone_id);
		return;
	}
	if (!a) {
		a = begin(call, q->zone_id);
		a->history = q->replay_history;
		a->viewer = output_view(z->console, q->replay_history, true, false, &console_ops, a);
	}
	if (q->data.len)
		zone_console_write(z, q->data.data, q->data.len);
	output_viewer_pump(a->viewer);
}

/* A client that only wanted the history says so by sending no more. */
void service_zone_console_half_closed(struct grpc_call *call)
{
	struct attach *a = grpc_call_user(call);

	if (!a)
		grpc_call_finish(call, RPC_INVALID_ARGUMENT, "the first message must name a zone");
	else if (a->viewer && a->history)
		output_viewer_unfollow(a->viewer);
}

void service_zone_console_writable(struct grpc_call *call) { pump(call); }
void service_zone_console_closed(struct grpc_call *call) { closed(call); }

/* ---- a workload's streams ---- */

static void workload_chunk(void *user, int stream, const void *data, size_t len)
{
	PB(WorkloadConsoleReply) reply = PROTECT__CONTROL__V1__WORKLOAD_CONSOLE_REPLY__INIT;

	if (stream == 2)
		reply.stderr = (ProtobufCBinaryData){ len, (uint8_t *)data };
	else
		reply.stdout = (ProtobufCBinaryData){ len, (uint8_t *)data };
	grpc_call_send(((struct attach *)user)->call, &reply.base);
}

static const struct output_viewer_ops workload_ops = { writable, workload_chunk, ended };

static void stdin_writable(struct workload_writer *x)
{
	struct attach *a = (struct attach *)((char *)x - offsetof(struct attach, writer));
	struct workload *w = workload_of(a);

	if (feed_go_on(&a->feed, w ? w->process : NULL) && a->writing) {
		a->writing = false;
		if (w)
			workload_remove_writer(w, x);
	}
}

static void write_stdin(struct attach *a, struct workload *w, const void *data, size_t len, bool close_after)
{
	if (feed_write(&a->feed, w->process, data, len, close_after) || a->writing)
		return;
	a->writing = true;
	a->writer.writable = stdin_writable;
	workload_add_writer(w, &a->writer);
}

void service_workload_console(struct grpc_call *call, const ProtobufCMessage *m)
{
	const PB(WorkloadConsoleRequest) *q = (const void *)m;
	struct attach *a = grpc_call_user(call);
	struct workload *w = workload_by_id(SERVICE_DAEMON(call), a ? a->id : q->workload_id);

	if (!w) {
		if (!a)
			not_found(call, "workload", q->workload_id);
		return;
	}
	if (!a) {
		a = begin(call, q->workload_id);
		a->viewer = output_view(w->output, false, true, true, &workload_ops, a);
	}
	if (q->stdin.len || q->stdin_closed)
		write_stdin(a, w, q->stdin.data, q->stdin.len, q->stdin_closed);
	if (q->terminal_resize && w->process)
		agent_process_resize(w->process, q->terminal_resize->rows, q->terminal_resize->columns);
	output_viewer_pump(a->viewer);
}

void service_workload_console_half_closed(struct grpc_call *call)
{
	if (!grpc_call_user(call))
		grpc_call_finish(call, RPC_INVALID_ARGUMENT, "the first message must name a workload");
}

void service_workload_console_writable(struct grpc_call *call) { pump(call); }
void service_workload_console_closed(struct grpc_call *call) { closed(call); }

/* ---- a workload's kept output ---- */

static void logs_chunk(void *user, int stream, const void *data, size_t len)
{
	Edera__Node__V1__ReadWorkloadLogsReply reply = EDERA__NODE__V1__READ_WORKLOAD_LOGS_REPLY__INIT;

	if (stream == 2)
		reply.stderr = (ProtobufCBinaryData){ len, (uint8_t *)data };
	else
		reply.stdout = (ProtobufCBinaryData){ len, (uint8_t *)data };
	grpc_call_send(((struct attach *)user)->call, &reply.base);
}

static const struct output_viewer_ops logs_ops = { writable, logs_chunk, ended };

void service_workload_logs(struct grpc_call *call, const ProtobufCMessage *m)
{
	const Edera__Node__V1__ReadWorkloadLogsRequest *q = (const void *)m;
	struct workload *w = workload_by_id(SERVICE_DAEMON(call), q->workload_id);
	struct attach *a;

	if (!w) {
		not_found(call, "workload", q->workload_id);
		return;
	}
	a = begin(call, q->workload_id);
	a->viewer = output_view(w->output, true, q->follow, false, &logs_ops, a);
	output_viewer_pump(a->viewer);
}

void service_workload_logs_writable(struct grpc_call *call) { pump(call); }
void service_workload_logs_closed(struct grpc_call *call) { closed(call); }
