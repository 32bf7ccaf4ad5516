/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/ttrpc.h"

#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "ttrpc.pb-c.h"

#define HEADER 10u
#define MAX_SERVED 1024u      /* streams open at once that a peer may have; unary calls are not kept here */
#define KEEP_INPUT (64u << 10) /* a bigger input buffer is given back after its frame */

enum type { TYPE_REQUEST = 1, TYPE_RESPONSE = 2, TYPE_DATA = 3 };
enum flag { FLAG_REMOTE_CLOSED = 1, FLAG_REMOTE_OPEN = 2, FLAG_NO_DATA = 4 };

struct frame {
	uint32_t len, stream;
	uint8_t type, flags;
};

/* A call we made and that has no answer yet. */
struct call {
	uint32_t id;
	bool streaming, can_send;
	ttrpc_data data;
	ttrpc_answer answer;
	void *user;
};

/* A stream of the peer's that is still open on our side. */
struct served {
	uint32_t id;
	bool client_open;
};

struct ttrpc_conn {
	struct ttrpc_ops ops;
	void *user;
	struct buf in;              /* the frame that is arriving */
	struct frame oversized;     /* what is being skipped, and how much of it is left */
	uint32_t skip;
	uint32_t last_request;      /* highest id the peer used */
	uint64_t next_id;
	struct call *calls;         /* by id */
	size_t n_calls, cap_calls;
	struct served served[MAX_SERVED];
	size_t n_served;
	bool feeding, dead, no_memory;
};

/* ---- out ---- */

static void put32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static uint32_t get32(const uint8_t *p) { return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]; }

static int emit(struct ttrpc_conn *c, uint32_t stream, enum type type, unsigned flags, const ProtobufCMessage *m)
{
	size_t len = m ? protobuf_c_message_get_packed_size(m) : 0;
	_free_ uint8_t *frame = NULL;

	if (len > TTRPC_MAX_DATA)
		return -EMSGSIZE;
	if (c->dead)
		return -EPIPE;
	frame = malloc(HEADER + len);
	if (!frame) {
		c->no_memory = true;
		return -ENOMEM;
	}
	put32(frame, (uint32_t)len);
	put32(frame + 4, stream);
	frame[8] = (uint8_t)type;
	frame[9] = (uint8_t)flags;
	if (m)
		protobuf_c_message_pack(m, frame + HEADER);
	c->ops.output(c->user, frame, HEADER + len);
	return 0;
}

/* The message as bytes for an envelope; data is malloc'd. */
static int pack(const ProtobufCMessage *m, ProtobufCBinaryData *ret)
{
	size_t len = m ? protobuf_c_message_get_packed_size(m) : 0;
	uint8_t *p = NULL;

	if (len > TTRPC_MAX_DATA)
		return -EMSGSIZE;
	if (len && !(p = malloc(len)))
		return -ENOMEM;
	if (len)
		protobuf_c_message_pack(m, p);
	*ret = (ProtobufCBinaryData){ .len = len, .data = p };
	return 0;
}

/* ---- streams served ---- */

static struct served *find_served(struct ttrpc_conn *c, uint32_t id)
{
	for (size_t i = 0; i < c->n_served; i++)
		if (c->served[i].id == id)
			return &c->served[i];
	return NULL;
}

static void drop_served(struct ttrpc_conn *c, uint32_t id)
{
	struct served *s = find_served(c, id);

	if (s)
		*s = c->served[--c->n_served];
}

void ttrpc_conn_reply_error(struct ttrpc_conn *c, uint32_t stream, enum rpc_status code, const char *message)
{
	_free_ char *text = strndup(message ? message : "", 4096);
	Ttrpc__Status status = TTRPC__STATUS__INIT;
	Ttrpc__Response response = TTRPC__RESPONSE__INIT;

	drop_served(c, stream);
	if (text)
		text_force_utf8(text);
	status.code = (int32_t)code;
	status.message = text ? text : (char *)"";
	response.status = &status;
	emit(c, stream, TYPE_RESPONSE, 0, &response.base);
}

void ttrpc_conn_reply(struct ttrpc_conn *c, uint32_t stream, const ProtobufCMessage *m)
{
	Ttrpc__Response response = TTRPC__RESPONSE__INIT;
	int r = pack(m, &response.payload);

	drop_served(c, stream);
	if (!r)
		r = emit(c, stream, TYPE_RESPONSE, 0, &response.base);
	if (r && r != -EPIPE)
		ttrpc_conn_reply_error(c, stream, RPC_RESOURCE_EXHAUSTED, r == -EMSGSIZE ? "the answer is larger than a frame may be" : "out of memory");
	free(response.payload.data);
}

/* ---- calls made ---- */

/* Index of the first call with an id not below this one. */
static size_t call_index(const struct ttrpc_conn *c, uint32_t id)
{
	size_t lo = 0, hi = c->n_calls;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (c->calls[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct call *find_call(struct ttrpc_conn *c, uint32_t id)
{
	size_t i = call_index(c, id);

	return i < c->n_calls && c->calls[i].id == id ? &c->calls[i] : NULL;
}

static bool take_call(struct ttrpc_conn *c, uint32_t id, struct call *ret)
{
	struct call *call = find_call(c, id);

	if (!call)
		return false;
	*ret = *call;
	memmove(call, call + 1, (size_t)(c->calls + c->n_calls - (call + 1)) * sizeof *call);
	c->n_calls--;
	return true;
}

static void end_call(struct ttrpc_conn *c, uint32_t id, enum rpc_status status, const char *message)
{
	struct call call;

	if (take_call(c, id, &call) && call.answer)
		call.answer(call.user, status, message, NULL, 0);
}

static int remember(struct ttrpc_conn *c, const struct call *call)
{
	if (c->n_calls == c->cap_calls) {
		size_t cap = c->cap_calls ? 2 * c->cap_calls : 8;
		struct call *p = reallocarray(c->calls, cap, sizeof *p);

		if (!p)
			return -ENOMEM;
		c->calls = p;
		c->cap_calls = cap;
	}
	c->calls[c->n_calls++] = *call; /* ids grow, so this keeps the order */
	return 0;
}

static int send_request(struct ttrpc_conn *c, uint32_t id, unsigned flags, const char *service, const char *method, const ProtobufCMessage *request,
			int64_t timeout_ns, const char *const *metadata)
{
	Ttrpc__Request envelope = TTRPC__REQUEST__INIT;
	_free_ Ttrpc__KeyValue *pairs = NULL;
	_free_ Ttrpc__KeyValue **list = NULL;
	size_t n = 0;
	int r;

	while (metadata && metadata[2 * n])
		n++;
	pairs = calloc(n + 1, sizeof *pairs);
	list = calloc(n + 1, sizeof(*list));
	if (!pairs || !list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		ttrpc__key_value__init(&pairs[i]);
		pairs[i].key = (char *)metadata[2 * i];
		pairs[i].value = (char *)metadata[2 * i + 1];
		list[i] = &pairs[i];
	}
	envelope.service = (char *)service;
	envelope.method = (char *)method;
	envelope.timeout_nano = timeout_ns;
	envelope.n_metadata = n;
	envelope.metadata = list;
	r = pack(request, &envelope.payload);
	if (!r)
		r = emit(c, id, TYPE_REQUEST, flags, &envelope.base);
	free(envelope.payload.data);
	return r;
}

static int64_t start_call(struct ttrpc_conn *c, const char *service, const char *method, const ProtobufCMessage *request, unsigned flags, int64_t timeout_ns,
			  const char *const *metadata, struct call *call)
{
	struct call dropped;
	int r;

	if (c->dead)
		return -EPIPE;
	if (c->next_id > UINT32_MAX)
		return -EOVERFLOW; /* ids are never used twice: only a new connection helps */
	call->id = (uint32_t)c->next_id;
	r = remember(c, call);
	if (r)
		return r;
	c->next_id += 2;
	r = send_request(c, call->id, flags, service, method, request, timeout_ns, metadata);
	if (r) {
		take_call(c, call->id, &dropped);
		return r;
	}
	return call->id;
}

int64_t ttrpc_conn_call(struct ttrpc_conn *c, const char *service, const char *method, const ProtobufCMessage *request, int64_t timeout_ns,
			const char *const *metadata, ttrpc_answer answer, void *user)
{
	struct call call = { .answer = answer, .user = user };

	return start_call(c, service, method, request, 0, timeout_ns, metadata, &call);
}

int64_t ttrpc_conn_open(struct ttrpc_conn *c, const char *service, const char *method, const ProtobufCMessage *request, bool client_stream,
			int64_t timeout_ns, const char *const *metadata, ttrpc_data data, ttrpc_answer answer, void *user)
{
	struct call call = { .streaming = true, .can_send = client_stream, .data = data, .answer = answer, .user = user };

	return start_call(c, service, method, request, client_stream ? FLAG_REMOTE_OPEN : FLAG_REMOTE_CLOSED, timeout_ns, metadata, &call);
}

void ttrpc_conn_forget(struct ttrpc_conn *c, uint32_t stream)
{
	struct call dropped;

	take_call(c, stream, &dropped);
}

int ttrpc_conn_send_data(struct ttrpc_conn *c, uint32_t stream, const ProtobufCMessage *m, bool closed)
{
	struct call *call = find_call(c, stream);
	int r;

	if (call ? !call->can_send : !find_served(c, stream))
		return -EPIPE;
	if (closed && call)
		call->can_send = false;
	else if (closed)
		drop_served(c, stream);
	r = m ? emit(c, stream, TYPE_DATA, 0, m) : 0;
	/* The end is a frame of its own: there are servers that refuse one that also carries a message. */
	if (!r && closed)
		r = emit(c, stream, TYPE_DATA, FLAG_REMOTE_CLOSED | FLAG_NO_DATA, NULL);
	return r;
}

/* ---- in ---- */

static const char *envelope_metadata(const struct ttrpc_request *r, const char *key)
{
	const Ttrpc__Request *envelope = r->envelope;

	for (size_t i = 0; i < envelope->n_metadata; i++)
		if (strcmp(envelope->metadata[i]->key, key) == 0)
			return envelope->metadata[i]->value;
	return NULL;
}

static void serve(struct ttrpc_conn *c, const struct frame *f, Ttrpc__Request *envelope)
{
	struct ttrpc_request request = {
		.stream = f->stream,
		.service = envelope->service,
		.method = envelope->method,
		.payload = envelope->payload.data,
		.payload_len = envelope->payload.len,
		.timeout_ns = envelope->timeout_nano > 0 ? envelope->timeout_nano : 0,
		.server_stream = f->flags & (FLAG_REMOTE_CLOSED | FLAG_REMOTE_OPEN),
		.client_stream = f->flags & FLAG_REMOTE_OPEN,
		.metadata = envelope_metadata,
		.envelope = envelope,
	};

	if (request.server_stream) {
		if (c->n_served == MAX_SERVED) {
			ttrpc_conn_reply_error(c, f->stream, RPC_RESOURCE_EXHAUSTED, "too many open streams");
			return;
		}
		c->served[c->n_served++] = (struct served){ .id = f->stream, .client_open = request.client_stream };
	}
	c->ops.request(c->user, c, &request);
}

static void got_request(struct ttrpc_conn *c, const struct frame *f, const uint8_t *data)
{
	struct edera_error err = EDERA_ERROR_INIT;
	ProtobufCMessage *envelope;

	if (f->stream % 2 == 0) {
		ttrpc_conn_reply_error(c, f->stream, RPC_INVALID_ARGUMENT, "the stream id of a request must be odd");
		return;
	}
	if (f->stream <= c->last_request) {
		ttrpc_conn_reply_error(c, f->stream, RPC_INVALID_ARGUMENT, "stream ids must increase");
		return;
	}
	c->last_request = f->stream;
	if (!c->ops.request) {
		ttrpc_conn_reply_error(c, f->stream, RPC_UNIMPLEMENTED, "this end serves no calls");
		return;
	}
	if (rpc_msg_unpack(&ttrpc__request__descriptor, data, f->len, NULL, &envelope, &err)) {
		ttrpc_conn_reply_error(c, f->stream, RPC_INVALID_ARGUMENT, err.msg);
		return;
	}
	serve(c, f, (Ttrpc__Request *)envelope);
	protobuf_c_message_free_unpacked(envelope, NULL);
}

static void got_response(struct ttrpc_conn *c, const struct frame *f, const uint8_t *data)
{
	struct edera_error err = EDERA_ERROR_INIT;
	ProtobufCMessage *m;
	Ttrpc__Response *response;
	struct call call;

	if (!take_call(c, f->stream, &call) || !call.answer)
		return; /* forgotten, or never ours */
	if (rpc_msg_unpack(&ttrpc__response__descriptor, data, f->len, NULL, &m, &err)) {
		call.answer(call.user, RPC_INTERNAL, err.msg, NULL, 0);
		return;
	}
	response = (Ttrpc__Response *)m;
	if (response->status && response->status->code)
		call.answer(call.user, (enum rpc_status)response->status->code, response->status->message, NULL, 0);
	else
		call.answer(call.user, RPC_OK, "", response->payload.data, response->payload.len);
	protobuf_c_message_free_unpacked(m, NULL);
}

static void got_data_of_call(struct ttrpc_conn *c, struct call *call, const struct frame *f, const uint8_t *data)
{
	if (!call->streaming) {
		end_call(c, f->stream, RPC_INTERNAL, "the server sent stream data in answer to a unary call");
		return;
	}
	if (!(f->flags & FLAG_NO_DATA) && call->data)
		call->data(call->user, data, f->len);
	if (f->flags & FLAG_REMOTE_CLOSED && !c->dead)
		end_call(c, f->stream, RPC_OK, "");
}

static void got_data(struct ttrpc_conn *c, const struct frame *f, const uint8_t *data)
{
	struct call *call = find_call(c, f->stream);
	struct served *s = find_served(c, f->stream);
	bool none = f->flags & FLAG_NO_DATA, closed = f->flags & FLAG_REMOTE_CLOSED;

	if (call) {
		got_data_of_call(c, call, f, data);
	} else if (s && s->client_open) {
		s->client_open = !closed;
		if (c->ops.data)
			c->ops.data(c->user, c, f->stream, none ? NULL : data, none ? 0 : f->len, closed);
	} else if (c->ops.request) {
		ttrpc_conn_reply_error(c, f->stream, RPC_INVALID_ARGUMENT, "no open stream has this id");
	}
}

/* The frame that was too large has gone by. */
static void got_oversized(struct ttrpc_conn *c)
{
	const struct frame *f = &c->oversized;
	const char *why = "a frame may carry at most 4 MiB";

	if (f->type == TYPE_REQUEST && f->stream % 2 && f->stream > c->last_request)
		c->last_request = f->stream;
	if (f->type == TYPE_RESPONSE || (f->type == TYPE_DATA && find_call(c, f->stream)))
		end_call(c, f->stream, RPC_RESOURCE_EXHAUSTED, why);
	else if (f->type == TYPE_REQUEST || (f->type == TYPE_DATA && c->ops.request))
		ttrpc_conn_reply_error(c, f->stream, RPC_RESOURCE_EXHAUSTED, why);
}

static void got_frame(struct ttrpc_conn *c, const struct frame *f, const uint8_t *data)
{
	switch (f->type) {
	case TYPE_REQUEST:
		got_request(c, f, data);
		break;
	case TYPE_RESPONSE:
		got_response(c, f, data);
		break;
	case TYPE_DATA:
		got_data(c, f, data);
		break;
	default:
		break; /* what a later version may send */
	}
}

/* Takes bytes of the arriving frame; true when it is whole. */
static bool collect(struct ttrpc_conn *c, const uint8_t **data, size_t *len, struct frame *f)
{
	size_t want = c->in.len < HEADER ? HEADER : HEADER + get32(c->in.data);
	size_t n = want - c->in.len < *len ? want - c->in.len : *len;

	buf_append(&c->in, *data, n);
	*data += n;
	*len -= n;
	if (c->in.failed || c->in.len < HEADER)
		return false;
	*f = (struct frame){ .len = get32(c->in.data), .stream = get32(c->in.data + 4), .type = c->in.data[8], .flags = c->in.data[9] };
	if (f->len > TTRPC_MAX_DATA) {
		c->oversized = *f;
		c->skip = f->len;
		buf_clear(&c->in);
		return false;
	}
	return c->in.len == HEADER + f->len;
}

static void step(struct ttrpc_conn *c, const uint8_t **data, size_t *len)
{
	struct frame f;

	if (c->skip) {
		uint32_t n = *len < c->skip ? (uint32_t)*len : c->skip;

		*data += n;
		*len -= n;
		c->skip -= n;
		if (!c->skip)
			got_oversized(c);
	} else if (collect(c, data, len, &f)) {
		got_frame(c, &f, c->in.data + HEADER);
		buf_clear(&c->in);
		if (c->in.cap > KEEP_INPUT)
			buf_free(&c->in);
	}
}

/* ---- life ---- */

struct ttrpc_conn *ttrpc_conn_new(const struct ttrpc_ops *ops, void *user)
{
	struct ttrpc_conn *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	c->ops = *ops;
	c->user = user;
	c->next_id = 1;
	return c;
}

static void release(struct ttrpc_conn *c)
{
	buf_free(&c->in);
	free(c->calls);
	free(c);
}

void ttrpc_conn_free(struct ttrpc_conn *c)
{
	if (!c || c->dead)
		return;
	c->dead = true;
	while (c->n_calls)
		end_call(c, c->calls[c->n_calls - 1].id, RPC_UNAVAILABLE, "the connection was closed");
	if (!c->feeding)
		release(c);
}

int ttrpc_conn_feed(struct ttrpc_conn *c, const uint8_t *data, size_t len, struct edera_error *err)
{
	c->feeding = true;
	while (len && !c->dead && !c->in.failed && !c->no_memory)
		step(c, &data, &len);
	c->feeding = false;
	if (c->dead) {
		release(c);
		return err_set(err, -ESHUTDOWN, "the ttrpc connection was closed while it was read");
	}
	if (c->in.failed || c->no_memory)
		return err_set(err, -ENOMEM, "cannot go on with the ttrpc connection: out of memory");
	return 0;
}
