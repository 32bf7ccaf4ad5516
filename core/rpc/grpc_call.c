/* SPDX-License-Identifier: Apache-2.0 */
/* One call being served: from request headers to trailers. */
#include "rpc/grpc_server.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/cleanup.h"
#include "rpc/grpc_text.h"

#define PATH_MAX_BYTES 512u

struct grpc_call {
	struct h2_stream s;                       /* first */
	const struct grpc_service *service;
	const struct grpc_method *method;
	const ProtobufCMethodDescriptor *descriptor;
	void *user;
	ProtobufCMessage *request;                /* of one-request methods, until the client has half-closed */
	int64_t deadline_ns;

	/* from the headers */
	char *path;
	char user_agent[128];
	uint64_t timeout_ns;
	bool post, grpc_type, has_timeout, bad_timeout, bad_encoding;

	bool started;                             /* the application knows of it */
	bool responded;                           /* response headers are submitted */
	bool finished, cancelled;
	enum rpc_status status;
	char *message;                            /* encoded */
};

static struct grpc_call *call_of(struct h2_stream *s) { return (struct grpc_call *)s; }

static struct grpc_serving *serving_of(const struct grpc_call *call) { return call->s.conn->owner; }

/* ---- answer ---- */

/* nghttp2's session, or NULL if the stream is no longer there. */
static nghttp2_session *session_of(struct grpc_call *call) { return call->s.id ? call->s.conn->session : NULL; }

static size_t put_trailers(struct grpc_call *call, char status[12], nghttp2_nv *dst)
{
	snprintf(status, 12, "%u", (unsigned)call->status);
	dst[0] = h2_nv("grpc-status", status);
	if (!call->message || !*call->message)
		return 1;
	dst[1] = h2_nv("grpc-message", call->message);
	return 2;
}

static void submit_trailers(struct h2_stream *s)
{
	nghttp2_nv headers[2];
	char status[12];
	size_t n = put_trailers(call_of(s), status, headers);

	if (session_of(call_of(s)))
		nghttp2_submit_trailer(s->conn->session, s->id, headers, n);
}

/* Response headers; `last` makes them the whole answer. */
static void respond(struct grpc_call *call, bool last)
{
	nghttp2_nv headers[5] = { h2_nv(":status", "200"), h2_nv("content-type", "application/grpc"), h2_nv("grpc-accept-encoding", "identity") };
	nghttp2_data_provider provider = h2_stream_provider();
	size_t n = 3;
	char status[12];

	if (call->responded || !session_of(call))
		return;
	call->responded = true;
	if (last) {
		n += put_trailers(call, status, headers + n);
		call->s.ended = true;
	}
	if (nghttp2_submit_response(session_of(call), call->s.id, headers, n, last ? NULL : &provider))
		h2_stream_reset(&call->s, NGHTTP2_INTERNAL_ERROR);
	h2_conn_wake(call->s.conn);
}

static void respond_http(struct grpc_call *call, const char *http_status)
{
	nghttp2_nv headers[] = { h2_nv(":status", http_status) };

	call->finished = call->responded = call->s.ended = true;
	h2_stream_discard(&call->s);
	if (session_of(call))
		nghttp2_submit_response(session_of(call), call->s.id, headers, 1, NULL);
	h2_conn_wake(call->s.conn);
}

static void set_status(struct grpc_call *call, enum rpc_status status, const char *message)
{
	call->finished = true;
	call->status = status;
	call->message = message ? grpc_text_encode(message) : NULL;
	h2_stream_discard(&call->s);
}

void grpc_call_finish(struct grpc_call *call, enum rpc_status status, const char *message)
{
	if (call->finished)
		return;
	set_status(call, status, message);
	if (call->responded)
		h2_stream_end(&call->s);
	else
		respond(call, true);
}

void grpc_call_finish_error(struct grpc_call *call, const struct edera_error *err)
{
	grpc_call_finish(call, err->code ? rpc_status_of_errno(err->code) : RPC_UNKNOWN, err->msg);
}

int grpc_call_send(struct grpc_call *call, const ProtobufCMessage *m)
{
	if (call->finished || call->s.aborted)
		return -EPIPE;
	respond(call, false);
	return h2_stream_send(&call->s, m);
}

void grpc_call_reply(struct grpc_call *call, const ProtobufCMessage *m)
{
	int r = grpc_call_send(call, m);

	if (r == -EPIPE)
		return;
	if (r == -EMSGSIZE)
		grpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "the answer is larger than a message may be");
	else if (r)
		grpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "too many answers wait on this connection");
	else
		grpc_call_finish(call, RPC_OK, NULL);
}

/* ---- end ---- */

static void end_life(struct grpc_call *call)
{
	call->s.aborted = true;
	if (call->started && call->method->closed)
		call->method->closed(call);
	if (call->request)
		protobuf_c_message_free_unpacked(call->request, NULL);
	free(call->message);
	free(call->path);
	call->message = call->path = NULL;
	h2_stream_free(&call->s);
}

static void call_closed(struct h2_stream *s)
{
	struct grpc_call *call = call_of(s);

	call->cancelled |= !s->ended || s->lost;
	end_life(call);
}

void grpc_call_abandon(struct h2_stream *s, enum rpc_status status, const char *message)
{
	struct grpc_call *call = call_of(s);

	call->cancelled = true;
	h2_stream_drop_output(s);
	if (call->finished) {
		if (!s->ended) /* our answer is stuck behind a reader that does not read */
			h2_stream_reset(s, NGHTTP2_CANCEL);
	} else {
		set_status(call, status, message);
		if (call->responded)
			submit_trailers(s); /* not through the queue: HTTP/2's window may be shut, which does not hold trailers */
		else
			respond(call, true);
	}
	end_life(call);
}

static void call_deadline(struct h2_stream *s) { grpc_call_abandon(s, RPC_DEADLINE_EXCEEDED, "the deadline has passed"); }

/* ---- request ---- */

static struct h2_stream *call_accept(struct h2_conn *c)
{
	struct grpc_call *call = calloc(1, sizeof *call);

	if (!call)
		return NULL;
	h2_stream_init(&call->s, c);
	return &call->s;
}

static void call_header(struct h2_stream *s, const char *name, const char *value, size_t len)
{
	struct grpc_call *call = call_of(s);

	if (s->opened)
		return; /* trailers of a client mean nothing */
	if (strcmp(name, ":method") == 0)
		call->post = strcmp(value, "POST") == 0;
	else if (strcmp(name, ":path") == 0 && !call->path)
		call->path = len <= PATH_MAX_BYTES ? strndup(value, len) : NULL;
	else if (strcmp(name, "content-type") == 0)
		call->grpc_type = grpc_text_is_content_type(value, len);
	else if (strcmp(name, "grpc-encoding") == 0)
		call->bad_encoding = strcmp(value, "identity") != 0;
	else if (strcmp(name, "user-agent") == 0)
		snprintf(call->user_agent, sizeof call->user_agent, "%s", value);
	else if (strcmp(name, "grpc-timeout") == 0) {
		call->has_timeout = true;
		call->bad_timeout = grpc_text_parse_timeout(value, len, &call->timeout_ns) != 0;
	}
}

static void start_deadline(struct grpc_call *call)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	call->deadline_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + (int64_t)call->timeout_ns;
	if (h2_stream_set_deadline(&call->s, (call->timeout_ns + 999999) / 1000000))
		grpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "out of memory");
}

static void call_opened(struct h2_stream *s)
{
	struct grpc_call *call = call_of(s);

	if (!call->post || !call->grpc_type) {
		respond_http(call, call->post ? "415" : "405");
		return;
	}
	if (!call->path || !grpc_server_lookup(serving_of(call)->server, call->path, &call->service, &call->method, &call->descriptor))
		grpc_call_finish(call, RPC_UNIMPLEMENTED, "this server has no such method");
	else if (call->bad_encoding)
		grpc_call_finish(call, RPC_UNIMPLEMENTED, "compressed messages are not supported");
	else if (call->bad_timeout)
		grpc_call_finish(call, RPC_INVALID_ARGUMENT, "grpc-timeout is malformed");
	else if (call->has_timeout)
		start_deadline(call);
	if (call->finished || !call->method->client_stream)
		return;
	call->started = true;
	if (call->method->server_stream)
		respond(call, false); /* clients exist that say nothing before they have seen headers */
}

static void call_message(struct h2_stream *s, const uint8_t *data, size_t len)
{
	struct grpc_call *call = call_of(s);
	struct edera_error err = EDERA_ERROR_INIT;
	ProtobufCMessage *m;

	if (call->request) {
		grpc_call_finish(call, RPC_INTERNAL, "this method takes one request");
	} else if (rpc_msg_unpack(call->descriptor->input, data, len, NULL, &m, &err)) {
		grpc_call_finish(call, RPC_INVALID_ARGUMENT, err.msg);
	} else if (call->method->client_stream) {
		call->method->message(call, m);
		protobuf_c_message_free_unpacked(m, NULL);
	} else {
		call->request = m;
	}
}

static void call_half_closed(struct h2_stream *s)
{
	struct grpc_call *call = call_of(s);
	ProtobufCMessage *request = steal_ptr(call->request);

	if (call->method->client_stream) {
		if (call->method->half_closed)
			call->method->half_closed(call);
		return;
	}
	if (!request) {
		grpc_call_finish(call, RPC_INTERNAL, "the request is missing");
		return;
	}
	call->started = true;
	call->method->message(call, request);
	protobuf_c_message_free_unpacked(request, NULL);
	if (call->method->server_stream && !call->finished)
		respond(call, false);
}

static void call_refused(struct h2_stream *s, enum rpc_status status, const char *why) { grpc_call_finish(call_of(s), status, why); }

static void call_writable(struct h2_stream *s)
{
	struct grpc_call *call = call_of(s);

	if (!call->finished && call->started && call->method->writable)
		call->method->writable(call);
}

const struct h2_role grpc_call_role = {
	.server = true,
	.accept = call_accept,
	.header = call_header,
	.trailers = submit_trailers,
	.opened = call_opened,
	.message = call_message,
	.refused = call_refused,
	.half_closed = call_half_closed,
	.writable = call_writable,
	.deadline = call_deadline,
	.closed = call_closed,
	.gone = grpc_server_conn_gone,
};

/* ---- questions ---- */

bool grpc_call_writable(const struct grpc_call *call) { return !call->finished && !call->s.aborted && !call->s.choked; }

void grpc_call_pause(struct grpc_call *call) { h2_stream_set_paused(&call->s, true); }

void grpc_call_resume(struct grpc_call *call) { h2_stream_set_paused(&call->s, false); }

bool grpc_call_cancelled(const struct grpc_call *call) { return call->cancelled || (call->s.aborted && !call->s.ended); }

int64_t grpc_call_deadline_ns(const struct grpc_call *call) { return call->deadline_ns; }

void grpc_call_set_user(struct grpc_call *call, void *user) { call->user = user; }

void *grpc_call_user(const struct grpc_call *call) { return call->user; }

void *grpc_call_service_user(const struct grpc_call *call) { return call->service->user; }

const struct grpc_peer *grpc_call_peer(const struct grpc_call *call) { return &serving_of(call)->peer; }

const char *grpc_call_user_agent(const struct grpc_call *call) { return call->user_agent; }

uv_loop_t *grpc_call_loop(const struct grpc_call *call) { return call->s.conn->loop; }
