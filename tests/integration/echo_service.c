/* SPDX-License-Identifier: Apache-2.0 */
#include "echo_service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/cleanup.h"

#define SIZE_LIMIT (16u << 20)

struct echo_stats echo_stats;

/* One call's state. */
struct echo {
	struct grpc_call *call;
	uv_timer_t timer;
	bool timed;
	Test__Echo__V1__EchoRequest *request; /* a copy */
	uint8_t *data;                        /* of `size` bytes, when asked for */
	uint64_t number;
};

uint64_t echo_rss_kib(void)
{
	_fclose_ FILE *f = fopen("/proc/self/statm", "re");
	unsigned long total, resident;

	return f && fscanf(f, "%lu %lu", &total, &resident) == 2 ? (uint64_t)resident * 4 : 0;
}

static ProtobufCMessage *copy(const ProtobufCMessage *m)
{
	size_t n = protobuf_c_message_get_packed_size(m);
	_free_ uint8_t *bytes = malloc(n + 1);

	protobuf_c_message_pack(m, bytes);
	return protobuf_c_message_unpack(m->descriptor, NULL, n, bytes);
}

static struct echo *begin(struct grpc_call *call, const ProtobufCMessage *m)
{
	struct echo *e = grpc_call_user(call);

	if (e)
		return e;
	e = calloc(1, sizeof *e);
	e->call = call;
	e->request = (Test__Echo__V1__EchoRequest *)copy(m);
	if (e->request->size > SIZE_LIMIT)
		e->request->size = SIZE_LIMIT;
	if (e->request->size)
		e->data = calloc(1, e->request->size);
	grpc_call_set_user(call, e);
	echo_stats.live++;
	echo_stats.begun++;
	return e;
}

static void release(uv_handle_t *h)
{
	struct echo *e = h->data;

	protobuf_c_message_free_unpacked(&e->request->base, NULL);
	free(e->data);
	free(e);
}

static void closed(struct grpc_call *call)
{
	struct echo *e = grpc_call_user(call);

	if (grpc_call_cancelled(call))
		echo_stats.cancelled++;
	if (!e)
		return;
	echo_stats.live--;
	e->timer.data = e;
	if (e->timed)
		uv_close((uv_handle_t *)&e->timer, release);
	else
		release((uv_handle_t *)&e->timer);
}

static int send_reply(struct echo *e, const Test__Echo__V1__EchoRequest *request)
{
	Test__Echo__V1__EchoReply reply = TEST__ECHO__V1__ECHO_REPLY__INIT;

	reply.text = request->text;
	reply.data = request->data;
	if (e->data)
		reply.data = (ProtobufCBinaryData){ .len = e->request->size, .data = e->data };
	reply.number = e->number + 1;
	int r = grpc_call_send(e->call, &reply.base);
	if (!r) {
		e->number++;
		echo_stats.sent_bytes += reply.data.len;
	}
	return r;
}

static void answer(struct echo *e)
{
	if (e->request->code) {
		grpc_call_finish(e->call, (enum rpc_status)e->request->code, e->request->message);
		return;
	}
	if (send_reply(e, e->request))
		grpc_call_finish(e->call, RPC_RESOURCE_EXHAUSTED, "the reply is too large");
	grpc_call_finish(e->call, RPC_OK, NULL);
	free(e->data); /* the call may stay for as long as its client does not read */
	e->data = NULL;
}

static void on_delay(uv_timer_t *t) { answer(t->data); }

static void unary(struct grpc_call *call, const ProtobufCMessage *m)
{
	struct echo *e = begin(call, m);

	if (!e->request->delay_ms) {
		answer(e);
		return;
	}
	uv_timer_init(grpc_call_loop(call), &e->timer);
	e->timed = true;
	e->timer.data = e;
	uv_timer_start(&e->timer, on_delay, e->request->delay_ms, 0);
}

static void pump(struct grpc_call *call)
{
	struct echo *e = grpc_call_user(call);

	while (grpc_call_writable(call) && (!e->request->count || e->number < e->request->count)) {
		int r = send_reply(e, e->request);

		if (r && r != -EAGAIN)
			grpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "the reply is too large");
	}
	if (e->request->count && e->number == e->request->count)
		grpc_call_finish(call, (enum rpc_status)e->request->code, e->request->message);
}

static void server_stream(struct grpc_call *call, const ProtobufCMessage *m)
{
	begin(call, m);
	pump(call);
}

static void client_stream(struct grpc_call *call, const ProtobufCMessage *m)
{
	begin(call, m)->number++;
	echo_stats.got_messages++;
}

static void client_stream_end(struct grpc_call *call)
{
	Test__Echo__V1__EchoReply reply = TEST__ECHO__V1__ECHO_REPLY__INIT;
	struct echo *e = grpc_call_user(call);

	reply.number = e ? e->number : 0;
	grpc_call_reply(call, &reply.base);
}

static void bidi(struct grpc_call *call, const ProtobufCMessage *m)
{
	const Test__Echo__V1__EchoRequest *request = (const Test__Echo__V1__EchoRequest *)m;
	struct echo *e = begin(call, m);

	echo_stats.got_messages++;
	if (request->code)
		grpc_call_finish(call, (enum rpc_status)request->code, request->message);
	else
		send_reply(e, request);
	if (!grpc_call_writable(call) || echo_stats.hold)
		grpc_call_pause(call);
}

static void bidi_end(struct grpc_call *call) { grpc_call_finish(call, RPC_OK, NULL); }

static void bidi_writable(struct grpc_call *call)
{
	if (!echo_stats.hold)
		grpc_call_resume(call);
}

static void stats(struct grpc_call *call, const ProtobufCMessage *m)
{
	Test__Echo__V1__StatsReply reply = TEST__ECHO__V1__STATS_REPLY__INIT;

	reply.live = echo_stats.live;
	reply.cancelled = echo_stats.cancelled;
	reply.rss_kib = echo_rss_kib();
	grpc_call_reply(call, &reply.base);
}

static const struct grpc_method methods[] = {
	{ .name = "Unary", .message = unary, .closed = closed },
	{ .name = "ServerStream", .server_stream = true, .message = server_stream, .writable = pump, .closed = closed },
	{ .name = "ClientStream", .client_stream = true, .message = client_stream, .half_closed = client_stream_end, .closed = closed },
	{ .name = "Bidi", .client_stream = true, .server_stream = true, .message = bidi, .half_closed = bidi_end, .writable = bidi_writable, .closed = closed },
	{ .name = "Stats", .message = stats },
};

const struct grpc_service echo_service = { .descriptor = &test__echo__v1__echo__descriptor, .methods = methods, .n_methods = ARRAY_SIZE(methods) };
