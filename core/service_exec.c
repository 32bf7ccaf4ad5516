/* SPDX-License-Identifier: Apache-2.0 */
/* ExecuteZoneCommand: one process in a zone or in a workload, its streams on the call's two directions. */
#include "service.h"
#include "base/text.h"
#include "feed.h"
#include "workload.h"
#include "zone.h"

#include <stdlib.h>
#include <string.h>

struct exec {
	struct grpc_call *call;
	struct agent_process *process;
	struct feed feed;
	bool paused, finished;
};

static void output(struct agent_process *p, enum agent_stream stream, uint64_t offset, const uint8_t *data, size_t len, void *user)
{
	PB(ExecuteZoneCommandReply) reply = PROTECT__CONTROL__V1__EXECUTE_ZONE_COMMAND_REPLY__INIT;
	PB(ExecuteZoneCommandOutput) out = PROTECT__CONTROL__V1__EXECUTE_ZONE_COMMAND_OUTPUT__INIT;
	ProtobufCBinaryData bytes = { len, (uint8_t *)data };
	struct exec *x = user;

	(void)offset;
	if (stream == AGENT_STDERR)
		out.stderr = bytes;
	else
		out.stdout = bytes;
	reply.reply_case = PROTECT__CONTROL__V1__EXECUTE_ZONE_COMMAND_REPLY__REPLY_OUTPUT;
	reply.output = &out;
	grpc_call_send(x->call, &reply.base);
	if (!grpc_call_writable(x->call)) {
		x->paused = true;
		agent_process_pause(p);
	}
}

static void writable(struct agent_process *p, void *user)
{
	struct exec *x = user;

	feed_go_on(&x->feed, p);
}

static void done(struct agent_process *p, const struct agent_exit *ex, const struct edera_error *err, void *user)
{
	PB(ExecuteZoneCommandReply) reply = PROTECT__CONTROL__V1__EXECUTE_ZONE_COMMAND_REPLY__INIT;
	PB(ExecuteZoneCommandExited) exited = PROTECT__CONTROL__V1__EXECUTE_ZONE_COMMAND_EXITED__INIT;
	struct exec *x = user;

	x->process = NULL;
	x->finished = true;
	agent_process_free(p, !err || err->code != -ECANCELED);
	if (err && err->code == -ECANCELED) {
		grpc_call_finish(x->call, RPC_UNAVAILABLE, "the zone ended while the command ran");
		return;
	}
	if (err) {
		grpc_call_finish_error(x->call, err);
		return;
	}
	exited.exit_code = ex->code;
	reply.reply_case = PROTECT__CONTROL__V1__EXECUTE_ZONE_COMMAND_REPLY__REPLY_EXITED;
	reply.exited = &exited;
	grpc_call_send(x->call, &reply.base);
	grpc_call_finish(x->call, RPC_OK, NULL);
}

static const struct agent_process_ops ops = { output, writable, done };

static void fail(struct exec *x, const struct edera_error *err)
{
	x->finished = true;
	grpc_call_finish_error(x->call, err);
}

/* The zone is named, or (the public protocol allows it) only the workload. */
static struct zone *zone_of(struct daemon *d, const PB(ExecuteZoneCommandStart) *s, struct edera_error *err)
{
	struct workload *w = *s->workload_id ? workload_by_id(d, s->workload_id) : NULL;
	struct zone *z;

	if (*s->workload_id && !w) {
		err_set(err, -ENOENT, "there is no workload with the id '%.100s'", s->workload_id);
		return NULL;
	}
	if (w && workload_state(w) != PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_RUNNING) {
		err_set(err, -EBUSY, "the workload '%s' is %s, not running", w->pb->spec->name, workload_state_name(workload_state(w)));
		return NULL;
	}
	z = zone_by_id(d, w && !*s->zone_id ? w->pb->spec->zone_id : s->zone_id);
	if (!z)
		err_set(err, -ENOENT, "there is no zone with the id '%.100s'", s->zone_id);
	else if (w && strcmp(w->pb->spec->zone_id, z->pb->id))
		z = (err_set(err, -EINVAL, "the workload '%s' is not in the zone '%s'", w->pb->spec->name, z->pb->spec->name), NULL);
	else if (!zone_ready(z))
		z = (zone_not_ready(z, err), NULL);
	return z;
}

static void start(struct exec *x, const PB(ExecuteZoneCommandStart) *s)
{
	Edera__Agent__V1__ExecRequest q = EDERA__AGENT__V1__EXEC_REQUEST__INIT;
	struct edera_error err = EDERA_ERROR_INIT;
	struct zone *z = zone_of(SERVICE_DAEMON(x->call), s, &err);
	char id[37];

	if (!z) {
		fail(x, &err);
		return;
	}
	if (!s->process || !s->process->n_command) {
		err_set(&err, -EINVAL, "the request names no command");
		fail(x, &err);
		return;
	}
	text_uuid(id);
	q.id = id;
	q.workload_id = s->workload_id;
	q.process = s->process;
	x->process = agent_process_exec(z->agent, &q, &ops, x);
	if (!x->process) {
		err_errno(&err, -ENOMEM, "cannot follow the command");
		fail(x, &err);
	}
}

void service_execute(struct grpc_call *call, const ProtobufCMessage *m)
{
	const PB(ExecuteZoneCommandRequest) *q = (const void *)m;
	struct exec *x = grpc_call_user(call);

	if (!x) {
		x = pb_xcalloc(1, sizeof *x);
		x->call = x->feed.call = call;
		grpc_call_set_user(call, x);
		if (q->request_case == PROTECT__CONTROL__V1__EXECUTE_ZONE_COMMAND_REQUEST__REQUEST_START) {
			start(x, q->start);
			return;
		}
		x->finished = true;
		grpc_call_finish(call, RPC_INVALID_ARGUMENT, "the first message must say what to start");
		return;
	}
	if (x->finished || !x->process)
		return;
	if (q->request_case == PROTECT__CONTROL__V1__EXECUTE_ZONE_COMMAND_REQUEST__REQUEST_STDIN)
		feed_write(&x->feed, x->process, q->stdin->stdin.data, q->stdin->stdin.len, q->stdin->closed);
	else if (q->request_case == PROTECT__CONTROL__V1__EXECUTE_ZONE_COMMAND_REQUEST__REQUEST_TERMINAL_RESIZE && q->terminal_resize->size)
		agent_process_resize(x->process, q->terminal_resize->size->rows, q->terminal_resize->size->columns);
}

void service_execute_half_closed(struct grpc_call *call)
{
	struct exec *x = grpc_call_user(call);

	if (!x)
		grpc_call_finish(call, RPC_INVALID_ARGUMENT, "the request says nothing to start");
	else if (x->process)
		feed_write(&x->feed, x->process, NULL, 0, true);
}

void service_execute_writable(struct grpc_call *call)
{
	struct exec *x = grpc_call_user(call);

	if (x && x->paused && x->process) {
		x->paused = false;
		agent_process_resume(x->process);
	}
}

void service_execute_closed(struct grpc_call *call)
{
	struct exec *x = grpc_call_user(call);

	if (!x)
		return;
	agent_process_free(x->process, true);
	feed_clear(&x->feed);
	free(x);
}
