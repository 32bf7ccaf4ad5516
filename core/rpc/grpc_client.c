/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/grpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/cleanup.h"
#include "base/text.h"
#include "rpc/grpc_text.h"
#include "rpc/h2.h"
#include "rpc/unix_socket.h"

struct grpc_client {
	uv_loop_t *loop;
	char path[sizeof ((struct sockaddr_un *)0)->sun_path];
	char user_agent[128];
	const char *header, *header_value; /* one more, or NULL */
	struct h2_conns conns;  /* the last one takes new calls, unless it is going */
	bool dying;
};

struct grpc_stream {
	struct h2_stream s;                    /* first */
	struct grpc_stream_ops ops;
	void *user;
	const ProtobufCMessageDescriptor *answer;

	/* from headers and trailers */
	int http_status;
	bool grpc_type, has_status;
	int status;
	char *message;

	bool kept;                             /* the message being delivered */

	/* ended by ourselves */
	bool local;
	enum rpc_status local_status;
	char local_message[256];
};

static const struct h2_role client_role;

static struct grpc_stream *stream_of(struct h2_stream *s) { return (struct grpc_stream *)s; }

/* ---- client ---- */

struct grpc_client *grpc_client_new(uv_loop_t *loop, const char *address, const char *user_agent, struct edera_error *err)
{
	const char *path = text_starts(address, "unix://") ? address + 7 : text_starts(address, "unix:") ? address + 5 : address;
	struct grpc_client *client;
	struct sockaddr_un sun;

	if (*path != '/') {
		err_set(err, -EINVAL, "'%s' is no address of a daemon: expected unix:///PATH or /PATH", address);
		return NULL;
	}
	if (unix_socket_address(path, &sun, err))
		return NULL;
	client = calloc(1, sizeof *client);
	if (!client) {
		err_set(err, -ENOMEM, "cannot make a gRPC client: out of memory");
		return NULL;
	}
	client->loop = loop;
	snprintf(client->path, sizeof client->path, "%s", path);
	snprintf(client->user_agent, sizeof client->user_agent, "%s", user_agent);
	TAILQ_INIT(&client->conns);
	return client;
}

void grpc_client_set_header(struct grpc_client *client, const char *name, const char *value)
{
	client->header = value ? name : NULL;
	client->header_value = value;
}

uv_loop_t *grpc_client_loop(const struct grpc_client *client) { return client->loop; }

static void client_gone(struct h2_conn *c)
{
	struct grpc_client *client = c->owner;

	if (client)
		TAILQ_REMOVE(&client->conns, c, link);
}

static struct h2_conn *connect_new(struct grpc_client *client)
{
	struct h2_conn *c = h2_conn_new(client->loop, &client_role, client);
	int fd;

	if (!c)
		return NULL;
	TAILQ_INSERT_TAIL(&client->conns, c, link);
	fd = unix_socket_connect(client->path);
	if (fd < 0)
		h2_conn_fail(c, "%s", strerror(-fd));
	else
		h2_conn_start(c, fd);
	return c;
}

static struct h2_conn *connection(struct grpc_client *client)
{
	struct h2_conn *c = TAILQ_LAST(&client->conns, h2_conns);

	return c && !c->closing && !c->draining ? c : connect_new(client);
}

static void finish(struct grpc_stream *st, enum rpc_status status, const char *message);

void grpc_client_free(struct grpc_client *client)
{
	struct h2_conn *c;

	if (!client || client->dying)
		return;
	client->dying = true;
	while ((c = TAILQ_FIRST(&client->conns))) {
		while (!TAILQ_EMPTY(&c->streams))
			finish(stream_of(TAILQ_FIRST(&c->streams)), RPC_CANCELLED, "the client was closed");
		TAILQ_REMOVE(&client->conns, c, link);
		c->owner = NULL;
		h2_conn_close(c);
	}
	free(client);
}

/* ---- a call's end ---- */

static void finish(struct grpc_stream *st, enum rpc_status status, const char *message)
{
	bool busy = st->s.busy;

	st->s.aborted = st->s.busy = true;
	h2_stream_free(&st->s); /* off every list before the callback, which may free the client */
	st->ops.done(st, status, message, st->user);
	free(st->message);
	st->s.busy = busy;
	if (!busy)
		free(st);
}

/* Ends a call from this side; done follows from the loop. */
static void end_locally(struct grpc_stream *st, enum rpc_status status, const char *message)
{
	if (st->local || st->s.aborted)
		return;
	st->local = true;
	st->local_status = status;
	snprintf(st->local_message, sizeof st->local_message, "%s", message);
	h2_stream_discard(&st->s);
	h2_stream_drop_output(&st->s);
	h2_stream_reset(&st->s, NGHTTP2_CANCEL);
	h2_stream_abort(&st->s);
}

static void stream_half_closed(struct h2_stream *s)
{
	struct grpc_stream *st = stream_of(s);
	char text[64];

	if (!s->ended)
		h2_stream_reset(s, NGHTTP2_CANCEL);
	if (st->has_status) {
		finish(st, (enum rpc_status)st->status, st->message ? st->message : "");
	} else if (st->http_status == 200) {
		finish(st, st->grpc_type ? RPC_INTERNAL : RPC_UNKNOWN, "the server ended the call without a gRPC status");
	} else {
		snprintf(text, sizeof text, "the server answered with HTTP status %d", st->http_status);
		finish(st, grpc_text_status_of_http(st->http_status), text);
	}
}

static void stream_closed(struct h2_stream *s)
{
	struct grpc_stream *st = stream_of(s);
	struct grpc_client *client = s->conn->owner;
	char text[512];

	if (st->local) {
		finish(st, st->local_status, st->local_message);
	} else if (s->lost && !s->conn->started) {
		snprintf(text, sizeof text, "cannot connect to %s: %s", client ? client->path : "the server", s->conn->why);
		finish(st, RPC_UNAVAILABLE, text);
	} else if (s->lost) {
		snprintf(text, sizeof text, "the connection was lost%s%s", *s->conn->why ? ": " : "", s->conn->why);
		finish(st, RPC_UNAVAILABLE, text);
	} else {
		snprintf(text, sizeof text, "the server broke the call off: %s", nghttp2_http2_strerror(s->close_code));
		finish(st, grpc_text_status_of_reset(s->close_code), text);
	}
}

/* ---- what arrives ---- */

static void stream_header(struct h2_stream *s, const char *name, const char *value, size_t len)
{
	struct grpc_stream *st = stream_of(s);

	if (strcmp(name, ":status") == 0)
		st->http_status = atoi(value);
	else if (strcmp(name, "content-type") == 0)
		st->grpc_type = grpc_text_is_content_type(value, len);
	else if (strcmp(name, "grpc-status") == 0) {
		st->has_status = true;
		st->status = grpc_text_parse_status(value, len);
	} else if (strcmp(name, "grpc-message") == 0) {
		free(st->message);
		st->message = grpc_text_decode(value, len);
	}
}

static void stream_message(struct h2_stream *s, const uint8_t *data, size_t len)
{
	struct grpc_stream *st = stream_of(s);
	struct edera_error err = EDERA_ERROR_INIT;
	ProtobufCMessage *m;

	if (rpc_msg_unpack(st->answer, data, len, NULL, &m, &err)) {
		end_locally(st, RPC_INTERNAL, err.msg);
		return;
	}
	if (st->ops.message)
		st->ops.message(st, m, st->user);
	if (!st->kept)
		protobuf_c_message_free_unpacked(m, NULL);
	st->kept = false;
}

static void stream_refused(struct h2_stream *s, enum rpc_status status, const char *why) { end_locally(stream_of(s), status, why); }

static void stream_writable(struct h2_stream *s)
{
	struct grpc_stream *st = stream_of(s);

	if (!s->ending && st->ops.writable)
		st->ops.writable(st, st->user);
}

static void stream_deadline(struct h2_stream *s) { end_locally(stream_of(s), RPC_DEADLINE_EXCEEDED, "the deadline has passed"); }

static void stream_opened(struct h2_stream *s) {}

static void client_goaway(struct h2_conn *c)
{
	c->draining = true; /* what runs may end; new calls take a new connection */
	h2_conn_wake(c);
}

static const struct h2_role client_role = {
	.header = stream_header,
	.goaway = client_goaway,
	.opened = stream_opened,
	.message = stream_message,
	.refused = stream_refused,
	.half_closed = stream_half_closed,
	.writable = stream_writable,
	.deadline = stream_deadline,
	.closed = stream_closed,
	.gone = client_gone,
};

/* ---- a call's start ---- */

static int32_t submit(struct grpc_client *client, struct grpc_stream *st, const char *service, const char *method, uint64_t timeout_ms)
{
	nghttp2_data_provider provider = h2_stream_provider();
	char path[512], timeout[16];
	nghttp2_nv headers[10] = {
		h2_nv(":method", "POST"), h2_nv(":scheme", "http"), h2_nv(":path", path), h2_nv(":authority", "localhost"),
		h2_nv("te", "trailers"), h2_nv("content-type", "application/grpc"), h2_nv("user-agent", client->user_agent),
		h2_nv("grpc-accept-encoding", "identity"),
	};
	size_t n = 8;

	if ((size_t)snprintf(path, sizeof path, "/%s/%s", service, method) >= sizeof path)
		return -1;
	headers[2] = h2_nv(":path", path);
	if (timeout_ms) {
		grpc_text_format_timeout(timeout, timeout_ms);
		headers[n++] = h2_nv("grpc-timeout", timeout);
	}
	if (client->header)
		headers[n++] = h2_nv(client->header, client->header_value);
	return nghttp2_submit_request(st->s.conn->session, NULL, headers, n, &provider, &st->s);
}

struct grpc_stream *grpc_client_open(struct grpc_client *client, const ProtobufCServiceDescriptor *service, const char *method, uint64_t timeout_ms,
				     const struct grpc_stream_ops *ops, void *user)
{
	const ProtobufCMethodDescriptor *d = protobuf_c_service_descriptor_get_method_by_name(service, method);
	struct h2_conn *c = client->dying ? NULL : connection(client);
	struct grpc_stream *st = c ? calloc(1, sizeof *st) : NULL;
	int32_t id;

	if (!st)
		return NULL;
	h2_stream_init(&st->s, c);
	st->ops = *ops;
	st->user = user;
	if (!d) {
		end_locally(st, RPC_UNIMPLEMENTED, "the service has no such method");
		return st;
	}
	st->answer = d->output;
	id = submit(client, st, service->name, method, timeout_ms);
	if (id > 0)
		st->s.id = id;
	if (id <= 0 || (timeout_ms && h2_stream_set_deadline(&st->s, timeout_ms)))
		end_locally(st, RPC_INTERNAL, "cannot start the call");
	h2_conn_wake(c);
	return st;
}

int grpc_stream_send(struct grpc_stream *st, const ProtobufCMessage *m)
{
	return st->s.ending || st->s.closed || st->s.aborted ? -EPIPE : h2_stream_send(&st->s, m);
}

void grpc_stream_half_close(struct grpc_stream *st) { h2_stream_end(&st->s); }

void grpc_stream_cancel(struct grpc_stream *st) { end_locally(st, RPC_CANCELLED, "the call was cancelled"); }

bool grpc_stream_writable(const struct grpc_stream *st) { return !st->s.ending && !st->s.closed && !st->s.aborted && !st->s.choked; }

void grpc_stream_pause(struct grpc_stream *st) { h2_stream_set_paused(&st->s, true); }

void grpc_stream_resume(struct grpc_stream *st) { h2_stream_set_paused(&st->s, false); }

void grpc_stream_keep(struct grpc_stream *st) { st->kept = true; }
