/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/h2.h"

#include <stdlib.h>
#include <string.h>

#define PREFIX 5u              /* compressed-flag and length in front of each message */
#define KEEP_INPUT (64u << 10) /* a bigger input buffer is given back once empty */

struct h2_chunk {
	struct h2_chunk *next;
	size_t len, pos;
	uint8_t data[];
};

struct h2_deadline {
	uv_timer_t timer;
	struct h2_stream *stream; /* NULL once that is gone */
};

/* ---- life ---- */

void h2_stream_init(struct h2_stream *s, struct h2_conn *c)
{
	s->conn = c;
	s->out_tail = &s->out;
	TAILQ_INSERT_TAIL(&c->streams, s, link);
	c->n_streams++;
}

static void deadline_closed(uv_handle_t *h) { free(h->data); }

static void drop_deadline(struct h2_stream *s)
{
	if (!s->deadline)
		return;
	s->deadline->stream = NULL;
	uv_close((uv_handle_t *)&s->deadline->timer, deadline_closed);
	s->deadline = NULL;
}

void h2_stream_free(struct h2_stream *s)
{
	struct h2_conn *c = s->conn;

	if (s->dead)
		return;
	s->dead = true;
	h2_stream_discard(s);
	h2_stream_drop_output(s);
	drop_deadline(s);
	if (s->id && c->session)
		nghttp2_session_set_stream_user_data(c->session, s->id, NULL);
	if (s->ready)
		TAILQ_REMOVE(&c->ready, s, ready_link);
	TAILQ_REMOVE(&c->streams, s, link);
	c->n_streams--;
	h2_conn_wake(c);
	if (!s->busy)
		free(s);
}

void h2_stream_ready(struct h2_stream *s)
{
	if (s->ready || s->dead)
		return;
	s->ready = true;
	TAILQ_INSERT_TAIL(&s->conn->ready, s, ready_link);
	h2_conn_wake(s->conn);
}

void h2_stream_abort(struct h2_stream *s)
{
	s->aborted = true;
	h2_stream_ready(s);
}

static void deadline_passed(uv_timer_t *t)
{
	struct h2_deadline *d = t->data;

	d->stream->deadline_due = true;
	h2_stream_ready(d->stream);
}

int h2_stream_set_deadline(struct h2_stream *s, uint64_t timeout_ms)
{
	struct h2_deadline *d = calloc(1, sizeof *d);

	if (!d)
		return -ENOMEM;
	d->stream = s;
	uv_timer_init(s->conn->loop, &d->timer);
	d->timer.data = d;
	uv_update_time(d->timer.loop); /* the loop's clock stands still while a callback runs */
	uv_timer_start(&d->timer, deadline_passed, timeout_ms, 0);
	s->deadline = d;
	return 0;
}

/* ---- in ---- */

static void give_back_window(struct h2_stream *s, size_t n)
{
	if (!n || !s->id || !s->conn->session)
		return;
	nghttp2_session_consume_stream(s->conn->session, s->id, n);
	h2_conn_wake(s->conn);
}

static void drop_input(struct h2_stream *s, size_t n)
{
	s->conn->buffered -= n;
	buf_consume(&s->in, n);
	if (!s->in.len && s->in.cap > KEEP_INPUT)
		buf_free(&s->in);
}

void h2_stream_discard(struct h2_stream *s)
{
	s->discard = true;
	drop_input(s, s->in.len);
	buf_free(&s->in);
	give_back_window(s, s->held);
	s->held = 0;
}

static void refuse(struct h2_stream *s, enum rpc_status status, const char *why)
{
	h2_stream_discard(s);
	s->conn->role->refused(s, status, why);
}

void h2_stream_received(struct h2_stream *s, const uint8_t *data, size_t len)
{
	if (s->discard) {
		give_back_window(s, len);
		return;
	}
	s->held += len;
	if (len > H2_BUFFERED_MAX - s->conn->buffered)
		s->over_budget = true;
	else
		buf_append(&s->in, data, len);
	if (s->in.failed)
		s->over_budget = true;
	else if (!s->over_budget)
		s->conn->buffered += len;
	h2_stream_ready(s);
}

/* The next whole message at `pos`: its length, or -1 if there is none (yet). */
static ssize_t next_message(struct h2_stream *s, size_t pos)
{
	const uint8_t *p;
	uint32_t len;

	if (s->in.len - pos < PREFIX)
		return -1;
	p = s->in.data + pos;
	len = (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
	if (p[0])
		refuse(s, RPC_UNIMPLEMENTED, "compressed messages are not supported");
	else if (len > GRPC_RECEIVE_MAX)
		refuse(s, RPC_RESOURCE_EXHAUSTED, "a message is larger than the 4 MiB that are accepted");
	else if (s->in.len - pos - PREFIX >= len)
		return len;
	return -1;
}

static void deliver(struct h2_stream *s)
{
	size_t pos = 0, keep;

	if (s->over_budget && !s->discard)
		refuse(s, RPC_RESOURCE_EXHAUSTED, "too much data is in flight on this connection");
	while (!s->discard && !s->paused) {
		ssize_t len = next_message(s, pos);

		if (len < 0)
			break;
		pos += PREFIX + (size_t)len;
		s->conn->role->message(s, s->in.data + pos - len, (size_t)len);
	}
	if (s->discard)
		return;
	drop_input(s, pos);
	/* A message that is still arriving must be able to go on, so its window is given back as it comes; what waits behind a pause is not. */
	keep = !s->paused ? 0 : s->held < s->in.len ? s->held : s->in.len;
	give_back_window(s, s->held - keep);
	s->held = keep;
}

static void end_of_input(struct h2_stream *s)
{
	if (s->in.len) {
		refuse(s, RPC_INTERNAL, "the stream ended in the middle of a message");
		return;
	}
	s->end_told = true;
	s->conn->role->half_closed(s);
}

void h2_stream_run(struct h2_stream *s)
{
	const struct h2_role *role = s->conn->role;

	s->busy = true;
	if (s->opened && !s->open_told && !s->aborted) {
		s->open_told = true;
		role->opened(s);
	}
	if (s->open_told && !s->aborted && !s->discard)
		deliver(s);
	if (s->open_told && !s->aborted && !s->discard && s->remote_end && !s->end_told && !s->paused)
		end_of_input(s);
	if (!s->dead && !s->aborted && s->writable_due) {
		s->writable_due = false;
		role->writable(s);
	}
	if (!s->dead && s->deadline_due) {
		s->deadline_due = false;
		role->deadline(s);
	}
	if (!s->dead && s->aborted)
		role->closed(s);
	s->busy = false;
	if (s->dead)
		free(s);
}

void h2_stream_set_paused(struct h2_stream *s, bool paused)
{
	s->paused = paused;
	if (!paused)
		h2_stream_ready(s);
}

/* ---- out ---- */

void h2_stream_drop_output(struct h2_stream *s)
{
	while (s->out) {
		struct h2_chunk *next = s->out->next;

		free(s->out);
		s->out = next;
	}
	s->out_tail = &s->out;
	s->conn->queued -= s->queued;
	s->queued = 0;
}

static void resume(struct h2_stream *s)
{
	if (s->id && s->conn->session)
		nghttp2_session_resume_data(s->conn->session, s->id); /* fails when it is not waiting, which is fine */
	h2_conn_wake(s->conn);
}

/* Queued bytes above which a stream is not writable; less on a connection that is read slowly. */
static size_t high(const struct h2_stream *s) { return s->conn->queued < H2_QUEUED_MAX / 4 ? GRPC_SEND_HIGH : H2_CROWDED_HIGH; }

int h2_stream_send(struct h2_stream *s, const ProtobufCMessage *m)
{
	size_t len = protobuf_c_message_get_packed_size(m), total = PREFIX + len;
	struct h2_conn *c = s->conn;
	struct h2_chunk *chunk;
	bool crowded;

	if (total > GRPC_SEND_MAX)
		return -EMSGSIZE;
	/* One message of usual size is always taken, so that streams nobody reads cannot silence the others of their connection. */
	crowded = c->queued + total > H2_QUEUED_MAX && (s->queued || total > H2_SMALL_MESSAGE);
	if (crowded || s->queued + total > GRPC_SEND_MAX) {
		s->choked = true;
		c->starved |= crowded;
		return -EAGAIN;
	}
	chunk = malloc(sizeof *chunk + total);
	if (!chunk)
		return -ENOMEM;
	*chunk = (struct h2_chunk){ .len = total };
	chunk->data[0] = 0;
	for (int i = 0; i < 4; i++)
		chunk->data[1 + i] = (uint8_t)(len >> (24 - 8 * i));
	rpc_msg_force_utf8((ProtobufCMessage *)m);
	protobuf_c_message_pack(m, chunk->data + PREFIX);
	*s->out_tail = chunk;
	s->out_tail = &chunk->next;
	s->queued += total;
	c->queued += total;
	s->choked |= s->queued >= high(s);
	resume(s);
	return 0;
}

void h2_stream_end(struct h2_stream *s)
{
	s->ending = true;
	resume(s);
}

void h2_stream_reset(struct h2_stream *s, uint32_t code)
{
	if (s->id && s->conn->session)
		nghttp2_submit_rst_stream(s->conn->session, NGHTTP2_FLAG_NONE, s->id, code);
	h2_conn_wake(s->conn);
}

static void unchoke(struct h2_stream *s)
{
	if (!s->choked || s->queued > high(s) / 2)
		return;
	s->choked = false;
	s->writable_due = true;
	h2_stream_ready(s);
}

static size_t take_output(struct h2_stream *s, uint8_t *dst, size_t room)
{
	size_t done = 0;

	while (s->out && done < room) {
		struct h2_chunk *chunk = s->out;
		size_t n = chunk->len - chunk->pos < room - done ? chunk->len - chunk->pos : room - done;

		memcpy(dst + done, chunk->data + chunk->pos, n);
		done += n;
		chunk->pos += n;
		if (chunk->pos < chunk->len)
			break;
		s->out = chunk->next;
		if (!s->out)
			s->out_tail = &s->out;
		free(chunk);
	}
	s->queued -= done;
	s->conn->queued -= done;
	return done;
}

static ssize_t read_output(nghttp2_session *session, int32_t id, uint8_t *dst, size_t room, uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct h2_stream *s = nghttp2_session_get_stream_user_data(session, id), *other;
	struct h2_conn *c;
	size_t n;

	if (!s)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	c = s->conn;
	n = take_output(s, dst, room);
	unchoke(s);
	if (c->starved && c->queued <= H2_QUEUED_MAX / 2) {
		c->starved = false;
		TAILQ_FOREACH(other, &c->streams, link)
			unchoke(other);
	}
	if (!s->out && s->ending) {
		s->ended = true;
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (c->role->server) {
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
			c->role->trailers(s);
		}
	} else if (!n) {
		return NGHTTP2_ERR_DEFERRED;
	}
	return (ssize_t)n;
}

nghttp2_data_provider h2_stream_provider(void) { return (nghttp2_data_provider){ .read_callback = read_output }; }
