/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/grpc.h"

struct unary {
	ProtobufCMessage *answer;
	size_t answers;
	bool over;
	enum rpc_status status;
	struct edera_error *err;
};

static void unary_message(struct grpc_stream *st, const ProtobufCMessage *m, void *user)
{
	struct unary *u = user;

	if (u->answers++)
		return;
	u->answer = (ProtobufCMessage *)m;
	grpc_stream_keep(st);
}

static void unary_done(struct grpc_stream *st, enum rpc_status status, const char *message, void *user)
{
	struct unary *u = user;

	u->over = true;
	u->status = status;
	if (status)
		err_set(u->err, rpc_errno_of_status(status), "%s", *message ? message : rpc_status_name(status));
}

/* 0, or the call's error with the answer dropped. */
static int outcome(struct unary *u, const char *method)
{
	if (u->status)
		return rpc_errno_of_status(u->status);
	if (u->answers == 1)
		return 0;
	u->status = RPC_INTERNAL;
	return err_set(u->err, rpc_errno_of_status(RPC_INTERNAL), "the server gave %zu answers to %s where one was expected", u->answers, method);
}

int grpc_client_unary(struct grpc_client *client, const ProtobufCServiceDescriptor *service, const char *method, const ProtobufCMessage *request,
		      uint64_t timeout_ms, ProtobufCMessage **ret, enum rpc_status *ret_status, struct edera_error *err)
{
	static const struct grpc_stream_ops ops = { .message = unary_message, .done = unary_done };
	struct unary u = { .err = err };
	struct grpc_stream *st = grpc_client_open(client, service, method, timeout_ms, &ops, &u);
	int r;

	if (!st)
		return err_set(err, -ENOMEM, "cannot call %s: out of memory", method);
	r = grpc_stream_send(st, request);
	grpc_stream_half_close(st);
	if (r == -EMSGSIZE || r == -ENOMEM)
		grpc_stream_cancel(st);
	while (!u.over)
		uv_run(grpc_client_loop(client), UV_RUN_ONCE);
	if (r == -EMSGSIZE || r == -ENOMEM) {
		u.status = RPC_RESOURCE_EXHAUSTED;
		r = err_errno(err, r, "cannot send the request of %s", method);
	} else {
		r = outcome(&u, method);
	}
	if (ret_status)
		*ret_status = u.status;
	if (r && u.answer)
		protobuf_c_message_free_unpacked(u.answer, NULL);
	if (!r)
		*ret = u.answer;
	return r;
}
